/* How CUPTI behaves where its manual is silent, one question a process:
 *
 *     coexist LIBCUPTI QUESTION
 *
 *   never, running, disabled  does cuptiSubscribe succeed beside a session without one that
 *                             never was, runs, or is turned off
 *   held                      do kinds turn on while somebody else is subscribed
 *   calls-alone, calls-again  is one call recorded that is put in after the context was
 *                             made; and after its kind was on and off again
 *   calls-but                 the kind on, all other calls taken out; and what that takes
 *   buffers                   who gets a buffer that another one gave; do empty ones come
 *   version                   of library and driver, and which newer ways the library has
 *   graph-nodes, graph-whole  a graph of memsets by its nodes, and as one (GRAPH_TRACE)
 *   graph-called              as one, with a record of each call
 *   graph-late, graph-back    as one from behind its instantiation on; no more from there on
 *   toggle                    what turning kinds on and off costs
 *
 * prints one line of JSON. Needs a GPU; libcuda and libcupti come by dlopen. */
#include <dlfcn.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

enum { MEMSET = 2, RUNTIME = 5, DRIVER = 4, KERNEL = 10, GRAPH_TRACE = 51 };

static int (*next_record)(uint8_t *, size_t, void **);
static unsigned records, with_correlation, buffers, requested, of_the_call;
static unsigned graphs_with_correlation;
static unsigned foreign, foreign_given_back, completed_on_main;
static long main_thread;
static uint32_t kinds_seen[64], memset_call;

static void request(uint8_t **buffer, size_t *size, size_t *count)
{
    requested++;
    *buffer = calloc(1, 131072);
    *size = 131072;
    *count = 0;
}

/* Another one's: told apart by their size. */
static void request_other(uint8_t **buffer, size_t *size, size_t *count)
{
    *buffer = calloc(1, 65536);
    *size = 65536;
    *count = 0;
}

static void complete_other(void *context, uint32_t stream, uint8_t *buffer, size_t size,
                           size_t valid)
{
    (void)context, (void)stream, (void)valid;
    foreign_given_back += size == 131072;
    foreign++;
    free(buffer);
}

static void complete(void *context, uint32_t stream, uint8_t *buffer, size_t size,
                     size_t valid)
{
    void *record = NULL;

    (void)context, (void)stream, (void)size;
    buffers++;
    completed_on_main += syscall(SYS_gettid) == main_thread;
    while (valid > 0 && next_record(buffer, valid, &record) == 0) {
        uint32_t kind, correlation = 0;

        memcpy(&kind, record, 4);
        if (kind == MEMSET)
            memcpy(&correlation, (uint8_t *)record + 44, 4);
        with_correlation += correlation != 0;
        records++;
        if (kind == DRIVER || kind == GRAPH_TRACE)
            memcpy(&correlation, (uint8_t *)record + 4, 4);
        graphs_with_correlation += kind == GRAPH_TRACE && correlation != 0;
        of_the_call += kind == DRIVER && correlation == memset_call;
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
        fflush(stdout);
        _exit(1);
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

static void launch(int launches, size_t words)
{
    for (int i = 0; i < launches; i++)
        CALL(cuda, "cuMemsetD32Async", (uint64_t, unsigned, size_t, void *), memory, 1,
             words, NULL);
}

static void work(int launches)
{
    launch(launches, 1024);
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

static const char *call_name(uint32_t call)
{
    const char *name = NULL;

    return CALL(cupti, "cuptiGetCallbackName", (uint32_t, uint32_t, const char **), 1,
                call, &name) == 0
               ? name
               : NULL;
}

static int put(uint32_t call, int in)
{
    return CALL(cupti, "cuptiActivityEnableDriverApi", (uint32_t, uint8_t), call,
                (uint8_t)in);
}

static void forget(void)
{
    CALL(cupti, "cuptiActivityFlushAll", (uint32_t), 0);
    records = with_correlation = of_the_call = buffers = 0;
    memset(kinds_seen, 0, sizeof(kinds_seen));
}

static void calls(const char *question)
{
    unsigned switched = 0;
    int error = start();
    double from = now_us();

    for (uint32_t call = 1; call < 1280; call++)
        if (call_name(call) != NULL && strcmp(call_name(call), "cuMemsetD32Async") == 0)
            memset_call = call;
    double names_us = now_us() - from;

    if (strcmp(question, "calls-alone") != 0)
        error |= enable(DRIVER);
    work(10);
    if (strcmp(question, "calls-again") == 0)
        error |= CALL(cupti, "cuptiActivityDisable", (uint32_t), DRIVER);
    forget();
    from = now_us();
    if (strcmp(question, "calls-but") != 0)
        error |= put(memset_call, 1);
    for (uint32_t call = 1; strcmp(question, "calls-but") == 0 && call < 1280; call++)
        if (call != memset_call && call_name(call) != NULL) {
            error |= put(call, 0);
            switched++;
        }
    double switch_us = now_us() - from;

    work(1000);
    CALL(cupti, "cuptiActivityFlushAll", (uint32_t), 1);
    printf("{\"error\": %d, \"memsets\": %u, \"with_correlation\": %u, \"calls\": %u, "
           "\"of_the_call\": %u, \"switched\": %u, \"switch_us\": %.1f, "
           "\"names_us\": %.1f}\n",
           error, kinds_seen[MEMSET], with_correlation, kinds_seen[DRIVER], of_the_call,
           switched, switch_us, names_us);
}

static void give_and_take(void)
{
    size_t words = (size_t)64 << 20;
    int error = CALL(cuda, "cuMemAlloc_v2", (uint64_t *, size_t), &memory, 4 * words);

    error |= start() | enable(DRIVER);
    work(1000);
    CALL(cupti, "cuptiActivityFlushAll", (uint32_t), 0);
    unsigned kept = requested - buffers;

    launch(200, words); /* still at it below */
    error |= CALL(cupti, "cuptiActivityRegisterCallbacks", (void *, void *),
                  (void *)request_other, (void *)complete_other);
    unsigned before = buffers;

    CALL(cuda, "cuCtxSynchronize", (void), );
    CALL(cupti, "cuptiActivityFlushAll", (uint32_t), 1);
    printf("{\"error\": %d, \"requested\": %u, \"kept_after_a_flush_of_the_idle\": %u, "
           "\"given_back_to_us_after\": %u, \"given_to_the_other\": %u, "
           "\"of_them_ours\": %u, \"completed_on_the_thread_that_flushes\": %u}\n",
           error, requested, kept, buffers - before, foreign, foreign_given_back,
           completed_on_main);
}

static void version(void)
{
    uint32_t library = 0;
    int driver = 0;

    (void)CALL(cupti, "cuptiGetVersion", (uint32_t *), &library);
    (void)CALL(cuda, "cuDriverGetVersion", (int *), &driver);
    printf("{\"cupti\": %u, \"driver\": %d, \"subscribe_v2\": %d, \"enable_v2\": %d, "
           "\"hardware_trace\": %d}\n",
           library, driver, dlsym(cupti, "cuptiSubscribe_v2") != NULL,
           dlsym(cupti, "cuptiActivityEnable_v2") != NULL,
           dlsym(cupti, "cuptiActivityEnableHWTrace") != NULL);
}

/* A graph of ten memsets, launched a hundred times: by its nodes; as a whole, without and
 * with calls; as a whole from after it was instantiated on; no longer as a whole from then
 * on. */
static void graph(const char *question)
{
    void *stream = NULL, *captured = NULL, *executable = NULL;
    int whole = strcmp(question, "graph-whole") == 0,
        called = strcmp(question, "graph-called") == 0,
        late = strcmp(question, "graph-late") == 0,
        back = strcmp(question, "graph-back") == 0;
    int error = CALL(cuda, "cuStreamCreate", (void **, unsigned), &stream, 1);

    error |= CALL(cupti, "cuptiActivityRegisterCallbacks", (void *, void *),
                  (void *)request, (void *)complete);
    if (whole || called || back)
        error |= enable(GRAPH_TRACE);
    if (!whole && !late)
        error |= start();
    if (called)
        error |= enable(DRIVER);
    error |= CALL(cuda, "cuStreamBeginCapture_v2", (void *, int), stream, 0);
    for (int i = 0; i < 10; i++)
        error |= CALL(cuda, "cuMemsetD32Async", (uint64_t, unsigned, size_t, void *),
                      memory, 1, (size_t)1024, stream);
    error |= CALL(cuda, "cuStreamEndCapture", (void *, void **), stream, &captured);
    error |= CALL(cuda, "cuGraphInstantiateWithFlags", (void **, void *, uint64_t),
                  &executable, captured, 0);
    if (late)
        error |= start() | enable(GRAPH_TRACE);
    if (back)
        error |= CALL(cupti, "cuptiActivityDisable", (uint32_t), GRAPH_TRACE);
    double from = now_us();

    for (int i = 0; i < 100; i++)
        error |= CALL(cuda, "cuGraphLaunch", (void *, void *), executable, stream);
    error |= CALL(cuda, "cuCtxSynchronize", (void), );
    double took_us = now_us() - from;

    CALL(cupti, "cuptiActivityFlushAll", (uint32_t), 1);
    printf("{\"error\": %d, \"memsets\": %u, \"kernels\": %u, \"graphs\": %u, "
           "\"graphs_with_correlation\": %u, \"us_a_launch\": %.2f}\n",
           error, kinds_seen[MEMSET], kinds_seen[KERNEL], kinds_seen[GRAPH_TRACE],
           graphs_with_correlation, took_us / 100);
}

static void answer(const char *question)
{
    void *handle = NULL;
    int begun = -1, subscribed = -1;

    if (strcmp(question, "toggle") == 0) {
        toggle();
        return;
    }
    if (strcmp(question, "version") == 0) {
        version();
        return;
    }
    if (strncmp(question, "graph-", 6) == 0) {
        graph(question);
        return;
    }
    if (strcmp(question, "buffers") == 0) {
        give_and_take();
        return;
    }
    if (strncmp(question, "calls-", 6) == 0) {
        calls(question);
        return;
    }
    if (strcmp(question, "held") == 0)
        subscribed = subscribe(&handle);
    if (strcmp(question, "never") != 0)
        begun = start();
    work(1000);
    if (strcmp(question, "disabled") == 0)
        stop();
    if (strcmp(question, "held") != 0)
        subscribed = subscribe(&handle);
    work(1000);
    CALL(cupti, "cuptiActivityFlushAll", (uint32_t), 1);
    printf("{\"start\": %d, \"subscribe\": %d, \"records\": %u, "
           "\"with_correlation\": %u, \"buffers\": %u}\n",
           begun, subscribed, records, with_correlation, buffers);
}

int main(int count, char **words)
{
    void *context = NULL;
    int device = 0;

    main_thread = syscall(SYS_gettid);
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
    fflush(stdout); /* whatever happens at exit */
    return 0;
}
