#include <errno.h>
#include <inttypes.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "http/hub_inside.h"
#include "wire/clock.h"

#define HUB_LINGER_TICKS 200u /* 20 s: longer than a browser's back-off */

struct hub *hub_new(const struct hub_source *source, uint32_t clients_max)
{
    struct hub *hub = calloc(1, sizeof(*hub));

    if (hub == NULL)
        return NULL;
    hub->source = *source;
    hub->clients_max = clients_max;
    hub->start_ms = clock_ns(CLOCK_REALTIME) / 1000000;
    pthread_mutex_init(&hub->lock, NULL);
    monotonic_cond_init(&hub->wake);
    return hub;
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
    for (struct hub_client *at = channel->watching; at != NULL; at = at->next_watching)
        hub_client_deliver(at);
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
        struct timespec next =
            monotonic_deadline(clock_ns(CLOCK_MONOTONIC), HUB_TICK_MS);

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
    for (uint32_t i = 0; i < HUB_CHANNELS; i++) {
        struct hub_client *at = hub->channels[i].watching;

        for (; at != NULL; at = at->next_watching)
            pthread_cond_signal(&at->news);
    }
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
    }
    pthread_cond_destroy(&hub->wake);
    pthread_mutex_destroy(&hub->lock);
    free(hub);
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
