/* Which GPUs of the machine are the process's, and whose their memory is; a part of
 * hardware_query.c. */
#ifndef QUERY_HARDWARE_WHOSE_H
#define QUERY_HARDWARE_WHOSE_H

#include "query/hardware_query.h"
#include "query/pick.h"

/* device, works and works_known of all rows. A job sees more devices than it works on:
 * what was recorded tells which. Where nothing was, of several nobody knows. */
void whose_devices(const struct pick *pick, struct hardware_answer *answer);

/* job_bytes, other_bytes and processes_reason of all rows; after whose_devices(). A device
 * that lists none of our processes is all others' where another one lists some. */
void whose_memory(const struct pick *pick, struct hardware_answer *answer);

/* Bytes of the process's device that it cannot have, of which it holds `own_bytes`: other
 * processes', the driver's, its own outside of the allocator. NaN: nobody knows now. */
double whose_else(const struct pick *pick, const char *device, double own_bytes);

#endif
