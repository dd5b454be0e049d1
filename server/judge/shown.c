#include "judge/shown.h"

#include <math.h>
#include <string.h>

#include "judge/usual.h"

/* What stands is said also where the usual window holds a tenth of it: it began a few
 * seconds ago, or is about to be fixed. */
#define STANDING 0.1

/* So long it is shown as it was found last when no look finds it any more. */
#define LACKING_NS INT64_C(10000000000)

/* What the newest steps do not show any more is about to be fixed while the usual window
 * still holds some of it; later on nobody sees it. */
static bool is_seen(const struct standing_entry *entry, int64_t now_ns, int64_t most_ns)
{
    return entry != NULL && entry->state == STANDING_STANDS &&
           (entry->missed_step == NOT_KNOWN || now_ns - entry->missed_ns <= most_ns);
}

/* Finds also what stands without costing its threshold over the usual window. */
static struct findings_settings settings_for(const struct standing *standing,
                                             int64_t now_ns)
{
    struct findings_settings settings = findings_configured();
    const struct finding_rule *rule;

    settings.by_price = true;
    for (uint32_t i = 0; (rule = findings_rule(i)) != NULL; i++) {
        double threshold =
            isnan(settings.thresholds[i]) ? rule->threshold : settings.thresholds[i];
        double stays = rule->stays > 0 ? rule->stays : FINDING_STAYS;
        bool priced = false;

        for (uint32_t j = 0; j < STANDING_MAX; j++) {
            const struct standing_entry *entry = &standing->entries[j];

            if (!is_seen(entry, now_ns, USUAL_NS) || entry->rule != rule)
                continue;
            settings.thresholds[i] =
                threshold * (rule->trend && !rule->early ? stays : STANDING);
            priced = priced || entry->ns_per_step > 0;
            settings.risks[i] = !priced;
        }
    }
    return settings;
}

void shown_find(const struct standing *standing, const struct bottlenecks_answer *usual,
                struct findings *findings)
{
    int64_t now_ns = usual->head.now_ns;
    struct findings_settings settings = settings_for(standing, now_ns);
    uint32_t kept = 0;

    findings_find(usual, &settings, findings);
    for (uint32_t i = 0; i < findings->count; i++) {
        const struct standing_entry *entry =
            standing_find(standing, findings->list[i].id);

        if (!is_seen(entry, now_ns, USUAL_NS))
            continue;
        findings->list[kept] = findings->list[i];
        findings->list[kept++].since_step = entry->since_step;
    }
    findings->count = kept;
}

static bool has(const struct findings *findings, const char *id)
{
    for (uint32_t i = 0; i < findings->count; i++)
        if (strcmp(findings->list[i].id, id) == 0)
            return true;
    return false;
}

void shown_add(const struct standing *standing, const struct bottlenecks_answer *usual,
               const struct findings *others, struct findings *findings)
{
    int64_t oldest = usual->shown.first;

    for (uint32_t i = 0; i < others->count; i++) {
        struct finding copy = others->list[i];
        const struct standing_entry *entry = standing_find(standing, copy.id);

        /* A present risk is shown as one, though a relaxed look has a price for it. */
        if (!is_seen(entry, usual->head.now_ns, LACKING_NS) ||
            (copy.ns_per_step > 0 && !(entry->ns_per_step > 0)) ||
            has(findings, copy.id))
            continue;
        copy.from_elsewhere = true;
        copy.claim_count = 0;
        copy.since_step = entry->since_step;
        if (oldest == NOT_KNOWN || copy.worst_step < oldest)
            copy.worst_step = NOT_KNOWN;
        findings_add_copy(findings, &copy);
    }
}
