/* How fast rings become tables, and that what is lost is counted: one core folds what a
 * producer in the same process published into a segment of its own.
 *
 * Prints one JSON line per figure: {name, value, unit, low, high, mark, verdict}.
 */
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>

#include "../unit/fake_segment.h"
#include "aggregate/state.h"
#include "ingest/guard.h"
#include "ingest/source.h"
#include "wire/clock.h"

#define ROUNDS       9u
#define OPS_PER_STEP 404u
#define NAMES        60u
#define RING         ((uint64_t)1 << 19)
#define ROUND_EVENTS ((uint64_t)400000)
#define NS_PER_S     1e9

static struct fake fake;
static uint32_t names[NAMES];
static int64_t now;
static uint64_t step;

/* One step: tiny ops in trees of four, as an eager model makes them. */
static uint64_t write_step(int64_t op_ns)
{
    int64_t start = now;

    for (uint32_t i = 0; i < OPS_PER_STEP; i += 4) {
        int64_t t = now;

        for (uint32_t c = 0; c < 3; c++)
            fake_range(
                &fake, 0, EVENT_META(names[(i + c) % NAMES], EVENT_CPU_OP, 0, 0),
                (int64_t[2]){t + c * op_ns, t + (c + 1) * op_ns - (i * 7 + c) % 97});
        fake_range(&fake, 0, EVENT_META(names[i % NAMES], EVENT_CPU_OP, 0, 0),
                   (int64_t[2]){t - 10, t + 3 * op_ns + 20});
        now += 4 * op_ns;
    }
    fake_step(&fake, step++, EVENT_STEP_OPS | 0xfu << 8, start - 10, now);
    return OPS_PER_STEP + 1;
}

static void report(const char *name, const char *unit, const double *values,
                   uint32_t count, double mark, int at_least)
{
    double low = values[0], high = values[0], sum = 0;

    for (uint32_t i = 0; i < count; i++) {
        low = values[i] < low ? values[i] : low;
        high = values[i] > high ? values[i] : high;
        sum += values[i];
    }
    const char *verdict = at_least ? (low >= mark   ? "hit"
                                      : high < mark ? "missed"
                                                    : "undecided")
                                   : (high <= mark ? "hit"
                                      : low > mark ? "missed"
                                                   : "undecided");

    printf("{\"name\":\"%s\",\"value\":%.4g,\"unit\":\"%s\",\"low\":%.4g,\"high\":%.4g,"
           "\"mark\":%.4g,\"verdict\":\"%s\"}\n",
           name, sum / count, unit, low, high, mark, verdict);
}

static void fold_rate(struct source *source, struct store *store)
{
    double rates[ROUNDS];

    for (uint32_t round = 0; round < ROUNDS; round++) {
        uint64_t events = 0, folded = 0;

        while (events < ROUND_EVENTS)
            events += write_step(1000);
        uint64_t before = clock_ns(CLOCK_THREAD_CPUTIME_ID);

        while (folded < events)
            folded += source_drain(source, store, events - folded);
        rates[round] =
            (double)events /
            ((double)(clock_ns(CLOCK_THREAD_CPUTIME_ID) - before) / NS_PER_S) / 1e6;
    }
    /* The first touches fresh memory. */
    report("drain and fold, ring to tables, one core", "M events/s", rates + 1,
           ROUNDS - 1, 30, 1);
}

struct producing {
    double rate; /* events per second */
    double seconds;
    _Atomic uint64_t published;
    _Atomic int done;
};

static void *produce(void *user)
{
    struct producing *producing = user;
    uint64_t start = clock_ns(CLOCK_MONOTONIC), published = 0;
    double elapsed = 0;

    while ((elapsed = (double)(clock_ns(CLOCK_MONOTONIC) - start) / NS_PER_S) <
           producing->seconds) {
        if ((double)published > elapsed * producing->rate) {
            struct timespec pause = {0, 200000};

            nanosleep(&pause, NULL);
            continue;
        }
        published += write_step(1000);
    }
    atomic_store(&producing->published, published);
    atomic_store(&producing->done, 1);
    return NULL;
}

/* Events that are neither folded nor counted lost; 0 is what must come out. */
static void losses(struct source *source, struct store *store, double rate, int none)
{
    struct producing producing = {.rate = rate, .seconds = 3};
    struct process *process = source_process(source, store);
    uint64_t folded_before = process->events, lost_before = process->lost;
    pthread_t thread;
    char name[96];

    if (pthread_create(&thread, NULL, produce, &producing) != 0)
        return;
    while (!atomic_load(&producing.done)) {
        struct timespec pause = {0, 1000000};

        source_drain(source, store, UINT64_MAX);
        nanosleep(&pause, NULL);
    }
    pthread_join(thread, NULL);
    while (source_drain(source, store, UINT64_MAX) > 0)
        ;
    double lost = (double)(process->lost - lost_before);
    double unaccounted = (double)atomic_load(&producing.published) - lost -
                         (double)(process->events - folded_before);

    snprintf(name, sizeof(name), "lost at %.0f M events/s", rate / 1e6);
    if (none)
        report(name, "events", &lost, 1, 0, 0);
    snprintf(name, sizeof(name), "neither folded nor counted at %.0f M events/s",
             rate / 1e6);
    report(name, "events", &unaccounted, 1, 0, 0);
}

int main(void)
{
    static struct source source;
    /* So small that it is full soon: what is measured is the steady state. */
    struct store *store =
        store_new(&(struct store_limits){.history_bytes = 32u * 1024 * 1024});
    char directory[128], name[64];

    fake_directory(directory, sizeof(directory));
    fake_open(&fake, directory, "bench", "bench", 32u * 1024 * 1024);
    fake_thread(&fake, 0, RING);
    for (uint32_t i = 0; i < NAMES; i++) {
        snprintf(name, sizeof(name), "aten::op_%u", i);
        names[i] = fake_name(&fake, name);
    }
    if (store == NULL || !guard_install() ||
        source_open(&source, store, fake.path) != 0)
        return 1;
    now = 1000;
    source_find_rings(&source, store);
    fold_rate(&source, store);
    losses(&source, store, 1e6, 1);
    losses(&source, store, 5e6, 0);
    source_close(&source);
    store_free(store);
    fake_close(&fake);
    rmdir(directory);
    return 0;
}
