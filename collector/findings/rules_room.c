/* Rules over room in memory: peaks of single steps, a batch that could be larger, shared
 * memory that workers fill. */
#include <math.h>
#include <string.h>

#include "findings/rules.h"
#include "findings/settings.h"

/* What lies over the others in more steps than this is no exception. */
#define SPIKES_MOST 0.1

/* Where half of a device is free, no spike decides what fits. */
#define SPIKE_MATTERS 0.5

static void add_spike(struct rule_context *context, const struct memory_device *device)
{
    struct finding *finding =
        rule_add_risk(context, device->device, "allocated", FINDING_LOW);
    double over = device->peak_bytes - device->usual_peak_bytes;

    finding->title =
        rule_print(context, "Single steps need far more memory of %s", device->device);
    finding->formula = rule_print(context, "%s at the peak - %s at a usual step's = %s",
                                  rule_memory(context, device->peak_bytes),
                                  rule_memory(context, device->usual_peak_bytes),
                                  rule_memory(context, over));
    finding->sentence = rule_print(
        context,
        "%u of %u steps need%s over a fifth more than the others, and decide%s what "
        "fits%s%s",
        device->high_peaks, device->peaks, device->high_peaks == 1 ? "s" : "",
        device->high_peaks == 1 ? "s" : "", device->peak_op[0] != '\0' ? ": " : "",
        device->peak_op);
    finding->wrong_if =
        "These are validation, or a checkpoint that gathers all weights.";
    rule_evidence_text(context, finding, "device", device->device);
    rule_evidence(finding, "peak_bytes", device->peak_bytes);
    rule_evidence(finding, "usual_peak_bytes", device->usual_peak_bytes);
    rule_evidence(finding, "high_steps", device->high_peaks);
    rule_evidence(finding, "of_steps", device->peaks);
    rule_evidence_text(context, finding, "op", device->peak_op);
    finding->worst_step = device->peak_step;
    rule_advise(
        finding,
        "Batches of alike length: sort or bucket samples by size, or cap the longest");
    rule_advise(finding, "`torch.no_grad()` around metrics and images that are made "
                         "every n-th step; large results to the host at once");
}

static void find_spikes(struct rule_context *context)
{
    const struct memory_answer *memory = &context->summary->memory;

    for (uint32_t i = 0; i < memory->device_count; i++) {
        const struct memory_device *device = &memory->devices[i];
        double over = rule_share(device->peak_bytes, device->usual_peak_bytes) - 1;

        if (strcmp(device->device, "cpu") != 0 && over >= context->threshold &&
            device->high_peaks > 0 &&
            device->high_peaks <= SPIKES_MOST * device->peaks &&
            rule_share(device->peak_bytes, device->total_bytes) >= SPIKE_MATTERS)
            add_spike(context, device);
    }
}

/* What must stay free beside a larger batch: fragments and libraries take a tenth. */
#define ROOM_FULL 0.9

/* Twice the batch is what is proposed. */
#define LARGER 2.0

/* Beyond that the estimate, one batch from another, is none. */
#define MANY 10.0

/* The memory of that device, where its steps are known; NULL without. */
static const struct memory_device *memory_of(const struct rule_context *context,
                                             const struct gpu_device *device)
{
    const struct memory_answer *memory = &context->summary->memory;

    for (uint32_t i = 0; i < memory->device_count; i++)
        if (strcmp(memory->devices[i].device, device->device) == 0 &&
            !isnan(memory->devices[i].floor_bytes))
            return &memory->devices[i];
    return NULL;
}

static void describe_room(struct rule_context *context, struct finding *finding,
                          const struct memory_device *memory)
{
    double size = rule_number(context, FACT_DATALOADER_BATCH_SIZE);
    double batch = memory->peak_bytes - memory->floor_bytes;
    double more = (ROOM_FULL * memory->usable_bytes - memory->peak_bytes) / batch;
    double others = memory->total_bytes - memory->usable_bytes;

    finding->sentence = rule_print(
        context,
        "A step takes %s beside the %s that stay, of %s%s: about %s more would fit",
        rule_memory(context, batch), rule_memory(context, memory->floor_bytes),
        rule_memory(context, memory->total_bytes),
        others > 0.01 * memory->total_bytes
            ? rule_print(context, " less %s held outside of its allocator",
                         rule_memory(context, others))
            : "",
        more < MANY ? rule_print(context, "%.2g such batches", more)
                    : "ten such batches and");
    finding->wrong_if =
        rule_infers(context)
            ? "Who asks waits for each answer, the loader cannot fill a larger batch "
              "in time, or memory does not grow with it."
            : "The training depends on this batch size, the loader cannot fill a "
              "larger one in time, or memory does not grow with the batch.";
    rule_evidence(finding, "peak_bytes", memory->peak_bytes);
    rule_evidence(finding, "floor_bytes", memory->floor_bytes);
    rule_evidence(finding, "total_bytes", memory->total_bytes);
    rule_evidence(finding, "usable_bytes", memory->usable_bytes);
    rule_evidence(finding, "batch_size", size);
    rule_advise(finding,
                size >= 1
                    ? rule_print(context, "%s, and a learning rate that fits it",
                                 setting_text(context, SETTING_BATCH_SIZE,
                                              setting_number(context, LARGER * size)))
                : rule_infers(context)
                    ? "Twice the batch size"
                    : "Twice the batch size, and a learning rate that fits it");
}

/* With twice the samples in a step the host makes its calls once for both: of two of
 * today's steps the device then waits in one, as far as it has work for that long. Half of
 * it is told, for some of the host's work grows with the batch. */
static void find_room(struct rule_context *context)
{
    double step = context->train->mean_ns, waits;
    const uint32_t causes = 1u << GPU_IDLE_LAUNCH | 1u << GPU_IDLE_PYTHON;
    const struct gpu_device *device = rule_waits_for(context, causes, &waits);
    const struct memory_device *memory =
        device == NULL ? NULL : memory_of(context, device);
    double most = fmin(waits, step / LARGER), price = most / 2;

    double batch = memory == NULL ? 0 : memory->peak_bytes - memory->floor_bytes;

    /* Today's batch takes what lies over the floor: twice of that must fit. */
    if (!(batch > 0) || !(memory->floor_bytes >= 0) ||
        !(memory->floor_bytes + LARGER * batch <= ROOM_FULL * memory->usable_bytes) ||
        !rule_reaches(context, price))
        return;
    struct finding *finding = rule_add_price_half(
        context, NULL, "reserved", most,
        rule_error_of_kernels(context, most, context->train->kernels));

    rule_claim_waits(context, finding, causes, price);
    finding->formula = rule_print(
        context,
        "min(%s that %s waits for the host, %s / 2) / 2 = %s for as many samples",
        rule_ms(context, waits), device->device, rule_ms(context, step),
        rule_ms(context, price));
    rule_evidence_text(context, finding, "device", device->device);
    rule_evidence_ms(finding, "idle_ms", waits);
    describe_room(context, finding, memory);
}

static void find_shared(struct rule_context *context)
{
    const struct memory_host *host = &context->summary->memory.host;
    double share = rule_share(host->shared_used_bytes, host->shared_bytes);

    if (!(rule_number(context, FACT_DATALOADER_WORKERS) >= 1) ||
        !(share >= context->threshold))
        return;
    struct finding *finding = rule_add_risk(context, NULL, "host", FINDING_HIGH);

    finding->formula =
        rule_print(context, "%s MiB of %s MiB in /dev/shm = %.0f %%",
                   rule_digits(context, host->shared_used_bytes / MIB),
                   rule_digits(context, host->shared_bytes / MIB), 100 * share);
    finding->sentence = rule_print(
        context, "Workers hand their batches over in /dev/shm, where %s MiB are left",
        rule_digits(context, (host->shared_bytes - host->shared_used_bytes) / MIB));
    rule_evidence(finding, "used_bytes", host->shared_used_bytes);
    rule_evidence(finding, "limit_bytes", host->shared_bytes);
    rule_evidence(finding, "workers", rule_number(context, FACT_DATALOADER_WORKERS));
    rule_evidence(finding, "prefetch_factor",
                  rule_number(context, FACT_DATALOADER_PREFETCH));
    rule_advise(
        finding,
        "A container's is 64 MiB unless asked: `docker run --shm-size=8g`, or "
        "`--ipc=host`; in Kubernetes an `emptyDir` with `medium: Memory` at /dev/shm");
    const char *ahead = setting_text(context, SETTING_PREFETCH, "1");

    rule_advise_print(context, finding,
                      "Fewer workers%s%s: each batch ahead lies there until it is used",
                      ahead[0] == '\0' ? "" : ", or ", ahead);
}

const struct rule rules_room[] = {
    RULE("memory-spike", find_spikes, OWNER_RISK, RULE_TREND,
         "peak of memory of each step, the device's memory", "0: a risk",
         .threshold = 0.20, .unit = "share over the usual peak", .min = 0, .max = 100,
         .source = "batches that differ a little need a tenth more or less"),
    RULE(
        "larger-batch", find_room, OWNER_DEVICE + 50, RULE_SAMPLED,
        "peaks of memory, what stays between steps; NVML: memory that is used; idle "
        "time of devices by cause",
        "min(idle for launches + idle for Python, step / 2) / 2",
        SHARE_OF_STEP(
            0.15,
            "another batch size is a change of the training: not for a few hundredths"),
        .title = "There is room for a batch of twice the size"),
    RULE("shared-memory", find_shared, OWNER_RISK, RULE_TREND,
         "what is used of /dev/shm; dataloader.workers", "0: a risk",
         SHARE(0.80, "share of /dev/shm",
               "between two samples of a second a batch of each worker comes on top"),
         .stays = 0.95,
         .title = "Shared memory is nearly full: a worker may die of a bus error",
         .wrong_if = "Something else fills it, and will not grow."),
    {.told = {.id = NULL}},
};
