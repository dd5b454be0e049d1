#include <stdio.h>

#include "document/document.h"
#include "document/json.h"

/* Of a file's ranks a pid may be that of several: each may be of another machine. */
static void add_trace(cJSON *part, const struct answer *head, int64_t step)
{
    char whose[32] = "", trace[160];

    if (head->rank >= 0 && (head->from_file || head->pid == 0))
        snprintf(whose, sizeof(whose), "&rank=%d", head->rank);
    else if (head->pid != 0)
        snprintf(whose, sizeof(whose), "&pid=%u", head->pid);
    snprintf(trace, sizeof(trace), "/api/trace?session=%s%s&step=%lld", head->session,
             whose, (long long)step);
    json_text(part, "trace", trace);
}

static cJSON *evidence_json(const struct finding *finding, const struct answer *head,
                            bool served)
{
    cJSON *part = cJSON_CreateObject();

    json_text(part, "sentence", finding->sentence);
    for (uint32_t i = 0; i < finding->evidence_count; i++) {
        const struct finding_evidence *at = &finding->evidence[i];

        if (at->text != NULL)
            json_text(part, at->key, at->text);
        else
            json_number(part, at->key, at->number);
    }
    if ((finding->rule->sampled || finding->rule->records) && head->lost_events > 0)
        json_count(part, "lost_events", head->lost_events);
    if (finding->worst_step != NOT_KNOWN)
        json_integer(part, "worst_step", finding->worst_step);
    if (finding->worst_step != NOT_KNOWN && served)
        add_trace(part, head, finding->worst_step);
    return part;
}

static cJSON *finding_json(const struct finding *finding, const struct answer *head,
                           bool served)
{
    static const char *const severities[] = {"low", "medium", "high"};
    cJSON *part = cJSON_CreateObject();

    json_text(part, "id", finding->id);
    json_text(part, "title", finding->title);
    json_text(part, "severity", severities[finding->severity]);
    json_ms(part, "ms_per_step", finding->ns_per_step);
    json_ms(part, "ms_per_step_low", finding->low_ns);
    json_ms(part, "ms_per_step_high", finding->high_ns);
    json_ms(part, "avoidable_ms", finding->owned_ns);
    cJSON_AddBoolToObject(part, "open", finding->open);
    json_text(part, "confidence", finding->estimated ? "estimated" : "measured");
    json_share(part, "share", finding->share);
    json_text(part, "formula", finding->formula);
    cJSON_AddItemToObject(part, "evidence", evidence_json(finding, head, served));
    cJSON_AddItemToObject(
        part, "advice",
        cJSON_CreateStringArray(finding->advice, (int)finding->advice_count));
    json_text(part, "wrong_if", finding->wrong_if);
    json_text(part, "colour", finding->colour);
    if (finding->first_step != NOT_KNOWN)
        cJSON_AddItemToObject(
            part, "steps",
            JSON_NUMBERS((double)finding->first_step, (double)finding->last_step));
    cJSON_AddItemToObject(
        part, "ops", cJSON_CreateStringArray(finding->ops, (int)finding->op_count));
    if (finding->since_step != NOT_KNOWN)
        json_integer(part, "since_step", finding->since_step);
    if (finding->pinned)
        cJSON_AddTrueToObject(part, "pinned");
    if (finding->reason[0] != '\0')
        json_text(part, "reason", finding->reason);
    return part;
}

static cJSON *fixed_json(const struct standing_entry *fixed, const struct answer *head)
{
    cJSON *part = cJSON_CreateObject();

    json_text(part, "id", fixed->id);
    json_text(part, "title", fixed->title);
    json_ms(part, "ms_per_step", fixed->ns_per_step);
    json_integer(part, "since_step", fixed->since_step);
    json_integer(part, "fixed_step", fixed->fixed_step);
    json_ms(part, "age_ms", (double)(head->now_ns - fixed->fixed_ns));
    return part;
}

void add_findings_json(cJSON *body, const struct judgement *judgement,
                       const struct answer *head)
{
    const struct findings *findings = &judgement->findings;
    cJSON *open, *away, *fixed;

    json_ms(body, "avoidable_ms", findings->avoidable_ns);
    json_count(body, "steps_needed", findings_steps_needed(head->from_file));
    if (findings->verdict != NULL && findings->verdict[0] != '\0')
        json_text(body, "verdict", findings->verdict);
    open = cJSON_AddArrayToObject(body, "findings");
    away = cJSON_AddArrayToObject(body, "dismissed");
    fixed = cJSON_AddArrayToObject(body, "fixed");
    for (uint32_t i = 0; i < findings->count; i++)
        cJSON_AddItemToArray(findings->list[i].dismissed ? away : open,
                             finding_json(&findings->list[i], head, judgement->served));
    for (uint32_t i = 0; i < judgement->fixed_count; i++)
        cJSON_AddItemToArray(fixed, fixed_json(&judgement->fixed[i], head));
}
