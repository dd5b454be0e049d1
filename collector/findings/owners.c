/* Who owns an instant that several findings claim (findings.h). */
#include <math.h>

#include "findings/findings.h"

struct ledger {
    double taken[CLAIM_PARTS][CLAIM_KINDS];
    double apart[CLAIM_PARTS][CLAIM_KINDS]; /* claimed so, by who stands apart */
    double part_left[CLAIM_PARTS], kind_left[CLAIM_KINDS];
    double wait_left, step_left;
};

static double least(double a, double b)
{
    return a < b ? a : b;
}

static void open_parts(const struct steps_summary *train, struct ledger *ledger)
{
    double parts[CLAIM_PARTS] = {
        train->phase_ns[EVENT_PHASE_DATA], train->phase_ns[EVENT_PHASE_FORWARD],
        train->phase_ns[EVENT_PHASE_BACKWARD], train->phase_ns[EVENT_PHASE_OPTIMIZER],
        train->other_ns};

    /* A part that is not known may be all of the step. */
    for (uint32_t i = 0; i < CLAIM_PARTS; i++)
        ledger->part_left[i] = isnan(parts[i]) ? train->mean_ns : parts[i];
}

/* The device that works: its waits are what findings are about. */
static void open_devices(const struct bottlenecks_answer *summary,
                         struct ledger *ledger)
{
    const struct gpu_device *device = gpu_busiest(&summary->gpu);
    double step = summary->steps.train.mean_ns, idle = 0;

    ledger->step_left = ledger->wait_left = step;
    for (uint32_t kind = 0; kind < CLAIM_KINDS; kind++)
        ledger->kind_left[kind] = step;
    if (device == NULL)
        return;
    for (uint32_t cause = 0; cause < GPU_IDLES; cause++) {
        idle += device->idle_ns[cause];
        ledger->kind_left[findings_kind_of(cause)] = device->idle_ns[cause];
    }
    ledger->wait_left = ledger->kind_left[CLAIM_ANY] = least(idle, step);
    ledger->kind_left[CLAIM_WORK] = step - ledger->wait_left;
}

/* How much more of its place is told by this claim than by those before it. What stands
 * apart is at least as long as all such claims together. */
static double told_anew(struct ledger *ledger, const struct finding_claim *claim,
                        enum claim_kind same)
{
    double taken = ledger->taken[claim->part][same];
    double *apart = &ledger->apart[claim->part][same];

    if (!claim->apart)
        return claim->ns - taken;
    *apart += claim->ns;
    return least(claim->ns, *apart - taken);
}

/* What is left of it for this owner. */
static double take(struct ledger *ledger, const struct finding_claim *claim)
{
    enum claim_kind same = claim->kind == CLAIM_ANY ? CLAIM_CALLS : claim->kind;
    double *taken = &ledger->taken[claim->part][same];
    double *part = &ledger->part_left[claim->part];
    double *kind = &ledger->kind_left[claim->kind];
    double own = told_anew(ledger, claim, same);

    own = least(least(own, *part), least(*kind, ledger->step_left));
    if (claim->kind != CLAIM_WORK)
        own = least(own, ledger->wait_left);
    if (!(own > 0))
        return 0;
    *taken += own;
    *part -= own;
    *kind -= own;
    ledger->wait_left -= claim->kind == CLAIM_WORK ? 0 : own;
    ledger->step_left -= own;
    return own;
}

/* In their order; those of one place as they stand. */
static uint32_t owners(const struct findings *findings, uint32_t *order)
{
    for (uint32_t i = 0; i < findings->count; i++) {
        uint32_t owner = findings->list[i].rule->owner, at = i;

        for (; at > 0 && findings->list[order[at - 1]].rule->owner > owner; at--)
            order[at] = order[at - 1];
        order[at] = i;
    }
    return findings->count;
}

void findings_settle(const struct bottlenecks_answer *summary,
                     struct findings *findings)
{
    struct ledger ledger = {.step_left = 0};
    uint32_t order[FINDINGS_MAX], count = owners(findings, order);

    open_parts(&summary->steps.train, &ledger);
    open_devices(summary, &ledger);
    findings->avoidable_ns = 0;
    for (uint32_t i = 0; i < count; i++) {
        struct finding *finding = &findings->list[order[i]];

        finding->owned_ns = 0;
        for (uint32_t j = 0; j < finding->claim_count && !finding->dismissed; j++)
            finding->owned_ns += take(&ledger, &finding->claims[j]);
        findings->avoidable_ns += finding->owned_ns;
    }
    findings->verdict = findings_verdict(summary, findings);
}
