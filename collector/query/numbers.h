/* Order statistics of a list of numbers. */
#ifndef QUERY_NUMBERS_H
#define QUERY_NUMBERS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define NUMBERS_SLOPE_MAX 64u

/* Sorts ascending; no NaN. */
void numbers_sort(double *values, uint32_t count);

/* The smallest value that at least `share` of the sorted values do not exceed; NaN when
 * there is none. */
double numbers_quantile(const double *sorted, uint32_t count, double share);

/* The median of them, which are sorted for it. */
double numbers_median(double *values, uint32_t count);

/* How many are at most `value` of `count` ascending numbers, each `stride` bytes behind the one
 * before. */
uint32_t numbers_upto(const int64_t *first, size_t stride, uint32_t count,
                      int64_t value);

/* Theil-Sen slope of values over times, and whether the trend is beyond noise (Mann-
 * Kendall, two-sided 1 %). At most NUMBERS_SLOPE_MAX points; NaN and false below 8. */
double numbers_slope(const double *times, const double *values, uint32_t count,
                     int *sure);

#define NUMBERS_QUARTERS 4u

/* The median of each quarter of the values, in their order; NUMBERS_QUARTERS to
 * NUMBERS_SLOPE_MAX of them. */
void numbers_quarters(const double *values, uint32_t count, double *levels);

/* Each quarter of the values lies by that share above the one before: noise of a machine
 * that others use too rises and falls. At most NUMBERS_SLOPE_MAX of them. */
bool numbers_rises(const double *values, uint32_t count, double least);

/* The same of a series whose noise wanders: what lies beside the line is alike from one
 * value to the next. With r their correlation, corrected for what fitting a line takes of
 * it (Marriott and Pope 1954), n values count as n * (1 - r) / (1 + r), for the test
 * (Hamed and Rao 1998) and for the error, which is half of the slope's 95 % interval.
 * A trend that bends has neighbours alike too. So it is climbing where it rises by more than
 * a random walk with the same differences between neighbours would (t of their mean, 1 %):
 * `walked` is then half of the 95 % interval of such a walk's slope. */
struct numbers_trend {
    double slope, error, walked; /* per unit of time; NaN below 8 points */
    bool sure, climbs;
};

struct numbers_trend numbers_trend(const double *times, const double *values,
                                   uint32_t count);

/* From where on a value is so far from all but a twentieth of them that it is rare: beyond the
 * median by four times what that twentieth is, and by as much as the median itself. Of noise
 * it is about one in a million, of exponential waits one in ten thousand. */
double numbers_rare_from(double median, double p95);

/* Factor of the standard error for half a 95 % interval with `count` samples. */
double numbers_t95(uint64_t count);

/* The mean of a series and how sure it is. Values come in their order: neighbours that
 * are alike say less than as many independent ones. With r the correlation of neighbours,
 * where it is significant (r > 1.64 / sqrt(n), Bartlett 1946), n values count as
 * n * (1 - r) / (1 + r) (Bayley and Hammersley 1946). */
struct numbers_series {
    uint64_t count;
    double first, last; /* sums are of differences to the first: no digits are lost */
    double sum, squares, products;
};

void numbers_series_add(struct numbers_series *series, double value);

/* Half of the 95 % interval of a mean over `count` values of which the series are some
 * or all; NaN below two. */
double numbers_series_error(const struct numbers_series *series, uint64_t count);

/* The price of what comes again and again, as a renewal with rewards: a mean extra time over
 * a mean distance. It is as sure as both of them are. That few of many steps have it makes
 * it no less sure: what comes at even distances is known after some of them.
 */
struct cycles {
    struct numbers_series extras, gaps; /* ns; places from one to the next */
    uint32_t first_at, last_at;         /* places of the first and the last */
    uint32_t count;
};

/* The next one, with `ns` at a place behind all others; 0 where it has no extra time. */
void cycles_add(struct cycles *cycles, uint32_t at, double ns);

struct cycles_price {
    double ns_per_step;
    double error_ns; /* half of its 95 % interval; NaN of fewer than three */
    double steps;    /* over which they are spread */
};

/* Of one at least that come at even distances, among `places` of which those before the
 * first and behind the last belong to cycles that are not whole. The distance is no less
 * than so many among them allow: some that follow each other closely are not all. */
struct cycles_price cycles_even(const struct cycles *cycles, uint32_t places);

/* Of one at least at any distances: the places as they are, whose end goes on at their
 * beginning. */
struct cycles_price cycles_uneven(const struct cycles *cycles, uint32_t places);

#endif
