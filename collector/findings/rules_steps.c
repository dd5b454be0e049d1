/* Rules over the times of steps: steadiness, validation. */
#include <math.h>
#include <string.h>

#include "findings/loading.h"
#include "findings/looks.h"
#include "findings/settings.h"

/* How many of the slow steps have it. */
static uint32_t times_of(const struct steps_answer *steps, const char *cause)
{
    uint32_t times = 0;

    for (uint32_t i = 0; i < steps->slow_count; i++)
        times += strcmp(steps->slow[i].cause, cause) == 0;
    return times;
}

/* The cause that most of the slow steps share. */
static const char *common_cause(const struct steps_answer *steps)
{
    const char *best = "unknown";
    uint32_t most = 0;

    for (uint32_t i = 0; i < steps->slow_count; i++) {
        uint32_t times = times_of(steps, steps->slow[i].cause);

        if (times > most) {
            most = times;
            best = steps->slow[i].cause;
        }
    }
    return best;
}

static void advise_unsteady(struct rule_context *context, struct finding *finding,
                            const char *cause)
{
    const char *lengths = setting_text(context, SETTING_LENGTHS, NULL);

    if (context->summary->native)
        rule_advise(finding,
                    strcmp(cause, "data") == 0
                        ? "A few batches load slowly: a thread that loads several "
                          "ahead hides single ones; look for large samples"
                        : "Look at the trace of a slow step: files that are written, "
                          "memory that is allocated anew, larger batches");
    else if (strcmp(cause, "data") == 0 &&
             loading_advise_ahead(context, finding,
                                  context->summary->rhythm.rest.worst_ns))
        rule_advise(finding, "Look for samples that are far larger than the others");
    else if (strcmp(cause, "data") == 0)
        rule_advise(finding, "A few batches load slowly: look for large samples, and "
                             "for what else uses the storage");
    else if (strcmp(cause, "gc") == 0)
        rule_advise(finding,
                    "Python collects garbage in the middle of steps: `gc.freeze()` "
                    "after set-up, `gc.collect()` between epochs");
    else if (strcmp(cause, "optimizer") == 0 || strcmp(cause, "other") == 0)
        rule_advise(
            finding,
            "Look at what runs every n-th step: logging, checkpoints, `loss.item()`");
    else
        rule_advise_print(context, finding,
                          "Look at the trace of a slow step; if shapes change from "
                          "batch to batch, pad or bucket them%s%s",
                          lengths[0] == '\0' ? "" : ": ", lengths);
}

/* Workers bring their batches at once, and then all wait: a wait that is told as the mean
 * of all steps is not told again of those that have it. */
static double told_of_loading(const struct rule_context *context)
{
    const struct rhythm_extra *rest = &context->summary->rhythm.rest;
    double told = rest->steps > 0 ? rule_told_loading_ns(context) : 0;

    return rest->part == EVENT_PHASE_DATA ? told : fmin(rest->data_ns, told);
}

/* Of the few steps that are far longer than all others; 0 where they are told as late batches
 * of workers that keep up with all others. */
static double rare_ns(const struct rule_context *context)
{
    const struct rhythm *rhythm = &context->summary->rhythm;
    const struct rhythm_extra *rare = &rhythm->rare;
    double over = context->train->mean_ns - context->train->p50_ns;
    bool told = rare->part == EVENT_PHASE_DATA && !loading_rare_stand_apart(context);

    return rhythm->steps > 0 && rare->steps > 0 && !told
               ? fmin(fmin(rare->ns_per_step, rhythm->rest.ns_per_step), fmax(over, 0))
               : 0;
}

/* A step that takes so many times the median is no scatter: it was measured what it cost. */
#define PAUSE_LONG 5.0

/* A batch has its own reason to be late. Of a running job's other pauses the next steps say
 * whether they come at a period; a file has no next ones. */
static bool are_pauses(const struct rule_context *context)
{
    const struct rhythm_extra *rare = &context->summary->rhythm.rare;

    return rare_ns(context) > 0 &&
           rare->worst_ns > PAUSE_LONG * context->train->p50_ns &&
           (rare->part == EVENT_PHASE_DATA || context->summary->head.from_file);
}

/* Of what unexplained() prices. */
static const char *cause_of(const struct rule_context *context)
{
    uint32_t part = context->summary->rhythm.rare.part;

    return are_pauses(context) ? rule_parts[part < CLAIM_PARTS ? part : PART_OTHER]
                               : common_cause(&context->summary->steps);
}

/* Mean less median, less what other rules name: waits for data, collections, first steps,
 * periods, larger batches, which nothing makes less, waits for the interpreter, which are
 * few and long; memory that the kernel makes anew, now in one step and now in none; and what
 * others took. A pause is longer than any of these, and a wait for a batch needs no core. */
static double unexplained(const struct rule_context *context)
{
    const struct steps_summary *train = context->train;
    const struct rhythm *rhythm = &context->summary->rhythm;
    double over = train->mean_ns - train->p50_ns;
    double rest = rhythm->steps > 0 ? rhythm->rest.ns_per_step : over;

    rest = rest < over ? rest : over;
    double rare = rare_ns(context), usual = rest - rare - told_of_loading(context);
    double known = looks_lock(context).sum_ns + rule_fresh_pages_ns(context) +
                   rule_taken_by_others(context);

    return are_pauses(context) ? fmax(usual - known, 0) + rare
                               : fmax(usual, 0) + rare - known;
}

static const struct slow_step *worst_of(const struct steps_answer *steps)
{
    const struct slow_step *worst = &steps->slow[0];

    for (uint32_t i = 1; i < steps->slow_count; i++)
        if (steps->slow[i].duration_ns > worst->duration_ns)
            worst = &steps->slow[i];
    return worst;
}

static void describe_unsteady(struct rule_context *context, struct finding *finding,
                              const char *cause)
{
    const struct steps_summary *train = context->train;
    const struct steps_answer *steps = &context->summary->steps;
    const struct slow_step *worst = worst_of(steps);
    double price = finding->ns_per_step, known = train->mean_ns - train->p50_ns - price;

    finding->title = "Some steps take far longer than the others";
    finding->formula =
        rule_print(context, "mean %s - median %s%s = %s",
                   rule_ms(context, train->mean_ns), rule_ms(context, train->p50_ns),
                   known > 0.01 * price ? rule_print(context, " - %s of known causes",
                                                     rule_ms(context, known))
                                        : "",
                   rule_ms(context, price));
    finding->sentence = rule_print(
        context, "The worst of the slow steps, %lld, took %s (median %s); %s",
        (long long)worst->number, rule_ms(context, worst->duration_ns),
        rule_ms(context, train->p50_ns),
        strcmp(cause, "unknown") == 0
            ? "their cause is not known"
            : rule_print(context, "in %u of %u it was %s", times_of(steps, cause),
                         steps->slow_count, cause));
    finding->wrong_if =
        "The long steps do work that is needed, such as saving a checkpoint.";
    finding->worst_step = worst->number;
    finding->first_step = finding->last_step = worst->number;
    rule_evidence_ms(finding, "median_ms", train->p50_ns);
    rule_evidence_ms(finding, "mean_ms", train->mean_ns);
    rule_evidence_ms(finding, "p99_ms", train->p99_ns);
    rule_evidence(finding, "slow_steps", steps->slow_count);
    rule_evidence_ms(finding, "fresh_pages_ms", rule_fresh_pages_ns(context));
    rule_evidence_ms(finding, "taken_ms", rule_taken_by_others(context));
    rule_evidence_text(context, finding, "cause", cause);
    advise_unsteady(context, finding, cause);
}

static double error_of_mean(const struct rule_context *context)
{
    return context->train->mean_ns * context->train->error_pct / 100;
}

/* Fewer say nothing of how often they come. */
#define PAUSES_KNOWN 3u

/* They were measured; whether as many come again is not known. */
static void describe_pauses(struct rule_context *context, struct finding *finding,
                            const char *cause)
{
    const struct rhythm_extra *rare = &context->summary->rhythm.rare;
    double wide = error_of_mean(context), price = finding->ns_per_step;
    bool data = strcmp(cause, "data") == 0;

    finding->low_ns = fmax(price - wide, 0);
    finding->high_ns = price + wide;
    if (rare->steps < PAUSES_KNOWN)
        finding->severity = FINDING_LOW;
    finding->title = rare->steps == 1
                         ? (data ? "One batch comes far later than the others"
                                 : "One step takes far longer than the others")
                         : (data ? "A few batches come far later than the others"
                                 : "A few steps take far longer than the others");
    finding->sentence = rule_print(
        context, "%u of %u steps took up to %s longer than the median of %s%s",
        rare->steps, context->summary->rhythm.steps, rule_ms(context, rare->worst_ns),
        rule_ms(context, context->train->p50_ns),
        rule_part_of(cause) == PART_OTHER ? "" : rule_print(context, ", in %s", cause));
    finding->worst_step = rare->worst_step;
    finding->first_step = finding->last_step = rare->worst_step;
    rule_evidence(finding, "rare_steps", rare->steps);
}

/* What more steps make surer: the mean; beside pauses, which were measured, what else is in
 * the price. */
static double error_of_unsteady(const struct rule_context *context, double price)
{
    double beside = fmax(price - rare_ns(context), 0);

    return are_pauses(context) ? fmin(rule_error_of_step(context), beside)
                               : error_of_mean(context);
}

/* Every job's steps scatter upwards: its lower end must cost that share. */
static bool is_unsteady(const struct rule_context *context, double price, double share)
{
    double least = rule_least(context, price, error_of_unsteady(context, price));

    return least / context->train->mean_ns >= share &&
           context->summary->steps.slow_count > 0;
}

/* From here on shapes vary: last batches of epochs and a few sizes that come again are
 * fewer. */
#define SHAPES_VARY 0.5

/* The host only launches a device's work, and waits for it in any phase: none of them tells
 * how much of a long step is a larger batch. What is waited for before is known. */
static bool may_be_sizes(const struct rule_context *context, const char *cause)
{
    return rule_device(context) != NULL && rule_other_shapes(context) >= SHAPES_VARY &&
           strcmp(cause, "data") != 0 && strcmp(cause, "gc") != 0;
}

static void find_sizes(struct rule_context *context, double over)
{
    const struct steps_summary *train = context->train;
    const struct slow_step *worst = worst_of(&context->summary->steps);
    struct finding *finding = rule_add_open(context, NULL, "other", FINDING_LOW);
    double other = 100 * rule_other_shapes(context);

    finding->title = "Some steps take far longer than the others, and batches differ";
    finding->formula = rule_print(
        context, "%s over the median; how much of it is larger batches is not known",
        rule_ms(context, over));
    finding->sentence = rule_print(
        context,
        "%.0f %% of the steps need more or less memory than usual; the worst of the "
        "slow ones, %lld, took %s (median %s)",
        other, (long long)worst->number, rule_ms(context, worst->duration_ns),
        rule_ms(context, train->p50_ns));
    finding->wrong_if = "The long steps have another cause than their batch, such as "
                        "files that are written.";
    finding->worst_step = worst->number;
    finding->first_step = finding->last_step = worst->number;
    rule_evidence(finding, "other_shapes_pct", other);
    rule_evidence_ms(finding, "median_ms", train->p50_ns);
    rule_evidence_ms(finding, "mean_ms", train->mean_ns);
    rule_evidence(finding, "slow_steps", context->summary->steps.slow_count);
    const char *lengths = setting_text(context, SETTING_LENGTHS, NULL);

    rule_advise_print(context, finding,
                      "Samples that are padded to the longest of their batch: batches "
                      "of samples alike in length have less padding%s%s",
                      lengths[0] == '\0' || context->summary->native ? "" : ": ",
                      context->summary->native ? "" : lengths);
    rule_advise(finding, "The trace of a slow step says whether all of it is longer "
                         "than of a usual one, as with a larger batch");
}

double rule_told_unsteady_ns(const struct rule_context *context)
{
    const struct rule_context strict = rule_strict(context);
    double price = unexplained(context);

    return is_unsteady(&strict, price, rule_threshold(context, "unsteady-steps")) &&
                   !may_be_sizes(context, cause_of(context))
               ? price
               : 0;
}

static void find_unsteady(struct rule_context *context)
{
    const char *cause = cause_of(context);
    double price = unexplained(context);
    bool pauses = are_pauses(context);

    if (!is_unsteady(context, price, context->threshold))
        return;
    if (may_be_sizes(context, cause)) {
        find_sizes(context, price);
        return;
    }
    bool phase = strcmp(cause, "unknown") != 0 && strcmp(cause, "gc") != 0;
    struct finding *finding = rule_add_price(context, NULL, phase ? cause : "other",
                                             price, error_of_unsteady(context, price));

    enum claim_part part = rule_part_of(cause);

    if (pauses && part == PART_DATA)
        rule_claim_apart(finding, part, CLAIM_WAIT, price);
    else
        rule_claim(finding, part, part == PART_DATA ? CLAIM_WAIT : CLAIM_ANY, price);
    describe_unsteady(context, finding, cause);
    if (pauses)
        describe_pauses(context, finding, cause);
}

static void find_validation(struct rule_context *context)
{
    const struct steps_summary *train = context->train;
    const struct steps_summary *validation = &context->summary->steps.validation;
    const struct steps_answer *steps = &context->summary->steps;
    double spent = validation->mean_ns * (double)validation->count;
    double trained = train->mean_ns * (double)train->count;
    bool of_epochs = steps->epochs_train_ns > 0;
    bool of_run = of_epochs || rule_run_has_less(steps->run_validation_ns,
                                                 steps->run_train_ns, spent, trained);

    if (of_epochs) {
        spent = steps->epochs_validation_ns;
        trained = steps->epochs_train_ns;
    } else if (of_run) {
        spent = steps->run_validation_ns;
        trained = steps->run_train_ns;
    }
    double share = spent / (spent + trained);
    double error_pct = of_epochs ? 0 : validation->error_pct; /* sums are known */

    if (!(of_epochs || validation->count > 0) || !(share >= context->threshold))
        return;
    double per_step = spent / trained * train->mean_ns;
    struct finding *finding = rule_add_price_half(context, NULL, "other", per_step,
                                                  per_step * error_pct / 100);

    /* It lies outside of training steps: a price, but no part of their time. */
    finding->formula =
        rule_print(context, "%s of validation / %s of training * %s a step / 2 = %s",
                   rule_ms(context, spent), rule_ms(context, trained),
                   rule_ms(context, train->mean_ns), rule_ms(context, per_step / 2));
    finding->sentence =
        rule_print(context, "%.0f %% of the time%s goes to validation batches",
                   100 * share, of_run ? " of the whole run" : "");
    rule_evidence(finding, "share_pct", 100 * share);
    rule_evidence(finding, "validation_batches", (double)validation->count);
    rule_evidence_ms(finding, "batch_ms", validation->mean_ns);
    const char *setting = setting_text(context, SETTING_VALIDATION, NULL);

    rule_advise_print(context, finding,
                      "Validate half as often, or on a fixed part of the set%s%s",
                      setting[0] == '\0' ? "" : ": ", setting);
}

const struct rule rules_steps[] = {
    RULE("unsteady-steps", find_unsteady, OWNER_STEPS, RULE_TREND,
         "step times, and what forward and backward grow by alike; peaks of memory; "
         "what data-loading tells, fresh pages, waits for a core, stolen time",
         "mean - median - known causes, its interval's lower end",
         SHARE_OF_STEP(0.05, TWENTIETH)),
    RULE("validation-share", find_validation, OWNER_STEPS, RULE_TREND | RULE_OUTSIDE,
         "time of validation batches", "validation per training step / 2",
         SHARE(0.20, "share of all step time",
               "what a validation set of the usual fifth costs after every epoch"),
         .title = "Validation takes much of the run",
         .wrong_if = "Validating this often is what you want.",
         .advice = {{"Larger batches and `torch.inference_mode()` for validation: it "
                     "keeps no gradients",
                     "Larger batches for validation: it keeps no gradients"}}),
    {.told = {.id = NULL}},
};
