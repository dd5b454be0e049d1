#include "query/cycles.h"

#include <math.h>

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
