#include "probe/cupti/words.h"

#include <errno.h>
#include <limits.h>
#include <linux/futex.h>
#include <stdatomic.h>
#include <stddef.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "wire/clock.h"

struct cupti_words cupti_words = {.let_go = 1};

void words_wait(_Atomic uint32_t *word, uint32_t expected, unsigned ms)
{
    struct timespec time = {ms / 1000, (long)(ms % 1000) * 1000000};

    syscall(SYS_futex, word, FUTEX_WAIT_PRIVATE, expected, &time, NULL, 0);
}

static void wake_all(_Atomic uint32_t *word)
{
    int saved_errno = errno;

    syscall(SYS_futex, word, FUTEX_WAKE_PRIVATE, INT_MAX, NULL, NULL, 0);
    errno = saved_errno;
}

void words_wish(void)
{
    atomic_fetch_add_explicit(&cupti_words.wake, 1, memory_order_release);
    wake_all(&cupti_words.wake);
}

bool words_leaving(void)
{
    return atomic_load_explicit(&cupti_words.leaving, memory_order_relaxed) != 0;
}

bool words_yielding(void)
{
    return atomic_load_explicit(&cupti_words.yields, memory_order_acquire) > 0;
}

bool words_for_good(void)
{
    return atomic_load_explicit(&cupti_words.for_good, memory_order_relaxed) != 0;
}

bool words_too_late(void)
{
    return atomic_load_explicit(&cupti_words.in_vain, memory_order_relaxed) != 0;
}

bool words_go_in(void)
{
    /* Sequentially consistent, with cupti_yield(): of two that come at once, either we
     * see that he yields, or he sees that we are in CUPTI and waits. */
    atomic_store(&cupti_words.let_go, 0);
    if (atomic_load(&cupti_words.yields) == 0)
        return true;
    words_let_go();
    return false;
}

void words_let_go(void)
{
    atomic_store_explicit(&cupti_words.let_go, 1, memory_order_release);
    wake_all(&cupti_words.let_go);
}

bool words_wait_let_go(unsigned ms)
{
    uint64_t now = clock_ns(CLOCK_MONOTONIC), end = now + UINT64_C(1000000) * ms;

    /* Pairs with words_go_in() and words_let_go(). */
    while (atomic_load(&cupti_words.let_go) == 0 && now < end) {
        words_wait(&cupti_words.let_go, 0, (unsigned)((end - now) / 1000000) + 1);
        now = clock_ns(CLOCK_MONOTONIC);
    }
    return atomic_load(&cupti_words.let_go) != 0;
}
