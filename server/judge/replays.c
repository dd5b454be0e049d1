#include "judge/replays.h"

#include <math.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "judge/usual.h"
#include "wire/clock.h"

/* Steps that take so much more or less than those that were replayed are others. */
#define OTHER_STEPS 0.1

/* What replaying takes, so many times as long passes before it is done again. */
#define PAUSE 100

struct entry {
    char session[64];
    uint32_t pid;
    int32_t rank; /* in containers of their own all ranks may have one pid */
    struct window window;
    bool taken;
    bool known;    /* the table is: the first replay is over */
    bool live;     /* when it was replayed */
    int64_t at_ms; /* when that was */
    uint64_t rev;
    double step_ns; /* mean of the window then */
    struct replay_table table;
};

struct replays {
    int64_t (*now_ms)(void);
    pthread_mutex_t lock; /* guards all below */
    int64_t rests_until_ms;
    struct entry entries[REPLAYS_KEPT];
};

static int64_t monotonic_ms(void)
{
    return (int64_t)(clock_ns(CLOCK_MONOTONIC) / 1000000);
}

struct replays *replays_new(int64_t (*now_ms)(void))
{
    struct replays *replays = calloc(1, sizeof(*replays));

    if (replays != NULL && pthread_mutex_init(&replays->lock, NULL) != 0) {
        free(replays);
        return NULL;
    }
    if (replays != NULL)
        replays->now_ms = now_ms != NULL ? now_ms : monotonic_ms;
    return replays;
}

void replays_free(struct replays *replays)
{
    if (replays == NULL)
        return;
    pthread_mutex_destroy(&replays->lock);
    free(replays);
}

/* The usual window has two names. */
static struct window window_of(const struct selection *selection,
                               const struct answer *head)
{
    return usual_is(selection, head) ? (struct window){.kind = WINDOW_DEFAULT}
                                     : selection->window;
}

static bool is_of(const struct entry *entry, const struct window *window,
                  const struct answer *head)
{
    return entry->taken && entry->pid == head->pid && entry->rank == head->rank &&
           entry->window.kind == window->kind && entry->window.a == window->a &&
           entry->window.b == window->b && strcmp(entry->session, head->session) == 0;
}

/* The entry of a window, else the one to be given up; the lock is held. */
static struct entry *find(struct replays *replays, const struct window *window,
                          const struct answer *head)
{
    struct entry *oldest = &replays->entries[0];

    for (uint32_t i = 0; i < REPLAYS_KEPT; i++) {
        struct entry *entry = &replays->entries[i];

        if (is_of(entry, window, head))
            return entry;
        if (!entry->taken || (oldest->taken && entry->at_ms < oldest->at_ms))
            oldest = entry;
    }
    return oldest;
}

/* How long what was replayed then stands for what runs. */
static int64_t lasts_ms(const struct entry *entry,
                        const struct bottlenecks_answer *answer)
{
    double other = fabs(answer->steps.train.mean_ns - entry->step_ns);
    bool soon =
        entry->table.steps < REPLAY_STEPS_MAX || other > OTHER_STEPS * entry->step_ns;
    int64_t ms = soon ? REPLAYS_SOON_MS : REPLAYS_AGE_MS;

    /* Of a shorter stretch no step would be the same. */
    if (entry->window.kind == WINDOW_LAST_NS && entry->window.a / 1000000 < ms)
        ms = entry->window.a / 1000000;
    return ms;
}

/* The lock is held. */
static bool is_fresh(const struct replays *replays, const struct entry *entry,
                     const struct bottlenecks_answer *answer)
{
    int64_t now_ms = replays->now_ms();

    if (!entry->known || entry->live != answer->head.live)
        return false;
    if (!entry->live)
        return entry->rev == answer->head.rev;
    return now_ms < replays->rests_until_ms ||
           now_ms - entry->at_ms < lasts_ms(entry, answer);
}

/* Whether it is to be replayed now; who asks meanwhile gets what was known before. */
static bool begin(struct replays *replays, const struct window *window,
                  struct bottlenecks_answer *answer)
{
    const struct answer *head = &answer->head;
    struct entry *entry;
    bool fresh;

    pthread_mutex_lock(&replays->lock);
    entry = find(replays, window, head);
    fresh = is_of(entry, window, head) && is_fresh(replays, entry, answer);
    if (fresh) {
        answer->replay = entry->table;
    } else {
        if (!is_of(entry, window, head))
            *entry =
                (struct entry){.pid = head->pid, .rank = head->rank, .window = *window};
        memcpy(entry->session, head->session, sizeof(entry->session));
        entry->taken = true;
        entry->live = head->live;
        entry->at_ms = replays->now_ms();
        entry->rev = head->rev;
        entry->step_ns = answer->steps.train.mean_ns;
    }
    pthread_mutex_unlock(&replays->lock);
    return !fresh;
}

void replays_fill(struct replays *replays, struct store *store,
                  const struct selection *selection, struct bottlenecks_answer *answer)
{
    const struct answer *head = &answer->head;
    struct window window = window_of(selection, head);
    int64_t began_ms = replays == NULL ? 0 : replays->now_ms();

    if (replays != NULL && !begin(replays, &window, answer))
        return;
    answer->replay = replay_query_table(store, selection);
    if (replays == NULL)
        return;
    pthread_mutex_lock(&replays->lock);
    struct entry *entry = find(replays, &window, head);
    int64_t now_ms = replays->now_ms();

    if (is_of(entry, &window, head)) {
        entry->table = answer->replay;
        entry->known = true;
    }
    if (head->live)
        replays->rests_until_ms = now_ms + PAUSE * (now_ms - began_ms);
    pthread_mutex_unlock(&replays->lock);
}

void replays_known(struct replays *replays, const struct selection *selection,
                   struct bottlenecks_answer *answer)
{
    struct window window = window_of(selection, &answer->head);

    if (replays == NULL || gpu_busiest(&answer->gpu) == NULL)
        return;
    pthread_mutex_lock(&replays->lock);
    const struct entry *entry = find(replays, &window, &answer->head);

    if (is_of(entry, &window, &answer->head) && entry->live == answer->head.live)
        answer->replay = entry->table;
    pthread_mutex_unlock(&replays->lock);
}

void replays_for_rules(struct replays *replays, struct store *store,
                       const struct selection *selection,
                       struct bottlenecks_answer *answer)
{
    if (gpu_busiest(&answer->gpu) != NULL)
        replays_fill(replays, store, selection, answer);
}
