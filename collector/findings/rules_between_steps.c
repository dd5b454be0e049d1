/* Code between a step's phases: the place is known, and what other rules tell of it. It is
 * looked at after them. */
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
    [BEFORE_FORWARD] = "changing or moving the batch, evaluation or sampling without "
                       "gradients",
    [WITHOUT_LOADER] =
        "making the batch, an environment, evaluation or sampling without "
        "gradients, logging",
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
        rule_advise_print(context, finding,
                          "Larger batches are fewer: %s takes its time for "
                          "each, large or small",
                          loop);
    setting_advise(context, finding, SETTING_LOGGING, NULL, "");
    rule_advise(finding,
                "Collect numbers as tensors, and `.item()` them once per logging "
                "interval");
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
        rule_advise_in(
            context, finding,
            "Move what is done to a batch into the data set or `collate_fn`, "
            "where loader workers do it beside the training",
            own);
        break;
    case WITHOUT_LOADER:
        rule_advise_in(context, finding,
                       rule_print(context,
                                  "Make the next batch beside the training: %s, or a "
                                  "thread and a queue",
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
        !((most - needed) / train->mean_ns >= context->threshold))
        return;
    struct finding *finding = rule_add(context, NULL, "other");

    rule_price(context, finding, other, left.error_ns);
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
    finding->wrong_if = "The loop does work there that belongs to the model.";
    rule_evidence(finding, "other_ms", other / NS_PER_MS);
    rule_evidence(finding, "median_other_ms", most / NS_PER_MS);
    rule_evidence(finding, "mean_other_ms", train->other_ns / NS_PER_MS);
    rule_evidence(finding, "before_forward_ms",
                  rhythm->median_before_forward_ns / NS_PER_MS);
    rule_evidence(finding, "before_update_ms",
                  rhythm->median_before_update_ns / NS_PER_MS);
    advise_place(context, finding, place);
}

const struct rule rules_between_steps[] = {
    {{.id = "between-steps",
      .reads = "what is in no phase; what other findings tell of it",
      .formula =
          "step - data - forward - backward - optimizer - what other findings tell; "
          "told from that much more on than 1 ms, or than a "
          "twentieth of a small step",
      SHARE_OF_STEP(0.03, SMALLEST),
      .owner = OWNER_STEPS - 30,
      .records = true,
      .left_of_other = true},
     .find = find_between},
    {.find = NULL},
};
