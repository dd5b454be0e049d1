/* Answers of the queries as JSON: what the endpoints, the stream, the run store and
 * `analyze --json` give out. A document is made of its answer alone. The caller deletes it; where
 * memory is short, members are missing. Each in the file of its name. */
#ifndef DOCUMENT_DOCUMENT_H
#define DOCUMENT_DOCUMENT_H

#include <cjson/cJSON.h>
#include <stdbool.h>
#include <stdint.h>

#include "aggregate/replay.h"
#include "findings/findings.h"
#include "findings/standing.h"
#include "query/answer.h"

struct status_answer;
struct status_session;
struct steps_answer;
struct steps_summary;
struct step_mean;
struct step_row;
struct ops_answer;
struct memory_answer;
struct gpu_answer;
struct ranks_answer;
struct overhead_answer;
struct host_answer;
struct bottlenecks_answer;
struct hardware_answer;
struct replay_answer;

#define JUDGEMENT_FIXED 8u

/* Findings with what the user and time made of them: judge/judge.h. */
struct judgement {
    struct findings findings; /* with what the user said; pinned ones first */
    struct standing_entry fixed[JUDGEMENT_FIXED]; /* newest first */
    uint32_t fixed_count;
    bool served; /* a server answers the requests that it names */
};

cJSON *status_json(const struct status_answer *answer);
cJSON *status_facts_json(const struct status_session *session);
cJSON *status_end_json(const struct status_session *session);
cJSON *steps_json(const struct steps_answer *answer);
cJSON *steps_summary_json(const struct steps_summary *summary);
cJSON *step_json(const struct step_row *row);
void add_steps_means_json(cJSON *body, const struct step_mean *means, uint32_t count);
cJSON *ops_json(const struct ops_answer *answer, const char *sort, const char *device);
cJSON *ops_list_json(const struct ops_answer *answer);
cJSON *memory_json(const struct memory_answer *answer);
/* For the stream: {"devices":[{device, points}], "host":{points}}, at most `max` points
 * of each; thins the answer's points. */
cJSON *memory_points_json(const struct memory_answer *answer, uint32_t max);
cJSON *gpu_json(const struct gpu_answer *answer);
cJSON *gpu_points_json(const struct gpu_answer *answer);
cJSON *ranks_json(const struct ranks_answer *answer);
cJSON *overhead_json(const struct overhead_answer *answer, double server_cpu_pct);
cJSON *host_json(const struct host_answer *answer);
/* With the findings of its numbers alone; with those of judge/judge.h. */
cJSON *bottlenecks_json(const struct bottlenecks_answer *answer);
cJSON *bottlenecks_judged_json(const struct bottlenecks_answer *answer,
                               const struct judgement *judgement);
/* "avoidable_ms", "findings", "dismissed" and "fixed". */
void add_findings_json(cJSON *body, const struct judgement *judgement,
                       const struct answer *head);

/* Adds "hardware": what the devices say of themselves. */
void add_hardware_json(cJSON *body, const struct hardware_answer *answer);

/* "replayed_steps", "step", "kinds", "path", "shares", "other_ms" and "what_if". */
void add_critical_path_json(cJSON *body, const struct replay_answer *answer);

#endif
