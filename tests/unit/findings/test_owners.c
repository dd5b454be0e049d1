#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "findings/findings.h"
#include "wire/facts.h"

#define MS    1e6
#define CASES 20000

static struct bottlenecks_answer summary;
static struct status_fact facts[8];
static struct gpu_device devices[2];
static struct findings findings;
static struct finding list[FINDINGS_MAX];
static uint64_t state;

/* 0 to 1, the same in every run. */
static double draw(void)
{
    state ^= state << 13;
    state ^= state >> 7;
    state ^= state << 17;
    return (double)(state >> 11) / 9007199254740992.0;
}

static uint32_t pick(uint32_t below)
{
    return (uint32_t)(draw() * below);
}

/* Sometimes none, sometimes not known. */
static double amount(double most)
{
    uint32_t kind = pick(8);

    return kind == 0 ? 0 : kind == 1 ? (double)NAN : draw() * most;
}

static void draw_steps(void)
{
    struct steps_summary *train = &summary.steps.train;
    double left;

    train->count = 10 + pick(1000);
    train->mean_ns = left = (0.01 + draw()) * 300 * MS;
    train->p50_ns = train->mean_ns * (0.5 + draw() / 2);
    for (uint32_t i = 0; i < EVENT_PHASES; i++) {
        train->phase_ns[i] = amount(left);
        left -= isnan(train->phase_ns[i]) ? 0 : train->phase_ns[i];
        train->phase_error_ns[i] = amount(train->mean_ns / 10);
    }
    train->other_ns = pick(4) == 0 ? (double)NAN : left;
    train->error_pct = amount(10);
    train->kernels = pick(100);
    summary.steps.validation.count = pick(100);
    summary.steps.validation.mean_ns = amount(100 * MS);
}

static void draw_devices(void)
{
    summary.gpu.devices = devices;
    summary.gpu.device_count = pick(3);
    for (uint32_t i = 0; i < summary.gpu.device_count; i++) {
        double left = summary.steps.train.mean_ns * draw();

        devices[i] = (struct gpu_device){.device = "cuda:0", .name = ""};
        for (uint32_t j = 0; j < GPU_IDLES; j++) {
            devices[i].idle_ns[j] = draw() * left;
            left -= devices[i].idle_ns[j];
        }
        devices[i].use_ns[GPU_COMPUTE] = draw() * summary.steps.train.mean_ns;
    }
}

static void draw_summary(void)
{
    memset(&summary, 0, sizeof(summary));
    draw_steps();
    draw_devices();
    summary.cpu.short_count = amount(10000);
    summary.cpu.short_self_ns = amount(summary.steps.train.mean_ns);
    summary.cpu.head.recorded_steps = pick(100);
    summary.facts = facts;
    facts[0] = (struct status_fact){
        .key = FACT_DATALOADER_WORKERS, .type = WIRE_FACT_NUMBER, .number = pick(9)};
    facts[1] = (struct status_fact){
        .key = FACT_CPU_COUNT, .type = WIRE_FACT_NUMBER, .number = pick(17)};
    facts[2] = (struct status_fact){
        .key = FACT_OPTIMIZER_CLASS, .type = WIRE_FACT_TEXT, .text = "SGD"};
    facts[3] = (struct status_fact){
        .key = FACT_OPTIMIZER_FOREACH, .type = WIRE_FACT_NUMBER, .number = 0};
    summary.fact_count = pick(5);
}

/* Claims that no rule makes yet: any part, any kind, any amount. */
static void draw_findings(void)
{
    static struct finding_rule rules[FINDINGS_MAX];

    findings = (struct findings){.list = list, .count = 1 + pick(FINDINGS_MAX)};
    for (uint32_t i = 0; i < findings.count; i++) {
        struct finding *finding = &findings.list[i];

        rules[i] = (struct finding_rule){.id = "any", .owner = pick(5)};
        *finding = (struct finding){.id = "any", .rule = &rules[i]};
        finding->claim_count = pick(FINDING_CLAIMS + 1);
        for (uint32_t j = 0; j < finding->claim_count; j++)
            finding->claims[j] =
                (struct finding_claim){.part = pick(CLAIM_PARTS),
                                       .kind = pick(CLAIM_KINDS),
                                       .apart = pick(3) == 0,
                                       .ns = draw() * 2 * summary.steps.train.mean_ns};
    }
    findings_settle(&summary, &findings);
}

/* Of the device that works most. */
static double idle_of_devices(void)
{
    double idle = 0, most = -1;

    for (uint32_t i = 0; i < summary.gpu.device_count; i++) {
        if (devices[i].use_ns[GPU_COMPUTE] <= most)
            continue;
        most = devices[i].use_ns[GPU_COMPUTE];
        idle = 0;
        for (uint32_t j = 0; j < GPU_IDLES; j++)
            idle += devices[i].idle_ns[j];
    }
    return idle;
}

/* Of one claim alone: what its finding owns at most by it. */
static bool only_kind(const struct finding *finding, bool work)
{
    for (uint32_t i = 0; i < finding->claim_count; i++)
        if ((finding->claims[i].kind == CLAIM_WORK) != work)
            return false;
    return true;
}

static void check_bounds(void)
{
    double step = summary.steps.train.mean_ns, slack = step * 1e-9, sum = 0;
    double waits = 0, work = 0;

    for (uint32_t i = 0; i < findings.count; i++) {
        const struct finding *finding = &findings.list[i];
        double claimed = 0;

        for (uint32_t j = 0; j < finding->claim_count; j++)
            claimed += finding->claims[j].ns;
        assert_true(finding->owned_ns >= 0 && finding->owned_ns <= claimed + slack);
        sum += finding->owned_ns;
        waits += only_kind(finding, false) ? finding->owned_ns : 0;
        work += only_kind(finding, true) ? finding->owned_ns : 0;
    }
    assert_true(fabs(sum - findings.avoidable_ns) <= slack);
    assert_true(sum <= step + slack);
    if (summary.gpu.device_count == 0)
        return;
    assert_true(waits <= idle_of_devices() + slack);
    assert_true(work <= step - idle_of_devices() + slack);
}

/* Findings that wait for one cause alone own together no more than is idle for it. */
static void check_causes(void)
{
    const struct gpu_device *device = gpu_busiest(&summary.gpu);

    for (uint32_t cause = 0; device != NULL && cause < GPU_IDLES; cause++) {
        double sum = 0;

        for (uint32_t i = 0; i < findings.count; i++) {
            const struct finding *finding = &findings.list[i];
            bool alone = true;

            for (uint32_t j = 0; j < finding->claim_count; j++)
                alone &= finding->claims[j].kind == findings_kind_of(cause);
            sum += alone ? finding->owned_ns : 0;
        }
        assert_true(findings_kind_of(cause) == CLAIM_ANY ||
                    sum <= device->idle_ns[cause] + summary.steps.train.mean_ns * 1e-9);
    }
}

/* In each part and kind at most the largest claim, or all together that stand apart,
 * whoever owns it. */
static void check_cells(void)
{
    double cells[CLAIM_PARTS][CLAIM_KINDS] = {{0}}, most = 0;
    double apart[CLAIM_PARTS][CLAIM_KINDS] = {{0}};

    for (uint32_t i = 0; i < findings.count; i++)
        for (uint32_t j = 0; j < findings.list[i].claim_count; j++) {
            const struct finding_claim *claim = &findings.list[i].claims[j];
            /* What cannot be told apart may be calls. */
            enum claim_kind kind = claim->kind == CLAIM_ANY ? CLAIM_CALLS : claim->kind;

            cells[claim->part][kind] = fmax(cells[claim->part][kind], claim->ns);
            apart[claim->part][kind] += claim->apart ? claim->ns : 0;
        }
    for (uint32_t i = 0; i < CLAIM_PARTS; i++)
        for (uint32_t j = 0; j < CLAIM_KINDS; j++)
            most += fmax(cells[i][j], apart[i][j]);
    assert_true(findings.avoidable_ns <= most * (1 + 1e-9));
}

static void no_instant_is_counted_twice_whatever_is_claimed(void **unused)
{
    (void)unused;
    state = 88172645463325252u;
    for (uint32_t i = 0; i < CASES; i++) {
        draw_summary();
        draw_findings();
        check_bounds();
        check_cells();
        check_causes();
        findings_free(&findings);
    }
}

static void what_the_rules_find_is_at_most_idle_and_removable_work(void **unused)
{
    uint32_t found = 0;

    (void)unused;
    state = 1442695040888963407u;
    for (uint32_t i = 0; i < CASES; i++) {
        draw_summary();
        findings_find(&summary, NULL, &findings);
        found += findings.count;
        check_bounds();
        check_cells();
        check_causes();
        findings_free(&findings);
    }
    assert_true(found > CASES);
}

static void a_dismissed_finding_owns_nothing_and_the_bounds_still_hold(void **unused)
{
    (void)unused;
    state = 6364136223846793005u;
    for (uint32_t i = 0; i < CASES; i++) {
        draw_summary();
        draw_findings();
        uint32_t away = pick(findings.count);

        findings.list[away].dismissed = true;
        findings_settle(&summary, &findings);
        check_bounds();
        check_cells();
        check_causes();
        assert_true(findings.list[away].owned_ns <= 0);
        findings_free(&findings);
    }
}

/* One finding with one claim, of the owner's place. */
static void claim_one(uint32_t owner, enum claim_part part, enum claim_kind kind,
                      double ns)
{
    static struct finding_rule rules[FINDINGS_MAX];
    struct finding *finding = &findings.list[findings.count];

    rules[findings.count] = (struct finding_rule){.id = "any", .owner = owner};
    *finding = (struct finding){.rule = &rules[findings.count],
                                .claims = {{.part = part, .kind = kind, .ns = ns}},
                                .claim_count = 1};
    findings.count++;
}

/* A device that works for 60 of 100 ms and idles 5 ms for each cause. */
static void idle_alike(void)
{
    memset(&summary, 0, sizeof(summary));
    summary.steps.train.mean_ns = 100 * MS;
    for (uint32_t i = 0; i < EVENT_PHASES; i++)
        summary.steps.train.phase_ns[i] = 20 * MS;
    summary.steps.train.other_ns = 20 * MS;
    devices[0] = (struct gpu_device){.device = "cuda:0", .name = ""};
    devices[0].use_ns[GPU_COMPUTE] = 60 * MS;
    for (uint32_t i = 0; i < GPU_IDLES; i++)
        devices[0].idle_ns[i] = 5 * MS;
    summary.gpu.devices = devices;
    summary.gpu.device_count = 1;
    findings = (struct findings){.list = list, .count = 0};
}

static void
two_findings_of_one_wait_own_no_more_than_the_device_idles_for_it(void **unused)
{
    static const enum claim_kind waits[] = {CLAIM_WAIT, CLAIM_CALLS, CLAIM_PYTHON,
                                            CLAIM_SYNC, CLAIM_COPY,  CLAIM_ALLOC,
                                            CLAIM_PEERS};

    (void)unused;
    for (size_t kind = 0; kind < sizeof(waits) / sizeof(waits[0]); kind++)
        for (uint32_t first = 0; first < CLAIM_PARTS; first++)
            for (uint32_t second = 0; second < CLAIM_PARTS; second++) {
                idle_alike();
                claim_one(1, first, waits[kind], 4 * MS);
                claim_one(2, second, waits[kind], 5 * MS);
                findings_settle(&summary, &findings);
                assert_true(fabs(findings.list[0].owned_ns - 4 * MS) < 1);
                assert_true(fabs(findings.list[1].owned_ns - 1 * MS) < 1);
            }
}

static void what_cannot_be_told_apart_owns_what_waits_of_all_causes_leave(void **unused)
{
    (void)unused;
    idle_alike();
    claim_one(1, PART_FORWARD, CLAIM_CALLS, 5 * MS);
    claim_one(2, PART_BACKWARD, CLAIM_ANY, 12 * MS);
    findings_settle(&summary, &findings);
    assert_true(fabs(findings.list[1].owned_ns - 12 * MS) < 1);
    /* In the same part they may be the same. */
    findings.list[1].claims[0].part = PART_FORWARD;
    findings_settle(&summary, &findings);
    assert_true(fabs(findings.list[1].owned_ns - 7 * MS) < 1);
    /* Without a device nobody tells what is waited for. */
    summary.gpu.device_count = 0;
    findings.list[0].claims[0].ns = 10 * MS;
    findings_settle(&summary, &findings);
    assert_true(fabs(findings.list[0].owned_ns - 10 * MS) < 1);
}

static void the_first_owner_has_its_claim_and_the_next_what_is_beyond(void **unused)
{
    static const struct finding_rule first = {.id = "first", .owner = 1},
                                     second = {.id = "second", .owner = 2};

    (void)unused;
    memset(&summary, 0, sizeof(summary));
    summary.steps.train.mean_ns = 100 * MS;
    summary.steps.train.phase_ns[EVENT_PHASE_FORWARD] = 60 * MS;
    findings = (struct findings){.list = list, .count = 2};
    findings.list[0] = (struct finding){
        .rule = &second,
        .claims = {{.part = PART_FORWARD, .kind = CLAIM_CALLS, .ns = 50 * MS}},
        .claim_count = 1};
    findings.list[1] = (struct finding){
        .rule = &first,
        .claims = {{.part = PART_FORWARD, .kind = CLAIM_CALLS, .ns = 20 * MS}},
        .claim_count = 1};
    findings_settle(&summary, &findings);
    assert_true(fabs(findings.list[1].owned_ns - 20 * MS) < 1);
    assert_true(fabs(findings.list[0].owned_ns - 30 * MS) < 1);
    /* Sent away, it leaves its instants to the next. */
    findings.list[1].dismissed = true;
    findings_settle(&summary, &findings);
    assert_true(fabs(findings.list[0].owned_ns - 50 * MS) < 1);
    assert_true(fabs(findings.avoidable_ns - 50 * MS) < 1);
    findings.list[1].dismissed = false;
    /* Of another kind it shares no instant, but the part has 60 ms. */
    findings.list[0].claims[0].kind = CLAIM_SYNC;
    findings_settle(&summary, &findings);
    assert_true(fabs(findings.list[0].owned_ns - 40 * MS) < 1);
    assert_true(fabs(findings.avoidable_ns - 60 * MS) < 1);
}

static void claims_reckoned_without_each_other_are_not_taken_from_each_other(void **unused)
{
    (void)unused;
    idle_alike();
    summary.gpu.device_count = 0;
    claim_one(1, PART_DATA, CLAIM_WAIT, 4 * MS);
    claim_one(2, PART_DATA, CLAIM_WAIT, 9 * MS);
    claim_one(3, PART_DATA, CLAIM_WAIT, 10 * MS);
    findings.list[0].claims[0].apart = findings.list[1].claims[0].apart = true;
    findings_settle(&summary, &findings);
    assert_true(fabs(findings.list[0].owned_ns - 4 * MS) < 1);
    assert_true(fabs(findings.list[1].owned_ns - 9 * MS) < 1);
    assert_true(fabs(findings.list[2].owned_ns) < 1); /* it may be any of both */
    /* The other way round both may lie in what was owned before. */
    findings.list[2].claims[0].apart = true;
    findings.list[0].claims[0].apart = false;
    findings.list[0].claims[0].ns = 12 * MS;
    findings_settle(&summary, &findings);
    assert_true(fabs(findings.list[0].owned_ns - 12 * MS) < 1);
    assert_true(fabs(findings.list[1].owned_ns) < 1);
    assert_true(fabs(findings.list[2].owned_ns - 7 * MS) < 1);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(no_instant_is_counted_twice_whatever_is_claimed),
        cmocka_unit_test(what_the_rules_find_is_at_most_idle_and_removable_work),
        cmocka_unit_test(a_dismissed_finding_owns_nothing_and_the_bounds_still_hold),
        cmocka_unit_test(
            two_findings_of_one_wait_own_no_more_than_the_device_idles_for_it),
        cmocka_unit_test(what_cannot_be_told_apart_owns_what_waits_of_all_causes_leave),
        cmocka_unit_test(
            claims_reckoned_without_each_other_are_not_taken_from_each_other),
        cmocka_unit_test(the_first_owner_has_its_claim_and_the_next_what_is_beyond),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
