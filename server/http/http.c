#include "http/http.h"

#include <arpa/inet.h>
#include <civetweb.h>
#include <errno.h>
#include <grp.h>
#include <inttypes.h>
#include <netinet/in.h>
#include <pwd.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/socket.h>
#include <unistd.h>

#include "http/body.h"
#include "http/head.h"
#include "http/peer.h"
#include "http/router.h"
#include "http/seats.h"
#include "wire/clock.h"

/* Slow heads and single reads of a body end after this, CivetWeb's side. */
#define REQUEST_TIMEOUT_MS "5000"
/* A whole body: with one last read of the timeout above still under 10 s. */
#define BODY_DEADLINE_NS INT64_C(4000000000)
/* Half of the threads that are kept for requests: readers that stop reading hold one
 * each, and leave the rest to everybody else. */
#define LONG_AT_ONCE 8u
/* An idle connection holds a thread; a page asks again within a second. */
#define KEEP_ALIVE_MS "1000"

struct http_server {
    struct mg_context *context;
    struct http_options options;
    struct seats seats;
    _Atomic uint32_t long_answers;  /* that are being read now */
    _Atomic int64_t last_viewer_ms; /* written by every thread, read by http_idle_ms */
};

/* One connection; who it is, is known after its first request. */
struct http_peer {
    struct seat seat;
    bool asked, known;
    uid_t uid;
};

struct http_call {
    struct http_server *server;
    struct mg_connection *connection;
    const struct mg_request_info *info;
    struct http_request request;
    bool close;       /* the connection ends with this answer */
    bool chunked;     /* a stream that says where it ends */
    int status;       /* of the answer; 0 before */
    struct body body; /* of an upload; else nothing is left in it */
};

static int64_t now_ms(void)
{
    return (int64_t)(clock_ns(CLOCK_MONOTONIC) / 1000000);
}

const struct http_request *http_request(const struct http_call *call)
{
    return &call->request;
}

bool http_closes(const struct http_call *call)
{
    return call->close;
}

ssize_t http_body_read(struct http_call *call, void *data, size_t size)
{
    return body_read(&call->body, call->connection, data, size);
}

static void send_all(struct http_call *call, const void *data, size_t size)
{
    if (call->close)
        mg_disable_connection_keep_alive(call->connection);
    /* A client that is gone needs no answer. */
    (void)mg_write(call->connection, data, size);
}

static void write_whole(const struct http_call *call, const struct http_answer *answer,
                        struct bytes *out)
{
    head_write(&call->server->options.policy, answer, call->close, out);
    if (answer->status != 304)
        bytes_format(out, "Content-Length: %zu\r\n", answer->size);
    bytes_append(out, "\r\n", 2);
    if (call->request.method != HTTP_HEAD)
        bytes_append(out, answer->body, answer->size);
}

void http_answer(struct http_call *call, const struct http_answer *answer)
{
    struct bytes out = {0};

    call->status = answer->status;
    call->close = call->close || call->body.left > 0;
    write_whole(call, answer, &out);
    if (out.failed)
        call->close = true;
    send_all(call, out.data, out.failed ? 0 : out.size);
    bytes_close(&out);
}

struct shared_bytes *http_answer_bytes(const struct http_call *call,
                                       const struct http_answer *answer)
{
    struct shared_bytes *shared = NULL;
    struct bytes out = {0};

    write_whole(call, answer, &out);
    if (!out.failed)
        shared = shared_bytes_new(out.data, out.size);
    bytes_close(&out);
    return shared;
}

void http_answer_shared(struct http_call *call, const struct shared_bytes *whole)
{
    size_t size;
    const char *data = shared_bytes_data(whole, &size);

    call->status = 200;
    send_all(call, data, size);
}

static void refuse_with(struct http_call *call, int status, const char *field,
                        const char *message, const char *headers)
{
    struct bytes body = {0};

    bytes_text(&body, "{\"error\":");
    bytes_json(&body, message, strlen(message), 256);
    if (field != NULL && *field != '\0') {
        bytes_text(&body, ",\"field\":");
        bytes_json(&body, field, strlen(field), 64);
    }
    bytes_text(&body, "}\n");
    http_answer(call, &(struct http_answer){.status = status,
                                            .headers = headers,
                                            .body = body.data,
                                            .size = body.size});
    bytes_close(&body);
}

void http_refuse(struct http_call *call, int status, const char *field,
                 const char *message)
{
    refuse_with(call, status, field, message,
                status == 503 ? "Retry-After: 5\r\n" : NULL);
}

static bool write_fully(struct http_call *call, const void *data, size_t size)
{
    const char *at = data;

    while (size > 0) {
        size_t part = size < INT32_MAX ? size : INT32_MAX;
        int sent = mg_write(call->connection, at, part);

        if (sent <= 0)
            return false;
        at += sent;
        size -= (size_t)sent;
    }
    return true;
}

bool http_stream_begin(struct http_call *call, const struct http_answer *answer)
{
    bool old = strcmp(call->info->http_version, "1.1") != 0; /* knows no chunks */
    struct bytes out = {0};
    bool sent;

    call->close = true;
    call->status = answer->status;
    call->chunked = answer->chunked && !old;
    mg_disable_connection_keep_alive(call->connection);
    head_write(&call->server->options.policy, answer, true, &out);
    bytes_text(&out, call->chunked ? "Transfer-Encoding: chunked\r\n\r\n" : "\r\n");
    sent = !out.failed && write_fully(call, out.data, out.size);
    bytes_close(&out);
    return sent;
}

bool http_stream_write(struct http_call *call, const void *data, size_t size)
{
    char line[24];

    if (size == 0)
        return true;
    if (!call->chunked)
        return write_fully(call, data, size);
    (void)snprintf(line, sizeof(line), "%zx\r\n", size);
    return write_fully(call, line, strlen(line)) && write_fully(call, data, size) &&
           write_fully(call, "\r\n", 2);
}

bool http_stream_end(struct http_call *call)
{
    return !call->chunked || write_fully(call, "0\r\n\r\n", 5);
}

int http_stream_socket(const struct http_call *call)
{
    if (call->chunked || call->info->is_ssl)
        return -1;
    return peer_socket(call->info->remote_addr, (uint16_t)call->info->remote_port,
                       call->server->options.policy.port);
}

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

/* Reads the whole body within the deadline. One byte at a time: mg_read() of more does
 * not return while a byte now and then keeps coming. Bodies are a few hundred bytes. */
static int read_body(struct http_call *call, size_t size, struct bytes *body)
{
    int64_t deadline = (int64_t)clock_ns(CLOCK_MONOTONIC) + BODY_DEADLINE_NS;
    char *room = bytes_reserve(body, size + 1);

    if (room == NULL)
        return 503;
    while (body->size < size) {
        if (mg_read(call->connection, room + body->size, 1) != 1)
            return 408;
        body->size++;
        if ((int64_t)clock_ns(CLOCK_MONOTONIC) > deadline)
            return 408;
    }
    room[size] = '\0';
    return 0;
}

/* The handler reads the body; expect: the client waits to be told to send it. */
static void dispatch_upload(struct http_call *call, const struct router_match *match,
                            bool expect)
{
    call->request.body_bytes = (size_t)call->info->content_length;
    body_begin(&call->body, call->request.body_bytes, http_stream_socket(call), expect);
    match->route->handler(call, call->server->options.context);
}

static void dispatch(struct http_call *call, const struct router_match *match)
{
    struct bytes body = {0};
    size_t size =
        call->info->content_length > 0 ? (size_t)call->info->content_length : 0;
    int status = read_body(call, size, &body);

    if (status != 0) {
        call->close = true;
        http_refuse(call, status, NULL,
                    status == 408 ? "the body took too long" : "out of memory");
    } else {
        call->request.body = body.data;
        call->request.body_bytes = body.size;
        match->route->handler(call, call->server->options.context);
    }
    bytes_close(&body);
}

static void dispatch_long(struct http_call *call, const struct router_match *match)
{
    _Atomic uint32_t *count = &call->server->long_answers;

    /* Relaxed: a number, and nothing that it stands for. */
    if (atomic_fetch_add_explicit(count, 1, memory_order_relaxed) < LONG_AT_ONCE)
        dispatch(call, match);
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
    refuse_with(call, verdict->status, verdict->field, verdict->message,
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
        refuse_with(call, 405, NULL, "this address takes other methods", line);
    } else if (match.route == NULL) {
        call->close = true;
        http_refuse(call, 404, NULL, "no such address");
    } else {
        if (match.route->manner != HTTP_OPEN_TO_ALL)
            atomic_store_explicit(&server->last_viewer_ms, now_ms(),
                                  memory_order_relaxed);
        call->request.tail = match.tail;
        call->request.tag = match.route->tag;
        if (match.route->manner == HTTP_UPLOAD)
            dispatch_upload(
                call, &match,
                strcasecmp(header_or_empty(request, "Expect"), "100-continue") == 0);
        else if (match.route->manner == HTTP_LONG)
            dispatch_long(call, &match);
        else
            dispatch(call, &match);
    }
}

static int begin_request(struct mg_connection *connection)
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
        seats_wait(&call.server->seats, &peer->seat);
    return call.status != 0 ? call.status : 500;
}

/* CivetWeb's own refusals (what never became a request) in our words. */
static int refuse_malformed(struct mg_connection *connection, int status,
                            const char *message)
{
    struct http_call call = {.connection = connection, .close = true};

    (void)message;
    call.server = mg_get_user_data(mg_get_context(connection));
    http_refuse(&call, status, NULL, "malformed request");
    return 0;
}

static int open_peer(const struct mg_connection *connection, void **data)
{
    struct http_server *server = mg_get_user_data(mg_get_context(connection));
    struct http_peer *peer = calloc(1, sizeof(*peer));

    *data = peer;
    if (peer != NULL)
        seats_take(&server->seats, &peer->seat, server->options.policy.port);
    return 0;
}

/* As CivetWeb's connection_close: at connection_closed it has forgotten our data. */
static void close_peer(const struct mg_connection *connection)
{
    struct http_server *server = mg_get_user_data(mg_get_context(connection));
    struct http_peer *peer = mg_get_user_connection_data(connection);

    if (peer != NULL)
        seats_leave(&server->seats, &peer->seat);
    free(peer);
    mg_set_user_connection_data(connection, NULL);
}

static int keep_quiet(const struct mg_connection *connection, const char *message)
{
    (void)connection;
    (void)message;
    return 1;
}

/* CivetWeb cannot say why it did not start: try the port first, or choose a free one.
 * Known before the first request can come. */
static int try_port(const struct http_options *options, uint16_t *port, char *reason,
                    size_t bytes)
{
    struct sockaddr_in address = {.sin_family = AF_INET,
                                  .sin_port = htons(options->port)};
    socklen_t size = sizeof(address);
    int one = 1, error = 0;
    int probe = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);

    if (probe < 0)
        return -errno;
    if (inet_pton(AF_INET, options->bind, &address.sin_addr) != 1) {
        (void)snprintf(reason, bytes, "%s is not an IPv4 address", options->bind);
        close(probe);
        return -EINVAL;
    }
    (void)setsockopt(probe, SOL_SOCKET, SO_REUSEADDR, &one, sizeof(one));
    if (bind(probe, (struct sockaddr *)&address, size) != 0 || listen(probe, 1) != 0 ||
        getsockname(probe, (struct sockaddr *)&address, &size) != 0) {
        error = -errno;
        (void)snprintf(reason, bytes, "cannot listen on %s:%u: %s", options->bind,
                       options->port, strerror(-error));
    }
    *port = ntohs(address.sin_port);
    close(probe);
    return error;
}

/* No log_access: with it CivetWeb formats a line for every request. */
static struct mg_context *start_civetweb(struct http_server *server)
{
    struct mg_callbacks callbacks = {.begin_request = begin_request,
                                     .http_error = refuse_malformed,
                                     .init_connection = open_peer,
                                     .connection_close = close_peer,
                                     .log_message = keep_quiet};
    char ports[64], threads[16];
    /* No document_root: nothing of the disk is ever served. */
    const char *options[] = {"listening_ports",
                             ports,
                             "num_threads",
                             threads,
                             "request_timeout_ms",
                             REQUEST_TIMEOUT_MS,
                             "enable_keep_alive",
                             "yes",
                             "keep_alive_timeout_ms",
                             KEEP_ALIVE_MS,
                             "tcp_nodelay",
                             "1",
                             "decode_url",
                             "no",
                             "enable_directory_listing",
                             "no",
                             "access_control_allow_origin",
                             "",
                             "access_control_allow_methods",
                             "",
                             "access_control_allow_headers",
                             "",
                             "connection_queue",
                             "128",
                             NULL};

    (void)snprintf(ports, sizeof(ports), "%s:%u", server->options.bind,
                   server->options.policy.port);
    (void)snprintf(threads, sizeof(threads), "%u", server->options.threads);
    return mg_start(&callbacks, server, options);
}

int http_start(struct http_server **out, const struct http_options *options,
               char *reason, size_t reason_bytes)
{
    struct http_server *server = calloc(1, sizeof(*server));
    const char *why;
    int error = -ENOMEM;

    *out = NULL;
    (void)snprintf(reason, reason_bytes, "out of memory");
    if (server == NULL)
        return -ENOMEM;
    server->options = *options;
    seats_open(&server->seats, options->threads);
    atomic_init(&server->last_viewer_ms, now_ms());
    atomic_init(&server->long_answers, 0);
    error = security_policy_check(&options->policy, &why);
    if (error != 0) {
        (void)snprintf(reason, reason_bytes, "%s", why);
        goto fail;
    }
    error = try_port(options, &server->options.policy.port, reason, reason_bytes);
    if (error != 0)
        goto fail;
    mg_init_library(MG_FEATURES_DEFAULT);
    server->context = start_civetweb(server);
    if (server->context == NULL) {
        (void)snprintf(reason, reason_bytes, "cannot listen on %s:%u", options->bind,
                       server->options.policy.port);
        error = -EADDRINUSE;
        goto fail;
    }
    *out = server;
    return 0;
fail:
    http_stop(server);
    return error;
}

void http_stop(struct http_server *server)
{
    if (server == NULL)
        return;
    if (server->context != NULL)
        mg_stop(server->context);
    seats_close(&server->seats);
    free(server);
}

uint16_t http_port(const struct http_server *server)
{
    return server->options.policy.port;
}

int64_t http_idle_ms(const struct http_server *server)
{
    return now_ms() -
           atomic_load_explicit(&server->last_viewer_ms, memory_order_relaxed);
}
