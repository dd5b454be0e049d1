/* The inside of the stream's distribution, for hub.c and hub_client.c. */
#ifndef HTTP_HUB_INSIDE_H
#define HTTP_HUB_INSIDE_H

#include <pthread.h>

#include "http/hub.h"
#include "http/monotonic.h"

struct message {
    struct shared_bytes *bytes; /* the whole event, id and all */
    uint64_t sequence;
    uint32_t topics; /* bits: who wants it; all for a reset */
};

struct channel {
    bool used;
    char key[HUB_KEY_BYTES];
    uint32_t clients, topics; /* topics: of all clients since the channel began */
    uint32_t idle_ticks;
    uint64_t first, next; /* positions in `ring`, counted since the beginning */
    uint64_t began;       /* sequence before the channel's first message */
    struct message ring[HUB_MESSAGES];
    struct message newest[HUB_TOPICS_MAX]; /* of slow topics */
    void *memory;
    struct hub_client *watching; /* list; `clients` of them */
};

/* One lock for all: it is held for pointer copies, and while a channel's news are put
 * into the sockets that have room, some 5 us each. */
struct hub {
    struct hub_source source;
    pthread_mutex_t lock;
    pthread_cond_t wake; /* somebody came while nobody was there */
    pthread_t thread;
    bool threaded, stopping;
    uint32_t clients, clients_max;
    uint64_t start_ms; /* of the server: prefix of all ids */
    uint64_t sequence; /* of the newest message, all channels together */
    uint64_t tick;
    struct channel channels[HUB_CHANNELS];
};

struct hub_client {
    struct hub *hub;
    struct channel *channel;
    struct hub_client *next_watching;
    pthread_cond_t news; /* its thread is needed */
    uint32_t topics;
    uint64_t next;       /* position in the channel's ring */
    bool reset;          /* begins with a reset */
    uint32_t first;      /* slow topics whose newest message is owed */
    uint64_t since;      /* sequence then: what is newer waits in the ring */
    bool waits;          /* its thread is in hub_take(): the socket is the hub's */
    int socket;          /* lent; -1 none */
    uint64_t written_ns; /* monotonic: when the hub last wrote to it; 0 never */
    struct bytes rest;   /* of a message that fitted only in part */
};

/* What came for a client, with the lock held: into its socket if it was lent and takes
 * it at once, else its own thread is woken to write. Never waits. */
void hub_client_deliver(struct hub_client *client);

#endif
