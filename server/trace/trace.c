#include "trace/trace.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <zlib.h>

#include "api/context.h"
#include "document/document.h"
#include "document/json.h"
#include "files/trace_files.h"
#include "query/status_query.h"
#include "query/window.h"
#include "trace/call_tree.h"
#include "trace/trace_writer.h"

#define TRACE_BYTES_MIN     1000000
#define TRACE_BYTES_MAX     INT64_C(64000000000)
#define TRACE_BYTES_DEFAULT INT64_C(4000000000)
/* An estimate writes about this many blocks to nowhere. */
#define ESTIMATE_BLOCKS 64u

struct trace_parameters {
    bool all_ranks, estimate, gzip, critical;
    int flame; /* enum flame_metric; -1: the trace itself */
    int64_t max_bytes;
    const char *window; /* as it was asked for; part of the file's name */
    const char *key;    /* by which parameter; NULL by none */
};

/* `last=10s`, `steps=a-b` and `step=n` are short forms of `window`. */
static void read_window(struct api_call *call, struct trace_parameters *parameters)
{
    static const struct {
        const char *key;
        enum window_kind kind;
        const char *expected;
    } forms[] = {{"window", WINDOW_DEFAULT, ""},
                 {"last", WINDOW_LAST_NS, "expected a length such as 10s"},
                 {"steps", WINDOW_STEPS, "expected a-b"}};
    struct window *window = &call->selection.window;
    const char *reason, *text;
    int64_t step;

    parameters->window = "";
    for (size_t i = 0; i < sizeof(forms) / sizeof(forms[0]); i++) {
        text = query_text(&call->query, forms[i].key);
        if (text == NULL)
            continue;
        if (*parameters->window != '\0')
            query_refuse(&call->query, forms[i].key, "one window, please");
        parameters->window = text;
        parameters->key = forms[i].key;
        if (window_parse(text, window, &reason) != 0)
            query_refuse(&call->query, forms[i].key, "%s", reason);
        else if (i > 0 && window->kind != forms[i].kind)
            query_refuse(&call->query, forms[i].key, "%s", forms[i].expected);
    }
    if (!query_number(&call->query, "step", 0, INT64_C(1) << 47, &step))
        return;
    if (*parameters->window != '\0')
        query_refuse(&call->query, "step", "one window, please");
    *window = (struct window){.kind = WINDOW_STEPS, .a = step, .b = step};
    parameters->window = query_text(&call->query, "step");
    parameters->key = "step";
}

static bool read_parameters(struct api_call *call, struct trace_parameters *parameters)
{
    static const char *const metrics[] = {
        [FLAME_CPU] = "cpu", [FLAME_DEVICE] = "device", NULL};
    const char *rank = query_text(&call->query, "rank");
    struct window window;

    *parameters = (struct trace_parameters){.max_bytes = TRACE_BYTES_DEFAULT};
    parameters->estimate = query_flag(&call->query, "estimate");
    parameters->gzip = query_flag(&call->query, "gzip");
    parameters->critical = query_flag(&call->query, "critical");
    parameters->flame = query_choice(&call->query, "flame", metrics, -1);
    (void)query_number(&call->query, "max_bytes", TRACE_BYTES_MIN, TRACE_BYTES_MAX,
                       &parameters->max_bytes);
    call->selection.window = (struct window){.kind = WINDOW_DEFAULT};
    read_window(call, parameters);
    window = call->selection.window;
    parameters->all_ranks = rank != NULL && strcmp(rank, "all") == 0;
    if (!api_select_trace(call, parameters->all_ranks))
        return false;
    call->selection.window = window;
    return true;
}

void document_answer(struct http_call *call, int status, cJSON *document)
{
    char *text = cJSON_PrintUnformatted(document);

    cJSON_Delete(document);
    if (text == NULL)
        http_refuse(call, 503, NULL, "out of memory");
    else
        http_answer(call, &(struct http_answer){
                              .status = status, .body = text, .size = strlen(text)});
    cJSON_free(text);
}

/* ---- where the bytes go ---------------------------------------------------------------- */

struct outlet {
    struct http_call *call; /* NULL: nowhere */
    z_stream *packer;       /* NULL: as they are */
    uint64_t packed;        /* bytes that the packer gave */
};

static bool outlet_packed(struct outlet *outlet, int flush)
{
    unsigned char room[32 * 1024];
    int result;

    do {
        outlet->packer->next_out = room;
        outlet->packer->avail_out = sizeof(room);
        result = deflate(outlet->packer, flush);
        if (result == Z_STREAM_ERROR)
            return false;
        size_t size = sizeof(room) - outlet->packer->avail_out;

        outlet->packed += size;
        if (size > 0 && outlet->call != NULL &&
            !http_stream_write(outlet->call, room, size))
            return false;
    } while (outlet->packer->avail_out == 0);
    return true;
}

static bool outlet_write(void *context, const void *data, size_t size)
{
    struct outlet *outlet = context;

    if (outlet->packer != NULL) {
        outlet->packer->next_in = (z_const Bytef *)(uintptr_t)data;
        outlet->packer->avail_in = (uInt)size;
        return outlet_packed(outlet, Z_NO_FLUSH);
    }
    return outlet->call == NULL || http_stream_write(outlet->call, data, size);
}

/* ---- answers --------------------------------------------------------------------------- */

static uint64_t count_blocks(const struct trace_answer *answer)
{
    uint64_t blocks = 0;

    for (uint32_t i = 0; i < answer->process_count; i++)
        blocks += answer->processes[i].block_count;
    return blocks;
}

/* What a full writing would come to, from one block in many. */
static struct trace_totals estimate(const struct trace_answer *answer,
                                    struct trace_limits limits, double *gzip_share)
{
    z_stream packer = {0};
    struct outlet outlet = {.packer = &packer};
    struct trace_sink sink = {outlet_write, &outlet};
    struct trace_totals totals = {0};

    *gzip_share = 1;
    limits.one_in = (uint32_t)(count_blocks(answer) / ESTIMATE_BLOCKS) + 1;
    limits.max_bytes = 0;
    if (deflateInit2(&packer, 1, Z_DEFLATED, 15 + 16, 8, Z_DEFAULT_STRATEGY) != Z_OK)
        return totals;
    totals = trace_write(answer, &limits, "{}", &sink);
    (void)outlet_packed(&outlet, Z_FINISH);
    deflateEnd(&packer);
    if (totals.bytes > 0)
        *gzip_share = (double)outlet.packed / (double)totals.bytes;
    uint64_t events = trace_count(answer, &limits);

    if (totals.events > 0)
        totals.bytes =
            (uint64_t)((double)totals.bytes * (double)events / (double)totals.events);
    totals.events = events;
    return totals;
}

static void answer_estimate(struct http_call *call, const struct trace_answer *answer,
                            const struct trace_limits *limits)
{
    cJSON *body = cJSON_CreateObject();
    double gzip_share;
    struct trace_totals totals = estimate(answer, *limits, &gzip_share);

    json_head(body, &answer->head);
    json_count(body, "steps", totals.steps);
    cJSON_DeleteItemFromObject(body, "recorded_steps");
    json_count(body, "recorded_steps", totals.recorded_steps);
    json_count(body, "events", totals.events);
    json_count(body, "bytes", totals.bytes);
    json_count(body, "gzip_bytes", (uint64_t)((double)totals.bytes * gzip_share));
    document_answer(call, 200, body);
}

static void answer_flame(struct http_call *call, const struct trace_answer *answer,
                         const struct trace_limits *limits, enum flame_metric metric)
{
    struct call_tree tree;
    cJSON *body = call_tree_build(&tree, answer, limits) == 0
                      ? call_tree_json(&tree, &answer->head, metric)
                      : NULL;

    if (body == NULL) {
        http_refuse(call, 503, NULL, "out of memory");
    } else {
        cJSON_AddBoolToObject(body, "forgot", answer->forgot);
        document_answer(call, 200, body);
    }
    call_tree_close(&tree);
}

static void clean_name(char *name)
{
    for (char *c = name + strspn(name, TRACE_FILES_PLAIN); *c != '\0';
         c += strspn(c, TRACE_FILES_PLAIN))
        *c++ = '_';
}

/* Shortens the window from its beginning until it fits: the newest is kept. */
static void shorten(const struct trace_answer *answer, struct trace_limits *limits)
{
    double gzip_share;
    struct trace_totals totals = estimate(answer, *limits, &gzip_share);
    double share;

    if (totals.bytes <= limits->max_bytes)
        return;
    share = 0.95 * (double)limits->max_bytes / (double)totals.bytes;
    limits->from_ns =
        limits->to_ns - (int64_t)((double)(limits->to_ns - limits->from_ns) * share);
}

static char *facts_text(struct api *api, const struct selection *selection)
{
    const struct status_session *session = NULL;
    struct status_answer status;
    char *text = NULL;

    if (status_query(api->store, selection, &status) == 0)
        session = status_session_find(&status, status.head.session);
    if (session != NULL) {
        cJSON *facts = status_facts_json(session);

        text = cJSON_PrintUnformatted(facts);
        cJSON_Delete(facts);
    }
    answer_free(&status.head);
    return text;
}

static void answer_trace(struct http_call *call, const struct trace_answer *answer,
                         const struct trace_parameters *parameters,
                         const struct trace_limits *limits, const char *facts)
{
    bool coded = !parameters->gzip && http_request(call)->accepts_gzip;
    bool packed = parameters->gzip || coded;
    z_stream packer = {0};
    struct outlet outlet = {.call = call, .packer = packed ? &packer : NULL};
    struct trace_sink sink = {outlet_write, &outlet};
    char name[160], headers[400];
    struct trace_totals totals;

    (void)snprintf(name, sizeof(name), "trainglass-%.64s-%s%d-%.40s.json%s",
                   answer->head.session, parameters->all_ranks ? "all" : "rank",
                   answer->head.rank < 0 ? 0 : answer->head.rank,
                   *parameters->window != '\0' ? parameters->window : "newest",
                   parameters->gzip ? ".gz" : "");
    clean_name(name);
    (void)snprintf(headers, sizeof(headers),
                   "Content-Disposition: attachment; filename=\"%s\"\r\n%s", name,
                   coded ? "Content-Encoding: gzip\r\nVary: Accept-Encoding\r\n" : "");
    if (packed &&
        deflateInit2(&packer, 1, Z_DEFLATED, 15 + 16, 8, Z_DEFAULT_STRATEGY) != Z_OK) {
        http_refuse(call, 503, NULL, "out of memory");
        return;
    }
    if (http_stream_begin(call, &(struct http_answer){.status = 200,
                                                      .type = parameters->gzip
                                                                  ? "application/gzip"
                                                                  : "application/json",
                                                      .headers = headers,
                                                      .chunked = true})) {
        totals = trace_write(answer, limits, facts, &sink);
        if (totals.whole && (!packed || outlet_packed(&outlet, Z_FINISH)))
            (void)http_stream_end(call);
    }
    if (packed)
        deflateEnd(&packer);
}

static void serve_answer(struct http_call *call, struct api_call *one,
                         const struct trace_parameters *parameters,
                         const struct trace_answer *answer)
{
    struct trace_limits limits = {.from_ns = answer->head.window.from_ns,
                                  .to_ns = answer->head.window.to_ns,
                                  .max_bytes = (uint64_t)parameters->max_bytes};
    struct replay_marks marks = {0};
    char *facts;

    if (limits.to_ns == answer->head.now_ns)
        limits.to_ns++; /* the newest event itself */
    if (parameters->estimate) {
        answer_estimate(call, answer, &limits);
        return;
    }
    if (parameters->flame >= 0) {
        answer_flame(call, answer, &limits, (enum flame_metric)parameters->flame);
        return;
    }
    if (http_request(call)->method == HTTP_HEAD) {
        http_answer(call, &(struct http_answer){.status = 200});
        return;
    }
    if (parameters->max_bytes != TRACE_BYTES_DEFAULT)
        shorten(answer, &limits);
    if (parameters->critical) {
        if (replay_marks(answer, &marks) != 0) {
            http_refuse(call, 503, NULL, "out of memory");
            replay_marks_free(&marks);
            return;
        }
        limits.critical = &marks;
    }
    facts = facts_text(one->api, &one->selection);
    answer_trace(call, answer, parameters, &limits, facts != NULL ? facts : "{}");
    cJSON_free(facts);
    replay_marks_free(&marks);
}

/* Steps or an epoch that are not there: a file without events helps nobody. */
static bool names_nothing(const struct selection *asked,
                          const struct trace_answer *answer)
{
    const struct answer_window *window = &answer->head.window;

    return (asked->window.kind == WINDOW_STEPS || asked->window.kind == WINDOW_EPOCH) &&
           window->to_ns == window->from_ns;
}

void trace_serve(struct http_call *call, void *context)
{
    struct api *api = &((struct server_context *)context)->api;
    struct api_call one = {.api = api, .status = 200};
    struct trace_parameters parameters;
    struct trace_request request = {0};
    struct trace_answer answer;
    const char *reason;
    int error;

    query_parse(&one.query, http_request(call)->query);
    if (!read_parameters(&one, &parameters)) {
        http_refuse(call, 400, one.query.field, one.query.error);
        return;
    }
    request.all_ranks = parameters.all_ranks;
    error = trace_query(api->store, &one.selection, &request, &answer);
    reason = answer.head.reason != NULL && *answer.head.reason != '\0'
                 ? answer.head.reason
                 : "nothing is remembered of this";
    if (error == 0 && !parameters.estimate && parameters.flame < 0 &&
        names_nothing(&one.selection, &answer))
        http_refuse(call, 404, parameters.key, reason);
    else if (api_answers(&one, error))
        serve_answer(call, &one, &parameters, &answer);
    else if (error == -ENOENT)
        http_refuse(call, 404, "session", reason);
    else if (error == -EINVAL)
        http_refuse(call, 400, "window", reason);
    else
        http_refuse(call, 503, NULL, "out of memory");
    trace_release(&answer);
}
