/* Connections that hold threads, over real sockets of this process. */
#include <arpa/inet.h>
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cmocka.h>

#include "http/seats.h"

#define HEAD "GET / HTTP/1.1\r\n"

struct pair {
    int client, server;
    uint16_t client_port;
    struct seat seat;
};

static int listener;
static uint16_t server_port;
static struct seats seats;
static struct pair pairs[3];

static uint16_t port_of(int descriptor)
{
    struct sockaddr_in address = {0};
    socklen_t size = sizeof(address);

    assert_int_equal(getsockname(descriptor, (struct sockaddr *)&address, &size), 0);
    return ntohs(address.sin_port);
}

static int begin(void **state)
{
    (void)state;
    struct sockaddr_in address = {.sin_family = AF_INET,
                                  .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t size = sizeof(address);

    listener = socket(AF_INET, SOCK_STREAM, 0);
    assert_int_equal(bind(listener, (struct sockaddr *)&address, size), 0);
    assert_int_equal(listen(listener, 8), 0);
    server_port = port_of(listener);
    address.sin_port = htons(server_port);
    for (int i = 0; i < 3; i++) {
        struct pair *pair = &pairs[i];

        pair->client = socket(AF_INET, SOCK_STREAM, 0);
        assert_int_equal(connect(pair->client, (struct sockaddr *)&address, size), 0);
        pair->server = accept(listener, NULL, NULL);
        assert_true(pair->server >= 0);
        pair->client_port = port_of(pair->client);
    }
    return 0;
}

static int end(void **state)
{
    (void)state;
    for (int i = 0; i < 3; i++) {
        close(pairs[i].client);
        close(pairs[i].server);
    }
    close(listener);
    seats_close(&seats);
    return 0;
}

/* What a thread that reads the connection finds: bytes, 0 at its end, -1 nothing yet. */
static ssize_t find_bytes(const struct pair *pair)
{
    char bytes[64];

    return recv(pair->server, bytes, sizeof(bytes), MSG_DONTWAIT);
}

static void whoever_asks_nothing_gives_way_when_the_last_thread_is_taken(void **state)
{
    (void)state;
    seats_open(&seats, 3);
    seats_take(&seats, &pairs[0].seat, server_port);
    seats_take(&seats, &pairs[1].seat, server_port);
    seats_serve(&seats, &pairs[1].seat, pairs[1].client_port);
    assert_int_equal(send(pairs[2].client, HEAD, strlen(HEAD), 0), strlen(HEAD));
    seats_take(&seats, &pairs[2].seat, server_port);
    assert_int_equal(find_bytes(&pairs[0]), 0);
    assert_int_equal(find_bytes(&pairs[1]), -1);
    /* Ended or not: what it asked is read, and can be answered. */
    assert_int_equal(find_bytes(&pairs[2]), strlen(HEAD));
    assert_int_equal(send(pairs[2].server, "x", 1, MSG_NOSIGNAL), 1);
}

static void nobody_gives_way_while_a_thread_is_free(void **state)
{
    (void)state;
    seats_open(&seats, 4);
    for (int i = 0; i < 3; i++)
        seats_take(&seats, &pairs[i].seat, server_port);
    for (int i = 0; i < 3; i++)
        assert_int_equal(find_bytes(&pairs[i]), -1);
    seats_leave(&seats, &pairs[1].seat);
    assert_int_equal(seats.count, 2);
    seats_leave(&seats, &pairs[1].seat); /* gone already */
    assert_int_equal(seats.count, 2);
}

static void those_that_are_served_are_left_alone_however_long(void **state)
{
    (void)state;
    seats_open(&seats, 3);
    for (int i = 0; i < 2; i++) {
        seats_take(&seats, &pairs[i].seat, server_port);
        seats_serve(&seats, &pairs[i].seat, pairs[i].client_port);
    }
    seats_take(&seats, &pairs[2].seat, server_port);
    assert_int_equal(find_bytes(&pairs[0]), -1);
    assert_int_equal(find_bytes(&pairs[1]), -1);
    /* Its answer is over: now it only waits. */
    seats_serve(&seats, &pairs[0].seat, 0);
    seats_leave(&seats, &pairs[2].seat);
    seats_take(&seats, &pairs[2].seat, server_port);
    assert_int_equal(find_bytes(&pairs[0]), 0);
    assert_int_equal(find_bytes(&pairs[1]), -1);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, begin, end)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(whoever_asks_nothing_gives_way_when_the_last_thread_is_taken),
        TEST(nobody_gives_way_while_a_thread_is_free),
        TEST(those_that_are_served_are_left_alone_however_long),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
