/* Rules over work that its neighbour makes needless (ingest/file/needless.c): of trace
 * files alone, for only they tell what was launched in which op. */
#include <math.h>

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
    finding->title =
        "Convolutions add a bias that the batch norm behind them takes away";
    finding->formula =
        work_formula(context, finding,
                     rule_print(context, "%s for %s", rule_ms(context, time),
                                rule_count(context, bias->count, "addition")),
                     &work);
    finding->sentence = rule_print(
        context,
        "In each step %s of a bias, %s on %s, stand before a batch norm, which "
        "subtracts the mean of each channel and the bias with it",
        rule_count(context, bias->count, "addition"), rule_ms(context, bias->device_ns),
        device->device);
    finding->wrong_if = "The norm does not subtract the batch's own mean (`eval()`, "
                        "`track_running_stats`), or the bias is read elsewhere too.";
    rule_evidence_text(context, finding, "device", device->device);
    rule_evidence(finding, "additions_per_step", bias->count);
    rule_evidence(finding, "additions_ms", bias->device_ns / NS_PER_MS);
    rule_advise(finding,
                "`nn.Conv2d(..., bias=False)` before `nn.BatchNorm2d`: its own "
                "bias stands for both");
    rule_advise(finding, "From a checkpoint: leave out the weights' `bias` of these "
                         "layers, and subtract them from `running_mean`");
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

    if (device == NULL || !(price / context->train->mean_ns >= context->threshold))
        return;
    struct finding *finding = rule_add(context, NULL, "other");

    rule_price(context, finding, price,
               rule_error_of_kernels(context, price, context->train->kernels));
    rule_price_between(finding, price / 2, saved);
    rule_claim_waits(context, finding, FOR_MAKING, price);
    finding->title = "Tensors are made on the CPU and then copied to the device";
    finding->formula = rule_print(
        context, "min(%s to make and copy %s - %.0f us each, %s that %s waits) = %s",
        rule_ms(context, made->host_ns), rule_count(context, made->count, "tensor"),
        MADE_THERE_NS / 1000, rule_ms(context, waits), device->device,
        rule_ms(context, price));
    finding->sentence = rule_print(
        context, "The host fills %s a step, to be copied to %s at once: %s together",
        rule_count(context, made->count, "tensor"), device->device,
        rule_ms(context, made->host_ns));
    finding->wrong_if = "What is copied is another tensor than the one that was made "
                        "right before.";
    rule_evidence_text(context, finding, "device", device->device);
    rule_evidence(finding, "tensors_per_step", made->count);
    rule_evidence(finding, "host_ms", made->host_ns / NS_PER_MS);
    rule_evidence(finding, "copies_ms", made->device_ns / NS_PER_MS);
    rule_evidence(finding, "idle_ms", waits / NS_PER_MS);
    rule_advise(finding, "`torch.zeros(..., device=device)` instead of "
                         "`torch.zeros(...).to(device)`; so also `ones`, `full`, "
                         "`arange`, `rand`, `randn`");
    rule_advise(finding, "What is the same in each step: make it once, or "
                         "`self.register_buffer(\"mask\", mask)`, which `.to(device)` "
                         "moves with the model");
}

const struct rule rules_needless[] = {
    {{.id = "convolution-bias",
      .reads = "of trace files: additions in aten::_convolution that a batch norm "
               "follows; GPU time by use; steps that were replayed",
      .formula = "device time of these additions * " WAITED_AT_LEAST_BUSY,
      SHARE_OF_STEP(0.03, SMALLEST),
      .sampled = true,
      .owner = OWNER_WORK - 3},
     .find = find_bias},
    {{.id = "made-on-host",
      .reads = "of trace files: ops that fill a tensor on the CPU and the copy to the "
               "device that follows; idle time of devices by cause",
      .formula = "min(time of both - 10 us each, idle for launches + idle for Python + "
                 "idle for copies + idle after waiting + idle unknown)",
      SHARE_OF_STEP(0.03, SMALLEST),
      .sampled = true,
      .owner = OWNER_DEVICE - 3},
     .find = find_made_on_host},
    {.find = NULL},
};
