#include "findings/findings.h"

#include <float.h>
#include <math.h>
#include <string.h>

#include "aggregate/sum.h"
#include "findings/rules.h"

/* A median of fewer says nothing. */
#define STEPS_NEEDED 10u

/* A trace holds what somebody chose to record, often a single step; every answer says of
 * how many steps it is. */
#define STEPS_NEEDED_OF_FILE 1u

/* In the order in which they are documented. */
static const struct rule *const tables[] = {
    rules_data,        rules_workers,      rules_steps,    rules_rhythm,
    rules_run,         rules_ops,          rules_host,     rules_calls,
    rules_gpu,         rules_copies,       rules_device,   rules_communication,
    rules_kernels,     rules_needless,     rules_hardware, rules_memory,
    rules_room,        rules_torch,        rules_ranks,    rules_watch,
    rules_between_ops, rules_between_steps};

#define TABLES (sizeof(tables) / sizeof(tables[0]))

/* The row of that number; NULL behind the last. */
static const struct rule *rule_at(uint32_t index)
{
    uint32_t count = 0;

    for (size_t i = 0; i < TABLES; i++)
        for (const struct rule *rule = tables[i]; rule->told.id != NULL; rule++)
            if (count++ == index)
                return rule;
    return NULL;
}

const struct finding_rule *findings_rule(uint32_t index)
{
    const struct rule *rule = index < RULES_MAX ? rule_at(index) : NULL;

    return rule == NULL ? NULL : &rule->told;
}

const struct finding_rule *findings_rule_of(const char *id)
{
    const struct finding_rule *rule;

    for (uint32_t i = 0; (rule = findings_rule(i)) != NULL; i++) {
        size_t length = strlen(rule->id);

        if (strncmp(id, rule->id, length) != 0)
            continue;
        if (id[length] == '\0' || (id[length] == '-' && strlen(id) == length + 9 &&
                                   strspn(id + length + 1, "0123456789abcdef") == 8))
            return rule;
    }
    return NULL;
}

/* Written once, before threads; NaN: the table's. */
static struct findings_settings configured;
static bool is_configured;

void findings_configure(const struct findings_settings *settings)
{
    configured = *settings;
    is_configured = true;
}

struct findings_settings findings_configured(void)
{
    struct findings_settings settings = configured;

    if (!is_configured)
        findings_settings_init(&settings);
    return settings;
}

void findings_settings_init(struct findings_settings *settings)
{
    *settings = (struct findings_settings){.relaxed = false};
    for (uint32_t i = 0; i < RULES_MAX; i++)
        settings->thresholds[i] = (double)NAN;
}

bool findings_settings_set(struct findings_settings *settings, const char *id,
                           double threshold)
{
    const struct finding_rule *rule;

    for (uint32_t i = 0; (rule = findings_rule(i)) != NULL; i++) {
        if (strcmp(rule->id, id) != 0)
            continue;
        settings->thresholds[i] = threshold;
        return true;
    }
    return false;
}

/* Risks of high severity stand where a fifth of a step would, one that is urgent before
 * all. */
static double rank_of(const struct finding *finding)
{
    if (finding->urgent)
        return (double)INFINITY;
    double least = finding->severity == FINDING_HIGH ? 0.2 : 0;

    return finding->share > least ? finding->share : least;
}

/* What differs by less than a thousandth of the step costs the same: then who explains it
 * best, and owns more of it, stands first. */
static bool stands_before(const struct finding *one, const struct finding *other)
{
    double rank = round(rank_of(one) * 1000), others = round(rank_of(other) * 1000);

    return rank > others || (rank == others && one->owned_ns > other->owned_ns);
}

static void sort_dearest_first(struct findings *findings)
{
    for (uint32_t i = 1; i < findings->count; i++) {
        struct finding moved = findings->list[i];
        uint32_t at = i;

        for (; at > 0 && stands_before(&moved, &findings->list[at - 1]); at--)
            findings->list[at] = findings->list[at - 1];
        findings->list[at] = moved;
    }
}

static double threshold_of(const struct findings_settings *settings, uint32_t index,
                           bool relaxed)
{
    const struct finding_rule *rule = findings_rule(index);
    double own = settings->thresholds[index];
    double threshold = isnan(own) ? rule->threshold : own;
    double stays = rule->stays > 0 ? rule->stays : FINDING_STAYS;

    /* At 0 whatever costs anything is told, and nothing that costs nothing. */
    return fmax(relaxed ? threshold * stays : threshold, DBL_MIN);
}

/* NaN: no rule has findings of that id. */
static double begins_at(const struct findings_settings *settings, const char *id)
{
    const struct finding_rule *wanted = findings_rule_of(id), *rule;
    uint32_t i = 0;

    while ((rule = findings_rule(i)) != NULL && rule != wanted)
        i++;
    return rule == NULL ? (double)NAN : threshold_of(settings, i, false);
}

double rule_threshold(const struct rule_context *context, const char *id)
{
    /* A relaxed look, too, leaves to others no more than they tell. */
    return begins_at(context->settings, id);
}

double findings_begin_at(const char *id)
{
    const struct findings_settings settings = findings_configured();
    const struct finding_rule *rule = findings_rule_of(id);

    return rule == NULL || strcmp(rule->unit, "share of the step") != 0
               ? (double)NAN
               : begins_at(&settings, id);
}

/* No fix gives back more than what it is about, or than the step that it lies in. */
static void cap_price(struct rule_context *context, struct finding *finding)
{
    double step = context->train->mean_ns, most = fmin(finding->takes_ns, step);
    double kept = most / finding->ns_per_step;

    if (finding->rule->outside)
        return;
    if (finding->high_ns > step) /* not where it is NaN */
        finding->high_ns = step;
    if (!(finding->ns_per_step > most))
        return;
    finding->ns_per_step = most;
    if (finding->low_ns > most)
        finding->low_ns = most;
    finding->error_ns *= kept;
    finding->share = most / step;
    if (finding->severity > rule_severity(finding->share))
        finding->severity = rule_severity(finding->share);
    finding->formula =
        rule_print(context, "%s, at most the %s that %s", finding->formula,
                   rule_ms(context, most), most < step ? "these take" : "a step takes");
}

/* Caps what the rule has found from `first` on; what is then below its threshold is none. */
static void cap_prices(struct rule_context *context, uint32_t first)
{
    struct findings *findings = context->findings;
    bool of_step = strcmp(context->rule->unit, "share of the step") == 0;
    uint32_t kept = first;

    for (uint32_t i = first; i < findings->count; i++) {
        struct finding *finding = &findings->list[i];
        double before = finding->ns_per_step, claimed = 0;

        cap_price(context, finding);
        for (uint32_t j = 0; j < finding->claim_count; j++)
            claimed += finding->claims[j].ns;
        /* Its claims are parts of its price. */
        for (uint32_t j = 0; claimed > finding->ns_per_step && j < finding->claim_count;
             j++)
            finding->claims[j].ns *= finding->ns_per_step / claimed;
        if (!(finding->ns_per_step < (double)SUM_MAX_NS))
            continue; /* of a sum that was held there */
        if (!of_step || !(finding->ns_per_step < before) ||
            finding->share >= context->threshold)
            findings->list[kept++] = *finding;
    }
    findings->count = kept;
}

static void find_on_each(struct rule_context *context, const struct rule *rule)
{
    const struct hardware_answer *hardware = &context->summary->hardware;
    const struct gpu_answer *gpu = &context->summary->gpu;

    for (uint32_t i = 0; i < hardware->row_count; i++) {
        const struct hardware_row *row = &hardware->rows[i];
        const struct gpu_device *device = NULL;

        for (uint32_t j = 0; device == NULL && j < gpu->device_count; j++)
            if (row->device != NULL && strcmp(gpu->devices[j].device, row->device) == 0)
                device = &gpu->devices[j];
        rule->on_hardware(context, row, device);
    }
}

/* What the row says of each finding of the rule, from `first` on. */
static void say_alike(struct rule_context *context, uint32_t first)
{
    const struct finding_rule *rule = context->rule;

    for (uint32_t i = first; i < context->findings->count; i++) {
        struct finding *finding = &context->findings->list[i];

        if (finding->title[0] == '\0' && rule->title != NULL)
            finding->title = rule->title;
        if (finding->wrong_if[0] == '\0' && rule->wrong_if != NULL)
            finding->wrong_if = rule->wrong_if;
        for (uint32_t j = 0; j < FINDING_ADVICE && rule->advice[j].torch != NULL; j++)
            rule_advise_in(context, finding, rule->advice[j].torch,
                           rule->advice[j].native);
    }
}

static void ask_rules(struct rule_context *context,
                      const struct findings_settings *settings)
{
    uint32_t index = 0;

    context->settings = settings;
    context->by_price = settings->relaxed || settings->by_price;
    for (size_t i = 0; i < TABLES; i++)
        for (const struct rule *rule = tables[i]; rule->told.id != NULL; rule++) {
            context->rule = &rule->told;
            context->about = rule->about;
            context->threshold = threshold_of(settings, index, settings->relaxed);
            context->stands_as_risk = settings->risks[index++];
            uint32_t first = context->findings->count;

            if (rule->find != NULL)
                rule->find(context);
            else
                find_on_each(context, rule);
            say_alike(context, first);
            cap_prices(context, first);
        }
}

/* One of the steps that a part of the price lies in, or whose ops a rule has read. */
static int64_t step_that_shows(const struct shown_steps *shown,
                               const struct finding *finding)
{
    bool data = finding->claim_count > 0 && finding->claims[0].part == PART_DATA;

    if (shown->first == NOT_KNOWN)
        return NOT_KNOWN;
    if (finding->worst_step != NOT_KNOWN)
        return finding->worst_step >= shown->first ? finding->worst_step : NOT_KNOWN;
    if (finding->rule->sampled)
        return shown->recorded;
    if (finding->claim_count == 0)
        return NOT_KNOWN;
    if (data)
        return shown->waited;
    return shown->recorded != NOT_KNOWN ? shown->recorded : shown->longest;
}

uint64_t findings_steps_needed(bool from_file)
{
    return from_file ? STEPS_NEEDED_OF_FILE : STEPS_NEEDED;
}

bool findings_are_sought(const struct bottlenecks_answer *summary)
{
    const struct steps_summary *train = &summary->steps.train;

    /* Of steps of no length, as a file may have them, nothing is a share. */
    return !summary->foreign &&
           train->count >= findings_steps_needed(summary->head.from_file) &&
           train->mean_ns > 0;
}

void findings_find(const struct bottlenecks_answer *summary,
                   const struct findings_settings *settings, struct findings *findings)
{
    struct finding spare;
    struct rule_context context = {.summary = summary,
                                   .train = &summary->steps.train,
                                   .findings = findings,
                                   .spare = &spare};
    struct findings_settings own = findings_configured();

    findings->arena = (struct arena){0};
    findings->list = NULL;
    findings->count = 0;
    findings->avoidable_ns = 0;
    findings->verdict = summary->foreign ? FINDINGS_FOREIGN : "";
    if (!findings_are_sought(summary))
        return;
    ask_rules(&context, settings != NULL ? settings : &own);
    findings_fit_device(summary, findings);
    for (uint32_t i = 0; i < findings->count; i++)
        findings->list[i].worst_step =
            step_that_shows(&summary->shown, &findings->list[i]);
    findings_settle(summary, findings);
    sort_dearest_first(findings);
}

static void copy_texts(struct arena *arena, struct finding *finding)
{
    finding->id = arena_text(arena, finding->id);
    finding->title = arena_text(arena, finding->title);
    finding->reason = arena_text(arena, finding->reason);
    finding->formula = arena_text(arena, finding->formula);
    finding->sentence = arena_text(arena, finding->sentence);
    finding->wrong_if = arena_text(arena, finding->wrong_if);
    for (uint32_t i = 0; i < finding->advice_count; i++)
        finding->advice[i] = arena_text(arena, finding->advice[i]);
    for (uint32_t i = 0; i < finding->op_count; i++)
        finding->ops[i] = arena_text(arena, finding->ops[i]);
}

void findings_add_copy(struct findings *to, const struct finding *finding)
{
    if (to->list == NULL)
        to->list = arena_new(&to->arena, FINDINGS_MAX, sizeof(*to->list));
    if (to->list == NULL || to->count == FINDINGS_MAX)
        return;
    struct finding *copy = &to->list[to->count++];

    *copy = *finding;
    copy_texts(&to->arena, copy);
    copy->evidence =
        arena_new(&to->arena, copy->evidence_count, sizeof(*copy->evidence));
    if (copy->evidence == NULL)
        copy->evidence_count = 0;
    for (uint32_t i = 0; i < copy->evidence_count; i++) {
        copy->evidence[i] = finding->evidence[i];
        if (copy->evidence[i].text != NULL)
            copy->evidence[i].text = arena_text(&to->arena, copy->evidence[i].text);
    }
    sort_dearest_first(to);
}

void findings_free(struct findings *findings)
{
    arena_free(&findings->arena);
    findings->list = NULL;
    findings->count = 0;
}
