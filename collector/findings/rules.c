/* What rules see, and how they say what they found. */
#include "findings/rules.h"

#include <math.h>
#include <string.h>

#include "query/numbers.h"

/* What stands in the job's memory may be any number: no count, time or share is negative,
 * and none is larger than a double holds to the last digit. */
#define FACT_MOST 9007199254740992.0

double rule_number(const struct rule_context *context, const char *key)
{
    for (uint32_t i = 0; i < context->summary->fact_count; i++) {
        const struct status_fact *fact = &context->summary->facts[i];

        if (strcmp(fact->key, key) == 0 && fact->type != WIRE_FACT_TEXT)
            return fact->number >= 0 && fact->number <= FACT_MOST ? fact->number
                                                                  : (double)NAN;
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

const char *const rule_parts[CLAIM_PARTS] = {"data", "forward", "backward", "optimizer",
                                             "other"};

enum claim_part rule_part_of(const char *name)
{
    for (uint32_t i = 0; i < CLAIM_PARTS; i++)
        if (strcmp(rule_parts[i], name) == 0)
            return i;
    return PART_OTHER;
}

const struct op_row *rule_row(const struct ops_answer *ops, const char *name)
{
    for (uint32_t i = 0; i < ops->judged_count; i++)
        if (strcmp(ops->rows[i].name, name) == 0)
            return &ops->rows[i];
    return NULL;
}

double rule_share(double part, double whole)
{
    return whole > 0 ? part / whole : (double)NAN;
}

const char *rule_digits(struct rule_context *context, double value)
{
    return rule_print(context, fabs(value) >= 999.5 ? "%.0f" : "%.3g", value);
}

const char *rule_workers(struct rule_context *context, double workers)
{
    return rule_print(context, workers == 1 ? "%.0f worker" : "%.0f workers", workers);
}

const char *rule_count(struct rule_context *context, double count, const char *noun)
{
    const char *digits = rule_digits(context, count);

    return rule_print(context, "%s %s%s", digits, noun,
                      strcmp(digits, "1") == 0 ? "" : "s");
}

const char *rule_times(struct rule_context *context, double times)
{
    const char *digits = rule_digits(context, times);

    return strcmp(digits, "1") == 0 ? "once" : rule_print(context, "%s times", digits);
}

const char *rule_memory(struct rule_context *context, double bytes)
{
    static const char *const units[] = {"KiB", "MiB", "GiB"};
    double value = bytes / 1024;
    uint32_t unit = 0;

    if (fabs(bytes) < 1023.5)
        return rule_print(context,
                          fabs(bytes) < 1.5 && fabs(bytes) >= 0.5 ? "%.0f byte"
                                                                  : "%.0f bytes",
                          bytes);
    for (; unit < 2 && fabs(value) >= 0.9995 * 1024; unit++)
        value /= 1024;
    return rule_print(context, "%s %s", rule_digits(context, value), units[unit]);
}

const char *rule_ms(struct rule_context *context, double ns)
{
    double ms = ns / NS_PER_MS;

    if (fabs(ms) >= 999.5)
        return rule_print(context, "%s s", rule_digits(context, ms / 1000));
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

struct finding *rule_add(struct rule_context *context, const char *subject,
                         const char *colour)
{
    struct findings *findings = context->findings;
    const struct answer_window *window = &context->summary->head.window;

    if (findings->list == NULL)
        findings->list =
            arena_new(&findings->arena, FINDINGS_MAX, sizeof(*findings->list));
    bool room = findings->list != NULL && findings->count < FINDINGS_MAX;
    struct finding *finding =
        room ? &findings->list[findings->count++] : context->spare;

    *finding = (struct finding){.id = context->rule->id,
                                .rule = context->rule,
                                .title = "",
                                .formula = "",
                                .sentence = "",
                                .wrong_if = "",
                                .reason = "",
                                .since_step = NOT_KNOWN,
                                .colour = colour,
                                .takes_ns = (double)NAN,
                                .first_step = window->first_step,
                                .last_step = window->last_step,
                                .worst_step = NOT_KNOWN};
    if (subject != NULL)
        finding->id =
            rule_print(context, "%s-%08x", context->rule->id, subject_hash(subject));
    if (room)
        finding->evidence = arena_new(&findings->arena, 12, sizeof(*finding->evidence));
    return finding;
}

void rule_price_between(struct finding *finding, double low_ns, double high_ns)
{
    double low = low_ns - finding->error_ns;

    finding->estimated = true;
    finding->low_ns = low < 0 ? 0 : low; /* NaN stays NaN */
    finding->high_ns = high_ns + finding->error_ns;
}

enum finding_severity rule_severity(double share)
{
    return share >= 0.2 ? FINDING_HIGH : share >= 0.05 ? FINDING_MEDIUM : FINDING_LOW;
}

void rule_price(struct rule_context *context, struct finding *finding, double ns,
                double error_ns)
{
    finding->ns_per_step = ns;
    finding->error_ns = error_ns;
    rule_price_between(finding, ns, ns);
    finding->estimated = false;
    finding->share = ns / context->train->mean_ns;
    finding->severity = rule_severity(finding->share);
}

void rule_price_half(struct rule_context *context, struct finding *finding,
                     double whole_ns, double error_ns)
{
    rule_price(context, finding, whole_ns / 2, error_ns / 2);
    rule_price_between(finding, whole_ns / 4, whole_ns * 3 / 4);
}

struct finding *rule_add_price(struct rule_context *context, const char *subject,
                               const char *colour, double ns, double error_ns)
{
    struct finding *finding = rule_add(context, subject, colour);

    rule_price(context, finding, ns, error_ns);
    return finding;
}

struct finding *rule_add_price_half(struct rule_context *context, const char *subject,
                                    const char *colour, double whole_ns,
                                    double error_ns)
{
    struct finding *finding = rule_add(context, subject, colour);

    rule_price_half(context, finding, whole_ns, error_ns);
    return finding;
}

struct finding *rule_add_risk(struct rule_context *context, const char *subject,
                              const char *colour, enum finding_severity severity)
{
    struct finding *finding = rule_add(context, subject, colour);

    rule_price(context, finding, 0, 0);
    finding->severity = severity;
    return finding;
}

struct finding *rule_add_open(struct rule_context *context, const char *subject,
                              const char *colour, enum finding_severity severity)
{
    struct finding *finding = rule_add_risk(context, subject, colour, severity);

    finding->open = true;
    return finding;
}

double rule_phase_ns(const struct rule_context *context, enum event_phase phase)
{
    const struct steps_summary *train = context->train;

    return train->typical.rare > 0 ? train->typical.phase_ns[phase]
                                   : train->phase_ns[phase];
}

double rule_before_forward_ns(const struct rule_context *context)
{
    const struct steps_summary *train = context->train;
    const struct rhythm *rhythm = &context->summary->rhythm;
    double usual = rhythm->steps > 0 ? rhythm->median_other_ns : train->other_ns;
    double update = rhythm->steps > 0 ? rhythm->median_before_update_ns : 0;
    double before = train->phase_ns[EVENT_PHASE_DATA] > 0
                        ? rhythm->median_before_forward_ns
                        : usual - (update > 0 ? update : 0);

    return before > 0 && !isnan(train->phase_ns[EVENT_PHASE_FORWARD]) ? before : 0;
}

double rule_error_of_phase(const struct rule_context *context, enum event_phase phase)
{
    const struct steps_summary *train = context->train;

    return train->typical.rare > 0 ? train->typical.phase_error_ns[phase]
                                   : train->phase_error_ns[phase];
}

double rule_error_of_step(const struct rule_context *context)
{
    const struct steps_summary *train = context->train;

    return train->typical.rare > 0 ? train->typical.error_ns
                                   : train->mean_ns * train->error_pct / 100;
}

bool rule_run_has_less(double run_part, double run_rest, double part, double rest)
{
    return run_rest > 0 && run_part / run_rest < part / rest;
}

struct steps_usual rule_usual(const struct steps_summary *train)
{
    return train->usual.count > 0
               ? train->usual
               : (struct steps_usual){train->count, train->mean_ns,
                                      train->typical.rare > 0
                                          ? 100 * train->typical.error_ns /
                                                train->mean_ns
                                          : train->error_pct};
}

/* The interval of `all` steps, as wide as that of so few of them. */
static double error_of_few(uint64_t all, double all_pct, uint64_t few)
{
    return few < 2 ? (double)NAN
                   : all_pct / 100 * sqrt((double)all / (double)few) *
                         numbers_t95(few) / numbers_t95(all);
}

static double step_error_pct(const struct rule_context *context)
{
    return 100 * rule_error_of_step(context) / context->train->mean_ns;
}

/* What the rare steps add to the time in which steps do not wait for data, as a share of it. */
static double rare_computing(const struct steps_summary *train)
{
    const struct steps_typical *typical = &train->typical;
    double data = train->phase_ns[EVENT_PHASE_DATA];
    double waits = data - typical->phase_ns[EVENT_PHASE_DATA];
    double over = train->mean_ns - typical->mean_ns - (isnan(waits) ? 0 : waits);
    double computing = train->mean_ns - (isnan(data) ? 0 : data);

    return typical->rare > 0 && over > 0 && computing > 0 ? fmin(over / computing, 1)
                                                          : 0;
}

double rule_error_of_recorded(const struct rule_context *context, double ns,
                              uint64_t recorded)
{
    const struct steps_summary *train = context->train;

    return ns * (error_of_few(train->count, step_error_pct(context), recorded) +
                 rare_computing(train));
}

double rule_error_of_kernels(const struct rule_context *context, double ns,
                             uint64_t recorded)
{
    struct steps_usual usual = rule_usual(context->train);

    return ns * (error_of_few(usual.count, usual.error_pct, recorded) +
                 rare_computing(context->train));
}

bool rule_reaches(const struct rule_context *context, double ns)
{
    return ns / context->train->mean_ns >= context->threshold;
}

double rule_least(const struct rule_context *context, double ns, double error_ns)
{
    return context->by_price || isnan(error_ns) ? ns : ns - error_ns;
}

double rule_taken_by_others(const struct rule_context *context)
{
    const struct load *load = &context->summary->load;
    double waits = load->delay_most > 0 ? load->delay_most : 0;
    double stolen = load->stolen_share > 0 ? load->stolen_share : 0;

    return (waits + stolen) * context->train->mean_ns;
}

void rule_claim(struct finding *finding, enum claim_part part, enum claim_kind kind,
                double ns)
{
    if (finding->claim_count < FINDING_CLAIMS && ns > 0)
        finding->claims[finding->claim_count++] =
            (struct finding_claim){.part = part, .kind = kind, .ns = ns};
}

void rule_claim_apart(struct finding *finding, enum claim_part part,
                      enum claim_kind kind, double ns)
{
    uint32_t before = finding->claim_count;

    rule_claim(finding, part, kind, ns);
    if (finding->claim_count > before)
        finding->claims[before].apart = true;
}

void rule_claim_model(struct rule_context *context, struct finding *finding,
                      enum claim_kind kind, double ns)
{
    double forward = context->train->phase_ns[EVENT_PHASE_FORWARD];
    double backward = context->train->phase_ns[EVENT_PHASE_BACKWARD];
    double before = rule_before_forward_ns(context), all = before + forward + backward;

    if (!(all > 0)) {
        rule_claim(finding, PART_FORWARD, kind, ns / 2);
        rule_claim(finding, PART_BACKWARD, kind, ns / 2);
        return;
    }
    rule_claim(finding, PART_OTHER, kind, ns * before / all);
    rule_claim(finding, PART_FORWARD, kind, ns * forward / all);
    rule_claim(finding, PART_BACKWARD, kind, ns * backward / all);
}

void rule_evidence(struct finding *finding, const char *key, double number)
{
    if (finding->evidence == NULL || finding->evidence_count == 12 || isnan(number))
        return;
    finding->evidence[finding->evidence_count++] =
        (struct finding_evidence){.key = key, .number = number};
}

void rule_evidence_ms(struct finding *finding, const char *key, double ns)
{
    rule_evidence(finding, key, ns / NS_PER_MS);
}

void rule_evidence_text(struct rule_context *context, struct finding *finding,
                        const char *key, const char *text)
{
    if (finding->evidence == NULL || finding->evidence_count == 12 || text[0] == '\0')
        return;
    finding->evidence[finding->evidence_count++] = (struct finding_evidence){
        .key = key, .text = arena_text(&context->findings->arena, text)};
}

void rule_advise_compile(struct rule_context *context, struct finding *finding,
                         const char *eager, const char *compiled)
{
    rule_advise(finding,
                rule_number(context, FACT_COMPILE_USED) > 0 ? compiled : eager);
}

void rule_advise_in(const struct rule_context *context, struct finding *finding,
                    const char *torch, const char *native)
{
    const char *advice = context->summary->native ? native : torch;

    if (advice != NULL)
        rule_advise(finding, advice);
}

void rule_advise(struct finding *finding, const char *advice)
{
    if (finding->advice_count < FINDING_ADVICE)
        finding->advice[finding->advice_count++] = advice;
}

void rule_pin(struct rule_context *context, struct finding *finding, const char *op)
{
    if (finding->op_count < FINDING_OPS)
        finding->ops[finding->op_count++] = arena_text(&context->findings->arena, op);
}

const char *rule_caller(struct rule_context *context, struct finding *finding,
                        const struct op_row *row)
{
    if (row->caller == NULL || row->caller[0] == '\0')
        return "";
    rule_evidence_text(context, finding, "caller", row->caller);
    return rule_print(context, ", mostly from `%s`", row->caller);
}
