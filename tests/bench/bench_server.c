/* A server for bench_http.py to press on, in two manners:
 *
 *     bench_server hub 272    ours: http/, http/hub, a message of 2 KB ten times a second
 *     bench_server bare 272   CivetWeb alone: a thread per client that sleeps and writes
 *
 * Each message begins with CLOCK_MONOTONIC ns, so that the client knows its age. GET /4k
 * answers 4 KB: ours the way the server's own endpoints do, from the cache; CivetWeb alone
 * with one constant text. Prints its port, lives until its standard input ends. */
#include <civetweb.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "http/cache.h"
#include "http/http.h"
#include "http/hub.h"
#include "wire/clock.h"

#define MESSAGE_BYTES 2048u
#define TICK_NS       100000000u

static const char *const topics[] = {"points", NULL};

static struct {
    struct hub *hub;
    struct cache *cache;
} parts;

static void write_message(struct bytes *out)
{
    bytes_format(out, "%020" PRIu64, clock_ns(CLOCK_MONOTONIC));
    while (out->size < MESSAGE_BYTES)
        bytes_text(out, ",12345678");
}

static bool build(void *context, const char *key, unsigned topic, void **memory,
                  struct bytes *out)
{
    (void)context;
    (void)key;
    (void)topic;
    (void)memory;
    write_message(out);
    return false;
}

static void forget(void *context, void *memory)
{
    (void)context;
    (void)memory;
}

static void serve_stream(struct http_call *call, void *context)
{
    static const struct http_answer head = {.status = 200, .type = "text/event-stream"};
    struct hub_client *client = hub_join(parts.hub, "s", 1, "");
    struct bytes out = {0};
    bool alive = client != NULL && http_stream_begin(call, &head);

    (void)context;
    if (alive)
        hub_lend(client, http_stream_socket(call));
    while (alive) {
        out.size = 0;
        alive = hub_take(client, 10000, &out) > 0 &&
                http_stream_write(call, out.data, out.size);
    }
    if (client != NULL)
        hub_leave(client);
    bytes_close(&out);
}

static void serve_4k(struct http_call *call, void *context)
{
    static char body[4096];
    struct shared_bytes *whole = cache_get(parts.cache, "/4k", 0, 0);

    (void)context;
    if (whole == NULL) {
        memset(body, 'x', sizeof(body));
        whole = http_answer_bytes(
            call,
            &(struct http_answer){.status = 200, .body = body, .size = sizeof(body)});
        cache_put(parts.cache, "/4k", 0, 0, whole);
    }
    http_answer_shared(call, whole);
    shared_bytes_release(whole);
}

static void wait_for_the_end(uint16_t port)
{
    char byte;

    printf("%u\n", port);
    fflush(stdout);
    while (read(STDIN_FILENO, &byte, 1) > 0) {
    }
}

static int run_hub(uint32_t threads)
{
    static const struct http_route routes[] = {
        {.methods = HTTP_GET, .path = "/stream", .handler = serve_stream},
        {.methods = HTTP_GET, .path = "/4k", .handler = serve_4k}};
    struct hub_source source = {.topics = topics, .build = build, .forget = forget};
    struct http_options options = {
        .bind = "127.0.0.1",
        .threads = threads,
        .routes = routes,
        .route_count = 2,
        .policy = {
            .owner = geteuid(), .base_path = "", .allow_hosts = "", .allow_frame = ""}};
    struct http_server *server;
    char reason[200];

    parts.cache = cache_new();
    parts.hub = hub_start(&source, threads);
    if (parts.hub == NULL || http_start(&server, &options, reason, sizeof(reason)) != 0)
        return 1;
    wait_for_the_end(http_port(server));
    hub_stop(parts.hub);
    http_stop(server);
    hub_free(parts.hub);
    cache_free(parts.cache);
    return 0;
}

static int bare_stream(struct mg_connection *connection, void *context)
{
    static const char head[] = "HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\n"
                               "Connection: close\r\n\r\n";
    struct timespec next;
    struct bytes out = {0};

    (void)context;
    (void)mg_write(connection, head, sizeof(head) - 1);
    clock_gettime(CLOCK_MONOTONIC, &next);
    do {
        next.tv_nsec += TICK_NS;
        next.tv_sec += next.tv_nsec / 1000000000;
        next.tv_nsec %= 1000000000;
        clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &next, NULL);
        out.size = 0;
        bytes_text(&out, "data: ");
        write_message(&out);
        bytes_text(&out, "\n\n");
    } while (mg_write(connection, out.data, out.size) > 0);
    bytes_close(&out);
    return 200;
}

static struct {
    char data[4096 + 128];
    size_t size;
} bare_answer;

static void write_bare_answer(void)
{
    static const char head[] = "HTTP/1.1 200 OK\r\nContent-Type: text/plain\r\n"
                               "Content-Length: 4096\r\n\r\n";

    memcpy(bare_answer.data, head, sizeof(head) - 1);
    memset(bare_answer.data + sizeof(head) - 1, 'x', 4096);
    bare_answer.size = sizeof(head) - 1 + 4096;
}

static int bare_4k(struct mg_connection *connection, void *context)
{
    (void)context;
    (void)mg_write(connection, bare_answer.data, bare_answer.size);
    return 200;
}

static int run_bare(const char *threads)
{
    const char *options[] = {"listening_ports",
                             "127.0.0.1:0",
                             "num_threads",
                             threads,
                             "tcp_nodelay",
                             "1",
                             "enable_keep_alive",
                             "yes",
                             "keep_alive_timeout_ms",
                             "1000",
                             NULL};
    struct mg_callbacks callbacks = {0};
    struct mg_context *context = mg_start(&callbacks, NULL, options);
    struct mg_server_port port[1];

    if (context == NULL || mg_get_server_ports(context, 1, port) != 1)
        return 1;
    write_bare_answer();
    mg_set_request_handler(context, "/stream", bare_stream, NULL);
    mg_set_request_handler(context, "/4k", bare_4k, NULL);
    wait_for_the_end((uint16_t)port[0].port);
    return 0; /* the threads end with the process */
}

int main(int count, char **words)
{
    if (count == 3 && strcmp(words[1], "hub") == 0)
        return run_hub((uint32_t)strtoul(words[2], NULL, 10));
    if (count == 3 && strcmp(words[1], "bare") == 0)
        return run_bare(words[2]);
    fputs("bench_server hub|bare THREADS\n", stderr);
    return 2;
}
