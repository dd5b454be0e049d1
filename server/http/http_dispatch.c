/* From CivetWeb's request to the handler of its route: whose it is, whether it may, and its
 * body. What is refused here never reaches a handler. */
#include <grp.h>
#include <pwd.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>
#include <unistd.h>

#include "http/head.h"
#include "http/http_inside.h"
#include "http/peer.h"
#include "http/router.h"

/* A whole body: with one last read, that CivetWeb ends after 5 s, still under 10 s. */
#define BODY_DEADLINE_NS INT64_C(4000000000)
/* Half of the threads that are kept for requests: readers that stop reading hold one
 * each, and leave the rest to everybody else. */
#define LONG_AT_ONCE 8u

static bool is_member(uid_t uid, gid_t group)
{
    struct passwd entry, *found = NULL;
    gid_t groups[256];
    int count = 256;
    char text[4096];

    if (getpwuid_r(uid, &entry, text, sizeof(text), &found) != 0 || found == NULL)
        return false;
    if (getgrouplist(entry.pw_name, entry.pw_gid, groups, &count) < 0)
        return false;
    for (int i = 0; i < count; i++) {
        if (groups[i] == group)
            return true;
    }
    return false;
}

/* Asked once per connection: who opened it does not change. */
static struct http_peer *peer_of(struct http_call *call)
{
    struct http_peer *peer = mg_get_user_connection_data(call->connection);
    uid_t uid;

    if (peer == NULL || peer->asked)
        return peer;
    peer->asked = true;
    peer->known = peer_uid(call->info->remote_addr, (uint16_t)call->info->remote_port,
                           call->server->options.policy.port, &uid);
    if (!peer->known)
        return peer;
    peer->uid = uid;
    if (call->server->options.any_group && is_member(uid, getegid()))
        peer->uid = call->server->options.policy.owner;
    return peer;
}

static const char *header_or_empty(const struct security_request *request,
                                   const char *name)
{
    size_t count;
    const char *value = security_header_find(request, name, &count);

    return count == 1 ? value : "";
}

static void answer_token(struct http_call *call)
{
    struct bytes headers = {0};

    head_token(&call->server->options.policy, call->request.path, call->request.query,
               &headers);
    bytes_append(&headers, "", 1);
    http_answer(call,
                &(struct http_answer){.status = 302,
                                      .headers = headers.failed ? NULL : headers.data});
    bytes_close(&headers);
}

/* Reads the whole body within the deadline. */
static int read_body(struct http_call *call, struct bytes *body)
{
    int64_t deadline = (int64_t)clock_ns(CLOCK_MONOTONIC) + BODY_DEADLINE_NS;
    size_t size = call->request.body_bytes;
    char *room = bytes_reserve(body, size + 1);

    if (room == NULL)
        return 503;
    while (body->size < size) {
        ssize_t got = http_body_read(call, room + body->size, size - body->size);

        if (got <= 0 || (int64_t)clock_ns(CLOCK_MONOTONIC) > deadline)
            return 408;
        body->size += (size_t)got;
    }
    room[size] = '\0';
    return 0;
}

/* An upload's handler reads the body; for others it is small and whole. */
static void dispatch(struct http_call *call, const struct http_route *route,
                     const struct security_request *request)
{
    bool upload = route->manner == HTTP_UPLOAD;
    struct bytes body = {0};
    int status = 0;

    call->body = (struct body){
        .left = request->content_length > 0 ? (uint64_t)request->content_length : 0,
        .begun_ns = (int64_t)clock_ns(CLOCK_MONOTONIC),
        .socket = upload ? http_stream_socket(call) : -1,
        .expect = upload &&
                  strcasecmp(header_or_empty(request, "Expect"), "100-continue") == 0,
        .interim = strcmp(call->info->http_version, "1.1") == 0};
    call->request.body_bytes = (size_t)call->body.left;
    if (!upload) {
        status = read_body(call, &body);
        call->request.body = body.data;
    }
    if (status == 0) {
        route->handler(call, call->server->options.context);
    } else {
        call->close = true;
        http_refuse(call, status, NULL,
                    status == 408 ? "the body took too long" : "out of memory");
    }
    bytes_close(&body);
}

static void dispatch_long(struct http_call *call, const struct http_route *route,
                          const struct security_request *request)
{
    _Atomic uint32_t *count = &call->server->long_answers;

    /* Relaxed: a number, and nothing that it stands for. */
    if (atomic_fetch_add_explicit(count, 1, memory_order_relaxed) < LONG_AT_ONCE)
        dispatch(call, route, request);
    else
        http_refuse(call, 503, NULL, "too many traces are being read: try again");
    atomic_fetch_sub_explicit(count, 1, memory_order_relaxed);
}

/* A request that is refused leaves its body unread: the connection ends with it. */
static void refuse_request(struct http_call *call,
                           const struct security_verdict *verdict)
{
    call->close = true;
    if (verdict->status == 302) {
        answer_token(call);
        return;
    }
    http_refuse_with(call, verdict->status, verdict->field, verdict->message,
                     verdict->status == 401 ? "WWW-Authenticate: Bearer\r\n" : NULL);
}

static void route_request(struct http_call *call,
                          const struct security_request *request)
{
    struct http_server *server = call->server;
    struct router_match match =
        router_find(server->options.routes, server->options.route_count,
                    call->request.path, call->request.method);
    struct security_request judged = *request;
    struct security_verdict verdict;
    char allow[64], line[80];

    judged.open_to_all = match.route != NULL && match.route->manner == HTTP_OPEN_TO_ALL;
    if (match.route != NULL && match.route->manner == HTTP_UPLOAD)
        judged.upload_bytes_max = server->options.upload_bytes_max;
    verdict = security_judge(&server->options.policy, &judged);
    if (verdict.status == 415 && match.methods != 0 && match.route == NULL)
        verdict.status = 0; /* the wrong method is the better answer */
    if (verdict.status != 0) {
        refuse_request(call, &verdict);
    } else if (match.route == NULL && match.methods != 0) {
        call->close = true;
        router_allow(match.methods, allow, sizeof(allow));
        (void)snprintf(line, sizeof(line), "Allow: %s\r\n", allow);
        http_refuse_with(call, 405, NULL, "this address takes other methods", line);
    } else if (match.route == NULL) {
        call->close = true;
        http_refuse(call, 404, NULL, "no such address");
    } else {
        if (match.route->manner != HTTP_OPEN_TO_ALL)
            atomic_store_explicit(&server->last_viewer_ms, http_now_ms(),
                                  memory_order_relaxed);
        call->request.tail = match.tail;
        call->request.document = match.route->document;
        if (match.route->manner == HTTP_LONG)
            dispatch_long(call, match.route, request);
        else
            dispatch(call, match.route, request);
    }
}

int http_dispatch(struct mg_connection *connection)
{
    const struct mg_request_info *info = mg_get_request_info(connection);
    struct http_call call = {.connection = connection, .info = info};
    struct security_header headers[MG_MAX_HEADERS];
    struct security_request request = {.headers = headers,
                                       .query = info->query_string,
                                       .content_length = info->content_length};
    struct http_peer *peer;

    call.server = mg_get_user_data(mg_get_context(connection));
    call.close = strcmp(info->http_version, "1.1") != 0;
    for (int i = 0; i < info->num_headers; i++)
        headers[i] = (struct security_header){info->http_headers[i].name,
                                              info->http_headers[i].value};
    request.header_count = (size_t)info->num_headers;
    request.method = info->request_method;
    call.request.method = security_method(info->request_method);
    if (info->local_uri_raw == NULL || info->num_headers >= MG_MAX_HEADERS) {
        call.close = true;
        http_refuse(&call, 400, NULL, "malformed request");
        return call.status;
    }
    request.path =
        security_strip_base(call.server->options.policy.base_path, info->local_uri_raw);
    peer = peer_of(&call);
    request.peer_known = peer != NULL && peer->known;
    request.peer = request.peer_known ? peer->uid : 0;
    call.request.path = request.path;
    call.request.query = info->query_string;
    call.request.tail = "";
    call.request.accepts_gzip =
        head_accepts_gzip(header_or_empty(&request, "Accept-Encoding"));
    call.request.if_none_match = header_or_empty(&request, "If-None-Match");
    call.request.last_event_id = header_or_empty(&request, "Last-Event-ID");
    call.request.host = header_or_empty(&request, "Host");
    if (peer != NULL)
        seats_serve(&call.server->seats, &peer->seat, (uint16_t)info->remote_port);
    route_request(&call, &request);
    if (peer != NULL)
        seats_serve(&call.server->seats, &peer->seat, 0);
    return call.status != 0 ? call.status : 500;
}
