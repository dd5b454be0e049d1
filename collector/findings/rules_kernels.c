/* Rules over kernels by what they are: wide numbers, collectives, convolutions, work that
 * grows. */
#include <math.h>
#include <string.h>

#include "findings/settings.h"
#include "findings/work.h"

static void find_float64(struct rule_context *context)
{
    struct finding *finding = work_find_family(context, KERNEL_FLOAT64, false);

    if (finding == NULL)
        return;
    finding->sentence = rule_print(
        context,
        "%s of a step are %s on float64: twice the memory of float32, and most GPUs "
        "compute it many times slower",
        rule_ms(context, context->summary->cuda.family_ns[KERNEL_FLOAT64]),
        rule_count(context, context->summary->cuda.family_count[KERNEL_FLOAT64],
                   "kernel"));
}

/* What a collective takes however few its bytes: tens of us between the GPUs of a node
 * (nccl-tests, sizes below 64 KiB). */
#define COLLECTIVE_NS 20000.0

/* Up to twice of that, most of its time is its start. */
#define COLLECTIVE_SMALL_NS 50000.0

/* Fewer in a step are not worth a change; and four of them become one. */
#define COLLECTIVES_NEEDED 8.0
#define COLLECTIVES_JOINED 4.0

static void find_collectives(struct rule_context *context)
{
    const struct ops_answer *cuda = &context->summary->cuda;
    double count = cuda->family_count[KERNEL_COLLECTIVE];
    double time = cuda->family_ns[KERNEL_COLLECTIVE];
    struct work_alone alone = work_alone(context, GPU_COMMUNICATION);
    double starts = fmin(count * COLLECTIVE_NS, alone.ns);
    double price = starts * (1 - 1 / COLLECTIVES_JOINED) * alone.share;

    if (!(count >= COLLECTIVES_NEEDED) || !(time / count <= COLLECTIVE_SMALL_NS) ||
        !rule_reaches(context, price))
        return;
    struct finding *finding = rule_add_price(
        context, NULL, "other", price,
        rule_error_of_kernels(context, price, cuda->head.recorded_steps));

    rule_price_between(finding, price / 2, alone.ns * alone.share);
    rule_claim_model(context, finding, CLAIM_WORK, price);
    finding->formula = rule_print(
        context, "min(%.0f collectives * %.0f us, %s alone) * %.2g joined%s = %s",
        count, COLLECTIVE_NS / 1000, rule_ms(context, alone.ns),
        1 - 1 / COLLECTIVES_JOINED, work_alone_share(context, finding, &alone),
        rule_ms(context, price));
    finding->sentence = rule_print(
        context,
        "%.0f collectives of %s each in a step, %s of them while nothing computes",
        count, rule_ms(context, time / count), rule_ms(context, alone.ns));
    rule_evidence(finding, "collectives_per_step", count);
    rule_evidence(finding, "mean_us", time / count / 1000);
    rule_evidence_ms(finding, "alone_ms", alone.ns);
    rule_advise_in(context, finding,
                   "Numbers of your own, such as losses and metrics: "
                   "`torch.stack(...)` and one `all_reduce`, every n-th step",
                   "Sum into one buffer: one `ncclAllReduce` for all, or "
                   "`ncclGroupStart` around them");
    rule_advise_in(context, finding,
                   rule_is_replicated(context)
                       ? "A smaller `bucket_cap_mb` than torch's 25 makes many small "
                         "reductions of gradients; `SyncBatchNorm` one for each layer"
                   : rule_is_sharded(context)
                       ? "Wrap whole blocks, not each layer: each wrapper gathers and "
                         "scatters its own parameters"
                       : "`SyncBatchNorm` makes some for each layer, and so does a "
                         "loop over parameters",
                   NULL);
}

static void find_drift(struct rule_context *context)
{
    const struct gpu_device *device = rule_device(context);
    double rise =
        device == NULL ? 0 : device->compute_last_ns - device->compute_first_ns;
    const struct work work = {.ns = rise / 2, .low_ns = rise / 4, .high_ns = rise};
    struct finding *finding =
        device == NULL ? NULL : work_find(context, device->device, "forward", &work);

    if (finding == NULL)
        return;
    finding->title =
        rule_print(context, "%s computes longer and longer for a step", device->device);
    finding->formula =
        work_formula(context, finding,
                     rule_print(context, "(%s at the end - %s at the start) / 2",
                                rule_ms(context, device->compute_last_ns),
                                rule_ms(context, device->compute_first_ns)),
                     &work);
    finding->sentence = rule_print(
        context, "Its kernels of a step took %s at the start, and %s at the end",
        rule_ms(context, device->compute_first_ns),
        rule_ms(context, device->compute_last_ns));
    rule_evidence_text(context, finding, "device", device->device);
    rule_evidence_ms(finding, "first_ms", device->compute_first_ns);
    rule_evidence_ms(finding, "last_ms", device->compute_last_ns);
}

/* Every step reaches the same peak on every accelerator, and at least one is known: inputs
 * of one shape. */
static bool has_fixed_shapes(const struct rule_context *context)
{
    const struct memory_answer *memory = &context->summary->memory;
    bool known = false;

    for (uint32_t i = 0; i < memory->device_count; i++) {
        const struct memory_device *device = &memory->devices[i];

        if (strcmp(device->device, "cpu") == 0 || isnan(device->peak_bytes))
            continue;
        if (!(device->least_peak_bytes >= (1 - MEMORY_PEAK_ALIKE) * device->peak_bytes))
            return false;
        known = true;
    }
    return known;
}

static void find_benchmark(struct rule_context *context)
{
    const struct ops_answer *cuda = &context->summary->cuda;
    const struct gpu_device *device = rule_busiest(context);
    double share = cuda->convolution_ns / context->train->mean_ns;

    if (device == NULL || !(share >= context->threshold) ||
        rule_number(context, FACT_CUDNN_BENCHMARK) != 0 ||
        rule_number(context, FACT_CUDNN_DETERMINISTIC) == 1 ||
        !has_fixed_shapes(context))
        return;
    struct finding *finding = rule_add_open(context, NULL, "forward", FINDING_LOW);

    finding->formula = rule_print(context,
                                  "convolutions are %.0f %% of a step; what a search "
                                  "saves is not known before it",
                                  100 * share);
    finding->sentence = rule_print(context,
                                   "Convolutions take %s of a step, all steps need the "
                                   "same memory, and `cudnn.benchmark` is off",
                                   rule_ms(context, cuda->convolution_ns));
    rule_evidence_ms(finding, "convolutions_ms", cuda->convolution_ns);
    rule_evidence(finding, "share_pct", 100 * share);
}

double rule_other_shapes(const struct rule_context *context)
{
    const struct memory_answer *memory = &context->summary->memory;
    double most = 0;

    for (uint32_t i = 0; i < memory->device_count; i++) {
        const struct memory_device *device = &memory->devices[i];

        /* Of a leak each peak is another. */
        if (strcmp(device->device, "cpu") != 0 && device->peaks > 0 &&
            !device->growth.sure)
            most = fmax(most, (double)device->other_peaks / device->peaks);
    }
    return most;
}

/* What searches is told by steps that take so much longer than others: a search runs many
 * algorithms, and shapes alone make no step twice as long as half of them. */
#define SEARCH_SLOWER 2.0

/* With fewer convolutions in a step another reason for slow ones is more likely. */
#define SEARCH_SHARE 0.1

static void find_search(struct rule_context *context)
{
    const struct ops_answer *cuda = &context->summary->cuda;
    const struct steps_summary *train = context->train;
    double share = cuda->convolution_ns / train->mean_ns,
           other = rule_other_shapes(context);

    if (rule_device(context) == NULL ||
        rule_number(context, FACT_CUDNN_BENCHMARK) != 1 || !(share >= SEARCH_SHARE) ||
        !(train->p99_ns >= SEARCH_SLOWER * train->p50_ns) ||
        !(other >= context->threshold))
        return;
    struct finding *finding = rule_add_open(context, NULL, "forward", FINDING_LOW);

    finding->formula = rule_print(context,
                                  "%.0f %% of the steps with another shape; how much "
                                  "of the slow ones is search is not known",
                                  100 * other);
    finding->sentence = rule_print(
        context,
        "`cudnn.benchmark` is on, %.0f %% of the steps need more or less memory than "
        "usual, and while half of them take no more than %s, one in a hundred takes %s",
        100 * other, rule_ms(context, train->p50_ns), rule_ms(context, train->p99_ns));
    rule_evidence(finding, "other_shapes_pct", 100 * other);
    rule_evidence_ms(finding, "convolutions_ms", cuda->convolution_ns);
    rule_evidence_ms(finding, "p50_ms", train->p50_ns);
    rule_evidence_ms(finding, "p99_ms", train->p99_ns);
}

/* Products, collectives and what is fused already are as large as the model makes them. */
static bool is_as_large_as_the_model(const struct op_row *row)
{
    static const char *const names[] = {"gemm",  "gemv",         "matmul",   "Cijk_",
                                        "flash", "fmha",         "attn_fwd", "attn_bwd",
                                        "fc-",   "multi_tensor", "triton_",  NULL};

    for (uint32_t i = 0; names[i] != NULL; i++)
        if (strstr(row->name, names[i]) != NULL)
            return true;
    return row->tensor_cores ||
           (row->family != KERNEL_OTHER && row->family != KERNEL_SOFTMAX) ||
           kernel_is_convolution(row->name);
}

/* The op whose products a softmax is of; NULL where there is none, and where attention is
 * in one kernel already: then the softmax is another's, as that of experts. */
static const char *attention_op(const struct rule_context *context)
{
    static const char *const fused[] = {
        "flash", "fmha", "sdpa", "attn_fwd", "Fmha", "fused_attention", NULL};
    const struct ops_answer *cpu = &context->summary->cpu;
    const struct ops_answer *cuda = &context->summary->cuda;

    for (uint32_t i = 0; i < cuda->judged_count; i++)
        for (uint32_t j = 0; fused[j] != NULL; j++)
            if (strstr(cuda->rows[i].name, fused[j]) != NULL)
                return NULL;
    for (uint32_t i = 0; i < cpu->judged_count; i++)
        if (strcmp(cpu->rows[i].name, "aten::bmm") == 0 ||
            strcmp(cpu->rows[i].name, "aten::baddbmm") == 0)
            return cpu->rows[i].name;
    return NULL;
}

static void find_unfused_attention(struct rule_context *context)
{
    const struct ops_answer *cuda = &context->summary->cuda;
    const char *op = attention_op(context);
    struct finding *finding =
        op == NULL ? NULL : work_find_family(context, KERNEL_SOFTMAX, true);

    if (finding == NULL)
        return;
    finding->sentence = rule_print(
        context,
        "%s of a step are %s, over scores that one product (%s) wrote and another "
        "reads",
        rule_ms(context, cuda->family_ns[KERNEL_SOFTMAX]),
        rule_count(context, cuda->family_count[KERNEL_SOFTMAX], "softmax kernel"), op);
    /* torch was asked for the fused form, and took the plain one. */
    if (rule_row(&context->summary->cpu, "aten::_scaled_dot_product_attention_math") !=
        NULL)
        rule_advise(finding,
                    "`F.scaled_dot_product_attention` took its plain form: `with "
                    "sdpa_kernel(SDPBackend.FLASH_ATTENTION):` of `torch.nn.attention` "
                    "says why (types, head dimension, mask)");
    else
        rule_advise(finding,
                    "`F.scaled_dot_product_attention(q, k, v)`: one kernel, which "
                    "keeps the scores on the chip; models of transformers take it with "
                    "`attn_implementation=\"sdpa\"`");
}

/* What looks into one kernel; NULL: none is known. */
static const char *kernel_profiler(const struct gpu_device *device)
{
    if (strncmp(device->device, "cuda:", 5) != 0)
        return NULL;
    return strstr(device->name, "AMD") != NULL
               ? "`rocprof-compute profile` of that kernel says what holds it back"
               : "`ncu --set full` on that kernel says what holds it back";
}

static void find_dominant(struct rule_context *context)
{
    const struct ops_answer *cuda = &context->summary->cuda;
    const struct gpu_device *device = rule_busiest(context);
    const struct op_row *row = cuda->judged_count > 0 ? &cuda->rows[0] : NULL;
    double ns = row == NULL || device == NULL
                    ? 0
                    : fmin(row->per_step_ns, device->use_ns[GPU_COMPUTE]);
    double share = ns / context->train->mean_ns;

    if (device == NULL || !(share >= context->threshold) ||
        strcmp(row->kind, "kernel") != 0 || is_as_large_as_the_model(row) ||
        (row->family == KERNEL_SOFTMAX && attention_op(context) != NULL))
        return;
    struct finding *finding = rule_add_open(context, row->name, "forward", FINDING_LOW);

    finding->formula = rule_print(
        context, "%s of %s = %.0f %%; what another form of it saves is not known",
        rule_ms(context, ns), rule_ms(context, context->train->mean_ns), 100 * share);
    finding->sentence = rule_print(context, "Launched %s a step, %s each",
                                   rule_times(context, row->per_step_count),
                                   rule_ms(context, row->mean_ns));
    rule_evidence_text(context, finding, "device", device->device);
    rule_evidence_text(context, finding, "kernel", row->name);
    rule_evidence_ms(finding, "kernel_ms", ns);
    rule_evidence(finding, "launches_per_step", row->per_step_count);
    rule_evidence(finding, "occupancy_pct", row->launch.occupancy_pct);
    rule_advise(finding, "The op that launches it stands in its trace: another form of "
                         "the op, or fewer and larger calls of it");
    if (!context->summary->native)
        setting_advise_compile(context, finding, SETTING_COMPILE,
                               " fuses it with what stands around it",
                               "`mode=\"max-autotune\"` in the `torch.compile` that is "
                               "there takes the fastest of several forms of a kernel");
    if (kernel_profiler(device) != NULL)
        rule_advise(finding, kernel_profiler(device));
    rule_pin(context, finding, row->name);
}

const struct rule rules_kernels[] = {
    RULE("float64-kernels", find_float64, OWNER_WORK - 2, RULE_SAMPLED,
         "kernels by name; steps that were replayed",
         "kernels on float64 / 2 * " WAITED_ELSE_BUSY,
         SHARE_OF_STEP(0.03, SMALLEST "; half of the bytes are half of the time"),
         .title = "Kernels compute in float64: eight bytes for each number",
         .wrong_if = "The model needs 16 digits.",
         .advice =
             {{"NumPy's default is float64: "
               "`torch.from_numpy(array.astype(numpy.float32))`, or `batch.float()` "
               "before the copy",
               "`float` instead of `double`, also for constants (`0.5f`): one of them "
               "makes a product of doubles"},
              {"No `torch.set_default_dtype(torch.float64)` and no `model.double()`",
               NULL}}),
    RULE("unfused-attention", find_unfused_attention, OWNER_WORK - 4, RULE_SAMPLED,
         "kernels by name; ops by name; steps that were replayed",
         "softmax kernels / 2 * " WAITED_AT_LEAST_BUSY,
         SHARE_OF_STEP(0.03, SMALLEST "; half of the kernels is an estimate"),
         .title = "Attention writes all of its scores to memory",
         .wrong_if =
             "The softmax is no attention's, or its weights themselves are wanted.",
         .advice = {ADVICE(
             "Weights of attention (`output_attentions=True`, `need_weights=True`) "
             "only where somebody looks at them: with them nothing is fused")}),
    RULE("small-collectives", find_collectives, OWNER_WORK - 1, RULE_SAMPLED,
         "collectives and their mean time; GPU time by use; distributed.wrapper; steps "
         "that were replayed",
         "min(collectives * 20 us, communication alone) * 3/4 * " WAITED_ELSE_ALL,
         SHARE_OF_STEP(0.03, SMALLEST),
         .title = "Many small collectives: most of their time is their start",
         .wrong_if = "Each result is needed before the next collective can begin."),
    RULE(
        "kernel-drift", find_drift, OWNER_WORK + 60, RULE_TREND | RULE_RECORDS,
        "compute of each step; its trend (Theil-Sen, Mann-Kendall); steps that were "
        "replayed",
        "(last level - first level) / 2 * " WAITED_ELSE_BUSY,
        SHARE_OF_STEP(0.05, TWENTIETH),
        .wrong_if = "Later batches are larger on purpose, such as longer texts.",
        .advice = {ADVICE(
                       "Look whether a graph or a state grows from step to step: "
                       "`loss.detach()`, `hidden.detach()`, caches of keys and values"),
                   ADVICE("A device that became hot lowers its clock: `nvidia-smi -q "
                          "-d CLOCK,TEMPERATURE,PERFORMANCE`")}),
    RULE("cudnn-benchmark", find_benchmark, OWNER_RISK, RULE_SAMPLED,
         "cudnn.*; convolutions by name; peaks of memory of all steps",
         "0: not known before it is tried",
         SHARE(0.3, "share of the step that convolutions take",
               "a tenth of less is a few hundredths of the step"),
         .title = "cuDNN does not look for its fastest convolutions",
         .wrong_if = "Shapes differ from batch to batch: each new one is searched for.",
         .advice = {ADVICE(
             "`torch.backends.cudnn.benchmark = True` before the first step")}),
    RULE("cudnn-search", find_search, OWNER_RISK, RULE_TREND | RULE_SAMPLED,
         "cudnn.benchmark; convolutions by name; peaks of memory of all steps; median "
         "and p99 of steps",
         "0: not known before it is tried",
         SHARE(0.5, "share of the steps with another shape",
               "last batches of epochs and a few sizes that come again are fewer"),
         .title = "cuDNN searches anew for each shape, and shapes vary",
         .wrong_if = "All shapes were seen by now, for what is found is kept; or the "
                     "slow steps have another cause, such as the loader.",
         .advice = {ADVICE("Batches of few shapes: pad or crop to sizes that come "
                           "again, `drop_last=True` for the last one"),
                    ADVICE("Where shapes have to vary: `torch.backends.cudnn.benchmark "
                           "= False`, and compare the time of a hundred steps")}),
    RULE("dominant-kernel", find_dominant, OWNER_RISK, RULE_SAMPLED,
         "the kernel with the most time", "0: not known before it is tried",
         SHARE_OF_STEP(0.3,
                       "with a third of the step in one place the others matter less"),
         .title = "One kernel, which is no matrix product, takes much of the step",
         .wrong_if = "It already reads and writes each number once."),
    {.told = {.id = NULL}},
};
