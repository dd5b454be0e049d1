/* One trainer whose steps a test folds by hand. */
#ifndef HAND_H
#define HAND_H

#include "aggregate/state.h"

#define MS INT64_C(1000000)
#define S  INT64_C(1000000000)

static struct store *store;
static struct process *process;
static int64_t now; /* where the next step begins */

static inline int hand_begin(void)
{
    struct process_identity identity = {.pid = 7, .role = WIRE_ROLE_TRAINER};

    store = store_new(NULL);
    process = state_process(store, state_session(store, "hand"), &identity);
    now = 0;
    return process == NULL ? -1 : 0;
}

static inline void fold(uint64_t meta, int64_t start, int64_t value, uint64_t aux)
{
    struct event event = {
        .time = (uint64_t)start, .value = (uint64_t)value, .meta = meta, .aux = aux};

    process_fold(process, 0, &event, 1);
}

/* The next step, of data first, then forward. */
static inline void fold_step(uint64_t number, uint64_t epoch, int64_t data_ns,
                             int64_t forward_ns)
{
    int64_t start = now, data_end = start + data_ns;

    now = data_end + forward_ns;
    fold(EVENT_META(0, EVENT_PHASE, 0, EVENT_PHASE_DATA), start, data_ns, 0);
    fold(EVENT_META(0, EVENT_PHASE, 0, EVENT_PHASE_FORWARD), data_end, forward_ns, 0);
    fold(EVENT_META(0, EVENT_STEP, 0, 0xf), start, now - start, number | epoch << 48);
}

#endif
