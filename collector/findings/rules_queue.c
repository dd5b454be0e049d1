/* Rules over how a device works off what it is given: kernels that hardly begin before
 * they end. */
#include <math.h>

#include "findings/rules.h"

/* What a kernel takes however little it does: the shortest of real traces take 1.5 us on an
 * H100 and up to 2 us on a V100, and 1 us passes on both before the next one. */
#define KERNEL_NS 2000.0

/* Four of them become one, as with collectives. */
#define KERNELS_JOINED 4.0

static void describe_short(struct rule_context *context, struct finding *finding,
                           const struct gpu_device *device)
{
    const struct ops_answer *cuda = &context->summary->cuda;
    double mean = cuda->short_self_ns / cuda->short_count;

    finding->title = "Kernels are so short that starting them is most of their time";
    finding->sentence =
        rule_print(context, "%s kernels of a step take %s each on average, %s together",
                   rule_digits(context, cuda->short_count), rule_ms(context, mean),
                   rule_ms(context, cuda->short_self_ns));
    finding->wrong_if =
        "The model is as small as that, and no more of it fits into one kernel.";
    rule_evidence_text(context, finding, "device", device->device);
    rule_evidence(context, finding, "kernels_per_step", cuda->short_count);
    rule_evidence(context, finding, "mean_us", mean / 1000);
    rule_evidence(context, finding, "kernels_ms", cuda->short_self_ns / NS_PER_MS);
    rule_advise_compile(context, finding,
                        "`model = torch.compile(model)` makes one kernel of several",
                        "`mode=\"max-autotune\"` in the `torch.compile` that is there; "
                        "compile what is not yet: the loss, the optimizer's `step`");
    rule_advise(finding,
                "A larger batch: each kernel then does more in nearly the same "
                "time");
    rule_advise(finding,
                "Fused forms: `F.scaled_dot_product_attention`, `fused=True` in "
                "the optimizer; many small tensors as one");
}

/* Kernels of a family have rules of their own, and what small-grids prices of the others is
 * its: by the tables, for a price must not depend on what else is found. */
static void find_short(struct rule_context *context)
{
    const struct ops_answer *cuda = &context->summary->cuda;
    const struct gpu_device *device = rule_busiest(context);
    double busy = device == NULL ? 0 : rule_busy_share(context, device);
    double mean = cuda->short_self_ns / cuda->short_count;
    double starts = cuda->short_count * fmin(mean, KERNEL_NS) * busy;
    double grids = cuda->short_unused_ns * busy / 2;
    double price = starts * (1 - 1 / KERNELS_JOINED) - grids;

    if (device == NULL || !(price / context->train->mean_ns >= context->threshold))
        return;
    struct finding *finding = rule_add(context, NULL, "forward");

    if (finding == NULL)
        return;
    rule_price(context, finding, price,
               rule_error_of_recorded(context, price, cuda->head.recorded_steps));
    rule_price_between(finding, price / 2, starts - grids);
    rule_claim_model(context, finding, CLAIM_WORK, price);
    finding->formula = rule_print(
        context,
        "%.0f kernels * min(%.3g us, %.3g us) * %.0f %% busy * %.2g joined%s = %s",
        cuda->short_count, mean / 1000, KERNEL_NS / 1000, 100 * busy,
        1 - 1 / KERNELS_JOINED,
        grids > 0 ? rule_print(context, " - %s of small grids", rule_ms(context, grids))
                  : "",
        rule_ms(context, price));
    describe_short(context, finding, device);
}

const struct rule rules_queue[] = {
    {{.id = "short-kernels",
      .reads = "kernels below 10 us on average, and their grids; GPU time by use",
      .formula = "kernels of no family * min(their mean, 2 us) * busy share * 3/4 - "
                 "what small-grids says of them",
      .threshold = 0.05,
      .unit = "share of the step",
      .min = 0,
      .max = 1,
      .sampled = true,
      .source = TWENTIETH,
      .owner = OWNER_WORK + 7},
     find_short},
    {.find = NULL},
};
