/* Rules over work that its neighbour makes needless (ingest/file/needless.c): of trace
 * files alone, for only they tell what was launched in which op. And over how a device works
 * off what it is given: kernels that hardly begin before they end, streams that take turns. */
#include <math.h>

#include "findings/settings.h"
#include "findings/work.h"

/* The gradient of a bias, a sum that reads what the addition reads and writes, goes with it
 * and is told nowhere. */
#define WITH_GRADIENT 1.5

static void find_bias(struct rule_context *context)
{
    const struct gpu_device *device = rule_device(context);
    const struct op_needless *bias = &context->summary->cpu.needless[NEEDLESS_BIAS];
    double time = bias->device_ns;
    const struct work work = {
        .ns = time, .low_ns = time, .high_ns = WITH_GRADIENT * time, .fewer = true};
    struct finding *finding = work_find(context, NULL, "forward", &work);

    if (finding == NULL)
        return;
    finding->formula =
        work_formula(context, finding,
                     rule_print(context, "%s for %s", rule_ms(context, time),
                                rule_count(context, bias->count, "addition")),
                     &work);
    finding->sentence =
        rule_print(context,
                   "In each step %s of a bias, %s on %s, stand before a batch norm, "
                   "which subtracts the mean of each channel and the bias with it",
                   rule_count(context, bias->count, "addition"),
                   rule_ms(context, bias->device_ns), device->device);
    rule_evidence_text(context, finding, "device", device->device);
    rule_evidence(finding, "additions_per_step", bias->count);
    rule_evidence_ms(finding, "additions_ms", bias->device_ns);
    rule_pin(context, finding, "aten::_convolution");
}

/* What the host still takes for a tensor that the device makes: the op and its launch. */
#define MADE_THERE_NS 10000.0

/* Meanwhile a device waits for the host to compute, to copy, and to come to what follows. */
#define FOR_MAKING                                                                     \
    (1u << GPU_IDLE_LAUNCH | 1u << GPU_IDLE_PYTHON | 1u << GPU_IDLE_COPY |             \
     1u << GPU_IDLE_SYNC | 1u << GPU_IDLE_UNKNOWN)

static void find_made_on_host(struct rule_context *context)
{
    const struct op_needless *made = &context->summary->cpu.needless[NEEDLESS_COPY];
    double saved = made->host_ns - made->count * MADE_THERE_NS, waits;
    const struct gpu_device *device = rule_waits_for(context, FOR_MAKING, &waits);
    double price = fmin(saved, waits);

    if (device == NULL || !rule_reaches(context, price))
        return;
    struct finding *finding =
        rule_add_price(context, NULL, "other", price,
                       rule_error_of_kernels(context, price, context->train->kernels));

    rule_price_between(finding, price / 2, saved);
    rule_claim_waits(context, finding, FOR_MAKING, price);
    finding->formula = rule_print(
        context, "min(%s to make and copy %s - %.0f us each, %s that %s waits) = %s",
        rule_ms(context, made->host_ns), rule_count(context, made->count, "tensor"),
        MADE_THERE_NS / 1000, rule_ms(context, waits), device->device,
        rule_ms(context, price));
    finding->sentence = rule_print(
        context, "The host fills %s a step, to be copied to %s at once: %s together",
        rule_count(context, made->count, "tensor"), device->device,
        rule_ms(context, made->host_ns));
    rule_evidence_text(context, finding, "device", device->device);
    rule_evidence(finding, "tensors_per_step", made->count);
    rule_evidence_ms(finding, "host_ms", made->host_ns);
    rule_evidence_ms(finding, "copies_ms", made->device_ns);
    rule_evidence_ms(finding, "idle_ms", waits);
}

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
    finding->sentence =
        rule_print(context, "%s kernels of a step take %s each on average, %s together",
                   rule_digits(context, cuda->short_count), rule_ms(context, mean),
                   rule_ms(context, cuda->short_self_ns));
    rule_evidence_text(context, finding, "device", rule_device(context)->device);
    rule_evidence(finding, "kernels_per_step", cuda->short_count);
    rule_evidence(finding, "mean_us", mean / 1000);
    rule_evidence_ms(finding, "kernels_ms", cuda->short_self_ns);
    if (!context->summary->native)
        setting_advise_compile(
            context, finding, SETTING_COMPILE, " makes one kernel of several",
            rule_infers(context)
                ? "`mode=\"max-autotune\"` in the `torch.compile` that is there; "
                  "compile what is not yet"
                : "`mode=\"max-autotune\"` in the `torch.compile` that is there; "
                  "compile what is not yet: the loss, the optimizer's `step`");
    rule_advise(finding,
                "A larger batch: each kernel then does more in nearly the same time");
    rule_advise_in(context, finding,
                   rule_infers(context)
                       ? "Fused forms: `F.scaled_dot_product_attention`, `F.rms_norm`; "
                         "many small tensors as one"
                       : "Fused forms: `F.scaled_dot_product_attention`, `fused=True` "
                         "in the optimizer; many small tensors as one",
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

    if (device == NULL || device->run.stream_count < 2)
        return;
    struct streams streams = look_at_streams(&device->run);
    double others = streams.all - streams.busiest, beside = others - streams.alone;
    double alone = streams.alone / streams.busy * rule_busy_ns(context, device) -
                   moves_ns(context, device, &streams);

    if (!(others > 0) || !(beside <= BESIDE_MOST * others) ||
        !rule_reaches(context, alone))
        return;
    struct finding *finding = rule_add_open(context, NULL, "other", FINDING_LOW);

    finding->title = rule_print(context, "Streams of %s take turns", device->device);
    finding->formula = rule_print(context,
                                  "%s of a step on other streams than the busiest; "
                                  "what is won by running them at once is not known",
                                  rule_ms(context, alone));
    finding->sentence = rule_print(
        context,
        "%u streams have work, and for %.0f %% of its time what is not on the busiest "
        "runs alone: %s of a step, without copies and collectives",
        device->run.stream_count, 100 * (1 - beside / others), rule_ms(context, alone));
    rule_evidence_text(context, finding, "device", device->device);
    rule_evidence(finding, "streams", device->run.stream_count);
    rule_evidence(finding, "busiest_pct", 100 * streams.busiest / streams.all);
    rule_evidence(finding, "streams_busy", device->run.streams_busy);
    rule_evidence_ms(finding, "alone_ms", alone);
}

const struct rule rules_needless[] = {
    RULE("convolution-bias", find_bias, OWNER_WORK - 3, RULE_SAMPLED,
         "of trace files: additions in aten::_convolution that a batch norm follows; "
         "GPU time by use; steps that were replayed",
         "device time of these additions * " WAITED_AT_LEAST_BUSY,
         SHARE_OF_STEP(0.03, SMALLEST),
         .title = "Convolutions add a bias that the batch norm behind them takes away",
         .wrong_if = "The norm does not subtract the batch's own mean (`eval()`, "
                     "`track_running_stats`), or the bias is read elsewhere too.",
         .advice = {ADVICE("`nn.Conv2d(..., bias=False)` before `nn.BatchNorm2d`: its "
                           "own bias stands for both"),
                    ADVICE("From a checkpoint: leave out the weights' `bias` of these "
                           "layers, and subtract them from `running_mean`")}),
    RULE(
        "made-on-host", find_made_on_host, OWNER_DEVICE - 3, RULE_SAMPLED,
        "of trace files: ops that fill a tensor on the CPU and the copy to the device "
        "that follows; idle time of devices by cause",
        "min(time of both - 10 us each, idle for launches + idle for Python + idle for "
        "copies + idle after waiting + idle unknown)",
        SHARE_OF_STEP(0.03, SMALLEST),
        .title = "Tensors are made on the CPU and then copied to the device",
        .wrong_if =
            "What is copied is another tensor than the one that was made right before.",
        .advice = {ADVICE("`torch.zeros(..., device=device)` instead of "
                          "`torch.zeros(...).to(device)`; so also `ones`, `full`, "
                          "`arange`, `rand`, `randn`"),
                   ADVICE("What is the same in each step: make it once, or "
                          "`self.register_buffer(\"mask\", mask)`, which `.to(device)` "
                          "moves with the model")}),
    RULE("short-kernels", find_short, OWNER_WORK + 7, RULE_SAMPLED,
         "kernels below 10 us on average, and their grids; GPU time by use; steps that "
         "were replayed",
         "(kernels of no family * min(their mean, 2 us) * 3/4 - what small-grids says "
         "of them) * " WAITED_AT_LEAST_BUSY,
         SHARE_OF_STEP(
             0.05, "a twentieth of the step, for the cost of a launch is an estimate"),
         .title = "Kernels are so short that starting them is most of their time",
         .wrong_if =
             "The model is as small as that, and no more of it fits into one kernel."),
    RULE("streams-in-turn", find_turns, OWNER_RISK, RULE_SAMPLED,
         "busy time of each stream, of the run; copies and collectives",
         "0: not known before it is tried",
         SHARE(0.1, "share of the step on other streams than the busiest",
               "what runs beside the rest gives back less than its time"),
         .wrong_if = "One stream's work needs the other's results, each fills the "
                     "device by itself, or they belong to different parts of the run.",
         .advice =
             {{"Between work of two streams nothing on the default stream, and no "
               "`torch.cuda.synchronize()`; `wait_stream` only where a result is "
               "handed over",
               "Between work of two streams nothing on the default stream, and no "
               "`cudaDeviceSynchronize()`; `cudaStreamWaitEvent()` only where a result "
               "is handed over"},
              {"In an extension of your own `cudaStreamCreateWithFlags(&stream, "
               "cudaStreamNonBlocking)`: other streams wait for the legacy default one",
               "`cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking)`: other "
               "streams wait for the legacy default one"}}),
    {.told = {.id = NULL}},
};
