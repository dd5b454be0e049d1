/* An hour of a busy job, written in minutes: what bench_memory.py has the server read.
 *
 *     hour DIRECTORY SECONDS
 *
 * Fifty steps in a second of the job, each with phases, 404 operators and its memory;
 * 4,000 names, a new epoch every minute. The stamps run ahead of the machine's clock.
 */
#include <stdlib.h>
#include <time.h>

#include "../unit/fake_segment.h"
#include "wire/clock.h"

#define STEPS        (3600u * 50u)
#define STEP_NS      INT64_C(20000000)
#define OPS_PER_STEP 404u
#define OP_NS        INT64_C(40000)
#define NAMES        4000u
#define RING         ((uint64_t)1 << 19)
#define GIB          1073741824.0

static struct fake fake;
static uint32_t names[NAMES];

static void write_memory(int64_t now, uint64_t step)
{
    uint64_t allocated = (uint64_t)(GIB + (double)(step % 1000) * 1e5);
    const struct event events[] = {
        {fake_time(now), allocated, EVENT_META(names[step % NAMES], EVENT_MEMORY, 0, 0),
         0},
        {fake_time(now - STEP_NS / 2), allocated + 1000000,
         EVENT_META(0, EVENT_MORE, 0, 1), 400 | UINT64_C(400) << 32},
        {40000000, 0, EVENT_META(0, EVENT_MORE, 0, 2), 0},
    };

    ring_push_many(&fake.rings[0], events, 3);
}

static void write_step(uint64_t step)
{
    int64_t start = (int64_t)step * STEP_NS, at = start + STEP_NS / 10;

    for (uint32_t i = 0; i < OPS_PER_STEP; i++, at += OP_NS)
        fake_range(&fake, 0,
                   EVENT_META(names[(step * 7 + i) % NAMES], EVENT_CPU_OP, 0, 0),
                   (int64_t[2]){at, at + OP_NS - 100});
    for (uint16_t phase = 1; phase <= 4; phase++)
        fake_phase(&fake, 0, phase, start + (phase - 1) * STEP_NS / 4,
                   start + phase * STEP_NS / 4);
    write_memory(start + STEP_NS, step);
    fake_step(&fake, step, EVENT_STEP_OPS | 0xfu << 8, start, start + STEP_NS);
}

int main(int argc, char **argv)
{
    char name[64];

    if (argc != 3)
        return 2;
    double seconds = strtod(argv[2], NULL);
    uint64_t begun = clock_ns(CLOCK_MONOTONIC);

    fake_open(&fake, argv[1], "hour-1", "hour", 64u << 20);
    fake_thread(&fake, 0, RING);
    for (uint32_t i = 0; i < NAMES; i++) {
        snprintf(name, sizeof(name), "aten::operator_of_an_hour_%u", i);
        names[i] = fake_name(&fake, name);
    }
    for (uint64_t step = 0; step < STEPS; step++) {
        double due = (double)step / STEPS * seconds * 1e9;

        write_step(step);
        while ((double)(clock_ns(CLOCK_MONOTONIC) - begun) < due)
            nanosleep(&(struct timespec){.tv_nsec = 1000000}, NULL);
    }
    printf("%u steps\n", STEPS);
    fake_close(&fake);
    return 0;
}
