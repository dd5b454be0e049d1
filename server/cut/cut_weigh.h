/* How many bytes a range would have, and where it must end to have fewer. */
#ifndef CUT_WEIGH_H
#define CUT_WEIGH_H

#include "cut/cut_plan.h"
#include "http/bytes.h"

#define CUT_PARTS 1024u /* of the range's time, where not one whole step fits */

/* Metadata that a file says again as it said it last: some say the same twenty names and
 * numbers 300,000 times. Once is enough. */
#define CUT_SAID_MAX 512u /* threads and what is said of them; more are said again */

/* Of the newest by what it speaks of: name, pid and tid. Zero: nothing yet. */
struct cut_said {
    struct {
        uint32_t name, pid, tid;
        uint64_t text; /* a hash */
    } newest[CUT_SAID_MAX];
};

/* Is it word for word what was said last of the same? Of an event 'M'. */
bool cut_said_again(struct cut_said *said, const struct trace_event *event);

struct cut_weights {
    const struct cut_plan *plan;
    struct bytes clean; /* one event as it is written */
    struct cut_said said;
    int64_t from_ns, to_ns; /* of the whole range */
    uint64_t *steps;        /* bytes by step asked for; NULL without steps */
    uint32_t step_count;
    uint64_t parts[CUT_PARTS];
    uint64_t fixed; /* metadata, keys of the top level, brackets */
};

MUST_CHECK int cut_weights_open(struct cut_weights *weights,
                                const struct cut_plan *plan);
void cut_weights_close(struct cut_weights *weights);

/* Callback of a reader. */
bool cut_weights_take(void *user, struct trace_event *events, uint32_t count);
void cut_weights_take_head(struct cut_weights *weights, const struct trace_head *head);

/* Moves the range's end to where at most `budget` bytes lie before it: behind the last
 * whole step, else within the first. -EFBIG when nothing fits. */
MUST_CHECK int cut_weights_shorten(const struct cut_weights *weights,
                                   struct cut_plan *plan, uint64_t budget,
                                   struct cut_result *result);

#endif
