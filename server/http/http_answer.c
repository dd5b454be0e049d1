/* What a handler says: whole answers, refusals, streams. */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "http/head.h"
#include "http/http_inside.h"
#include "http/socket.h"

const struct http_request *http_request(const struct http_call *call)
{
    return &call->request;
}

bool http_closes(const struct http_call *call)
{
    return call->close;
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

void http_refuse_with(struct http_call *call, int status, const char *field,
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
    http_refuse_with(call, status, field, message,
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
    return socket_find(call->info->remote_addr, (uint16_t)call->info->remote_port,
                       call->server->options.policy.port);
}
