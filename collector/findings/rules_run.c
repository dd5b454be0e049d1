/* Rules over what a run does beside its steps' own work: checkpoints, time between steps,
 * data that is moved and not computed with. */
#include <math.h>
#include <string.h>

#include "findings/loading_wait.h"
#include "findings/rules.h"
#include "findings/settings.h"

static void find_saving(struct rule_context *context)
{
    const struct ops_answer *cpu = &context->summary->cpu;
    double price = cpu->saving_ns;

    if (!rule_reaches(context, price))
        return;
    struct finding *finding = rule_add(context, NULL, "other");
    double each = price / cpu->saving_count;

    rule_price(context, finding, price, rule_error_of_step(context));
    /* The copy to memory stays with the step, however it is written. */
    rule_price_between(finding, price / 2, price);
    rule_claim(finding, PART_OTHER, CLAIM_PYTHON, price);
    finding->formula =
        rule_print(context, "%s for each checkpoint * %.3g of them a step = %s",
                   rule_ms(context, each), cpu->saving_count, rule_ms(context, price));
    finding->sentence =
        rule_print(context, "A checkpoint takes %s, one in %s", rule_ms(context, each),
                   1 / cpu->saving_count < 1.5
                       ? "each step"
                       : rule_print(context, "%.0f steps", 1 / cpu->saving_count));
    rule_evidence_ms(finding, "checkpoint_ms", each);
    rule_evidence(finding, "steps_between", 1 / cpu->saving_count);
    setting_advise(context, finding, SETTING_CHECKPOINTS, NULL, "");
    rule_advise_print(context, finding, "Write beside the training: %s",
                      setting_text(context, SETTING_ASYNC_SAVE, NULL));
}

/* Time outside of all steps, and that of steps of which it is told: of whole epochs where
 * there are some, for the minute that holds what comes once in an epoch is not the run. */
struct outside {
    double ns, trained_ns, validated_ns;
};

static struct outside look_outside(const struct rule_context *context)
{
    const struct steps_answer *steps = &context->summary->steps;
    const struct steps_summary *validation = &steps->validation;
    struct outside window = {
        .ns = steps->outside_ns,
        .trained_ns = context->train->mean_ns * (double)context->train->count,
        .validated_ns = validation->count > 0
                            ? validation->mean_ns * (double)validation->count
                            : 0};
    double inside = window.trained_ns + window.validated_ns;
    double run_inside = steps->run_train_ns + steps->run_validation_ns;
    const struct answer_window *steps_of = &context->summary->head.window;
    /* No number of a step is missing: then what lies between them is known. */
    bool unbroken = steps_of->first_step != NOT_KNOWN &&
                    steps_of->last_step != NOT_KNOWN &&
                    (uint64_t)(steps_of->last_step - steps_of->first_step) + 1 ==
                        context->train->count;

    if (steps->epochs_train_ns > 0)
        return (struct outside){steps->epochs_outside_ns, steps->epochs_train_ns,
                                steps->epochs_validation_ns};
    if (!unbroken)
        window.ns = 0;
    else if (rule_run_has_less(steps->run_outside_ns, run_inside, window.ns, inside))
        window.ns = inside * steps->run_outside_ns / run_inside;
    return window;
}

static void find_outside(struct rule_context *context)
{
    const struct steps_summary *train = context->train;
    struct outside outside = look_outside(context);
    double share =
        outside.ns / (outside.ns + outside.trained_ns + outside.validated_ns);
    double per_step = outside.ns / outside.trained_ns * train->mean_ns;

    if (!(share >= context->threshold))
        return;
    struct finding *finding = rule_add_price_half(context, NULL, "other", per_step, 0);

    /* It lies outside of training steps: a price, but no part of their time. */
    finding->formula =
        rule_print(context, "%s between steps / %s of training * %s a step / 2 = %s",
                   rule_ms(context, outside.ns), rule_ms(context, outside.trained_ns),
                   rule_ms(context, train->mean_ns), rule_ms(context, per_step / 2));
    finding->sentence = rule_print(
        context, "%.0f %% of the time belongs to no step and no validation batch",
        100 * share);
    rule_evidence(finding, "outside_pct", 100 * share);
    rule_evidence_ms(finding, "outside_ms", outside.ns);
    rule_evidence_ms(finding, "training_ms", outside.trained_ns);
}

static void find_moves(struct rule_context *context)
{
    const struct ops_answer *cpu = &context->summary->cpu;
    double step = context->train->mean_ns;
    double moved = cpu->moved_ns - rule_own_loading_ns(context);

    /* Beside a device the host's copies cost what the device waits for them; and what
     * autocast casts, as it was told to, is not to be told from the model's own casts. */
    if (rule_has_device(context) || rule_text(context, FACT_AMP_DTYPE)[0] != '\0' ||
        !rule_reaches(context, moved / 2))
        return;
    struct finding *finding = rule_add_price_half(
        context, NULL, "forward", moved,
        rule_error_of_recorded(context, moved, cpu->head.recorded_steps));

    finding->takes_ns = moved;
    rule_claim_model(context, finding, CLAIM_CALLS, moved / 2);
    finding->formula = rule_print(context, "%s in ops that copy, cast or join / 2 = %s",
                                  rule_ms(context, moved), rule_ms(context, moved / 2));
    finding->sentence = rule_print(
        context,
        "%s a step to copy, cast or join tensors, which compute nothing: %s of %s",
        rule_count(context, cpu->moved_count, "call"), rule_ms(context, moved),
        rule_ms(context, step));
    rule_evidence_ms(finding, "moved_ms", moved);
    rule_evidence(finding, "calls_per_step", cpu->moved_count);
    rule_evidence_ms(finding, "step_ms", step);
}

const struct rule rules_run[] = {
    RULE("checkpoints", find_saving, OWNER_STEPS - 15, RULE_EARLY_TREND | RULE_RECORDS,
         "ranges in which Lightning saves a checkpoint, and calls of torch.save",
         "time of checkpoints inside of steps / steps", SHARE_OF_STEP(0.03, SMALLEST),
         .title = "Steps wait until a checkpoint is written",
         .wrong_if = "The run is so unsafe that each of them is needed at once."),
    RULE(
        "outside-steps", find_outside, OWNER_STEPS, RULE_TREND | RULE_OUTSIDE,
        "time between steps, in none of them",
        "time between steps / time of training * step / 2",
        SHARE(0.20, "share of the run's time",
              "as for validation: what a fifth of the run is spent on, people look at"),
        .title = "Much of the run lies between its steps",
        .wrong_if =
            "The job was held there on purpose, as in a notebook or a debugger.",
        .advice =
            {{"Look at what runs around validation and at the ends of epochs: metrics "
              "over the whole set, plots, checkpoints, loaders that are built anew",
              "Look at what runs at the ends of epochs: files that are written, data "
              "that is read anew"},
             {"Accumulate metrics batch by batch (`torchmetrics`), and compute them "
              "from the sums",
              "Do it in a thread of its own while the next epoch begins"}}),
    RULE("moved-data", find_moves, OWNER_OPS + 2, RULE_SAMPLED,
         "ops that only copy, cast or join; phase data; amp.dtype",
         "(self time of such ops - loading by the trainer) / 2",
         SHARE_OF_STEP(0.03, SMALLEST),
         .title = "Ops that only move data take much of the step",
         .wrong_if = "The model is made of such moves, as embeddings and caches are.",
         .advice = {ADVICE("One type and one layout throughout: no `.to()`, "
                           "`.contiguous()`, `.clone()` or `.double()` on the way"),
                    ADVICE("Write parts into one tensor that is made once (`out=`, "
                           "slices) instead of `torch.cat` in a loop")}),
    {.told = {.id = NULL}},
};
