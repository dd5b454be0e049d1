/* Requests to the probe: a small file beside the segment, written whole by whoever
 * asks, read with pread at step boundaries into a checked copy. Nothing here is mapped,
 * and a request that does not check is ignored as a whole.
 *
 * The writer makes a new file and renames it over the old one.
 */
#ifndef WIRE_CONTROL_H
#define WIRE_CONTROL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "wire/attributes.h"

#define CONTROL_MAGIC UINT64_C(0x4c54434c474e5254) /* "TRNGLCTL" */

#define CONTROL_WINDOW_STEPS_MAX   1000u
#define CONTROL_WINDOW_SECONDS_MAX 3600u

enum control_window_flags {
    CONTROL_WINDOW_SHAPES = 1,
    CONTROL_WINDOW_STACKS = 2,
    CONTROL_WINDOW_MEMORY = 4,
    CONTROL_WINDOW_MODULES = 8,
};

struct control {
    uint64_t magic;
    uint32_t bytes; /* sizeof(struct control) of the writer; a newer one appends */
    uint32_t
        sequence;   /* grows with every request; a sequence that was obeyed is idle */
    uint32_t level; /* enum wire_level */
    uint32_t budget_ppm; /* share of training time, parts per million; 0 to 1,000,000 */
    uint32_t burst_id;   /* a new number asks for burst_steps to be recorded in full */
    uint32_t burst_steps;          /* at most 1,000 */
    uint32_t window_id;            /* a new number asks for a deep window; 0 none */
    uint32_t window_steps;         /* at most 1,000 */
    uint32_t window_seconds;       /* it ends then, whatever it has; at most 3,600 */
    uint32_t window_flags;         /* enum control_window_flags */
    uint64_t window_bytes;         /* likewise; 0 no bound */
    uint64_t window_first_step;    /* the same on all ranks; 0 = the next one */
    uint64_t window_until_unix_ms; /* it is too late to begin then; 0 never */
    uint64_t reserved[2];
    uint64_t checksum; /* hash_bytes() of all before it */
};

/* True and a checked copy in *control when `size` bytes at `bytes` are a request. */
MUST_CHECK bool control_parse(const void *bytes, size_t size, struct control *control);

/* Fills magic, bytes and checksum. */
void control_seal(struct control *control);

#endif
