/* What is said of findings beside the rules: which of a live session's stand and which
 * were fixed (findings/standing.h), and what the user said of them (runs/runs.h).
 *
 * The keeper's thread feeds it once a second; any thread may ask. A selection, a file and
 * a run that is over are judged as they are; of the run is told what stood when it ended
 * and what was fixed.
 */
#ifndef JUDGE_JUDGE_H
#define JUDGE_JUDGE_H

#include "document/document.h"

struct judge;
struct replays;
struct runs;
struct store;

/* Borrows `replays`, which may be NULL. NULL without memory. */
struct judge *judge_new(struct replays *replays);
void judge_free(struct judge *judge);

/* Looks at the trainers that run, a few at a time in turns, and writes down what is said
 * of them, so that a server that comes after says the same. `runs` may be NULL. One thread
 * at a time. */
void judge_feed(struct judge *judge, struct store *store, struct runs *runs);

/* The findings of an answer to `selection`. `runs` may be NULL: then nothing is known of the
 * user. judgement_free() is owed. */
void judge_findings(struct judge *judge, struct runs *runs,
                    const struct selection *selection,
                    const struct bottlenecks_answer *answer,
                    struct judgement *judgement);
void judgement_free(struct judgement *judgement);

#endif
