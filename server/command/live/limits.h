/* What the kernel says about our cgroup, version 1 or 2. */
#ifndef COMMAND_LIMITS_H
#define COMMAND_LIMITS_H

#include <stdint.h>

/* Processes of our memory cgroup that the OOM killer ended since it was made; 0 also
 * when unknown. */
uint32_t limits_oom_kills(void);

/* Memory limit of our cgroup in bytes; 0 none or unknown. */
uint64_t limits_memory_bytes(void);

#endif
