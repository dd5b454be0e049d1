/* Steps of a job that launches one kernel in each and waits for it. */
#ifndef KERNEL_STEP_H
#define KERNEL_STEP_H

#include <string.h>

#include "aggregate/state.h"

#define KERNEL_STEP_THREAD 1u /* that publishes what CUPTI tells */
#define KERNEL_STEP_CUDA0  EVENT_DEVICE(1, 0)
#define KERNEL_STEP_FULL   (EVENT_STEP_OPS | EVENT_STEP_KERNELS)

static inline uint64_t kernel_step_named(struct process *of, const char *name,
                                         uint8_t kind, uint16_t aux16)
{
    return EVENT_META(texts_intern(of->texts, name, strlen(name)), kind, 0, aux16);
}

static inline void kernel_step_put(struct process *of, uint32_t thread,
                                   uint64_t meta, const int64_t span[2], uint64_t aux)
{
    struct event event = {.time = (uint64_t)span[0],
                          .value = (uint64_t)(span[1] - span[0]),
                          .meta = meta,
                          .aux = aux};

    process_fold(of, thread, &event, 1);
}

/* `data` of waiting, 1 ms, a launch, a kernel of 6 ms that the host waits for from 1 ms
 * behind the launch on, and 1 ms: 8 ms beside the data, in ns. *at becomes its end. */
static inline void kernel_step(struct process *of, uint64_t number, int64_t *at,
                               int64_t data)
{
    const int64_t ms = 1000000, from = *at, launch = from + data + ms;
    struct event kernel[2] = {
        {.time = (uint64_t)launch + 4000,
         .value = (uint64_t)(6 * ms),
         .meta = kernel_step_named(of, "gemm", EVENT_KERNEL, KERNEL_STEP_CUDA0),
         .aux = number + 1},
        {.time = 7, .meta = EVENT_META(0, EVENT_MORE, 0, 1)}};

    kernel_step_put(of, KERNEL_STEP_THREAD,
                    kernel_step_named(of, "cudaLaunchKernel", EVENT_LAUNCH, 1),
                    (const int64_t[2]){launch, launch + 5000}, number + 1);
    process_fold(of, KERNEL_STEP_THREAD, kernel, 2);
    kernel_step_put(of, KERNEL_STEP_THREAD,
                    kernel_step_named(of, "cudaDeviceSynchronize", EVENT_SYNC, 1),
                    (const int64_t[2]){launch + ms, launch + 6 * ms + 8000}, 0);
    kernel_step_put(of, 0,
                    kernel_step_named(of, "aten::mm", EVENT_CPU_OP, 0),
                    (const int64_t[2]){launch - ms / 2, launch + ms / 2}, 0);
    kernel_step_put(of, 0, EVENT_META(0, EVENT_PHASE, 0, EVENT_PHASE_DATA),
                    (const int64_t[2]){from, from + data}, number);
    *at = launch + 7 * ms;
    kernel_step_put(of, 0, EVENT_META(0, EVENT_STEP, KERNEL_STEP_FULL, 0xf),
                    (const int64_t[2]){from, *at}, number | (uint64_t)1 << 48);
}

#endif
