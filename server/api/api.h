/* The endpoints: request -> query -> answer -> document (document/document.h).
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

#include "http/query.h"
#include "query/answer.h"
#include "report/report.h"

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
    struct collector *collector;       /* NULL: files alone */
    struct runs *runs;                 /* never NULL; may be switched off */
    struct judge *judge;               /* never NULL */
    struct replays *replays;           /* NULL: each question replays anew */
    struct trace_files *files;         /* never NULL */
    struct windows *windows;           /* never NULL */
    const char *directory, *state_dir; /* as in struct serve_options; borrowed */
    _Atomic uint32_t server_cpu_ppm;   /* of a core; written by the stream's thread */
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

/* A handler's last call, always: frees the answer. With a document: returns it, its numbers
 * with a unit null where there is no session. With NULL: the refusal that the query's -errno
 * and reason mean, 404 or 400; NULL out of memory. */
cJSON *api_finish(struct api_call *call, int error, struct answer *head,
                  cJSON *document);

api_handler api_status, api_steps, api_ops, api_memory, api_gpu, api_ranks;
api_handler api_overhead, api_host, api_bottlenecks, api_report, api_runs;
api_handler api_traces, api_windows, api_windows_ask, api_level, api_finding,
    api_compare, api_run, api_stacks, api_critical;

/* `text` of the parameter `format`; NULL is JSON. False when it is none of ours. */
bool api_report_format(const char *text, enum report_format *format);

#endif
