/* The loader's workers that have no segment of their own: the trainer's children.
 *
 * They are known only where nobody can be mistaken for one: as many children as the job
 * says that it has workers are called as torch calls them, else run the trainer's program.
 */
#ifndef INGEST_LOADERS_H
#define INGEST_LOADERS_H

#include "aggregate/process.h"

/* Adds a sample of each to the trainer. Collector's thread, under the store's lock. */
void loaders_sample(struct process *trainer, int64_t time_ns);

#endif
