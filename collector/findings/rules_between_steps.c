/* Rules over what the others leave, looked at after them: code between a step's phases, of
 * which the place is known and what other rules tell; and time in which a device idles for
 * reasons that are not known, or each too small for a finding. */
#include <math.h>
#include <string.h>

#include "findings/rules.h"
#include "findings/settings.h"

/* What other findings tell of the time between steps: collections, checkpoints, and what
 * comes at a period. `usual`: no more than what most steps have. */
static double told_between(const struct rule_context *context, bool usual)
{
    const struct rhythm *rhythm = &context->summary->rhythm;
    const struct ops_answer *cpu = &context->summary->cpu;
    bool gc = rhythm->gc.part == PART_OTHER &&
              !(usual && 2 * rhythm->gc.steps < rhythm->steps);
    bool saving = cpu->saving_ns > 0 && !(usual && cpu->saving_count < 0.5);
    bool period = rhythm->period.part == PART_OTHER && !usual;
    bool drift = rhythm->drift.part == PART_OTHER;

    return (gc ? rhythm->gc.ns_per_step : 0) + (saving ? cpu->saving_ns : 0) +
           (period ? rhythm->period.ns_per_step : 0) +
           (drift ? rule_told_drift_ns(context) : 0);
}

/* Where most of it lies. */
enum place { AFTER_UPDATE, BEFORE_UPDATE, BEFORE_FORWARD, WITHOUT_LOADER };

static enum place place_of(const struct rule_context *context)
{
    const struct rhythm *rhythm = &context->summary->rhythm;
    double half = rhythm->median_other_ns / 2;

    if (rhythm->median_before_update_ns > half)
        return BEFORE_UPDATE;
    if (rhythm->median_before_forward_ns > half)
        return BEFORE_FORWARD;
    return context->train->phase_ns[EVENT_PHASE_DATA] > 0 ? AFTER_UPDATE
                                                          : WITHOUT_LOADER;
}

/* Before the forward pass ops are the loop's own work, and rules over ops judge them: what
 * is in them, as far as looks at the thread tell, or as they fit into no phase. */
static double in_ops(const struct rule_context *context)
{
    const struct between_ops *between = &context->summary->between_ops;
    const struct ops_answer *cpu = &context->summary->cpu;
    const struct steps_summary *train = context->train;
    double before = rule_before_forward_ns(context), ops = 0;
    double outside = between->busy_nowhere.share + between->asleep[EVENT_PHASES].share;

    for (uint32_t i = 0; i < ops_held(cpu); i++)
        if (strcmp(cpu->rows[i].kind, "op") == 0 && cpu->rows[i].per_step_ns > 0)
            ops += cpu->rows[i].per_step_ns;
    for (uint32_t phase = 0; phase < EVENT_PHASES; phase++)
        ops -= train->phase_ns[phase] > 0 ? train->phase_ns[phase] : 0;
    if (between->looks > 0 && !isnan(outside))
        ops = fmax(ops, before - outside * train->mean_ns);
    return fmax(fmin(ops, before), 0);
}

/* Before the forward pass nothing is said of a running job before looks tell its ops from
 * other code. */
static bool is_looked_at(const struct rule_context *context, enum place place)
{
    const struct between_ops *between = &context->summary->between_ops;

    return place == AFTER_UPDATE || place == BEFORE_UPDATE ||
           context->summary->cpu.head.recorded_steps == 0 ||
           context->summary->head.from_file ||
           (between->looks > 0 && !isnan(between->busy_nowhere.share));
}

/* What rules say of it that know more than its place: of its ops at least what is in them. */
static double told_by_others(const struct rule_context *context)
{
    const struct findings *findings = context->findings;
    double ops = 0, code = 0;

    for (uint32_t i = 0; i < findings->count; i++) {
        const struct finding *finding = &findings->list[i];
        bool knows_more = finding->rule->owner < context->rule->owner;

        for (uint32_t j = 0; j < finding->claim_count && knows_more; j++) {
            const struct finding_claim *claim = &finding->claims[j];
            bool is_code = claim->kind == CLAIM_PYTHON || claim->kind == CLAIM_PEERS;

            if (claim->part == PART_OTHER)
                *(is_code ? &code : &ops) += claim->ns;
        }
    }
    return code + fmax(ops, in_ops(context));
}

struct between {
    double ns, error_ns;
};

static struct between other_between(const struct rule_context *context)
{
    const struct steps_summary *train = context->train;
    bool rare = train->typical.rare > 0;

    return (struct between){(rare ? train->typical.other_ns : train->other_ns) -
                                told_between(context, false),
                            rare ? train->typical.other_error_ns
                                 : train->other_error_ns};
}

/* A save in every 20th step makes the mean unsure, but not what the others have: beside what
 * comes now and then that is left with what most steps have. */
static struct between left_between(const struct rule_context *context)
{
    const struct rhythm *rhythm = &context->summary->rhythm;
    const struct ops_answer *cpu = &context->summary->cpu;
    bool gc = rhythm->gc.part == PART_OTHER && rhythm->gc.ns_per_step > 0;
    bool period = rhythm->period.part == PART_OTHER && rhythm->period.ns_per_step > 0;
    bool saves = cpu->saving_ns > 0 && cpu->saving_count < 0.5;

    if (!(gc || period) || isnan(rhythm->other_left_ns))
        return other_between(context);
    /* What comes at a period may be these checkpoints. */
    return (struct between){rhythm->other_left_ns - told_between(context, true) -
                                (saves && !period ? cpu->saving_ns : 0),
                            rhythm->other_left_error_ns};
}

static const char *const place_titles[] = {
    [AFTER_UPDATE] = "Code between the update and the next batch takes time",
    [BEFORE_UPDATE] = "Code between the backward and the update takes time",
    [BEFORE_FORWARD] = "Code between the batch and the forward pass takes time",
    [WITHOUT_LOADER] = "Code between the update and the next forward pass takes time",
};
/* After the update it is the framework's: SETTING_BETWEEN. */
static const char *const place_codes[] = {
    [BEFORE_UPDATE] = "gradient clipping, unscaling, reading gradients",
    [BEFORE_FORWARD] =
        "changing or moving the batch, evaluation or sampling without gradients",
    [WITHOUT_LOADER] = "making the batch, an environment, evaluation or sampling "
                       "without gradients, logging",
};

static void advise_after_update(struct rule_context *context, struct finding *finding)
{
    const char *loop = setting_text(context, SETTING_LOOP, NULL);

    if (context->summary->native) {
        rule_advise(finding, "Log and save every n-th step: `if (step % 50 == 0)`");
        rule_advise(
            finding,
            "What is the model's own work: say so with `trainglass_phase_begin`");
        return;
    }
    /* Lightning's loop takes some 0.6 ms of a batch whatever the model. Our callback in it
     * takes 12 us, a fiftieth: medians of 2,500 batches of one small layer on a busy
     * machine. */
    if (loop[0] != '\0')
        rule_advise_print(
            context, finding,
            "Larger batches are fewer: %s takes its time for each, large or small",
            loop);
    setting_advise(context, finding, SETTING_LOGGING, NULL, "");
    rule_advise(
        finding,
        "Collect numbers as tensors, and `.item()` them once per logging interval");
}

static void advise_place(struct rule_context *context, struct finding *finding,
                         enum place place)
{
    const char *own =
        "What is the model's own work: say so with `trainglass_phase_begin`";

    switch (place) {
    case AFTER_UPDATE:
        advise_after_update(context, finding);
        break;
    case BEFORE_UPDATE:
        rule_advise_in(context, finding,
                       "Clip all gradients at once: `clip_grad_norm_(parameters, 1.0, "
                       "foreach=True)`, and read the norm without `.item()`",
                       own);
        break;
    case BEFORE_FORWARD:
        rule_advise_in(context, finding,
                       "Move what is done to a batch into the data set or "
                       "`collate_fn`, where loader workers do it beside the training",
                       own);
        break;
    case WITHOUT_LOADER:
        rule_advise_in(
            context, finding,
            rule_print(
                context,
                "Make the next batch beside the training: %s, or a thread and a queue",
                setting_text(context, SETTING_WORKERS, "...")),
            own);
        rule_advise_in(context, finding,
                       "Say which code makes it: `with trainglass.phase(\"data\"):`",
                       own);
        break;
    }
}

/* What `zero_grad` and a loss that is read take of any step, and that of a small one: nobody
 * saves it. */
#define ANY_STEP_NS 1e6
#define ANY_STEP    0.05

/* What most steps have is found; what it costs is the mean: writing takes now more and now
 * less. A mean that single pauses make is not surely more than what most steps have: then
 * that is the price. */
static void find_between(struct rule_context *context)
{
    const struct steps_summary *train = context->train;
    const struct rhythm *rhythm = &context->summary->rhythm;
    double usual = rhythm->steps > 0 ? rhythm->median_other_ns : train->other_ns;
    double here = told_by_others(context);
    double most = usual - told_between(context, true) - here;
    struct between left = left_between(context);

    left.ns -= here;
    bool pauses = left.ns - left.error_ns < most; /* the mean is not surely more */
    double other = pauses ? most : fmax(most, left.ns);
    enum place place = place_of(context);
    double needed = fmin(ANY_STEP_NS, ANY_STEP * train->mean_ns);

    /* Beside a device this is where the host waits for it. */
    if (rule_has_device(context) || !is_looked_at(context, place) ||
        !rule_reaches(context, most - needed))
        return;
    struct finding *finding =
        rule_add_price(context, NULL, "other", other, left.error_ns);

    rule_price_between(finding, fmax(other - needed, 0), other);
    rule_claim_apart(finding, PART_OTHER, CLAIM_PYTHON, other);
    double told = here + (pauses ? 0 : fmax(train->other_ns - here - other, 0));
    const char *code = place == AFTER_UPDATE
                           ? setting_text(context, SETTING_BETWEEN, NULL)
                           : place_codes[place];

    finding->title = place_titles[place];
    finding->formula =
        rule_print(context, "%s in no phase of %s%s", rule_ms(context, other + told),
                   rule_ms(context, train->mean_ns),
                   told > 0.01 * other
                       ? rule_print(context, " - %s that other findings tell = %s",
                                    rule_ms(context, told), rule_ms(context, other))
                       : "");
    finding->sentence = rule_print(
        context,
        "%s of each step are neither data, forward, backward nor optimizer: %s",
        rule_ms(context, other), code);
    rule_evidence_ms(finding, "other_ms", other);
    rule_evidence_ms(finding, "median_other_ms", most);
    rule_evidence_ms(finding, "mean_other_ms", train->other_ns);
    rule_evidence_ms(finding, "before_forward_ms", rhythm->median_before_forward_ns);
    rule_evidence_ms(finding, "before_update_ms", rhythm->median_before_update_ns);
    advise_place(context, finding, place);
}

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
    finding->formula = rule_print(
        context,
        "%s of %s = %.0f %% of a step; what of it can be given back is not known",
        rule_ms(context, rest.sum_ns), rule_ms(context, step), 100 * share);
    finding->sentence =
        rule_print(context, "%s idles for %s of a step: %s", device->device,
                   rule_ms(context, rest.sum_ns), list_rest(context, rest));
    rule_evidence_text(context, finding, "device", device->device);
    rule_evidence_ms(finding, "idle_ms", rest.sum_ns);
    rule_evidence_ms(finding, "unknown_ms", rest.ns[GPU_IDLE_UNKNOWN]);
    rule_evidence_ms(finding, "step_ms", step);
    double unknown = rest.ns[GPU_IDLE_UNKNOWN];
    const struct hardware_row *row = rule_hardware(context, device);

    if (unknown >= rest.sum_ns / 2 && row != NULL && row->other_bytes > 0)
        rule_advise(finding, "Another process has memory on it, and while that one "
                             "computes this job waits: `nvidia-smi` names it");
    if (unknown >= rest.sum_ns / 2)
        rule_advise_in(
            context, finding,
            "Its work was launched, and began late: look in the trace of a step for "
            "streams that wait for each other (`wait_stream`, `wait_event`)",
            "Its work was launched, and began late: look in the trace of a step for "
            "streams that wait for each other (`cudaStreamWaitEvent()`)");
    if (finding->advice_count == 0 ||
        rest.sum_ns - unknown >= TOLD_SHARE * context->train->mean_ns)
        rule_advise(finding,
                    "Each of these is small by itself: the trace of a step shows where "
                    "it waits; a larger batch makes all of them rarer");
}

const struct rule rules_between_steps[] = {
    RULE("between-steps", find_between, OWNER_STEPS - 30,
         RULE_RECORDS | RULE_LEFT_OF_OTHER,
         "what is in no phase; what other findings tell of it",
         "step - data - forward - backward - optimizer - what other findings tell; "
         "told from that much more on than 1 ms, or than a twentieth of a small step",
         SHARE_OF_STEP(0.03, SMALLEST),
         .wrong_if = "The loop does work there that belongs to the model."),
    RULE("idle-rest", find_rest, OWNER_RISK + 1, RULE_SAMPLED,
         "idle time of devices by cause",
         "0: what of it can be given back is not known",
         SHARE(0.1,
               "share of the step, of unknown causes and of known ones that are too "
               "small for their own findings",
               "some three times what most single causes may stay below"),
         .wrong_if = "Some of its work was not recorded: then it was not idle."),
    {.told = {.id = NULL}},
};
