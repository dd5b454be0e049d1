/* What several rules over devices ask: which one works, and what it waits for. */
#include <math.h>
#include <string.h>

#include "findings/rules.h"

/* Of a step, or of what the device computes. Below this the host is what a step waits for:
 * less work gains nothing. */
#define BUSY_NEEDED 0.5

const struct gpu_device *rule_device(const struct rule_context *context)
{
    return gpu_busiest(&context->summary->gpu);
}

/* Also where the optimizer's part is left to the host. */
static bool has_device_memory(const struct memory_answer *memory)
{
    for (uint32_t i = 0; i < memory->device_count; i++)
        if (strcmp(memory->devices[i].device, "cpu") != 0 &&
            memory->devices[i].peak_bytes > 0)
            return true;
    return false;
}

bool rule_has_device(const struct rule_context *context)
{
    bool on_host = strncmp(rule_text(context, FACT_OPTIMIZER_DEVICE), "cpu", 3) == 0 &&
                   !has_device_memory(&context->summary->memory);

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

static bool is_replayed(const struct rule_context *context)
{
    return context->summary->replay.compute_ns > 0;
}

/* Share of its compute: whether a step waits for it is told by a little less of it. */
#define SOME_LESS 0.1

/* Share of `ns` of the device's compute that a step gains without it. */
static double share_waited_for(const struct rule_context *context, double ns)
{
    double gain = replay_gain(&context->summary->replay, ns);

    return isnan(gain) ? rule_busy_share(context, rule_device(context)) : gain / ns;
}

const struct gpu_device *rule_busiest(const struct rule_context *context)
{
    const struct gpu_device *device = rule_device(context);

    return device != NULL && (rule_busy_share(context, device) >= BUSY_NEEDED ||
                              share_waited_for(
                                  context, SOME_LESS * device->use_ns[GPU_COMPUTE]) >=
                                  BUSY_NEEDED)
               ? device
               : NULL;
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

double rule_busy_share(const struct rule_context *context,
                       const struct gpu_device *device)
{
    double own = 0;

    for (uint32_t use = 0; use < GPU_USES; use++)
        own += device->use_ns[use];
    own /= context->train->mean_ns;
    return own < 1 ? own : 1;
}

/* Share of the time for which the device does nothing else that steps gain with it hidden. */
static double share_alone(const struct rule_context *context, enum gpu_use use)
{
    const struct replay_table *replay = &context->summary->replay;
    const struct replay_what_if_row *hidden =
        &replay->what_ifs[use == GPU_COPY ? REPLAY_COPIES_HIDDEN
                                          : REPLAY_COMMUNICATION_HIDDEN];
    double gain = replay->step_ns - hidden->mean_ns + replay->unknown_ns;
    double alone = rule_device(context)->use_ns[use];

    return is_replayed(context) && hidden->known && gain < alone ? gain / alone : 1;
}

double rule_alone_ns(const struct rule_context *context, enum gpu_use use)
{
    const struct gpu_device *device = rule_device(context);

    return device == NULL ? 0 : device->use_ns[use] * share_alone(context, use);
}

/* Of `ns`, a part of that work. */
static double share_gained(const struct rule_context *context,
                           const struct rule_work *work, double ns)
{
    if (work->use != GPU_COMPUTE)
        return share_alone(context, work->use);
    double share = share_waited_for(context, ns);

    return work->fewer ? fmax(share, rule_busy_share(context, rule_device(context)))
                       : share;
}

static double gain(const struct rule_context *context, const struct rule_work *work,
                   double ns)
{
    return ns > 0 ? ns * share_gained(context, work, ns) : ns;
}

static void price_work(struct rule_context *context, struct finding *finding,
                       const struct rule_work *work)
{
    double price = gain(context, work, work->ns);

    rule_price(context, finding, price,
               rule_error_of_recorded(context, price, context->train->kernels));
    if (work->low_ns < work->high_ns)
        rule_price_between(finding, gain(context, work, work->low_ns),
                           gain(context, work, work->high_ns));
    rule_claim_model(context, finding, CLAIM_WORK, price);
}

struct finding *rule_add_work(struct rule_context *context, const char *subject,
                              const char *colour, const struct rule_work *work)
{
    const struct gpu_device *device = rule_device(context);
    double least = context->threshold * context->train->mean_ns;

    if (device == NULL)
        return NULL;
    bool computes = work->use == GPU_COMPUTE;
    double busy = rule_busy_share(context, device);
    bool gains = gain(context, work, work->ns) >= least &&
                 (!computes || busy >= BUSY_NEEDED || is_replayed(context));
    bool waits = busy >= BUSY_NEEDED && work->ns * (computes ? busy : 1) >= least;
    struct finding *finding = gains ? rule_add(context, subject, colour)
                              : waits
                                  ? rule_add_risk(context, subject, colour, FINDING_LOW)
                                  : NULL;

    if (finding != NULL && gains)
        price_work(context, finding, work);
    return finding;
}

const char *rule_work_formula(struct rule_context *context,
                              const struct finding *finding, const char *what,
                              const struct rule_work *work)
{
    double share = share_gained(context, work, work->ns);
    double busy = rule_busy_share(context, rule_device(context));
    bool replayed = is_replayed(context) && !(work->fewer && share <= busy);
    const char *gained = rule_ms(context, share * work->ns);

    if (!(finding->ns_per_step > 0))
        return rule_print(context, "%s = %s, of which %s while steps wait for the host",
                          what, rule_ms(context, work->ns), gained);
    if (!replayed && work->use != GPU_COMPUTE)
        return rule_print(context, "%s = %s", what, gained);
    return rule_print(context,
                      replayed ? "%s * %.0f %% that replayed steps wait for = %s"
                               : "%s * %.0f %% busy = %s",
                      what, 100 * share, gained);
}

struct finding *rule_add_family(struct rule_context *context, enum kernel_family family,
                                bool fewer)
{
    const struct ops_answer *cuda = &context->summary->cuda;
    const struct gpu_device *device = rule_device(context);
    double time = cuda->family_ns[family];
    const struct rule_work work = {
        .ns = time / 2, .low_ns = time / 4, .high_ns = time * 3 / 4, .fewer = fewer};
    struct finding *finding = rule_add_work(context, NULL, "forward", &work);

    if (finding == NULL)
        return NULL;
    finding->formula = rule_work_formula(
        context, finding,
        rule_print(context, "%s of such kernels / 2", rule_ms(context, time)), &work);
    rule_evidence_text(context, finding, "device", device->device);
    rule_evidence_text(context, finding, "name", device->name);
    rule_evidence(context, finding, "kernels_ms", time / NS_PER_MS);
    rule_evidence(context, finding, "kernels_per_step", cuda->family_count[family]);
    for (uint32_t i = 0; i < cuda->judged_count; i++)
        if (cuda->rows[i].family == family)
            rule_pin(context, finding, cuda->rows[i].name);
    return finding;
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

/* Also for the next batch, where the trainer loads it itself: whatever it saves before, it
 * comes to that sooner. Infinite where no device is known. */
static double waits_for_host(const struct rule_context *context)
{
    uint32_t causes =
        1u << GPU_IDLE_LAUNCH | 1u << GPU_IDLE_PYTHON | 1u << GPU_IDLE_UNKNOWN;
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
    double waits = waits_for_host(context);

    return ns > waits ? waits : ns;
}

const char *rule_host_limit(struct rule_context *context, double ns)
{
    double waits = waits_for_host(context);

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
