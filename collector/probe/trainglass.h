/* trainglass for programs in C and C++: say what a training loop does.
 *
 *     for (each batch) {
 *         trainglass_phase_begin(TRAINGLASS_DATA);
 *         ...
 *         trainglass_phase_end(TRAINGLASS_DATA);
 *         ...
 *         trainglass_step();
 *     }
 *
 * This header is all that you need: it looks for libtrainglass.so at the first call
 * ($TRAINGLASS_LIBRARY, else where the loader finds it) and opens this process's
 * segment there. Without the library, or with TRAINGLASS_LEVEL=off, every call does
 * nothing and costs about a nanosecond. Any thread may call; phases, steps and epochs
 * belong to the one that trains. Nothing here fails, waits or changes errno after the
 * first call. Link with -ldl where libc is older than 2.34.
 */
#ifndef TRAINGLASS_H
#define TRAINGLASS_H

#include <dlfcn.h>
#include <errno.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#ifdef __cplusplus
extern "C" {
#endif

#define TRAINGLASS_MAJOR 1u

enum trainglass_phase {
    TRAINGLASS_DATA = 0,
    TRAINGLASS_FORWARD = 1,
    TRAINGLASS_BACKWARD = 2,
    TRAINGLASS_OPTIMIZER = 3,
};

/* What the library gives; only grows at its end. Use the functions below. */
struct trainglass_verbs {
    uint32_t bytes; /* sizeof of the library's */
    uint32_t major;
    int (*attach)(void);
    const char *(*reason)(void);
    void (*range_push)(const char *name);
    void (*range_pop)(void);
    void (*phase_begin)(uint32_t phase);
    void (*phase_end)(uint32_t phase);
    void (*step)(uint64_t samples);
    void (*epoch)(uint32_t number);
    void (*validation)(uint32_t begins);
    void (*metric)(const char *name, double value);
    void (*memory)(uint32_t type, uint32_t index, int64_t bytes, uint64_t reserved);
    void (*mark)(const char *name);
    void (*thread_name)(const char *name);
    void (*fact_text)(const char *key, const char *value);
    void (*fact_number)(const char *key, int64_t value);
    void (*op_push)(const char *name);
    void (*op_pop)(void);
};

/* One for all files of a program. NULL: not looked for yet. */
__attribute__((weak)) const struct trainglass_verbs *trainglass_verbs_found;

static inline const struct trainglass_verbs *trainglass_look(void)
{
    static const struct trainglass_verbs none;
    const struct trainglass_verbs *(*entry)(void) = NULL, *verbs = &none;
    int saved_errno = errno;
    /* NOLINTNEXTLINE(concurrency-mt-unsafe): the environment is read, never written */
    const char *path = getenv("TRAINGLASS_LIBRARY");
    void *library = dlopen(path != NULL && *path != '\0' ? path : "libtrainglass.so", RTLD_NOW);
    void *symbol = library != NULL ? dlsym(library, "trainglass_verbs") : NULL;

    memcpy(&entry, &symbol, sizeof(entry));
    if (entry != NULL && entry()->major == TRAINGLASS_MAJOR) {
        verbs = entry();
        (void)verbs->attach();
    }
    __atomic_store_n(&trainglass_verbs_found, verbs, __ATOMIC_RELEASE);
    errno = saved_errno;
    return verbs;
}

/* Calls a verb that the library has. */
#define TRAINGLASS_CALL(verb, ...)                                                     \
    do {                                                                               \
        const struct trainglass_verbs *verbs_ =                                        \
            __atomic_load_n(&trainglass_verbs_found, __ATOMIC_ACQUIRE);                \
                                                                                       \
        if (__builtin_expect(verbs_ == NULL, 0))                                       \
            verbs_ = trainglass_look();                                                \
        if (verbs_->bytes > offsetof(struct trainglass_verbs, verb))                   \
            verbs_->verb(__VA_ARGS__);                                                 \
    } while (0)

/* Opens this process's segment now rather than at the first call. 1 when there is one;
 * else trainglass_reason() says why not. */
static inline int trainglass_attach(void)
{
    const struct trainglass_verbs *verbs =
        __atomic_load_n(&trainglass_verbs_found, __ATOMIC_ACQUIRE);

    if (verbs == NULL)
        verbs = trainglass_look();
    return verbs->bytes > 0 && verbs->attach();
}

static inline const char *trainglass_reason(void)
{
    const struct trainglass_verbs *verbs =
        __atomic_load_n(&trainglass_verbs_found, __ATOMIC_ACQUIRE);

    return verbs != NULL && verbs->bytes > 0 ? verbs->reason()
                                             : "libtrainglass.so was not found";
}

/* A named range of the calling thread; ranges nest. The name is copied. */
static inline void trainglass_range_push(const char *name)
{
    TRAINGLASS_CALL(range_push, name);
}

static inline void trainglass_range_pop(void)
{
    TRAINGLASS_CALL(range_pop, );
}

/* An operator of the calling thread: what the table of ops is about. Recorded in full
 * only in the steps that the budget allows, so there may be thousands in a step; a range
 * is for the few things that every step should show. Operators nest, in ranges too. */
static inline void trainglass_op_push(const char *name)
{
    TRAINGLASS_CALL(op_push, name);
}

static inline void trainglass_op_pop(void)
{
    TRAINGLASS_CALL(op_pop, );
}

/* What the training thread is doing. */
static inline void trainglass_phase_begin(enum trainglass_phase phase)
{
    TRAINGLASS_CALL(phase_begin, (uint32_t)phase);
}

static inline void trainglass_phase_end(enum trainglass_phase phase)
{
    TRAINGLASS_CALL(phase_end, (uint32_t)phase);
}

/* Ends a step and begins the next; in a validation it ends a batch. */
static inline void trainglass_step(void)
{
    TRAINGLASS_CALL(step, 0);
}

/* The same for a step that consumed `samples`: gives the throughput. */
static inline void trainglass_step_samples(uint64_t samples)
{
    TRAINGLASS_CALL(step, samples);
}

/* An epoch begins. They are shown from 1; who counts from 0 is understood. */
static inline void trainglass_epoch(uint32_t number)
{
    TRAINGLASS_CALL(epoch, number);
}

/* 1: validation begins, what follows are its batches; 0: it ends. */
static inline void trainglass_validation(int begins)
{
    TRAINGLASS_CALL(validation, begins != 0);
}

static inline void trainglass_metric(const char *name, double value)
{
    TRAINGLASS_CALL(metric, name, value);
}

/* `bytes` were allocated on the host, or freed when negative. */
static inline void trainglass_memory(int64_t bytes)
{
    TRAINGLASS_CALL(memory, 0, 0, bytes, 0);
}

/* The same on a device: `type` as torch counts them (1 is cuda); `reserved` bytes are
 * held by the allocator now, 0 unknown. */
static inline void trainglass_memory_device(uint32_t type, uint32_t index,
                                            int64_t bytes, uint64_t reserved)
{
    TRAINGLASS_CALL(memory, type, index, bytes, reserved);
}

/* Something happened now. */
static inline void trainglass_mark(const char *name)
{
    TRAINGLASS_CALL(mark, name);
}

static inline void trainglass_thread_name(const char *name)
{
    TRAINGLASS_CALL(thread_name, name);
}

/* A fact of the job. */
static inline void trainglass_fact_text(const char *key, const char *value)
{
    TRAINGLASS_CALL(fact_text, key, value);
}

static inline void trainglass_fact_number(const char *key, int64_t value)
{
    TRAINGLASS_CALL(fact_number, key, value);
}

#ifdef __cplusplus
}
#endif

#endif
