/* The stream's distribution: what happened in a session, once, to all who watch it.
 *
 * A channel is what one choice of session and rank shows. The hub's thread asks for
 * news of every channel that somebody watches ten times a second; a message is built
 * once, numbered and put into the channel's ring, and from there into the sockets that
 * were lent (hub_lend) and have room; for the others each client's own thread takes it. A
 * client that is too slow finds the ring gone on and is told to start anew: it slows
 * nobody. Channels outlive their last client for a while, so that one that comes
 * back with Last-Event-ID misses nothing.
 */
#ifndef HTTP_HUB_H
#define HTTP_HUB_H

#include <stdbool.h>
#include <stdint.h>

#include "http/bytes.h"
#include "wire/attributes.h"

#define HUB_KEY_BYTES  96u
#define HUB_CHANNELS   64u  /* choices that are watched at once */
#define HUB_MESSAGES   512u /* remembered per channel: about half a minute */
#define HUB_TOPICS_MAX 8u
#define HUB_TICK_MS    100
#define HUB_SLOW_TICKS 10u /* slow topics: once a second */

struct hub;
struct hub_client;

struct hub_source {
    const char *const *topics; /* names, ends with NULL, at most HUB_TOPICS_MAX */
    uint32_t slow_topics;      /* bits: built once a second, the newest is kept for
                                  whoever comes */
    /* Appends the data of `topic` (JSON, one line) for `key` to *out, or nothing when
     * there is no news; returns true when what went before no longer holds together:
     * the clients are told to fetch anew. *memory is the channel's own: zero at first,
     * given back by forget(). Called by the hub's thread alone. */
    bool (*build)(void *context, const char *key, unsigned topic, void **memory,
                  struct bytes *out);
    void (*forget)(void *context, void *memory);
    void *context;
};

/* NULL without memory or thread. */
struct hub *hub_start(const struct hub_source *source, uint32_t clients_max);

/* Wakes every client (hub_take() returns -ESHUTDOWN) and joins the hub's thread. */
void hub_stop(struct hub *hub);

/* After the last client left and hub_stop() returned. */
void hub_free(struct hub *hub);

/* A client of `key`'s channel for the topics in `topics`, resuming behind `last_id`
 * ("" = new). NULL when there are too many clients or channels. */
struct hub_client *hub_join(struct hub *hub, const char *key, uint32_t topics,
                            const char *last_id);
void hub_leave(struct hub_client *client);

/* While the client's thread waits in hub_take() the hub may write to this socket, never
 * waiting for it. Without (-1) every message comes through hub_take(). */
void hub_lend(struct hub_client *client, int lent);

/* Waits up to `timeout_ms` for messages, appends all that wait (at most about 64 KiB)
 * to *out. Returns how many, 0 on timeout, -ESHUTDOWN when the hub stops. */
MUST_CHECK int hub_take(struct hub_client *client, int timeout_ms, struct bytes *out);

uint32_t hub_clients(const struct hub *hub);

/* Runs one tick by hand: for tests of a hub that was made without a thread. */
struct hub *hub_new(const struct hub_source *source, uint32_t clients_max);
void hub_tick(struct hub *hub);

#endif
