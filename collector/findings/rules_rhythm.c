/* Rules over the extra time of some steps (query/bottlenecks_query.h): each instant has one cause. */
#include <math.h>

#include "findings/loading.h"
#include "findings/settings.h"

_Static_assert((int)PART_OTHER == (int)EVENT_PHASES, "a rhythm's part is a claim's");

/* The part in a sentence; what is in no phase is only known where phases are. */
static const char *where(const struct rule_context *context, uint32_t part)
{
    static const char *const texts[CLAIM_PARTS] = {"in data loading", "in forward",
                                                   "in backward", "in the optimizer",
                                                   "between its phases"};

    return part == PART_OTHER && isnan(context->train->other_ns) ? "" : texts[part];
}

/* That share, and steps enough to see a rhythm in. */
static bool is_dear(const struct rule_context *context,
                    const struct rhythm_extra *extra, double share)
{
    return context->summary->rhythm.steps > 0 && extra->steps > 0 &&
           extra->ns_per_step / context->train->mean_ns >= share;
}

/* The same of what any job has a little of: a level that wanders rises for a while too, and
 * no first batch is ready. What is told surely costs so much. */
static bool is_surely_dear(const struct rule_context *context,
                           const struct rhythm_extra *extra, double share)
{
    double least = rule_least(context, extra->ns_per_step, extra->error_ns);

    return is_dear(context, extra, share) && least >= share * context->train->mean_ns;
}

/* Among how many steps it was found. */
static uint32_t of_steps(const struct rule_context *context,
                         const struct rhythm_extra *extra)
{
    return extra->of > 0 ? extra->of : context->summary->rhythm.steps;
}

/* How much longer one of them takes. */
static const char *each(struct rule_context *context, const struct rhythm_extra *extra)
{
    return rule_ms(context,
                   extra->ns_per_step * of_steps(context, extra) / extra->steps);
}

/* Time of some steps, which what is told of all steps leaves out: but for collections
 * while a batch is waited for, and for a trend, that all steps share. */
static bool stands_apart(const struct rule_context *context,
                         const struct rhythm_extra *extra)
{
    const struct rhythm *rhythm = &context->summary->rhythm;

    return extra == &rhythm->epoch || extra == &rhythm->period ||
           (extra == &rhythm->gc && extra->part != PART_DATA);
}

/* A finding with that price, its claim, and the worst of its steps. */
static struct finding *add_for(struct rule_context *context,
                               const struct rhythm_extra *extra, enum claim_kind kind,
                               double ns)
{
    struct finding *finding = rule_add(context, NULL, rule_parts[extra->part]);
    double error =
        isnan(extra->error_ns) ? rule_error_of_step(context) : extra->error_ns;

    /* What is capped is as uncertain as its part of all. */
    rule_price(context, finding, ns,
               ns < extra->ns_per_step ? error * ns / extra->ns_per_step : error);
    kind = extra->part == PART_DATA ? CLAIM_WAIT : kind;
    if (stands_apart(context, extra) && extra->part == PART_DATA) {
        rule_claim_apart(finding, PART_DATA, CLAIM_WAIT, extra->data_ns);
        rule_claim_model(context, finding, CLAIM_ANY, ns - extra->data_ns);
    } else if (stands_apart(context, extra)) {
        rule_claim_apart(finding, extra->part, kind, ns);
    } else {
        rule_claim(finding, extra->part, kind, ns);
    }
    finding->worst_step = extra->worst_step;
    rule_evidence_ms(finding, "extra_ms", extra->ns_per_step);
    rule_evidence(finding, "slow_steps", extra->steps);
    rule_evidence(finding, "of_steps", of_steps(context, extra));
    rule_evidence_ms(finding, "worst_extra_ms", extra->worst_ns);
    rule_evidence_text(context, finding, "part", rule_parts[extra->part]);
    return finding;
}

/* All of it would be won. */
static struct finding *add(struct rule_context *context,
                           const struct rhythm_extra *extra, enum claim_kind kind)
{
    return add_for(context, extra, kind, extra->ns_per_step);
}

/* "6 steps take 120 ms longer / 300 steps = 2.4 ms" */
static const char *spread_over(struct rule_context *context,
                               const struct rhythm_extra *extra)
{
    return rule_print(context, "%u step%s * %s longer / %u steps = %s", extra->steps,
                      extra->steps == 1 ? "" : "s", each(context, extra),
                      of_steps(context, extra), rule_ms(context, extra->ns_per_step));
}

/* Where fewer collections are to be expected in steps of which the device's work is known,
 * its idle time may hold none. */
#define COLLECTIONS_SEEN 3

/* What a device has in its queue hides the rest of collections: what its idle time tells, or
 * where few of them were recorded by how much steps with one are longer. Just before it the
 * host may have waited for the device, or taken memory: then the gap is told as that. */
struct collections {
    double saves, waits; /* ns per step; NaN: not known, or it does not tell */
};

static struct collections collections_of(const struct rule_context *context)
{
    const struct rhythm_extra *gc = &context->summary->rhythm.gc;
    const struct gpu_device *device = rule_device(context);
    struct collections collections = {gc->ns_per_step, (double)NAN};

    if (device == NULL)
        return collections;
    double seen = (double)device->known_steps * gc->steps / of_steps(context, gc);

    if (seen >= COLLECTIONS_SEEN)
        collections.waits =
            rule_waits_for_host(context, 1u << GPU_IDLE_SYNC | 1u << GPU_IDLE_ALLOC);
    /* What stands for the one does not go at once where the other is less. */
    if (context->by_price && seen < 2 * COLLECTIONS_SEEN &&
        gc->longer_ns > collections.waits)
        collections.waits = (double)NAN;
    double limit = isnan(collections.waits) ? gc->longer_ns : collections.waits;

    collections.saves = isnan(limit) ? limit : fmin(gc->ns_per_step, limit);
    return collections;
}

static bool are_collections_dear(const struct rule_context *context, double threshold)
{
    return is_dear(context, &context->summary->rhythm.gc, threshold) &&
           collections_of(context).saves >= threshold * context->train->mean_ns;
}

double rule_told_collections_ns(const struct rule_context *context)
{
    bool told = are_collections_dear(context, rule_threshold(context, "gc-pauses"));

    return told ? context->summary->rhythm.gc.ns_per_step : 0;
}

/* "", or what makes the price less than all of their time. */
static const char *collections_limit(struct rule_context *context,
                                     const struct collections *collections,
                                     double whole)
{
    if (!(collections->saves < whole))
        return "";
    if (isnan(collections->waits))
        return rule_print(context, ", which make it %s longer",
                          rule_ms(context, collections->saves));
    return rule_print(context, ", at most the %s that %s waits for the host",
                      rule_ms(context, collections->waits),
                      rule_device(context)->device);
}

static void find_collections(struct rule_context *context)
{
    const struct rhythm_extra *gc = &context->summary->rhythm.gc;
    struct collections collections = collections_of(context);
    double whole = gc->ns_per_step;
    struct finding *finding =
        are_collections_dear(context, context->threshold)
            ? add_for(context, gc, CLAIM_PYTHON, collections.saves)
            : NULL;

    if (finding == NULL)
        return;
    if (rule_device(context) != NULL && isnan(collections.waits))
        rule_price_between(finding, 0, whole); /* steps differ for other reasons, too */
    /* What the device waits is a mean of few steps. */
    else if (collections.saves < whole)
        rule_price(context, finding, collections.saves,
                   hypot(finding->error_ns,
                         rule_error_of_kernels(context, collections.saves,
                                               rule_device(context)->known_steps)));
    finding->formula =
        rule_print(context, "%s with collections: %s of each step%s",
                   rule_count(context, gc->steps, "step"), rule_ms(context, whole),
                   collections_limit(context, &collections, whole));
    finding->sentence = rule_print(
        context, "%s of each step are garbage collections; the longest took %s",
        rule_ms(context, gc->ns_per_step), rule_ms(context, gc->worst_ns));
    rule_evidence(finding, "collections", rule_number(context, FACT_GC_COLLECTIONS));
}

/* One slow step begins each run, which goes on; a file ends as it is. */
#define WARM_UP_STEPS 3u

static void find_warm_up(struct rule_context *context)
{
    const struct rhythm_extra *extra = &context->summary->rhythm.warm_up;
    bool recorded = rule_is_recording(context);
    struct finding *finding = is_dear(context, extra, context->threshold) &&
                                      extra->steps >= (recorded ? 1 : WARM_UP_STEPS)
                                  ? add(context, extra, CLAIM_CALLS)
                                  : NULL;

    if (finding == NULL)
        return;
    /* The mean is wrong by so much; nothing of it is to be won. */
    finding->severity = FINDING_LOW;
    finding->claim_count = 0;
    finding->title = extra->steps == 1
                         ? "The first step is slow, and is still in the mean"
                         : "The first steps are slow, and are still in the mean";
    finding->formula = spread_over(context, extra);
    finding->sentence = rule_print(
        context, "%s %s longer than the median of %s",
        extra->steps == 1 ? "The first step took" : "The first steps took up to",
        rule_ms(context, extra->worst_ns),
        rule_ms(context, context->summary->rhythm.median_ns));
    rule_advise(finding, recorded
                             ? "Compare runs by the median, or record later: "
                               "`torch.profiler.schedule(wait=1, warmup=3, active=3)`"
                             : "Compare runs by the median, or from step 100 on");
    if (rule_number(context, FACT_COMPILE_USED) > 0)
        rule_advise(finding, "Compilation is kept between runs: set "
                             "`TORCHINDUCTOR_CACHE_DIR` to a folder that stays");
}

/* A period of late batches that is as long as the loader: its epochs, though nothing
 * said so. */
static bool is_epoch(const struct rule_context *context)
{
    const struct rhythm *rhythm = &context->summary->rhythm;

    return rhythm->period.steps > 0 && rhythm->period.part == EVENT_PHASE_DATA &&
           rule_number(context, FACT_DATALOADER_BATCHES) == rhythm->period_steps;
}

static void find_epoch_start(struct rule_context *context)
{
    const struct rhythm *rhythm = &context->summary->rhythm;
    const struct rhythm_extra *extra =
        is_epoch(context) ? &rhythm->period : &rhythm->epoch;
    double length = is_epoch(context) ? rhythm->period_steps : rhythm->steps_per_epoch;
    double share =
        is_epoch(context) || !(rhythm->late_share > 0) ? 1 : rhythm->late_share;
    double workers = rule_number(context, FACT_DATALOADER_WORKERS);
    bool restart = workers >= 1 && rule_number(context, FACT_DATALOADER_PERSISTENT) < 1;
    struct finding *finding = is_surely_dear(context, extra, context->threshold)
                                  ? add(context, extra, CLAIM_WAIT)
                                  : NULL;

    if (finding == NULL)
        return;
    finding->title = restart ? "Loader workers are started anew for each epoch"
                             : "The first batch of each epoch comes late";
    finding->formula = spread_over(context, extra);
    finding->sentence =
        rule_print(context,
                   "Each %sepoch, of %.0f steps, begins %s late: its first batch, and "
                   "what is slow after it%s",
                   share < 1 ? "newer " : "", length,
                   rule_ms(context, extra->ns_per_step / share * length),
                   restart ? rule_print(context, ": %s must start first",
                                        rule_workers(context, workers))
                           : "");
    rule_evidence(finding, "steps_per_epoch", length);
    rule_evidence(finding, "workers", workers);
    if (restart)
        setting_advise(context, finding, SETTING_PERSISTENT, NULL,
                       ": workers live on between epochs" WORKERS_LIVE);
}

/* What runs every `period` steps, by where the slow ones have their extra time. */
static void advise_periodic(struct rule_context *context, struct finding *finding,
                            uint32_t part, uint32_t period)
{
    bool native = context->summary->native, known = !isnan(context->train->other_ns);

    switch ((enum claim_part)part) {
    case PART_DATA:
        if (!native)
            (void)loading_advise_ahead(context, finding,
                                       context->summary->rhythm.period.worst_ns);
        rule_advise_print(
            context, finding,
            "Look for what the loader does every %u batches: a file or shard that is "
            "opened, a buffer that is filled again; do it ahead, in a thread or worker",
            period);
        return;
    case PART_FORWARD:
    case PART_BACKWARD:
    case PART_OPTIMIZER:
        rule_advise_print(context, finding,
                          "The extra time lies in %s: look there for `step %% %u == "
                          "0`%s, and do it less often",
                          rule_parts[part], period,
                          part == PART_FORWARD ? " (images, statistics, a second model)"
                          : part == PART_BACKWARD
                              ? " (norms of gradients, histograms)"
                              : " (averages of weights, a schedule)");
        return;
    case PART_OTHER:
    default:
        rule_advise_print(context, finding,
                          "%sook for `step %% %u == 0` (logging, checkpoints, images, "
                          "validation)%s: do it less often",
                          known ? "The extra time lies in no phase: l" : "L", period,
                          known ? " between the update and the next batch" : "");
        rule_advise_print(context, finding, "Save checkpoints beside the training: %s",
                          native ? "a thread that writes a copy"
                                 : setting_text(context, SETTING_ASYNC_SAVE, NULL));
    }
}

static void find_periodic(struct rule_context *context)
{
    const struct rhythm *rhythm = &context->summary->rhythm;
    const struct rhythm_extra *extra = &rhythm->period;
    double longer = extra->ns_per_step * of_steps(context, extra) / extra->steps;
    bool told = is_epoch(context) || rule_is_loader_rhythm(context) ||
                rule_is_compiling(context, extra, longer);
    struct finding *finding = !told && is_dear(context, extra, context->threshold)
                                  ? add(context, extra, CLAIM_PYTHON)
                                  : NULL;

    if (finding == NULL)
        return;
    const char *place = where(context, extra->part);
    const char *comma = place[0] == '\0' ? "" : ", ";

    finding->title = rule_print(context, "%s %u steps one is slow%s%s",
                                rhythm->period_is_rough ? "About every" : "Every",
                                rhythm->period_steps, comma, place);
    finding->formula = spread_over(context, extra);
    finding->sentence =
        rule_print(context, "One step in %u takes %s longer%s%s", rhythm->period_steps,
                   each(context, extra), comma, place);
    rule_evidence(finding, "period_steps", rhythm->period_steps);
    advise_periodic(context, finding, extra->part, rhythm->period_steps);
}

/* What a step takes longer beside others, for each ns that it waits for a core: 1.5 where
 * two more jobs than cores compute, for caches and memory are shared as well. */
#define BESIDE_OTHERS 2.0

/* Others that take the cores come and go, and slow what runs beside them as well: what they
 * can explain is no trend. */
static bool is_of_others(const struct rule_context *context,
                         const struct rhythm_extra *drift)
{
    const struct load *load = &context->summary->load;
    double stolen = load->stolen_share > 0 ? load->stolen_share : 0;
    double taken = (load->delay_share + stolen) * context->train->mean_ns;

    return BESIDE_OTHERS * taken >= drift->ns_per_step;
}

double rule_told_drift_ns(const struct rule_context *context)
{
    const struct rule_context strict = rule_strict(context);
    const struct rhythm_extra *drift = &context->summary->rhythm.drift;

    return is_surely_dear(&strict, drift, rule_threshold(context, "step-drift")) &&
                   !is_of_others(context, drift)
               ? drift->ns_per_step
               : 0;
}

static void find_drift(struct rule_context *context)
{
    const struct rhythm *rhythm = &context->summary->rhythm;
    const struct rhythm_extra *extra = &rhythm->drift;
    struct finding *finding = is_surely_dear(context, extra, context->threshold) &&
                                      !is_of_others(context, extra)
                                  ? add(context, extra, CLAIM_PYTHON)
                                  : NULL;

    if (finding == NULL)
        return;
    const char *place = where(context, extra->part);

    finding->formula = rule_print(
        context, "(%s at the end - %s at the start) / 2%s = %s",
        rule_ms(context, rhythm->last_ns), rule_ms(context, rhythm->first_ns),
        extra->steps < rhythm->steps
            ? rule_print(context, " * %u of %u steps", extra->steps, rhythm->steps)
            : "",
        rule_ms(context, extra->ns_per_step));
    finding->sentence = rule_print(
        context, "In %u steps their time grew from %s to %s%s%s", extra->steps,
        rule_ms(context, rhythm->first_ns), rule_ms(context, rhythm->last_ns),
        place[0] == '\0' ? "" : ", most of it ", place);
    rule_evidence_ms(finding, "first_ms", rhythm->first_ns);
    rule_evidence_ms(finding, "last_ms", rhythm->last_ns);
}

const struct rule rules_rhythm[] = {
    RULE(
        "gc-pauses", find_collections, OWNER_STEPS - 20,
        RULE_EARLY_TREND | RULE_RECORDS, "garbage collections inside of steps",
        "time of collections / steps, at most what a device waits for the host; of few "
        "that were recorded, at most what these steps are longer",
        SHARE_OF_STEP(0.03, SMALLEST),
        .title = "Python collects garbage in the middle of steps",
        .wrong_if =
            "Reference cycles hold much memory: then it grows without the collections.",
        .advice = {ADVICE("`gc.collect(); gc.freeze()` after set-up: what lives for "
                          "the whole run is not looked at again"),
                   ADVICE("`gc.disable()` before the loop and `gc.collect()` between "
                          "epochs, where all ranks wait anyway")}),
    RULE("warm-up", find_warm_up, OWNER_STEPS - 10, RULE_TREND,
         "step times from the first step on",
         "sum of (step - median) over the first slow ones / steps",
         SHARE_OF_STEP(0.10, "less does not mislead a comparison of means by a tenth"),
         .wrong_if = "The run is as short as this: then its warm-up is a real cost."),
    RULE("epoch-start", find_epoch_start, OWNER_DATA - 10, RULE_EARLY_TREND,
         "phase data of each epoch's first step; dataloader.*",
         "sum of (step - median) over the slow beginnings of epochs / steps",
         SHARE_OF_STEP(0.03, SMALLEST),
         .wrong_if = "The data set must be opened anew for each epoch.",
         .advice = {{"Longer epochs: a sampler with replacement, or several passes "
                     "over the data in one",
                     "Longer epochs, or the first batch of the next one loaded before "
                     "this one ends"}}),
    RULE("periodic-steps", find_periodic, OWNER_STEPS - 5, RULE_TREND,
         "step times; distance of the slow ones; compile.*",
         "sum of (step - median) over the slow ones / steps",
         SHARE_OF_STEP(0.03, SMALLEST),
         .wrong_if = "What runs there is needed that often."),
    RULE("step-drift", find_drift, OWNER_STEPS - 4, RULE_TREND,
         "step times; their trend (Theil-Sen, Mann-Kendall)",
         "(last level - first level) / 2", SHARE_OF_STEP(0.05, TWENTIETH),
         .title = "Steps become slower and slower",
         .wrong_if = "Later batches are larger on purpose, such as longer texts.",
         .advice = {{"Look for lists that grow and are walked in each step: "
                     "`sum(losses)`, metrics over all batches, hooks added again",
                     "Look for lists that grow and are walked in each step"},
                    {"`loss.detach()` where a graph is kept from step to step; a GPU "
                     "that became hot shows in its clocks",
                     NULL}}),
    {.told = {.id = NULL}},
};
