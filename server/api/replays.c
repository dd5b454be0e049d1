#include "api/replays.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "wire/clock.h"

struct entry {
    char session[64];
    uint32_t pid;
    struct window window;
    bool taken;
    bool live;      /* when it was replayed */
    int64_t age_ms; /* when that was, monotonic */
    uint64_t rev;
    struct replay_table table;
};

struct replays {
    pthread_mutex_t lock;
    struct entry entries[REPLAYS_KEPT];
};

struct replays *replays_new(void)
{
    struct replays *replays = calloc(1, sizeof(*replays));

    if (replays != NULL && pthread_mutex_init(&replays->lock, NULL) != 0) {
        free(replays);
        return NULL;
    }
    return replays;
}

void replays_free(struct replays *replays)
{
    if (replays == NULL)
        return;
    pthread_mutex_destroy(&replays->lock);
    free(replays);
}

static bool is_of(const struct entry *entry, const struct selection *selection,
                  const struct answer *head)
{
    return entry->taken && entry->pid == head->pid &&
           entry->window.kind == selection->window.kind &&
           entry->window.a == selection->window.a &&
           entry->window.b == selection->window.b &&
           strcmp(entry->session, head->session) == 0;
}

/* The entry of a selection, else the one to be given up; the lock is held. */
static struct entry *find(struct replays *replays, const struct selection *selection,
                          const struct answer *head)
{
    struct entry *oldest = &replays->entries[0];

    for (uint32_t i = 0; i < REPLAYS_KEPT; i++) {
        struct entry *entry = &replays->entries[i];

        if (is_of(entry, selection, head))
            return entry;
        if (!entry->taken || (oldest->taken && entry->age_ms < oldest->age_ms))
            oldest = entry;
    }
    return oldest;
}

static void replay_now(struct store *store, const struct selection *selection,
                       struct replay_table *table)
{
    struct replay_answer answer;

    if (replay_query(store, selection, &answer) == 0)
        *table = answer.table;
    answer_free(&answer.head);
}

void replays_table(struct replays *replays, struct store *store,
                   const struct selection *selection, const struct answer *head,
                   struct replay_table *table)
{
    int64_t now_ms = (int64_t)(clock_ns(CLOCK_MONOTONIC) / 1000000);
    struct entry *entry;
    bool fresh;

    *table = (struct replay_table){0};
    if (replays == NULL) {
        replay_now(store, selection, table);
        return;
    }
    pthread_mutex_lock(&replays->lock);
    entry = find(replays, selection, head);
    fresh = is_of(entry, selection, head) &&
            (entry->live ? now_ms - entry->age_ms < REPLAYS_AGE_MS
                         : entry->rev == head->rev && !head->live);
    if (fresh) {
        *table = entry->table;
    } else {
        /* Who asks meanwhile gets what was known before. */
        if (!is_of(entry, selection, head))
            *entry = (struct entry){.pid = head->pid, .window = selection->window};
        memcpy(entry->session, head->session, sizeof(entry->session));
        entry->taken = true;
        entry->live = head->live;
        entry->age_ms = now_ms;
        entry->rev = head->rev;
    }
    pthread_mutex_unlock(&replays->lock);
    if (fresh)
        return;
    replay_now(store, selection, table);
    pthread_mutex_lock(&replays->lock);
    entry = find(replays, selection, head);
    if (is_of(entry, selection, head))
        entry->table = *table;
    pthread_mutex_unlock(&replays->lock);
}
