/* One device of /api/memory: memory_query's own. */
#ifndef QUERY_MEMORY_DEVICE_H
#define QUERY_MEMORY_DEVICE_H

#include "query/memory_query.h"
#include "query/pick.h"

/* All of `device` in the window that was picked, with at most so many points. */
MUST_CHECK int memory_fill_device(const struct pick *pick,
                                  const struct memory_table *table, uint32_t points,
                                  struct memory_device *device);

#endif
