/* Rules over how torch is used: compilation, gradients that are zeroed, wrappers and
 * backends of many devices. */
#include <math.h>
#include <string.h>

#include "findings/rules.h"

/* The step that the run is at, which what is counted since its start is spread over; NaN
 * where the window ends before. */
static double steps_of_run(const struct rule_context *context)
{
    const struct answer *head = &context->summary->head;
    int64_t last = head->window.last_step;
    double behind_ns = (double)(head->now_ns - head->window.to_ns);
    /* The step that runs is in no window yet, its events come in turns, and who has chosen
     * the newest steps takes a moment to ask of them. */
    double running_ns = 2 * context->train->p99_ns + 5e9;

    if (last == NOT_KNOWN || behind_ns > running_ns)
        return (double)NAN;
    return (double)last + 1;
}

/* Compilations of one function; unless it is configured. */
#define OFTEN 8

/* Many functions, each compiled anew for a second shape, are as they should be. */
static bool is_compiled_again(const struct rule_context *context, double threshold)
{
    double again = rule_number(context, FACT_COMPILE_RECOMPILATIONS);
    double most = rule_number(context, FACT_COMPILE_RECOMPILATIONS_MOST);

    return again > 0 && (isnan(most) ? again : most + 1) >= threshold &&
           rule_number(context, FACT_COMPILE_COUNT) > 0;
}

static double compilation_ns(const struct rule_context *context)
{
    double usual = rule_number(context, FACT_COMPILE_SECONDS_USUAL);

    return 1e9 * (isnan(usual) ? rule_number(context, FACT_COMPILE_SECONDS) /
                                     rule_number(context, FACT_COMPILE_COUNT)
                               : usual);
}

/* So many steps, each longer by that, may have compiled again. */
static bool last_as_compiling(const struct rule_context *context, uint32_t steps,
                              double each_ns)
{
    return rule_number(context, FACT_COMPILE_RECOMPILATIONS) >= steps &&
           fabs(each_ns - compilation_ns(context)) < each_ns / 3;
}

bool rule_is_compiling(const struct rule_context *context,
                       const struct rhythm_extra *slow, double each_ns)
{
    return is_compiled_again(context, OFTEN) &&
           last_as_compiling(context, slow->steps, each_ns);
}

/* Of what the compilations that were made again took, by their median: measured by
 * tests/diseases, against their sum. */
#define COMPILES_LEAST 0.8

/* The run from its first step to now: all that was compiled lies in these steps. */
static struct finding *price_run(struct rule_context *context)
{
    double again = rule_number(context, FACT_COMPILE_RECOMPILATIONS);
    double count = rule_number(context, FACT_COMPILE_COUNT);
    double seconds = rule_number(context, FACT_COMPILE_SECONDS);
    double each = compilation_ns(context), mean = context->train->mean_ns;
    double spent = each * again / steps_of_run(context), price = fmin(spent, mean);
    struct finding *finding = context->summary->head.window.first_step == 0 && spent > 0
                                  ? rule_add(context, NULL, "forward")
                                  : NULL;

    if (finding == NULL)
        return NULL;
    rule_price(context, finding, price, 0);
    rule_price_between(finding, COMPILES_LEAST * price,
                       fmin(fmax(price, spent * 1e9 * seconds / count / each), mean));
    finding->formula =
        rule_print(context, "%.0f compilations * %s / %.0f steps%s = %s", again,
                   rule_ms(context, each), steps_of_run(context),
                   spent > mean ? ", at most the step" : "", rule_ms(context, price));
    return finding;
}

/* Slow steps of the window, each longer by about one compilation: those of a period, else
 * of the newest that are known one by one. No steps: there are none. */
static struct rhythm_extra compiling_steps(const struct rule_context *context)
{
    const struct steps_answer *steps = &context->summary->steps;
    struct rhythm_extra slow = context->summary->rhythm.period;
    double of = slow.of > 0 ? slow.of : context->summary->rhythm.steps, over_ns = 0;

    if (slow.steps > 0 &&
        last_as_compiling(context, slow.steps, slow.ns_per_step * of / slow.steps))
        return slow;
    slow = (struct rhythm_extra){.error_ns = rule_error_of_step(context)};
    for (uint32_t i = 0; i < steps->slow_count; i++)
        if (last_as_compiling(context, slow.steps + 1, steps->slow[i].over_ns)) {
            over_ns += steps->slow[i].over_ns;
            slow.steps++;
        }
    slow.ns_per_step = over_ns / (double)context->train->count;
    return slow;
}

/* A part of the run: what of it was compiled in its slow steps, if in any. */
static struct finding *price_slow(struct rule_context *context)
{
    struct rhythm_extra slow = compiling_steps(context);
    double mean = context->train->mean_ns, price = fmin(slow.ns_per_step, mean);
    struct finding *finding = price > 0 ? rule_add(context, NULL, "forward") : NULL;

    if (finding == NULL)
        return NULL;
    rule_price(context, finding, price, slow.error_ns);
    if (finding->high_ns > mean)
        finding->high_ns = mean;
    finding->formula = rule_print(
        context,
        "%u step%s, each longer by about one compilation of %s, spread over all = %s",
        slow.steps, slow.steps == 1 ? "" : "s",
        rule_ms(context, compilation_ns(context)), rule_ms(context, price));
    rule_evidence(finding, "slow_steps", slow.steps);
    return finding;
}

/* No claim: it is spent, and no part of the steps to come. What was compiled before the window
 * costs its steps nothing; what is not compiled any more does, and nobody knows how much. */
static void find_recompilations(struct rule_context *context)
{
    double again = rule_number(context, FACT_COMPILE_RECOMPILATIONS);
    double count = rule_number(context, FACT_COMPILE_COUNT);
    double most = rule_number(context, FACT_COMPILE_RECOMPILATIONS_MOST);

    if (!is_compiled_again(context, context->threshold))
        return;
    struct finding *finding = price_run(context);

    if (finding == NULL)
        finding = price_slow(context);
    if (finding == NULL) {
        finding = rule_add_open(context, NULL, "forward", FINDING_LOW);
        finding->formula =
            rule_print(context, "%.0f of %.0f compilations, none seen in these steps",
                       again, count);
    }
    finding->sentence =
        rule_print(context,
                   "%.0f of %.0f graphs were compiled because a guard failed: a shape "
                   "or a value in Python differs from call to call; at "
                   "`torch._dynamo.config.recompile_limit` compilations "
                   "(`cache_size_limit` in older torch), 8 unless it is set, torch "
                   "gives a function up, and it runs uncompiled",
                   again, count);
    rule_evidence(finding, "recompilations", again);
    rule_evidence(finding, "recompilations_most", most);
    rule_evidence(finding, "compilations", count);
    rule_evidence(finding, "compile_s", rule_number(context, FACT_COMPILE_SECONDS));
}

/* The device waits for the host's calls and code. */
#define FOR_HOST (1u << GPU_IDLE_LAUNCH | 1u << GPU_IDLE_PYTHON)

/* Half of that wait. */
static struct finding *add_host_wait(struct rule_context *context)
{
    double waits;
    const struct gpu_device *device = rule_waits_for(context, FOR_HOST, &waits);

    if (device == NULL || !rule_reaches(context, waits / 2))
        return NULL;
    struct finding *finding = rule_add_price_half(
        context, NULL, "forward", waits,
        rule_error_of_kernels(context, waits, context->train->kernels));

    rule_claim_waits(context, finding, FOR_HOST, waits / 2);
    finding->formula =
        rule_print(context, "(%s idle for launches + %s for Python) / 2 = %s",
                   rule_ms(context, device->idle_ns[GPU_IDLE_LAUNCH]),
                   rule_ms(context, device->idle_ns[GPU_IDLE_PYTHON]),
                   rule_ms(context, waits / 2));
    rule_evidence_text(context, finding, "device", device->device);
    rule_evidence_ms(finding, "idle_ms", waits);
    return finding;
}

static void describe_breaks(struct rule_context *context, struct finding *finding,
                            double breaks, const char *between)
{
    finding->title = "Compiled graphs end at code that cannot be compiled";
    finding->sentence = rule_print(
        context, "The model runs in pieces: graphs had to end at %.0f place%s, and %s",
        breaks, breaks == 1 ? "" : "s", between);
    finding->wrong_if = "The breaks lie outside of the training step.";
    rule_evidence(finding, "graph_breaks", breaks);
    rule_advise(finding, "`TORCH_LOGS=graph_breaks` names each place; "
                         "`torch.compile(model, fullgraph=True)` fails at the first");
    rule_advise(finding, "No `print`, `.item()` or `numpy` inside of the model; "
                         "`torch.where` instead of `if tensor:`");
}

/* The host computes: what Python takes at the breaks is a part of the step, and as nothing
 * tells it from what was compiled, it has no price. */
static void find_host_breaks(struct rule_context *context)
{
    double breaks = rule_number(context, FACT_COMPILE_GRAPH_BREAKS);

    if (!(breaks >= context->threshold) || rule_has_device(context))
        return;
    struct finding *finding = rule_add_open(context, NULL, "forward", FINDING_LOW);

    finding->formula = rule_print(
        context, "%.0f places; what the pieces lose at their ends is not known",
        breaks);
    describe_breaks(context, finding, breaks,
                    "Python calls what lies between them op by op");
}

static void find_graph_breaks(struct rule_context *context)
{
    double breaks = rule_number(context, FACT_COMPILE_GRAPH_BREAKS);
    struct finding *finding = breaks >= 1 ? add_host_wait(context) : NULL;

    if (finding != NULL)
        describe_breaks(context, finding, breaks, "the device waits between them");
}

static void find_data_parallel(struct rule_context *context)
{
    struct finding *finding =
        strcmp(rule_text(context, FACT_DISTRIBUTED_WRAPPER), "DataParallel") == 0
            ? add_host_wait(context)
            : NULL;

    if (finding == NULL)
        return;
    finding->title = "DataParallel: one Python process drives all devices";
    finding->sentence = "In each step the model is copied to every device, and the "
                        "threads that drive them share one interpreter";
    finding->wrong_if = "The script runs on one device only.";
    rule_advise(finding, "`DistributedDataParallel` with one process for each device: "
                         "`torchrun --nproc-per-node N train.py`");
}

static void find_gloo(struct rule_context *context)
{
    double devices = rule_number(context, FACT_DEVICE_COUNT);

    if (strcmp(rule_text(context, FACT_DISTRIBUTED_BACKEND), "gloo") != 0 ||
        !(devices >= context->threshold) || context->summary->gpu.device_count == 0)
        return;
    struct finding *finding = rule_add_open(context, NULL, "other", FINDING_MEDIUM);

    finding->formula = rule_print(context, "backend gloo with %.0f devices", devices);
    finding->sentence =
        "Gradients are copied to the host, added there by the CPU, and copied back";
    rule_evidence_text(context, finding, "backend", "gloo");
    rule_evidence(finding, "devices", devices);
}

/* On the CPU it is no loss: gradients that are given back are pages to be made anew. */
static void find_zero_grad(struct rule_context *context)
{
    const struct ops_answer *cpu = &context->summary->cpu;
    double range = cpu->zero_grad_ns, waits;
    const struct gpu_device *device = rule_waits_for(context, FOR_HOST, &waits);
    double price = range < waits ? range : waits;
    double gradients = rule_number(context, FACT_OPTIMIZER_PARAMETERS);

    /* Any job zeroes some tensor: half of the gradients, where their number is known. */
    if (device == NULL || !(cpu->zeroed >= (gradients > 0 ? gradients / 2 : 1)) ||
        !rule_reaches(context, price))
        return;
    struct finding *finding = rule_add_price(
        context, NULL, "other", price,
        rule_error_of_recorded(context, price, cpu->head.recorded_steps));

    rule_price_between(finding, price / 2, range);
    rule_claim(finding, PART_OTHER, CLAIM_CALLS,
               price * device->idle_ns[GPU_IDLE_LAUNCH] / waits);
    rule_claim(finding, PART_OTHER, CLAIM_PYTHON,
               price * device->idle_ns[GPU_IDLE_PYTHON] / waits);
    finding->formula =
        rule_print(context, "min(%s in zero_grad, %s that %s waits for the host) = %s",
                   rule_ms(context, range), rule_ms(context, waits), device->device,
                   rule_ms(context, price));
    finding->sentence = rule_print(
        context,
        "zero_grad takes %s of a step to write zeros, to which backward then adds",
        rule_ms(context, range));
    rule_evidence_ms(finding, "zero_grad_ms", range);
    rule_evidence_ms(finding, "idle_ms", waits);
}

#define HOST_WAIT_RULE(id, finds, place, numbers)                                      \
    RULE(id, finds, place, RULE_SAMPLED, numbers "; idle time of devices by cause",    \
         "(idle for launches + idle for Python) / 2",                                  \
         SHARE_OF_STEP(0.03, SMALLEST "; half of the wait is an estimate"))

const struct rule rules_torch[] = {
    RULE(
        "recompilations", find_recompilations, OWNER_OPS + 20, RULE_TREND,
        "compile.*; step times",
        "recompilations * usual time of a compilation / steps of the run; of a part of "
        "it, what its slow steps took that are longer by as much; 0 without any",
        .threshold = OFTEN, .unit = "compilations of one function", .min = 1,
        .max = 1000000,
        .source = "after 8 of one function torch gives it up (recompile_limit)",
        .stays = 1, .title = "Functions are compiled again and again",
        .wrong_if =
            "All shapes were seen by now, before that limit, and no more are compiled.",
        .advice = {ADVICE("`TORCH_LOGS=recompiles` names the guard that failed"),
                   ADVICE("`torch.compile(model, dynamic=True)`, "
                          "`torch._dynamo.mark_dynamic(batch, 0)`, or batches that are "
                          "padded to few shapes"),
                   ADVICE("Numbers that change in each step as tensors, not as Python "
                          "numbers; `drop_last=True` for the last batch")}),
    HOST_WAIT_RULE("graph-breaks", find_graph_breaks, OWNER_DEVICE + 10,
                   "compile.graph_breaks"),
    RULE("host-graph-breaks", find_host_breaks, OWNER_RISK, 0,
         "compile.graph_breaks, where there is no device",
         "0: not known before they are gone", .threshold = 1, .unit = "places",
         .min = 1, .max = 1000000, .source = "each ends a graph that would go on",
         .stays = 1),
    HOST_WAIT_RULE("data-parallel", find_data_parallel, OWNER_DEVICE + 11,
                   "distributed.wrapper"),
    RULE("gloo-on-gpus", find_gloo, OWNER_RISK, RULE_RECORDS,
         "distributed.backend; device.count; GPU work", "0: a risk", .threshold = 1,
         .unit = "devices", .min = 1, .max = 1024,
         .source = "torch's own rule of thumb: NCCL for training on GPUs", .stays = 1,
         .title = "GPUs communicate through the host: the backend is gloo",
         .wrong_if = "The group is one of several, for CPU tensors only.",
         .advice = {ADVICE("`torch.distributed.init_process_group(\"nccl\")`, or "
                           "`\"cpu:gloo,cuda:nccl\"` where both are needed")}),
    RULE("zero-grad", find_zero_grad, OWNER_DEVICE - 2, RULE_SAMPLED,
         "Optimizer.zero_grad, ops that write zeros; idle time of devices by cause",
         "min(zero_grad, idle for launches + idle for Python)",
         SHARE_OF_STEP(0.03, SMALLEST),
         .title = "Gradients are filled with zeros instead of given back",
         .wrong_if =
             "Something reads gradients that were not computed, and counts on zeros.",
         .advice = {ADVICE("`optimizer.zero_grad(set_to_none=True)`, torch's default: "
                           "backward then writes gradients instead of adding them")}),
    {.told = {.id = NULL}},
};
