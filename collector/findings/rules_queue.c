/* Rules over how a device works off what it is given: kernels that hardly begin before
 * they end, streams that take turns. */
#include <math.h>

#include "findings/settings.h"
#include "findings/work.h"

/* What a kernel takes however little it does: the shortest of real traces take 1.5 us on an
 * H100 and up to 2 us on a V100, and 1 us passes on both before the next one. */
#define KERNEL_NS 2000.0

/* Four of them become one, as with collectives. */
#define KERNELS_JOINED 4.0

/* Kernels of a family have rules of their own, and what small-grids prices of the others is
 * its: by the tables, for a price must not depend on what else is found. */
static void find_short(struct rule_context *context)
{
    const struct ops_answer *cuda = &context->summary->cuda;
    double mean = cuda->short_self_ns / cuda->short_count;
    double starts = cuda->short_count * fmin(mean, KERNEL_NS);
    double grids = cuda->short_unused_ns / 2;
    double less = starts * (1 - 1 / KERNELS_JOINED) - grids;
    const struct work work = {
        .ns = less, .low_ns = less / 2, .high_ns = starts - grids, .fewer = true};
    struct finding *finding = work_find(context, NULL, "forward", &work);

    if (finding == NULL)
        return;
    finding->formula = work_formula(
        context, finding,
        rule_print(context, "(%.0f kernels * min(%.3g us, %.3g us) * %.2g joined%s)",
                   cuda->short_count, mean / 1000, KERNEL_NS / 1000,
                   1 - 1 / KERNELS_JOINED,
                   grids > 0 ? rule_print(context, " - %s of small grids",
                                          rule_ms(context, grids))
                             : ""),
        &work);
    finding->title = "Kernels are so short that starting them is most of their time";
    finding->sentence =
        rule_print(context, "%s kernels of a step take %s each on average, %s together",
                   rule_digits(context, cuda->short_count), rule_ms(context, mean),
                   rule_ms(context, cuda->short_self_ns));
    finding->wrong_if =
        "The model is as small as that, and no more of it fits into one kernel.";
    rule_evidence_text(context, finding, "device", rule_device(context)->device);
    rule_evidence(finding, "kernels_per_step", cuda->short_count);
    rule_evidence(finding, "mean_us", mean / 1000);
    rule_evidence(finding, "kernels_ms", cuda->short_self_ns / NS_PER_MS);
    if (!context->summary->native)
        setting_advise_compile(
            context, finding, SETTING_COMPILE, " makes one kernel of several",
            rule_infers(context)
                ? "`mode=\"max-autotune\"` in the `torch.compile` that is there; "
                  "compile what is not yet"
                : "`mode=\"max-autotune\"` in the `torch.compile` that is there; "
                  "compile what is not yet: the loss, the optimizer's `step`");
    rule_advise(finding,
                "A larger batch: each kernel then does more in nearly the same "
                "time");
    rule_advise_in(
        context, finding,
        rule_infers(context)
            ? "Fused forms: `F.scaled_dot_product_attention`, `F.rms_norm`; "
              "many small tensors as one"
            : "Fused forms: `F.scaled_dot_product_attention`, `fused=True` in "
              "the optimizer; many small tensors as one",
        "One kernel for several that follow each other; what stays short in "
        "a CUDA graph (`cudaGraphLaunch`), which starts it closer");
}

/* Times of the run, in ns. */
struct streams {
    double all, busiest, busy, alone; /* alone: of the others than the busiest */
};

static struct streams look_at_streams(const struct gpu_run *run)
{
    struct streams streams = {.busiest =
                                  run->stream_count > 0 ? run->streams[0].busy_ns : 0};

    for (uint32_t i = 0; i < run->stream_count; i++)
        streams.all += run->streams[i].busy_ns;
    streams.busy = streams.all / run->streams_busy;
    streams.alone = streams.all - streams.busiest - (streams.all - streams.busy);
    return streams;
}

/* What copies, and what ranks do together: they have streams of their own, and rules. */
static double moves_ns(const struct rule_context *context,
                       const struct gpu_device *device, const struct streams *streams)
{
    const struct gpu_run *run = &device->run;
    double ns = run->memset_ns;

    for (uint32_t i = 0; i < run->copy_count; i++)
        ns += run->copies[i].ns;
    return ns / streams->busy * rule_busy_ns(context, device) +
           context->summary->cuda.family_ns[KERNEL_COLLECTIVE];
}

/* Streams whose work runs beside another's for more than this take no turns. */
#define BESIDE_MOST 0.1

static void find_turns(struct rule_context *context)
{
    const struct gpu_device *device = rule_busiest(context);
    double step = context->train->mean_ns;

    if (device == NULL || device->run.stream_count < 2)
        return;
    struct streams streams = look_at_streams(&device->run);
    double others = streams.all - streams.busiest, beside = others - streams.alone;
    double alone = streams.alone / streams.busy * rule_busy_ns(context, device) -
                   moves_ns(context, device, &streams);

    if (!(others > 0) || !(beside <= BESIDE_MOST * others) ||
        !(alone / step >= context->threshold))
        return;
    struct finding *finding = rule_add_open(context, NULL, "other", FINDING_LOW);

    finding->title = rule_print(context, "Streams of %s take turns", device->device);
    finding->formula = rule_print(
        context,
        "%s of a step on other streams than the busiest; what is won by running "
        "them at once is not known",
        rule_ms(context, alone));
    finding->sentence = rule_print(
        context,
        "%u streams have work, and for %.0f %% of its time what is not on the busiest "
        "runs alone: %s of a step, without copies and collectives",
        device->run.stream_count, 100 * (1 - beside / others), rule_ms(context, alone));
    finding->wrong_if =
        "One stream's work needs the other's results, each fills the device by itself, "
        "or they belong to different parts of the run.";
    rule_evidence_text(context, finding, "device", device->device);
    rule_evidence(finding, "streams", device->run.stream_count);
    rule_evidence(finding, "busiest_pct", 100 * streams.busiest / streams.all);
    rule_evidence(finding, "streams_busy", device->run.streams_busy);
    rule_evidence(finding, "alone_ms", alone / NS_PER_MS);
    rule_advise_in(
        context, finding,
        "Between work of two streams nothing on the default stream, and no "
        "`torch.cuda.synchronize()`; `wait_stream` only where a result is handed "
        "over",
        "Between work of two streams nothing on the default stream, and no "
        "`cudaDeviceSynchronize()`; `cudaStreamWaitEvent()` only where a result is "
        "handed over");
    rule_advise_in(
        context, finding,
        "In an extension of your own `cudaStreamCreateWithFlags(&stream, "
        "cudaStreamNonBlocking)`: other streams wait for the legacy default one",
        "`cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking)`: other streams "
        "wait for the legacy default one");
}

const struct rule rules_queue[] = {
    {{.id = "short-kernels",
      .reads =
          "kernels below 10 us on average, and their grids; GPU time by use; steps "
          "that were replayed",
      .formula = "(kernels of no family * min(their mean, 2 us) * 3/4 - what "
                 "small-grids says of them) * " WAITED_AT_LEAST_BUSY,
      SHARE_OF_STEP(0.05,
                    "a twentieth of the step, for the cost of a launch is an estimate"),
      .sampled = true,
      .owner = OWNER_WORK + 7},
     .find = find_short},
    {{.id = "streams-in-turn",
      .reads = "busy time of each stream, of the run; copies and collectives",
      .formula = "0: not known before it is tried",
      SHARE(0.1, "share of the step on other streams than the busiest",
            "what runs beside the rest gives back less than its time"),
      .sampled = true,
      .owner = OWNER_RISK},
     .find = find_turns},
    {.find = NULL},
};
