#include "routes.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "aggregate/store.h"
#include "api/context.h"
#include "api/metrics.h"
#include "document/json.h"
#include "http/cache.h"
#include "openapi.h"
#include "stream/stream.h"
#include "trace/trace.h"
#include "web/assets.h"
#include "wire/clock.h"
#include "wire/segment.h"

/* JSON from here on is worth a gzip: 1 ms of CPU for 100 KB saved. */
#define GZIP_BYTES_MIN 16384u
/* Deeper than any request of ours; cJSON parses by recursion on a small stack. */
#define BODY_DEPTH_MAX 8

static http_handler serve_api, serve_report, serve_asset, serve_health, serve_metrics,
    serve_openapi;

const struct http_route routes[] = {
    {HTTP_GET, "/healthz", serve_health, NULL, HTTP_OPEN_TO_ALL},
    {HTTP_GET, "/metrics", serve_metrics, NULL, HTTP_USUAL},
    {HTTP_GET, "/openapi.json", serve_openapi, NULL, HTTP_USUAL},
    {HTTP_GET, "/api/stream", stream_serve, NULL, HTTP_USUAL},
    {HTTP_GET, "/api/trace", trace_serve, NULL, HTTP_LONG},
    {HTTP_GET, "/api/status", serve_api, api_status, HTTP_USUAL},
    {HTTP_GET, "/api/bottlenecks", serve_api, api_bottlenecks, HTTP_USUAL},
    {HTTP_GET, "/api/steps", serve_api, api_steps, HTTP_USUAL},
    {HTTP_GET, "/api/ops", serve_api, api_ops, HTTP_USUAL},
    {HTTP_GET, "/api/memory", serve_api, api_memory, HTTP_USUAL},
    {HTTP_GET, "/api/gpu", serve_api, api_gpu, HTTP_USUAL},
    {HTTP_GET, "/api/ranks", serve_api, api_ranks, HTTP_USUAL},
    {HTTP_GET, "/api/overhead", serve_api, api_overhead, HTTP_USUAL},
    {HTTP_GET, "/api/host", serve_api, api_host, HTTP_USUAL},
    {HTTP_GET, "/api/critical_path", serve_api, api_critical, HTTP_USUAL},
    {HTTP_GET, "/api/runs", serve_api, api_runs, HTTP_USUAL},
    {HTTP_GET, "/api/runs/*", serve_api, api_run, HTTP_USUAL},
    {HTTP_GET, "/api/report", serve_report, api_report, HTTP_USUAL},
    {HTTP_GET, "/api/traces", serve_api, api_traces, HTTP_USUAL},
    {HTTP_POST, "/api/traces", upload_serve, NULL, HTTP_UPLOAD},
    {HTTP_GET, "/api/traces/*", download_serve, NULL, HTTP_LONG},
    {HTTP_DELETE, "/api/traces/*", removal_serve, NULL, HTTP_USUAL},
    {HTTP_GET, "/api/windows", serve_api, api_windows, HTTP_USUAL},
    {HTTP_POST, "/api/windows", serve_api, api_windows_ask, HTTP_USUAL},
    {HTTP_POST, "/api/level", serve_api, api_level, HTTP_USUAL},
    {HTTP_POST, "/api/findings/*", serve_api, api_finding, HTTP_USUAL},
    {HTTP_GET, "/api/compare", serve_api, api_compare, HTTP_USUAL},
    {HTTP_POST, "/api/stacks", serve_api, api_stacks, HTTP_USUAL},
    {HTTP_GET, "/", serve_asset, NULL, HTTP_USUAL},
    {HTTP_GET, "/*", serve_asset, NULL, HTTP_USUAL},
};
const size_t route_count = sizeof(routes) / sizeof(routes[0]);

/* Brackets that are open at once, outside of strings, at most. */
static int body_depth(const char *body, size_t size)
{
    int depth = 0, deepest = 0;
    bool quoted = false;

    for (size_t i = 0; i < size; i++) {
        if (quoted && body[i] == '\\')
            i++;
        else if (body[i] == '"')
            quoted = !quoted;
        else if (!quoted && (body[i] == '{' || body[i] == '['))
            depth++;
        else if (!quoted && (body[i] == '}' || body[i] == ']'))
            depth--;
        if (depth > deepest)
            deepest = depth;
    }
    return deepest;
}

/* A JSON object and nothing behind it; NULL for anything else. */
static cJSON *parse_body(const struct http_request *request)
{
    const char *end = NULL;
    cJSON *body;

    if (body_depth(request->body, request->body_bytes) > BODY_DEPTH_MAX)
        return NULL;
    body = cJSON_ParseWithLengthOpts(request->body, request->body_bytes, &end, 0);
    if (body != NULL && cJSON_IsObject(body) &&
        strspn(end, " \t\r\n") == (size_t)(request->body + request->body_bytes - end))
        return body;
    cJSON_Delete(body);
    return NULL;
}

/* The answer that is `document`; NULL without memory, also where there is no document.
 * Takes it. */
static struct shared_bytes *document_bytes(struct http_call *call, cJSON *document,
                                           int status)
{
    char *text = document != NULL ? cJSON_PrintUnformatted(document) : NULL;
    struct http_answer answer = {.status = status, .body = text};
    struct shared_bytes *whole = NULL;
    struct bytes packed = {0};

    cJSON_Delete(document);
    if (text == NULL)
        return NULL;
    answer.size = strlen(text);
    if (answer.size >= GZIP_BYTES_MIN && http_request(call)->accepts_gzip &&
        bytes_gzip(&packed, text, answer.size)) {
        answer.headers = "Content-Encoding: gzip\r\nVary: Accept-Encoding\r\n";
        answer.body = packed.data;
        answer.size = packed.size;
    }
    whole = http_answer_bytes(call, &answer);
    bytes_close(&packed);
    cJSON_free(text);
    return whole;
}

/* Takes `whole`; NULL: there was no memory for it. */
static void answer_bytes(struct http_call *call, struct shared_bytes *whole)
{
    if (whole == NULL) {
        http_refuse(call, 503, NULL, "out of memory");
        return;
    }
    http_answer_shared(call, whole);
    shared_bytes_release(whole);
}

static void answer_api(struct http_call *call, struct server_context *parts,
                       const cJSON *body, const char *key)
{
    const struct http_request *request = http_request(call);
    uint64_t rev = store_rev(parts->api.store);
    struct api_call one = {
        .api = &parts->api, .status = 200, .body = body, .tail = request->tail};
    struct shared_bytes *whole;
    cJSON *document;

    query_parse(&one.query, request->query);
    document = request->document(&one);
    if (body != NULL)
        cache_forget(parts->cache);
    whole = document_bytes(call, document, one.status);
    if (whole != NULL && key != NULL && one.status == 200)
        cache_put(parts->cache, key, rev,
                  (int64_t)(clock_ns(CLOCK_MONOTONIC) / 1000000), whole);
    answer_bytes(call, whole);
}

static void serve_api(struct http_call *call, void *context)
{
    const struct http_request *request = http_request(call);
    struct server_context *parts = context;
    struct shared_bytes *whole;
    char key[CACHE_KEY_BYTES];
    cJSON *body;

    if (request->method == HTTP_POST) {
        body = parse_body(request);
        if (body == NULL)
            http_refuse(call, 400, NULL, "expected a JSON object");
        else
            answer_api(call, parts, body, NULL);
        cJSON_Delete(body);
        return;
    }
    /* The lists of files and windows change after the tables did. */
    if (request->document == api_traces || request->document == api_windows ||
        request->method == HTTP_HEAD || http_closes(call) ||
        snprintf(key, sizeof(key), "%d%s?%s", request->accepts_gzip, request->path,
                 request->query != NULL ? request->query : "") >= (int)sizeof(key)) {
        answer_api(call, parts, NULL, NULL);
        return;
    }
    whole = cache_get(parts->cache, key, store_rev(parts->api.store),
                      (int64_t)(clock_ns(CLOCK_MONOTONIC) / 1000000));
    if (whole == NULL)
        answer_api(call, parts, NULL, key);
    else
        answer_bytes(call, whole);
}

/* A document to read: styled by itself, and nothing else in it does anything. */
static void answer_report(struct http_call *call, const cJSON *report,
                          enum report_format format)
{
    char *text = NULL;
    size_t size = 0;

    if (report_render(report, format, &text, &size) != 0)
        http_refuse(call, 503, NULL, "out of memory");
    else
        http_answer(call,
                    &(struct http_answer){
                        .status = 200,
                        .type = format == REPORT_HTML ? "text/html; charset=utf-8"
                                                      : "text/markdown; charset=utf-8",
                        .policy = "default-src 'none'; style-src 'unsafe-inline'; "
                                  "frame-ancestors 'none'; sandbox",
                        .body = text,
                        .size = size});
    free(text);
}

static void serve_report(struct http_call *call, void *context)
{
    struct server_context *parts = context;
    struct api_call one = {.api = &parts->api, .status = 200, .tail = ""};
    enum report_format format;
    cJSON *report;

    query_parse(&one.query, http_request(call)->query);
    if (!api_report_format(query_text(&one.query, "format"), &format) ||
        format == REPORT_JSON) {
        serve_api(call, context);
        return;
    }
    report = json_readable(api_report(&one));
    if (report != NULL && one.status == 200)
        answer_report(call, report, format);
    else
        serve_api(call, context); /* says what is wrong */
    cJSON_Delete(report);
}

static void serve_asset(struct http_call *call, void *context)
{
    const struct http_request *request = http_request(call);
    const struct web_asset *asset = web_asset_find(request->tail);
    struct http_answer answer = {.status = 200, .revalidate = true};
    char headers[200];
    bool packed;

    (void)context;
    if (asset == NULL) {
        http_refuse(call, 404, NULL, "no such address");
        return;
    }
    packed = asset->gzip != NULL && request->accepts_gzip;
    (void)snprintf(headers, sizeof(headers), "ETag: %s\r\nVary: Accept-Encoding\r\n%s",
                   asset->etag, packed ? "Content-Encoding: gzip\r\n" : "");
    answer.type = asset->content_type;
    answer.policy = asset->policy;
    answer.headers = headers;
    if (strcmp(request->if_none_match, asset->etag) == 0) {
        answer.status = 304;
    } else {
        answer.body = packed ? asset->gzip : asset->bytes;
        answer.size = packed ? asset->gzip_size : asset->size;
    }
    http_answer(call, &answer);
}

static void serve_health(struct http_call *call, void *context)
{
    const struct server_context *parts = context;
    const char *directory = parts->api.directory;
    cJSON *body = cJSON_CreateObject();

    cJSON_AddStringToObject(body, "name", "trainglass");
    cJSON_AddStringToObject(body, "version", TRAINGLASS_VERSION);
    json_count(body, "uid", geteuid());
    json_count(body, "pid", (uint64_t)getpid());
    json_text(body, "directory", directory != NULL ? directory : "");
    json_count(body, "layout_major", WIRE_MAJOR);
    answer_bytes(call, document_bytes(call, body, 200));
}

static void serve_metrics(struct http_call *call, void *context)
{
    struct server_context *parts = context;
    struct bytes text = {0};

    metrics_write(&parts->api, &text);
    if (text.failed)
        http_refuse(call, 503, NULL, "out of memory");
    else
        http_answer(call, &(struct http_answer){
                              .status = 200,
                              .type = "text/plain; version=0.0.4; charset=utf-8",
                              .body = text.data,
                              .size = text.size});
    bytes_close(&text);
}

static void serve_openapi(struct http_call *call, void *context)
{
    (void)context;
    http_answer(call, &(struct http_answer){.status = 200,
                                            .body = openapi_text,
                                            .size = openapi_size,
                                            .revalidate = true});
}
