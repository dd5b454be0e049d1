#include "probe/cupti/session.h"

#include <errno.h>
#include <limits.h>
#include <linux/futex.h>
#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "probe/cupti/arrive.h"
#include "probe/cupti/buffers.h"
#include "probe/cupti/drain.h"
#include "probe/cupti/library.h"
#include "probe/cupti/state.h"
#include "probe/probe.h"

#define FLUSH_MS      100u
#define IDLE_MS       1000u
#define TAIL_NS       UINT64_C(5000000000) /* after the last step: stragglers */
#define SILENT_NS     UINT64_C(3000000000) /* steps, but not a buffer: stolen? */
#define SILENT_STEPS  3u
#define RETRY_NS      UINT64_C(60000000000) /* a window of another tool is shorter */
#define RETRY_MAX_NS  UINT64_C(600000000000)
#define YIELD_WAIT_MS 300u
#define LEAVE_WAIT_MS 500u
#define HURRY_MS      5u
#define HURRIES       400u
#define HANG_US       UINT64_C(5000000)

/* CUpti_ActivityAttribute: its buffers are zeroed by us, not in a CUDA call. */
#define ZEROED_BUFFERS 5u

/* Words between our thread and all others. Relaxed unless said: each stands alone. */
static _Atomic uint32_t owner;   /* pid of the process that has a thread; 0 none */
static _Atomic uint32_t wake;    /* futex: counts wishes */
static _Atomic uint32_t wanted;  /* the running step records GPU work */
static _Atomic uint32_t yields;  /* profilers that are at work */
static _Atomic uint32_t yielded; /* there ever was one */
static _Atomic uint32_t leaving; /* the process ends */
static _Atomic uint32_t hurry;   /* short rests that are left: cuInit is running */
/* Futex: nothing of CUPTI's is on, and no call of ours is in it. Release by our thread,
 * acquire by who waits for it. */
static _Atomic uint32_t let_go = 1;
static _Atomic uint64_t on_since;      /* ticks since when all of it is recorded; 0 */
static _Atomic uint64_t flushing_from; /* ticks when a flush began; 0: not in one */
static _Atomic uint32_t hangs;         /* the page was told so */

/* Our thread's. */
static struct cupti_library library;
static struct drain drain;
static enum wire_source_state state;
static char detail[192];
static enum stamps_clock detail_clock;
static bool on, suspicious, worked;
static uint64_t alive_ns, alive_buffers, alive_steps, off_ns, retry_ns, retry_wait_ns;
static pthread_t thread;

/* ---- words ------------------------------------------------------------------------- */

static void futex_wait(_Atomic uint32_t *word, uint32_t expected, unsigned ms)
{
    struct timespec time = {ms / 1000, (long)(ms % 1000) * 1000000};

    syscall(SYS_futex, word, FUTEX_WAIT_PRIVATE, expected, &time, NULL, 0);
}

static void futex_wake(_Atomic uint32_t *word)
{
    int saved_errno = errno;

    syscall(SYS_futex, word, FUTEX_WAKE_PRIVATE, INT_MAX, NULL, NULL, 0);
    errno = saved_errno;
}

static void wish(void)
{
    atomic_fetch_add_explicit(&wake, 1, memory_order_release);
    futex_wake(&wake);
}

static bool is_leaving(void)
{
    return atomic_load_explicit(&leaving, memory_order_relaxed) != 0;
}

/* Rests until somebody wishes something that was not seen by `seen`. */
static void rest(uint32_t seen, unsigned ms)
{
    if (!is_leaving())
        futex_wait(&wake, seen, ms);
}

static bool pause_for_readers(unsigned ms)
{
    static _Atomic uint32_t nobody;

    if (is_leaving())
        return false;
    futex_wait(&nobody, 0, ms);
    return true;
}

static uint64_t now_ns(void)
{
    return clock_ns(CLOCK_MONOTONIC);
}

static void become(enum wire_source_state next, const char *reason)
{
    state = next;
    state_say(next, reason, detail[0] != '\0' ? detail : NULL);
}

/* ---- on and off -------------------------------------------------------------------- */

static const uint32_t kinds[] = {CUPTI_KERNEL, CUPTI_MEMCPY, CUPTI_PEER_COPY,
                                 CUPTI_MEMSET, CUPTI_OVERHEAD};
#define KINDS (sizeof(kinds) / sizeof(kinds[0]))

static void note_alive(void)
{
    alive_ns = now_ns();
    alive_buffers = buffers_completed();
    alive_steps = probe_step_number();
}

static void switch_off(void)
{
    atomic_store_explicit(&on_since, 0, memory_order_relaxed);
    (void)calls_enable(&drain.calls, &library, false);
    for (size_t i = 0; i < KINDS; i++)
        (void)library.disable(kinds[i]);
    on = false;
    off_ns = now_ns();
}

static void retry_later(void)
{
    retry_ns = now_ns() + retry_wait_ns;
    retry_wait_ns = retry_wait_ns < RETRY_MAX_NS / 2 ? 2 * retry_wait_ns : RETRY_MAX_NS;
}

static void switch_on(void)
{
    int error = library.enable(CUPTI_KERNEL);

    for (size_t i = 1; i < KINDS && error == CUPTI_OK; i++)
        (void)library.enable(kinds[i]); /* without one of them there is still much */
    if (error == CUPTI_OK)
        error = calls_enable(&drain.calls, &library, true);
    if (error != CUPTI_OK) {
        switch_off();
        become(WIRE_STATE_UNAVAILABLE, state_reason(error));
        retry_later();
        return;
    }
    on = true;
    note_alive();
    atomic_store_explicit(&on_since, probe_ticks(), memory_order_relaxed);
}

/* ---- flush ------------------------------------------------------------------------- */

static void say_clock(void)
{
    enum stamps_clock clock = stamps_clock(&drain.stamps);

    if (clock == detail_clock)
        return;
    detail_clock = clock;
    state_detail(&library, drain.kinds_known, stamps_clock_name(clock), detail,
                 sizeof(detail));
    state_say(state, NULL, detail);
}

static void flush(uint32_t flags)
{
    atomic_store_explicit(&flushing_from, probe_ticks(), memory_order_relaxed);
    (void)library.flush(flags);
    atomic_store_explicit(&flushing_from, 0, memory_order_relaxed);
    if (atomic_exchange_explicit(&hangs, 0, memory_order_relaxed) != 0)
        state_say(state, "", NULL);
    enum stamps_change change = stamps_take(&drain.stamps, library.get_timestamp);

    suspicious |= change == STAMPS_OTHER_CLOCK;
    say_clock();
    (void)drain_buffers(&drain, pause_for_readers);
    drain_tell(&drain, on && flags == 0);
}

/* Steps end and nothing comes: somebody has registered callbacks of his own. */
static void watch(void)
{
    uint64_t now = now_ns(), buffers = buffers_completed();

    if (buffers != alive_buffers) {
        worked = true;
        suspicious = false;
        retry_wait_ns = RETRY_NS;
        note_alive();
        return;
    }
    uint64_t steps = probe_step_number() - alive_steps;

    if ((!worked && !suspicious) || steps < SILENT_STEPS ||
        now - alive_ns < (suspicious ? SILENT_NS / 3 : SILENT_NS))
        return;
    /* What is on may be his: hands off until his window must be over. */
    on = false;
    atomic_store_explicit(&on_since, 0, memory_order_relaxed);
    become(WIRE_STATE_STOLEN,
           suspicious ? "another profiler of this process has taken CUPTI: its clock "
                        "changed and nothing comes any more"
                      : "no GPU work has come for 3 s of steps: another profiler of "
                        "this process may have taken CUPTI");
    retry_later();
}

/* ---- whose turn it is -------------------------------------------------------------- */

static void say_let_go(void)
{
    atomic_store_explicit(&let_go, 1, memory_order_release);
    futex_wake(&let_go);
}

static bool take(void)
{
    size_t bytes = sizeof(size_t), zeroed = 1;

    /* Sequentially consistent, with cupti_yield(): of two that come at once, either we
     * see that he yields, or he sees that we are in CUPTI and waits. */
    atomic_store(&let_go, 0);
    if (atomic_load(&yields) > 0) {
        say_let_go();
        return false;
    }
    int error = library.register_callbacks(buffers_request, buffers_complete);

    if (error != CUPTI_OK) {
        say_let_go();
        become(WIRE_STATE_UNAVAILABLE, state_reason(error));
        retry_later();
        return false;
    }
    if (library.set_attribute != NULL)
        (void)library.set_attribute(ZEROED_BUFFERS, &bytes, &zeroed);
    if (library.set_thread_ids != NULL)
        (void)library.set_thread_ids(1);
    (void)stamps_take(&drain.stamps, library.get_timestamp);
    say_clock();
    suspicious = worked = false;
    become(WIRE_STATE_ACTIVE, NULL);
    return true;
}

static void give_away(void)
{
    if (on) {
        switch_off();
        flush(0);
    }
    become(WIRE_STATE_YIELDED,
           "given to torch.profiler while it records: its trace has "
           "the GPU work of this time");
    say_let_go();
}

/* One turn of our thread; how long it may rest then, in ms. */
static unsigned turn(void)
{
    if (atomic_load_explicit(&yields, memory_order_acquire) > 0) {
        if (state != WIRE_STATE_YIELDED)
            give_away();
        return IDLE_MS;
    }
    if (state != WIRE_STATE_ACTIVE &&
        ((state != WIRE_STATE_YIELDED && now_ns() < retry_ns) || !take()))
        return IDLE_MS;
    bool want = atomic_load_explicit(&wanted, memory_order_relaxed) != 0;

    if (want && !on)
        switch_on();
    else if (!want && on)
        switch_off();
    if (!on && (now_ns() - off_ns > TAIL_NS || buffers_lent() == 0))
        return IDLE_MS;
    flush(0);
    if (on)
        watch();
    return FLUSH_MS;
}

/* ---- start ------------------------------------------------------------------------- */

static bool rest_a_while(unsigned ms)
{
    uint32_t left = atomic_load_explicit(&hurry, memory_order_relaxed);

    if (left > 0) {
        atomic_store_explicit(&hurry, left - 1, memory_order_relaxed);
        ms = ms < HURRY_MS ? ms : HURRY_MS;
    }
    rest(atomic_load_explicit(&wake, memory_order_relaxed), ms);
    return !is_leaving();
}

static void say_unavailable(const char *reason)
{
    become(WIRE_STATE_UNAVAILABLE, reason);
}

static void step_ending(const struct probe_step *step)
{
    uint64_t since = atomic_load_explicit(&on_since, memory_order_relaxed);
    uint64_t from = atomic_load_explicit(&flushing_from, memory_order_relaxed);

    if ((step->recording & EVENT_STEP_KERNELS) != 0 &&
        (since == 0 || since > step->start))
        probe_step_missed(EVENT_STEP_KERNELS);
    if (UNLIKELY(from != 0 && step->end > from + HANG_US * probe_ticks_per_us()) &&
        atomic_exchange_explicit(&hangs, 1, memory_order_relaxed) == 0)
        state_say(WIRE_STATE_UNAVAILABLE,
                  "libcupti has not come back from a flush for 5 s", NULL);
}

static void recording_changed(uint32_t recording)
{
    uint32_t want = (recording & EVENT_STEP_KERNELS) != 0;

    if (atomic_exchange_explicit(&wanted, want, memory_order_relaxed) != want)
        wish();
}

static const struct probe_hooks hooks = {.step_ending = step_ending,
                                         .recording_changed = recording_changed};

static bool begin(void)
{
    static const struct arrival arrival = {rest_a_while, say_unavailable};

    prctl(PR_SET_NAME, "trainglass-gpu");
    if (!arrive(&library, &arrival))
        return false;
    /* Where a profiler of torch's is at work, an older one keeps its subscription. */
    if (atomic_load_explicit(&yields, memory_order_acquire) == 0 &&
        !arrive_is_free(&library,
                        atomic_load_explicit(&yielded, memory_order_relaxed) == 0,
                        &arrival))
        return false;
    if (buffers_open() != 0 || !probe_hooks_add(&hooks)) {
        become(WIRE_STATE_UNAVAILABLE, "no memory is left for GPU work");
        return false;
    }
    drain_open(&drain, &library);
    retry_wait_ns = RETRY_NS;
    (void)stamps_take(&drain.stamps, library.get_timestamp);
    (void)pause_for_readers(10); /* two pairs make a line */
    atomic_store_explicit(&wanted, (probe_recording() & EVENT_STEP_KERNELS) != 0,
                          memory_order_relaxed);
    return true;
}

static void *run(void *unused)
{
    (void)unused;
    if (begin()) {
        while (!is_leaving()) {
            uint32_t seen = atomic_load_explicit(&wake, memory_order_acquire);

            rest(seen, turn());
        }
        if (on) {
            switch_off();
            flush(1);
        }
    }
    atomic_store_explicit(&owner, 0, memory_order_relaxed);
    say_let_go();
    return NULL;
}

/* ---- the application's side -------------------------------------------------------- */

static bool has_thread(void)
{
    uint32_t pid = atomic_load_explicit(&owner, memory_order_relaxed);

    return pid != 0 && pid == (uint32_t)getpid(); /* a forked child has none */
}

static void wait_let_go(unsigned ms)
{
    uint64_t end = now_ns() + UINT64_C(1000000) * ms, now;

    while (atomic_load(&let_go) == 0 && /* pairs with take() and say_let_go() */
           (now = now_ns()) < end)
        futex_wait(&let_go, 0, (unsigned)((end - now) / 1000000) + 1);
}

/* While CUDA is alive: what is in its buffers is told, at most half a second long; then
 * no call of ours is in CUPTI any more. */
static void leave(void)
{
    if (!has_thread() || pthread_equal(pthread_self(), thread))
        return;
    atomic_store_explicit(&leaving, 1, memory_order_relaxed);
    atomic_store_explicit(&let_go, 0, memory_order_relaxed);
    wish();
    wait_let_go(LEAVE_WAIT_MS);
}

void cupti_start(void)
{
    static _Atomic uint32_t tried;
    pthread_attr_t attributes;
    sigset_t all, before;

    atomic_store_explicit(&hurry, HURRIES, memory_order_relaxed);
    if (atomic_exchange_explicit(&tried, 1, memory_order_relaxed) != 0) {
        wish();
        return;
    }
    int saved_errno = errno;

    atomic_store_explicit(&owner, (uint32_t)getpid(), memory_order_relaxed);
    (void)sigfillset(&all);
    (void)pthread_sigmask(SIG_SETMASK, &all, &before); /* signals are not for us */
    (void)pthread_attr_init(&attributes);
    (void)pthread_attr_setdetachstate(&attributes, PTHREAD_CREATE_DETACHED);
    if (pthread_create(&thread, &attributes, run, NULL) != 0) {
        atomic_store_explicit(&owner, 0, memory_order_relaxed);
        state_say(WIRE_STATE_UNAVAILABLE, "no thread could be started for it", NULL);
    } else {
        (void)atexit(leave);
    }
    (void)pthread_attr_destroy(&attributes);
    (void)pthread_sigmask(SIG_SETMASK, &before, NULL);
    errno = saved_errno;
}

void cupti_attach(void)
{
    int saved_errno = errno;

    if (!has_thread() && (cupti_driver_state() != CUPTI_DRIVER_ABSENT ||
                          access("/dev/nvidiactl", F_OK) == 0))
        cupti_start();
    errno = saved_errno;
}

void cupti_yield(bool begins)
{
    int saved_errno = errno;

    if (begins) {
        atomic_store_explicit(&yielded, 1, memory_order_relaxed);
        atomic_fetch_add(&yields, 1); /* pairs with take() */
        if (has_thread()) {
            wish();
            wait_let_go(YIELD_WAIT_MS);
        }
    } else {
        uint32_t before = atomic_load_explicit(&yields, memory_order_relaxed);

        while (before > 0 && !atomic_compare_exchange_weak_explicit(
                                 &yields, &before, before - 1, memory_order_acq_rel,
                                 memory_order_relaxed))
            ;
        wish();
    }
    errno = saved_errno;
}
