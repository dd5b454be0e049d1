/* Who holds the threads: each connection has one, also while its client has asked nothing
 * yet. When the last thread is taken, those that have waited for a head longer than
 * SEATS_PATIENCE_MS are ended, so that half-open connections keep nobody out.
 *
 *     take -> serve(port) -> serve(0) -> serve(port) ... -> leave
 */
#ifndef HTTP_SEATS_H
#define HTTP_SEATS_H

#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>

/* Longer than the way of a head that is on it; only looked at when all threads are taken. */
#define SEATS_PATIENCE_MS 250

/* One connection's; the caller's memory, until seats_leave(). */
struct seat {
    struct seat *next;
    uint16_t port; /* of the client, while it is served; else 0 */
};

struct seats {
    pthread_mutex_t lock;
    pthread_cond_t freed;
    struct seat *taken;
    uint32_t count, threads;
};

void seats_open(struct seats *seats, uint32_t threads);
void seats_close(struct seats *seats);

/* A connection has got a thread; `server_port` is where it came. May wait for
 * SEATS_PATIENCE_MS, when it got the last one. */
void seats_take(struct seats *seats, struct seat *seat, uint16_t server_port);

/* Its client, of that port, asked; 0: it is answered and may ask again. */
void seats_serve(struct seats *seats, struct seat *seat, uint16_t client_port);
/* The thread is free again. */
void seats_leave(struct seats *seats, struct seat *seat);

#endif
