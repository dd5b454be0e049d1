/* Requests of the page to the probes: the control files beside the segments. */
#ifndef CONTROL_CONTROL_H
#define CONTROL_CONTROL_H

#include <stdint.h>

#include "wire/attributes.h"
#include "wire/control.h"

struct selection;
struct store;

#define CONTROL_REASON_BYTES 256u

/* A deep window, as struct control has it. */
struct control_window {
    uint32_t id, steps, seconds, flags;
    uint64_t bytes, first_step, until_unix_ms;
};

/* What changes in a request; the rest stays as it was asked before. */
struct control_change {
    int64_t level;        /* enum wire_level; -1 stays */
    int64_t budget_ppm;   /* -1 stays */
    uint32_t burst_steps; /* asks for so many steps in full; 0 none */
    /* What stays where nobody asked before: the job's own settings (level and
     * budget_ppm are read); NULL: the probe's defaults. */
    const struct control *in_force;
    const struct control_window *window; /* NULL: none is asked for */
};

/* Level and budget as the probe says them: from the environment, or as the job itself
 * asked. */
struct control control_in_force(struct store *store, const struct selection *selection);

/* Asks every live trainer of the selected session. Returns how many were asked, or
 * -ENOENT, -EACCES, ... with a sentence in `reason` (CONTROL_REASON_BYTES). Any
 * thread; of two at once both are kept. */
MUST_CHECK int control_ask(struct store *store, const struct selection *selection,
                           const struct control_change *change, char *reason);

/* Why the page can change nothing; NULL: it can. Static. */
const char *control_obstacle(struct store *store, const struct selection *selection);

/* "<dir>/<random>.seg" to "<dir>/<random>" and `ending`, or to the control file's ".ctl";
 * false when it is no segment's path, or too long. */
MUST_CHECK bool control_sibling(const char *segment_path, const char *ending,
                                char *path, size_t size);
MUST_CHECK bool control_path(const char *segment_path, char *path, size_t size);

/* Writes `change` over what `path` holds now. 0 or -errno. For control_ask(); tests. */
MUST_CHECK int control_write(const char *path, const struct control_change *change);

#endif
