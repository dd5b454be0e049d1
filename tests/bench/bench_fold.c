/* How fast rings become tables, and that what is lost is counted: one core folds what a
 * producer in the same process published into a segment of its own.
 *
 * Prints one JSON line per figure. The rate is the median of many short rounds, and
 * stands beside how many times as long it takes as copying the same events out of the
 * same ring: a busy machine slows both. `bench_fold 60` holds 1 M/s for 60 s, not 3.
 *
 * What keeps it from its mark: in a profile half of the samples make and merge the digests
 * of steps, which windows of any length are answered from.
 */
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>

#include "../unit/fake_segment.h"
#include "aggregate/state.h"
#include "bench/measure.h"
#include "ingest/guard.h"
#include "ingest/source.h"
#include "wire/clock.h"

#define ROUNDS         101
#define WARM_ROUNDS    20 /* until history and digests are full: the steady state */
#define RATE_MARK      30 /* M events/s */
#define OPS_PER_STEP   404u
#define NAMES          60u
#define RING           ((uint64_t)1 << 19)
#define ROUND_EVENTS   ((uint64_t)100000)
#define NS_PER_S       1e9
#define NONE_LOST_RATE 1e6

static struct fake fake;
static uint32_t names[NAMES];
static int64_t now;
static uint64_t step;

/* As long as an op takes: no two calls are alike, so that nothing can be predicted. */
static int64_t some_ns(int64_t most_ns)
{
    static uint64_t state = 1;

    state = state * 6364136223846793005u + 1442695040888963407u;
    return most_ns / 2 + (int64_t)((state >> 33) % (uint64_t)(most_ns / 2));
}

/* One step: tiny ops in trees of four, as an eager model makes them. */
static uint64_t write_step(int64_t op_ns)
{
    int64_t start = now;

    for (uint32_t i = 0; i < OPS_PER_STEP; i += 4) {
        int64_t t = now;

        for (uint32_t c = 0; c < 3; c++)
            fake_range(&fake, 0, EVENT_META(names[(i + c) % NAMES], EVENT_CPU_OP, 0, 0),
                       (int64_t[2]){t + c * op_ns, t + c * op_ns + some_ns(op_ns)});
        fake_range(&fake, 0, EVENT_META(names[i % NAMES], EVENT_CPU_OP, 0, 0),
                   (int64_t[2]){t - 10, t + 3 * op_ns + 20});
        now += 4 * op_ns;
    }
    fake_step(&fake, step++, EVENT_STEP_OPS | 0xfu << 8, start - 10, now);
    return OPS_PER_STEP + 1;
}

static void report_count(const char *name, double value)
{
    printf("{\"name\": \"%s\", \"value\": %.0f, \"unit\": \"events\", \"mark\": 0, "
           "\"verdict\": \"%s\"}\n",
           name, value, value <= 0 ? "hit" : "missed");
}

/* M events a second of this thread's own time. */
static double rate_since(uint64_t before_ns, uint64_t events)
{
    return (double)events / (double)(clock_ns(CLOCK_THREAD_CPUTIME_ID) - before_ns) *
           1e3;
}

/* The same events only copied out of the ring and checked: nothing is faster. */
static double copy_rate(struct ring_reader *reader, uint64_t events)
{
    static struct event copied[SOURCE_STAGED];
    uint64_t before = clock_ns(CLOCK_THREAD_CPUTIME_ID), done = 0;

    while (done < events) {
        int64_t got = guard_ring_read(reader, copied, SOURCE_STAGED);

        if (got <= 0)
            exit(1);
        done += (uint64_t)got;
    }
    return rate_since(before, events);
}

static double drain_rate(struct source *source, struct store *store, uint64_t events)
{
    uint64_t before = clock_ns(CLOCK_THREAD_CPUTIME_ID), folded = 0;

    while (folded < events)
        folded += source_drain(source, store, events - folded);
    return rate_since(before, events);
}

static void fold_rate(struct source *source, struct store *store)
{
    static double rates[ROUNDS], shares[ROUNDS];
    struct ring_reader reader;

    if (ring_attach(&reader, fake.rings[0].shared, ring_size(RING), RING, 0) != 0)
        exit(1);
    for (int32_t round = -WARM_ROUNDS; round < ROUNDS; round++) {
        uint64_t events = 0;

        while (events < ROUND_EVENTS)
            events += write_step(1000);
        /* In turns, so that whichever finds the events in a nearer cache is fair. */
        double copied = round % 2 == 0 ? copy_rate(&reader, events) : 0;
        double rate = drain_rate(source, store, events);

        copied = round % 2 == 0 ? copied : copy_rate(&reader, events);
        if (round < 0)
            continue;
        rates[round] = rate;
        shares[round] = copied / rate;
    }
    struct measure_middle rate = measure_middle(rates, ROUNDS);
    struct measure_middle times = measure_middle(shares, ROUNDS);

    printf("{\"name\": \"drain and fold, ring to tables, one core\", \"value\": %.4g, "
           "\"unit\": \"M events/s\", \"ci95\": [%.4g, %.4g], \"mark\": %d, "
           "\"verdict\": \"%s\", \"times_a_checked_copy\": %.2f, "
           "\"times_ci95\": [%.2f, %.2f]}\n",
           rate.value, rate.low, rate.high, RATE_MARK,
           measure_verdict(rate, RATE_MARK, 1), times.value, times.low, times.high);
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
static void losses(struct source *source, struct store *store, double rate,
                   double seconds)
{
    struct producing producing = {.rate = rate, .seconds = seconds};
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

    snprintf(name, sizeof(name), "lost at %.0f M events/s in %.0f s", rate / 1e6,
             seconds);
    if (rate <= NONE_LOST_RATE)
        report_count(name, lost);
    snprintf(name, sizeof(name), "neither folded nor counted at %.0f M events/s",
             rate / 1e6);
    report_count(name, unaccounted);
}

int main(int argc, char **argv)
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
    losses(&source, store, NONE_LOST_RATE, argc > 1 ? strtod(argv[1], NULL) : 3);
    losses(&source, store, 5e6, 3);
    source_close(&source);
    store_free(store);
    fake_close(&fake);
    rmdir(directory);
    return 0;
}
