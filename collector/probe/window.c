#include "probe/window.h"

#include <stdatomic.h>
#include <sys/syscall.h>
#include <unistd.h>

typedef int schedule_function(int (*call)(void *), void *argument);
typedef int call_function(void *argument);

/* Written at attach, read by the training thread. */
static schedule_function *_Atomic schedule;
static call_function *_Atomic call;
/* Written inside a boundary, read by the thread of that boundary afterwards; atomic for
 * whoever else looks. */
static _Atomic uint64_t words[WINDOW_WORDS];
static _Atomic uint32_t state; /* enum window_state; Python writes */
static _Atomic bool due;       /* a request that nobody was told of */

static void put(enum window_word which, uint64_t value)
{
    atomic_store_explicit(&words[which], value, memory_order_relaxed);
}

void window_listen(schedule_function *at, call_function *what)
{
    atomic_store_explicit(&call, what, memory_order_relaxed);
    /* Release: pairs with the acquire in window_boundary(); who sees it sees `call`. */
    atomic_store_explicit(&schedule, at, memory_order_release);
}

uint64_t window_word(uint32_t which)
{
    return which < WINDOW_WORDS
               ? atomic_load_explicit(&words[which], memory_order_relaxed)
               : 0;
}

void window_state(uint32_t wanted)
{
    atomic_store_explicit(&state, wanted, memory_order_relaxed);
}

void window_open(void)
{
    for (uint32_t i = 0; i < WINDOW_WORDS; i++)
        put((enum window_word)i, 0);
    window_state(0);
    atomic_store_explicit(&due, false, memory_order_relaxed);
}

void window_request(const struct control *control)
{
    if (control->window_id == 0 || control->window_id == window_word(WINDOW_ID))
        return;
    put(WINDOW_ID, control->window_id);
    put(WINDOW_STEPS, control->window_steps);
    put(WINDOW_SECONDS, control->window_seconds);
    put(WINDOW_FLAGS, control->window_flags);
    put(WINDOW_BYTES, control->window_bytes);
    put(WINDOW_FIRST_STEP, control->window_first_step);
    put(WINDOW_UNTIL_UNIX_MS, control->window_until_unix_ms);
    atomic_store_explicit(&due, true, memory_order_relaxed);
}

uint8_t window_flag(void)
{
    return atomic_load_explicit(&state, memory_order_relaxed) & WINDOW_FLAG
               ? EVENT_STEP_WINDOW
               : 0;
}

bool window_is_ours(void)
{
    return (atomic_load_explicit(&state, memory_order_relaxed) & WINDOW_OURS) != 0;
}

void window_boundary(const struct probe_step *ended, uint64_t running_step)
{
    bool watched =
        (atomic_load_explicit(&state, memory_order_relaxed) & WINDOW_WATCH) != 0;
    schedule_function *at;

    if (!watched && !atomic_load_explicit(&due, memory_order_relaxed))
        return;
    at = atomic_load_explicit(&schedule, memory_order_acquire);
    if (at == NULL)
        return;
    put(WINDOW_RUNNING_STEP, running_step);
    put(WINDOW_VALIDATION, ended->number == STEPS_NO_NUMBER);
    put(WINDOW_THREAD, (uint64_t)syscall(SYS_gettid));
    /* A full queue of calls: the next boundary tries again. */
    if (at(atomic_load_explicit(&call, memory_order_relaxed), NULL) == 0)
        atomic_store_explicit(&due, false, memory_order_relaxed);
}
