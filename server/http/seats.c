#include "http/seats.h"

#include <dirent.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#include "wire/clock.h"

#define LOOK_AGAIN_MS 20

void seats_open(struct seats *seats, uint32_t threads)
{
    pthread_condattr_t attributes;

    *seats = (struct seats){.threads = threads};
    pthread_mutex_init(&seats->lock, NULL);
    pthread_condattr_init(&attributes);
    pthread_condattr_setclock(&attributes, CLOCK_MONOTONIC);
    pthread_cond_init(&seats->freed, &attributes);
    pthread_condattr_destroy(&attributes);
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

/* Is this a connection to `server_port` that got nothing from us for so long? Whoever
 * sends a byte now and then has not got anything either. */
static bool waits_long(int descriptor, uint16_t server_port, uint16_t *client_port)
{
    struct sockaddr_in here = {0}, there = {0};
    socklen_t here_size = sizeof(here), there_size = sizeof(there);
    struct tcp_info info = {0};
    socklen_t info_size = sizeof(info);

    if (getsockname(descriptor, (struct sockaddr *)&here, &here_size) != 0 ||
        here.sin_family != AF_INET || ntohs(here.sin_port) != server_port ||
        getpeername(descriptor, (struct sockaddr *)&there, &there_size) != 0 ||
        getsockopt(descriptor, IPPROTO_TCP, TCP_INFO, &info, &info_size) != 0)
        return false;
    *client_port = ntohs(there.sin_port);
    return info.tcpi_last_data_sent >= SEATS_PATIENCE_MS;
}

/* With the lock held: ends those that wait, by what CivetWeb does not tell: their
 * sockets. Only reading ends: a head that has come is still read, and answered. */
static bool end_waiting(const struct seats *seats, uint16_t server_port)
{
    DIR *descriptors = opendir("/proc/self/fd");
    const struct dirent *entry;
    uint16_t client_port = 0;
    bool ended = false;

    while (descriptors != NULL && (entry = readdir(descriptors)) != NULL) {
        /* Of our own, so that its thread cannot close it between look and act. */
        int own = fcntl((int)strtol(entry->d_name, NULL, 10), F_DUPFD_CLOEXEC, 0);

        if (own < 0)
            continue;
        if (waits_long(own, server_port, &client_port) &&
            !is_served(seats, client_port))
            ended |= shutdown(own, SHUT_RD) == 0;
        close(own);
    }
    if (descriptors != NULL)
        closedir(descriptors);
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
        uint64_t again_ns = now_ns + LOOK_AGAIN_MS * UINT64_C(1000000);
        struct timespec again = {.tv_sec = (time_t)(again_ns / 1000000000),
                                 .tv_nsec = (long)(again_ns % 1000000000)};

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

static void set_port(struct seats *seats, struct seat *seat, uint16_t client_port)
{
    pthread_mutex_lock(&seats->lock);
    seat->port = client_port;
    pthread_mutex_unlock(&seats->lock);
}

void seats_serve(struct seats *seats, struct seat *seat, uint16_t client_port)
{
    set_port(seats, seat, client_port);
}

void seats_wait(struct seats *seats, struct seat *seat)
{
    set_port(seats, seat, 0);
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
