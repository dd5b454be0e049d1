/* Steps of one process: the newest 65,536 one by one, all of them as series and sums.
 *
 * The collector folds EVENT_STEP, EVENT_PHASE, EVENT_SAMPLES and EVENT_MARK here. A
 * step arrives when it ends; its phases arrived before it.
 */
#ifndef AGGREGATE_STEPS_H
#define AGGREGATE_STEPS_H

#include <stdbool.h>
#include <stdint.h>

#include "aggregate/histogram.h"
#include "aggregate/series.h"
#include "wire/event.h"

#define STEPS_MAX 65536u /* 4.2 MB */
#define STEPS_PENDING                                                                  \
    256u /* stretches of phases in one step; later ones count in                       \
            the last */
#define STEPS_WAITS   16u /* of fetches whose step did not end yet; as above */
#define STEPS_MARKERS 1024u
#define STEPS_EPOCHS  1024u

struct step {
    int64_t start_ns, duration_ns;
    float phase_ns[EVENT_PHASES]; /* meaningful where `known` has the phase's bit */
    float gc_ns;                  /* garbage collections inside */
    float samples;                /* NaN unknown */
    float waited_ns; /* of data: no worker's batch was there; NaN unknown */
    /* In no phase, from a batch to the forward pass and from a backward to the update. */
    float before_forward_ns, before_update_ns;
    uint8_t flags; /* EVENT_STEP_* */
    uint8_t known; /* bit 1 << phase */
    bool whole;    /* false: events of it were lost, so its ops are not complete */
    uint64_t number : 48; /* meaningless for validation */
    uint64_t epoch : 16;
};

struct step_mark {
    int64_t time_ns, duration_ns; /* duration 0: an instant */
    uint64_t argument;
    uint32_t text;
    uint8_t kind; /* enum event_mark */
};

struct step_epoch {
    uint32_t epoch;
    uint64_t steps;
    int64_t start_ns, end_ns, total_ns;
};

/* Sums over steps whose phases are known: of each phase, and of what is in none. */
struct phase_sums {
    struct {
        double ns, steps_ns; /* of it; of the steps that know it */
        uint64_t steps;
    } of[EVENT_PHASES + 1];
};

/* Steps of one length, to a factor of 2. Durations are known of all steps, phases of some:
 * one first step of a second must not weigh as many of the thousands of a millisecond. */
struct length_sums {
    double total_ns;
    uint64_t count;
    struct phase_sums phases, tagged_phases; /* of steps recorded on demand apart */
};
#define STEPS_LENGTHS 32u

/* Sums over the whole run; one for training, one for validation. */
struct step_totals {
    uint64_t count, ops, kernels, tagged;
    double total_ns, squares, min_ns, max_ns;
    struct length_sums lengths[STEPS_LENGTHS];
    double samples;
    uint64_t samples_count;
    uint64_t cells[HISTOGRAM_CELLS];
};

struct phase_stretch {
    int64_t start_ns, end_ns;
    uint8_t phase;
};

struct step_wait {
    int64_t time_ns, ns; /* a fetch ended, and had waited for so long */
};

struct steps {
    struct step *ring; /* [capacity], grows to STEPS_MAX */
    uint32_t capacity;
    uint64_t count; /* since the start, training and validation */
    struct phase_stretch pending[STEPS_PENDING];
    uint32_t pending_count;
    struct step_wait waits[STEPS_WAITS];
    uint32_t wait_count;
    float samples_pending;
    struct step_mark *marks; /* ring of STEPS_MARKERS; NULL before the first */
    uint64_t mark_count;
    struct step_epoch *epochs; /* ring of STEPS_EPOCHS; NULL before the first */
    uint64_t epoch_count;
    struct step_totals *train, *validation; /* NULL before the first */
    struct step_totals *windows; /* of either kind, in a deep window: in neither */
    /* Whole epochs so far: training, then validation, up to where training went on. */
    uint64_t epochs_whole;
    double epochs_train_ns, epochs_validation_ns, epochs_outside_ns;
    /* Before the first training step, and so in none: validation, between its batches. */
    double before_ns, outside_before_ns;
    bool validated;                /* since the last training step */
    struct series series;          /* training: duration, then the phases */
    int64_t first_ns, last_end_ns; /* of all steps; first INT64_MAX before one */
    int64_t outside_ns;            /* between them, where none is missing */
    uint64_t next_number;          /* that of the newest training step, and one */
};

void steps_init(struct steps *steps);
void steps_free(struct steps *steps);

void steps_fold_phase(struct steps *steps, const struct event *event);
void steps_fold_samples(struct steps *steps, const struct event *event);
void steps_fold_waited(struct steps *steps, const struct event *event);
void steps_fold_mark(struct steps *steps, const struct event *event);

/* The step that the event tells of, in the ring; NULL when out of memory. */
const struct step *steps_fold(struct steps *steps, const struct event *event,
                              bool whole);

/* Adds a step to sums. */
void steps_total(struct step_totals *sum, const struct step *step);

/* GPU work of [since_ns, until_ns] was lost: steps that reach into it have none. How many
 * were looked at. */
uint32_t steps_lose_works(struct steps *steps, int64_t since_ns, int64_t until_ns);

/* How many of the newest are remembered, and the i-th of them from the oldest. */
uint32_t steps_remembered(const struct steps *steps);
const struct step *steps_at(const struct steps *steps, uint32_t i);

/* Index of the first remembered step that ends after `time_ns`. */
uint32_t steps_after(const struct steps *steps, int64_t time_ns);

/* Duration less all phases; NaN when one but data is unknown. */
double step_other_ns(const struct step *step);
double step_phase_ns(const struct step *step, uint32_t phase); /* NaN unknown */

#endif
