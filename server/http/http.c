#include "http/http.h"

#include <arpa/inet.h>
#include <errno.h>
#include <netinet/in.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "http/http_inside.h"

/* Slow heads and single reads of a body end after this, CivetWeb's side. */
#define REQUEST_TIMEOUT_MS "5000"
/* An idle connection holds a thread; a page asks again within a second. */
#define KEEP_ALIVE_MS "1000"

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
    struct mg_callbacks callbacks = {.begin_request = http_dispatch,
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
    atomic_init(&server->last_viewer_ms, http_now_ms());
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
    return http_now_ms() -
           atomic_load_explicit(&server->last_viewer_ms, memory_order_relaxed);
}
