/* Where a step goes, what of it is avoidable, and the evidence. */
#include <string.h>

#include "document/document.h"
#include "document/json.h"
#include "findings/findings.h"
#include "query/bottlenecks_query.h"
#include "query/what_if.h"
#include "wire/words.h"

static void add_step(cJSON *body, const struct steps_summary *train)
{
    cJSON *part = cJSON_AddObjectToObject(body, "step_ms");

    json_ms(part, "mean", train->mean_ns);
    json_ms(part, "p50", train->p50_ns);
    json_ms(part, "p95", train->p95_ns);
    json_ms(part, "p99", train->p99_ns);
    json_ms(part, "std", train->std_ns);
    json_share(part, "error_pct", train->error_pct);
}

static void add_phases(cJSON *body, const struct steps_summary *train)
{
    cJSON *part = cJSON_AddObjectToObject(body, "phases");

    for (uint32_t i = 0; i < EVENT_PHASES; i++)
        json_percent(part, wire_phase_word(i), train->phase_share[i]);
    json_percent(part, "other", train->other_share);
}

static void add_peaks(cJSON *body, const struct bottlenecks_answer *answer)
{
    cJSON *list = cJSON_AddArrayToObject(body, "memory_peaks");

    for (uint32_t i = 0; i < answer->peak_count; i++) {
        cJSON *peak = json_row(list);

        json_text(peak, "device", answer->peaks[i].device);
        json_number(peak, "bytes", answer->peaks[i].bytes);
        json_stamp(peak, "time_ms", answer->peaks[i].time_ns);
        json_text(peak, "op", answer->peaks[i].op);
    }
}

/* Loading that was fixed within the window is hidden by now. */
static bool is_fixed(const struct judgement *judgement)
{
    for (uint32_t i = 0; i < judgement->fixed_count; i++)
        if (strcmp(judgement->fixed[i].id, "data-loading") == 0)
            return true;
    return false;
}

static void add_one(cJSON *list, enum replay_what_if what_if,
                    const struct what_if *answer)
{
    cJSON *one = json_row(list);

    json_text(one, "id", replay_what_if_name(what_if));
    json_text(one, "title", what_if_title(what_if));
    json_ms(one, "step_ms_low", answer->low_ns);
    json_ms(one, "step_ms_high", answer->high_ns);
    json_text(one, "from", answer->replayed > 0 ? "replay" : "phases");
    json_count(one, "replayed_steps", answer->replayed);
}

static void add_what_if(cJSON *body, const struct bottlenecks_answer *answer,
                        const struct judgement *judgement)
{
    cJSON *list = cJSON_AddArrayToObject(body, "what_if");
    struct what_if told;

    for (uint32_t i = 0; i < REPLAY_WHAT_IFS; i++) {
        enum replay_what_if what_if = (enum replay_what_if)i;

        if ((what_if != REPLAY_DATA_HIDDEN || !is_fixed(judgement)) &&
            what_if_told(answer, findings_loading_saves(answer), what_if, &told))
            add_one(list, what_if, &told);
    }
}

cJSON *bottlenecks_judged_json(const struct bottlenecks_answer *answer,
                               const struct judgement *judgement)
{
    cJSON *body = cJSON_CreateObject();

    json_head(body, &answer->head);
    json_count(body, "steps", answer->head.steps);
    add_step(body, &answer->steps.train);
    json_share(body, "steps_per_s", answer->steps.train.steps_per_s);
    json_share(body, "samples_per_s", answer->steps.train.samples_per_s);
    add_phases(body, &answer->steps.train);
    json_percent(body, "dataloader_time_pct", answer->dataloader_share);
    add_findings_json(body, judgement, &answer->head);
    add_what_if(body, answer, judgement);
    cJSON_AddItemToObject(body, "top_cpu_ops", ops_list_json(&answer->cpu));
    cJSON_AddItemToObject(body, "top_cuda_ops", ops_list_json(&answer->cuda));
    add_peaks(body, answer);
    return body;
}

cJSON *bottlenecks_json(const struct bottlenecks_answer *answer)
{
    struct judgement judgement = {.fixed_count = 0};
    cJSON *body;

    findings_find(answer, NULL, &judgement.findings);
    findings_settle(answer, &judgement.findings);
    body = bottlenecks_judged_json(answer, &judgement);
    findings_free(&judgement.findings);
    return body;
}
