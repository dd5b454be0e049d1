/* What of a buffer cannot be read, and when that was: CUPTI leaves times out of records in
 * some of its versions, beside others that have them. */
#ifndef PROBE_CUPTI_UNREADABLE_H
#define PROBE_CUPTI_UNREADABLE_H

#include "probe/cupti/write.h"

struct unreadable {
    uint64_t events; /* that belong on the timeline */
    uint64_t works;  /* of them: of a device */
    uint64_t since_ticks, until_ticks; /* when the works were, if there are any */
};

/* Walks over the buffer; nothing is written. A device does the work of one stream in
 * turn, and its records come so: what cannot be read lies between its neighbours of the
 * same stream. Without them it is not older than what else can be read, nor than
 * `read_ticks`, and not younger than now. */
struct unreadable unreadable_in(const struct writer *writer, struct cupti_reader *reader,
                                uint64_t read_ticks);

#endif
