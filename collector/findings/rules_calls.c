/* Rules over calls of the accelerator's runtime that hold the host, as far as a device idles
 * meanwhile: what it works through beside them costs nothing. */
#include <math.h>
#include <string.h>

#include "findings/settings.h"

#define BIT(cause) (1u << (cause))

/* What a launch takes a host that is not held up: 4 to 12 us with and without a profiler. */
#define LAUNCH_NS 10000.0

/* Half of the launches take longer than this: no outliers, such as kernels that are loaded
 * when they are first used. */
#define SLOW_LAUNCH_NS 50000.0

/* The dearest row of launches, where half of its calls are slow. A graph's launch takes a us
 * or two for each of its nodes: of hundreds it is as long as it has to be. */
static const struct op_row *slow_launch(const struct rule_context *context)
{
    const struct ops_answer *cpu = &context->summary->cpu;

    for (uint32_t i = 0; i < cpu->judged_count; i++) {
        const struct op_row *row = &cpu->rows[i];

        if (strcmp(row->kind, "runtime") == 0 && strstr(row->name, "Launch") != NULL &&
            strstr(row->name, "GraphLaunch") == NULL)
            return row->p50_ns >= SLOW_LAUNCH_NS ? row : NULL;
    }
    return NULL;
}

static void find_slow_launches(struct rule_context *context)
{
    const struct op_row *row = slow_launch(context);
    double waits, calls = row == NULL ? 0 : row->per_step_count;
    double over = row == NULL ? 0 : row->per_step_ns - calls * LAUNCH_NS;
    /* Launches that are always as long as one that loads a kernel load nothing. */
    const uint32_t causes =
        BIT(GPU_IDLE_LAUNCH) | BIT(GPU_IDLE_SYNC) | BIT(GPU_IDLE_SETUP);
    const struct gpu_device *device = rule_waits_for(context, causes, &waits);
    double price = over < waits ? over : waits;

    /* Where the queue is full a launch waits for room in it, and costs nothing. */
    if (row == NULL || device == NULL ||
        (rule_is_far_ahead(device) && rule_waits_for_itself(context)) ||
        !rule_reaches(context, price))
        return;
    struct finding *finding =
        rule_add_price(context, NULL, "forward", price,
                       rule_error_of_kernels(context, price, context->train->kernels));

    rule_claim_waits(context, finding, causes, price);
    finding->formula = rule_print(
        context, "min(%s in %.0f launches - %.0f us each, %s that %s waits) = %s",
        rule_ms(context, row->per_step_ns), calls, LAUNCH_NS / 1000,
        rule_ms(context, waits), device->device, rule_ms(context, price));
    finding->sentence = rule_print(
        context, "Half of the %.0f launches of a step take %s or more, while %s idles",
        calls, rule_ms(context, row->p50_ns), device->device);
    rule_evidence_text(context, finding, "device", device->device);
    rule_evidence_text(context, finding, "call", row->name);
    rule_evidence(finding, "calls_per_step", calls);
    rule_evidence(finding, "p50_us", row->p50_ns / 1000);
    rule_evidence(finding, "mean_us", row->mean_ns / 1000);
    rule_evidence_ms(finding, "idle_ms", waits);
}

struct call_rule {
    enum ops_call call;
    uint32_t causes;
    const char *title, *what, *wrong_if;
    const char *advice[2];
    const char *native; /* NULL: as for torch */
};

/* min(time in the calls, what a device waits meanwhile) */
static void find_calls(struct rule_context *context, const struct call_rule *rule)
{
    const struct ops_answer *cpu = &context->summary->cpu;
    double spent = cpu->call_ns[rule->call], calls = cpu->call_count[rule->call], waits;
    const struct gpu_device *device = rule_waits_for(context, rule->causes, &waits);
    double price = spent < waits ? spent : waits;

    if (device == NULL || !rule_reaches(context, price))
        return;
    struct finding *finding = rule_add_price(
        context, NULL, "other", price,
        rule_error_of_recorded(context, price, cpu->head.recorded_steps));

    rule_claim_waits(context, finding, rule->causes, price);
    finding->title = rule->title;
    finding->formula =
        rule_print(context, "min(%s in %s, %s that %s waits meanwhile) = %s",
                   rule_ms(context, spent), rule_count(context, calls, "call"),
                   rule_ms(context, waits), device->device, rule_ms(context, price));
    finding->sentence =
        rule_print(context, "%s of a step are %s to %s", rule_ms(context, spent),
                   rule_count(context, calls, "call"), rule->what);
    finding->wrong_if = rule->wrong_if;
    rule_evidence_text(context, finding, "device", device->device);
    rule_evidence(finding, "calls_per_step", calls);
    rule_evidence_ms(finding, "calls_ms", spent);
    rule_evidence_ms(finding, "idle_ms", waits);
    if (context->summary->native && rule->native != NULL) {
        rule_advise(finding, rule->native);
        return;
    }
    for (uint32_t i = 0; i < 2; i++)
        rule_advise(finding, rule->advice[i]);
}

static void find_pinning(struct rule_context *context)
{
    const struct call_rule rule = {
        .call = OPS_CALL_PIN,
        .causes = BIT(GPU_IDLE_ALLOC),
        .title = "Pinned memory is made anew in each step",
        .what = "pin host memory or give it back: the system locks each page of it, "
                "and the device's work may have to end first",
        .wrong_if = "These are the first steps: torch keeps pinned memory that it has.",
        .advice = {rule_print(context,
                              "%s instead of `.pin_memory()` in the loop: a thread of "
                              "its own pins, and keeps the memory",
                              setting_text(context, SETTING_PIN_MEMORY, NULL)),
                   "Two buffers in turns that are pinned before the loop "
                   "(`torch.empty_like(batch).pin_memory()`), each filled again "
                   "(`buffer.copy_(batch)`) only after " COPY_IS_OVER},
        .native =
            "Two buffers of `cudaMallocHost` before the loop, in turns, each filled "
            "again only after `cudaEventSynchronize` of an event behind its copy"};

    find_calls(context, &rule);
}

static void find_filling(struct rule_context *context)
{
    static const struct call_rule rule = {
        .call = OPS_CALL_FILL,
        .causes = BIT(GPU_IDLE_LAUNCH) | BIT(GPU_IDLE_SYNC),
        .title = "Memory is set by calls that wait for the device",
        .what = "set memory on the default stream: work of other streams ends first",
        .wrong_if = "They are calls of a library that cannot be changed.",
        .advice = {"`cudaMemsetAsync(pointer, 0, bytes, stream)` on the stream that "
                   "reads the memory, in an extension of your own",
                   "`tensor.zero_()` instead of a call of the runtime"}};

    find_calls(context, &rule);
}

/* The device whose allocator takes longest in the driver, step by step. */
static const struct memory_device *asks_most(const struct rule_context *context)
{
    const struct memory_answer *memory = &context->summary->memory;
    const struct memory_device *most = NULL;

    for (uint32_t i = 0; i < memory->device_count; i++) {
        const struct memory_device *device = &memory->devices[i];

        if (device->driver_lasting_ns > (most == NULL ? 0 : most->driver_lasting_ns))
            most = device;
    }
    return most;
}

static void describe_asking(struct rule_context *context, struct finding *finding,
                            const struct memory_device *memory)
{
    bool retries = memory->retries > 0;

    finding->title =
        retries ? rule_print(context,
                             "Memory of %s runs out, and the allocator starts over",
                             memory->device)
                : rule_print(context, "Memory of %s is taken from the driver anew",
                             memory->device);
    const char *segments =
        isnan(memory->segments_got) || isnan(memory->segments_given_back)
            ? ""
            : rule_print(context, ": %s taken and %s given back in the window",
                         rule_count(context, memory->segments_got, "segment"),
                         rule_digits(context, memory->segments_given_back));

    finding->sentence =
        rule_print(context, "%s of a step are calls of cudaMalloc and cudaFree%s%s",
                   rule_ms(context, memory->driver_lasting_ns), segments,
                   retries ? rule_print(context, ", refused %s",
                                        rule_times(context, memory->retries))
                           : "");
    finding->wrong_if = "Shapes still change: the allocator keeps what it has once it "
                        "has met them all.";
    rule_evidence_text(context, finding, "device", memory->device);
    rule_evidence_ms(finding, "driver_ms", memory->driver_lasting_ns);
    rule_evidence(finding, "segments_got", memory->segments_got);
    rule_evidence(finding, "segments_given_back", memory->segments_given_back);
    rule_evidence(finding, "retries", memory->retries);
    if (retries)
        rule_advise(finding,
                    rule_infers(context)
                        ? "A smaller batch: near the limit each larger block costs all "
                          "that was kept"
                        : "A smaller batch, or `torch.utils.checkpoint`: near the "
                          "limit each larger block costs all that was kept");
    rule_advise(finding, "`PYTORCH_CUDA_ALLOC_CONF=expandable_segments:True`; no "
                         "`torch.cuda.empty_cache()` in the loop");
    rule_advise(finding, "Batches of one shape, or padded to few: each new size asks "
                         "for a segment of its own");
}

/* min(time in the calls, what a device waits meanwhile); of a device of which that is not
 * known, half of the calls, for it may have worked beside them. */
static void find_asking(struct rule_context *context)
{
    const struct memory_device *memory = asks_most(context);
    double spent = memory == NULL ? 0 : memory->driver_lasting_ns, waits;
    const struct gpu_device *device =
        rule_waits_for(context, BIT(GPU_IDLE_ALLOC), &waits);
    bool guess = rule_device(context) == NULL;
    double price = guess ? spent / 2 : spent < waits ? spent : waits;

    if (!(price > 0) || !rule_reaches(context, price))
        return;
    struct finding *finding = rule_add(context, NULL, "reserved");
    double error = rule_error_of_recorded(context, price, context->train->count);

    if (guess)
        rule_price_half(context, finding, spent, error);
    else
        rule_price(context, finding, price, error);
    rule_claim_waits(context, finding, BIT(GPU_IDLE_ALLOC), price);
    finding->formula =
        guess
            ? rule_print(context, "%s in cudaMalloc and cudaFree / 2 = %s",
                         rule_ms(context, spent), rule_ms(context, price))
            : rule_print(
                  context,
                  "min(%s in cudaMalloc and cudaFree, %s that %s waits meanwhile) = %s",
                  rule_ms(context, spent), rule_ms(context, waits), device->device,
                  rule_ms(context, price));
    describe_asking(context, finding, memory);
}

const struct rule rules_calls[] = {
    RULE(
        "slow-launches", find_slow_launches, OWNER_DEVICE - 5, RULE_SAMPLED,
        "launching calls; depth of the queue; kernels; idle time of devices by cause",
        "min(time of launches - 10 us each, idle for launches and syncs)",
        SHARE_OF_STEP(0.03, SMALLEST),
        .title = "Launches hold the host far longer than a launch takes",
        .wrong_if =
            "Another program drives the same device: launches then wait for its turn.",
        .advice =
            {ADVICE("`unset CUDA_LAUNCH_BLOCKING` (and `AMD_SERIALIZE_KERNEL`): with "
                    "it each launch waits for its kernel"),
             ADVICE("Threads that call CUDA beside the trainer take the driver's lock "
                    "from it: one thread for copies, no polling of memory or events")}),
    RULE("pinned-allocations", find_pinning, OWNER_DEVICE - 4, RULE_SAMPLED,
         "calls that pin host memory; idle time of devices by cause",
         "min(time in the calls, idle for allocations)", SHARE_OF_STEP(0.03, SMALLEST)),
    RULE("sync-memset", find_filling, OWNER_DEVICE - 3, RULE_SAMPLED,
         "calls that set memory; idle time of devices by cause",
         "min(time in the calls, idle for launches and syncs)",
         SHARE_OF_STEP(0.03, SMALLEST)),
    RULE("allocator-calls", find_asking, OWNER_DEVICE - 2, RULE_RECORDS,
         "cudaMalloc and cudaFree of torch's allocator in every step; idle time of "
         "devices by cause",
         "min(time in the calls, idle for allocations), else half of the calls",
         SHARE_OF_STEP(0.03, SMALLEST)),
    {.told = {.id = NULL}},
};
