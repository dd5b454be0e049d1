#include <errno.h>
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cmocka.h>

#include "http/hub.h"

enum { SLOW, FAST };

static const char *const topics[] = {"slow", "fast", NULL};

static struct {
    int fast_events; /* built per tick */
    bool reset;      /* the next build of FAST breaks with the past */
    int remembered;  /* memories that are not forgotten */
    uint64_t counter;
} script;

static bool build(void *context, const char *key, unsigned topic, void **memory,
                  struct bytes *out)
{
    bool reset = topic == FAST && script.reset;

    (void)context;
    if (*memory == NULL) {
        *memory = malloc(1);
        script.remembered++;
    }
    if (topic == SLOW || script.fast_events > 0)
        bytes_format(out, "{\"key\":\"%s\",\"n\":%llu}", key,
                     (unsigned long long)++script.counter);
    if (reset)
        script.reset = false;
    return reset;
}

static void forget(void *context, void *memory)
{
    (void)context;
    free(memory);
    script.remembered--;
}

static struct hub *open_hub(uint32_t clients_max)
{
    struct hub_source source = {
        .topics = topics, .slow_topics = 1u << SLOW, .build = build, .forget = forget};

    memset(&script, 0, sizeof(script));
    script.fast_events = 1;
    return hub_new(&source, clients_max);
}

static int take(struct hub_client *client, char *text, size_t size)
{
    struct bytes out = {0};
    int taken = hub_take(client, 0, &out);

    (void)snprintf(text, size, "%.*s", (int)out.size, out.size > 0 ? out.data : "");
    bytes_close(&out);
    return taken;
}

/* The id of the last event in `text`. */
static void last_id(const char *text, char *id)
{
    const char *at = text, *found = NULL;

    while ((at = strstr(at, "\nid: ")) != NULL)
        found = at += 5;
    assert_non_null(found);
    (void)sscanf(found, "%40[0-9-]", id);
}

static void two_clients_of_a_session_get_the_same_bytes(void **state)
{
    struct hub *hub = open_hub(4);
    struct hub_client *a = hub_join(hub, "s", 3, ""), *b = hub_join(hub, "s", 3, "");
    char first[4096], second[4096];

    (void)state;
    hub_tick(hub);
    assert_int_equal(take(a, first, sizeof(first)), 2);
    assert_int_equal(take(b, second, sizeof(second)), 2);
    assert_string_equal(first, second);
    assert_int_equal(script.counter, 2);
    assert_non_null(strstr(first, "event: slow\nid: "));
    assert_non_null(strstr(first, "event: fast\nid: "));
    hub_leave(a);
    hub_leave(b);
    hub_free(hub);
    assert_int_equal(script.remembered, 0);
}

static void a_client_gets_only_the_topics_it_asked_for(void **state)
{
    struct hub *hub = open_hub(4);
    struct hub_client *both = hub_join(hub, "s", 3, "");
    struct hub_client *fast = hub_join(hub, "s", 1u << FAST, "");
    char text[4096];

    (void)state;
    hub_tick(hub);
    assert_int_equal(take(fast, text, sizeof(text)), 1);
    assert_null(strstr(text, "event: slow"));
    hub_leave(both);
    hub_leave(fast);
    hub_free(hub);
}

static void a_newcomer_gets_the_newest_word_of_each_slow_topic(void **state)
{
    struct hub *hub = open_hub(4);
    struct hub_client *first = hub_join(hub, "s", 3, ""), *late;
    char text[4096];

    (void)state;
    for (int i = 0; i < 3; i++)
        hub_tick(hub);
    late = hub_join(hub, "s", 3, "");
    assert_int_equal(take(late, text, sizeof(text)), 1);
    assert_non_null(strstr(text, "event: slow"));
    hub_leave(first);
    hub_leave(late);
    hub_free(hub);
}

static void whoever_comes_back_misses_nothing(void **state)
{
    struct hub *hub = open_hub(4);
    struct hub_client *client = hub_join(hub, "s", 3, "");
    char text[4096], id[48];

    (void)state;
    hub_tick(hub);
    (void)take(client, text, sizeof(text));
    last_id(text, id);
    hub_leave(client);
    hub_tick(hub);
    hub_tick(hub);
    client = hub_join(hub, "s", 3, id);
    assert_int_equal(take(client, text, sizeof(text)), 2);
    assert_null(strstr(text, "event: reset"));
    assert_non_null(strstr(text, "\"n\":3}"));
    assert_non_null(strstr(text, "\"n\":4}"));
    hub_leave(client);
    hub_free(hub);
}

static void foreign_future_and_forgotten_ids_begin_anew(void **state)
{
    static const char *const ids[] = {"1-1", "nonsense", "99999999999999-5", "-",
                                      "1-1-1"};
    struct hub *hub = open_hub(4);
    struct hub_client *client = hub_join(hub, "s", 3, "");
    char text[4096], id[48], future[64];

    (void)state;
    hub_tick(hub);
    (void)take(client, text, sizeof(text));
    last_id(text, id);
    hub_leave(client);
    (void)snprintf(future, sizeof(future), "%s999", id);
    client = hub_join(hub, "s", 3, future);
    assert_true(take(client, text, sizeof(text)) > 0);
    assert_memory_equal(text, "event: reset\n", 13);
    hub_leave(client);
    for (size_t i = 0; i < sizeof(ids) / sizeof(ids[0]); i++) {
        client = hub_join(hub, "s", 3, ids[i]);
        assert_true(take(client, text, sizeof(text)) > 0);
        assert_memory_equal(text, "event: reset\n", 13);
        hub_leave(client);
    }
    hub_free(hub);
}

static void a_client_that_was_away_too_long_begins_anew(void **state)
{
    struct hub *hub = open_hub(4);
    struct hub_client *slow = hub_join(hub, "s", 3, ""), *other;
    char text[4096];

    (void)state;
    for (uint32_t i = 0; i < HUB_MESSAGES + 10; i++)
        hub_tick(hub);
    other = hub_join(hub, "s", 3, "");
    assert_true(take(slow, text, sizeof(text)) > 0);
    assert_memory_equal(text, "event: reset\n", 13);
    assert_int_equal(take(slow, text, sizeof(text)), 0);
    hub_leave(slow);
    hub_leave(other);
    hub_free(hub);
}

static void a_break_with_the_past_is_told(void **state)
{
    struct hub *hub = open_hub(4);
    struct hub_client *client = hub_join(hub, "s", 1u << FAST, "");
    char text[4096];

    (void)state;
    hub_tick(hub);
    (void)take(client, text, sizeof(text));
    script.reset = true;
    hub_tick(hub);
    assert_int_equal(take(client, text, sizeof(text)), 2);
    assert_memory_equal(text, "event: reset\n", 13);
    hub_leave(client);
    hub_free(hub);
}

static void one_client_too_many_is_refused_until_another_leaves(void **state)
{
    struct hub *hub = open_hub(2);
    struct hub_client *a = hub_join(hub, "s", 3, ""), *b = hub_join(hub, "t", 3, "");

    (void)state;
    assert_null(hub_join(hub, "s", 3, ""));
    assert_int_equal(hub_clients(hub), 2);
    hub_leave(a);
    a = hub_join(hub, "s", 3, "");
    assert_non_null(a);
    hub_leave(a);
    hub_leave(b);
    hub_free(hub);
}

static void a_channel_that_nobody_watches_is_forgotten(void **state)
{
    struct hub *hub = open_hub(2);
    struct hub_client *client = hub_join(hub, "s", 3, "");

    (void)state;
    hub_tick(hub);
    hub_leave(client);
    assert_int_equal(script.remembered, 1);
    for (int i = 0; i < 250; i++)
        hub_tick(hub);
    assert_int_equal(script.remembered, 0);
    hub_free(hub);
}

static void *wait_for_the_end(void *argument)
{
    struct hub_client *client = argument;
    struct bytes out = {0};
    int taken;

    do {
        out.size = 0;
        taken = hub_take(client, 10000, &out);
    } while (taken >= 0);
    bytes_close(&out);
    hub_leave(client);
    return (void *)(intptr_t)taken;
}

/* A viewer: its connection, and the thread that serves it. */
struct viewer {
    struct hub_client *client;
    int ends[2]; /* ours to read, the server's */
    pthread_t thread;
    char text[512];
    size_t size;
    unsigned long long last; /* number of the newest event that was read */
};

static void *serve_viewer(void *argument)
{
    struct viewer *viewer = argument;
    struct bytes out = {0};

    while (hub_take(viewer->client, 10000, &out) > 0) {
        for (size_t sent = 0; sent < out.size;) {
            ssize_t part = write(viewer->ends[1], out.data + sent, out.size - sent);

            assert_true(part > 0);
            sent += (size_t)part;
        }
        out.size = 0;
    }
    bytes_close(&out);
    hub_leave(viewer->client);
    return NULL;
}

static void viewer_open(struct viewer *viewer, struct hub *hub)
{
    int small = 1;

    assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM, 0, viewer->ends), 0);
    assert_int_equal(
        setsockopt(viewer->ends[1], SOL_SOCKET, SO_SNDBUF, &small, sizeof(small)), 0);
    viewer->client = hub_join(hub, "s", 1u << FAST, "");
    hub_lend(viewer->client, viewer->ends[1]);
    assert_int_equal(pthread_create(&viewer->thread, NULL, serve_viewer, viewer), 0);
}

/* Reads whole events until number `until`; each must be the next one. */
static void viewer_read(struct viewer *viewer, unsigned long long until)
{
    while (viewer->last < until) {
        ssize_t got = read(viewer->ends[0], viewer->text + viewer->size,
                           sizeof(viewer->text) - 1 - viewer->size);
        char *end;

        assert_true(got > 0);
        viewer->size += (size_t)got;
        viewer->text[viewer->size] = '\0';
        while ((end = strstr(viewer->text, "\n\n")) != NULL) {
            unsigned long long number = 0;

            assert_int_equal(strncmp(viewer->text, "event: fast\nid: ", 16), 0);
            assert_int_equal(sscanf(strstr(viewer->text, "data: "),
                                    "data: {\"key\":\"s\",\"n\":%llu}", &number),
                             1);
            assert_int_equal(number, ++viewer->last);
            viewer->size -= (size_t)(end + 2 - viewer->text);
            memmove(viewer->text, end + 2, viewer->size + 1);
        }
    }
}

static void a_viewer_who_stops_reading_delays_nobody_and_misses_nothing(void **state)
{
    static struct viewer quick, stuck;
    struct hub *hub = open_hub(2);

    (void)state;
    viewer_open(&quick, hub);
    viewer_open(&stuck, hub);
    for (unsigned long long n = 1; n <= 400; n++) {
        hub_tick(hub);
        viewer_read(&quick, n);
    }
    assert_int_equal(stuck.last, 0);
    viewer_read(&stuck, 400);
    hub_stop(hub);
    pthread_join(quick.thread, NULL);
    pthread_join(stuck.thread, NULL);
    for (int i = 0; i < 2; i++) {
        close(quick.ends[i]);
        close(stuck.ends[i]);
    }
    hub_free(hub);
}

static void stopping_wakes_every_client(void **state)
{
    struct hub_source source = {
        .topics = topics, .slow_topics = 1u << SLOW, .build = build, .forget = forget};
    struct hub *hub;
    pthread_t threads[4];
    void *result;

    (void)state;
    memset(&script, 0, sizeof(script));
    hub = hub_start(&source, 8);
    for (int i = 0; i < 4; i++)
        assert_int_equal(pthread_create(&threads[i], NULL, wait_for_the_end,
                                        hub_join(hub, "s", 3, "")),
                         0);
    hub_stop(hub);
    for (int i = 0; i < 4; i++) {
        assert_int_equal(pthread_join(threads[i], &result), 0);
        assert_int_equal((intptr_t)result, -ESHUTDOWN);
    }
    hub_free(hub);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(two_clients_of_a_session_get_the_same_bytes),
        cmocka_unit_test(a_client_gets_only_the_topics_it_asked_for),
        cmocka_unit_test(a_newcomer_gets_the_newest_word_of_each_slow_topic),
        cmocka_unit_test(whoever_comes_back_misses_nothing),
        cmocka_unit_test(foreign_future_and_forgotten_ids_begin_anew),
        cmocka_unit_test(a_client_that_was_away_too_long_begins_anew),
        cmocka_unit_test(a_break_with_the_past_is_told),
        cmocka_unit_test(one_client_too_many_is_refused_until_another_leaves),
        cmocka_unit_test(a_channel_that_nobody_watches_is_forgotten),
        cmocka_unit_test(a_viewer_who_stops_reading_delays_nobody_and_misses_nothing),
        cmocka_unit_test(stopping_wakes_every_client),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
