/* What several rules over devices ask: which one works, and what it waits for. */
#include <math.h>
#include <string.h>

#include "findings/rules.h"

enum claim_kind findings_kind_of(enum gpu_idle cause)
{
    static const enum claim_kind kinds[GPU_IDLES] = {
        [GPU_IDLE_DATA] = CLAIM_WAIT,     [GPU_IDLE_SYNC] = CLAIM_SYNC,
        [GPU_IDLE_LAUNCH] = CLAIM_CALLS,  [GPU_IDLE_COPY] = CLAIM_COPY,
        [GPU_IDLE_ALLOC] = CLAIM_ALLOC,   [GPU_IDLE_SETUP] = CLAIM_SETUP,
        [GPU_IDLE_PYTHON] = CLAIM_PYTHON, [GPU_IDLE_COLLECTIVE] = CLAIM_PEERS,
        [GPU_IDLE_UNKNOWN] = CLAIM_ANY};

    return kinds[cause];
}

const struct gpu_device *rule_device(const struct rule_context *context)
{
    return gpu_busiest(&context->summary->gpu);
}

const struct hardware_row *rule_hardware(const struct rule_context *context,
                                         const struct gpu_device *device)
{
    const struct hardware_answer *hardware = &context->summary->hardware;

    for (uint32_t i = 0; i < hardware->row_count; i++)
        if (hardware->rows[i].device != NULL &&
            strcmp(hardware->rows[i].device, device->device) == 0)
            return &hardware->rows[i];
    return NULL;
}

bool rule_has_device(const struct rule_context *context)
{
    const struct memory_answer *memory = &context->summary->memory;
    bool on_host = strncmp(rule_text(context, FACT_OPTIMIZER_DEVICE), "cpu", 3) == 0;

    /* Also where the optimizer's part is left to the host. */
    for (uint32_t i = 0; i < memory->device_count; i++)
        if (strcmp(memory->devices[i].device, "cpu") != 0 &&
            memory->devices[i].peak_bytes > 0)
            on_host = false;
    return context->summary->gpu.device_count > 0 ||
           (rule_number(context, FACT_DEVICE_COUNT) > 0 && !on_host);
}

bool rule_is_recording(const struct rule_context *context)
{
    return context->summary->head.from_file && !context->summary->own_file;
}

bool rule_infers(const struct rule_context *context)
{
    return rule_number(context, FACT_INFERENCE) > 0;
}

bool rule_is_replicated(const struct rule_context *context)
{
    return strcmp(rule_text(context, FACT_DISTRIBUTED_WRAPPER), "DDP") == 0;
}

bool rule_is_sharded(const struct rule_context *context)
{
    return strcmp(rule_text(context, FACT_DISTRIBUTED_WRAPPER), "FSDP") == 0;
}

/* Launched and not begun, mean over time: the driver's queue holds about a thousand, and
 * launches that wait for their kernels or for a lock leave one in it. */
#define FAR_AHEAD 100.0

bool rule_is_far_ahead(const struct gpu_device *device)
{
    return device->run.queue_depth >= FAR_AHEAD;
}

bool rule_waits_for_itself(const struct rule_context *context)
{
    const struct gpu_device *device = rule_device(context);

    return device != NULL && (device->queued_ns > 0 || rule_is_far_ahead(device)) &&
           device->queued_ns >= device->idle_ns[GPU_IDLE_LAUNCH] / 2;
}

double rule_busy_ns(const struct rule_context *context, const struct gpu_device *device)
{
    double own = 0;

    for (uint32_t use = 0; use < GPU_USES; use++)
        own += device->use_ns[use];
    return fmin(own, rule_usual(context->train).mean_ns);
}

double rule_busy_share(const struct rule_context *context,
                       const struct gpu_device *device)
{
    return rule_busy_ns(context, device) / rule_usual(context->train).mean_ns;
}

const struct gpu_device *rule_waits_for(const struct rule_context *context,
                                        uint32_t causes, double *ns)
{
    const struct gpu_device *device = rule_device(context);

    *ns = 0;
    for (uint32_t cause = 0; device != NULL && cause < GPU_IDLES; cause++)
        *ns += (causes >> cause & 1) != 0 ? device->idle_ns[cause] : 0;
    return *ns > 0 ? device : NULL;
}

void rule_claim_waits(struct rule_context *context, struct finding *finding,
                      uint32_t causes, double ns)
{
    double waits;
    const struct gpu_device *device = rule_waits_for(context, causes, &waits);

    for (uint32_t cause = 0; device != NULL && cause < GPU_IDLES; cause++)
        if ((causes >> cause & 1) != 0)
            rule_claim_model(context, finding, findings_kind_of(cause),
                             ns * device->idle_ns[cause] / waits);
}

double rule_waits_for_host(const struct rule_context *context, uint32_t more)
{
    uint32_t causes =
        1u << GPU_IDLE_LAUNCH | 1u << GPU_IDLE_PYTHON | 1u << GPU_IDLE_UNKNOWN | more;
    double waits;

    if (rule_device(context) == NULL)
        return (double)INFINITY;
    if (!(rule_number(context, FACT_DATALOADER_WORKERS) >= 1))
        causes |= 1u << GPU_IDLE_DATA;
    (void)rule_waits_for(context, causes, &waits);
    return waits;
}

double rule_host_saves(const struct rule_context *context, double ns)
{
    double waits = rule_waits_for_host(context, 0);

    return ns > waits ? waits : ns;
}

const char *rule_host_limit(struct rule_context *context, double ns)
{
    double waits = rule_waits_for_host(context, 0);

    return ns > waits
               ? rule_print(context, ", at most the %s that %s waits for the host",
                            rule_ms(context, waits), rule_device(context)->device)
               : "";
}

void rule_price_host(struct rule_context *context, struct finding *finding, double ns,
                     double error_ns)
{
    rule_price(context, finding, ns, error_ns);
    if (rule_device(context) != NULL)
        rule_price_between(finding, ns / 2, ns);
}
