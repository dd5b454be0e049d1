#include "query/numbers.h"

#include <math.h>
#include <stdlib.h>

#define SLOPE_POINTS 64u

static int ascending(const void *left, const void *right)
{
    double a = *(const double *)left, b = *(const double *)right;

    return a < b ? -1 : a > b;
}

void numbers_sort(double *values, uint32_t count)
{
    qsort(values, count, sizeof(*values), ascending);
}

double numbers_quantile(const double *sorted, uint32_t count, double share)
{
    if (count == 0)
        return (double)NAN;
    double rank = ceil(share * (double)count);
    uint32_t index = rank < 1 ? 0 : (uint32_t)rank - 1;

    return sorted[index < count ? index : count - 1];
}

double numbers_slope(const double *times, const double *values, uint32_t count,
                     int *sure)
{
    double slopes[SLOPE_POINTS * (SLOPE_POINTS - 1) / 2];
    uint32_t pairs = 0;
    int balance = 0;

    *sure = 0;
    if (count < 8 || count > SLOPE_POINTS)
        return (double)NAN;
    for (uint32_t i = 0; i < count; i++) {
        for (uint32_t j = i + 1; j < count; j++) {
            double run = times[j] - times[i], rise = values[j] - values[i];

            balance += rise > 0 ? 1 : rise < 0 ? -1 : 0;
            if (run > 0)
                slopes[pairs++] = rise / run;
        }
    }
    double n = count, deviation = sqrt(n * (n - 1) * (2 * n + 5) / 18);

    *sure = fabs((double)balance) / deviation > 2.576;
    numbers_sort(slopes, pairs);
    return pairs == 0 ? (double)NAN : slopes[pairs / 2];
}

double numbers_t95(uint64_t count)
{
    /* Student's t at 97.5 % within 1 % from 4 degrees of freedom on. */
    double freedom = count > 1 ? (double)(count - 1) : 1;

    return freedom < 2   ? 12.7
           : freedom < 3 ? 4.30
           : freedom < 4 ? 3.18
                         : 1.96 + 2.37 / freedom + 2.8 / (freedom * freedom);
}

void numbers_series_add(struct numbers_series *series, double value)
{
    if (series->count++ == 0)
        series->first = value;
    double offset = value - series->first;

    series->sum += offset;
    series->squares += offset * offset;
    series->products += offset * series->last;
    series->last = offset;
}

/* Of each value with the one before, 0 where it may be chance. */
static double alike(const struct numbers_series *series)
{
    double n = (double)series->count, mean = series->sum / n;
    double spread = series->squares - n * mean * mean;
    /* The first offset is 0, so are its product and its share of the sums. */
    double with_next = series->products - mean * (2 * series->sum - series->last) +
                       (n - 1) * mean * mean;
    double r = spread > 0 ? with_next / spread : 0;

    return r <= 1.64 / sqrt(n) ? 0 : r < 0.99 ? r : 0.99;
}

double numbers_series_error(const struct numbers_series *series, uint64_t count)
{
    double n = (double)series->count, r;

    if (series->count < 2)
        return (double)NAN;
    double variance = (series->squares - series->sum * series->sum / n) / (n - 1);

    r = alike(series);
    double effective = (double)count * (1 - r) / (1 + r);

    effective = effective < 2 ? 2 : effective;
    return numbers_t95((uint64_t)effective) * sqrt(variance > 0 ? variance : 0) /
           sqrt(effective);
}
