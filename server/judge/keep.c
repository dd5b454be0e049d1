#include "judge/keep.h"

#include <cjson/cJSON.h>
#include <stdlib.h>
#include <string.h>

#include "judge/said.h"
#include "judge/trainers.h"
#include "runs/runs.h"
#include "wire/hash.h"

/* What stands is written down when it changes, and as often: feeds come once a second. */
#define KEEP_FEEDS 60u

void judge_recall(struct judge *judge, struct runs *runs, const struct answer *head)
{
    char *said;
    bool known;

    pthread_mutex_lock(&judge->lock);
    known = trainer_find(judge, head->session, head->pid) != NULL;
    pthread_mutex_unlock(&judge->lock);
    said = known || runs == NULL ? NULL : runs_said(runs, head->session, head->pid);
    if (said == NULL)
        return;
    pthread_mutex_lock(&judge->lock);
    said_read(said, &trainer_place(judge, head)->standing);
    pthread_mutex_unlock(&judge->lock);
    free(said);
}

/* Changes when a finding comes or goes. */
static uint32_t sum_of(const struct standing *standing)
{
    uint64_t sum = HASH_BEGIN;

    for (uint32_t i = 0; i < STANDING_MAX; i++) {
        const struct standing_entry *entry = &standing->entries[i];

        if (entry->state != STANDING_STANDS && entry->state != STANDING_FIXED)
            continue;
        sum = hash_bytes(sum, entry->id, strlen(entry->id));
        sum = hash_bytes(sum, &entry->state, sizeof(entry->state));
    }
    return hash_fold(sum);
}

/* Writes down what is said of that trainer. */
static void keep(struct judge *judge, struct runs *runs, const struct trainer *trainer)
{
    char session[sizeof(trainer->session)], *said;
    uint32_t pid;

    pthread_mutex_lock(&judge->lock);
    memcpy(session, trainer->session, sizeof(session));
    pid = trainer->pid;
    said = said_print(&trainer->standing);
    pthread_mutex_unlock(&judge->lock);
    if (said != NULL)
        (void)runs_keep_said(runs, session, pid, said); /* the store says why not */
    cJSON_free(said);
}

void judge_keep(struct judge *judge, struct runs *runs, bool all)
{
    for (uint32_t i = 0; i < JUDGE_TRAINERS; i++) {
        struct trainer *trainer = &judge->trainers[i];
        bool due;

        pthread_mutex_lock(&judge->lock);
        uint32_t sum = sum_of(&trainer->standing);

        due = trainer->fed != 0 && trainer->fed > trainer->kept &&
              (all || sum != trainer->kept_sum ||
               trainer->fed - trainer->kept >= KEEP_FEEDS);
        trainer->kept = due ? trainer->fed : trainer->kept;
        trainer->kept_sum = sum;
        pthread_mutex_unlock(&judge->lock);
        if (due)
            keep(judge, runs, trainer);
    }
}
