#include "query/numbers.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

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

double numbers_median(double *values, uint32_t count)
{
    numbers_sort(values, count);
    return numbers_quantile(values, count, 0.5);
}

uint32_t numbers_upto(const int64_t *first, size_t stride, uint32_t count,
                      int64_t value)
{
    uint32_t low = 0, high = count;

    while (low < high) {
        uint32_t middle = low + (high - low) / 2;
        int64_t at;

        memcpy(&at, (const char *)first + middle * stride, sizeof(at));
        if (at <= value)
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

#define SURE     2.576 /* deviations: one trend of noise in a hundred, either way */
#define T95_MANY 1.96

/* `deviations`: how far the count of rises lies from that of falls. */
static double slope_of(const double *times, const double *values, uint32_t count,
                       double *deviations)
{
    double slopes[NUMBERS_SLOPE_MAX * (NUMBERS_SLOPE_MAX - 1) / 2];
    uint32_t pairs = 0;
    int balance = 0;

    *deviations = 0;
    if (count < 8 || count > NUMBERS_SLOPE_MAX)
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

    *deviations = fabs((double)balance) / deviation;
    numbers_sort(slopes, pairs);
    return pairs == 0 ? (double)NAN : slopes[pairs / 2];
}

double numbers_slope(const double *times, const double *values, uint32_t count,
                     int *sure)
{
    double deviations, slope = slope_of(times, values, count, &deviations);

    *sure = deviations > SURE;
    return slope;
}

/* What lies beside a line: its squares, and how much alike neighbours are. */
struct beside {
    double squares, alike;
};

static struct beside beside_line(const double *times, const double *values,
                                 uint32_t count, double slope)
{
    double n = count, mean = 0, before = 0, products = 0;
    struct beside beside = {0, 0};

    for (uint32_t i = 0; i < count; i++)
        mean += (values[i] - slope * times[i]) / n;
    for (uint32_t i = 0; i < count; i++) {
        double off = values[i] - slope * times[i] - mean;

        beside.squares += off * off;
        products += off * before;
        before = off;
    }
    double r = beside.squares > 0 ? products / beside.squares : 0;

    beside.alike = fmin(fmax((n * r + 2) / (n - 4), 0), 0.99);
    return beside;
}

/* What is between neighbours, against a random walk of such differences. */
static void look_at_walk(const double *times, const double *values, uint32_t count,
                         struct numbers_trend *trend)
{
    double n = count - 1, mean = (values[count - 1] - values[0]) / n, squares = 0;

    for (uint32_t i = 1; i < count; i++) {
        double off = values[i] - values[i - 1] - mean;

        squares += off * off;
    }
    double error = sqrt(squares / (n - 1) / n);

    /* Student's t at 99 % is that at 95 % by about the ratio that the normal has. */
    trend->climbs = mean > SURE / T95_MANY * numbers_t95(count - 1) * error;
    trend->walked = numbers_t95(count - 1) * error * n / (times[count - 1] - times[0]);
}

struct numbers_trend numbers_trend(const double *times, const double *values,
                                   uint32_t count)
{
    double n = count, middle = 0, width = 0, deviations;
    struct numbers_trend trend = {.error = (double)NAN, .walked = (double)NAN};

    trend.slope = slope_of(times, values, count, &deviations);
    if (isnan(trend.slope))
        return trend;
    struct beside beside = beside_line(times, values, count, trend.slope);
    double stretch = sqrt((1 + beside.alike) / (1 - beside.alike));

    for (uint32_t i = 0; i < count; i++)
        middle += times[i] / n;
    for (uint32_t i = 0; i < count; i++)
        width += (times[i] - middle) * (times[i] - middle);
    trend.sure = deviations / stretch > SURE;
    trend.error = numbers_t95((uint64_t)fmax(2, n / (stretch * stretch))) * stretch *
                  sqrt(beside.squares / (n - 2) / width);
    look_at_walk(times, values, count, &trend);
    return trend;
}

void numbers_quarters(const double *values, uint32_t count, double *levels)
{
    double sorted[NUMBERS_SLOPE_MAX];

    for (uint32_t q = 0; q < NUMBERS_QUARTERS; q++) {
        uint32_t from = count * q / NUMBERS_QUARTERS;
        uint32_t part = count * (q + 1) / NUMBERS_QUARTERS - from;

        memcpy(sorted, values + from, part * sizeof(*sorted));
        levels[q] = numbers_median(sorted, part);
    }
}

bool numbers_rises(const double *values, uint32_t count, double least)
{
    double levels[NUMBERS_QUARTERS], before = 0;

    if (count < NUMBERS_QUARTERS || count > NUMBERS_SLOPE_MAX)
        return false;
    numbers_quarters(values, count, levels);
    for (uint32_t q = 0; q < NUMBERS_QUARTERS; q++) {
        if (!(levels[q] > before * (1 + least)))
            return false;
        before = levels[q];
    }
    return true;
}

#define RARE_SPREADS 4.0

double numbers_rare_from(double median, double p95)
{
    return median + fmax(RARE_SPREADS * (p95 - median), median);
}

double numbers_t95(uint64_t count)
{
    /* Student's t at 97.5 % within 1 % from 4 degrees of freedom on. */
    double freedom = count > 1 ? (double)(count - 1) : 1;

    return freedom < 2   ? 12.7
           : freedom < 3 ? 4.30
           : freedom < 4 ? 3.18
                         : T95_MANY + 2.37 / freedom + 2.8 / (freedom * freedom);
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

/* ---- what comes again and again ---------------------------------------------------- */

void cycles_add(struct cycles *cycles, uint32_t at, double ns)
{
    if (cycles->count++ == 0)
        cycles->first_at = at;
    else
        numbers_series_add(&cycles->gaps, at - cycles->last_at);
    cycles->last_at = at;
    numbers_series_add(&cycles->extras, ns);
}

static double mean_of(const struct numbers_series *series)
{
    return series->first + series->sum / (double)series->count;
}

/* Extra time and distance are taken for independent. */
static struct cycles_price price_of(const struct cycles *cycles,
                                    const struct numbers_series *gaps, double gap)
{
    double extra = mean_of(&cycles->extras);
    double of_extra = numbers_series_error(&cycles->extras, cycles->count) / gap;
    double of_gap = numbers_series_error(gaps, gaps->count) / gap * extra / gap;

    return (struct cycles_price){.ns_per_step = extra / gap,
                                 .error_ns = hypot(of_extra, of_gap),
                                 .steps = gap * cycles->count};
}

struct cycles_price cycles_even(const struct cycles *cycles, uint32_t places)
{
    double shortest = (double)places / (cycles->count + 1.0);
    double gap = cycles->count > 1 ? mean_of(&cycles->gaps) : shortest;

    return price_of(cycles, &cycles->gaps, gap > shortest ? gap : shortest);
}

struct cycles_price cycles_uneven(const struct cycles *cycles, uint32_t places)
{
    struct numbers_series gaps = cycles->gaps;

    numbers_series_add(&gaps, places - cycles->last_at + cycles->first_at);
    return price_of(cycles, &gaps, (double)places / cycles->count);
}
