/* Rules over the wait for the next batch. */
#include <math.h>

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

static void find_loading(struct rule_context *context)
{
    const struct steps_summary *train = context->train;
    /* What first batches wait is a finding of its own. */
    double data =
        train->phase_ns[EVENT_PHASE_DATA] - context->summary->rhythm.epoch.ns_per_step;
    double step = train->mean_ns;

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
    struct finding *finding = price > 0 ? rule_add(context, NULL, "data") : NULL;

    if (finding == NULL)
        return;
    if (wanted > now)
        rule_price(context, finding, price,
                   rule_error_of_phase(context, EVENT_PHASE_DATA));
    else
        rule_price_half(context, finding, data,
                        rule_error_of_phase(context, EVENT_PHASE_DATA));
    rule_claim(finding, PART_DATA, CLAIM_WAIT, price);
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

const struct rule rules_data[] = {
    {{.id = "data-loading",
      .reads = "phase data; dataloader.*, cpu.count",
      .formula = "data - max(0, loading / workers - compute)",
      .threshold = 0.05,
      .unit = "share of the step",
      .min = 0,
      .max = 1,
      .source = "where PyTorch's TensorBoard plugin begins to warn of the data loader",
      .owner = OWNER_DATA},
     find_loading},
    {.find = NULL},
};
