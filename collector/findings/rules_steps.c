/* Rules over the times of steps: loading, steadiness, validation. */
#include <math.h>
#include <string.h>

#include "findings/rules.h"

/* More loader processes than that seldom help, and each costs memory. */
#define WORKERS_MAX 16.0

/* How many workers the machine has cores for, beside the trainer. */
static double workers_possible(const struct rule_context *context)
{
    double cores = rule_number(context, FACT_CPU_COUNT);
    double possible = isnan(cores) ? 4 : cores - 1;

    return possible < 1 ? 1 : possible > WORKERS_MAX ? WORKERS_MAX : possible;
}

static void advise_data(struct rule_context *context, struct finding *finding,
                        double workers, double wanted)
{
    double collate = rule_number(context, FACT_DATALOADER_COLLATE_SHARE);

    if (isnan(workers))
        rule_advise(finding, "Prepare the next batch while this one trains: a loader "
                             "with worker processes, `num_workers=4`");
    else if (workers < 1)
        rule_advise(finding,
                    rule_print(context,
                               "`DataLoader(..., num_workers=%.0f, "
                               "persistent_workers=True)`: load beside the training",
                               wanted));
    else if (wanted > workers)
        rule_advise(finding, rule_print(context,
                                        "`num_workers=%.0f` instead of %.0f, and "
                                        "`prefetch_factor=4`",
                                        wanted, workers));
    else
        rule_advise(finding, "All cores load already: make the samples cheaper (decode "
                             "and resize once, store the result)");
    if (rule_number(context, FACT_DATALOADER_PERSISTENT) < 1 && workers >= 1)
        rule_advise(finding,
                    "`persistent_workers=True`: do not start them anew every epoch");
    if (rule_number(context, FACT_DATALOADER_PIN_MEMORY) < 1 &&
        rule_number(context, FACT_DEVICE_COUNT) > 0)
        rule_advise(finding, "`pin_memory=True`: copies to the GPU run beside it");
    if (collate > 0.3)
        rule_advise(finding, rule_print(context,
                                        "Collating takes %.0f %% of loading: return "
                                        "arrays of one shape, or a `collate_fn` that "
                                        "stacks once",
                                        100 * collate));
}

/* What is left to wait with `wanted` workers: they load while the step computes. */
static double left_to_wait(double data, double compute, double workers, double wanted)
{
    double loading = workers < 1 ? data : workers * (data + compute);
    double left = loading / wanted - compute;

    return left > 0 ? left : 0;
}

void rule_data_loading(struct rule_context *context)
{
    const struct steps_summary *train = context->train;
    double data = train->phase_ns[EVENT_PHASE_DATA], step = train->mean_ns;

    if (!(data / step >= context->threshold))
        return;
    double workers = rule_number(context, FACT_DATALOADER_WORKERS);
    double possible = workers_possible(context), compute = step - data;
    double now = isnan(workers) ? 0 : workers;
    double wanted = now < 1 ? (possible < 4 ? possible : 4) : 2 * now;

    wanted = wanted > possible ? possible : wanted;
    wanted = wanted < now ? now : wanted;
    double left = left_to_wait(data, compute, now, wanted > 0 ? wanted : 1);
    double price = wanted > now ? data - left : data / 2;
    struct finding *finding =
        price > 0 ? rule_add(context, "data-loading", NULL, "data") : NULL;

    if (finding == NULL)
        return;
    rule_price(context, finding, price);
    rule_claim(context, CLAIM_DATA, price);
    finding->title = "Training waits for the next batch";
    finding->formula =
        wanted > now
            ? rule_print(context, "%s waiting - %s left with %.0f workers = %s",
                         rule_ms(context, data), rule_ms(context, left), wanted,
                         rule_ms(context, price))
            : rule_print(context, "%s waiting / 2 = %s", rule_ms(context, data),
                         rule_ms(context, price));
    finding->sentence =
        rule_print(context, "%s of %s of a step wait for data%s",
                   rule_ms(context, data), rule_ms(context, step),
                   isnan(workers) ? ""
                   : workers < 1  ? ", loaded by the trainer itself (num_workers=0)"
                                 : rule_print(context, ", with %.0f workers", workers));
    finding->wrong_if = "The wait is for a disk or a network that more workers do not "
                        "make faster, or the cores are taken by something else.";
    rule_evidence(context, finding, "data_ms", data / NS_PER_MS);
    rule_evidence(context, finding, "step_ms", step / NS_PER_MS);
    rule_evidence(context, finding, "share_pct", 100 * data / step);
    rule_evidence(context, finding, "workers", workers);
    rule_evidence(context, finding, "batch_size",
                  rule_number(context, FACT_DATALOADER_BATCH_SIZE));
    rule_evidence(context, finding, "cores", rule_number(context, FACT_CPU_COUNT));
    advise_data(context, finding, workers, wanted);
}

/* The cause that most of the slow steps share. */
static const char *common_cause(const struct steps_answer *steps, uint32_t *times)
{
    const char *best = "unknown";

    *times = 0;
    for (uint32_t i = 0; i < steps->slow_count; i++) {
        uint32_t same = 0;

        for (uint32_t j = 0; j < steps->slow_count; j++)
            same += strcmp(steps->slow[i].cause, steps->slow[j].cause) == 0;
        if (same > *times) {
            *times = same;
            best = steps->slow[i].cause;
        }
    }
    return best;
}

static enum claim claim_of(const char *cause)
{
    static const char *const names[CLAIMS] = {"data", "forward", "backward",
                                              "optimizer", "other"};

    for (uint32_t i = 0; i < CLAIMS; i++)
        if (strcmp(names[i], cause) == 0)
            return i;
    return CLAIM_OTHER;
}

static void advise_unsteady(struct finding *finding, const char *cause)
{
    if (strcmp(cause, "data") == 0)
        rule_advise(finding, "A few batches load slowly: more `prefetch_factor` hides "
                             "single ones, look for large samples");
    else if (strcmp(cause, "gc") == 0)
        rule_advise(finding,
                    "Python collects garbage in the middle of steps: "
                    "`gc.freeze()` after set-up, `gc.collect()` between epochs");
    else if (strcmp(cause, "optimizer") == 0 || strcmp(cause, "other") == 0)
        rule_advise(finding, "Look at what runs every n-th step: logging, checkpoints, "
                             "`loss.item()`");
    else
        rule_advise(finding, "Look at the trace of a slow step; if shapes change from "
                             "batch to batch, pad or bucket them");
}

void rule_unsteady_steps(struct rule_context *context)
{
    const struct steps_summary *train = context->train;
    const struct steps_answer *steps = &context->summary->steps;
    double price = train->mean_ns - train->p50_ns;
    uint32_t times;

    if (!(price / train->mean_ns >= context->threshold) || steps->slow_count == 0)
        return;
    const char *cause = common_cause(steps, &times);
    bool phase = strcmp(cause, "unknown") != 0 && strcmp(cause, "gc") != 0;
    struct finding *finding =
        rule_add(context, "unsteady-steps", NULL, phase ? cause : "other");

    if (finding == NULL)
        return;
    rule_price(context, finding, price);
    rule_claim(context, claim_of(cause), price);
    const struct slow_step *worst = &steps->slow[0];

    for (uint32_t i = 1; i < steps->slow_count; i++)
        if (steps->slow[i].duration_ns > worst->duration_ns)
            worst = &steps->slow[i];
    finding->title = "Some steps take far longer than the others";
    finding->formula = rule_print(
        context, "mean %s - median %s = %s", rule_ms(context, train->mean_ns),
        rule_ms(context, train->p50_ns), rule_ms(context, price));
    finding->sentence = rule_print(
        context, "The worst of the slow steps, %lld, took %s (median %s); %s",
        (long long)worst->number, rule_ms(context, worst->duration_ns),
        rule_ms(context, train->p50_ns),
        strcmp(cause, "unknown") == 0 ? "their cause is not known"
                                      : rule_print(context, "in %u of %u it was %s",
                                                   times, steps->slow_count, cause));
    finding->wrong_if =
        "The long steps do work that is needed, such as saving a checkpoint.";
    finding->worst_step = worst->number;
    finding->first_step = finding->last_step = worst->number;
    rule_evidence(context, finding, "median_ms", train->p50_ns / NS_PER_MS);
    rule_evidence(context, finding, "mean_ms", train->mean_ns / NS_PER_MS);
    rule_evidence(context, finding, "p99_ms", train->p99_ns / NS_PER_MS);
    rule_evidence(context, finding, "slow_steps", steps->slow_count);
    rule_evidence_text(context, finding, "cause", cause);
    advise_unsteady(finding, cause);
}

void rule_validation_share(struct rule_context *context)
{
    const struct steps_summary *train = context->train;
    const struct steps_summary *validation = &context->summary->steps.validation;
    double spent = validation->mean_ns * (double)validation->count;
    double trained = train->mean_ns * (double)train->count;
    double share = spent / (spent + trained);

    if (!(share >= context->threshold))
        return;
    double per_step = spent / (double)train->count;
    struct finding *finding = rule_add(context, "validation-share", NULL, "other");

    if (finding == NULL)
        return;
    /* It lies outside of training steps: a price, but no part of their time. */
    rule_price(context, finding, per_step / 2);
    finding->title = "Validation takes much of the run";
    finding->formula = rule_print(
        context, "%llu batches * %s / %llu training steps / 2 = %s",
        (unsigned long long)validation->count, rule_ms(context, validation->mean_ns),
        (unsigned long long)train->count, rule_ms(context, per_step / 2));
    finding->sentence =
        rule_print(context, "%.0f %% of the time goes to %llu validation batches",
                   100 * share, (unsigned long long)validation->count);
    finding->wrong_if = "Validating this often is what you want.";
    rule_evidence(context, finding, "share_pct", 100 * share);
    rule_evidence(context, finding, "validation_batches", (double)validation->count);
    rule_evidence(context, finding, "batch_ms", validation->mean_ns / NS_PER_MS);
    rule_advise(finding, "Validate half as often, or on a fixed part of the set; with "
                         "Lightning `Trainer(check_val_every_n_epoch=2)` or "
                         "`limit_val_batches=0.5`");
    rule_advise(finding, "Larger batches and `torch.inference_mode()` for validation: "
                         "it keeps no gradients");
}
