#include "http/hub.h"

#include <errno.h>
#include <inttypes.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "wire/clock.h"

#define HUB_TAKE_BYTES   65536u
#define HUB_LINGER_TICKS 200u /* 20 s: longer than a browser's back-off */

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
    pthread_cond_t news;
};

/* One lock for all: it is held for pointer copies only. */
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
    uint32_t topics;
    uint64_t next;  /* position in the channel's ring */
    bool reset;     /* begins with a reset */
    uint32_t first; /* slow topics whose newest message is owed */
    uint64_t since; /* sequence then: what is newer waits in the ring */
};

struct hub *hub_new(const struct hub_source *source, uint32_t clients_max)
{
    struct hub *hub = calloc(1, sizeof(*hub));
    pthread_condattr_t attributes;

    if (hub == NULL)
        return NULL;
    hub->source = *source;
    hub->clients_max = clients_max;
    hub->start_ms = clock_ns(CLOCK_REALTIME) / 1000000;
    pthread_mutex_init(&hub->lock, NULL);
    pthread_condattr_init(&attributes);
    /* The wall clock can jump; a wait must not. */
    pthread_condattr_setclock(&attributes, CLOCK_MONOTONIC);
    pthread_cond_init(&hub->wake, &attributes);
    for (uint32_t i = 0; i < HUB_CHANNELS; i++)
        pthread_cond_init(&hub->channels[i].news, &attributes);
    pthread_condattr_destroy(&attributes);
    return hub;
}

static struct timespec time_in(int timeout_ms)
{
    uint64_t at = clock_ns(CLOCK_MONOTONIC) + (uint64_t)timeout_ms * 1000000;

    return (struct timespec){.tv_sec = (time_t)(at / 1000000000),
                             .tv_nsec = (long)(at % 1000000000)};
}

static void channel_clear(struct hub *hub, struct channel *channel)
{
    for (; channel->first < channel->next; channel->first++)
        shared_bytes_release(channel->ring[channel->first % HUB_MESSAGES].bytes);
    for (uint32_t i = 0; i < HUB_TOPICS_MAX; i++) {
        shared_bytes_release(channel->newest[i].bytes);
        channel->newest[i] = (struct message){0};
    }
    if (channel->memory != NULL)
        hub->source.forget(hub->source.context, channel->memory);
    channel->memory = NULL;
    channel->used = false;
    channel->first = channel->next = 0;
    channel->topics = channel->idle_ticks = 0;
}

/* With the lock held. Takes over `bytes`. */
static void channel_push(struct channel *channel, struct message message, int topic)
{
    struct message *slot = &channel->ring[channel->next % HUB_MESSAGES];

    if (channel->next - channel->first == HUB_MESSAGES) {
        shared_bytes_release(slot->bytes);
        channel->first++;
    }
    *slot = message;
    channel->next++;
    if (topic < 0)
        return;
    shared_bytes_release(channel->newest[topic].bytes);
    channel->newest[topic] = message;
    shared_bytes_hold(message.bytes);
}

static struct message message_new(struct hub *hub, const char *event, uint32_t topics,
                                  const struct bytes *data)
{
    struct message message = {.sequence = ++hub->sequence, .topics = topics};
    struct bytes text = {0};

    bytes_format(&text, "event: %s\nid: %" PRIu64 "-%" PRIu64 "\ndata: ", event,
                 hub->start_ms, message.sequence);
    bytes_append(&text, data->data, data->size);
    bytes_append(&text, "\n\n", 2);
    if (!text.failed)
        message.bytes = shared_bytes_new(text.data, text.size);
    bytes_close(&text);
    return message;
}

static void push_event(struct hub *hub, struct channel *channel, unsigned topic,
                       const struct bytes *data)
{
    bool slow = (hub->source.slow_topics >> topic & 1) != 0;
    struct message message;

    if (data->size == 0 || data->failed)
        return;
    message = message_new(hub, hub->source.topics[topic], 1u << topic, data);
    if (message.bytes != NULL)
        channel_push(channel, message, slow ? (int)topic : -1);
}

static void push_reset(struct hub *hub, struct channel *channel)
{
    struct bytes data = {0};
    struct message message;

    bytes_text(&data, "{}");
    message = message_new(hub, "reset", UINT32_MAX, &data);
    if (message.bytes != NULL)
        channel_push(channel, message, -1);
    bytes_close(&data);
}

/* Builds outside of the lock: only the hub's thread changes `memory`, and a channel
 * ends by its hand alone. */
static void channel_tick(struct hub *hub, struct channel *channel, uint32_t topics,
                         bool slow)
{
    for (unsigned topic = 0; hub->source.topics[topic] != NULL; topic++) {
        struct bytes data = {0};
        bool reset;

        if ((topics >> topic & 1) == 0 ||
            ((hub->source.slow_topics >> topic & 1) != 0 && !slow))
            continue;
        reset = hub->source.build(hub->source.context, channel->key, topic,
                                  &channel->memory, &data);
        pthread_mutex_lock(&hub->lock);
        if (reset)
            push_reset(hub, channel);
        push_event(hub, channel, topic, &data);
        pthread_mutex_unlock(&hub->lock);
        bytes_close(&data);
    }
    pthread_mutex_lock(&hub->lock);
    pthread_cond_broadcast(&channel->news);
    pthread_mutex_unlock(&hub->lock);
}

void hub_tick(struct hub *hub)
{
    bool slow = hub->tick++ % HUB_SLOW_TICKS == 0;

    for (uint32_t i = 0; i < HUB_CHANNELS; i++) {
        struct channel *channel = &hub->channels[i];
        uint32_t topics = 0;

        pthread_mutex_lock(&hub->lock);
        if (channel->used) {
            channel->idle_ticks = channel->clients > 0 ? 0 : channel->idle_ticks + 1;
            if (channel->idle_ticks > HUB_LINGER_TICKS)
                channel_clear(hub, channel);
            topics = channel->topics;
            /* Somebody waits for the first word of a slow topic. */
            if (channel->next == 0)
                topics |= 0x80000000u;
        }
        pthread_mutex_unlock(&hub->lock);
        if (topics != 0)
            channel_tick(hub, channel, topics & 0x7fffffffu,
                         slow || (topics & 0x80000000u) != 0);
    }
}

static bool any_channel(const struct hub *hub)
{
    for (uint32_t i = 0; i < HUB_CHANNELS; i++) {
        if (hub->channels[i].used)
            return true;
    }
    return false;
}

static void *hub_run(void *argument)
{
    struct hub *hub = argument;

    pthread_mutex_lock(&hub->lock);
    while (!hub->stopping) {
        struct timespec next = time_in(HUB_TICK_MS);

        if (!any_channel(hub)) {
            pthread_cond_wait(&hub->wake, &hub->lock);
            continue;
        }
        pthread_mutex_unlock(&hub->lock);
        hub_tick(hub);
        pthread_mutex_lock(&hub->lock);
        while (!hub->stopping &&
               pthread_cond_timedwait(&hub->wake, &hub->lock, &next) != ETIMEDOUT) {
        }
    }
    pthread_mutex_unlock(&hub->lock);
    return NULL;
}

struct hub *hub_start(const struct hub_source *source, uint32_t clients_max)
{
    struct hub *hub = hub_new(source, clients_max);

    if (hub == NULL)
        return NULL;
    hub->threaded = pthread_create(&hub->thread, NULL, hub_run, hub) == 0;
    if (!hub->threaded) {
        hub_free(hub);
        return NULL;
    }
    return hub;
}

void hub_stop(struct hub *hub)
{
    pthread_mutex_lock(&hub->lock);
    hub->stopping = true;
    pthread_cond_broadcast(&hub->wake);
    for (uint32_t i = 0; i < HUB_CHANNELS; i++)
        pthread_cond_broadcast(&hub->channels[i].news);
    pthread_mutex_unlock(&hub->lock);
    if (hub->threaded)
        pthread_join(hub->thread, NULL);
}

void hub_free(struct hub *hub)
{
    if (hub == NULL)
        return;
    for (uint32_t i = 0; i < HUB_CHANNELS; i++) {
        if (hub->channels[i].used)
            channel_clear(hub, &hub->channels[i]);
        pthread_cond_destroy(&hub->channels[i].news);
    }
    pthread_cond_destroy(&hub->wake);
    pthread_mutex_destroy(&hub->lock);
    free(hub);
}

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

struct hub_client *hub_join(struct hub *hub, const char *key, uint32_t topics,
                            const char *last_id)
{
    struct hub_client *client = calloc(1, sizeof(*client));

    if (client == NULL)
        return NULL;
    pthread_mutex_lock(&hub->lock);
    client->hub = hub;
    client->topics = topics;
    if (hub->clients < hub->clients_max && !hub->stopping)
        client->channel = channel_find(hub, key);
    if (client->channel != NULL) {
        hub->clients++;
        client->channel->clients++;
        client->channel->topics |= topics;
        client_resume(client, last_id);
        pthread_cond_signal(&hub->wake);
    }
    pthread_mutex_unlock(&hub->lock);
    if (client->channel == NULL) {
        free(client);
        return NULL;
    }
    return client;
}

void hub_leave(struct hub_client *client)
{
    pthread_mutex_lock(&client->hub->lock);
    client->channel->clients--;
    client->hub->clients--;
    pthread_mutex_unlock(&client->hub->lock);
    free(client);
}

uint32_t hub_clients(const struct hub *hub)
{
    struct hub *locked = (struct hub *)(uintptr_t)hub;
    uint32_t clients;

    pthread_mutex_lock(&locked->lock);
    clients = hub->clients;
    pthread_mutex_unlock(&locked->lock);
    return clients;
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

int hub_take(struct hub_client *client, int timeout_ms, struct bytes *out)
{
    struct timespec deadline = time_in(timeout_ms);
    struct hub *hub = client->hub;
    int taken, error = 0;

    pthread_mutex_lock(&hub->lock);
    taken = hub->stopping ? -ESHUTDOWN : client_take(client, out);
    while (taken == 0 && error == 0) {
        error = pthread_cond_timedwait(&client->channel->news, &hub->lock, &deadline);
        taken = hub->stopping ? -ESHUTDOWN : client_take(client, out);
    }
    pthread_mutex_unlock(&hub->lock);
    return taken;
}
