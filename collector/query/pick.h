/* Whose tables, and which part of them: the beginning of every query. The store's read
 * lock is held from pick_begin() to pick_end(). */
#ifndef QUERY_PICK_H
#define QUERY_PICK_H

#include "aggregate/state.h"
#include "query/answer.h"

struct pick {
    struct store *store;
    struct session *session;
    struct process *process;
    struct answer *head;
};

/* Steps that are neither typical nor slow: validation, and what torch.profiler lengthens. */
#define STEP_APART (EVENT_STEP_VALIDATION | EVENT_STEP_WINDOW)

static inline int64_t step_end_ns(const struct step *step)
{
    return step->start_ns + step->duration_ns;
}

/* Locks, finds session and process, fills the head but for its window. On error nothing
 * is locked: 0, -ENOENT. */
MUST_CHECK int pick_begin(struct pick *pick, struct store *store,
                          const struct selection *selection, struct answer *head);

/* pick_begin() and pick_window(): for most questions. */
MUST_CHECK int pick_open(struct pick *pick, struct store *store,
                         const struct selection *selection, struct answer *head);

/* Resolves the window against the process's steps; head->steps and recorded_steps. */
void pick_window(struct pick *pick, const struct window *asked);

/* The same for what is judged: where steps are long, or a validation is, a last minute of a
 * running job with fewer than twenty training steps reaches back to so many. */
void pick_judged(struct pick *pick, const struct window *asked);

/* Is all of the run asked for? Its sums hold also what is no longer remembered. */
bool pick_is_run(const struct pick *pick, const struct window *asked);

/* Does the window show a running job as it goes: the last minute or more, or all so far? */
bool pick_goes_on(const struct pick *pick);

/* The same question with a head of its own, whose arena is empty: the reason that a part gives
 * is not the answer's. answer_free(head) is owed. */
struct pick pick_part(const struct pick *pick, struct answer *head);

void pick_end(struct pick *pick);

/* Remembered steps in the head's window: index of the first, and how many. */
uint32_t pick_steps(const struct pick *pick, uint32_t *count);

/* The default process of a session: its lowest rank, else its first trainer. */
struct process *pick_default(const struct session *session);

/* Its role as it turned out: a trainer without a step next to one with steps is a helper (a
 * driver, a controller), unless it is a rank of its own. */
enum wire_role pick_role(const struct session *session, const struct process *process);

/* "cpu", "cuda:0"; torch's names of device types. */
const char *pick_device(struct answer *head, uint16_t device);

#endif
