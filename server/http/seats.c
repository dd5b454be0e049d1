#include "http/seats.h"

#include <fcntl.h>
#include <netinet/tcp.h>
#include <sys/socket.h>
#include <unistd.h>

#include "http/monotonic.h"
#include "http/socket.h"
#include "wire/clock.h"

#define LOOK_AGAIN_MS 20

void seats_open(struct seats *seats, uint32_t threads)
{
    *seats = (struct seats){.threads = threads};
    pthread_mutex_init(&seats->lock, NULL);
    monotonic_cond_init(&seats->freed);
}

void seats_close(struct seats *seats)
{
    pthread_cond_destroy(&seats->freed);
    pthread_mutex_destroy(&seats->lock);
}

/* With the lock held. Two clients with one port, of different machines: both stay. */
static bool is_served(const struct seats *seats, uint16_t client_port)
{
    for (const struct seat *seat = seats->taken; seat != NULL; seat = seat->next) {
        if (seat->port == client_port)
            return true;
    }
    return false;
}

/* Whoever sends a byte now and then has not got anything from us either. */
static bool waits_long(int descriptor)
{
    struct tcp_info info = {0};
    socklen_t size = sizeof(info);

    return getsockopt(descriptor, IPPROTO_TCP, TCP_INFO, &info, &size) == 0 &&
           info.tcpi_last_data_sent >= SEATS_PATIENCE_MS;
}

/* With the lock held: ends those that wait. Only reading ends: a head that has come is
 * still read, and answered. */
static bool end_waiting(const struct seats *seats, uint16_t server_port)
{
    DIR *folder = opendir("/proc/self/fd");
    struct sockaddr_in client;
    bool ended = false;
    int descriptor;

    while (folder != NULL &&
           (descriptor = socket_next(folder, server_port, &client)) >= 0) {
        /* Of our own, so that its thread cannot close it between look and act. */
        int own = fcntl(descriptor, F_DUPFD_CLOEXEC, 0);

        if (own < 0)
            continue;
        if (socket_connects(own, server_port, &client) && waits_long(own) &&
            !is_served(seats, ntohs(client.sin_port)))
            ended |= shutdown(own, SHUT_RD) == 0;
        close(own);
    }
    if (folder != NULL)
        closedir(folder);
    return ended;
}

/* With the lock held: until a thread is free, or about to be. The last look comes when
 * whoever waited before us has waited long enough. */
static void make_room(struct seats *seats, uint16_t server_port)
{
    uint64_t now_ns = clock_ns(CLOCK_MONOTONIC);
    uint64_t last_ns = now_ns + (SEATS_PATIENCE_MS + LOOK_AGAIN_MS) * UINT64_C(1000000);

    while (seats->count >= seats->threads && !end_waiting(seats, server_port) &&
           now_ns < last_ns) {
        struct timespec again = monotonic_deadline(now_ns, LOOK_AGAIN_MS);

        (void)pthread_cond_timedwait(&seats->freed, &seats->lock, &again);
        now_ns = clock_ns(CLOCK_MONOTONIC);
    }
}

void seats_take(struct seats *seats, struct seat *seat, uint16_t server_port)
{
    pthread_mutex_lock(&seats->lock);
    seat->port = 0;
    seat->next = seats->taken;
    seats->taken = seat;
    seats->count++;
    if (seats->count >= seats->threads)
        make_room(seats, server_port);
    pthread_mutex_unlock(&seats->lock);
}

void seats_serve(struct seats *seats, struct seat *seat, uint16_t client_port)
{
    pthread_mutex_lock(&seats->lock);
    seat->port = client_port;
    pthread_mutex_unlock(&seats->lock);
}

void seats_leave(struct seats *seats, struct seat *seat)
{
    pthread_mutex_lock(&seats->lock);
    struct seat **at = &seats->taken;

    while (*at != NULL && *at != seat)
        at = &(*at)->next;
    if (*at == seat) {
        *at = seat->next;
        seats->count--;
        pthread_cond_signal(&seats->freed);
    }
    pthread_mutex_unlock(&seats->lock);
}
