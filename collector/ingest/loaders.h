/* The loader's workers that have no segment of their own: the trainer's children.
 *
 * They are known only where nobody can be mistaken for one: as many children as the job
 * says that it has workers, or more where another loader lives, are called as torch calls
 * them; else as many run the trainer's program.
 */
#ifndef INGEST_LOADERS_H
#define INGEST_LOADERS_H

#include "aggregate/process.h"
#include "ingest/proc_counters.h"

#define LOADERS_MOST 64u /* children of a trainer that are looked at */

/* What the kernel said of each at one moment. */
struct loaders_reading {
    uint32_t count;
    struct loader_reading {
        uint32_t pid;
        struct proc_counters now;
    } loaders[LOADERS_MOST];
};

/* How many the job says it has; 0 unknown. Under the store's lock. */
uint32_t loaders_workers(const struct process *trainer);

/* Reads the `workers` (above 0) of the process `trainer`; none where it is not sure which
 * children they are. Asks the kernel: not under the lock. */
void loaders_read(uint32_t trainer, uint32_t workers, struct loaders_reading *reading);

/* Adds a sample of each to the trainer. Under the store's lock. */
void loaders_take(struct process *trainer, const struct loaders_reading *reading,
                  int64_t time_ns);

#endif
