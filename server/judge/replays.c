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

/* What nobody has asked for since then takes no part of the time any more: of JUDGE_TRAINERS
 * each is looked at every 22 s. */
#define ASKED_MS 30000

struct entry {
    char session[64];
    uint32_t pid;
    int32_t rank; /* in containers of their own all ranks may have one pid */
    struct window window;
    bool taken;
    bool runs;        /* somebody replays it */
    bool known;       /* the table is */
    bool live;        /* the run was when that was replayed */
    int64_t at_ms;    /* when the newest replay began; rev and step_ns are of then */
    int64_t rests_ms; /* until then it is not done again */
    uint64_t rev;
    double step_ns;   /* mean of the window then */
    int64_t asked_ms; /* when somebody asked last */
    struct replay_table table;
};

struct replays {
    int64_t (*now_ms)(void);
    pthread_mutex_t lock; /* guards all below */
    pthread_cond_t over;  /* a replay is */
    struct entry entries[REPLAYS_KEPT];
};

static int64_t monotonic_ms(void)
{
    return (int64_t)(clock_ns(CLOCK_MONOTONIC) / 1000000);
}

struct replays *replays_new(int64_t (*now_ms)(void))
{
    struct replays *replays = calloc(1, sizeof(*replays));

    if (replays == NULL)
        return NULL;
    pthread_mutex_init(&replays->lock, NULL);
    pthread_cond_init(&replays->over, NULL);
    replays->now_ms = now_ms != NULL ? now_ms : monotonic_ms;
    return replays;
}

void replays_free(struct replays *replays)
{
    if (replays == NULL)
        return;
    pthread_cond_destroy(&replays->over);
    pthread_mutex_destroy(&replays->lock);
    free(replays);
}

static const struct window usual = {.kind = WINDOW_LAST_NS, .a = USUAL_NS};

/* The usual window has two names. */
static struct window window_of(const struct selection *selection,
                               const struct answer *head)
{
    return usual_is(selection, head) ? usual : selection->window;
}

static bool is_of(const struct entry *entry, const struct window *window,
                  const struct answer *head)
{
    return entry->taken && entry->pid == head->pid && entry->rank == head->rank &&
           entry->window.kind == window->kind && entry->window.a == window->a &&
           entry->window.b == window->b && strcmp(entry->session, head->session) == 0;
}

/* The entry of a window; NULL: none is. The lock is held, here and below. */
static struct entry *find(struct replays *replays, const struct window *window,
                          const struct answer *head)
{
    for (uint32_t i = 0; i < REPLAYS_KEPT; i++)
        if (is_of(&replays->entries[i], window, head))
            return &replays->entries[i];
    return NULL;
}

/* One for a new window: what was asked for longest ago is forgotten. NULL where all of them
 * are being replayed. */
static struct entry *make(struct replays *replays, const struct window *window,
                          const struct answer *head)
{
    struct entry *oldest = NULL;

    for (uint32_t i = 0; i < REPLAYS_KEPT; i++) {
        struct entry *entry = &replays->entries[i];

        if (!entry->runs && (oldest == NULL || !entry->taken ||
                             (oldest->taken && entry->asked_ms < oldest->asked_ms)))
            oldest = entry;
    }
    if (oldest == NULL)
        return NULL;
    *oldest = (struct entry){
        .taken = true, .pid = head->pid, .rank = head->rank, .window = *window};
    memcpy(oldest->session, head->session, sizeof(oldest->session));
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

static bool is_fresh(const struct entry *entry, int64_t now_ms,
                     const struct bottlenecks_answer *answer)
{
    if (!entry->known || entry->live != answer->head.live)
        return false;
    if (!entry->live)
        return entry->rev == answer->head.rev;
    return now_ms < entry->rests_ms || now_ms - entry->at_ms < lasts_ms(entry, answer);
}

/* Of the runs that go on; these share the time. */
static uint32_t asked_for(const struct replays *replays, int64_t now_ms)
{
    uint32_t count = 0;

    for (uint32_t i = 0; i < REPLAYS_KEPT; i++)
        count += replays->entries[i].taken && replays->entries[i].live &&
                 now_ms - replays->entries[i].asked_ms <= ASKED_MS;
    return count > 0 ? count : 1;
}

/* So few steps took little and say nothing: most of that time was waited for a core. */
static int64_t rest_of(const struct replays *replays, const struct entry *entry,
                       int64_t now_ms)
{
    int64_t ms = PAUSE * (now_ms - entry->at_ms) * asked_for(replays, now_ms);

    return entry->table.steps < REPLAY_STEPS_MIN && ms > REPLAYS_SOON_MS
               ? REPLAYS_SOON_MS
               : ms;
}

/* The entry that the caller is to replay now; NULL: what is known of it was filled in, or
 * there is none. Who asks while somebody replays gets what was known before; where that is
 * nothing, or of a run that went on then, waits for it. */
static struct entry *begin(struct replays *replays, const struct window *window,
                           struct bottlenecks_answer *answer)
{
    const struct answer *head = &answer->head;
    struct entry *entry;

    while ((entry = find(replays, window, head)) != NULL && entry->runs &&
           (!entry->known || entry->live != head->live))
        pthread_cond_wait(&replays->over, &replays->lock);
    int64_t now_ms = replays->now_ms();

    if (entry == NULL && (entry = make(replays, window, head)) == NULL)
        return NULL;
    entry->asked_ms = now_ms;
    if (entry->runs || is_fresh(entry, now_ms, answer)) {
        answer->replay = entry->table;
        return NULL;
    }
    entry->runs = true;
    entry->at_ms = now_ms;
    entry->rev = head->rev;
    entry->step_ns = answer->steps.train.mean_ns;
    return entry;
}

void replays_fill(struct replays *replays, struct store *store,
                  const struct selection *selection, struct bottlenecks_answer *answer)
{
    struct window window = window_of(selection, &answer->head);

    if (replays == NULL) {
        answer->replay = replay_query_table(store, selection);
        return;
    }
    pthread_mutex_lock(&replays->lock);
    struct entry *entry = begin(replays, &window, answer);

    if (entry != NULL) {
        pthread_mutex_unlock(&replays->lock);
        answer->replay = replay_query_table(store, selection);
        pthread_mutex_lock(&replays->lock);
        int64_t now_ms = replays->now_ms();

        entry->table = answer->replay;
        entry->known = true;
        entry->live = answer->head.live;
        entry->runs = false;
        entry->rests_ms = now_ms + rest_of(replays, entry, now_ms);
        pthread_cond_broadcast(&replays->over);
    }
    pthread_mutex_unlock(&replays->lock);
}

void replays_known(struct replays *replays, const struct selection *selection,
                   struct bottlenecks_answer *answer)
{
    struct window window = window_of(selection, &answer->head);

    if (replays == NULL)
        return;
    pthread_mutex_lock(&replays->lock);
    const struct entry *entry = find(replays, &window, &answer->head);
    bool whole = window.kind == WINDOW_DEFAULT || window.kind == WINDOW_RUN;

    if ((entry == NULL || !entry->known) && whole && !answer->head.live)
        entry = find(replays, &usual, &answer->head);
    if (entry != NULL && entry->known)
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
