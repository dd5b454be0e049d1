/* Extra time of some steps, each instant under one cause. */

#include <errno.h>
#include <stdlib.h>

#include "query/rhythm_inside.h"

/* A median of fewer says nothing. */
#define STEPS_NEEDED 20u

/* Even where every other step is slow, this share of the steps is fast. */
#define BELOW_HALF 0.4
#define MOST       0.95

/* Share of the epochs whose first batch must be late: of all of them, or of the newest where
 * it was not always so. */
#define EPOCHS_SLOW   0.7
#define EPOCHS_NEWEST 4u
#define EPOCH_LATE    0.1 /* of the median step: less is no news of so rare a step */

/* The steps after it belong to the slow beginning while they are over the median by such a
 * share, one after the other: workers fill their queues, pages are copied. */
#define BEGINNING_OVER 0.2
#define BEGINNING_MOST 20u

/* Of a collection: a usual part as long as that may hold it. */
#define GC_IN_PART 0.9

/* A number of one step; NaN where it has no part in what is usual. Steps that are slow at a
 * period, which may be half of all, have none in what is usual of a part or left. */
typedef double number_of(const struct rhythm_work *work, uint32_t i, uint32_t part);

static double number_left(const struct rhythm_work *work, uint32_t i, uint32_t part)
{
    (void)part;
    return work->items[i].periodic ? UNKNOWN : work->items[i].left;
}

static double number_part(const struct rhythm_work *work, uint32_t i, uint32_t part)
{
    return work->items[i].periodic ? UNKNOWN
                                   : rhythm_part_ns(work->items[i].step, part);
}

/* Part 0: before forward, else before the update; of the steps whose phases are known. */
static double number_gap(const struct rhythm_work *work, uint32_t i, uint32_t part)
{
    const struct step *step = work->items[i].step;

    return isnan(step_other_ns(step)) ? UNKNOWN
           : part == 0                ? (double)step->before_forward_ns
                                      : (double)step->before_update_ns;
}

/* What steps at a period have more, once a run no longer warms up. */
static double number_at_period(const struct rhythm_work *work, uint32_t i,
                               uint32_t part)
{
    (void)part;
    return work->items[i].periodic && i >= work->count / 4 ? rhythm_over(work, i)
                                                           : UNKNOWN;
}

/* What no more than that share of them exceeds; NaN where there is none. */
static double usual(struct rhythm_work *work, number_of *number, uint32_t part,
                    double share)
{
    uint32_t known = 0;

    for (uint32_t i = 0; i < work->count; i++) {
        double ns = number(work, i, part);

        if (!isnan(ns))
            work->numbers[known++] = ns;
    }
    numbers_sort(work->numbers, known);
    return numbers_quantile(work->numbers, known, share);
}

void rhythm_add(const struct rhythm_work *work, struct rhythm_sums *sums,
                const struct step *step, double ns)
{
    sums->ns += ns;
    sums->squares += ns * ns;
    sums->extra.steps++;
    if (sums->extra.steps == 1 || ns > sums->extra.worst_ns) {
        sums->extra.worst_ns = ns;
        sums->extra.worst_step = (int64_t)step->number;
    }
    for (uint32_t part = 0; part < RHYTHM_PARTS; part++) {
        double grown = rhythm_part_ns(step, part) - work->medians[part];

        sums->grown[part] += isnan(grown) ? 0 : grown;
    }
}

void rhythm_take(const struct rhythm_work *work, struct rhythm_sums *sums, uint32_t i,
                 double ns)
{
    work->items[i].left -= ns;
    rhythm_add(work, sums, work->items[i].step, ns);
}

static uint32_t most_grown(const struct rhythm_sums *sums)
{
    uint32_t most = EVENT_PHASES;

    for (uint32_t part = 0; part < RHYTHM_PARTS; part++)
        most = sums->grown[part] > sums->grown[most] ? part : most;
    return most;
}

struct rhythm_extra rhythm_finish(const struct rhythm_work *work,
                                  struct rhythm_sums *sums)
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
struct rhythm_extra rhythm_finish_cycles(struct rhythm_sums *sums,
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

/* Where most steps collect, the usual step has the collection, and none of its parts has
 * grown: it lies in the one part that is long enough for it, if there is just one. */
static uint32_t part_that_holds(const struct rhythm_work *work, double ns,
                                uint32_t otherwise)
{
    uint32_t holds = RHYTHM_PARTS;

    for (uint32_t part = 0; part < RHYTHM_PARTS; part++) {
        if (!(work->medians[part] >= GC_IN_PART * ns))
            continue;
        if (holds != RHYTHM_PARTS)
            return otherwise;
        holds = part;
    }
    return holds == RHYTHM_PARTS ? otherwise : holds;
}

static void find_gc(struct rhythm_work *work, struct rhythm *rhythm)
{
    struct rhythm_sums sums = {0};
    struct cycles cycles = {.count = 0};
    double longer = 0;

    for (uint32_t i = 0; i < work->count; i++) {
        double ns = (double)work->items[i].step->gc_ns;

        if (!(ns > 0))
            continue;
        longer += fmin(work->items[i].left - work->median, ns);
        rhythm_take(work, &sums, i, ns);
        cycles_add(&cycles, work->items[i].at, ns);
    }
    if (sums.extra.steps == 0)
        return;
    struct cycles_price price = cycles_uneven(&cycles, rhythm_places(work));

    rhythm->gc = rhythm_finish_cycles(&sums, &price);
    rhythm->gc.longer_ns = rhythm->gc.ns_per_step * fmin(fmax(longer / sums.ns, 0), 1);
    if (2 * sums.extra.steps >= work->count) { /* the median has one, too */
        rhythm->gc.longer_ns = UNKNOWN;
        rhythm->gc.part =
            part_that_holds(work, sums.ns / sums.extra.steps, rhythm->gc.part);
    }
}

/* What is usual for that step: those at a period have theirs. */
static double usual_of(const struct rhythm_work *work, uint32_t i, double at_period)
{
    return work->median +
           (work->items[i].periodic && !isnan(at_period) ? at_period : 0);
}

/* From `from` to `to`, that many are over what is usual for them by so much. */
static uint32_t count_over(const struct rhythm_work *work, uint32_t from, uint32_t to,
                           double at_period, double ns)
{
    uint32_t count = 0;

    for (uint32_t i = from; i < to; i++)
        count += work->items[i].left - usual_of(work, i, at_period) >= ns;
    return count;
}

/* A warm-up ends: where as many later steps are half as slow as its slowest, none is one. */
static void find_warm_up(struct rhythm_work *work, struct rhythm *rhythm)
{
    struct warm_up first = {0};
    struct rhythm_sums sums = {0};
    double at_period = usual(work, number_at_period, 0, 0.5), most = 0;

    if (work->items[0].step->number >= WARM_UP_CALM)
        return;
    for (uint32_t i = 0; i < work->count / 4; i++)
        if (!warm_up_goes_on(&first, work->items[i].left, usual_of(work, i, at_period)))
            break;
    for (uint32_t i = 0; i < first.end; i++)
        most = fmax(most, work->items[i].left - usual_of(work, i, at_period));
    if (count_over(work, first.end, work->count, at_period, most / 2) >=
        count_over(work, 0, first.end, at_period, most / 2))
        return;
    for (uint32_t i = 0; i < first.end; i++) {
        double ns = work->items[i].left - usual_of(work, i, at_period);

        if (ns > 0)
            rhythm_take(work, &sums, i, ns);
    }
    rhythm->warm_up = rhythm_finish(work, &sums);
}

/* Data time of an epoch's first step over that of the others; and what the model takes
 * longer after it, for pages that were shared with new workers are copied where they are
 * written. That counts for no more than the batch was late: what is beyond
 * has other reasons. NaN where its phases are not known. */
static double late_ns(const struct rhythm_work *work, uint32_t i)
{
    const struct step *step = work->items[i].step;
    double over =
        step_phase_ns(step, EVENT_PHASE_DATA) - work->medians[EVENT_PHASE_DATA];
    double model = 0;

    if (isnan(over) || !(over > 0))
        return isnan(over) ? over : 0;
    for (uint32_t part = EVENT_PHASE_FORWARD; part <= EVENT_PHASE_OPTIMIZER; part++) {
        double grown = rhythm_part_ns(step, part) - work->medians[part];

        model += isnan(grown) ? 0 : grown;
    }
    over += model > over ? over : model > 0 ? model : 0;
    return over < rhythm_over(work, i) ? over : rhythm_over(work, i);
}

/* How much longer the steps take that follow the late first one at `i`, as far as the slow
 * beginning goes; it is taken of them. */
static double take_beginning(struct rhythm_work *work, struct rhythm_sums *sums,
                             uint32_t i)
{
    double ns = 0;

    for (uint32_t next = i + 1; next < work->count && next - i < BEGINNING_MOST;
         next++) {
        double over = rhythm_over(work, next);

        if (work->items[next].step->epoch != work->items[i].step->epoch ||
            over < BEGINNING_OVER * work->median)
            break;
        rhythm_take(work, sums, next, over);
        ns += over;
    }
    return ns;
}

static bool begins_epoch(const struct rhythm_work *work, uint32_t i)
{
    return i > 0 && work->items[i].step->epoch != work->items[i - 1].step->epoch;
}

/* The first of the newest epochs, as far back as they begin late: 1 where nearly all of the
 * window do; work->count: they do not. Also how long an epoch is. */
static uint32_t late_since(const struct rhythm_work *work, double *steps_per_epoch)
{
    uint32_t starts = 0, known = 0, slow = 0, first = 0, last = 0, since = work->count;

    for (uint32_t i = work->count; i-- > 1;) {
        if (!begins_epoch(work, i))
            continue;
        double ns = late_ns(work, i);
        bool late = ns > EPOCH_LATE * work->median;

        last = starts == 0 ? work->items[i].at : last;
        first = work->items[i].at;
        starts++;
        known += isnan(ns) ? 0 : 1;
        slow += late;
        if (late && known >= EPOCHS_NEWEST && slow >= EPOCHS_SLOW * known)
            since = i;
    }
    if (starts < 2)
        return work->count;
    *steps_per_epoch = (double)(last - first) / (starts - 1);
    return known >= 2 && slow >= EPOCHS_SLOW * known ? 1 : since;
}

static void find_epoch(struct rhythm_work *work, struct rhythm *rhythm)
{
    struct rhythm_sums sums = {0};
    struct cycles cycles = {.count = 0};
    uint32_t since = late_since(work, &rhythm->steps_per_epoch);

    if (since == work->count)
        return;
    for (uint32_t i = since; i < work->count; i++) {
        double late = late_ns(work, i);

        if (!begins_epoch(work, i))
            continue;
        if (isnan(late)) /* as the others: what it takes longer */
            late = fmax(rhythm_over(work, i), 0);
        if (late > 0) {
            rhythm_take(work, &sums, i, late);
            late += take_beginning(work, &sums, i);
        }
        cycles_add(&cycles, work->items[i].at, late);
    }
    uint32_t places = rhythm_places(work),
             before = since > 1 ? work->items[since].at : 0;
    double share =
        (double)(places - before) / places; /* of the window: the rest has none */
    struct cycles_price price = cycles_even(&cycles, places - before);

    rhythm->late_share = share;
    price.ns_per_step *= share;
    price.error_ns *= share;
    price.steps /= share;
    rhythm->epoch = rhythm_finish_cycles(&sums, &price);
    rhythm->epoch.part = EVENT_PHASE_DATA;
}

static void find_rest(struct rhythm_work *work, struct rhythm *rhythm)
{
    double median = usual(work, number_left, 0, 0.5);
    struct rhythm_sums sums = {0}, rare = {0};

    for (uint32_t i = 0; i < work->count; i++) {
        double over = work->items[i].left - median;

        if (work->items[i].left > work->rare_from)
            rhythm_add(work, &rare, work->items[i].step, over);
        rhythm_take(work, &sums, i, over);
    }
    if (rare.extra.steps > 0)
        rhythm->rare = rhythm_finish(work, &rare);
    if (sums.ns > 0)
        rhythm->rest = rhythm_finish(work, &sums);
}

/* What of a step is explained lay outside of its phases as far as it has more than usual
 * there; collections that lie in a phase did not. */
static void find_left_of_other(const struct rhythm_work *work, struct rhythm *rhythm)
{
    struct numbers_series left = {.count = 0};

    for (uint32_t i = 0; i < work->count; i++) {
        const struct rhythm_item *item = &work->items[i];
        double gc = rhythm->gc.part == EVENT_PHASES ? 0 : (double)item->step->gc_ns;
        double explained = (double)item->step->duration_ns - item->left - gc;
        double other = step_other_ns(item->step);
        double over = fmax(other - work->medians[EVENT_PHASES], 0);

        if (!isnan(other) && item->left <= work->rare_from)
            numbers_series_add(&left, other - fmin(explained, over));
    }
    if (left.count == 0)
        return;
    rhythm->other_left_ns = left.first + left.sum / (double)left.count;
    rhythm->other_left_error_ns = numbers_series_error(&left, left.count);
}

static void collect(const struct pick *pick, struct rhythm_work *work)
{
    const struct steps *steps = &pick->process->steps;
    uint32_t count, first = pick_steps(pick, &count), from = first + count;

    for (uint32_t kept = 0; from > first && kept < RHYTHM_STEPS; from--)
        kept += !(steps_at(steps, from - 1)->flags & STEP_APART);
    for (uint32_t i = from, place = 0; i < first + count; i++) {
        const struct step *step = steps_at(steps, i);

        /* What torch.profiler lengthens has no rhythm of its own, but its place. */
        if (!(step->flags & STEP_APART))
            work->items[work->count++] = (struct rhythm_item){
                .step = step, .left = (double)step->duration_ns, .at = place};
        place += !(step->flags & EVENT_STEP_VALIDATION);
    }
}

int parts_rhythm(const struct pick *pick, struct rhythm *rhythm)
{
    struct rhythm_work work = {.items = calloc(RHYTHM_STEPS, sizeof(*work.items)),
                               .numbers = calloc(RHYTHM_STEPS, sizeof(*work.numbers))};
    int error = work.items == NULL || work.numbers == NULL ? -ENOMEM : 0;

    *rhythm = (struct rhythm){.median_ns = UNKNOWN,
                              .median_other_ns = UNKNOWN,
                              .median_before_forward_ns = UNKNOWN,
                              .median_before_update_ns = UNKNOWN,
                              .other_left_ns = UNKNOWN,
                              .other_left_error_ns = UNKNOWN,
                              .steps_per_epoch = UNKNOWN,
                              .first_ns = UNKNOWN,
                              .last_ns = UNKNOWN};
    if (error == 0)
        collect(pick, &work);
    if (error == 0 && work.count >= STEPS_NEEDED) {
        rhythm->steps = work.count;
        work.rare_from = numbers_rare_from(usual(&work, number_left, 0, 0.5),
                                           usual(&work, number_left, 0, MOST));
        work.median = usual(&work, number_left, 0, BELOW_HALF);
        rhythm_mark_period(&work);
        rhythm->median_ns = work.median = usual(&work, number_left, 0, 0.5);
        for (uint32_t part = 0; part < RHYTHM_PARTS; part++)
            work.medians[part] = usual(&work, number_part, part, 0.5);
        rhythm->median_other_ns = work.medians[EVENT_PHASES];
        rhythm->median_before_forward_ns = usual(&work, number_gap, 0, 0.5);
        rhythm->median_before_update_ns = usual(&work, number_gap, 1, 0.5);
        find_gc(&work, rhythm);
        find_warm_up(&work, rhythm);
        find_epoch(&work, rhythm);
        rhythm_find_period(&work, rhythm);
        rhythm_find_pauses(pick, &work, rhythm);
        find_left_of_other(&work, rhythm);
        rhythm_find_drift(&work, rhythm);
        rhythm_take_sizes(&work, rhythm);
        find_rest(&work, rhythm);
    }
    free(work.items);
    free(work.numbers);
    return error;
}
