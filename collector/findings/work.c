#include "findings/work.h"

#include <math.h>

/* Of a step: a device that is busy for less waits for the host for most of it. */
#define BUSY_NEEDED 0.5

/* And one that is busy for more hardly rests: then steps wait for it, whatever else does. */
#define BUSY_ALWAYS 0.95

/* Steps that gain less than this share of it hardly wait for it. */
#define WAITED_LITTLE 0.2

/* Of what it computes: a little less tells whether steps wait for it at all. */
#define SOME_LESS 0.1

/* What of a time steps gain. */
struct share {
    double of;
    bool replayed; /* that tells it; else how busy the device is */
};

/* Is the replay to be believed? */
static bool is_replayed(const struct rule_context *context)
{
    const struct replay_table *replay = &context->summary->replay;
    const struct gpu_device *device = rule_device(context);
    bool enough = replay->steps >= REPLAY_STEPS_MIN || context->summary->head.from_file;
    double less = SOME_LESS * replay->compute_ns;
    bool waited_for = replay_gain(replay, less) >= BUSY_NEEDED * less;

    return replay->compute_ns > 0 && enough &&
           (waited_for || (!rule_is_far_ahead(device) &&
                           rule_busy_share(context, device) < BUSY_ALWAYS));
}

static struct share share_of_compute(const struct rule_context *context, double ns,
                                     bool fewer)
{
    double busy = rule_busy_share(context, rule_device(context));
    struct share share = {busy, false};

    if (!is_replayed(context) || !(ns > 0))
        return share;
    double gained = replay_gain(&context->summary->replay, ns) / ns;

    if (gained >= busy || !fewer || busy < BUSY_NEEDED)
        share = (struct share){gained, true};
    return share;
}

/* Of the time for which the device does nothing else. */
static struct share share_alone(const struct rule_context *context, enum gpu_use use)
{
    const struct replay_table *replay = &context->summary->replay;
    const struct replay_what_if_row *hidden =
        &replay->what_ifs[use == GPU_COPY ? REPLAY_COPIES_HIDDEN
                                          : REPLAY_COMMUNICATION_HIDDEN];
    double gained = fmax(replay->step_ns - hidden->mean_ns, 0);
    double alone = rule_device(context)->use_ns[use];

    if (!is_replayed(context) || !hidden->known || !(gained < alone))
        return (struct share){1, false};
    return (struct share){gained / alone, true};
}

/* Of `ns`, which may be a part of that work. */
static struct share share_of(const struct rule_context *context,
                             const struct work *work, double ns)
{
    return work->use == GPU_COMPUTE ? share_of_compute(context, ns, work->fewer)
                                    : share_alone(context, work->use);
}

static double gain(const struct rule_context *context, const struct work *work,
                   double ns)
{
    return ns * share_of(context, work, ns).of;
}

struct work_alone work_alone(const struct rule_context *context, enum gpu_use use)
{
    const struct gpu_device *device = rule_device(context);

    if (device == NULL)
        return (struct work_alone){0, 1, false};
    struct share share = share_alone(context, use);

    return (struct work_alone){device->use_ns[use], share.of, share.replayed};
}

static void show_share(struct rule_context *context, struct finding *finding,
                       double share)
{
    rule_evidence(finding, "replayed_steps", context->summary->replay.steps);
    rule_evidence(finding, "waited_for_pct", 100 * share);
}

const char *work_alone_share(struct rule_context *context, struct finding *finding,
                             const struct work_alone *alone)
{
    if (!alone->replayed)
        return "";
    show_share(context, finding, alone->share);
    return rule_print(context, " * %.0f %% that replayed steps wait for",
                      100 * alone->share);
}

const struct gpu_device *rule_busiest(const struct rule_context *context)
{
    const struct gpu_device *device = rule_device(context);
    double less = device == NULL ? 0 : SOME_LESS * device->use_ns[GPU_COMPUTE];

    return device != NULL && share_of_compute(context, less, false).of >= BUSY_NEEDED
               ? device
               : NULL;
}

/* The steps tell how long the work lasts, those of them that were replayed what it gains. */
static void price(struct rule_context *context, struct finding *finding,
                  const struct work *work)
{
    struct share share = share_of(context, work, work->ns);
    double ns = share.of * work->ns;
    double error = rule_error_of_kernels(context, ns, context->train->kernels);
    double spread = context->summary->replay.gain_error;

    if (share.replayed && work->use == GPU_COMPUTE && !isnan(spread))
        error = hypot(error, ns * spread);
    rule_price(context, finding, ns, error);
    if (work->low_ns < work->high_ns)
        rule_price_between(finding, gain(context, work, work->low_ns),
                           gain(context, work, work->high_ns));
    rule_claim_model(context, finding, CLAIM_WORK, ns);
}

struct finding *work_find(struct rule_context *context, const char *subject,
                          const char *colour, const struct work *work)
{
    const struct gpu_device *device = rule_device(context);
    double least = context->threshold * context->train->mean_ns;

    if (device == NULL || !(work->ns > 0))
        return NULL;
    struct share share = share_of(context, work, work->ns);
    double busy = rule_busy_share(context, device);
    double later = work->use == GPU_COMPUTE ? work->ns * busy : work->ns;
    double stays = context->by_price ? FINDING_STAYS : 1;
    bool works = busy >= BUSY_NEEDED * stays;
    bool priced = !context->stands_as_risk && share.of * work->ns >= least &&
                  !(share.replayed && share.of < WAITED_LITTLE * stays) &&
                  (works || share.replayed || work->use != GPU_COMPUTE);
    struct finding *finding = NULL;

    if (priced)
        finding = rule_add(context, subject, colour);
    else if ((share.replayed || context->stands_as_risk) && works && later >= least)
        finding = rule_add_risk(context, subject, colour, FINDING_LOW);
    if (finding == NULL)
        return NULL;
    if (priced)
        price(context, finding, work);
    if (share.replayed)
        show_share(context, finding, share.of);
    else if (work->use == GPU_COMPUTE)
        rule_evidence(finding, "busy_pct", 100 * share.of);
    return finding;
}

const char *work_formula(struct rule_context *context, const struct finding *finding,
                         const char *what, const struct work *work)
{
    struct share share = share_of(context, work, work->ns);
    const char *gained = rule_ms(context, share.of * work->ns);

    if (!(finding->ns_per_step > 0))
        return rule_print(context, "%s = %s, of which a step would gain %s now", what,
                          rule_ms(context, work->ns),
                          share.replayed ? gained : "what is not known");
    if (!share.replayed && work->use != GPU_COMPUTE)
        return rule_print(context, "%s = %s", what, gained);
    return rule_print(context,
                      share.replayed ? "%s * %.0f %% that replayed steps wait for = %s"
                                     : "%s * %.0f %% busy = %s",
                      what, 100 * share.of, gained);
}

struct finding *work_find_family(struct rule_context *context,
                                 enum kernel_family family, bool fewer)
{
    const struct ops_answer *cuda = &context->summary->cuda;
    double time = cuda->family_ns[family];
    struct work work = work_half(time);

    work.fewer = fewer;
    struct finding *finding = work_find(context, NULL, "forward", &work);

    if (finding == NULL)
        return NULL;
    finding->formula = work_formula(
        context, finding,
        rule_print(context, "%s of such kernels / 2", rule_ms(context, time)), &work);
    rule_evidence_text(context, finding, "device", rule_device(context)->device);
    rule_evidence_text(context, finding, "name", rule_device(context)->name);
    rule_evidence(finding, "kernels_ms", time / NS_PER_MS);
    rule_evidence(finding, "kernels_per_step", cuda->family_count[family]);
    for (uint32_t i = 0; i < cuda->judged_count; i++)
        if (cuda->rows[i].family == family)
            rule_pin(context, finding, cuda->rows[i].name);
    return finding;
}
