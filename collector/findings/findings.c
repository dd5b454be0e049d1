#include "findings/findings.h"

#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "findings/rules.h"

/* A median of fewer says nothing. */
#define STEPS_NEEDED 10u

/* A trace holds what somebody chose to record, often a single step; every answer says of
 * how many steps it is. */
#define STEPS_NEEDED_OF_FILE 1u

#define TWENTIETH "a twentieth of the run, as for the data loader"

static const struct {
    struct finding_rule rule;
    rule_function *find;
} table[] = {
    {{"data-loading", "phase data; dataloader.*, cpu.count",
      "data - max(0, loading / workers - compute)", 0.05, "share of the step", 0, 1,
      "where PyTorch's TensorBoard plugin begins to warn of the data loader"},
     rule_data_loading},
    {{"unsteady-steps", "step times", "mean - median", 0.05, "share of the step", 0, 1,
      TWENTIETH},
     rule_unsteady_steps},
    {{"tiny-ops", "CPU ops below 10 us of self time; compile.used",
      "calls * min(self time of a call, 2 us)", 0.10, "share of the step", 0, 1,
      "the cost of a call is an estimate, so twice as much as of what is measured"},
     rule_tiny_ops},
    {{"optimizer-loop", "phase optimizer; optimizer.foreach, optimizer.fused",
      "optimizer / 2", 0.05, "share of the step", 0, 1, TWENTIETH},
     rule_optimizer_loop},
    {{"launch-bound", "idle time of devices by cause", "idle for this cause", 0.05,
      "share of the step", 0, 1, TWENTIETH},
     rule_launch_bound},
    {{"device-sync", "idle time of devices by cause", "idle for this cause", 0.05,
      "share of the step", 0, 1, TWENTIETH},
     rule_device_sync},
    {{"host-copies", "idle time of devices by cause", "idle for this cause", 0.05,
      "share of the step", 0, 1, TWENTIETH},
     rule_host_copies},
    {{"device-alloc", "idle time of devices by cause", "idle for this cause", 0.05,
      "share of the step", 0, 1, TWENTIETH},
     rule_device_alloc},
    {{"collective-wait", "idle time of devices by cause", "idle for this cause", 0.05,
      "share of the step", 0, 1, TWENTIETH},
     rule_collective_wait},
    {{"python-between-ops", "idle time of devices by cause", "idle for this cause",
      0.05, "share of the step", 0, 1, TWENTIETH},
     rule_python_between_ops},
    {{"validation-share", "time of validation batches",
      "validation per training step / 2", 0.20, "share of all step time", 0, 1,
      "what a validation set of the usual fifth costs after every epoch"},
     rule_validation_share},
    {{"memory-full", "peak and limit of each device and of the host", "0: a risk", 0.90,
      "share of the limit", 0, 1,
      "fragmentation and one larger batch take about a tenth"},
     rule_memory_full},
    {{"memory-growth", "lower envelope of allocated bytes", "0: a risk", 24.0,
      "hours until full, then it is grave", 1, 8760,
      "a run is left alone for a night and a day"},
     rule_memory_growth},
};

#define RULES (sizeof(table) / sizeof(table[0]))
_Static_assert(RULES <= FINDINGS_MAX, "the settings have a threshold for each");

const struct finding_rule *findings_rule(uint32_t index)
{
    return index < RULES ? &table[index].rule : NULL;
}

/* Written once, before threads; NaN: the table's. */
static struct findings_settings configured;
static bool is_configured;

void findings_configure(const struct findings_settings *settings)
{
    configured = *settings;
    is_configured = true;
}

void findings_settings_init(struct findings_settings *settings)
{
    for (uint32_t i = 0; i < FINDINGS_MAX; i++)
        settings->thresholds[i] = (double)NAN;
}

bool findings_settings_set(struct findings_settings *settings, const char *rule,
                           double threshold)
{
    for (uint32_t i = 0; i < RULES; i++) {
        if (strcmp(table[i].rule.id, rule) != 0)
            continue;
        settings->thresholds[i] = threshold;
        return true;
    }
    return false;
}

double rule_number(const struct rule_context *context, const char *key)
{
    for (uint32_t i = 0; i < context->summary->fact_count; i++) {
        const struct status_fact *fact = &context->summary->facts[i];

        if (strcmp(fact->key, key) == 0 && fact->type != WIRE_FACT_TEXT)
            return fact->number;
    }
    return (double)NAN;
}

const char *rule_text(const struct rule_context *context, const char *key)
{
    for (uint32_t i = 0; i < context->summary->fact_count; i++) {
        const struct status_fact *fact = &context->summary->facts[i];

        if (strcmp(fact->key, key) == 0 && fact->type == WIRE_FACT_TEXT)
            return fact->text;
    }
    return "";
}

const char *rule_print(struct rule_context *context, const char *format, ...)
{
    va_list arguments;
    char text[512];

    va_start(arguments, format);
    int length = vsnprintf(text, sizeof(text), format, arguments);
    va_end(arguments);
    return length < 0 ? "" : arena_text(&context->findings->arena, text);
}

const char *rule_ms(struct rule_context *context, double ns)
{
    double ms = ns / NS_PER_MS;

    if (fabs(ms) >= 999.5)
        return rule_print(context, "%.3g s", ms / 1000);
    return ms != 0 && fabs(ms) < 0.0995 ? rule_print(context, "%.3g us", ms * 1000)
                                        : rule_print(context, "%.3g ms", ms);
}

/* FNV-1a: an id must be the same in every run and every version. */
static uint32_t subject_hash(const char *subject)
{
    uint32_t h = 0x811c9dc5u;

    for (; *subject != '\0'; subject++)
        h = (h ^ (unsigned char)*subject) * 0x01000193u;
    return h;
}

struct finding *rule_add(struct rule_context *context, const char *rule,
                         const char *subject, const char *colour)
{
    struct findings *findings = context->findings;
    const struct answer_window *window = &context->summary->head.window;

    if (findings->count == FINDINGS_MAX)
        return NULL;
    struct finding *finding = &findings->list[findings->count++];

    *finding = (struct finding){.id = rule,
                                .title = "",
                                .formula = "",
                                .sentence = "",
                                .wrong_if = "",
                                .colour = colour,
                                .first_step = window->first_step,
                                .last_step = window->last_step,
                                .worst_step = NOT_KNOWN};
    if (subject != NULL)
        finding->id = rule_print(context, "%s-%08x", rule, subject_hash(subject));
    finding->evidence = arena_new(&findings->arena, 12, sizeof(*finding->evidence));
    return finding;
}

void rule_price(struct rule_context *context, struct finding *finding, double ns)
{
    finding->ns_per_step = ns;
    finding->share = ns / context->train->mean_ns;
    finding->severity = finding->share >= 0.2    ? FINDING_HIGH
                        : finding->share >= 0.05 ? FINDING_MEDIUM
                                                 : FINDING_LOW;
}

void rule_claim(struct rule_context *context, enum claim claim, double ns)
{
    context->claims[claim] = ns > context->claims[claim] ? ns : context->claims[claim];
}

void rule_evidence(struct rule_context *context, struct finding *finding,
                   const char *key, double number)
{
    (void)context;
    if (finding->evidence == NULL || finding->evidence_count == 12 || isnan(number))
        return;
    finding->evidence[finding->evidence_count++] =
        (struct finding_evidence){.key = key, .number = number};
}

void rule_evidence_text(struct rule_context *context, struct finding *finding,
                        const char *key, const char *text)
{
    if (finding->evidence == NULL || finding->evidence_count == 12 || text[0] == '\0')
        return;
    finding->evidence[finding->evidence_count++] = (struct finding_evidence){
        .key = key, .text = arena_text(&context->findings->arena, text)};
}

void rule_advise(struct finding *finding, const char *advice)
{
    if (finding->advice_count < FINDING_ADVICE)
        finding->advice[finding->advice_count++] = advice;
}

/* What may be given back of each part, but never more than the part has. */
static double avoidable(const struct rule_context *context)
{
    const struct steps_summary *train = context->train;
    double parts[CLAIMS] = {train->phase_ns[EVENT_PHASE_DATA],
                            train->phase_ns[EVENT_PHASE_FORWARD],
                            train->phase_ns[EVENT_PHASE_BACKWARD],
                            train->phase_ns[EVENT_PHASE_OPTIMIZER], train->other_ns};
    double sum = 0;

    for (uint32_t i = 0; i < CLAIMS; i++) {
        double most = isnan(parts[i]) ? train->mean_ns : parts[i];

        sum += context->claims[i] < most ? context->claims[i] : most;
    }
    return sum < train->mean_ns ? sum : train->mean_ns;
}

/* Risks of high severity stand where a fifth of a step would. */
static double rank_of(const struct finding *finding)
{
    double least = finding->severity == FINDING_HIGH ? 0.2 : 0;

    return finding->share > least ? finding->share : least;
}

static void sort_dearest_first(struct findings *findings)
{
    for (uint32_t i = 1; i < findings->count; i++) {
        struct finding moved = findings->list[i];
        uint32_t at = i;

        for (; at > 0 && rank_of(&findings->list[at - 1]) < rank_of(&moved); at--)
            findings->list[at] = findings->list[at - 1];
        findings->list[at] = moved;
    }
}

void findings_find(const struct bottlenecks_answer *summary,
                   const struct findings_settings *settings, struct findings *findings)
{
    struct rule_context context = {
        .summary = summary, .train = &summary->steps.train, .findings = findings};

    if (settings == NULL && is_configured)
        settings = &configured;
    findings->arena = (struct arena){0};
    findings->count = 0;
    findings->avoidable_ns = 0;
    uint64_t needed = summary->head.from_file ? STEPS_NEEDED_OF_FILE : STEPS_NEEDED;

    if (summary->steps.train.count < needed)
        return;
    for (uint32_t i = 0; i < RULES; i++) {
        double own = settings == NULL ? (double)NAN : settings->thresholds[i];

        context.threshold = isnan(own) ? table[i].rule.threshold : own;
        table[i].find(&context);
    }
    findings->avoidable_ns = avoidable(&context);
    sort_dearest_first(findings);
}

void findings_free(struct findings *findings)
{
    arena_free(&findings->arena);
    findings->count = 0;
}
