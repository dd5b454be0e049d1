/* Tables to findings: what costs time, how much of it, and what to do about it.
 *
 * One rule is one row of a table and one pure function over a summary: no clock, no
 * store, no memory of earlier answers. A price is in ns per step and comes with its
 * formula and the numbers in it.
 */
#ifndef FINDINGS_FINDINGS_H
#define FINDINGS_FINDINGS_H

#include <stdbool.h>
#include <stdint.h>

#include "query/bottlenecks_query.h"

#define FINDINGS_MAX   32u
#define FINDING_OPS    4u
#define FINDING_ADVICE 4u

enum finding_severity { FINDING_LOW, FINDING_MEDIUM, FINDING_HIGH };

/* One thing that was measured; the key carries its unit (data_ms, workers). */
struct finding_evidence {
    const char *key;
    const char *text; /* NULL: it is a number */
    double number;
};

struct finding {
    const char *id;    /* the rule, or the rule and 8 hex digits of its subject */
    const char *title; /* what happens, in the user's terms */
    enum finding_severity severity;
    double ns_per_step;   /* recoverable; 0 where it is a risk and costs no time yet */
    double share;         /* of the mean step */
    const char *formula;  /* with its numbers */
    const char *sentence; /* the evidence in one sentence */
    struct finding_evidence *evidence;
    uint32_t evidence_count;
    const char *advice[FINDING_ADVICE]; /* first the best; code between backticks */
    uint32_t advice_count;
    const char *wrong_if; /* what would make this wrong */
    const char *colour;   /* of its cause: data, forward, ..., allocated, host */
    int64_t first_step, last_step; /* to be shown; NOT_KNOWN: no stretch */
    int64_t worst_step;            /* whose trace shows it; NOT_KNOWN none */
    const char *ops[FINDING_OPS];  /* to be pinned */
    uint32_t op_count;
};

struct findings {
    struct arena arena;
    struct finding list[FINDINGS_MAX]; /* dearest first, risks before what is cheap */
    uint32_t count;
    double avoidable_ns; /* per step, no instant twice */
};

/* A rule as it is documented and configured. */
struct finding_rule {
    const char *id;
    const char *reads;   /* which numbers */
    const char *formula; /* how the price comes about */
    double threshold; /* from here on there is a finding (memory-growth: a high one) */
    const char *unit; /* of the threshold */
    int64_t min, max; /* of the threshold, as it may be configured */
    const char *source; /* why this threshold */
};

/* The table's rows: a pointer for each, then NULL. */
const struct finding_rule *findings_rule(uint32_t index);

/* Thresholds in the table's order; NaN keeps the table's own. */
struct findings_settings {
    double thresholds[FINDINGS_MAX];
};

void findings_settings_init(struct findings_settings *settings);

/* False when there is no such rule. */
MUST_CHECK bool findings_settings_set(struct findings_settings *settings,
                                      const char *rule, double threshold);

/* The thresholds of this process, from its configuration. Before any thread looks. */
void findings_configure(const struct findings_settings *settings);

/* `settings` NULL = those of findings_configure(), else the table's. Nothing points into `summary` afterwards;
 * findings_free() is owed. Without enough steps there are no findings. */
void findings_find(const struct bottlenecks_answer *summary,
                   const struct findings_settings *settings, struct findings *findings);
void findings_free(struct findings *findings);

#endif
