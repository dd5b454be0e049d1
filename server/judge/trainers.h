/* The trainers that a judge watches, and what stands of each: a place for the newest
 * JUDGE_TRAINERS. The keeper's thread fills them, any thread reads them under the lock. */
#ifndef JUDGE_TRAINERS_H
#define JUDGE_TRAINERS_H

#include <pthread.h>
#include <stdint.h>

#include "findings/findings.h"
#include "findings/standing.h"

/* The newest ones; findings of others are taken as they are. */
#define JUDGE_TRAINERS 64u

struct replays;

struct trainer {
    char session[64];
    uint32_t pid;
    int64_t last_step;
    uint64_t fed;  /* when, in feeds; 0: the place is free */
    uint64_t kept; /* the same, of what was written down */
    uint32_t kept_sum;
    struct standing standing;
    struct findings shown; /* of the last look: what stands, as it was found last */
};

struct judge {
    struct replays *replays; /* borrowed; NULL: each look replays anew */
    pthread_mutex_t lock;    /* guards all below */
    struct trainer trainers[JUDGE_TRAINERS];
    uint64_t feeds;
    uint32_t next; /* the first trainer of the next feed; the keeper's alone */
};

/* Both under the lock, for as long as it is held. NULL when it was never fed. */
struct trainer *trainer_find(struct judge *judge, const char *session, uint32_t pid);

/* A place for it: its own, a free one, else that of the trainer that is longest gone. */
struct trainer *trainer_place(struct judge *judge, const struct answer *head);

#endif
