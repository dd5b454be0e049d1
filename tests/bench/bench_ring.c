/* The cost of one event in the ring, against the clock read that it holds. */
#include "bench/probe_cost.h"

/* As a source does it: enter, clock, event, leave. */
static double write_events(uint64_t events, void *context)
{
    double begin = measure_now_ns();

    (void)context;
    for (uint64_t i = 0; i < events; i++) {
        struct probe_thread *self = probe_enter();

        if (self == NULL)
            break;
        probe_write(self, (struct event){probe_thread_ticks(self), i,
                                         EVENT_META(1, EVENT_MARK, 0, 0), i});
        probe_leave(self);
    }
    return measure_now_ns() - begin;
}

int main(void)
{
    (void)measure_directory();
    if (probe_start(WIRE_ROLE_TRAINER) != 0)
        return 2;
    return measure_probe("event into the ring / clock read", write_events, 1.1);
}
