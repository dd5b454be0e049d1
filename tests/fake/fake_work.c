/* The job's half of the fake libcupti: its calls and what the device does for them, as
 * records in the buffers that were asked for. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "fake_cuda.h"
#include "fake_cupti_state.h"

struct filled currents[THREADS], full[BUFFERS];
unsigned full_count;
_Atomic uint64_t last_end_ns;

static uint32_t correlation;
static uint64_t since_delivered; /* launches */
static _Atomic uint64_t small_calls;

/* ---- time -------------------------------------------------------------------------- */

uint64_t ns_of(clockid_t id)
{
    struct timespec now;

    clock_gettime(id, &now);
    return (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
}

/* So long in the clock of this moment; of a counter of more than 2 GHz, shorter. */
static uint64_t ticks_of(uint64_t ns)
{
    return clock_now == 1 ? 2 * ns : ns;
}

/* A stamp of what is `offset_ns` from now. */
uint64_t stamp(uint64_t offset_ns)
{
#if defined(__x86_64__)
    if (clock_now == 1)
        return __builtin_ia32_rdtsc() + ticks_of(offset_ns);
#endif
    return ns_of(CLOCK_REALTIME) + offset_ns;
}

/* ---- records ----------------------------------------------------------------------- */

void seal(struct filled *current)
{
    if (current->bytes == NULL)
        return;
    if (full_count < BUFFERS)
        full[full_count++] = *current;
    else
        dropped++;
    memset(current, 0, sizeof(*current));
}

void seal_all(void)
{
    for (unsigned i = 0; i < THREADS; i++)
        seal(&currents[i]);
}

/* The buffer of the thread that calls. */
static struct filled *current_of(void)
{
    static _Atomic unsigned threads;
    static _Thread_local unsigned thread;

    if (*fault("threads") == 0 && (one_for_all || fake_version() < 130000))
        return &currents[0];
    if (thread == 0)
        thread = ++threads;
    return &currents[thread % THREADS];
}

/* A guest without buffers gives the same one again and drops what comes in it. */
static bool is_lent(const uint8_t *bytes)
{
    for (unsigned i = 0; i < full_count; i++)
        if (full[i].bytes == bytes)
            return true;
    return false;
}

static bool ask_for_buffer(struct filled *current)
{
    size_t records = 0;

    if (request == NULL)
        return false;
    request(&current->bytes, &current->size, &records);
    if (current->bytes == NULL || (uintptr_t)current->bytes % 8 != 0)
        complain("a request for a buffer was answered with NULL or an odd place");
    bool check = zeroed && !kineto && *fault("starve") == 0 && !is_lent(current->bytes);

    for (size_t i = 0; check && i < current->size; i++)
        if (current->bytes[i] != 0)
            complain("a buffer was not zeroed");
    return true;
}

/* Appends a record, which is complete at `ready_ns`. */
static void append(const uint8_t *record, uint32_t kind, uint64_t ready_ns)
{
    size_t size = fake_stride(kind);
    struct filled *current = current_of();

    if (current->bytes != NULL && current->size - current->used < size)
        seal(current);
    if (current->bytes == NULL && !ask_for_buffer(current)) {
        dropped++;
        return;
    }
    memcpy(current->bytes + current->used, record, size);
    current->used += size;
    if (ready_ns > current->ready_ns)
        current->ready_ns = ready_ns;
}

#define PUT(record, offset, value) memcpy((record) + (offset), &(value), sizeof(value))

/* A call that was put in alone, after there was a context, records nothing. */
static bool call_is_on(uint32_t kind, uint32_t call)
{
    return kinds[kind] && !stopped && !calls_off[kind == RUNTIME][call];
}

static void add_call(uint32_t kind, uint32_t call, uint64_t start, uint64_t end,
                     uint32_t id)
{
    uint8_t record[64] = {0};
    uint32_t pid = (uint32_t)getpid(), result = (uint32_t)broken;
    uint32_t tid = system_threads ? (uint32_t)syscall(SYS_gettid)
                                  : (uint32_t)(uintptr_t)pthread_self();

    PUT(record, 0, kind);
    PUT(record, 4, call);
    PUT(record, 8, start);
    PUT(record, 16, end);
    PUT(record, 24, pid);
    PUT(record, 28, tid);
    PUT(record, 32, id);
    PUT(record, 36, result);
    append(record, kind, 0);
}

/* What frameworks ask all day long. */
static void add_small_calls(void)
{
    bool runtime = call_is_on(RUNTIME, GET_DEVICE);
    bool driver = call_is_on(DRIVER, GET_CONTEXT);

    if (runtime)
        add_call(RUNTIME, GET_DEVICE, stamp(0), stamp(0), ++correlation);
    if (driver)
        add_call(DRIVER, GET_CONTEXT, stamp(0), stamp(0), ++correlation);
    small_calls += runtime + driver;
}

struct work {
    uint32_t kind, device, stream;
    uint32_t call, driver_call; /* of the runtime; of the driver, in it or alone */
    uint32_t from_device;
    const char *name;
    uint64_t bytes, duration_ns, node;
    uint32_t graph;
    uint8_t from;
};

static void fill_kernel(uint8_t *record, const struct work *work, uint32_t id,
                        const uint64_t times[2])
{
    const uint32_t grid[3] = {128, 2, 1}, block[3] = {256, 1, 1};
    const uint32_t shared = 4096;
    const uint16_t registers = 64;
    const char *stale = (const char *)(uintptr_t)4096, *name = work->name;

    if (*fault("stale") != 0 && id % *fault("stale") == 0)
        name = stale;
    PUT(record, 6, registers);
    PUT(record, 16, times[0]);
    PUT(record, 24, times[1]);
    PUT(record, 40, work->device);
    PUT(record, 44, context_now);
    PUT(record, 48, work->stream);
    PUT(record, 52, grid);
    PUT(record, 64, block);
    PUT(record, 80, shared);
    PUT(record, 92, id);
    PUT(record, 104, name);
    PUT(record, 144, work->node);
    PUT(record, 156, work->graph);
}

static void fill_move(uint8_t *record, const struct work *work, uint32_t id,
                      const uint64_t times[2])
{
    const uint8_t way = 1, to = 3;
    const uint16_t memory = 3;

    if (work->kind == MEMCPY) {
        PUT(record, 4, way);
        PUT(record, 5, work->from);
        PUT(record, 6, to);
    } else {
        PUT(record, 50, memory);
    }
    PUT(record, 8, work->bytes);
    PUT(record, 16, times[0]);
    PUT(record, 24, times[1]);
    PUT(record, 32, work->device);
    PUT(record, 40, work->stream);
    PUT(record, 44, id);
}

static void fill_peer_copy(uint8_t *record, const struct work *work, uint32_t id,
                           const uint64_t times[2])
{
    const uint8_t way = 10, memory = 3;

    PUT(record, 4, way);
    PUT(record, 5, memory);
    PUT(record, 6, memory);
    PUT(record, 8, work->bytes);
    PUT(record, 16, times[0]);
    PUT(record, 24, times[1]);
    PUT(record, 32, work->device);
    PUT(record, 36, context_now);
    PUT(record, 40, work->stream);
    PUT(record, 44, work->from_device);
    PUT(record, 52, work->device);
    PUT(record, 60, id);
}

static void fill_graph(uint8_t *record, const struct work *work, uint32_t id,
                       const uint64_t times[2])
{
    const uint32_t behind_host = (uint32_t)*fault("host-first");
    const uint32_t first = behind_host != 0 ? INT32_MAX : work->device;
    const uint32_t last = behind_host != 0 ? behind_host : work->device;

    PUT(record, 4, id);
    PUT(record, 8, times[0]);
    PUT(record, 16, times[1]);
    PUT(record, 24, first);
    PUT(record, 28, work->graph);
    PUT(record, 32, context_now);
    PUT(record, 36, work->stream);
    PUT(record, 48, last);
}

/* What a reader of the records must find, whatever the machine did in between. */
static void tell(uint32_t id, uint64_t behind_ns)
{
    static FILE *file;
    const char *path = getenv("FAKE_CUPTI_TOLD");

    if (file == NULL && path != NULL)
        file = fopen(path, "we");
    if (file != NULL) {
        fprintf(file, "%u %llu\n", id, (unsigned long long)behind_ns);
        fflush(file);
    }
}

static void add_work(const struct work *work, uint32_t id, uint64_t ready_ns,
                     uint64_t launched)
{
    uint8_t record[256] = {0};
    uint64_t start = stamp(1000);
    uint64_t times[2] = {start, start + ticks_of(work->duration_ns)};
    uint64_t zero = *fault("zero"), unknown = *fault("unknown");
    uint32_t kind = work->kind;

    if (kind == KERNEL)
        tell(id, times[0] - launched);
    if (kind == KERNEL && zero != 0 && id % zero == 0)
        times[0] = times[1] = 0;
    if (kind == KERNEL && unknown != 0 && id % unknown == 0)
        kind = 55;
    /* No call is recorded that it could correlate with; a graph has its number all the same
     * (CUPTI 13.0 on an H200). */
    if (!kinds[RUNTIME] && !kinds[DRIVER] && work->kind != GRAPH)
        id = 0;
    PUT(record, 0, kind);
    if (work->kind == KERNEL)
        fill_kernel(record, work, id, times);
    else if (work->kind == GRAPH)
        fill_graph(record, work, id, times);
    else if (work->kind == PEER_COPY)
        fill_peer_copy(record, work, id, times);
    else
        fill_move(record, work, id, times);
    append(record, kind, ready_ns);
}

/* A graph is instantiated by its first launch. While its kind is on no nodes are told, and as
 * a whole only a graph that was instantiated since. True when there is something to tell. */
static bool tells_graph(struct work *work, uint32_t *pieces)
{
    static struct {
        bool known, whole;
    } graphs[64];
    uint32_t at = work->graph % 64;

    if (!graphs[at].known)
        graphs[at].whole = kinds[GRAPH];
    graphs[at].known = true;
    if (!kinds[GRAPH])
        return true;
    work->kind = GRAPH;
    *pieces = 1;
    return graphs[at].whole;
}

/* One of the driver's inside of one of the runtime's ends before it, and has its number. */
static void add_calls(const struct work *work, uint64_t start, uint32_t id)
{
    bool driver = work->driver_call != 0 && call_is_on(DRIVER, work->driver_call);
    uint64_t inner = work->call != 0 ? stamp(0) : start;

    if (driver)
        add_call(DRIVER, work->driver_call, inner, stamp(0), id);
    if (work->call != 0 && call_is_on(RUNTIME, work->call))
        add_call(RUNTIME, work->call, start, stamp(0), id);
}

/* So many pieces of work by one launch. */
static uint32_t do_work(struct work *work, uint32_t pieces)
{
    pthread_mutex_lock(&lock);
    uint64_t start = stamp(0), now = ns_of(CLOCK_MONOTONIC);
    uint32_t id = ++correlation;

    since_delivered += delivered;
    if (delivered && since_delivered == *fault("steal-after"))
        steal();
    if (delivered && since_delivered == *fault("finalize-after"))
        finalize();
    stopped |= delivered && since_delivered == *fault("stop-after");
    add_calls(work, start, id);
    bool tells = work->graph == 0 || tells_graph(work, &pieces);

    if (!tells || !kinds[work->kind] || stopped || broken != 0)
        pieces = 0;
    for (uint32_t i = 0; i < pieces; i++) {
        work->node = work->graph == 0 ? 0 : (uint64_t)work->graph << 32 | i;
        add_work(work, id, now + 1000 + work->duration_ns, start);
    }
    /* Read after the stamps of its record: who waits for it waits until they are past. */
    uint64_t end = ns_of(CLOCK_MONOTONIC) + 1000 + work->duration_ns;

    if (end > last_end_ns)
        last_end_ns = end;
    pthread_mutex_unlock(&lock);
    return id;
}

uint32_t fake_launch(const char *name, uint32_t device, uint32_t stream,
                     uint64_t duration_ns)
{
    return do_work(&(struct work){.kind = KERNEL,
                                  .device = device,
                                  .stream = stream,
                                  .call = LAUNCH_KERNEL,
                                  .name = name,
                                  .duration_ns = duration_ns},
                   1);
}

uint32_t fake_launch_by_driver(const char *name, int inside, uint32_t stream,
                               uint64_t duration_ns)
{
    const uint32_t call = inside ? DRIVER_LAUNCH : DRIVER_LAUNCH_EX;

    return do_work(&(struct work){.kind = KERNEL,
                                  .stream = stream,
                                  .call = inside ? LAUNCH_KERNEL : 0,
                                  .driver_call = call,
                                  .name = name,
                                  .duration_ns = duration_ns},
                   1);
}

void fake_graph(uint32_t graph, uint32_t nodes, uint64_t duration_ns)
{
    (void)do_work(&(struct work){.kind = KERNEL,
                                 .stream = 7,
                                 .call = LAUNCH_GRAPH,
                                 .name = "node_kernel",
                                 .duration_ns = duration_ns,
                                 .graph = graph},
                  nodes);
}

uint32_t fake_copy(uint64_t bytes, int pageable, uint64_t duration_ns)
{
    return do_work(&(struct work){.kind = MEMCPY,
                                  .stream = 7,
                                  .call = MEMCPY_ASYNC,
                                  .bytes = bytes,
                                  .from = pageable ? 1 : 2,
                                  .duration_ns = duration_ns},
                   1);
}

uint32_t fake_memset(uint64_t bytes, uint64_t duration_ns)
{
    return do_work(&(struct work){.kind = MEMSET,
                                  .stream = 7,
                                  .call = MEMSET_ASYNC,
                                  .bytes = bytes,
                                  .duration_ns = duration_ns},
                   1);
}

uint32_t fake_peer_copy(uint64_t bytes, uint32_t from, uint32_t to,
                        uint64_t duration_ns)
{
    return do_work(&(struct work){.kind = PEER_COPY,
                                  .device = to,
                                  .from_device = from,
                                  .stream = 7,
                                  .call = PEER_ASYNC,
                                  .bytes = bytes,
                                  .duration_ns = duration_ns},
                   1);
}

void fake_overhead(uint32_t what, uint64_t duration_ns)
{
    uint8_t record[64] = {0};
    uint32_t kind = OVERHEAD;

    pthread_mutex_lock(&lock);
    uint64_t end = stamp(0), start = end - ticks_of(duration_ns);

    PUT(record, 0, kind);
    PUT(record, 4, what);
    PUT(record, 24, start);
    PUT(record, 32, end);
    if (kinds[OVERHEAD] && !stopped)
        append(record, OVERHEAD, 0);
    pthread_mutex_unlock(&lock);
}

void fake_synchronize(void)
{
    uint64_t start = stamp(0);

    while (ns_of(CLOCK_MONOTONIC) < last_end_ns)
        ;
    pthread_mutex_lock(&lock);
    if (call_is_on(RUNTIME, SYNCHRONIZE))
        add_call(RUNTIME, SYNCHRONIZE, start, stamp(0), ++correlation);
    add_small_calls();
    pthread_mutex_unlock(&lock);
    his_waits++;
}

void fake_forget(void)
{
    last_end_ns = 0;
}

/* The kernel has begun, and will not end. */
void fake_break(int error)
{
    struct work work = {.kind = KERNEL, .stream = 7, .name = "breaks"};
    uint8_t record[256] = {0};

    pthread_mutex_lock(&lock);
    uint64_t times[2] = {stamp(0), 0};

    PUT(record, 0, work.kind);
    fill_kernel(record, &work, ++correlation, times);
    if (kinds[KERNEL] && !stopped)
        append(record, KERNEL, UINT64_MAX);
    broken = error;
    last_end_ns = 0;
    pthread_mutex_unlock(&lock);
}

int fake_error(void)
{
    return broken;
}

void fake_profiler(int on)
{
    pthread_mutex_lock(&lock);
    stopped = !on;
    pthread_mutex_unlock(&lock);
}

int fake_is_watched(int kind)
{
    pthread_mutex_lock(&lock);
    bool watched = request != NULL && (kind == 0 || kinds[kind]) &&
                   (kind != KERNEL || call_is_on(RUNTIME, LAUNCH_KERNEL));

    pthread_mutex_unlock(&lock);
    return watched;
}

uint64_t fake_small_calls(void)
{
    return small_calls;
}
