#include "findings/history.h"

#include <stdio.h>
#include <string.h>

/* The price of a step that still has all of the cause, beside its usual price: what lies
 * below is a mixture of steps with it and without. */
#define WHOLE 0.85

/* How fast the usual price follows, up and down: upwards it is a mixture that clears. */
#define FOLLOW_UP   0.5
#define FOLLOW_DOWN 0.1

/* HISTORY_MAX when there is none. */
static uint32_t place_of(const struct history *history, const char *id)
{
    uint32_t i = 0;

    while (i < HISTORY_MAX && (history->entries[i].state == HISTORY_NONE ||
                               strcmp(history->entries[i].id, id) != 0))
        i++;
    return i;
}

const struct history_entry *history_find(const struct history *history, const char *id)
{
    uint32_t at = place_of(history, id);

    return at < HISTORY_MAX ? &history->entries[at] : NULL;
}

static const struct finding *in_list(const struct findings *list, const char *id)
{
    for (uint32_t i = 0; i < list->count; i++)
        if (strcmp(list->list[i].id, id) == 0)
            return &list->list[i];
    return NULL;
}

/* Free, else the oldest that was fixed; NULL when all stand. */
static struct history_entry *free_place(struct history *history)
{
    struct history_entry *oldest = NULL;

    for (uint32_t i = 0; i < HISTORY_MAX; i++) {
        struct history_entry *entry = &history->entries[i];

        if (entry->state == HISTORY_NONE)
            return entry;
        if (entry->state == HISTORY_FIXED &&
            (oldest == NULL || entry->fixed_ns < oldest->fixed_ns))
            oldest = entry;
    }
    return oldest;
}

/* Steady enough for its price to be said. */
static bool is_sure(const struct finding *finding)
{
    return finding->ns_per_step <= 0 || finding->error_ns <= finding->ns_per_step / 2;
}

static void meet(struct history_entry *entry, const struct finding *finding,
                 const struct history_look *look, bool first_look)
{
    *entry = (struct history_entry){.rule = finding->rule,
                                    .state = HISTORY_SEEN,
                                    .since_step = look->last_step,
                                    .missed_step = NOT_KNOWN,
                                    .fixed_step = NOT_KNOWN,
                                    .whole_step = look->last_step,
                                    .ns_per_step = finding->ns_per_step,
                                    .looks = 1};
    snprintf(entry->id, sizeof(entry->id), "%s", finding->id);
    snprintf(entry->title, sizeof(entry->title), "%s", finding->title);
    /* It was there before anybody looked. */
    if (first_look && is_sure(finding)) {
        entry->state = HISTORY_STANDS;
        entry->looks = 0;
    }
}

static void follow_price(struct history_entry *entry, const struct finding *finding,
                         int64_t last_step)
{
    if (finding->ns_per_step < WHOLE * entry->ns_per_step)
        return;
    entry->whole_step = last_step;
    double off = finding->ns_per_step - entry->ns_per_step;

    entry->ns_per_step += (off > 0 ? FOLLOW_UP : FOLLOW_DOWN) * off;
}

/* `over`: it costs its threshold; `near`: at least what lets it stay. Each may be NULL. */
static void judge(struct history_entry *entry, const struct finding *over,
                  const struct finding *near, const struct history_look *look)
{
    bool here = entry->state == HISTORY_STANDS ? near != NULL : over != NULL;

    if (near != NULL)
        follow_price(entry, near, look->last_step);
    if (entry->state == HISTORY_SEEN && !here) {
        entry->state = HISTORY_NONE;
        return;
    }
    if (entry->state == HISTORY_SEEN) {
        entry->looks++;
        if (entry->looks >= HISTORY_LOOKS && is_sure(over) &&
            look->last_step - entry->since_step >= HISTORY_STEPS) {
            entry->state = HISTORY_STANDS;
            entry->looks = 0;
        }
        return;
    }
    if (here) {
        entry->missed_step = NOT_KNOWN;
        entry->looks = 0;
        return;
    }
    if (entry->missed_step == NOT_KNOWN)
        entry->missed_step = look->last_step;
    entry->looks++;
    if (entry->looks >= HISTORY_LOOKS &&
        look->last_step - entry->missed_step >= HISTORY_STEPS) {
        entry->state = HISTORY_FIXED;
        entry->fixed_step = entry->whole_step + 1;
        entry->fixed_ns = look->now_ns;
    }
}

static bool is_slow(const struct finding_rule *rule, const struct history_look *look)
{
    return rule->trend || (rule->sampled && !look->recent_is_recorded);
}

/* What those looks say of it. A trend has only the usual window, and so has what needs
 * steps that were recorded in full where few of the recent ones were. */
static void look_at(const struct history_look *look, const struct history_entry *entry,
                    const struct finding **over, const struct finding **near)
{
    bool slow = is_slow(entry->rule, look);

    *over = in_list(slow ? look->usual : look->recent, entry->id);
    *near = in_list(slow ? look->usual_relaxed : look->recent_relaxed, entry->id);
}

static void meet_all(struct history *history, const struct findings *list, bool slow,
                     const struct history_look *look)
{
    for (uint32_t i = 0; i < list->count; i++) {
        const struct finding *finding = &list->list[i];
        uint32_t at = place_of(history, finding->id);
        struct history_entry *entry =
            at < HISTORY_MAX ? &history->entries[at] : free_place(history);
        bool known = at < HISTORY_MAX && entry->state != HISTORY_FIXED;

        if (entry != NULL && !known && is_slow(finding->rule, look) == slow)
            meet(entry, finding, look, history->looks == 0);
    }
}

void history_feed(struct history *history, const struct history_look *look)
{
    for (uint32_t i = 0; i < HISTORY_MAX; i++) {
        struct history_entry *entry = &history->entries[i];
        const struct finding *over, *near;

        if (entry->state == HISTORY_FIXED &&
            look->now_ns - entry->fixed_ns > HISTORY_FIXED_NS)
            entry->state = HISTORY_NONE;
        if (entry->state != HISTORY_SEEN && entry->state != HISTORY_STANDS)
            continue;
        look_at(look, entry, &over, &near);
        judge(entry, over, near, look);
    }
    meet_all(history, look->recent, false, look);
    meet_all(history, look->usual, true, look);
    history->looks++;
}
