/* The rule over what the others leave: time in which a device idles for reasons that are
 * not known, or each too small for a finding. */
#include <math.h>
#include <string.h>

#include "findings/rules.h"

/* A cause below this is not worth its words. */
#define TOLD_SHARE 0.01

/* From here on it is no detail. */
#define MUCH 0.2

/* As a sentence has them behind "6 ms". */
static const char *const causes[GPU_IDLES] = {
    [GPU_IDLE_DATA] = "for the next batch",
    [GPU_IDLE_SYNC] = "after the host waited for it",
    [GPU_IDLE_LAUNCH] = "for launches",
    [GPU_IDLE_COPY] = "for calls that copy",
    [GPU_IDLE_ALLOC] = "for calls that allocate",
    [GPU_IDLE_SETUP] = "for what is set up once",
    [GPU_IDLE_COLLECTIVE] = "for other ranks",
    [GPU_IDLE_PYTHON] = "for Python between the ops",
    [GPU_IDLE_UNKNOWN] = "for what is not known"};

/* From here on a cause has a rule of its own that says so. */
#define OWN_SHARE 0.03

/* What is not known, and causes too small for their rules. By the tables alone: what other
 * findings stand must not make this one come and go. */
struct rest {
    double ns[GPU_IDLES], sum_ns;
};

static struct rest look_at_rest(const struct rule_context *context,
                                const struct gpu_device *device)
{
    struct rest rest = {.sum_ns = 0};

    for (uint32_t cause = 0; device != NULL && cause < GPU_IDLES; cause++) {
        double idle = device->idle_ns[cause];

        /* Of the moments before kernels half is told. */
        double own = cause == GPU_IDLE_LAUNCH && rule_waits_for_itself(context)
                         ? 2 * OWN_SHARE
                         : OWN_SHARE;

        if (cause != GPU_IDLE_UNKNOWN && idle >= own * context->train->mean_ns)
            continue;
        rest.ns[cause] = idle;
        rest.sum_ns += idle;
    }
    return rest;
}

static const char *cause_of(const struct rule_context *context, uint32_t cause)
{
    return cause == GPU_IDLE_PYTHON && context->summary->native
               ? "for host code between the launches"
               : causes[cause];
}

/* "8 ms for what is not known, 3 ms for launches", the longest first. */
static const char *list_rest(struct rule_context *context, struct rest rest)
{
    const char *list = "";

    for (uint32_t n = 0; n < GPU_IDLES; n++) {
        uint32_t most = 0;

        for (uint32_t cause = 1; cause < GPU_IDLES; cause++)
            if (rest.ns[cause] > rest.ns[most])
                most = cause;
        if (!(rest.ns[most] >= (n == 0 ? 0 : TOLD_SHARE * context->train->mean_ns)))
            break;
        list = rule_print(context, "%s%s%s %s", list, n == 0 ? "" : ", ",
                          rule_ms(context, rest.ns[most]), cause_of(context, most));
        rest.ns[most] = 0;
    }
    return list;
}

static void advise(struct rule_context *context, struct finding *finding,
                   const struct gpu_device *device, const struct rest *rest)
{
    double unknown = rest->ns[GPU_IDLE_UNKNOWN];
    const struct hardware_row *row = rule_hardware(context, device);

    if (unknown >= rest->sum_ns / 2 && row != NULL && row->other_bytes > 0)
        rule_advise(finding, "Another process has memory on it, and while that one "
                             "computes this job waits: `nvidia-smi` names it");
    if (unknown >= rest->sum_ns / 2)
        rule_advise_in(context, finding,
                       "Its work was launched, and began late: look in the trace of "
                       "a step for streams that wait for each other "
                       "(`wait_stream`, `wait_event`)",
                       "Its work was launched, and began late: look in the trace of "
                       "a step for streams that wait for each other "
                       "(`cudaStreamWaitEvent()`)");
    if (finding->advice_count == 0 ||
        rest->sum_ns - unknown >= TOLD_SHARE * context->train->mean_ns)
        rule_advise(finding,
                    "Each of these is small by itself: the trace of a step shows "
                    "where it waits; a larger batch makes all of them rarer");
}

static void find_rest(struct rule_context *context)
{
    const struct gpu_device *device = rule_device(context);
    struct rest rest = look_at_rest(context, device);
    double step = context->train->mean_ns, share = rest.sum_ns / step;

    if (device == NULL || !(share >= context->threshold))
        return;
    struct finding *finding = rule_add_open(
        context, NULL, "other", share >= MUCH ? FINDING_MEDIUM : FINDING_LOW);

    finding->title = rule_print(context,
                                rest.ns[GPU_IDLE_UNKNOWN] >= rest.sum_ns / 2
                                    ? "%s idles, and nothing tells what it waits for"
                                    : "%s idles for several small reasons",
                                device->device);
    finding->formula =
        rule_print(context,
                   "%s of %s = %.0f %% of a step; what of it can be given "
                   "back is not known",
                   rule_ms(context, rest.sum_ns), rule_ms(context, step), 100 * share);
    finding->sentence =
        rule_print(context, "%s idles for %s of a step: %s", device->device,
                   rule_ms(context, rest.sum_ns), list_rest(context, rest));
    finding->wrong_if = "Some of its work was not recorded: then it was not idle.";
    rule_evidence_text(context, finding, "device", device->device);
    rule_evidence(finding, "idle_ms", rest.sum_ns / NS_PER_MS);
    rule_evidence(finding, "unknown_ms", rest.ns[GPU_IDLE_UNKNOWN] / NS_PER_MS);
    rule_evidence(finding, "step_ms", step / NS_PER_MS);
    advise(context, finding, device, &rest);
}

const struct rule rules_rest[] = {
    {{.id = "idle-rest",
      .reads = "idle time of devices by cause",
      .formula = "0: what of it can be given back is not known",
      SHARE(0.1,
            "share of the step, of unknown causes and of known ones that are "
            "too small for their own findings",
            "some three times what most single causes may stay below"),
      .sampled = true,
      .owner = OWNER_RISK + 1},
     .find = find_rest},
    {.find = NULL},
};
