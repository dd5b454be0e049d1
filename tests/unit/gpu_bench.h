/* One device, of whose works and whose host a test folds event by event. */
#ifndef TESTS_UNIT_GPU_BENCH_H
#define TESTS_UNIT_GPU_BENCH_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "aggregate/gpu.h"

#define CUDA0 EVENT_DEVICE(1, 0)
#define US    INT64_C(1000)

struct bench {
    struct gpu gpu;
    struct texts *texts;
};

static inline uint32_t text(struct bench *bench, const char *name)
{
    return texts_intern(bench->texts, name, strlen(name));
}

static inline int begin(void **state)
{
    struct bench *bench = calloc(1, sizeof(*bench));

    bench->texts = texts_new();
    gpu_init(&bench->gpu);
    gpu_begin(&bench->gpu, 0);
    gpu_device(&bench->gpu, CUDA0);
    *state = bench;
    return 0;
}

static inline int end(void **state)
{
    struct bench *bench = *state;

    gpu_free(&bench->gpu);
    texts_release(bench->texts);
    free(bench);
    return 0;
}

static inline void host(struct bench *bench, uint8_t kind, const char *name,
                        const int64_t span[2], uint64_t correlation)
{
    struct event event = {.time = (uint64_t)span[0],
                          .value = (uint64_t)(span[1] - span[0]),
                          .meta = EVENT_META(text(bench, name), kind, 0, 0),
                          .aux = correlation};

    gpu_fold(&bench->gpu, bench->texts, &event, 1);
}

static inline void work(struct bench *bench, const char *name, const int64_t span[2],
                        uint32_t stream, uint64_t correlation)
{
    uint8_t kind = strncmp(name, "Memcpy", 6) == 0 ? EVENT_MEMCPY : EVENT_KERNEL;
    struct event events[2] = {
        {.time = (uint64_t)span[0],
         .value = (uint64_t)(span[1] - span[0]),
         .meta = EVENT_META(text(bench, name), kind, 0, CUDA0),
         .aux = correlation},
        {.time = stream, .value = stream, .meta = EVENT_META(0, EVENT_MORE, 0, 1)}};

    gpu_fold(&bench->gpu, bench->texts, events, 2);
}

static inline void step(struct bench *bench, const int64_t span[2], uint8_t flags)
{
    struct event event = {.time = (uint64_t)span[0],
                          .value = (uint64_t)(span[1] - span[0]),
                          .meta = EVENT_META(0, EVENT_STEP, flags, 0)};

    gpu_fold_step(&bench->gpu, &event);
}

static inline const struct gpu_cell *sums(struct bench *bench)
{
    return &gpu_find(&bench->gpu, CUDA0)->run;
}

#define SPAN(from, to) ((const int64_t[2]){(from)*US, (to)*US})

static inline void copy(struct bench *bench, int64_t at_us, uint8_t flags)
{
    struct event events[2] = {
        {.time = (uint64_t)(at_us * US),
         .value = 5 * US,
         .meta = EVENT_META(text(bench, "Memcpy"), EVENT_MEMCPY, flags, CUDA0)},
        {.time = 4096, .value = 7, .meta = EVENT_META(0, EVENT_MORE, 0, 1)}};

    gpu_fold(&bench->gpu, bench->texts, events, 2);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, begin, end)

#endif
