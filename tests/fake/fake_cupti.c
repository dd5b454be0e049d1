/* A fake libcupti.so, for tests alone. It speaks the strides of FAKE_CUPTI_VERSION
 * ("11.8", "12.4", "13.0"), holds one lock while it calls back, as the real one may, and
 * is strict: what a guest must not do ends the job with exit code 99 and a line.
 *
 * Misbehaviour, by fake_fault() or FAKE_CUPTI_FAULT="name=value,name=value":
 *   late=n       keeps what is complete for n flushes     reverse=1  newest buffer first
 *   zero=n       every n-th kernel has no times           drop=n     n records dropped
 *   drop-off=n   n records are dropped each time kernels are turned off
 *   no-graphs=n  cuptiActivityEnable of graphs as a whole returns n
 *   host-first=n graphs as a whole begin on the host and end on device n
 *   unknown=n    every n-th kernel is of a kind of the future
 *   enable=n     cuptiActivityEnable returns n            subscribe=n  cuptiSubscribe, n
 *   clock=1      another clock from now on                steal=1    others' callbacks
 *   steal-after=n  the same, n launches after the first buffer was given back
 *   stop-after=n, finalize-after=n  likewise: as after cudaProfilerStop, nothing is recorded
 *                until the next cuptiActivityEnable; as after cuptiFinalize, all is forgotten
 *   hang=n       the n-th flush never returns, or when the file is there that
 *                FAKE_CUPTI_HANGS_UNTIL names             exit=n     a flush calls exit(n)
 *   hang-on=1, hang-off=1, hang-register=1, hang-subscribe=1  likewise a guest's call that
 *                turns kernels on or off, registers callbacks, subscribes; FAKE_CUPTI_HANGS
 *                names a file that is made then
 *   exit-late=n  a flush calls exit(n) when its first buffer is back
 *   kill=1       a flush kills the process, by the same time
 *   starve=1     keeps every buffer           stale=n  every n-th name is no memory
 *   hold-off=1   by fake_hold() alone: a guest who turns kernels off waits in that call for
 *                fake_release()
 *   hold-time=1, hold-read=1  likewise one who asks for the time, or what was dropped, behind
 *                a flush that brought something
 *   slow-subscribe=n  a guest's cuptiSubscribe takes n ms
 *   slow-flush=n  a guest's flush takes n ms
 *   slow-register=n  the first time that a guest registers callbacks takes n ms
 *   threads=1    each thread has a buffer of its own, as 13.0 has it, whatever is wished
 *   flush-error=n  a flush gives nothing back and returns n
 *   garbage=n    every n-th buffer is no records from its middle on
 *   overlong=n   every n-th buffer is said to hold more than it can
 *
 * FAKE_CUPTI_TOLD names a file for one line per kernel: its correlation, and by how many
 * ns its stamp of the start lies behind that of its launch.
 */
#include <fcntl.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "fake_cuda.h"
#include "fake_cupti_state.h"

/* The host has waited so often and nothing came: who counts his steps knows why. */
#define WAITS_KNOWN 3u

pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
bool kinds[KINDS], calls_off[2][CALLS], delivered, stopped;
request_function *request;
size_t dropped;
uint32_t context_now = 1;
_Atomic bool zeroed, system_threads, one_for_all;
_Atomic int clock_now, broken;
_Atomic unsigned his_waits;
_Thread_local bool kineto;

static complete_function *complete;
static _Atomic unsigned flushes, flushes_begun;
static uint64_t kineto_kernels;
static _Atomic bool subscribed, was_subscribed;
static _Atomic bool brought; /* something, the last flush */

static struct fault {
    const char *name;
    _Atomic uint64_t value;
} faults[] = {{"late", 0},           {"reverse", 0},        {"zero", 0},
              {"drop", 0},           {"unknown", 0},        {"enable", 0},
              {"subscribe", 0},      {"clock", 0},          {"steal", 0},
              {"hang", 0},           {"exit", 0},           {"starve", 0},
              {"steal-after", 0},    {"exit-late", 0},      {"kill", 0},
              {"stale", 0},          {"slow-subscribe", 0}, {"stop-after", 0},
              {"finalize-after", 0}, {"drop-off", 0},       {"threads", 0},
              {"slow-flush", 0},     {"flush-error", 0},    {"garbage", 0},
              {"overlong", 0},       {"hang-on", 0},        {"hang-off", 0},
              {"hang-register", 0},  {"hang-subscribe", 0}, {"no-graphs", 0},
              {"host-first", 0},     {"hold-off", 0},       {"hold-read", 0},
              {"hold-time", 0},      {"slow-register", 0}};

void complain(const char *what)
{
    fprintf(stderr, "fake libcupti: %s\n", what);
    _exit(99);
}

/* ---- faults ------------------------------------------------------------------------ */

_Atomic uint64_t *fault(const char *name)
{
    for (size_t i = 0; i < sizeof(faults) / sizeof(faults[0]); i++)
        if (strcmp(faults[i].name, name) == 0)
            return &faults[i].value;
    complain(name);
    return NULL;
}

/* ---- whose kinds they are ---------------------------------------------------------- */

/* What who is not our guest has turned on; and what of it the guest has turned off when he
 * could not know, and has to turn on again. Under the lock. */
static bool theirs[KINDS], owed[KINDS], pays; /* he has begun to */
static _Atomic bool foreign;                  /* somebody else records */
static _Atomic bool his_clock;                /* he has set another one for that */
static _Atomic bool announced;                /* the guest was told that he comes */
static _Atomic bool is_known; /* the guest has made a call that tells him so */

static void come(void)
{
    his_waits = 0;
    his_clock = is_known = false;
    foreign = true;
}

static void go(void)
{
    memset(theirs, 0, sizeof(theirs));
    memset(owed, 0, sizeof(owed));
    foreign = false;
}

/* What a call tells the guest: the time, by whose clock it is; any, that time has passed. */
static void notice(bool asks_for_time)
{
    if (foreign && ((asks_for_time && his_clock) || his_waits >= WAITS_KNOWN))
        is_known = true;
}

/* The guest turns it off; CUDA graphs as a whole are his alone, and keep the nodes from
 * others. Holds the lock. */
static void check_owner(uint32_t kind)
{
    if (kind == GRAPH || !theirs[kind])
        return;
    if (is_known)
        complain("somebody else's kinds were turned off");
    owed[kind] = his_clock || announced;
}

static bool is_owing(void)
{
    bool owing = false;

    for (size_t i = 0; i < KINDS; i++)
        owing |= owed[i];
    return owing;
}

static void check_debts(void)
{
    pthread_mutex_lock(&lock);
    if (is_owing())
        complain("somebody else's kinds stayed off");
    pthread_mutex_unlock(&lock);
}

int fake_is_restored(void)
{
    pthread_mutex_lock(&lock);
    bool restored = pays && !is_owing();

    pthread_mutex_unlock(&lock);
    return restored;
}

/* Where the guest waits until he is let go, once. */
static _Atomic bool armed, held, released;

static void hold(const char *name)
{
    if (!armed || kineto || *fault(name) == 0)
        return;
    *fault(name) = 0;
    armed = false;
    for (held = true; !released;)
        usleep(1000);
    held = false;
}

void fake_announce(int comes)
{
    announced = comes != 0;
}

void fake_hold(const char *name)
{
    released = false;
    fake_fault(name, 1);
    armed = true;
}

int fake_is_held(void)
{
    return held;
}

void fake_release(void)
{
    released = true;
}

/* ---- those who are not our guest --------------------------------------------------- */

static uint8_t *others[BUFFERS]; /* buffers of who is not our guest */

static uint8_t **place_of(const uint8_t *buffer)
{
    for (unsigned i = 0; i < BUFFERS; i++)
        if (others[i] == buffer)
            return &others[i];
    return NULL;
}

static void nobody_requests(uint8_t **buffer, size_t *size, size_t *records)
{
    static _Alignas(8) uint8_t spare[65536]; /* what comes in it is dropped */
    uint8_t **place = place_of(NULL);

    *buffer = spare;
    if (place != NULL)
        *buffer = *place = calloc(1, sizeof(spare));
    memset(*buffer, 0, sizeof(spare));
    *size = sizeof(spare);
    *records = 0;
}

static void nobody_completes(void *context, uint32_t stream, uint8_t *buffer,
                             size_t size, size_t valid)
{
    uint8_t **place = place_of(buffer);

    (void)context, (void)stream, (void)size;
    if (place == NULL)
        return; /* as Kineto: what it did not give is dropped, and not given back */
    *place = NULL;
    for (size_t at = 0; at < valid;) {
        uint32_t kind;

        memcpy(&kind, buffer + at, sizeof(kind));
        kineto_kernels += kind == KERNEL;
        at += fake_stride(kind) != 0 ? fake_stride(kind) : valid;
    }
    free(buffer);
}

void steal(void)
{
    seal_all();
    come();
    memcpy(theirs, kinds, sizeof(theirs));
    request = nobody_requests;
    complete = nobody_completes;
}

/* What it held is lost: nobody gets it. */
void finalize(void)
{
    memset(currents, 0, sizeof(currents));
    memset(kinds, 0, sizeof(kinds));
    go();
    full_count = 0;
    request = NULL;
    complete = NULL;
    subscribed = false;
}

void fake_fault(const char *name, uint64_t value)
{
    pthread_mutex_lock(&lock);
    *fault(name) = value;
    if (strcmp(name, "drop") == 0)
        dropped += value;
    if (strcmp(name, "clock") == 0)
        clock_now = value != 0;
    if (strcmp(name, "steal") == 0 && value != 0)
        steal();
    pthread_mutex_unlock(&lock);
}

__attribute__((constructor)) static void read_faults(void)
{
    const char *text = getenv("FAKE_CUPTI_FAULT");
    char copy[256], *save = NULL;

    if (text == NULL)
        return;
    snprintf(copy, sizeof(copy), "%s", text);
    for (char *word = strtok_r(copy, ",", &save); word != NULL;
         word = strtok_r(NULL, ",", &save)) {
        char *equals = strchr(word, '=');

        if (equals == NULL)
            complain(word);
        *equals = '\0';
        fake_fault(word, strtoull(equals + 1, NULL, 10));
    }
}

/* A guest calls us from a thread of its own, never from the application's. */
static void check_thread(const char *function)
{
    char name[17] = "", text[128];

    prctl(PR_GET_NAME, name);
    if (kineto || strcmp(name, "trainglass-gpu") == 0 ||
        strcmp(name, "fake-owner") == 0)
        return;
    snprintf(text, sizeof(text), "%s was called on thread \"%s\"", function, name);
    complain(text);
}

unsigned fake_flushes(void)
{
    return flushes_begun;
}

int fake_was_subscribed(void)
{
    return was_subscribed;
}

/* ---- the library ------------------------------------------------------------------- */

static void hang_while(const char *name, uint64_t value)
{
    const char *until = getenv("FAKE_CUPTI_HANGS_UNTIL");
    const char *told = getenv("FAKE_CUPTI_HANGS");

    if (told != NULL && !kineto && *fault(name) == value)
        close(open(told, O_CREAT | O_WRONLY | O_CLOEXEC, 0600));
    while (!kineto && *fault(name) == value &&
           (until == NULL || access(until, F_OK) != 0))
        usleep(1000);
}

/* With the device it loses its wits: nothing that needs one works. */
static int of_lost_device(void)
{
    return broken == FAKE_DEVICE_LOST ? broken : 0;
}

int cuptiGetVersion(uint32_t *version)
{
    check_thread("cuptiGetVersion");
    *version = fake_version();
    return 0;
}

int cuptiGetTimestamp(uint64_t *now)
{
    if (brought)
        hold("hold-time");
    if (!kineto)
        notice(true);
    *now = stamp(0); /* nothing before it takes long: it is meant to be of the middle */
    return of_lost_device();
}

int cuptiSetThreadIdType(int type)
{
    system_threads = type == 1;
    return 0;
}

int cuptiActivitySetAttribute(uint32_t attribute, size_t *size, void *value)
{
    if (attribute == 5 && *size == sizeof(size_t))
        zeroed = *(const size_t *)value != 0;
    if (attribute != 9)
        return 0;
    if (fake_version() < 130000 || *size != sizeof(uint8_t))
        return 1;
    pthread_mutex_lock(&lock);
    bool early = request == NULL;

    for (size_t i = 0; i < sizeof(kinds) / sizeof(kinds[0]); i++)
        early &= !kinds[i];
    pthread_mutex_unlock(&lock);
    if (!early)
        complain("whose buffers are was changed after somebody had been asked for one");
    one_for_all = *(const uint8_t *)value == 0;
    return 0;
}

static void register_slowly(void)
{
    uint64_t ms = *fault("slow-register");

    if (ms == 0)
        return;
    *fault("slow-register") = 0;
    held = true;
    usleep((useconds_t)ms * 1000);
    held = false;
}

int cuptiActivityRegisterCallbacks(request_function *new_request,
                                   complete_function *new_complete)
{
    check_thread("cuptiActivityRegisterCallbacks");
    if (new_request == NULL || new_complete == NULL)
        return 1;
    hang_while("hang-register", 1);
    if (!kineto)
        register_slowly();
    pthread_mutex_lock(&lock);
    seal_all();
    request = new_request;
    complete = new_complete;
    if (!kineto)
        go();
    pthread_mutex_unlock(&lock);
    return 0;
}

static int switch_kind(uint32_t kind, bool on)
{
    if (kind >= KINDS)
        return 1;
    pthread_mutex_lock(&lock);
    if (!kineto && !on)
        check_owner(kind);
    if (kineto)
        theirs[kind] = on;
    pays |= on && owed[kind];
    if (kineto || on)
        owed[kind] = false;
    kinds[kind] = on;
    stopped &= !on;
    if (kind == KERNEL && !on)
        dropped += *fault("drop-off");
    if (kind == RUNTIME || kind == DRIVER) /* forgotten with each turn */
        memset(calls_off[kind == RUNTIME], 0, sizeof(calls_off[0]));
    pthread_mutex_unlock(&lock);
    return of_lost_device();
}

int cuptiActivityEnable(uint32_t kind)
{
    check_thread("cuptiActivityEnable");
    if (kind == 3)
        complain("kind 3 makes kernels wait for each other");
    if (kind == KERNEL)
        hang_while("hang-on", 1);
    if (kind == GRAPH && *fault("no-graphs") != 0)
        return (int)*fault("no-graphs");
    return *fault("enable") != 0 ? (int)*fault("enable") : switch_kind(kind, true);
}

int cuptiActivityDisable(uint32_t kind)
{
    check_thread("cuptiActivityDisable");
    if (kind == KERNEL) {
        hang_while("hang-off", 1);
        hold("hold-off");
    }
    return switch_kind(kind, false);
}

#ifndef FAKE_OLD /* they came with 12.5 */

static int switch_call(uint32_t kind, uint32_t call, bool on)
{
    if (call >= CALLS)
        return 1;
    pthread_mutex_lock(&lock);
    calls_off[kind == RUNTIME][call] = !on;
    pthread_mutex_unlock(&lock);
    return 0;
}

int cuptiActivityEnableRuntimeApi(uint32_t call, uint8_t on)
{
    return switch_call(RUNTIME, call, on != 0);
}

int cuptiActivityEnableDriverApi(uint32_t call, uint8_t on)
{
    return switch_call(DRIVER, call, on != 0);
}

#endif

int cuptiGetCallbackName(uint32_t domain, uint32_t call, const char **name)
{
    static const struct {
        uint32_t domain, call;
        const char *name;
    } rows[] = {{2, LAUNCH_KERNEL, "cudaLaunchKernel_v7000"},
                {2, MEMCPY_ASYNC, "cudaMemcpyAsync_v3020"},
                {2, MEMSET_ASYNC, "cudaMemsetAsync_v3020"},
                {2, PEER_ASYNC, "cudaMemcpyPeerAsync_v4000"},
                {2, SYNCHRONIZE, "cudaDeviceSynchronize_v3020"},
                {2, LAUNCH_GRAPH, "cudaGraphLaunch_v10000"},
                {2, GET_DEVICE, "cudaGetDevice_v3020"},
                {1, GET_CONTEXT, "cuCtxGetCurrent"},
                {1, DRIVER_LAUNCH, "cuLaunchKernel"},
                {1, DRIVER_LAUNCH_EX, "cuLaunchKernelEx"}};

    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++)
        if (rows[i].domain == domain && rows[i].call == call) {
            *name = rows[i].name;
            return 0;
        }
    return 1;
}

int cuptiActivityGetNumDroppedRecords(void *context, uint32_t stream, size_t *count)
{
    (void)context, (void)stream;
    pthread_mutex_lock(&lock);
    *count = dropped;
    dropped = 0;
    pthread_mutex_unlock(&lock);
    if (brought)
        hold("hold-read");
    if (!kineto)
        notice(false);
    return of_lost_device();
}

static void spoil(struct filled *one)
{
    static unsigned count;
    uint64_t garbage = *fault("garbage"), overlong = *fault("overlong");
    size_t half = one->used / 16 * 8;

    count++;
    if (garbage != 0 && count % garbage == 0)
        memset(one->bytes + half, 0xff, one->used - half);
    if (overlong != 0 && count % overlong == 0)
        one->used = 2 * one->size;
}

/* Gives back what is complete, or all of it. Holds the lock. */
static void deliver(bool forced)
{
    static struct filled given[BUFFERS];
    uint64_t now = ns_of(CLOCK_MONOTONIC);
    unsigned kept = 0, count = 0;

    for (unsigned i = 0; i < THREADS; i++)
        if (forced || currents[i].ready_ns <= now) /* else it is filled on */
            seal(&currents[i]);
    for (unsigned i = 0; i < full_count; i++)
        if (forced || full[i].ready_ns <= now)
            given[count++] = full[i];
        else
            full[kept++] = full[i];
    full_count = kept;
    brought = count > 0;
    for (unsigned i = 0; i < count; i++) {
        struct filled *one = &given[*fault("reverse") ? count - 1 - i : i];

        spoil(one);
        /* Whoever is registered now, not who gave it. */
        if (complete != NULL)
            complete(NULL, 0, one->bytes, one->size, one->used);
        delivered = true;
        if (*fault("kill") != 0)
            raise(SIGKILL);
        if (*fault("exit-late") != 0)
            exit((int)*fault("exit-late"));
    }
}

int cuptiActivityFlushAll(uint32_t flags)
{
    check_thread("cuptiActivityFlushAll");
    if (!kineto)
        check_debts();
    hang_while("hang", ++flushes_begun);
    if (*fault("exit") != 0)
        exit((int)*fault("exit"));
    if (!kineto)
        usleep((useconds_t)*fault("slow-flush") * 1000);
    if (of_lost_device() != 0 || *fault("flush-error") != 0)
        return of_lost_device() != 0 ? of_lost_device() : (int)*fault("flush-error");
    if (*fault("starve") != 0 ||
        (*fault("late") != 0 && flags == 0 && ++flushes % *fault("late") != 0))
        return 0;
    pthread_mutex_lock(&lock);
    deliver(flags != 0);
    pthread_mutex_unlock(&lock);
    return 0;
}

/* The context's end gives back what was recorded of it, on the thread that ends it. */
void fake_reset(void)
{
    pthread_mutex_lock(&lock);
    deliver(true);
    context_now++;
    last_end_ns = 0;
    pthread_mutex_unlock(&lock);
}

int cuptiSubscribe(void **subscriber, void *callback, void *user)
{
    static char handle;

    (void)callback, (void)user;
    hang_while("hang-subscribe", 1);
    if (*fault("subscribe") != 0)
        return (int)*fault("subscribe");
    if (atomic_exchange(&subscribed, true))
        return 39;
    was_subscribed = true;
    if (!kineto)
        usleep((useconds_t)*fault("slow-subscribe") * 1000);
    *subscriber = (void *)&handle;
    return 0;
}

int cuptiUnsubscribe(void *subscriber)
{
    (void)subscriber;
    subscribed = false;
    return 0;
}

/* ---- an old Kineto ----------------------------------------------------------------- */

/* Its buffers are as malloc() gives them. */
void fake_kineto_needs_zeroes(void)
{
    if (zeroed)
        complain("a guest's promise of zeroed buffers holds for who comes after it");
}

int fake_kineto_begin(void)
{
    static int error = -1; /* it subscribes once, and keeps what it got */
    void *subscriber;

    kineto = true;
    if (error != 0)
        error = cuptiSubscribe(&subscriber, NULL, NULL);
    kineto_kernels = 0;
    come();
    bool changes = clock_now == 0;

    fake_fault("clock", 1);
    his_clock = changes;
    (void)cuptiActivityRegisterCallbacks(nobody_requests, nobody_completes);
    (void)cuptiActivityEnable(KERNEL);
    (void)cuptiActivityEnable(RUNTIME);
    kineto = false;
    return error;
}

/* As with TEARDOWN_CUPTI=1. */
void fake_kineto_teardown(void)
{
    pthread_mutex_lock(&lock);
    finalize();
    pthread_mutex_unlock(&lock);
}

uint64_t fake_kineto_end(void)
{
    kineto = true;
    (void)cuptiActivityFlushAll(1);
    for (uint32_t kind = 1; kind < KINDS; kind++)
        (void)cuptiActivityDisable(kind);
    foreign = false;
    kineto = false;
    return kineto_kernels;
}
