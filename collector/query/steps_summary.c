/* Steps of a window to their statistics. */
#include <errno.h>
#include <stdlib.h>

#include "query/parts.h"

#define NS_PER_S 1e9

/* Which summary a step is in. */
enum part { TRAIN, VALIDATION, WINDOW };

static enum part part_of(const struct step *step)
{
    if (step->flags & EVENT_STEP_WINDOW)
        return WINDOW;
    return step->flags & EVENT_STEP_VALIDATION ? VALIDATION : TRAIN;
}

void parts_clear_summary(struct steps_summary *summary)
{
    double nan = UNKNOWN;

    *summary = (struct steps_summary){.mean_ns = nan,
                                      .p50_ns = nan,
                                      .p95_ns = nan,
                                      .p99_ns = nan,
                                      .std_ns = nan,
                                      .min_ns = nan,
                                      .max_ns = nan,
                                      .error_pct = nan,
                                      .other_ns = nan,
                                      .other_share = nan,
                                      .other_error_ns = nan,
                                      .computing_error_ns = nan,
                                      .waited_ns = nan,
                                      .waited_error_ns = nan,
                                      .taken_ns = nan,
                                      .taken_error_ns = nan,
                                      .late_share = nan,
                                      .p95_low_ns = nan,
                                      .p95_high_ns = nan,
                                      .steps_per_s = nan,
                                      .samples_per_s = nan};
    for (uint32_t phase = 0; phase < EVENT_PHASES; phase++)
        summary->phase_ns[phase] = summary->phase_share[phase] =
            summary->phase_error_ns[phase] = nan;
}

/* The share of a phase (EVENT_PHASES: of what is in none) in the steps that know it. Those
 * recorded on demand are no sample: they count where all steps know it, or no other does. */
static double share_of_length(const struct length_sums *sums, uint32_t phase)
{
    const struct phase_sums *drawn = &sums->phases, *tagged = &sums->tagged_phases;
    uint64_t known = drawn->of[phase].steps + tagged->of[phase].steps;
    double ns = drawn->of[phase].ns, steps_ns = drawn->of[phase].steps_ns;

    if (known == sums->count || drawn->of[phase].steps == 0) {
        ns += tagged->of[phase].ns;
        steps_ns += tagged->of[phase].steps_ns;
    }
    return steps_ns > 0 ? ns / steps_ns : UNKNOWN;
}

/* Stratified by length: each stratum weighs as much as all of its steps took. One in which
 * no step knows the phase is left out. */
static double phase_share(const struct step_totals *sums, uint32_t phase)
{
    double ns = 0, steps_ns = 0;

    for (uint32_t i = 0; i < STEPS_LENGTHS; i++) {
        double share = share_of_length(&sums->lengths[i], phase);

        if (isnan(share))
            continue;
        ns += share * sums->lengths[i].total_ns;
        steps_ns += sums->lengths[i].total_ns;
    }
    return steps_ns > 0 ? ns / steps_ns : UNKNOWN;
}

static uint64_t phase_known(const struct step_totals *sums, uint32_t phase)
{
    uint64_t known = 0;

    for (uint32_t i = 0; i < STEPS_LENGTHS; i++)
        known += sums->lengths[i].phases.of[phase].steps +
                 sums->lengths[i].tagged_phases.of[phase].steps;
    return known;
}

/* From sums to means; durations are not in it. */
static void finish_summary(struct steps_summary *summary,
                           const struct step_totals *sums, double span_ns)
{
    double n = (double)sums->count;

    if (sums->count == 0)
        return;
    summary->count = sums->count;
    summary->recorded = sums->ops;
    summary->kernels = sums->kernels;
    summary->mean_ns = sums->total_ns / n;
    summary->min_ns = sums->min_ns;
    summary->max_ns = sums->max_ns;
    double variance =
        n > 1 ? (sums->squares - sums->total_ns * sums->total_ns / n) / (n - 1) : 0;

    summary->std_ns = sqrt(variance > 0 ? variance : 0);
    for (uint32_t phase = 0; phase < EVENT_PHASES; phase++) {
        uint64_t known = phase_known(sums, phase);

        summary->phase_share[phase] = phase_share(sums, phase);
        summary->phase_ns[phase] = summary->phase_share[phase] * summary->mean_ns;
        summary->phase_steps =
            known > summary->phase_steps ? known : summary->phase_steps;
    }
    summary->other_share = phase_share(sums, EVENT_PHASES);
    summary->other_ns = summary->other_share * summary->mean_ns;
    if (span_ns > 0)
        summary->steps_per_s = n / span_ns * NS_PER_S;
    if (sums->samples_count > 0 && span_ns > 0)
        summary->samples_per_s = sums->samples / span_ns * NS_PER_S;
}

static void known_add(struct numbers_series *series, double ns)
{
    if (!isnan(ns))
        numbers_series_add(series, ns);
}

/* What a step without a fetch waited is known too. */
static double waited_ns(const struct step *step)
{
    double data = step_phase_ns(step, EVENT_PHASE_DATA);

    return isnan(step->waited_ns) ? (data == 0 ? 0 : UNKNOWN)
                                  : fmin((double)step->waited_ns, data);
}

/* Of some steps, in their order: all of them, or the typical ones. */
struct spread {
    struct numbers_series phases[EVENT_PHASES], other, whole, computing, waited, taken;
};

static void spread_add(struct spread *spread, const struct step *step)
{
    double data = step_phase_ns(step, EVENT_PHASE_DATA), waited = waited_ns(step);

    for (uint32_t phase = 0; phase < EVENT_PHASES; phase++)
        known_add(&spread->phases[phase], step_phase_ns(step, phase));
    known_add(&spread->other, step_other_ns(step));
    known_add(&spread->whole, (double)step->duration_ns);
    known_add(&spread->waited, waited);
    known_add(&spread->taken, data - waited);
    known_add(&spread->computing, (double)step->duration_ns - data);
}

static double error_of(const struct numbers_series *series, uint64_t all)
{
    return numbers_series_error(series, all > 0 ? all : series->count);
}

static double mean_of(const struct numbers_series *series)
{
    return series->count == 0 ? UNKNOWN
                              : series->first + series->sum / (double)series->count;
}

static void add_typical(const struct spread *typical, uint64_t rare, uint64_t all,
                        struct steps_summary *summary)
{
    struct steps_typical *to = &summary->typical;

    to->rare = rare;
    to->mean_ns = mean_of(&typical->whole);
    to->error_ns = error_of(&typical->whole, all);
    for (uint32_t phase = 0; phase < EVENT_PHASES; phase++) {
        to->phase_ns[phase] = mean_of(&typical->phases[phase]);
        to->phase_error_ns[phase] = error_of(&typical->phases[phase], all);
    }
    to->other_ns = mean_of(&typical->other);
    to->other_error_ns = error_of(&typical->other, all);
    to->waited_error_ns = error_of(&typical->waited, all);
    to->taken_error_ns = error_of(&typical->taken, all);
}

/* How sure the means of steps and of their parts are. The spread comes from the steps
 * remembered, also where the means are of more. */
static void add_part_errors(const struct pick *pick, enum part part, bool all,
                            struct steps_summary *summary)
{
    const struct steps *steps = &pick->process->steps;
    struct spread spread = {.whole = {0}}, typical = {.whole = {0}};
    double rare_from = numbers_rare_from(summary->p50_ns, summary->p95_ns);
    uint64_t late = 0, rare = 0, many = all ? summary->count : 0;
    bool told = false;
    uint32_t count, first = pick_steps(pick, &count);

    for (uint32_t i = first; i < first + count; i++) {
        const struct step *step = steps_at(steps, i);

        if (part_of(step) != part)
            continue;
        spread_add(&spread, step);
        if ((double)step->duration_ns > rare_from)
            rare++;
        else
            spread_add(&typical, step);
        late += waited_ns(step) > 0;
        told = told || !isnan(step->waited_ns);
    }
    for (uint32_t phase = 0; phase < EVENT_PHASES; phase++)
        summary->phase_error_ns[phase] = error_of(&spread.phases[phase], many);
    summary->other_error_ns = error_of(&spread.other, many);
    summary->computing_error_ns = error_of(&spread.computing, many);
    if (told && spread.waited.count > 0) {
        summary->late_share = (double)late / (double)spread.waited.count;
        summary->waited_ns = mean_of(&spread.waited);
        summary->waited_error_ns = error_of(&spread.waited, many);
        summary->taken_ns = mean_of(&spread.taken);
        summary->taken_error_ns = error_of(&spread.taken, many);
    }
    summary->error_pct = 100 * error_of(&spread.whole, many) / summary->mean_ns;
    if (rare > 0)
        add_typical(&typical, rare, many, summary);
}

static void find_usual(const struct pick *pick, struct steps_summary *train)
{
    const struct steps *steps = &pick->process->steps;
    uint32_t count, first = pick_steps(pick, &count);
    uint32_t unknown = warm_up_unknown(steps, first, count);
    struct numbers_series usual = {0}, typical = {0};
    double rare_from = numbers_rare_from(train->p50_ns, train->p95_ns);

    if (unknown == 0)
        return;
    for (uint32_t i = first + unknown; i < first + count; i++) {
        double ns = (double)steps_at(steps, i)->duration_ns;

        if (part_of(steps_at(steps, i)) != TRAIN)
            continue;
        numbers_series_add(&usual, ns);
        if (!(ns > rare_from))
            numbers_series_add(&typical, ns);
    }
    double mean = mean_of(&usual);

    train->usual = (struct steps_usual){usual.count, mean,
                                        100 * error_of(&typical, usual.count) / mean};
}

/* The shares between which the 95th percentile lies with 95 % certainty: a count of
 * steps below it is binomial. False when too few steps lie beyond it. */
static bool p95_shares(uint64_t count, double *low, double *high)
{
    double half = count > 0 ? 1.96 * sqrt(0.95 * 0.05 / (double)count) : 1;

    *low = 0.95 - half;
    *high = 0.95 + half;
    return *high < 1;
}

static int summarize(const struct pick *pick, enum part part,
                     struct steps_summary *summary)
{
    const struct steps *steps = &pick->process->steps;
    uint32_t count, first = pick_steps(pick, &count), kept = 0;
    double *durations = malloc((count + 1) * sizeof(*durations));
    struct step_totals *sums = calloc(1, sizeof(*sums));
    int64_t from = INT64_MAX, to = INT64_MIN;

    parts_clear_summary(summary);
    if (durations == NULL || sums == NULL) {
        free(durations);
        free(sums);
        return -ENOMEM;
    }
    for (uint32_t i = first; i < first + count; i++) {
        const struct step *step = steps_at(steps, i);

        if (part_of(step) != part)
            continue;
        durations[kept++] = (double)step->duration_ns;
        from = step->start_ns < from ? step->start_ns : from;
        to = step_end_ns(step) > to ? step_end_ns(step) : to;
        steps_total(sums, step);
    }
    numbers_sort(durations, kept);
    summary->p50_ns = numbers_quantile(durations, kept, 0.50);
    summary->p95_ns = numbers_quantile(durations, kept, 0.95);
    summary->p99_ns = numbers_quantile(durations, kept, 0.99);
    double low, high;

    if (p95_shares(kept, &low, &high)) {
        summary->p95_low_ns = numbers_quantile(durations, kept, low);
        summary->p95_high_ns = numbers_quantile(durations, kept, high);
    }
    finish_summary(summary, sums, kept > 0 ? (double)(to - from) : 0);
    add_part_errors(pick, part, false, summary);
    free(durations);
    free(sums);
    return 0;
}

/* The whole run, older than what is remembered one by one. */
static void summarize_run(const struct pick *pick, enum part part,
                          struct steps_summary *summary)
{
    const struct steps *steps = &pick->process->steps;
    const struct step_totals *totals = part == WINDOW       ? steps->windows
                                       : part == VALIDATION ? steps->validation
                                                            : steps->train;
    double low, high;

    parts_clear_summary(summary);
    if (totals == NULL)
        return;
    summary->p50_ns = histogram_quantile(totals->cells, totals->count, 0.50);
    summary->p95_ns = histogram_quantile(totals->cells, totals->count, 0.95);
    summary->p99_ns = histogram_quantile(totals->cells, totals->count, 0.99);
    if (p95_shares(totals->count, &low, &high)) {
        summary->p95_low_ns = histogram_quantile(totals->cells, totals->count, low);
        summary->p95_high_ns = histogram_quantile(totals->cells, totals->count, high);
    }
    finish_summary(summary, totals, (double)(steps->last_end_ns - steps->first_ns));
    add_part_errors(pick, part, true, summary);
}

/* What a minute of a running job says less of than the run does. A selection is judged as
 * it is. An epoch that is longer than the others were so far counts with what it has more:
 * then they validate less often than before. */
static void add_run(const struct pick *pick, struct steps_answer *answer)
{
    const struct steps *steps = &pick->process->steps;
    double trained = steps->epochs_train_ns;

    answer->run_train_ns = answer->run_validation_ns = answer->run_outside_ns = 0;
    answer->epochs_train_ns = answer->epochs_validation_ns = 0;
    answer->epochs_outside_ns = 0;
    if (!pick_goes_on(pick))
        return;
    answer->run_train_ns = steps->train == NULL ? 0 : steps->train->total_ns;
    answer->run_validation_ns =
        steps->validation == NULL ? 0 : steps->validation->total_ns;
    answer->run_outside_ns = (double)steps->outside_ns;
    if (steps->epochs_whole == 0)
        return;
    double usual = trained / (double)steps->epochs_whole;
    double more = answer->run_train_ns - trained - usual;

    answer->epochs_train_ns = trained + (more > 0 ? more : 0);
    answer->epochs_validation_ns = steps->epochs_validation_ns;
    answer->epochs_outside_ns = steps->epochs_outside_ns;
}

int parts_steps_summary(const struct pick *pick, bool whole_run,
                        struct steps_answer *answer)
{
    const struct steps *steps = &pick->process->steps;

    add_run(pick, answer);
    if (whole_run && steps_remembered(steps) < steps->count) {
        summarize_run(pick, TRAIN, &answer->train);
        summarize_run(pick, VALIDATION, &answer->validation);
        summarize_run(pick, WINDOW, &answer->windows);
        answer->outside_ns = (double)steps->outside_ns;
        answer->head.steps = answer->train.count;
        answer->head.recorded_steps = answer->train.recorded;
        answer->head.window.complete = true;
        return 0;
    }
    int error = summarize(pick, TRAIN, &answer->train);

    find_usual(pick, &answer->train);
    if (error == 0)
        error = summarize(pick, VALIDATION, &answer->validation);
    if (error == 0)
        error = summarize(pick, WINDOW, &answer->windows);
    uint32_t count, first = pick_steps(pick, &count);

    answer->outside_ns = 0;
    for (uint32_t i = first + 1; i < first + count; i++) {
        int64_t gap =
            steps_at(steps, i)->start_ns - step_end_ns(steps_at(steps, i - 1));

        answer->outside_ns += gap > 0 ? (double)gap : 0;
    }
    return error;
}
