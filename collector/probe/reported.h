/* Memory that a program reports itself: totals and peaks per device, written at the end
 * of each step; single allocations in recorded steps alone. */
#ifndef PROBE_REPORTED_H
#define PROBE_REPORTED_H

#include <stdint.h>

/* `bytes` were allocated on `device` (EVENT_DEVICE), or freed when negative; `reserved`
 * bytes are held by the allocator, 0 unknown. Any thread. */
void reported_memory(uint16_t device, int64_t bytes, uint64_t reserved);

#endif
