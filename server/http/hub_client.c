/* A client's side of the hub. Its own thread waits in hub_take() and writes whatever may
 * block; while it waits, the hub's thread puts news into the socket itself, as far as
 * there is room: no thread per client has to be woken ten times a second. At any moment
 * the socket has one writer, told by `waits` under the hub's lock.
 */
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/uio.h>

#include "http/hub_inside.h"
#include "wire/clock.h"

#define HUB_TAKE_BYTES 65536u
#define HUB_PARTS      16u /* messages at once; a tick has one per topic */

/* With the lock held: the channel of `key`, begun if need be. */
static struct channel *channel_find(struct hub *hub, const char *key)
{
    struct channel *spare = NULL;

    for (uint32_t i = 0; i < HUB_CHANNELS; i++) {
        struct channel *channel = &hub->channels[i];

        if (channel->used && strcmp(channel->key, key) == 0)
            return channel;
        if (!channel->used && spare == NULL)
            spare = channel;
    }
    if (spare == NULL || strlen(key) >= HUB_KEY_BYTES)
        return NULL;
    memcpy(spare->key, key, strlen(key) + 1);
    spare->used = true;
    spare->began = hub->sequence;
    return spare;
}

/* "<start>-<sequence>"; false when another server wrote it. */
static bool parse_id(const struct hub *hub, const char *id, uint64_t *sequence)
{
    uint64_t start;
    int used = 0;

    if (strlen(id) > 40 ||
        sscanf(id, "%" SCNu64 "-%" SCNu64 "%n", &start, sequence, &used) != 2)
        return false;
    return id[used] == '\0' && start == hub->start_ms && *sequence <= hub->sequence;
}

/* With the lock held: where the client begins. */
static void client_resume(struct hub_client *client, const char *last_id)
{
    const struct channel *channel = client->channel;
    uint64_t sequence, at = channel->first;

    client->next = channel->next;
    client->since = client->hub->sequence;
    client->first = client->hub->source.slow_topics & client->topics;
    if (*last_id == '\0')
        return;
    client->reset = true;
    if (!parse_id(client->hub, last_id, &sequence) || sequence < channel->began)
        return;
    if (channel->first > 0 &&
        sequence < channel->ring[channel->first % HUB_MESSAGES].sequence - 1)
        return;
    while (at < channel->next && channel->ring[at % HUB_MESSAGES].sequence <= sequence)
        at++;
    client->next = at;
    client->reset = false;
    client->first = 0;
}

static void client_free(struct hub_client *client)
{
    pthread_cond_destroy(&client->news);
    bytes_close(&client->rest);
    free(client);
}

struct hub_client *hub_join(struct hub *hub, const char *key, uint32_t topics,
                            const char *last_id)
{
    struct hub_client *client = calloc(1, sizeof(*client));

    if (client == NULL)
        return NULL;
    pthread_mutex_lock(&hub->lock);
    client->hub = hub;
    client->topics = topics;
    client->socket = -1;
    monotonic_cond_init(&client->news);
    if (hub->clients < hub->clients_max && !hub->stopping)
        client->channel = channel_find(hub, key);
    if (client->channel != NULL) {
        hub->clients++;
        client->channel->clients++;
        client->next_watching = client->channel->watching;
        client->channel->watching = client;
        client->channel->topics |= topics;
        client_resume(client, last_id);
        pthread_cond_signal(&hub->wake);
    }
    pthread_mutex_unlock(&hub->lock);
    if (client->channel == NULL) {
        client_free(client);
        return NULL;
    }
    return client;
}

void hub_lend(struct hub_client *client, int lent)
{
    pthread_mutex_lock(&client->hub->lock);
    client->socket = lent;
    pthread_mutex_unlock(&client->hub->lock);
}

void hub_leave(struct hub_client *client)
{
    pthread_mutex_lock(&client->hub->lock);
    struct hub_client **at = &client->channel->watching;

    while (*at != client)
        at = &(*at)->next_watching;
    *at = client->next_watching;
    client->channel->clients--;
    client->hub->clients--;
    pthread_mutex_unlock(&client->hub->lock);
    client_free(client);
}

static int take_bytes(struct bytes *out, const struct message *message)
{
    size_t size;
    const char *data = shared_bytes_data(message->bytes, &size);

    bytes_append(out, data, size);
    return 1;
}

/* With the lock held: what waits for this client. */
static int client_take(struct hub_client *client, struct bytes *out)
{
    struct channel *channel = client->channel;
    int taken = 0;

    if (client->rest.size > 0) {
        bytes_append(out, client->rest.data, client->rest.size);
        client->rest.size = 0;
        taken++;
    }
    if (client->next < channel->first) {
        client->next = channel->next;
        client->since = client->hub->sequence;
        client->first = client->hub->source.slow_topics & client->topics;
        client->reset = true;
    }
    if (client->reset) {
        bytes_format(out, "event: reset\nid: %" PRIu64 "-%" PRIu64 "\ndata: {}\n\n",
                     client->hub->start_ms, client->hub->sequence);
        client->reset = false;
        taken++;
    }
    for (unsigned topic = 0; topic < HUB_TOPICS_MAX; topic++) {
        const struct message *newest = &channel->newest[topic];

        if ((client->first >> topic & 1) != 0 && newest->bytes != NULL &&
            newest->sequence <= client->since)
            taken += take_bytes(out, newest);
    }
    client->first = 0;
    for (; client->next < channel->next && out->size < HUB_TAKE_BYTES; client->next++) {
        const struct message *message = &channel->ring[client->next % HUB_MESSAGES];

        if ((message->topics & client->topics) != 0)
            taken += take_bytes(out, message);
    }
    return taken;
}

/* Appends what follows byte `sent` of `parts` to the client's rest. */
static void keep_rest(struct hub_client *client, const struct iovec *parts,
                      size_t count, size_t sent)
{
    for (size_t i = 0; i < count; i++) {
        size_t done = sent < parts[i].iov_len ? sent : parts[i].iov_len;

        bytes_append(&client->rest, (const char *)parts[i].iov_base + done,
                     parts[i].iov_len - done);
        sent -= done;
    }
}

/* True when nothing is left for the client's thread. */
static bool write_now(struct hub_client *client)
{
    const struct channel *channel = client->channel;
    struct iovec parts[HUB_PARTS];
    struct msghdr message = {.msg_iov = parts};
    uint64_t at = client->next;

    if (client->socket < 0 || client->reset || client->first != 0 ||
        at < channel->first)
        return false;
    for (; at < channel->next; at++) {
        const struct message *waiting = &channel->ring[at % HUB_MESSAGES];
        struct iovec *part = &parts[message.msg_iovlen];

        if ((waiting->topics & client->topics) == 0)
            continue;
        if (message.msg_iovlen == HUB_PARTS)
            return false;
        part->iov_base =
            (void *)(uintptr_t)shared_bytes_data(waiting->bytes, &part->iov_len);
        message.msg_iovlen++;
    }
    if (message.msg_iovlen > 0) {
        ssize_t sent = sendmsg(client->socket, &message, MSG_DONTWAIT | MSG_NOSIGNAL);

        /* No room, or gone: its own thread finds out and deals with it. */
        if (sent < 0)
            return false;
        client->written_ns = clock_ns(CLOCK_MONOTONIC);
        keep_rest(client, parts, message.msg_iovlen, (size_t)sent);
    }
    client->next = at;
    return client->rest.size == 0 && !client->rest.failed;
}

void hub_client_deliver(struct hub_client *client)
{
    /* A thread that is busy writing looks for itself when it is done. */
    if (client->waits && client->rest.size == 0 && !write_now(client))
        pthread_cond_signal(&client->news);
}

/* With the lock held: what there is for the client's thread, or why it must end. */
static int look(struct hub_client *client, struct bytes *out)
{
    if (client->hub->stopping)
        return -ESHUTDOWN;
    return client->rest.failed ? -ENOMEM : client_take(client, out);
}

int hub_take(struct hub_client *client, int timeout_ms, struct bytes *out)
{
    struct timespec deadline =
        monotonic_deadline(clock_ns(CLOCK_MONOTONIC), timeout_ms);
    struct hub *hub = client->hub;
    int taken;

    pthread_mutex_lock(&hub->lock);
    taken = look(client, out);
    client->written_ns = 0;
    while (taken == 0) {
        client->waits = true;
        int error = pthread_cond_timedwait(&client->news, &hub->lock, &deadline);

        client->waits = false;
        taken = look(client, out);
        if (taken != 0 || error != ETIMEDOUT)
            continue;
        if (client->written_ns == 0)
            break;
        /* The silence is no longer than since then. */
        deadline = monotonic_deadline(client->written_ns, timeout_ms);
        client->written_ns = 0;
    }
    pthread_mutex_unlock(&hub->lock);
    return taken;
}
