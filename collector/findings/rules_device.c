/* Rules over the device's own work: what a fix would make less of, or hide. */
#include <math.h>
#include <string.h>

#include "findings/settings.h"
#include "findings/work.h"

static void advise_bfloat16(struct rule_context *context, struct finding *finding)
{
    rule_advise_in(context, finding,
                   rule_infers(context)
                       ? "`model.bfloat16()`, or `with torch.autocast(\"cuda\", "
                         "dtype=torch.bfloat16):` around the model"
                       : setting_text(context, SETTING_BFLOAT16, NULL),
                   "`cublasGemmEx` on bfloat16, sums in float32");
}

static void find_float32(struct rule_context *context)
{
    const struct gpu_device *device = rule_device(context);

    if (device == NULL || !generation_has_tensor_cores(context, device) ||
        rule_text(context, FACT_AMP_DTYPE)[0] != '\0')
        return;
    struct finding *finding = work_find_family(context, KERNEL_FLOAT32, false);

    if (finding == NULL)
        return;
    bool cdna = generation_is_cdna(context, device);

    finding->title = cdna ? "Matrix products run in float32, where bfloat16 is faster"
                          : "Matrix products run in float32, without tensor cores";
    finding->sentence = rule_print(
        context, "%s of a step are float32 products on %s, %s",
        rule_ms(context, context->summary->cuda.family_ns[KERNEL_FLOAT32]),
        device->name != NULL && device->name[0] != '\0' ? device->name : device->device,
        cdna ? "whose matrix cores take bfloat16 at twice the rate or more"
             : "which has tensor cores");
    finding->wrong_if = "The model needs float32 throughout, or its matrices are so "
                        "small that memory is what they wait for.";
    if (generation_has_bfloat16(context, device)) {
        advise_bfloat16(context, finding);
        if (cdna)
            return;
        rule_advise_in(context, finding,
                       "`torch.set_float32_matmul_precision(\"high\")`: TF32, without "
                       "a change of types",
                       "`cublasSetMathMode(handle, CUBLAS_TF32_TENSOR_OP_MATH)`: TF32, "
                       "without a change of types");
        return;
    }
    rule_advise_in(context, finding,
                   rule_infers(context)
                       ? "`model.half()`, or `with torch.autocast(\"cuda\", "
                         "dtype=torch.float16):` around the model"
                       : setting_text(context, SETTING_FLOAT16, NULL),
                   "`cublasGemmEx` on float16, sums in float32");
    rule_advise(finding, "Dimensions that are multiples of 8: tensor cores need them");
}

static void find_tf32(struct rule_context *context)
{
    const struct gpu_device *device = rule_device(context);
    bool better = device != NULL && generation_has_bfloat16(context, device) &&
                  rule_text(context, FACT_AMP_DTYPE)[0] == '\0';
    struct finding *finding =
        better ? work_find_family(context, KERNEL_TF32, false) : NULL;

    if (finding == NULL)
        return;
    finding->sentence = rule_print(
        context,
        "%s of a step are products of float32 numbers that tensor cores round to TF32: "
        "bfloat16 runs twice as fast on them and reads half the bytes",
        rule_ms(context, context->summary->cuda.family_ns[KERNEL_TF32]));
    advise_bfloat16(context, finding);
}

static void find_unaligned(struct rule_context *context)
{
    const struct gpu_device *device = rule_device(context);
    bool is_gtx = device != NULL && device->name != NULL &&
                  strstr(device->name, "GTX") != NULL; /* without tensor cores */
    struct finding *finding =
        is_gtx ? NULL : work_find_family(context, KERNEL_UNALIGNED, false);

    if (finding == NULL)
        return;
    finding->sentence = rule_print(
        context,
        "%s of a step are products that read one or two numbers at once, or 16-bit "
        "products beside the tensor cores, for their rows do not begin at multiples of "
        "16 bytes",
        rule_ms(context, context->summary->cuda.family_ns[KERNEL_UNALIGNED]));
}

static void find_elementwise(struct rule_context *context)
{
    struct finding *finding = rule_number(context, FACT_COMPILE_USED) > 0
                                  ? NULL
                                  : work_find_family(context, KERNEL_ELEMENTWISE, true);

    if (finding == NULL)
        return;
    finding->sentence = rule_print(
        context, "%s of a step are %s: each reads and writes whole tensors",
        rule_ms(context, context->summary->cuda.family_ns[KERNEL_ELEMENTWISE]),
        rule_count(context, context->summary->cuda.family_count[KERNEL_ELEMENTWISE],
                   "elementwise kernel"));
    setting_advise(context, finding, SETTING_COMPILE, NULL, " fuses chains of them");
    rule_advise(finding,
                rule_infers(context)
                    ? "Fused forms: `F.scaled_dot_product_attention`, `F.rms_norm`, "
                      "`inplace=True` activations"
                    : "Fused forms: `F.scaled_dot_product_attention`, `fused=True` in "
                      "the optimizer, `inplace=True` activations");
}

static void find_small_grids(struct rule_context *context)
{
    const struct ops_answer *cuda = &context->summary->cuda;
    const struct gpu_device *device = rule_device(context);
    double places = cuda->multiprocessors, unused = cuda->unused_ns;
    const struct work work = work_half(unused);
    struct finding *finding = work_find(context, NULL, "forward", &work);

    if (finding == NULL)
        return;
    finding->formula = work_formula(
        context, finding,
        rule_print(context, "%s of the device unused beside such kernels / 2",
                   rule_ms(context, unused)),
        &work);
    finding->sentence = rule_print(
        context,
        "For %s of a step kernels have fewer blocks than %s has multiprocessors, %.0f",
        rule_ms(context, cuda->unfilled_ns), device->device, places);
    rule_evidence_text(context, finding, "device", device->device);
    rule_evidence(finding, "multiprocessors", places);
    rule_evidence_ms(finding, "kernels_ms", cuda->unfilled_ns);
    rule_advise(finding, "A larger batch: the same kernels then have more blocks");
    rule_advise_in(
        context, finding,
        "Products of many small matrices as one: `torch.bmm`, `nn.MultiheadAttention`, "
        "`torch.func.vmap`",
        "Products of many small matrices as one: `cublasGemmStridedBatchedEx()`");
    for (uint32_t i = 0; i < cuda->judged_count; i++)
        if (op_row_unused_share(&cuda->rows[i], places) > 0)
            rule_pin(context, finding, cuda->rows[i].name);
}

static void find_layout(struct rule_context *context)
{
    const struct ops_answer *cuda = &context->summary->cuda;
    double time = cuda->family_ns[KERNEL_LAYOUT];
    const struct work work = {
        .ns = time, .low_ns = time, .high_ns = time, .fewer = true};
    struct finding *finding = work_find(context, NULL, "forward", &work);

    if (finding == NULL)
        return;
    finding->formula = work_formula(
        context, finding,
        rule_print(context, "%s of such kernels", rule_ms(context, time)), &work);
    finding->sentence = rule_print(
        context, "%s of a step are %s that change%s the layout", rule_ms(context, time),
        rule_count(context, cuda->family_count[KERNEL_LAYOUT], "kernel"),
        cuda->family_count[KERNEL_LAYOUT] < 1.5 ? "s" : "");
    rule_evidence_ms(finding, "kernels_ms", time);
    rule_evidence(finding, "kernels_per_step", cuda->family_count[KERNEL_LAYOUT]);
}

/* A use of the device beside which nothing computes, less what is told of it otherwise. */
static struct finding *add_use(struct rule_context *context, enum gpu_use use,
                               double told_ns)
{
    const struct gpu_device *device = rule_device(context);
    double all = device == NULL ? 0 : device->use_ns[use], time = all - told_ns;
    struct work work = work_half(time);

    work.use = use;
    struct finding *finding = work_find(context, NULL, "other", &work);

    if (finding == NULL)
        return NULL;
    finding->formula = work_formula(
        context, finding,
        told_ns > 0
            ? rule_print(
                  context,
                  "(%s beside which nothing computes - %s for the last rank) / 2",
                  rule_ms(context, all), rule_ms(context, told_ns))
            : rule_print(context, "%s beside which nothing computes / 2",
                         rule_ms(context, all)),
        &work);
    rule_evidence_text(context, finding, "device", device->device);
    rule_evidence_ms(finding, "alone_ms", all);
    rule_evidence_ms(finding, "overlap_ms",
                     rule_share(device->overlap_ns, device->span_ns) *
                         context->train->mean_ns);
    rule_evidence_ms(finding, "step_ms", context->train->mean_ns);
    finding->sentence =
        rule_print(context, "%s only %s for %s of %s of a step", device->device,
                   use == GPU_COPY ? "copies" : "communicates", rule_ms(context, all),
                   rule_ms(context, context->train->mean_ns));
    return finding;
}

/* Where a few buckets hold all gradients, most of them leave when backward is nearly over;
 * those below a MiB take their start alone. */
#define BUCKETS_FEW    4.0
#define BUCKETS_WANTED 8.0

static const char *smaller_buckets(struct rule_context *context)
{
    double bucket = rule_number(context, FACT_DISTRIBUTED_BUCKET);
    const char *type = rule_text(context, FACT_OPTIMIZER_DTYPE);
    bool half = strcmp(type, "float16") == 0 || strcmp(type, "bfloat16") == 0;
    double all = rule_number(context, FACT_OPTIMIZER_ELEMENTS) * (half ? 2 : 4);
    /* Of several optimizers the last one's are known. */
    bool several = rule_number(context, FACT_OPTIMIZER_COUNT) > 1;

    if (several || !(all >= BUCKETS_FEW * MIB && all < BUCKETS_FEW * bucket))
        return "`DistributedDataParallel(..., bucket_cap_mb=...)` as it measures best: "
               "buckets leave while backward goes on";
    return rule_print(context,
                      "`DistributedDataParallel(..., bucket_cap_mb=%.0f)`: all "
                      "gradients are %s, in buckets of %s, and those that are full "
                      "only at the end of backward have nothing to hide behind",
                      fmax(all / BUCKETS_WANTED / MIB, 1), rule_memory(context, all),
                      rule_memory(context, bucket));
}

static void advise_communication(struct rule_context *context, struct finding *finding)
{
    static const char early[] = "Reduce each part as soon as it is known, on a stream "
                                "of its own, while the rest computes";
    static const char fewer[] = "Fewer bytes: bf16 instead of float32";

    if (rule_is_sharded(context)) {
        rule_advise(finding,
                    "Gather the next layer while this one computes: "
                    "`backward_prefetch=BackwardPrefetch.BACKWARD_PRE` and "
                    "`forward_prefetch=True`, or `set_modules_to_forward_prefetch`");
        rule_advise(finding, "Wrap whole blocks, not each layer; "
                             "`reshard_after_forward=False` where memory is left");
        return;
    }
    if (!rule_is_replicated(context)) {
        rule_advise_in(context, finding,
                       "`async_op=True`, or a stream of its own, for what is not "
                       "needed at once; `wait()` where it is used",
                       early);
        rule_advise(finding, fewer);
        return;
    }
    if (!(rule_number(context, FACT_DISTRIBUTED_FIND_UNUSED) < 1))
        rule_advise(finding,
                    "No `find_unused_parameters=True` in `DistributedDataParallel` "
                    "where all are used: it looks at the whole graph in each step");
    rule_advise_in(context, finding, smaller_buckets(context), early);
    rule_advise_in(context, finding,
                   "`with model.no_sync():` on all but the last micro-batch; or "
                   "`register_comm_hook` with bf16 compression",
                   fewer);
}

static void find_communication(struct rule_context *context)
{
    struct finding *finding =
        add_use(context, GPU_COMMUNICATION, rule_told_last_rank_ns(context));

    if (finding == NULL)
        return;
    advise_communication(context, finding);
}

static void find_copies(struct rule_context *context)
{
    struct finding *finding = add_use(context, GPU_COPY, 0);

    if (finding == NULL)
        return;
    copies_tell(context, finding, rule_device(context), false);
}

#define HALF_SAVED "a twentieth of the step, for half of the kernels is an estimate"

const struct rule rules_device[] = {
    RULE(
        "unaligned-products", find_unaligned, OWNER_WORK + 5, RULE_SAMPLED,
        "kernels by name; steps that were replayed",
        "products that read one or two numbers at once, and 16-bit ones beside the "
        "tensor cores / 2 * " WAITED_ELSE_BUSY,
        SHARE_OF_STEP(0.05, HALF_SAVED),
        .title = "Matrix products have odd dimensions: tensor cores load small pieces, "
                 "or nothing",
        .wrong_if = "The products are so small that padding adds as much work.",
        .advice = {ADVICE("Sizes that are multiples of 8 (of 64 where they are large): "
                          "vocabulary, classes, features, channels; pad what is not")}),
    RULE("small-grids", find_small_grids, OWNER_WORK + 6, RULE_SAMPLED,
         "kernels with their grids; device.multiprocessor; steps that were replayed",
         "kernels * (1 - blocks / multiprocessors) / 2 * share that a step waits for",
         SHARE_OF_STEP(0.05, HALF_SAVED),
         .title = "Kernels are too small to fill the device",
         .wrong_if = "The model is as small as that: then a smaller device does."),
    RULE("float32-products", find_float32, OWNER_WORK, RULE_SAMPLED,
         "kernels by name; amp.dtype; the device's name; steps that were replayed",
         "float32 products / 2 * " WAITED_ELSE_BUSY, SHARE_OF_STEP(0.05, HALF_SAVED)),
    RULE("tf32-products", find_tf32, OWNER_WORK + 9, RULE_SAMPLED,
         "kernels by name; amp.dtype; the device's name; steps that were replayed",
         "TF32 products / 2 * " WAITED_ELSE_BUSY,
         SHARE_OF_STEP(0.1, "what costs accuracy must be worth a tenth"),
         .title = "Matrix products run in TF32, where bfloat16 takes half",
         .wrong_if = "The model needs the 10 bits of TF32: bfloat16 keeps 7."),
    RULE("elementwise-kernels", find_elementwise, OWNER_WORK + 1, RULE_SAMPLED,
         "kernels by name; compile.used; steps that were replayed",
         "elementwise kernels / 2 * " WAITED_AT_LEAST_BUSY,
         SHARE_OF_STEP(0.05, HALF_SAVED),
         .title = "Kernels for one elementwise op each, where few fused ones would do",
         .wrong_if = "They stand alone between large kernels: then there is nothing to "
                     "fuse them with."),
    RULE("layout-changes", find_layout, OWNER_WORK + 2, RULE_SAMPLED,
         "kernels by name; steps that were replayed",
         "layout kernels * " WAITED_AT_LEAST_BUSY, SHARE_OF_STEP(0.03, SMALLEST),
         .title = "Images are turned from NCHW to NHWC and back in each step",
         .wrong_if = "A layer in between works in the other layout only.",
         .advice = {ADVICE("`model = model.to(memory_format=torch.channels_last)` and "
                           "the same for the batch")}),
    RULE("exposed-communication", find_communication, OWNER_WORK + 3, RULE_SAMPLED,
         "GPU time by use, of all ranks; distributed.*, optimizer.elements; steps that "
         "were replayed",
         "(communication alone - what waits for the last rank) / 2 * share that a step "
         "waits for",
         SHARE_OF_STEP(0.05, HALF_SAVED),
         .title = "Ranks communicate while nothing computes",
         .wrong_if = "The next layer needs the result at once, as in tensor or expert "
                     "parallel models; or a late rank makes it long."),
    RULE("exposed-copies", find_copies, OWNER_WORK + 4, RULE_SAMPLED,
         "GPU time by use; copies by direction and memory; steps that were replayed",
         "copies alone / 2 * " WAITED_ELSE_ALL, SHARE_OF_STEP(0.05, HALF_SAVED),
         .title = "Copies run while nothing computes",
         .wrong_if = "The copies are results that the next step needs."),
    {.told = {.id = NULL}},
};
