/* Steps: a row each, their statistics, the slow ones and what happened between. */
#ifndef QUERY_STEPS_QUERY_H
#define QUERY_STEPS_QUERY_H

#include "query/answer.h"
#include "wire/event.h"

#define STEPS_SLOW_MAX   20u
#define STEPS_POINTS_MAX 10000u

struct step_row {
    int64_t number; /* NOT_KNOWN for a validation batch */
    uint32_t epoch; /* from 1; 0 unknown */
    uint32_t flags; /* EVENT_STEP_*: VALIDATION, OPS, KERNELS, TAGGED, WINDOW; and
                       RECORDING_PHASES */
    int64_t start_ns;
    double duration_ns;
    double phase_ns[EVENT_PHASES]; /* by enum event_phase; NaN unknown */
    double other_ns;               /* NaN when any phase is unknown */
    double samples;                /* NaN unknown */
    bool slow;                     /* over twice the window's median */
    bool whole;                    /* no event of it was lost */
    bool works_known;              /* in a trace_process: all that devices did in it */
};

struct steps_summary {
    uint64_t count;
    double mean_ns, p50_ns, p95_ns, p99_ns, std_ns, min_ns, max_ns;
    double error_pct; /* half of the mean's 95 % interval, of the mean */
    /* The same of the steps that what is told of GPU work stands for: without the run's slow
     * first ones before it (query/warm_up.c). Count 0: it stands for all. */
    struct steps_usual {
        uint64_t count;
        double mean_ns, error_pct;
    } usual;
    double phase_ns[EVENT_PHASES]; /* mean per step: its share in those that know it */
    double other_ns;
    double phase_share[EVENT_PHASES], other_share; /* of the summed step time */
    /* 95 % intervals; NaN where too few steps say nothing. Of a mean: half of it. */
    double phase_error_ns[EVENT_PHASES], other_error_ns;
    double computing_error_ns; /* of the step without its wait for data */
    /* Of the data phase: no batch of a worker was there. Over the steps remembered; NaN
     * where nobody tells. */
    double waited_ns, waited_error_ns;
    double taken_ns, taken_error_ns; /* of it, a batch was there; of the same steps */
    double late_share;               /* of those steps: they waited so at all */
    /* The same without the few steps that are far longer than all others
     * (numbers_rare_from): one of them makes the means above as unsure as they are large.
     * What is typical is known all the same. Over the steps remembered. */
    struct steps_typical {
        uint64_t
            rare; /* steps left out; 0: there are none, and the rest says nothing */
        double mean_ns, error_ns;
        double phase_ns[EVENT_PHASES], phase_error_ns[EVENT_PHASES];
        double other_ns, other_error_ns;
        double waited_error_ns, taken_error_ns;
    } typical;
    double p95_low_ns, p95_high_ns;
    double steps_per_s;   /* of the window's span */
    double samples_per_s; /* NaN where samples are not told */
    uint64_t recorded;    /* with CPU ops */
    uint64_t phase_steps; /* whose phases are known: the rest is scaled by them */
    uint64_t kernels;     /* with GPU work */
};

struct slow_step {
    int64_t number;
    int64_t start_ns;
    double duration_ns;
    double over_ns;     /* more than the median */
    const char *cause;  /* data, forward, backward, optimizer, gc, other, unknown */
    double age_ns;      /* from its end to head.now_ns */
    uint32_t flags;     /* EVENT_STEP_*, RECORDING_PHASES */
    bool remembered;    /* its raw events are still there (phases at least) */
    uint64_t raw_bytes; /* of them, in the history; a trace has about four times that */
};

struct step_marker {
    int64_t time_ns;
    const char *kind; /* epoch, validation, stretch, level, gc, window, checkpoint,
                         user, metric is never one */
    const char *label;
    double duration_ns; /* NaN for an instant */
};

struct epoch_row {
    uint32_t epoch;
    int64_t start_ns, end_ns;
    uint64_t steps;
    double mean_ns;
};

struct step_mean { /* of neighbouring training steps */
    int64_t time_ns;
    uint64_t steps;
    double duration_ns, phase_ns[EVENT_PHASES]; /* NaN unknown */
};

struct steps_request {
    uint32_t points; /* rows at most, 0 = 600; more rows become min-max pairs */
};

struct steps_answer {
    struct answer head;
    /* By start, training and validation together; some of them only where decimated. */
    struct step_row *rows;
    uint32_t row_count;
    bool decimated;          /* rows are the shortest and longest step of each bucket */
    struct step_mean *means; /* by time; where decimated, else none */
    uint32_t mean_count;
    struct steps_summary train, validation;
    struct steps_summary windows; /* steps in deep windows: in neither of the two */
    double outside_ns; /* between the first and the last step, in none of them */
    /* Where the window shows a running job as it goes, else 0: of the whole run so far.
     * Right after a validation the last minute is nearly all validation. */
    double run_train_ns, run_validation_ns, run_outside_ns;
    /* Likewise, of the epochs that are whole: what comes once in an epoch is in this
     * minute or is not. 0 where there is none: the window has the say. */
    double epochs_train_ns, epochs_validation_ns, epochs_outside_ns;
    struct slow_step *slow; /* over twice the median, newest first: not the slowest */
    uint32_t slow_count;
    struct step_marker *markers; /* newest 200 of the window, by time */
    uint32_t marker_count;
    struct epoch_row *epochs; /* of the whole run, newest 1,000 */
    uint32_t epoch_count;
};

/* What of a step was recorded, by its row's flags: "none" but its duration, "phases", "ops",
 * "kernels", "all". */
const char *step_recorded_name(uint32_t flags);

MUST_CHECK int steps_query(struct store *store, const struct selection *selection,
                           const struct steps_request *request,
                           struct steps_answer *answer);

/* Stream: rows that ended after `*cursor` (0 = from the newest on), oldest first, at
 * most `max`; moves the cursor. head.reason is "gap" when some were passed over. */
MUST_CHECK int steps_since(struct store *store, const struct selection *selection,
                           uint64_t *cursor, uint32_t max, struct steps_answer *answer);

#endif
