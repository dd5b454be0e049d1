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

static bool is_seen_early(const struct finding *finding)
{
    return finding != NULL && finding->rule->early && is_sure(finding);
}

/* What one look says of a finding. */
struct sight {
    const struct finding *over; /* it costs its threshold; NULL */
    const struct finding *near; /* at least what lets it stay; NULL */
    const struct gone_level *level;
    bool fading; /* only what the recent steps show no more */
};

static void meet(struct standing_entry *entry, const struct finding *finding,
                 const struct gone_level *level, const struct standing_look *look,
                 bool first_look)
{
    bool same = strcmp(entry->id, finding->id) == 0;
    bool recurs =
        same && (entry->recurs || (entry->state == STANDING_FIXED && entry->early));

    *entry = (struct standing_entry){.rule = finding->rule,
                                     .recurs = recurs,
                                     .state = STANDING_SEEN,
                                     .since_step = look->last_step,
                                     .missed_step = NOT_KNOWN,
                                     .fixed_step = NOT_KNOWN,
                                     .whole_step = look->last_step,
                                     .ns_per_step = finding->ns_per_step,
                                     .looks = 1};
    snprintf(entry->id, sizeof(entry->id), "%s", finding->id);
    snprintf(entry->title, sizeof(entry->title), "%s", finding->title);
    gone_follow(&entry->former, finding, level, true);
    /* It was there before anybody looked; the first steps of a run say nothing of later
     * ones. */
    if (first_look && look->recent_level.first_step > STANDING_STEPS &&
        is_sure(finding)) {
        entry->state = STANDING_STANDS;
        entry->looks = 0;
    }
}

/* A lower price is a mixture only while steps of the whole price are among those of the
 * look: what a full window of later steps still costs is its price now. */
static bool costs_less_now(const struct standing_entry *entry,
                           const struct sight *sight)
{
    return sight->level->full && sight->level->first_step > entry->whole_step;
}

static void follow(struct standing_entry *entry, const struct sight *sight,
                   int64_t last_step)
{
    double off = sight->near->ns_per_step - entry->ns_per_step;
    bool risk = !(entry->ns_per_step > 0) &&
                !(sight->over != NULL && sight->over->ns_per_step > 0);
    bool mixed = sight->near->ns_per_step < WHOLE * entry->ns_per_step;
    bool anew = mixed && costs_less_now(entry, sight);

    if (mixed && !anew)
        return;
    entry->whole_step = last_step;
    if (risk && sight->near->ns_per_step > 0)
        return; /* a price for a relaxed look alone */
    bool regained = entry->former.risk && sight->near->ns_per_step > 0;

    entry->ns_per_step += (anew ? 1 : off > 0 ? FOLLOW_UP : FOLLOW_DOWN) * off;
    /* What has cost time is not fixed before steps say so, though it is a risk by now. */
    if (sight->near->ns_per_step > 0 || entry->former.risk)
        gone_follow(&entry->former, sight->near, sight->level, anew || regained);
}

static void wait_to_stand(struct standing_entry *entry, const struct sight *sight,
                          const struct standing_look *look)
{
    if (sight->over == NULL) {
        entry->state = STANDING_NONE;
        return;
    }
    entry->looks++;
    if (entry->looks >= STANDING_LOOKS && is_sure(sight->over) &&
        look->last_step - entry->since_step >= STANDING_STEPS) {
        entry->state = STANDING_STANDS;
        entry->looks = 0;
    }
}

/* It was not found. One of which nobody can say that it was fixed goes in silence, and so
 * does one that stays unproven. */
static void miss(struct standing_entry *entry, const struct gone_level *level,
                 const struct standing_look *look)
{
    if (entry->missed_step == NOT_KNOWN) {
        entry->missed_step = look->last_step;
        entry->missed_ns = look->now_ns;
    }
    entry->looks++;
    if (entry->looks < STANDING_LOOKS ||
        look->last_step - entry->missed_step < STANDING_STEPS)
        return;
    if (!gone_is_tellable(&entry->former) ||
        look->now_ns - entry->missed_ns > STANDING_FIXED_NS) {
        entry->state = STANDING_NONE;
    } else if (level->first_step > entry->whole_step &&
               gone_is_sure(&entry->former, entry->ns_per_step, level)) {
        entry->state = STANDING_FIXED;
        entry->ns_per_step = gone_price(&entry->former, entry->ns_per_step);
        entry->fixed_step = entry->whole_step + 1;
        entry->fixed_ns = look->now_ns;
    }
}

static void judge(struct standing_entry *entry, const struct sight *sight,
                  const struct standing_look *look)
{
    if (sight->near != NULL && !sight->fading)
        follow(entry, sight, look->last_step);
    entry->early =
        entry->early || is_seen_early(in_list(look->recent_relaxed, entry->id));
    if (entry->state == STANDING_SEEN) {
        wait_to_stand(entry, sight, look);
    } else if (sight->near == NULL) {
        miss(entry, sight->level, look);
    } else {
        entry->missed_step = NOT_KNOWN;
        entry->looks = 0;
    }
}

static bool is_slow(const struct finding_rule *rule, const struct standing_look *look)
{
    return rule->trend || (rule->sampled && !look->recent_is_recorded);
}

static bool is_gone_early(const struct standing_entry *entry,
                          const struct standing_look *look)
{
    return entry->early && !entry->recurs &&
           look->recent_level.first_step > entry->whole_step &&
           gone_is_sure(&entry->former, entry->ns_per_step, &look->recent_level);
}

/* A trend has only the usual window, and so has what needs steps that were recorded in
 * full where few of the recent ones were. */
static struct sight look_at(const struct standing_look *look,
                            const struct standing_entry *entry)
{
    const struct finding *over = in_list(look->recent, entry->id);
    const struct finding *near = in_list(look->recent_relaxed, entry->id);
    bool trend = is_slow(entry->rule, look);
    bool gone = trend && near == NULL && is_gone_early(entry, look);
    bool usual = trend && !gone && !is_seen_early(near);

    if (trend && !gone && !is_seen_early(over))
        over = in_list(look->usual, entry->id);
    return (struct sight){.over = over,
                          .near =
                              usual ? in_list(look->usual_relaxed, entry->id) : near,
                          .level = usual ? &look->usual_level : &look->recent_level,
                          .fading = usual && entry->early && near == NULL};
}

/* The usual window still holds steps from before it was fixed. */
static bool is_remnant(const struct standing_entry *entry,
                       const struct standing_look *look)
{
    return entry->state == STANDING_FIXED && entry->early &&
           look->usual_level.first_step < entry->fixed_step;
}

static void meet_all(struct standing *standing, const struct standing_look *look,
                     bool slow)
{
    const struct findings *list = slow ? look->usual : look->recent;

    for (uint32_t i = 0; i < list->count; i++) {
        const struct finding *finding = &list->list[i];
        uint32_t at = place_of(standing, finding->id);
        struct standing_entry *entry =
            at < STANDING_MAX ? &standing->entries[at] : free_place(standing);
        bool known = at < STANDING_MAX && (entry->state != STANDING_FIXED ||
                                           (slow && is_remnant(entry, look)));

        if (entry != NULL && !known &&
            (is_slow(finding->rule, look) == slow || (!slow && is_seen_early(finding))))
            meet(entry, finding, slow ? &look->usual_level : &look->recent_level, look,
                 standing->looks == 0);
    }
}

void standing_feed(struct standing *standing, const struct standing_look *look)
{
    for (uint32_t i = 0; i < STANDING_MAX; i++) {
        struct standing_entry *entry = &standing->entries[i];

        if (entry->state == STANDING_FIXED &&
            look->now_ns - entry->fixed_ns > STANDING_FIXED_NS)
            entry->state = STANDING_NONE;
        if (entry->state != STANDING_SEEN && entry->state != STANDING_STANDS)
            continue;
        struct sight sight = look_at(look, entry);

        judge(entry, &sight, look);
    }
    meet_all(standing, look, false);
    meet_all(standing, look, true);
    standing->looks++;
}
