/* The application's side of the CUPTI thread: what runs on threads that are not ours. */
#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <unistd.h>

#include "probe/cupti/library.h"
#include "probe/cupti/session.h"
#include "probe/cupti/state.h"
#include "probe/cupti/words.h"
#include "wire/clock.h"

#define YIELD_WAIT_MS 300u
#define LEAVE_WAIT_MS 500u
/* Then, while we register, so often so long: 2 s. */
#define REGISTER_WAITS   20u
#define REGISTER_WAIT_MS 100u
#define HURRIES       400u

static _Atomic uint32_t tried; /* pid of who last started a thread; 0 nobody */
static pthread_t thread;

static bool has_thread(void)
{
    uint32_t pid = atomic_load_explicit(&cupti_words.owner, memory_order_relaxed);

    return pid != 0 && pid == (uint32_t)getpid(); /* a forked child has none */
}

void cupti_leave(void)
{
    static _Atomic uint32_t left; /* pid of who has waited for it */
    int saved_errno = errno;

    if (has_thread() && !pthread_equal(pthread_self(), thread) &&
        atomic_exchange_explicit(&left, (uint32_t)getpid(), memory_order_relaxed) !=
            (uint32_t)getpid()) {
        atomic_store_explicit(&cupti_words.leaving, 1, memory_order_relaxed);
        atomic_store_explicit(&cupti_words.let_go, 0, memory_order_relaxed);
        words_wish();
        (void)words_wait_let_go(LEAVE_WAIT_MS);
    }
    errno = saved_errno;
}

static void start_thread(void)
{
    pthread_attr_t attributes;
    sigset_t all, before;

    atomic_store_explicit(&cupti_words.owner, (uint32_t)getpid(), memory_order_relaxed);
    (void)sigfillset(&all);
    (void)pthread_sigmask(SIG_SETMASK, &all, &before); /* signals are not for us */
    (void)pthread_attr_init(&attributes);
    (void)pthread_attr_setdetachstate(&attributes, PTHREAD_CREATE_DETACHED);
    if (pthread_create(&thread, &attributes, session_run,
                       (void *)(uintptr_t)state_wants_whole_graphs()) != 0) {
        atomic_store_explicit(&cupti_words.owner, 0, memory_order_relaxed);
        state_say(WIRE_STATE_UNAVAILABLE, "no thread could be started for it", NULL);
    } else {
        (void)atexit(cupti_leave);
    }
    (void)pthread_attr_destroy(&attributes);
    (void)pthread_sigmask(SIG_SETMASK, &before, NULL);
}

static void start(void)
{
    uint32_t pid = (uint32_t)getpid();

    atomic_store_explicit(&cupti_words.hurry, HURRIES, memory_order_relaxed);
    uint32_t before = atomic_exchange_explicit(&tried, pid, memory_order_relaxed);

    /* A child that was forked before CUDA was up has no thread, and may use CUDA. One
     * that was forked later cannot, and must not touch CUPTI. */
    if (before == pid ||
        (before != 0 &&
         atomic_load_explicit(&cupti_words.arrived, memory_order_relaxed) != 0))
        words_wish();
    else
        start_thread();
}

void cupti_start(void)
{
    int saved_errno = errno;

    atomic_store_explicit(&cupti_words.injected_ns, clock_ns(CLOCK_MONOTONIC),
                          memory_order_relaxed);
    atomic_store_explicit(&cupti_words.injected, (uint32_t)getpid(),
                          memory_order_release);
    start();
    errno = saved_errno;
}

void cupti_attach(void)
{
    int saved_errno = errno;

    if (atomic_load_explicit(&tried, memory_order_relaxed) == 0 &&
        (cupti_driver_state() != CUPTI_DRIVER_ABSENT ||
         access("/dev/nvidiactl", F_OK) == 0))
        start();
    errno = saved_errno;
}

/* Who begins before our registration is done loses his buffers to us: for that he waits
 * longer than for anything else; but once, where it hangs. */
static bool wait_until_let_go(void)
{
    static _Atomic uint32_t in_vain; /* relaxed: it stands for itself */
    bool free = words_wait_let_go(YIELD_WAIT_MS);

    if (free || atomic_load(&cupti_words.registering) == 0 ||
        atomic_load_explicit(&in_vain, memory_order_relaxed) != 0)
        return free;
    for (unsigned i = 0; !free && i < REGISTER_WAITS; i++) {
        if (atomic_load(&cupti_words.registering) == 0)
            return words_wait_let_go(YIELD_WAIT_MS); /* the rest is soon over */
        free = words_wait_let_go(REGISTER_WAIT_MS);
    }
    atomic_store_explicit(&in_vain, !free, memory_order_relaxed);
    return free;
}

void cupti_yield(bool begins)
{
    int saved_errno = errno;

    if (begins) {
        atomic_store_explicit(&cupti_words.yielded, 1, memory_order_relaxed);
        atomic_fetch_add(&cupti_words.yields, 1); /* pairs with words_go_in() */
        if (has_thread()) {
            words_wish();
            if (!wait_until_let_go())
                atomic_store_explicit(&cupti_words.in_vain, 1, memory_order_relaxed);
        }
    } else {
        uint32_t before =
            atomic_load_explicit(&cupti_words.yields, memory_order_relaxed);

        while (before > 0 && !atomic_compare_exchange_weak_explicit(
                                 &cupti_words.yields, &before, before - 1,
                                 memory_order_acq_rel, memory_order_relaxed))
            ;
        words_wish();
    }
    errno = saved_errno;
}

void cupti_yield_for_good(void)
{
    atomic_store_explicit(&cupti_words.for_good, 1, memory_order_relaxed);
    cupti_yield(true);
}
