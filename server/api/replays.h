/* What replayed steps told of each selection that was asked for: replaying takes up to a
 * fifth of a second, so of a run that goes on it is done again after REPLAYS_AGE_MS at the
 * soonest, of one that is over once. Any thread. */
#ifndef API_REPLAYS_H
#define API_REPLAYS_H

#include "query/replay_query.h"

#define REPLAYS_AGE_MS 30000
#define REPLAYS_KEPT   16u /* selections; the one that was replayed longest ago goes */

struct replays;

/* NULL without memory. */
struct replays *replays_new(void);
void replays_free(struct replays *replays);

/* The table of a selection, whose answer has this head. `replays` may be NULL: then it is
 * replayed now. All zero where nothing could be replayed. */
void replays_table(struct replays *replays, struct store *store,
                   const struct selection *selection, const struct answer *head,
                   struct replay_table *table);

#endif
