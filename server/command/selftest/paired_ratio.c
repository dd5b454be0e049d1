#include "command/selftest/paired_ratio.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "query/numbers.h"

#define DRAWS 2000u

/* Of the windows of a pair so many at either end do not count: the machine was busy under
 * one run and not under the other. What few steps cost moves no median, so it decides
 * nothing here and is in the mean of what counts. */
#define TRIMMED 0.25

static uint32_t draw_below(uint64_t *state, uint32_t count)
{
    *state ^= *state << 13;
    *state ^= *state >> 7;
    *state ^= *state << 17;
    return (uint32_t)((*state >> 32) * count >> 32);
}

void paired_add(struct paired_ratios *ratios, struct paired_ratio window)
{
    if (isfinite(window.typical) && isfinite(window.mean) &&
        ratios->count < PAIRED_RATIOS_MAX && ratios->group_count < PAIRED_GROUPS_MAX)
        ratios->windows[ratios->count++] = window;
}

uint32_t paired_end_group(struct paired_ratios *ratios)
{
    uint32_t count = ratios->count - ratios->starts[ratios->group_count];

    if (count > 0)
        ratios->starts[++ratios->group_count] = ratios->count;
    return count;
}

static int by_typical(const void *left, const void *right)
{
    double a = ((const struct paired_ratio *)left)->typical;
    double b = ((const struct paired_ratio *)right)->typical;

    return a < b ? -1 : a > b;
}

/* Sorts them. */
static double middle_mean(struct paired_ratio *windows, uint32_t count)
{
    uint32_t out = (uint32_t)(TRIMMED * count);
    double sum = 0;

    qsort(windows, count, sizeof(*windows), by_typical);
    for (uint32_t i = out; i < count - out; i++)
        sum += windows[i].mean;
    return sum / (count - 2 * out);
}

static double as_pct(double log_ratio)
{
    return expm1(log_ratio) * 100;
}

double paired_group_pct(const struct paired_ratios *ratios, uint32_t group)
{
    uint32_t start = ratios->starts[group], count = ratios->starts[group + 1] - start;
    struct paired_ratio *windows = malloc(count * sizeof(*windows));

    if (windows == NULL)
        return (double)NAN;
    memcpy(windows, ratios->windows + start, count * sizeof(*windows));
    double mean = middle_mean(windows, count);

    free(windows);
    return as_pct(mean);
}

/* The mean of as many groups, drawn with replacement, of windows that are drawn likewise. */
static double draw_mean(const struct paired_ratios *ratios,
                        struct paired_ratio *windows, uint64_t *state)
{
    double sum = 0;

    for (uint32_t i = 0; i < ratios->group_count; i++) {
        uint32_t group = draw_below(state, ratios->group_count);
        uint32_t start = ratios->starts[group];
        uint32_t count = ratios->starts[group + 1] - start;

        for (uint32_t j = 0; j < count; j++)
            windows[j] = ratios->windows[start + draw_below(state, count)];
        sum += middle_mean(windows, count);
    }
    return sum / ratios->group_count;
}

int paired_estimate(const struct paired_ratios *ratios,
                    struct paired_estimate *estimate)
{
    uint64_t state = UINT64_C(88172645463325252);
    double means[DRAWS], sum = 0;

    *estimate = (struct paired_estimate){(double)NAN, (double)NAN, (double)NAN};
    if (ratios->group_count == 0)
        return 0;
    for (uint32_t i = 0; i < ratios->group_count; i++)
        sum += log1p(paired_group_pct(ratios, i) / 100);
    estimate->pct = as_pct(sum / ratios->group_count);
    if (ratios->group_count == 1)
        return 0;
    struct paired_ratio *windows = malloc(ratios->count * sizeof(*windows));

    if (windows == NULL)
        return -ENOMEM;
    for (uint32_t i = 0; i < DRAWS; i++)
        means[i] = draw_mean(ratios, windows, &state);
    free(windows);
    numbers_sort(means, DRAWS);
    estimate->low_pct = as_pct(numbers_quantile(means, DRAWS, 0.025));
    estimate->high_pct = as_pct(numbers_quantile(means, DRAWS, 0.975));
    return 0;
}
