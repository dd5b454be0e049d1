/* What comes at every n-th step: logging, checkpoints, validation. */
#include <math.h>

#include "query/numbers.h"
#include "query/pauses.h"
#include "query/rhythm_inside.h"

/* A period shows in four steps at least; nearly all of its places must be slow. Strangers
 * between two of them are passed over. */
#define PERIOD_NEEDED    4u
#define PERIOD_LEAST     3u
#define PERIOD_TAKEN     0.8
#define PERIOD_STRANGERS 4u
#define PERIOD_CHANCE    0.01 /* of finding one where large steps come at random */
#define PERIOD_LARGE     700u /* looked at: one in three of RHYTHM_STEPS */
#define PERIOD_OVER      0.2 /* of the median: the third largest is larger, or none is */
#define PERIOD_HALVINGS  3u  /* hiccups of eight times its length do not hide it */

/* What makes a step one of the largest at first: half as much over as the third largest. */
static double large_over(struct rhythm_work *work)
{
    for (uint32_t i = 0; i < work->count; i++)
        work->numbers[i] = rhythm_over(work, i);
    numbers_sort(work->numbers, work->count);
    double third = work->numbers[work->count - 3];

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

/* Would so many of the places of a period be taken, were the large steps at random? The
 * chance of it, at most, over all periods and beginnings that there are. */
static bool is_chance(const struct rhythm_work *work, uint32_t found, uint32_t places,
                      uint32_t members, uint32_t gap)
{
    double steps = work->items[work->count - 1].at + 1.0;
    double choices = log_factorial(places) - log_factorial(members) -
                     log_factorial(places - members);
    double tried = log(gap) + log(steps / PERIOD_NEEDED);

    return choices + members * log(found / steps) + tried > log(PERIOD_CHANCE);
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

/* Where a few hiccups of the machine are more than twice as long as what comes at a
 * period, that is not among the largest: looked for again, among more steps. */
void rhythm_find_period(struct rhythm_work *work, struct rhythm *rhythm)
{
    double large = large_over(work), least = PERIOD_OVER * work->median / 2;
    uint32_t found = collect_large(work, large), from = 0;
    struct rhythm_sums sums = {0};
    struct cycles cycles = {.count = 0};

    rhythm->period_steps = common_period(work, found, &from);
    for (uint32_t i = 0; i < PERIOD_HALVINGS && rhythm->period_steps == 0 &&
                         large / 2 >= least && found < PERIOD_LARGE && !isinf(large);
         i++) {
        large /= 2;
        found = collect_large(work, large);
        rhythm->period_steps =
            found < PERIOD_LARGE ? common_period(work, found, &from) : 0;
    }
    if (rhythm->period_steps == 0)
        return;
    for (uint32_t i = 0; i < work->count; i++) {
        double over = rhythm_over(work, i);

        if (over < large ||
            work->items[i].at % rhythm->period_steps != from % rhythm->period_steps)
            continue;
        cycles_add(&cycles, work->items[i].at, over);
        rhythm_take(work, &sums, i, over);
    }
    struct cycles_price price = cycles_even(&cycles, rhythm_places(work));

    rhythm->period = rhythm_finish_cycles(&sums, &price);
}

/* A period that is longer than the window shows: of all pauses that are remembered. */
void rhythm_find_pauses(const struct pick *pick, struct rhythm_work *work,
                        struct rhythm *rhythm)
{
    struct pauses pauses;
    struct rhythm_sums sums = {0};
    struct cycles cycles = {.count = 0};

    if (rhythm->period_steps > 0 || !pauses_find(pick, work->median, &pauses))
        return;
    for (uint32_t i = pauses.count; i-- > 0;) {
        double ns = pauses_extra_ns(pauses.steps[i], work->median);

        cycles_add(&cycles, pauses.places[pauses.count - 1] - pauses.places[i], ns);
        rhythm_add(work, &sums, pauses.steps[i], ns);
    }
    struct cycles_price price = cycles_even(&cycles, 0);
    struct rhythm_extra extra = rhythm_finish_cycles(&sums, &price);

    /* First batches of epochs were told. */
    if (rhythm->epoch.steps > 0 && extra.part == EVENT_PHASE_DATA)
        return;
    rhythm->period = extra;
    rhythm->period_steps = pauses.gap;
    rhythm->period_is_rough = pauses.rough;
    for (uint32_t i = 0; i < work->count; i++)
        for (uint32_t p = 0; p < pauses.count; p++)
            if (work->items[i].step == pauses.steps[p])
                work->items[i].left -= rhythm_over(work, i);
}
