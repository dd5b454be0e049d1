/* Which GPUs of the machine are the process's, and whose their memory is; a part of
 * hardware_query.c. */
#ifndef QUERY_HARDWARE_WHOSE_H
#define QUERY_HARDWARE_WHOSE_H

#include "query/hardware_query.h"
#include "query/pick.h"

/* "cuda:0", in the head's arena; NULL: not the process's, or nobody knows. */
const char *whose_device(const struct pick *pick, const struct hardware_device *device);

/* job_bytes, other_bytes and processes_reason of the row. */
void whose_memory(const struct pick *pick, const struct hardware_device *device,
                  struct hardware_row *row);

#endif
