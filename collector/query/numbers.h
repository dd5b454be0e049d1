/* Order statistics of a list of numbers. */
#ifndef QUERY_NUMBERS_H
#define QUERY_NUMBERS_H

#include <stdint.h>

/* Sorts ascending; no NaN. */
void numbers_sort(double *values, uint32_t count);

/* The smallest value that at least `share` of the sorted values do not exceed; NaN when
 * there is none. */
double numbers_quantile(const double *sorted, uint32_t count, double share);

/* Theil-Sen slope of values over times, and whether the trend is beyond noise (Mann-
 * Kendall, two-sided 1 %). At most 64 points; NaN and false below 8. */
double numbers_slope(const double *times, const double *values, uint32_t count,
                     int *sure);

/* Factor of the standard error for half a 95 % interval with `count` samples. */
double numbers_t95(uint64_t count);

#endif
