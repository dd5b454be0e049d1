/* What an op took of the device and of memory, in all and itself. */
#ifndef INGEST_FILE_TOTALS_H
#define INGEST_FILE_TOTALS_H

#include "ingest/file/parts.h"

/* A range of a thread between its begin and its end. */
struct open {
    struct event event;
    int64_t end_ns;    /* not after its parent's */
    int64_t device_ns; /* of what was launched in it */
    int64_t inside_ns; /* of what lies directly in it; with details alone */
    int64_t host_bytes, device_bytes; /* taken in it, less given back */
    /* Of these what is its own, not of an op in it. */
    int64_t device_self_ns, host_self_bytes, device_self_bytes;
    uint32_t path, key;
    uint32_t children; /* that ended directly in it */
    bool linked;       /* it, or what it lies in, stands under its forward op */
    bool from_host;    /* something was copied from the host to the device in it */
};

/* What a range took goes on to what it lies in. */
void totals_pass(const struct open *ended, struct open *parent);
/* It takes over what an op in it took itself, which is no row of its own. */
void totals_take_self(struct open *to, const struct open *from);
/* To the rows of its name and its key, when it has ended. */
void totals_add(struct file *file, const struct open *ended);
/* An allocation: `op` is the innermost op, `innermost` the innermost range; NULL none. */
void totals_take_bytes(struct file *file, const struct track_record *allocation,
                       struct open *op, struct open *innermost);

#endif
