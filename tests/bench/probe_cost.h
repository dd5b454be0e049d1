/* For benchmarks of what the probe costs in its process: against one clock read, with the
 * probe started as in a job. */
#ifndef TESTS_BENCH_PROBE_COST_H
#define TESTS_BENCH_PROBE_COST_H

#include "bench/measure.h"
#include "probe/probe.h"

static double read_the_clock(uint64_t events, void *context)
{
    struct probe_thread *self = context;
    double begin = measure_now_ns();
    uint64_t sum = 0;

    for (uint64_t i = 0; i < events; i++)
        sum += probe_thread_ticks(self);
    __asm__ volatile("" ::"r"(sum));
    return measure_now_ns() - begin;
}

/* Of a process whose probe has started. */
static int measure_probe(const char *name, measure_run *run, double mark)
{
    struct probe_thread *self = probe_enter();

    if (self == NULL)
        return 2;
    probe_leave(self);
    return measure(&(struct measure){.name = name,
                                     .run = run,
                                     .reference = read_the_clock,
                                     .context = self,
                                     .events = 20000,
                                     .mark = mark});
}

#endif
