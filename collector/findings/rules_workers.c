/* Rules over the loader's workers: beside each other, and what it takes to take their batches
 * over. */
#include <math.h>

#include "findings/loading.h"
#include "findings/settings.h"

static void find_slow_worker(struct rule_context *context)
{
    const struct load *load = &context->summary->load;
    double price = loading_slow_worker_ns(context), step = context->train->mean_ns;
    struct finding *finding =
        rule_reaches(context, price) ? rule_add(context, NULL, "data") : NULL;

    if (finding == NULL)
        return;
    rule_price(context, finding, price, rule_error_of_phase(context, EVENT_PHASE_DATA));
    finding->takes_ns = context->train->phase_ns[EVENT_PHASE_DATA];
    rule_claim_apart(finding, PART_DATA, CLAIM_WAIT, price);
    finding->formula = rule_print(
        context, "%s * (1 - %.2g / %.2g of a core) and at most the %s waiting = %s",
        rule_ms(context, step), load->worker_cpu_share, load->worker_cpu_most,
        rule_ms(context, context->train->phase_ns[EVENT_PHASE_DATA]),
        rule_ms(context, price));
    finding->sentence = rule_print(
        context,
        "One of %u workers computes for %.0f %% of the time, the mean of all is %.0f "
        "%%: each of its batches is waited for",
        load->workers, 100 * load->worker_cpu_most, 100 * load->worker_cpu_share);
    rule_evidence(finding, "workers", load->workers);
    rule_evidence(finding, "busiest_worker_cpu_pct", 100 * load->worker_cpu_most);
    rule_evidence(finding, "worker_cpu_pct", 100 * load->worker_cpu_share);
    rule_evidence_ms(finding, "step_ms", step);
}

/* What the trainer takes to take ready batches over, with a core of its own; beside a device
 * that idles for it. 0 where data-loading tells of it, or nobody does. */
static double taken_over_ns(const struct rule_context *context)
{
    const struct steps_summary *train = context->train;
    const struct gpu_device *device = rule_device(context);
    double delay = context->summary->load.delay_share;
    double taken = train->taken_ns * (1 - (delay > 0 ? delay : 0));

    if (device != NULL && device->idle_ns[GPU_IDLE_DATA] < taken)
        taken = device->idle_ns[GPU_IDLE_DATA];
    /* Of the wait it is the larger part, but for what is told elsewhere. */
    double waited = fmax(train->waited_ns - loading_told_apart_ns(context), 0);

    return taken > waited && loading_unanswered_ns(context) <= 0 ? taken : 0;
}

/* What a batch of two tensors takes, which nobody saves. */
#define TAKEN_USUAL_NS 1.5e6

static void find_handover(struct rule_context *context)
{
    const struct steps_summary *train = context->train;
    double taken = taken_over_ns(context), step = train->mean_ns;
    double tensors = loading_tensors(context);
    double least = rule_least(context, taken, train->taken_error_ns);
    bool is_found = rule_reaches(context, least - TAKEN_USUAL_NS);
    struct finding *finding =
        is_found ? rule_add_open(context, NULL, "data", FINDING_LOW) : NULL;

    if (finding == NULL)
        return;
    finding->formula = rule_print(
        context, "%s of %s of data loading; how much of it a fix saves is not known",
        rule_ms(context, taken), rule_ms(context, train->phase_ns[EVENT_PHASE_DATA]));
    finding->sentence =
        rule_print(context,
                   "For %s of %s of a step the batch is ready, and the trainer takes "
                   "it over from its worker: it asks for the memory of each tensor, "
                   "opens and maps it, and unpickles what is no tensor",
                   rule_ms(context, taken), rule_ms(context, step));
    rule_evidence_ms(finding, "taken_over_ms", taken);
    rule_evidence_ms(finding, "no_batch_ready_ms", train->waited_ns);
    rule_evidence(finding, "share_pct", 100 * taken / step);
    rule_evidence(finding, "tensors", rule_number(context, FACT_DATALOADER_TENSORS));
    rule_evidence(finding, "batch_size",
                  rule_number(context, FACT_DATALOADER_BATCH_SIZE));
    if (tensors > TENSORS_USUAL)
        rule_advise_print(
            context, finding,
            "Join the %.0f tensors of a batch to one or two in `collate_fn`: each is "
            "asked for, opened and mapped on its own",
            tensors);
    rule_advise(finding, "Return tensors from `collate_fn`, not lists, strings or "
                         "NumPy arrays: those are pickled through a pipe; and small "
                         "ones, such as `uint8` that is converted after");
    if (rule_has_device(context) &&
        !(rule_number(context, FACT_DATALOADER_PIN_MEMORY) >= 1))
        setting_advise(context, finding, SETTING_PIN_MEMORY, NULL,
                       ": a thread takes batches over beside the training");
    else
        rule_advise(finding, "Take the next batch over while this one trains: a thread "
                             "that iterates the loader and fills a `queue.Queue(2)`");
}

const struct rule rules_workers[] = {
    RULE("slow-worker", find_slow_worker, OWNER_DATA - 5, RULE_EARLY_TREND,
         "phase data; CPU time of each worker",
         "step * (1 - mean of the workers / busiest worker), at most data",
         SHARE_OF_STEP(0.03, SMALLEST),
         .title = "One loader worker is slower than the others",
         .wrong_if = "It also does other work, such as a cache for all of them.",
         .advice = {ADVICE("Deal the work evenly: in an `IterableDataset`, split "
                           "shards by size over `get_worker_info().id`, not by name"),
                    ADVICE("`DataLoader(..., in_order=False)` (torch 2.6 on): a late "
                           "batch does not hold up those of other workers")}),
    RULE("batch-handover", find_handover, OWNER_RISK, 0,
         "phase data, of it with a batch ready; dataloader.*; idle devices",
         "0: not known before it is tried",
         SHARE_OF_STEP(0.10,
                       "of what is more than the 1.5 ms that a batch of two tensors "
                       "takes; less than a tenth a small step does not notice"),
         .title = "Batches are ready, and taking them over takes long",
         .wrong_if = "The workers' Python computes all the time and does not answer, "
                     "or cores are short: then it is a wait for these.",
         .advice = {ADVICE("Larger batches are taken over less often; a set that is in "
                           "memory needs no workers")}),
    {.told = {.id = NULL}},
};
