/* The ops and the findings of two documents side by side. Between the files of compare.c
 * alone. */
#ifndef REPORT_COMPARE_PARTS_H
#define REPORT_COMPARE_PARTS_H

#include <cjson/cJSON.h>
#include <stdbool.h>

struct compare_number { /* ms; NaN unknown */
    double value, half; /* half its 95 % interval */
};

struct compare_test {
    double strictness; /* factor on the interval */
    double floor;      /* share of the base below which nothing is a change */
};

/* Number or null. */
void compare_put(cJSON *object, const char *key, double value);

/* [low, high], none below `least`, or null. */
void compare_put_interval(cJSON *object, const char *key, double middle, double half,
                          double least);

/* diff_ms, diff_pct, ci95_ms, changed; returns changed. */
bool compare_put_change(cJSON *object, const struct compare_number *base,
                        const struct compare_number *other,
                        const struct compare_test *test);

/* "ops": rows of both, the largest difference first; "new_ops", "gone_ops": how many. */
void compare_add_ops(cJSON *object, const cJSON *base, const cJSON *other,
                     bool per_step);

/* "findings", the largest difference first; "findings_reason" where a side has none to
 * compare. */
void compare_add_findings(cJSON *object, const cJSON *base, const cJSON *other);

/* For members_sorted(). */
int compare_by_difference(const void *a, const void *b);

#endif
