/* Rules over idle devices: one for each cause but data, which has a rule of its own. */
#include <math.h>
#include <string.h>

#include "findings/rules.h"

struct idle_rule {
    enum gpu_idle cause;
    enum claim_kind kind;
    const char *title, *because, *wrong_if;
    const char *advice[3];
};

/* The device that idles longest for it; NULL when none does. */
static const struct gpu_device *worst_device(const struct gpu_answer *gpu,
                                             enum gpu_idle cause)
{
    const struct gpu_device *worst = NULL;

    for (uint32_t i = 0; i < gpu->device_count; i++)
        if (gpu->devices[i].idle_ns[cause] > 0 &&
            (worst == NULL || gpu->devices[i].idle_ns[cause] > worst->idle_ns[cause]))
            worst = &gpu->devices[i];
    return worst;
}

static void find_idle(struct rule_context *context, const struct idle_rule *rule)
{
    const struct gpu_device *device = worst_device(&context->summary->gpu, rule->cause);
    double step = context->train->mean_ns;
    double price = device == NULL ? 0 : device->idle_ns[rule->cause], idle = 0;

    if (!(price / step >= context->threshold))
        return;
    struct finding *finding = rule_add(context, NULL, "other");

    if (finding == NULL)
        return;
    for (uint32_t i = 0; i < GPU_IDLES; i++)
        idle += device->idle_ns[i];
    rule_price(context, finding, price,
               rule_error_of_recorded(context, price, context->train->kernels));
    /* It may lie in any phase but data. */
    rule_claim_model(context, finding, rule->kind, price);
    finding->title = rule->title;
    finding->formula =
        rule_print(context, "%.3g ms idle for this cause of %.3g ms idle",
                   price / NS_PER_MS, idle / NS_PER_MS);
    finding->sentence =
        rule_print(context, "%s is idle for %.3g of %.3g ms of a step because %s",
                   device->device, price / NS_PER_MS, step / NS_PER_MS, rule->because);
    finding->wrong_if = rule->wrong_if;
    rule_evidence_text(context, finding, "device", device->device);
    rule_evidence(context, finding, "idle_ms", price / NS_PER_MS);
    rule_evidence(context, finding, "idle_all_ms", idle / NS_PER_MS);
    rule_evidence(context, finding, "step_ms", step / NS_PER_MS);
    for (uint32_t i = 0; i < 3 && rule->advice[i] != NULL; i++)
        rule_advise(finding, rule->advice[i]);
}

static void find_launch_bound(struct rule_context *context)
{
    static const struct idle_rule rule = {
        .cause = GPU_IDLE_LAUNCH,
        .kind = CLAIM_CALLS,
        .title = "The GPU waits for the CPU to launch its work",
        .because = "the host is still inside ops when the kernel before has ended",
        .wrong_if =
            "A profiler that records shapes and stacks slows the ops down: look "
            "at the step time without it.",
        .advice = {"`model = torch.compile(model, mode=\"reduce-overhead\")`: fewer "
                   "launches, replayed as CUDA graphs",
                   "Larger batches: each launch is worth more work",
                   "`fused=True` or `foreach=True` in the optimizer, "
                   "`zero_grad(set_to_none=True)`"}};

    find_idle(context, &rule);
}

static void find_device_sync(struct rule_context *context)
{
    static const struct idle_rule rule = {
        .cause = GPU_IDLE_SYNC,
        .kind = CLAIM_SYNC,
        .title = "The GPU runs empty while the CPU waits for it",
        .because = "the host waited for the device and queued nothing meanwhile",
        .wrong_if = "The waits are the profiler's own, at the ends of its steps.",
        .advice = {
            "No `.item()`, `.cpu()`, `print(tensor)` or `if tensor:` in the loop; "
            "log every n-th step",
            "Remove `torch.cuda.synchronize()`; copy results with "
            "`non_blocking=True`"}};

    find_idle(context, &rule);
}

static void find_host_copies(struct rule_context *context)
{
    static const struct idle_rule rule = {
        .cause = GPU_IDLE_COPY,
        .kind = CLAIM_COPY,
        .title = "The GPU waits while the CPU prepares copies",
        .because = "the host was in calls that copy: pageable memory is staged first",
        .wrong_if = "The copies are results that are needed at once.",
        .advice = {"`DataLoader(..., pin_memory=True)` and "
                   "`batch.to(device, non_blocking=True)`",
                   "Move the next batch while this one trains"}};

    find_idle(context, &rule);
}

static void find_device_alloc(struct rule_context *context)
{
    static const struct idle_rule rule = {
        .cause = GPU_IDLE_ALLOC,
        .kind = CLAIM_ALLOC,
        .title = "The GPU waits while memory is allocated",
        .because = "the host was in cudaMalloc, cudaFree or their like",
        .wrong_if = "These are the first steps: the allocator keeps what it has.",
        .advice = {"`PYTORCH_CUDA_ALLOC_CONF=expandable_segments:True`; no "
                   "`torch.cuda.empty_cache()` in the loop",
                   "Leave room: an allocator near the limit frees and allocates anew"}};

    find_idle(context, &rule);
}

static void find_collective_wait(struct rule_context *context)
{
    static const struct idle_rule rule = {
        .cause = GPU_IDLE_COLLECTIVE,
        .kind = CLAIM_PEERS,
        .title = "The GPU waits for other ranks",
        .because = "a collective was queued and its peers were late",
        .wrong_if = "This rank is the fast one: look at the slowest.",
        .advice = {
            "Give all ranks the same work: equal batches, lengths and data speed",
            "Communicate less often: `no_sync()` with gradient accumulation"}};

    find_idle(context, &rule);
}

static void find_python_between_ops(struct rule_context *context)
{
    static const struct idle_rule rule = {
        .cause = GPU_IDLE_PYTHON,
        .kind = CLAIM_PYTHON,
        .title = "The GPU waits for Python between the ops",
        .because = "the host ran code that launches nothing",
        .wrong_if = "That code is needed before the next op, and cannot be moved.",
        .advice = {
            "Move logging, metrics and pre-processing out of the loop, or to every "
            "n-th step",
            "`torch.compile` takes the Python out of the model"}};

    find_idle(context, &rule);
}

#define IDLE_RULE                                                                      \
    .reads = "idle time of devices by cause", .formula = "idle for this cause",        \
    .threshold = 0.05, .unit = "share of the step", .min = 0, .max = 1,                \
    .sampled = true, .source = TWENTIETH

const struct rule rules_gpu[] = {
    {{.id = "launch-bound", IDLE_RULE, .owner = OWNER_DEVICE + 0}, find_launch_bound},
    {{.id = "device-sync", IDLE_RULE, .owner = OWNER_DEVICE + 1}, find_device_sync},
    {{.id = "host-copies", IDLE_RULE, .owner = OWNER_DEVICE + 2}, find_host_copies},
    {{.id = "device-alloc", IDLE_RULE, .owner = OWNER_DEVICE + 3}, find_device_alloc},
    {{.id = "collective-wait", IDLE_RULE, .owner = OWNER_DEVICE + 4},
     find_collective_wait},
    {{.id = "python-between-ops", IDLE_RULE, .owner = OWNER_DEVICE + 5},
     find_python_between_ops},
    {.find = NULL},
};
