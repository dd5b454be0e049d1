/* Op tables of one process: which rows there are, the steps that are still open for
 * late events, and the digests of the closed ones.
 *
 * An event counts in the step in which it began. Events of other threads and devices
 * may come after their step has ended: the newest OPS_OPEN steps wait for them, and where a
 * source of calls is far behind and tells so, all that it has not told of.
 * Where a step begins is only known when its first phase or its end arrives; after
 * start-up and after validation events are held back until then.
 */
#ifndef AGGREGATE_OPS_H
#define AGGREGATE_OPS_H

#include <stdbool.h>
#include <stdint.h>

#include "aggregate/digests.h"
#include "aggregate/steps.h"
#include "aggregate/texts.h"
#include "wire/event.h"

/* Closed steps that wait for late events: at least so many, and behind a source that is
 * late as many as these, of so many bytes of digests. */
#define OPS_OPEN       4u
#define OPS_OPEN_MOST  1024u
#define OPS_OPEN_BYTES ((size_t)2 * 1024 * 1024)
#define OPS_HELD       8192u /* events held back; more of them lie outside of steps */

enum ops_kind {
    OPS_OP,
    OPS_RANGE,         /* recorded in every step */
    OPS_RANGE_SAMPLED, /* recorded in recorded steps */
    OPS_RUNTIME,
    OPS_SYNC,
    OPS_KERNEL, /* from here on: accelerators */
    OPS_MEMCPY,
    OPS_MEMSET,
    OPS_KINDS,
};

#define OPS_OTHER_CPU         0u /* row of CPU events that found none */
#define OPS_OTHER_ACCELERATOR 1u

/* What ops_row() gives: a row, and what its name alone says. */
#define OPS_ROW(entry) ((entry)&0xffffffu)
#define OPS_ROW_KNOWN  (1u << 31)
#define OPS_ROW_RANGE  (1u << 30) /* takes no self time and gives none */
#define OPS_ROW_STEP   (1u << 29) /* a step, never a row */

struct ops_row {
    uint32_t text;
    enum ops_kind kind;
};


/* The ranges in which a checkpoint is saved: Lightning's own, and what the Python package
 * puts around torch.save on the training thread. Where both are, one lies in the other. */
#define OPS_SAVING       "save_checkpoint"
#define OPS_SAVING_PLAIN "torch.save"

/* Training steps that held such ranges: they are too seldom for a window to say how many
 * come in how many steps. */
struct ops_saving {
    uint32_t row;          /* 0: no such range yet */
    uint64_t times, count; /* steps that held some; ranges in them */
    double total_ns;
    uint64_t steps, reached; /* since the first of them: steps; up to the newest of them */
};

struct ops_held {
    int64_t start_ns, duration_ns, self_ns;
    uint32_t row;
};

/* A step that has ended: its digest, and what came late and is not in it yet. */
struct ops_step {
    struct digest *digest;
    enum digest_class class;
    struct ops_held *late;
    uint32_t late_count, late_capacity;
};

struct ops {
    const struct texts *texts;
    struct ops_row *rows;
    uint32_t row_count, row_capacity;
    uint32_t *row_of; /* entries, [texts][OPS_KINDS]; 0 = none yet */
    uint32_t row_of_texts;
    struct tally running; /* of the step that is not known to have ended */
    struct ops_step *open; /* ring, by time */
    uint32_t open_first, open_count, open_capacity;
    size_t open_bytes; /* of their digests */
    int64_t known_ns;  /* all events that began before have come; INT64_MIN nobody tells */
    struct tally late; /* empty: in which what came late joins its digest */
    int64_t running_from_ns;
    bool between; /* no step is known to have begun */
    struct ops_held *held;
    uint32_t held_count;
    struct digests digests;
    struct ops_saving saving;
    uint64_t overflowed; /* events whose name found no row */
    bool any_late;       /* since the last refresh */
    uint64_t late_events; /* older than every open step: counted in the oldest */
};

/* The texts are borrowed: their classes decide what is a range. */
MUST_CHECK bool ops_init(struct ops *ops, const struct texts *texts,
                         size_t digest_bytes);
void ops_free(struct ops *ops);

/* Out of line: the entry of a name that has none yet. */
uint32_t ops_row_add(struct ops *ops, uint32_t text, enum ops_kind kind);

ALWAYS_INLINE uint32_t ops_row(struct ops *ops, uint32_t text, enum ops_kind kind)
{
    uint32_t entry =
        text < ops->row_of_texts ? ops->row_of[text * OPS_KINDS + kind] : 0;

    return LIKELY(entry != 0) ? entry : ops_row_add(ops, text, kind);
}

/* Out of line: an event outside of the running step. */
void ops_add_apart(struct ops *ops, const struct ops_held *event);

ALWAYS_INLINE void ops_add(struct ops *ops, uint32_t row, int64_t start_ns,
                           const int64_t duration_self_ns[2])
{
    if (LIKELY(start_ns >= ops->running_from_ns && !ops->between)) {
        tally_add(&ops->running, row, duration_self_ns[0], duration_self_ns[1]);
        return;
    }
    ops_add_apart(ops, &(struct ops_held){.start_ns = start_ns,
                                          .duration_ns = duration_self_ns[0],
                                          .self_ns = duration_self_ns[1],
                                          .row = row});
}

/* The i-th of open_count steps that wait for late events, from the oldest. */
ALWAYS_INLINE struct ops_step *ops_open(const struct ops *ops, uint32_t i)
{
    return &ops->open[(ops->open_first + i) % ops->open_capacity];
}

/* All that began before has come, also what comes late; the source will tell again. */
void ops_known(struct ops *ops, int64_t until_ns);

/* A step, or a validation batch, is known to have begun. */
void ops_begin(struct ops *ops, int64_t start_ns);

/* It ended. */
void ops_end(struct ops *ops, const struct step *step);

/* What came late joins the digests of its steps: at the end of each batch. */
void ops_refresh(struct ops *ops);

/* What is held back lies outside of any step: for processes that have none. */
void ops_settle(struct ops *ops);

#endif
