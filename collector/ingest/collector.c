#include "ingest/collector.h"

#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "ingest/between_ops.h"
#include "ingest/guard.h"
#include "ingest/host.h"
#include "ingest/source.h"
#include "ingest/sources.h"
#include "wire/clock.h"

#define NS_PER_MS INT64_C(1000000)

/* Polling about every millisecond loses nothing and costs the producer nothing; what
 * writes little is looked at less often. */
#define BUSY_MS   1
#define LIGHT_MS  10
#define LIGHT_MAX 1024u /* events in a pass that still count as little */
#define FEW_MS    25    /* steps and phases alone: four looks in a tick of the stream */
#define FEW_MAX   64u
#define IDLE_MS   50  /* somebody lives, nobody writes */
#define DEAD_MS   500 /* nobody lives: the kernel tells of new files */

#define RESCAN_NS (5000 * NS_PER_MS)
#define LOOK_NS   (250 * NS_PER_MS)
#define PAIR_NS   (1000 * NS_PER_MS)
#define SLOTS_NS  (50 * NS_PER_MS)
#define ALIVE_NS  (100 * NS_PER_MS)
#define HOST_NS   (1000 * NS_PER_MS)
#define LATE_NS   (50 * NS_PER_MS)

/* One source may not keep the others waiting: 64 Ki events take a few milliseconds. */
#define BUDGET 65536u

struct collector {
    struct store *store; /* borrowed */
    pthread_t thread;
    int wake; /* eventfd: stop or settle */
    struct sources sources;
    struct host host;
    struct between_ops_clock looks; /* at training threads */
    bool rescan;
    bool settling; /* this pass answers a settle: nothing waits for its time */
    _Atomic bool stopping;
    _Atomic uint64_t asked; /* settle: how often somebody asked */
    pthread_mutex_t lock;   /* guards `settled` */
    pthread_cond_t changed;
    uint64_t settled; /* the newest `asked` that was answered */
};

static int64_t now_ns(void)
{
    return (int64_t)clock_ns(CLOCK_MONOTONIC);
}

/* Reads a dead source to its end. */
static void read_dead(struct collector *collector, struct source *source)
{
    source_pair(source, false);
    source_find_rings(source, collector->store);
    /* What goes on writing without its lock is not waited for. */
    uint64_t left = source_events_max(source), got = 1;

    while (source->state < SOURCE_DONE && got > 0 && left > 0 &&
           !atomic_load_explicit(&collector->stopping, memory_order_relaxed)) {
        got = source_drain(source, collector->store, BUDGET);
        left -= got < left ? got : left;
    }
    if (source->state < SOURCE_DONE)
        source_look(source, collector->store, now_ns());
    if (source->state < SOURCE_DONE)
        source_finish(source, collector->store);
}

/* One pass over a live source; how many events it gave. */
static uint64_t serve_live(struct collector *collector, struct source *source,
                           int64_t now)
{
    struct store *store = collector->store;

    if (now - source->paired_ns >= PAIR_NS) {
        source_pair(source, true);
        source->paired_ns = now;
    }
    if (now - source->slots_ns >= SLOTS_NS || collector->settling) {
        source_find_rings(source, store);
        source->slots_ns = now;
    }
    /* Asked before the last drain: what was written before death is read after it. */
    bool died = false;

    if ((now - source->checked_ns >= ALIVE_NS || collector->settling) &&
        source->state == SOURCE_LIVE) {
        died = collector->settling ? source_died(source) : source_is_gone(source, now);
        source->checked_ns = now;
    }
    if (died) {
        read_dead(collector, source);
        collector->rescan = true;
        return 1;
    }
    uint64_t folded =
        source->state == SOURCE_LIVE ? source_drain(source, store, BUDGET) : 0;

    if (folded > 0)
        source->wrote_ns = now;
    if (source->state == SOURCE_LIVE &&
        (now - source->looked_ns >= LOOK_NS || collector->settling))
        source_look(source, store, now);
    return folded;
}

/* A dead source is read when a query asked for it, or when it is the newest and nobody
 * lives. */
static bool is_wanted(struct collector *collector, const struct source *source,
                      bool anybody_lives)
{
    struct store *store = collector->store;
    struct session *session = NULL;
    bool wanted = false;

    pthread_rwlock_rdlock(&store->lock);
    struct process *process = state_find(store, source->serial, &session);

    if (process != NULL)
        wanted = atomic_load_explicit(&process->wanted, memory_order_relaxed) ||
                 (!anybody_lives && session == state_newest(store));
    pthread_rwlock_unlock(&store->lock);
    return wanted;
}

/* One pass over all; how many events it gave, and how many sources live. */
static uint64_t pass(struct collector *collector, int64_t now, uint32_t *alive)
{
    uint64_t folded = 0;
    bool read_one = false;

    *alive = 0;
    for (uint32_t i = 0; i < collector->sources.count; i++) {
        struct source *source = collector->sources.list[i];

        if (source->state != SOURCE_LIVE)
            continue;
        folded += serve_live(collector, source, now);
        *alive += source->state == SOURCE_LIVE;
    }
    for (uint32_t i = collector->sources.count; i-- > 0 && !read_one;) {
        struct source *source = collector->sources.list[i];

        if (source->state != SOURCE_WAITING ||
            !is_wanted(collector, source, *alive > 0))
            continue;
        read_dead(collector, source);
        folded++;
        read_one = true;
    }
    return folded;
}

static void wait_for_news(struct collector *collector, int timeout_ms)
{
    struct pollfd descriptors[] = {
        {.fd = collector->wake, .events = POLLIN},
        {.fd = collector->sources.watch.inotify, .events = POLLIN}};
    uint64_t count;

    if (poll(descriptors, 2, timeout_ms) <= 0)
        return;
    if (descriptors[0].revents & POLLIN)
        (void)!read(collector->wake, &count, sizeof(count));
    if (descriptors[1].revents & POLLIN)
        collector->rescan |= watch_told(&collector->sources.watch);
}

/* In time, or not at all: whoever comes late has waited for a core, and would see other
 * threads asleep more often than they are. */
static void sample_between_ops(struct collector *collector)
{
    int64_t now = now_ns();
    bool late = now - collector->looks.next_ns > LATE_NS, asked = false;

    for (uint32_t i = 0; i < collector->sources.count && !late; i++)
        if (collector->sources.list[i]->state == SOURCE_LIVE)
            asked |=
                between_ops_sample(collector->sources.list[i], collector->store, now);
    between_ops_next(&collector->looks, now, asked);
}

/* A settle is answered when a pass that began after it was asked found nothing. */
static void *run(void *user)
{
    struct collector *collector = user;
    int64_t busy_ns = 0;

    while (!atomic_load_explicit(&collector->stopping, memory_order_relaxed)) {
        int64_t now = now_ns();
        uint64_t asked = atomic_load_explicit(&collector->asked, memory_order_acquire);
        bool settling = asked > collector->settled; /* only this thread writes it */
        uint32_t alive;

        collector->settling = settling;
        if (collector->rescan || settling ||
            now - collector->sources.scanned_ns >= RESCAN_NS) {
            collector->rescan = false;
            sources_scan(&collector->sources, now);
        }
        uint64_t folded = pass(collector, now, &alive);

        if (folded > 0) {
            busy_ns = now;
        } else if (settling) {
            pthread_mutex_lock(&collector->lock);
            collector->settled = asked;
            pthread_cond_broadcast(&collector->changed);
            pthread_mutex_unlock(&collector->lock);
        }
        if (alive > 0 && now >= collector->looks.next_ns)
            sample_between_ops(collector);
        if (alive > 0 && now - collector->host.sampled_ns >= HOST_NS)
            host_sample(&collector->host, collector->store, now);
        int64_t quiet_ms = (now - busy_ns) / NS_PER_MS;
        int timeout = alive == 0           ? DEAD_MS
                      : folded > LIGHT_MAX ? BUSY_MS
                      : folded > FEW_MAX   ? LIGHT_MS
                      : quiet_ms < 1000    ? FEW_MS
                                           : IDLE_MS;

        /* No longer than to the next look at training threads: its moment must not depend on
         * what else is to be done. */
        int64_t left =
            (collector->looks.next_ns - now_ns() + NS_PER_MS - 1) / NS_PER_MS;

        if (alive > 0 && left < timeout)
            timeout = left < 0 ? 0 : (int)left;
        if (!settling || folded == 0)
            wait_for_news(collector, settling ? 0 : timeout);
    }
    return NULL;
}

struct collector *collector_start(struct store *store,
                                  const struct collector_options *options,
                                  const char **reason)
{
    struct collector *collector = calloc(1, sizeof(*collector));

    *reason = "out of memory";
    if (collector == NULL)
        return NULL;
    collector->store = store;
    collector->wake = -1;
    collector->rescan = true;
    pthread_mutex_init(&collector->lock, NULL);
    pthread_condattr_t attributes;

    pthread_condattr_init(&attributes);
    pthread_condattr_setclock(&attributes, CLOCK_MONOTONIC);
    pthread_cond_init(&collector->changed, &attributes);
    pthread_condattr_destroy(&attributes);
    if (!sources_open(&collector->sources, store))
        goto fail;
    *reason = "the handler for SIGBUS cannot be installed";
    if (!guard_install())
        goto fail;
    *reason = "inotify and eventfd are not available";
    collector->wake = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    if (collector->wake < 0 ||
        watch_open(&collector->sources.watch, options->all_users) != 0)
        goto fail;
    *reason = "a directory's path is too long, or there are too many";
    for (uint32_t i = 0; i < options->directory_count; i++)
        if (!watch_add(&collector->sources.watch, options->directories[i]))
            goto fail;
    host_open(&collector->host);
    *reason = "the collector's thread cannot be started";
    if (pthread_create(&collector->thread, NULL, run, collector) != 0)
        goto fail;
    *reason = "";
    return collector;
fail:
    sources_close(&collector->sources);
    if (collector->wake >= 0)
        close(collector->wake);
    free(collector);
    return NULL;
}

static void wake(struct collector *collector)
{
    uint64_t one = 1;

    (void)!write(collector->wake, &one, sizeof(one));
}

void collector_stop(struct collector *collector)
{
    if (collector == NULL)
        return;
    atomic_store_explicit(&collector->stopping, true, memory_order_relaxed);
    wake(collector);
    pthread_join(collector->thread, NULL);
    host_close(&collector->host);
    sources_close(&collector->sources);
    close(collector->wake);
    pthread_cond_destroy(&collector->changed);
    pthread_mutex_destroy(&collector->lock);
    free(collector);
}

bool collector_settle(struct collector *collector, int timeout_ms)
{
    /* Release: pairs with the acquire in run(); what the caller saw published is
     * visible to the pass that answers. */
    uint64_t asked =
        atomic_fetch_add_explicit(&collector->asked, 1, memory_order_release) + 1;
    struct timespec deadline;
    int error = 0;

    wake(collector);
    clock_gettime(CLOCK_MONOTONIC, &deadline);
    deadline.tv_sec += timeout_ms / 1000;
    deadline.tv_nsec += (long)(timeout_ms % 1000) * 1000000;
    if (deadline.tv_nsec >= 1000000000) {
        deadline.tv_sec++;
        deadline.tv_nsec -= 1000000000;
    }
    pthread_mutex_lock(&collector->lock);
    while (collector->settled < asked && error == 0)
        error =
            pthread_cond_timedwait(&collector->changed, &collector->lock, &deadline);
    bool settled = collector->settled >= asked;

    pthread_mutex_unlock(&collector->lock);
    return settled;
}
