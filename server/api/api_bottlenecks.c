/* GET /api/bottlenecks: where a step goes, what of it is avoidable, and the evidence. */
#include <string.h>

#include "api/api.h"
#include "api/json.h"
#include "findings/findings.h"
#include "judge/judge.h"
#include "judge/replays.h"
#include "query/bottlenecks_query.h"
#include "query/what_if.h"

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

    for (int i = 0; i < EVENT_PHASES; i++)
        json_percent(part, api_phase_names[i], train->phase_share[i]);
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

static cJSON *judged(struct judge *judge, struct runs *runs,
                     const struct selection *selection,
                     const struct bottlenecks_answer *answer)
{
    struct judgement judgement;
    cJSON *body;

    judge_findings(judge, runs, selection, answer, &judgement);
    body = bottlenecks_judged_json(answer, &judgement);
    judgement_free(&judgement);
    return body;
}

cJSON *bottlenecks_json(const struct bottlenecks_answer *answer)
{
    return judged(NULL, NULL, &(struct selection){.rank = SELECT_ANY}, answer);
}

cJSON *api_bottlenecks(struct api_call *call)
{
    struct bottlenecks_request request = {0};
    struct bottlenecks_answer answer;
    int64_t k = 10;
    cJSON *body;
    int error;

    (void)query_number(&call->query, "k", 1, OPS_K_MAX, &k);
    if (!api_select(call))
        return api_refused(call);
    request.k = (uint32_t)k;
    error = bottlenecks_query(call->api->store, &call->selection, &request, &answer);
    if (error == 0)
        replays_fill(call->api->replays, call->api->store, &call->selection, &answer);
    body =
        api_finish(call, error, &answer.head,
                   api_answers(call, error) ? judged(call->api->judge, call->api->runs,
                                                     &call->selection, &answer)
                                            : NULL);
    bottlenecks_free(&answer);
    return body;
}
