/* What somebody asks of the probe: the control file, read with pread, and the process
 * itself. Obeyed at step boundaries alone, on the training thread. */
#include <errno.h>
#include <fcntl.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "probe/core.h"
#include "probe/decide.h"
#include "probe/window.h"

#define CONTROL_INTERVAL_US 50000u /* a request waits at most so long, or a step */

static uint64_t last_control;
static uint32_t control_sequence;
static char control_path[WIRE_PATH_BYTES];

static void obey(const struct control *control)
{
    const struct probe_hooks *one;

    if (control->sequence == control_sequence)
        return;
    control_sequence = control->sequence;
    decide_request(control);
    window_request(control);
    for (uint32_t i = 0; (one = probe_hook_at(i)) != NULL; i++)
        if (one->requested != NULL)
            one->requested(control);
    atomic_store_explicit(&probe->header->control_seen, control->sequence,
                          memory_order_relaxed);
}

/* Level + 1 in bits 0..7, budget + 1 in 8..39, steps in 40..63: 0 asks nothing. */
static _Atomic uint64_t asked;

void probe_ask(int32_t level, int32_t budget_ppm, uint32_t burst_steps)
{
    uint64_t before = atomic_load_explicit(&asked, memory_order_relaxed), after;

    if (!probe_is_open() || level >= WIRE_LEVELS || budget_ppm > 1000000)
        return;
    do {
        after = before;
        if (level >= 0)
            after = (after & ~UINT64_C(0xff)) | (uint64_t)(level + 1);
        if (budget_ppm >= 0)
            after = (after & ~(UINT64_C(0xffffffff) << 8)) | (uint64_t)(budget_ppm + 1)
                                                                 << 8;
        if (burst_steps > 0)
            after = (after & ~(UINT64_C(0xffffff) << 40)) |
                    (uint64_t)(burst_steps < 0xffffff ? burst_steps : 0xffffff) << 40;
    } while (!atomic_compare_exchange_weak_explicit(
        &asked, &before, after, memory_order_relaxed, memory_order_relaxed));
}

static void obey_asked(void)
{
    if (atomic_load_explicit(&asked, memory_order_relaxed) == 0)
        return;
    uint64_t word = atomic_exchange_explicit(&asked, 0, memory_order_relaxed);

    decide_ask((int32_t)(word & 0xff) - 1, (int64_t)(word >> 8 & 0xffffffff) - 1,
               (uint32_t)(word >> 40));
}

static void read_control(uint64_t now)
{
    unsigned char bytes[2 * sizeof(struct control)];
    struct control control;

    if (now - last_control < CONTROL_INTERVAL_US * probe->ticks_per_us)
        return;
    last_control = now;
    int saved_errno = errno;

    probe_core_hold();
    int fd = open(control_path, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);

    if (fd >= 0) {
        ssize_t got = pread(fd, bytes, sizeof(bytes), 0);

        close(fd);
        if (got > 0 && control_parse(bytes, (size_t)got, &control))
            obey(&control);
    }
    errno = saved_errno;
}

void requests_read(uint64_t now)
{
    read_control(now);
    obey_asked();
}

void requests_open(void)
{
    size_t length = strlen(probe_core_path());

    (void)snprintf(control_path, sizeof(control_path), "%.*sctl", (int)(length - 3),
                   probe_core_path());
    last_control = clock_ticks(probe->tsc);
    control_sequence = 0;
    atomic_store_explicit(&asked, 0, memory_order_relaxed);
}
