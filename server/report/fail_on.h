/* What --fail-on says: one grammar for run, analyze and compare.
 *
 *     NAME (> | <) NUMBER UNIT        step.p95 > 250 ms,  data>20%,  memory > 38 GiB
 *
 *     step, step.p95, data, forward, backward, optimizer, other      ms, %
 *     idle, idle.CAUSE (of the device that works most), finding.ID   ms, %
 *     memory                          bytes, KiB, MiB, GiB, % (of what there is)
 *     overhead                                                       %
 *
 * `ms` is per step. `%` is of the mean step for run and analyze, of the base for
 * compare, where it is a change and may be below zero; a finding's is of the base's mean
 * step. An expression is true when the whole 95 % interval lies beyond its limit: what is
 * not sure fails nothing.
 */
#ifndef REPORT_FAIL_ON_H
#define REPORT_FAIL_ON_H

#include <stdbool.h>
#include <stddef.h>

#include "wire/attributes.h"

#define FAIL_ON_TEXT_BYTES 128u

enum fail_on_name {
    FAIL_ON_STEP,
    FAIL_ON_STEP_P95,
    FAIL_ON_DATA,
    FAIL_ON_FORWARD,
    FAIL_ON_BACKWARD,
    FAIL_ON_OPTIMIZER,
    FAIL_ON_OTHER,
    FAIL_ON_IDLE,
    FAIL_ON_MEMORY,
    FAIL_ON_OVERHEAD,
    FAIL_ON_FINDING,
    FAIL_ON_NAMES,
};

enum fail_on_unit { FAIL_ON_MS, FAIL_ON_PERCENT, FAIL_ON_BYTES };

/* What `%` means. */
enum fail_on_scale { FAIL_ON_ONE_RUN, FAIL_ON_CHANGE };

struct fail_on {
    char text[FAIL_ON_TEXT_BYTES]; /* as given */
    enum fail_on_name name;
    char subject[48]; /* the finding's id, or the cause of idle; "" none */
    bool above;       /* '>' */
    double limit;     /* in `unit` */
    enum fail_on_unit unit;
};

/* Is the finding of that id of the rule, or the very one, that is the subject? */
bool fail_on_is_of_rule(const char *id, const char *subject);

/* Where and why an expression is wrong. */
struct fail_on_error {
    size_t at; /* the byte that is wrong, from 0 */
    char reason[200];
};

/* Returns 0, or -EINVAL with *error. */
MUST_CHECK int fail_on_parse(const char *text, enum fail_on_scale scale,
                             struct fail_on *expression, struct fail_on_error *error);

/* A number with its 95 % interval, in the unit of the expression; a number that is exact
 * has itself as both ends. */
struct fail_on_measure {
    double value, low, high;
    bool open; /* a finding that stands without a price: a risk, or nobody knows it */
};

/* Does the whole interval lie beyond the limit? A finding without a price is above 0. */
bool fail_on_found(const struct fail_on *expression,
                   const struct fail_on_measure *measure);

/* The word of the name ("step.p95"), without its subject. */
const char *fail_on_word(enum fail_on_name name);

/* "263 ms (95 %: 255 to 271 ms)". */
void fail_on_describe(const struct fail_on *expression,
                      const struct fail_on_measure *measure, char *text, size_t size);

/* Looks the number up in a document of /api/report (or one with the same parts: steps,
 * bottlenecks, memory, gpu, overhead). Returns 0, or -ENODATA with a sentence. */
struct cJSON;
MUST_CHECK int fail_on_look_up(const struct fail_on *expression,
                               const struct cJSON *report,
                               struct fail_on_measure *measure, char *reason,
                               size_t size);

enum fail_on_verdict { FAIL_ON_NOT_FOUND, FAIL_ON_HOLDS, FAIL_ON_NO_DATA };

/* Looked up and held against its limit; `text` says what was measured, or why nothing. */
enum fail_on_verdict fail_on_judge(const struct fail_on *expression,
                                   const struct cJSON *report, char *text, size_t size);

/* {expression, found, measured | reason}, as reports keep it. */
struct cJSON *fail_on_json(const struct fail_on *expression,
                           enum fail_on_verdict verdict, const char *text);

#endif
