/* What comes at every n-th step: logging, checkpoints, validation. */

#include "query/rhythm_inside.h"

/* A period shows in four steps at least; nearly all of its places must be slow. Strangers
 * between two of them are passed over. */
#define PERIOD_NEEDED    4u
#define PERIOD_LEAST     2u
#define PERIOD_TAKEN     0.8
#define PERIOD_STRANGERS 4u
#define PERIOD_CHANCE    0.01  /* of finding one where large steps come at random */
#define PERIOD_LARGE     1100u /* looked at: one in two of RHYTHM_STEPS, and some more */
#define PERIOD_OVER      0.2 /* of the median: the third largest is larger, or none is */
#define PERIOD_HALVINGS  3u  /* hiccups of eight times its length do not hide it */

/* Three are enough where they are the only large ones, alike, and twice as long as others. */
#define PERIOD_FEW      3u
#define PERIOD_FEW_OVER 1.0 /* of the median */
#define PERIOD_ALIKE    1.5

struct period {
    uint32_t steps, from; /* 0: none; a place of it */
    double large_ns;      /* over the median: what is less has no part in it */
};

/* What makes a step one of the largest at first: half as much over as the third largest of
 * the steps from `first` on. */
static double large_over(struct rhythm_work *work, uint32_t first)
{
    uint32_t count = work->count - first;

    for (uint32_t i = 0; i < count; i++)
        work->numbers[i] = rhythm_over(work, first + i);
    numbers_sort(work->numbers, count);
    double third = work->numbers[count - 3];

    return third > PERIOD_OVER * work->median ? third / 2 : (double)INFINITY;
}

/* How many of the large steps lie at `from` and then at every `gap`-th. `numbers` holds
 * their places, ascending. */
static uint32_t chained(const struct rhythm_work *work, uint32_t found, uint32_t from,
                        uint32_t gap)
{
    uint32_t members = 0;

    for (uint32_t i = 0; i < found; i++)
        members += ((uint32_t)work->numbers[i]) % gap == from % gap;
    return members;
}

static double log_factorial(uint32_t n)
{
    int sign;

    return lgamma_r(n + 1.0, &sign); /* the other one writes to a global */
}

static double log_choices(uint32_t of, uint32_t chosen)
{
    return log_factorial(of) - log_factorial(chosen) - log_factorial(of - chosen);
}

/* Would so many of the places of a period be taken, were the large steps at random? The
 * chance of it over all periods and beginnings that there are. */
static bool is_chance(const struct rhythm_work *work, uint32_t found, uint32_t places,
                      uint32_t members, uint32_t gap)
{
    uint32_t steps = rhythm_places(work);
    double taken = log_choices(places, members) +
                   log_choices(steps - places, found - members) -
                   log_choices(steps, found);
    double tried = log(gap) + log((double)steps / PERIOD_NEEDED);

    return taken + tried > log(PERIOD_CHANCE);
}

/* The period with which large steps come, 0 when they come at no fixed distance: nearly
 * each place of it is taken, and most of the large steps lie on one. */
static uint32_t common_period(const struct rhythm_work *work, uint32_t found,
                              uint32_t *from)
{
    uint32_t best = 0, period = 0;

    for (uint32_t i = 0; i + 1 < found; i++) {
        for (uint32_t j = i + 1; j < found && j <= i + PERIOD_STRANGERS; j++) {
            uint32_t at = (uint32_t)work->numbers[i];
            uint32_t gap = (uint32_t)work->numbers[j] - at;
            uint32_t places = (work->items[work->count - 1].at - at % gap) / gap + 1;

            /* No more members than places: most pairs need not be counted. */
            if (gap < PERIOD_LEAST || places < PERIOD_NEEDED || places <= best ||
                places < PERIOD_TAKEN / 2 * found)
                continue;
            uint32_t members = chained(work, found, at, gap);

            if (members < PERIOD_NEEDED || members <= best ||
                members < PERIOD_TAKEN * places || members < PERIOD_TAKEN / 2 * found ||
                is_chance(work, found, places, members, gap))
                continue;
            best = members;
            period = gap;
            *from = at;
        }
    }
    return period;
}

/* Places of the steps that are over by `large`, to `numbers`; how many. */
static uint32_t collect_large(struct rhythm_work *work, double large)
{
    uint32_t found = 0;

    for (uint32_t i = 0; i < work->count; i++)
        if (rhythm_over(work, i) >= large && found < PERIOD_LARGE)
            work->numbers[found++] = work->items[i].at;
    return found;
}

/* A window of three periods: each place of it has one of the three large steps. */
static struct period seek_three(struct rhythm_work *work)
{
    double least = (double)INFINITY, most = 0;
    uint32_t found = collect_large(work, PERIOD_FEW_OVER * work->median);
    struct period none = {.steps = 0};

    if (found != PERIOD_FEW)
        return none;
    uint32_t at = (uint32_t)work->numbers[0];
    uint32_t gap = (uint32_t)work->numbers[1] - at;

    for (uint32_t i = 0; i < work->count; i++) {
        double over = rhythm_over(work, i);

        least = over >= PERIOD_FEW_OVER * work->median ? fmin(least, over) : least;
        most = fmax(most, over);
    }
    return gap >= PERIOD_LEAST && at < gap && work->numbers[2] == at + 2.0 * gap &&
                   rhythm_places(work) <= at + 3 * gap && most <= PERIOD_ALIKE * least
               ? (struct period){gap, at, PERIOD_FEW_OVER * work->median}
               : none;
}

/* Where a few hiccups of the machine are more than twice as long as what comes at a
 * period, that is not among the largest: looked for again, among more steps. */
static struct period seek(struct rhythm_work *work, uint32_t first)
{
    double large = large_over(work, first), least = PERIOD_OVER * work->median / 2;
    uint32_t found = collect_large(work, large), from = 0;
    uint32_t period = common_period(work, found, &from);

    for (uint32_t i = 0; i < PERIOD_HALVINGS && period == 0 && large / 2 >= least &&
                         found < PERIOD_LARGE && !isinf(large);
         i++) {
        large /= 2;
        found = collect_large(work, large);
        period = found < PERIOD_LARGE ? common_period(work, found, &from) : 0;
    }
    return period > 0 ? (struct period){period, from, large} : seek_three(work);
}

static bool is_of(const struct rhythm_work *work, const struct period *period,
                  uint32_t i)
{
    return rhythm_over(work, i) >= period->large_ns &&
           work->items[i].at % period->steps == period->from % period->steps;
}

void rhythm_mark_period(struct rhythm_work *work)
{
    struct period period = seek(work, 0);

    /* A warm-up may be so slow that all else looks alike beside it. */
    if (period.steps == 0)
        period = seek(work, work->count / 4);
    for (uint32_t i = 0; period.steps > 0 && i < work->count; i++)
        work->items[i].periodic = is_of(work, &period, i);
}

void rhythm_find_period(struct rhythm_work *work, struct rhythm *rhythm)
{
    struct period period = seek(work, 0);
    struct rhythm_sums sums = {0};
    struct cycles cycles = {.count = 0};

    rhythm->period_steps = period.steps;
    if (period.steps == 0)
        return;
    for (uint32_t i = 0; i < work->count; i++) {
        double over = rhythm_over(work, i);

        if (!is_of(work, &period, i))
            continue;
        cycles_add(&cycles, work->items[i].at, over);
        rhythm_take(work, &sums, i, over);
    }
    struct cycles_price price = cycles_even(&cycles, rhythm_places(work));

    rhythm->period = rhythm_finish_cycles(&sums, &price);
}
