#include "probe/steps/cadence.h"

/* The update `back` places before the newest (0). */
static uint32_t update_at(const struct cadence *cadence, uint64_t back)
{
    return cadence->history[(cadence->count - 1 - back) % CADENCE_HISTORY];
}

static uint64_t remembered(const struct cadence *cadence)
{
    return cadence->count < CADENCE_HISTORY ? cadence->count : CADENCE_HISTORY;
}

static uint32_t times(const struct cadence *cadence, uint32_t id)
{
    uint32_t found = 0;

    for (uint64_t back = 0; back < remembered(cadence); back++)
        found += update_at(cadence, back) == id;
    return found;
}

bool cadence_remembers(const struct cadence *cadence, uint32_t id)
{
    return times(cadence, id) > 0;
}

/* Updates since the one before of the newest's id; 0 when it is not remembered. */
static uint64_t distance(const struct cadence *cadence)
{
    uint32_t id = update_at(cadence, 0);

    for (uint64_t back = 1; back < remembered(cadence); back++)
        if (update_at(cadence, back) == id)
            return back;
    return 0;
}

static void settle(struct cadence *cadence, uint32_t anchor, uint64_t at)
{
    cadence->moved = cadence->known;
    cadence->known = true;
    cadence->anchor = anchor;
    cadence->anchor_at = at;
}

static enum cadence_answer learn(struct cadence *cadence, uint32_t id)
{
    uint64_t back = distance(cadence);

    if (back == 0 && cadence->count <= CADENCE_PERIOD)
        return CADENCE_HELD;
    /* The cycle begins again: its last update was the one before this. */
    uint32_t last = update_at(cadence, cadence->count > 1 ? 1 : 0);

    settle(cadence, last, cadence->count - 1);
    if (id != last)
        return CADENCE_BEFORE;
    cadence->anchor_at = cadence->count;
    return CADENCE_BOTH;
}

/* Is `id`, the newest, a better anchor: slower, yet within the longest period, or the
 * only one that still runs? */
static bool takes_over(const struct cadence *cadence, uint32_t id)
{
    uint64_t back = distance(cadence);

    if (cadence->count - cadence->anchor_at > UINT64_C(2) * CADENCE_PERIOD)
        return true;
    /* The anchor ran alone, and now this one does: it came in its place. */
    if (back == 1 && cadence->held)
        return true;
    return back != 0 && back <= CADENCE_PERIOD &&
           times(cadence, cadence->anchor) > times(cadence, id) + 1;
}

/* Of one that is not the anchor. An unknown one's first update behind an anchor that ran
 * alone is held: the next update tells whether it runs beside the anchor or in its place. */
static enum cadence_answer other(struct cadence *cadence, uint32_t id)
{
    bool held = cadence->held;

    if (takes_over(cadence, id)) {
        settle(cadence, id, cadence->count);
        return held ? CADENCE_BOTH : CADENCE_END;
    }
    cadence->held = distance(cadence) == 0 &&
                    update_at(cadence, 1) == cadence->anchor &&
                    update_at(cadence, 2) == cadence->anchor;
    return cadence->held ? CADENCE_HELD : CADENCE_INSIDE;
}

enum cadence_answer cadence_update(struct cadence *cadence, uint32_t id)
{
    enum cadence_answer answer = CADENCE_END;

    cadence->history[cadence->count % CADENCE_HISTORY] = id;
    cadence->count++;
    cadence->moved = false;
    if (!cadence->known)
        return learn(cadence, id);
    if (id != cadence->anchor)
        answer = other(cadence, id);
    if (id == cadence->anchor) {
        cadence->anchor_at = cadence->count;
        cadence->held = false;
    }
    return answer;
}

bool cadence_confirm(struct cadence *cadence)
{
    if (cadence->known || cadence->count == 0)
        return false;
    settle(cadence, update_at(cadence, 0), cadence->count);
    return true;
}
