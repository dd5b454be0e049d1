#include "query/memory_growth.h"

#include <math.h>

#include "query/numbers.h"

#define NS_PER_S 1e9

/* A slope below this share of the level in the whole window is no news. */
#define GROWTH_SHARE 0.01
#define GROWTH_BYTES (16.0 * 1024 * 1024)

void envelope_add(struct envelope *envelope, int64_t time_ns, double value)
{
    int64_t width = (envelope->to_ns - envelope->from_ns) / ENVELOPE_PARTS + 1;
    double part = (double)((time_ns - envelope->from_ns) / width);

    if (envelope->count > 0 && envelope->times[envelope->count - 1] >= part) {
        double *low = &envelope->lows[envelope->count - 1];

        *low = value < *low ? value : *low;
        return;
    }
    if (envelope->count == ENVELOPE_PARTS)
        return;
    envelope->times[envelope->count] = part;
    envelope->lows[envelope->count++] = value;
}

struct memory_growth envelope_growth(const struct envelope *envelope, double left)
{
    struct memory_growth growth = {
        .full_in_s = (double)NAN, .earliest_s = (double)NAN, .latest_s = (double)NAN};
    double width =
        (double)(envelope->to_ns - envelope->from_ns) / ENVELOPE_PARTS / NS_PER_S;
    struct numbers_trend trend =
        numbers_trend(envelope->times, envelope->lows, envelope->count);
    int grows;

    growth.slope_bytes_per_s =
        numbers_slope(envelope->times, envelope->lows, envelope->count, &grows) / width;
    growth.error_bytes_per_s = trend.error / width;
    if (isnan(growth.slope_bytes_per_s))
        return growth;
    double grown = growth.slope_bytes_per_s * width * (double)envelope->count;
    double level = envelope->lows[envelope->count - 1];
    double least = growth.slope_bytes_per_s - growth.error_bytes_per_s;

    growth.sure = grows && grown > GROWTH_SHARE * level && grown > GROWTH_BYTES;
    if (!growth.sure || !(left > 0))
        return growth;
    growth.full_in_s = left / growth.slope_bytes_per_s;
    growth.earliest_s = left / (growth.slope_bytes_per_s + growth.error_bytes_per_s);
    if (least > 0)
        growth.latest_s = left / least;
    return growth;
}
