/* Who owns an instant that several findings claim (findings.h). */
#include <math.h>

#include "findings/findings.h"

struct ledger {
    double taken[CLAIM_PARTS][CLAIM_KINDS];
    double part_left[CLAIM_PARTS];
    double wait_left, work_left, step_left;
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

    for (uint32_t i = 0; device != NULL && i < GPU_IDLES; i++)
        idle += device->idle_ns[i];
    ledger->step_left = step;
    ledger->wait_left = device == NULL ? step : least(idle, step);
    ledger->work_left = device == NULL ? step : step - ledger->wait_left;
}

/* What is left of it for this owner. */
static double take(struct ledger *ledger, const struct finding_claim *claim)
{
    double *taken = &ledger->taken[claim->part][claim->kind];
    double *part = &ledger->part_left[claim->part];
    double *kind = claim->kind == CLAIM_WORK ? &ledger->work_left : &ledger->wait_left;
    double own = claim->ns - *taken;

    own = least(least(own, *part), least(*kind, ledger->step_left));
    if (!(own > 0))
        return 0;
    *taken += own;
    *part -= own;
    *kind -= own;
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
