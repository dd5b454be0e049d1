/* How CUPTI behaves where its manual is silent, one question a process:
 *
 *     coexist LIBCUPTI never|running|disabled|held|toggle|calls
 *
 * prints one line of JSON. Needs a GPU; libcuda and libcupti come by dlopen. */
#include <dlfcn.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum { MEMSET = 2, RUNTIME = 5, DRIVER = 4, KERNEL = 10 };

static int (*next_record)(uint8_t *, size_t, void **);
static unsigned records, with_correlation, buffers;
static uint32_t kinds_seen[64];

static void request(uint8_t **buffer, size_t *size, size_t *count)
{
    *buffer = calloc(1, 131072);
    *size = 131072;
    *count = 0;
}

static void complete(void *context, uint32_t stream, uint8_t *buffer, size_t size,
                     size_t valid)
{
    void *record = NULL;

    (void)context, (void)stream, (void)size;
    buffers++;
    while (valid > 0 && next_record(buffer, valid, &record) == 0) {
        uint32_t kind, correlation = 0;

        memcpy(&kind, record, 4);
        if (kind == MEMSET)
            memcpy(&correlation, (uint8_t *)record + 44, 4);
        records++;
        with_correlation += correlation != 0;
        kinds_seen[kind % 64]++;
    }
    free(buffer);
}

static void ignore(void *user, uint32_t domain, uint32_t call, const void *data)
{
    (void)user, (void)domain, (void)call, (void)data;
}

static void *cuda, *cupti;

static void *symbol(void *library, const char *name)
{
    void *found = dlsym(library, name);

    if (found == NULL) {
        printf("{\"error\": \"no %s\"}\n", name);
        exit(1);
    }
    return found;
}

#define CALL(library, name, types, ...)                                                \
    (((int(*) types)symbol(library, name))(__VA_ARGS__))

static double now_us(void)
{
    struct timespec now;

    clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)now.tv_sec * 1e6 + (double)now.tv_nsec / 1e3;
}

static uint64_t memory;

static void work(int launches)
{
    for (int i = 0; i < launches; i++)
        CALL(cuda, "cuMemsetD32Async", (uint64_t, unsigned, size_t, void *), memory, 1,
             1024, NULL);
    CALL(cuda, "cuCtxSynchronize", (void), );
}

static int enable(uint32_t kind)
{
    return CALL(cupti, "cuptiActivityEnable", (uint32_t), kind);
}

static int subscribe(void **handle)
{
    return CALL(cupti, "cuptiSubscribe", (void **, void *, void *), handle,
                (void *)ignore, NULL);
}

static int start(void)
{
    int error = CALL(cupti, "cuptiActivityRegisterCallbacks", (void *, void *),
                     (void *)request, (void *)complete);
    int kernel = enable(KERNEL), memset_error = enable(MEMSET);

    return error != 0 ? error : kernel != 0 ? kernel : memset_error;
}

static void stop(void)
{
    CALL(cupti, "cuptiActivityDisable", (uint32_t), KERNEL);
    CALL(cupti, "cuptiActivityDisable", (uint32_t), MEMSET);
    CALL(cupti, "cuptiActivityFlushAll", (uint32_t), 0);
}

static void toggle(void)
{
    double on = 0, off = 0, flush = 0;

    start();
    work(1000);
    for (int i = 0; i < 200; i++) {
        double a = now_us();

        enable(KERNEL), enable(MEMSET), enable(RUNTIME), enable(DRIVER);
        double b = now_us();

        work(100);
        double c = now_us();

        CALL(cupti, "cuptiActivityFlushAll", (uint32_t), 0);
        double d = now_us();

        stop();
        on += b - a, flush += d - c, off += now_us() - d;
    }
    printf(
        "{\"enable_us\": %.1f, \"flush_us\": %.1f, \"disable_and_flush_us\": %.1f}\n",
        on / 200, flush / 200, off / 200);
}

static void answer(const char *question)
{
    void *handle = NULL;
    int begun = -1, subscribed = -1, fine = -1;

    if (strcmp(question, "toggle") == 0) {
        toggle();
        return;
    }
    if (strcmp(question, "held") == 0)
        subscribed = subscribe(&handle);
    if (strcmp(question, "never") != 0)
        begun = start();
    if (strcmp(question, "calls") == 0) {
        fine = 0;
        for (uint32_t call = 200; call < 300;
             call++) /* cuMemsetD32Async and its like */
            fine |= CALL(cupti, "cuptiActivityEnableDriverApi", (uint32_t, uint8_t),
                         call, 1);
    }
    work(1000);
    if (strcmp(question, "disabled") == 0)
        stop();
    if (strcmp(question, "held") != 0)
        subscribed = subscribe(&handle);
    work(1000);
    CALL(cupti, "cuptiActivityFlushAll", (uint32_t), 1);
    printf("{\"start\": %d, \"subscribe\": %d, \"enable_calls\": %d, \"records\": %u, "
           "\"with_correlation\": %u, \"calls\": %u, \"buffers\": %u}\n",
           begun, subscribed, fine, records, with_correlation,
           kinds_seen[DRIVER] + kinds_seen[RUNTIME], buffers);
}

int main(int count, char **words)
{
    void *context = NULL;
    int device = 0;

    cuda = dlopen("libcuda.so.1", RTLD_NOW | RTLD_GLOBAL);
    if (cuda == NULL || count < 3) {
        printf("{\"error\": \"no libcuda.so.1\"}\n");
        return 1;
    }
    int error = CALL(cuda, "cuInit", (unsigned), 0);

    if (error == 0)
        error =
            CALL(cuda, "cuDevicePrimaryCtxRetain", (void **, int), &context, device);
    if (error == 0)
        error = CALL(cuda, "cuCtxSetCurrent", (void *), context);
    if (error == 0)
        error = CALL(cuda, "cuMemAlloc_v2", (uint64_t *, size_t), &memory, 4096);
    cupti = error == 0 ? dlopen(words[1], RTLD_NOW) : NULL;
    if (cupti == NULL) {
        printf("{\"error\": \"CUDA error %d, or no %s\"}\n", error, words[1]);
        return 1;
    }
    *(void **)&next_record = symbol(cupti, "cuptiActivityGetNextRecord");
    answer(words[2]);
    return 0;
}
