/* What replayed steps told of each selection that was asked for (query/replay_query.h).
 *
 * Replaying takes up to a fifth of a second. So of a run that goes on it is done again after
 * REPLAYS_AGE_MS; where few steps were replayed yet, or steps take another time by now, after
 * REPLAYS_SOON_MS; never again before all that is replayed of runs that go on has become a
 * hundredth of the time, of which each has an equal part (too few steps to say anything do not
 * count). Of a run that is over it is done once. Any thread; two never replay the same.
 */
#ifndef JUDGE_REPLAYS_H
#define JUDGE_REPLAYS_H

#include "judge/trainers.h"
#include "query/bottlenecks_query.h"

#define REPLAYS_AGE_MS  30000
#define REPLAYS_SOON_MS 5000
#define REPLAYS_KEPT    (JUDGE_TRAINERS + 16u) /* selections */

struct replays;

/* `now_ms` is a clock that only goes forward; NULL the system's. NULL without memory. */
struct replays *replays_new(int64_t (*now_ms)(void));
void replays_free(struct replays *replays);

/* Fills in answer->replay, of an answer to this selection; all zero where nothing could be
 * replayed. `replays` may be NULL: then it is replayed now. */
void replays_fill(struct replays *replays, struct store *store,
                  const struct selection *selection, struct bottlenecks_answer *answer);

/* The same where rules read it, who ask it of devices: else it stays zero. */
void replays_for_rules(struct replays *replays, struct store *store,
                       const struct selection *selection,
                       struct bottlenecks_answer *answer);

/* Fills in what is known, and replays nothing: for who may not wait. Of a whole run that is over
 * and was not replayed since, what was told of its last minute. */
void replays_known(struct replays *replays, const struct selection *selection,
                   struct bottlenecks_answer *answer);

#endif
