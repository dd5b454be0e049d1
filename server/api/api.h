/* The endpoints: each a file, each in two halves.
 *
 *     struct steps_answer  --steps_json()-->  cJSON        pure, for tests and --json
 *     request -> query -> steps_answer -> document         the handler
 *
 * A handler knows neither sockets nor CivetWeb: it gets checked parameters and returns
 * a document, with call->status set when it is not 200. Handlers run on any thread,
 * several at once; what they share is in struct api and says how.
 */
#ifndef API_API_H
#define API_API_H

#include <cjson/cJSON.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "aggregate/replay.h"
#include "http/query.h"
#include "query/answer.h"
#include "report/report.h"
#include "serve.h"

struct collector;
struct judge;
struct replays;
struct trace_files;
struct runs;
struct store;
struct windows;

/* What the handlers look at; made by serve_start(), lives as long as the server. */
struct api {
    struct store *store;
    struct collector *collector;         /* NULL: files alone */
    struct runs *runs;                   /* never NULL; may be switched off */
    struct judge *judge;                 /* never NULL */
    struct replays *replays;             /* NULL: each question replays anew */
    struct trace_files *files;           /* never NULL */
    struct windows *windows;             /* never NULL */
    const struct serve_options *options; /* borrowed */
    _Atomic uint32_t server_cpu_ppm;     /* of a core; written by the stream's thread */
    int64_t start_unix_ms;
};

struct api_call {
    struct api *api;
    struct query query;
    struct selection selection;
    const char *tail;  /* of the path; "" none */
    const cJSON *body; /* an object; NULL for GET */
    int status;        /* 200 unless the handler says otherwise */
};

/* Returns a document that the caller deletes; NULL means out of memory. */
typedef cJSON *api_handler(struct api_call *call);

/* Reads session, rank, pid and window into call->selection; false when one of them is
 * wrong, or when a parameter remains that nobody asked for: then api_refused(). */
MUST_CHECK bool api_select(struct api_call *call);

/* The same with how many points the answer's series may have: 2 to 10,000, else 600. */
MUST_CHECK bool api_select_points(struct api_call *call, uint32_t *points);

/* The same without window, which the caller read; `rank=all` is taken where it may be. */
MUST_CHECK bool api_select_trace(struct api_call *call, bool all_ranks);

/* The same for a POST, whose body may say session, rank and pid as well as its address. */
MUST_CHECK bool api_select_body(struct api_call *call);
bool api_is_selection(const char *member); /* is it one of those three? */

/* Is a body's member a number within these? */
bool api_in_range(const cJSON *item, double low, double high);

/* The refusal that call->query holds: 400. */
cJSON *api_refused(struct api_call *call);

/* {"error", "field"}; field may be NULL. */
cJSON *api_error(struct api_call *call, int status, const char *field,
                 const char *message);

/* Is there an answer? Nobody asked for a certain session and there is none: that is an
 * empty answer with its reason, not a refusal. */
bool api_answers(const struct api_call *call, int error);

/* The document of such an answer, without a session all that has a unit is null; else,
 * with NULL, what the query's -errno and reason mean: 404, 400 or NULL, out of memory.
 * Frees the answer. */
cJSON *api_finish(struct api_call *call, int error, struct answer *head,
                  cJSON *document);

api_handler api_status, api_steps, api_ops, api_memory, api_gpu, api_ranks;
api_handler api_overhead, api_host, api_bottlenecks, api_report, api_runs;
api_handler api_traces, api_windows, api_windows_ask, api_level, api_finding,
    api_compare, api_run, api_stacks, api_critical;

/* `text` of the parameter `format`; NULL is JSON. False when it is none of ours. */
bool api_report_format(const char *text, enum report_format *format);

struct status_answer;
struct status_session;
struct steps_answer;
struct steps_summary;
struct step_mean;
struct step_row;
struct ops_answer;
struct op_row;
struct memory_answer;
struct gpu_answer;
struct ranks_answer;
struct overhead_answer;
struct host_answer;
struct bottlenecks_answer;
struct judgement;
struct replay_answer;

cJSON *status_json(const struct status_answer *answer);
cJSON *status_facts_json(const struct status_session *session);
cJSON *status_end_json(const struct status_session *session);
cJSON *steps_json(const struct steps_answer *answer);
cJSON *steps_summary_json(const struct steps_summary *summary);
cJSON *step_json(const struct step_row *row);
void steps_means_json(cJSON *body, const struct step_mean *means, uint32_t count);
cJSON *ops_json(const struct ops_answer *answer, const char *sort, const char *device);
cJSON *ops_list_json(const struct ops_answer *answer);
cJSON *op_json(const struct op_row *row);
int ops_sort_of(const char *name);  /* enum ops_sort; -1 for no column */
int ops_group_of(const char *name); /* enum group_by; -1 for none */
cJSON *memory_json(const struct memory_answer *answer);
/* For the stream: {"devices":[{device, points}], "host":{points}}, at most `max` points
 * of each; thins the answer's points. */
cJSON *memory_points_json(const struct memory_answer *answer, uint32_t max);
cJSON *gpu_json(const struct gpu_answer *answer);
cJSON *gpu_points_json(const struct gpu_answer *answer);
cJSON *ranks_json(const struct ranks_answer *answer);
cJSON *overhead_json(const struct overhead_answer *answer, double server_cpu_pct);
cJSON *host_json(const struct host_answer *answer);
/* As its numbers are; and as it was judged (judge/judge.h). */
cJSON *bottlenecks_json(const struct bottlenecks_answer *answer);
cJSON *bottlenecks_judged_json(const struct bottlenecks_answer *answer,
                               const struct judgement *judgement);
/* "avoidable_ms", "findings", "dismissed" and "fixed". */
void add_findings_json(cJSON *body, const struct judgement *judgement,
                       const struct answer *head);

/* "replayed_steps", "step", "kinds", "path", "shares", "other_ms" and "what_if". */
void add_critical_path_json(cJSON *body, const struct replay_answer *answer);
/* A sentence's beginning: "..., a step would take". */
const char *what_if_title(enum replay_what_if what_if);

/* The session of that id; NULL when there is none. */
const struct status_session *api_session(const struct status_answer *status,
                                         const char *id);

/* In JSON; for other numbers wire/words.h. Phases: behind the last "other". */
extern const char *const api_phase_names[];
const char *api_state_name(int process_state); /* enum process_state */
const char *api_source_name(int source); /* enum wire_source, STATUS_SOURCE_NVML */

#endif
