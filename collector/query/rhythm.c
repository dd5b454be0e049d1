/* Extra time of some steps, each instant under one cause. */
#include "query/rhythm.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "query/cycles.h"
#include "query/numbers.h"
#include "query/parts.h"
#include "query/pauses.h"

/* A median of fewer says nothing. */
#define STEPS_NEEDED 20u

/* The run's first steps, when the window still holds them. */
#define WARM_UP_MOST 100u
#define WARM_UP_CALM 5u /* so many usual steps end it */
#define WARM_UP_SLOW 1.5

/* Share of the epochs whose first batch must be late: of all of them, or of the newest where
 * it was not always so. */
#define EPOCHS_SLOW   0.7
#define EPOCHS_NEWEST 4u
#define EPOCH_LATE    0.1 /* of the median step: less is no news of so rare a step */

/* The steps after it belong to the slow beginning while they are over the median by such a
 * share, one after the other: workers fill their queues, pages are copied. */
#define BEGINNING_OVER 0.2
#define BEGINNING_MOST 20u

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

/* Buckets for a trend. */
#define DRIFT_POINTS NUMBERS_SLOPE_MAX
#define DRIFT_LEAST  0.1 /* of the first level: less is no trend worth a name */

/* One that began lately is looked for among the newest half of the steps, and the newest of
 * that, and so on: in so many tries noise finds a rise, but none as steep. */
#define DRIFT_STEEP  0.5
#define DRIFT_NEWEST 64u

/* Of a collection: a usual part as long as that may hold it. */
#define GC_IN_PART 0.9

#define PARTS (EVENT_PHASES + 1u) /* the phases, then other */

struct item {
    const struct step *step;
    double left; /* of its duration, not explained yet */
    uint32_t at; /* its place among all steps: some of them are not looked at */
};

struct work {
    struct item *items;
    double *numbers; /* scratch, one for each item */
    uint32_t count;
    double median, medians[PARTS];
};

static double part_ns(const struct step *step, uint32_t part)
{
    return part < EVENT_PHASES ? step_phase_ns(step, part) : step_other_ns(step);
}

static double median_part(struct work *work, uint32_t part)
{
    uint32_t known = 0;

    for (uint32_t i = 0; i < work->count; i++) {
        double ns = part_ns(work->items[i].step, part);

        if (!isnan(ns))
            work->numbers[known++] = ns;
    }
    numbers_sort(work->numbers, known);
    return numbers_quantile(work->numbers, known, 0.5);
}

static double median_left(struct work *work)
{
    for (uint32_t i = 0; i < work->count; i++)
        work->numbers[i] = work->items[i].left;
    numbers_sort(work->numbers, work->count);
    return numbers_quantile(work->numbers, work->count, 0.5);
}

/* Sums for one cause. */
struct sums {
    double ns, squares, grown[PARTS];
    struct rhythm_extra extra;
};

static void add(const struct work *work, struct sums *sums, const struct step *step,
                double ns)
{
    sums->ns += ns;
    sums->squares += ns * ns;
    sums->extra.steps++;
    if (sums->extra.steps == 1 || ns > sums->extra.worst_ns) {
        sums->extra.worst_ns = ns;
        sums->extra.worst_step = (int64_t)step->number;
    }
    for (uint32_t part = 0; part < PARTS; part++) {
        double grown = part_ns(step, part) - work->medians[part];

        sums->grown[part] += isnan(grown) ? 0 : grown;
    }
}

static void take(const struct work *work, struct sums *sums, uint32_t i, double ns)
{
    work->items[i].left -= ns;
    add(work, sums, work->items[i].step, ns);
}

static uint32_t most_grown(const struct sums *sums)
{
    uint32_t most = EVENT_PHASES;

    for (uint32_t part = 0; part < PARTS; part++)
        most = sums->grown[part] > sums->grown[most] ? part : most;
    return most;
}

static struct rhythm_extra finish(const struct work *work, struct sums *sums)
{
    double n = work->count, mean = sums->ns / n;
    double variance = (sums->squares - n * mean * mean) / (n - 1);

    sums->extra.ns_per_step = mean;
    sums->extra.error_ns =
        numbers_t95(work->count) * sqrt(variance > 0 ? variance : 0) / sqrt(n);
    sums->extra.part = most_grown(sums);
    sums->extra.data_ns =
        fmin(fmax(sums->grown[EVENT_PHASE_DATA] / n, 0), fmax(mean, 0));
    return sums->extra;
}

/* The same of what comes again and again. */
static struct rhythm_extra finish_cycles(struct sums *sums,
                                         const struct cycles_price *price)
{
    double data = sums->ns > 0 ? sums->grown[EVENT_PHASE_DATA] / sums->ns : 0;

    sums->extra.data_ns = price->ns_per_step * fmin(fmax(data, 0), 1);
    sums->extra.ns_per_step = price->ns_per_step;
    sums->extra.error_ns = price->error_ns;
    sums->extra.of = (uint32_t)(price->steps + 0.5);
    sums->extra.part = most_grown(sums);
    return sums->extra;
}

/* Places from the first step that is looked at to the last. */
static uint32_t places_of(const struct work *work)
{
    return work->items[work->count - 1].at + 1;
}

/* Where most steps collect, the usual step has the collection, and none of its parts has
 * grown: it lies in the one part that is long enough for it, if there is just one. */
static uint32_t part_that_holds(const struct work *work, double ns, uint32_t otherwise)
{
    uint32_t holds = PARTS;

    for (uint32_t part = 0; part < PARTS; part++) {
        if (!(work->medians[part] >= GC_IN_PART * ns))
            continue;
        if (holds != PARTS)
            return otherwise;
        holds = part;
    }
    return holds == PARTS ? otherwise : holds;
}

static void find_gc(struct work *work, struct rhythm *rhythm)
{
    struct sums sums = {0};
    struct cycles cycles = {.count = 0};

    for (uint32_t i = 0; i < work->count; i++) {
        double ns = (double)work->items[i].step->gc_ns;

        if (!(ns > 0))
            continue;
        take(work, &sums, i, ns);
        cycles_add(&cycles, work->items[i].at, ns);
    }
    if (sums.extra.steps == 0)
        return;
    struct cycles_price price = cycles_uneven(&cycles, places_of(work));

    rhythm->gc = finish_cycles(&sums, &price);
    if (2 * sums.extra.steps >= work->count)
        rhythm->gc.part =
            part_that_holds(work, sums.ns / sums.extra.steps, rhythm->gc.part);
}

/* Over the median; what is below is nothing to win. */
static double over_of(const struct work *work, uint32_t i)
{
    double over = work->items[i].left - work->median;

    return over > 0 ? over : 0;
}

static void find_warm_up(struct work *work, struct rhythm *rhythm)
{
    uint32_t most = work->count / 4 < WARM_UP_MOST ? work->count / 4 : WARM_UP_MOST;
    uint32_t end = 0, calm = 0;
    struct sums sums = {0};

    if (work->items[0].step->number >= WARM_UP_CALM)
        return;
    for (uint32_t i = 0; i < most && calm < WARM_UP_CALM; i++) {
        bool slow = work->items[i].left > WARM_UP_SLOW * work->median;

        calm = slow ? 0 : calm + 1;
        end = slow ? i + 1 : end;
    }
    for (uint32_t i = 0; i < end; i++)
        if (over_of(work, i) > 0)
            take(work, &sums, i, over_of(work, i));
    if (sums.extra.steps > 0)
        rhythm->warm_up = finish(work, &sums);
}

/* Data time of an epoch's first step over that of the others; and what the model takes
 * longer after it, for pages that were shared with new workers are copied where they are
 * written. That counts for no more than the batch was late: what is beyond
 * has other reasons. */
static double late_ns(const struct work *work, uint32_t i)
{
    const struct step *step = work->items[i].step;
    double over = step_phase_ns(step, EVENT_PHASE_DATA) - work->medians[EVENT_PHASE_DATA];
    double model = 0;

    if (!(over > 0))
        return 0;
    for (uint32_t part = EVENT_PHASE_FORWARD; part <= EVENT_PHASE_OPTIMIZER; part++) {
        double grown = part_ns(step, part) - work->medians[part];

        model += isnan(grown) ? 0 : grown;
    }
    over += model > over ? over : model > 0 ? model : 0;
    return over < over_of(work, i) ? over : over_of(work, i);
}

/* How much longer the steps take that follow the late first one at `i`, as far as the slow
 * beginning goes; it is taken of them. */
static double take_beginning(struct work *work, struct sums *sums, uint32_t i)
{
    double ns = 0;

    for (uint32_t next = i + 1; next < work->count && next - i < BEGINNING_MOST; next++) {
        double over = over_of(work, next);

        if (work->items[next].step->epoch != work->items[i].step->epoch ||
            over < BEGINNING_OVER * work->median)
            break;
        take(work, sums, next, over);
        ns += over;
    }
    return ns;
}

static bool begins_epoch(const struct work *work, uint32_t i)
{
    return i > 0 && work->items[i].step->epoch != work->items[i - 1].step->epoch;
}

/* The first of the newest epochs, as far back as they begin late: 1 where nearly all of the
 * window do; work->count: they do not. Also how long an epoch is. */
static uint32_t late_since(const struct work *work, double *steps_per_epoch)
{
    uint32_t starts = 0, slow = 0, first = 0, last = 0, since = work->count;

    for (uint32_t i = work->count; i-- > 1;) {
        if (!begins_epoch(work, i))
            continue;
        last = starts == 0 ? work->items[i].at : last;
        first = work->items[i].at;
        starts++;
        bool late = late_ns(work, i) > EPOCH_LATE * work->median;

        slow += late;
        if (late && starts >= EPOCHS_NEWEST && slow >= EPOCHS_SLOW * starts)
            since = i;
    }
    if (starts < 2)
        return work->count;
    *steps_per_epoch = (double)(last - first) / (starts - 1);
    return slow >= EPOCHS_SLOW * starts ? 1 : since;
}

static void find_epoch(struct work *work, struct rhythm *rhythm)
{
    struct sums sums = {0};
    struct cycles cycles = {.count = 0};
    uint32_t since = late_since(work, &rhythm->steps_per_epoch);

    if (since == work->count)
        return;
    for (uint32_t i = since; i < work->count; i++) {
        double late = late_ns(work, i);

        if (!begins_epoch(work, i))
            continue;
        if (late > 0) {
            take(work, &sums, i, late);
            late += take_beginning(work, &sums, i);
        }
        cycles_add(&cycles, work->items[i].at, late);
    }
    uint32_t places = places_of(work), before = since > 1 ? work->items[since].at : 0;
    double share =
        (double)(places - before) / places; /* of the window: the rest has none */
    struct cycles_price price = cycles_even(&cycles, places - before);

    rhythm->late_share = share;
    price.ns_per_step *= share;
    price.error_ns *= share;
    price.steps /= share;
    rhythm->epoch = finish_cycles(&sums, &price);
    rhythm->epoch.part = EVENT_PHASE_DATA;
}

/* What makes a step one of the largest at first: half as much over as the third largest. */
static double large_over(struct work *work)
{
    for (uint32_t i = 0; i < work->count; i++)
        work->numbers[i] = over_of(work, i);
    numbers_sort(work->numbers, work->count);
    double third = work->numbers[work->count - 3];

    return third > PERIOD_OVER * work->median ? third / 2 : (double)INFINITY;
}

/* How many of the large steps lie at `from` and then at every `gap`-th. `numbers` holds
 * their places, ascending. */
static uint32_t chained(const struct work *work, uint32_t found, uint32_t from,
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
static bool is_chance(const struct work *work, uint32_t found, uint32_t places,
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
static uint32_t common_period(const struct work *work, uint32_t found, uint32_t *from)
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
                members < PERIOD_TAKEN * places ||
                members < PERIOD_TAKEN / 2 * found ||
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
static uint32_t collect_large(struct work *work, double large)
{
    uint32_t found = 0;

    for (uint32_t i = 0; i < work->count; i++)
        if (over_of(work, i) >= large && found < PERIOD_LARGE)
            work->numbers[found++] = work->items[i].at;
    return found;
}

/* Where a few hiccups of the machine are more than twice as long as what comes at a
 * period, that is not among the largest: looked for again, among more steps. */
static void find_period(struct work *work, struct rhythm *rhythm)
{
    double large = large_over(work), least = PERIOD_OVER * work->median / 2;
    uint32_t found = collect_large(work, large), from = 0;
    struct sums sums = {0};
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
        double over = over_of(work, i);

        if (over < large ||
            work->items[i].at % rhythm->period_steps != from % rhythm->period_steps)
            continue;
        cycles_add(&cycles, work->items[i].at, over);
        take(work, &sums, i, over);
    }
    struct cycles_price price = cycles_even(&cycles, places_of(work));

    rhythm->period = finish_cycles(&sums, &price);
}

/* A period that is longer than the window shows: of all pauses that are remembered. */
static void find_pauses(const struct pick *pick, struct work *work,
                        struct rhythm *rhythm)
{
    struct pauses pauses;
    struct sums sums = {0};
    struct cycles cycles = {.count = 0};

    if (rhythm->period_steps > 0 || !pauses_find(pick, work->median, &pauses))
        return;
    for (uint32_t i = pauses.count; i-- > 0;) {
        double ns = pauses_extra_ns(pauses.steps[i], work->median);

        cycles_add(&cycles, pauses.places[pauses.count - 1] - pauses.places[i], ns);
        add(work, &sums, pauses.steps[i], ns);
    }
    struct cycles_price price = cycles_even(&cycles, 0);
    struct rhythm_extra extra = finish_cycles(&sums, &price);

    /* First batches of epochs were told. */
    if (rhythm->epoch.steps > 0 && extra.part == EVENT_PHASE_DATA)
        return;
    rhythm->period = extra;
    rhythm->period_steps = pauses.gap;
    rhythm->period_is_rough = pauses.rough;
    for (uint32_t i = 0; i < work->count; i++)
        for (uint32_t p = 0; p < pauses.count; p++)
            if (work->items[i].step == pauses.steps[p])
                work->items[i].left -= over_of(work, i);
}

/* Medians of neighbouring steps, from the item `first` on: `part` PARTS for what is left of
 * whole steps. */
static uint32_t levels(struct work *work, uint32_t first, uint32_t part, double *times,
                       double *values)
{
    uint32_t count = work->count - first;
    uint32_t points = count < 4 * DRIFT_POINTS ? count / 4 : DRIFT_POINTS;

    for (uint32_t p = 0; p < points; p++) {
        uint32_t from = first + (uint32_t)((uint64_t)count * p / points);
        uint32_t to = first + (uint32_t)((uint64_t)count * (p + 1) / points);

        for (uint32_t i = from; i < to; i++) {
            double ns = part == PARTS ? work->items[i].left
                                      : part_ns(work->items[i].step, part);

            work->numbers[i - from] = isnan(ns) ? 0 : ns;
        }
        numbers_sort(work->numbers, to - from);
        times[p] = (from + to) / 2.0;
        values[p] = numbers_quantile(work->numbers, to - from, 0.5);
    }
    return points;
}

static double middle_of(double *values, uint32_t count)
{
    numbers_sort(values, count);
    return numbers_quantile(values, count, 0.5);
}

/* Among the items from `from` on; false where there is none. */
static bool drifts(struct work *work, uint32_t from, struct rhythm *rhythm)
{
    double times[DRIFT_POINTS], values[DRIFT_POINTS], most = 0;
    double count = work->count - from;
    uint32_t points = levels(work, from, PARTS, times, values);

    if (!numbers_rises(values, points, DRIFT_LEAST / 4))
        return false;
    struct numbers_trend trend = numbers_trend(times, values, points);
    double rise = trend.slope * count;

    if (!(trend.sure || trend.climbs) || !(rise > 0))
        return false;
    double middle = from == 0 ? work->median : middle_of(values, points);
    double first = middle > rise / 2 ? middle - rise / 2 : 0;
    double error = trend.climbs ? fmin(trend.error, trend.walked) : trend.error;

    if (rise < (from == 0 ? DRIFT_LEAST : DRIFT_STEEP) * first)
        return false;
    rhythm->first_ns = first;
    rhythm->last_ns = first + rise;
    rhythm->drift.ns_per_step = rise / 2 * count / work->count;
    rhythm->drift.steps = work->count - from;
    rhythm->drift.error_ns = error * count / 2 * count / work->count;
    rhythm->drift.part = EVENT_PHASES;
    rhythm->drift.worst_step = (int64_t)work->items[work->count - 1].step->number;
    rhythm->drift.worst_ns = rise;
    for (uint32_t part = 0; part < PARTS; part++) {
        int sure = 0;

        points = levels(work, from, part, times, values);
        double slope = numbers_slope(times, values, points, &sure);
        if (sure && slope > most) {
            most = slope;
            rhythm->drift.part = part;
        }
    }
    return true;
}

static void find_drift(struct work *work, struct rhythm *rhythm)
{
    uint32_t count = work->count;

    while (!drifts(work, work->count - count, rhythm) && count / 2 >= DRIFT_NEWEST)
        count /= 2;
}

static void find_rest(struct work *work, struct rhythm *rhythm)
{
    double median = median_left(work);
    struct sums sums = {0};

    for (uint32_t i = 0; i < work->count; i++)
        take(work, &sums, i, work->items[i].left - median);
    if (sums.ns <= 0)
        return;
    rhythm->rest = finish(work, &sums);
}

static void collect(const struct pick *pick, struct work *work)
{
    const struct steps *steps = &pick->process->steps;
    uint32_t count, first = pick_steps(pick, &count), kept = 0, places = 0;

    for (uint32_t i = first + count; i-- > first && kept < RHYTHM_STEPS;) {
        const struct step *step = steps_at(steps, i);

        if (step->flags & EVENT_STEP_VALIDATION)
            continue;
        places++;
        /* What torch.profiler lengthens has no rhythm of its own, but its place. */
        if (!(step->flags & EVENT_STEP_WINDOW))
            work->items[kept++] = (struct item){
                .step = step, .left = (double)step->duration_ns, .at = places};
    }
    /* Newest first so far. */
    for (uint32_t i = 0; i < kept / 2; i++) {
        struct item swap = work->items[i];

        work->items[i] = work->items[kept - 1 - i];
        work->items[kept - 1 - i] = swap;
    }
    for (uint32_t i = 0; i < kept; i++)
        work->items[i].at = places - work->items[i].at;
    work->count = kept;
}

int parts_rhythm(const struct pick *pick, struct rhythm *rhythm)
{
    struct work work = {.items = calloc(RHYTHM_STEPS, sizeof(*work.items)),
                        .numbers = calloc(RHYTHM_STEPS, sizeof(*work.numbers))};
    double unknown = (double)NAN;
    int error = work.items == NULL || work.numbers == NULL ? -ENOMEM : 0;

    *rhythm = (struct rhythm){.median_ns = unknown,
                              .median_other_ns = unknown,
                              .steps_per_epoch = unknown,
                              .first_ns = unknown,
                              .last_ns = unknown};
    if (error == 0)
        collect(pick, &work);
    if (error == 0 && work.count >= STEPS_NEEDED) {
        rhythm->steps = work.count;
        rhythm->median_ns = work.median = median_left(&work);
        for (uint32_t part = 0; part < PARTS; part++)
            work.medians[part] = median_part(&work, part);
        rhythm->median_other_ns = work.medians[EVENT_PHASES];
        find_gc(&work, rhythm);
        find_warm_up(&work, rhythm);
        find_epoch(&work, rhythm);
        find_period(&work, rhythm);
        find_pauses(pick, &work, rhythm);
        find_drift(&work, rhythm);
        find_rest(&work, rhythm);
    }
    free(work.items);
    free(work.numbers);
    return error;
}
