#include "findings/standing.h"

#include <stdio.h>
#include <string.h>

/* The price of a step that still has all of the cause, beside its usual price: what lies
 * below is a mixture of steps with it and without. */
#define WHOLE 0.85

/* How fast the usual price follows, up and down: upwards it is a mixture that clears. */
#define FOLLOW_UP   0.5
#define FOLLOW_DOWN 0.1

/* STANDING_MAX when there is none. */
static uint32_t place_of(const struct standing *standing, const char *id)
{
    uint32_t i = 0;

    while (i < STANDING_MAX && (standing->entries[i].state == STANDING_NONE ||
                                strcmp(standing->entries[i].id, id) != 0))
        i++;
    return i;
}

const struct standing_entry *standing_find(const struct standing *standing,
                                           const char *id)
{
    uint32_t at = place_of(standing, id);

    return at < STANDING_MAX ? &standing->entries[at] : NULL;
}

static const struct finding *in_list(const struct findings *list, const char *id)
{
    for (uint32_t i = 0; i < list->count; i++)
        if (strcmp(list->list[i].id, id) == 0)
            return &list->list[i];
    return NULL;
}

/* Free, else the oldest that was fixed; NULL when all stand. */
static struct standing_entry *free_place(struct standing *standing)
{
    struct standing_entry *oldest = NULL;

    for (uint32_t i = 0; i < STANDING_MAX; i++) {
        struct standing_entry *entry = &standing->entries[i];

        if (entry->state == STANDING_NONE)
            return entry;
        if (entry->state == STANDING_FIXED &&
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

static void meet(struct standing_entry *entry, const struct finding *finding,
                 const struct standing_look *look, bool first_look)
{
    *entry = (struct standing_entry){.rule = finding->rule,
                                     .state = STANDING_SEEN,
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
        entry->state = STANDING_STANDS;
        entry->looks = 0;
    }
}

static void follow_price(struct standing_entry *entry, const struct finding *finding,
                         int64_t last_step)
{
    if (finding->ns_per_step < WHOLE * entry->ns_per_step)
        return;
    entry->whole_step = last_step;
    double off = finding->ns_per_step - entry->ns_per_step;

    entry->ns_per_step += (off > 0 ? FOLLOW_UP : FOLLOW_DOWN) * off;
}

/* `over`: it costs its threshold; `near`: at least what lets it stay. Each may be NULL. */
static void judge(struct standing_entry *entry, const struct finding *over,
                  const struct finding *near, const struct standing_look *look)
{
    bool here = entry->state == STANDING_STANDS ? near != NULL : over != NULL;

    if (near != NULL)
        follow_price(entry, near, look->last_step);
    if (entry->state == STANDING_SEEN && !here) {
        entry->state = STANDING_NONE;
        return;
    }
    if (entry->state == STANDING_SEEN) {
        entry->looks++;
        if (entry->looks >= STANDING_LOOKS && is_sure(over) &&
            look->last_step - entry->since_step >= STANDING_STEPS) {
            entry->state = STANDING_STANDS;
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
    if (entry->looks >= STANDING_LOOKS &&
        look->last_step - entry->missed_step >= STANDING_STEPS) {
        entry->state = STANDING_FIXED;
        entry->fixed_step = entry->whole_step + 1;
        entry->fixed_ns = look->now_ns;
    }
}

static bool is_slow(const struct finding_rule *rule, const struct standing_look *look)
{
    return rule->trend || (rule->sampled && !look->recent_is_recorded);
}

/* What those looks say of it. A trend has only the usual window, and so has what needs
 * steps that were recorded in full where few of the recent ones were. */
static void look_at(const struct standing_look *look,
                    const struct standing_entry *entry, const struct finding **over,
                    const struct finding **near)
{
    bool slow = is_slow(entry->rule, look);

    *over = in_list(slow ? look->usual : look->recent, entry->id);
    *near = in_list(slow ? look->usual_relaxed : look->recent_relaxed, entry->id);
}

static void meet_all(struct standing *standing, const struct findings *list, bool slow,
                     const struct standing_look *look)
{
    for (uint32_t i = 0; i < list->count; i++) {
        const struct finding *finding = &list->list[i];
        uint32_t at = place_of(standing, finding->id);
        struct standing_entry *entry =
            at < STANDING_MAX ? &standing->entries[at] : free_place(standing);
        bool known = at < STANDING_MAX && entry->state != STANDING_FIXED;

        if (entry != NULL && !known && is_slow(finding->rule, look) == slow)
            meet(entry, finding, look, standing->looks == 0);
    }
}

void standing_feed(struct standing *standing, const struct standing_look *look)
{
    for (uint32_t i = 0; i < STANDING_MAX; i++) {
        struct standing_entry *entry = &standing->entries[i];
        const struct finding *over, *near;

        if (entry->state == STANDING_FIXED &&
            look->now_ns - entry->fixed_ns > STANDING_FIXED_NS)
            entry->state = STANDING_NONE;
        if (entry->state != STANDING_SEEN && entry->state != STANDING_STANDS)
            continue;
        look_at(look, entry, &over, &near);
        judge(entry, over, near, look);
    }
    meet_all(standing, look->recent, false, look);
    meet_all(standing, look->usual, true, look);
    standing->looks++;
}
