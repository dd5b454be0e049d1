/* The rule over the loader's workers beside each other. */
#include "findings/loading.h"

static void find_slow_worker(struct rule_context *context)
{
    const struct load *load = &context->summary->load;
    double price = loading_slow_worker_ns(context), step = context->train->mean_ns;
    struct finding *finding =
        price / step >= context->threshold ? rule_add(context, NULL, "data") : NULL;

    if (finding == NULL)
        return;
    rule_price(context, finding, price, rule_error_of_phase(context, EVENT_PHASE_DATA));
    rule_takes(finding, context->train->phase_ns[EVENT_PHASE_DATA]);
    rule_claim_apart(finding, PART_DATA, CLAIM_WAIT, price);
    finding->title = "One loader worker is slower than the others";
    finding->formula = rule_print(
        context, "%s * (1 - %.2g / %.2g of a core) and at most the %s waiting = %s",
        rule_ms(context, step), load->worker_cpu_share, load->worker_cpu_most,
        rule_ms(context, context->train->phase_ns[EVENT_PHASE_DATA]),
        rule_ms(context, price));
    finding->sentence = rule_print(
        context,
        "One of %u workers computes for %.0f %% of the time, the mean of all "
        "is %.0f %%: each of its batches is waited for",
        load->workers, 100 * load->worker_cpu_most, 100 * load->worker_cpu_share);
    finding->wrong_if = "It also does other work, such as a cache for all of them.";
    rule_evidence(context, finding, "workers", load->workers);
    rule_evidence(context, finding, "busiest_worker_cpu_pct",
                  100 * load->worker_cpu_most);
    rule_evidence(context, finding, "worker_cpu_pct", 100 * load->worker_cpu_share);
    rule_evidence(context, finding, "step_ms", step / NS_PER_MS);
    rule_advise(finding,
                "Deal the work evenly: in an `IterableDataset`, split shards by "
                "size over `get_worker_info().id`, not by name");
    rule_advise(finding, "`DataLoader(..., in_order=False)` (torch 2.6 on): a late "
                         "batch does not hold up those of other workers");
}

const struct rule rules_workers[] = {
    {{.id = "slow-worker",
      .reads = "phase data; CPU time of each worker",
      .formula = "step * (1 - mean of the workers / busiest worker), at most data",
      .threshold = 0.03,
      .unit = "share of the step",
      .min = 0,
      .max = 1,
      .source = SMALLEST,
      .owner = OWNER_DATA - 5,
      .trend = true,
      .early = true},
     find_slow_worker},
    {.find = NULL},
};
