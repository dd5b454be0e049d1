/* What all rules cost on one snapshot of a job that everything is wrong with, what the
 * judgement of a live session costs each second (four looks and what stands), and what it
 * takes to replay a large step.
 *
 * Prints one JSON line per figure: the median of many rounds of this thread's own time,
 * with the order statistics that hold it with 95 %.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "aggregate/replay.h"
#include "aggregate/texts.h"
#include "bench/measure.h"
#include "findings/findings.h"
#include "findings/standing.h"
#include "wire/clock.h"
#include "wire/facts.h"

#define ROUNDS  401
#define LOOKS   8 /* in a round */
#define OPS     1000u
#define SLOW    20u
#define DEVICES 8u
#define MARK_MS 1.0
#define MS      1e6
#define GIB     (1024.0 * 1024 * 1024)

static struct bottlenecks_answer summary;
static struct findings found[4];
static struct standing standing;
static int64_t step;

static void sick_steps(void)
{
    static struct slow_step slow[SLOW];
    struct steps_summary *train = &summary.steps.train;

    *train = (struct steps_summary){.count = 280,
                                    .mean_ns = 214 * MS,
                                    .p50_ns = 170 * MS,
                                    .p99_ns = 900 * MS,
                                    .std_ns = 40 * MS,
                                    .error_pct = 2,
                                    .recorded = 60,
                                    .kernels = 60,
                                    .other_ns = 40 * MS};
    for (uint32_t i = 0; i < EVENT_PHASES; i++) {
        train->phase_ns[i] = 43 * MS;
        train->phase_share[i] = 0.2;
        train->phase_error_ns[i] = MS;
    }
    for (uint32_t i = 0; i < SLOW; i++)
        slow[i] = (struct slow_step){
            .number = i, .duration_ns = (500 + i) * MS, .cause = "data"};
    summary.steps.slow = slow;
    summary.steps.slow_count = SLOW;
    summary.steps.validation = *train;
    summary.head.window.last_step = 280;
    summary.head.steps = train->count;
}

static void sick_devices(void)
{
    static struct gpu_device devices[DEVICES];
    static struct memory_device memories[DEVICES];

    for (uint32_t i = 0; i < DEVICES; i++) {
        devices[i].device = memories[i].device = "cuda:0";
        memories[i].peak_op = "aten::convolution";
        devices[i].name = "NVIDIA H100 80GB HBM3";
        for (uint32_t j = 0; j < GPU_IDLES; j++)
            devices[i].idle_ns[j] = 15 * MS;
        for (uint32_t j = 0; j < GPU_USES; j++)
            devices[i].use_ns[j] = 40 * MS;
        devices[i].compute_first_ns = 20 * MS;
        devices[i].compute_last_ns = 60 * MS;
        memories[i].peak_bytes = memories[i].reserved_bytes = 79 * GIB;
        memories[i].total_bytes = 80 * GIB;
        memories[i].growth.sure = true;
        memories[i].growth.slope_bytes_per_s = 1e6;
        memories[i].growth.full_in_s = 3600;
    }
    summary.gpu.devices = devices;
    summary.gpu.device_count = DEVICES;
    summary.memory.devices = memories;
    summary.memory.device_count = DEVICES;
    summary.memory.host.used_bytes = 63 * GIB;
    summary.memory.host.limit_bytes = 64 * GIB;
    summary.memory.host.limit_name = "machine";
}

static void sick_ops(struct ops_answer *ops)
{
    static struct op_row rows[OPS];

    for (uint32_t i = 0; i < OPS; i++)
        rows[i] = (struct op_row){.name = "aten::add",
                                  .kind = "op",
                                  .count = 280 * 50,
                                  .self_ns = 280 * 50 * 4000.0};
    ops->rows = rows;
    ops->row_count = OPS;
    ops->judged_count = OPS_JUDGED;
    ops->short_count = 20000;
    ops->short_self_ns = 80 * MS;
    ops->moved_ns = ops->saving_ns = 30 * MS;
    ops->saving_count = 0.01;
    for (uint32_t i = 0; i < OPS_CALLS; i++)
        ops->call_ns[i] = 10 * MS;
    for (uint32_t i = 0; i < KERNEL_FAMILIES; i++) {
        ops->family_ns[i] = 30 * MS;
        ops->family_count[i] = 1000;
    }
    ops->head.recorded_steps = 60;
}

static void sick_facts(void)
{
    static struct status_fact facts[] = {
        {.key = FACT_DATALOADER_WORKERS, .type = WIRE_FACT_NUMBER, .number = 2},
        {.key = FACT_CPU_COUNT, .type = WIRE_FACT_NUMBER, .number = 16},
        {.key = FACT_DATALOADER_PIN_MEMORY, .type = WIRE_FACT_NUMBER},
        {.key = FACT_DATALOADER_PERSISTENT, .type = WIRE_FACT_NUMBER},
        {.key = FACT_OPTIMIZER_FOREACH, .type = WIRE_FACT_NUMBER},
        {.key = FACT_OPTIMIZER_CLASS, .type = WIRE_FACT_TEXT, .text = "AdamW"},
        {.key = FACT_OPTIMIZER_DEVICE, .type = WIRE_FACT_TEXT, .text = "cuda:0"},
    };

    summary.facts = facts;
    summary.fact_count = sizeof(facts) / sizeof(facts[0]);
}

static void look_once(void)
{
    findings_find(&summary, NULL, &found[0]);
    findings_free(&found[0]);
}

static void judge_once(void)
{
    struct findings_settings strict = findings_configured(), relaxed = strict;

    relaxed.relaxed = true;
    for (int i = 0; i < 4; i++)
        findings_find(&summary, i % 2 == 0 ? &strict : &relaxed, &found[i]);
    standing_feed(&standing, &(struct standing_look){.usual = &found[0],
                                                     .usual_relaxed = &found[1],
                                                     .recent = &found[2],
                                                     .recent_relaxed = &found[3],
                                                     .recent_is_recorded = true,
                                                     .last_step = step += 10});
    for (int i = 0; i < 4; i++)
        findings_free(&found[i]);
}

#define REPLAYED                                                                       \
    20000u /* events of a step: half ops of the host, half a launch and its work */
/* Sixteen such steps every 30 s are 1 % of a core. */
#define REPLAY_MARK_MS 18.0

static void replay_once(void)
{
    static struct event events[REPLAYED];
    static struct texts *texts;
    static struct replay *replay;
    struct replay_result result;
    int64_t at = 0;

    if (replay == NULL) {
        texts = texts_new();
        replay = replay_new(texts);
    }
    uint64_t name = texts_intern(texts, "aten::mm", 8);

    replay_begin(replay, &(struct replay_step){.end_ns = REPLAYED * 1000});
    for (uint32_t i = 0; i + 4 <= REPLAYED; i += 4, at += 4000) {
        uint64_t start = (uint64_t)at;
        const struct event of[4] = {
            {start + 100, 3000, EVENT_META(name, EVENT_CPU_OP, 0, 0), 0},
            {start, 3500, EVENT_META(name, EVENT_CPU_OP, 0, 0), 0},
            {start + 200, 1000, EVENT_META(name, EVENT_LAUNCH, 0, 1), i + 1},
            {start + 1500, 2000, EVENT_META(name, EVENT_KERNEL, 0, EVENT_DEVICE(1, 0)),
             i + 1}};

        for (uint32_t j = 0; j < 4; j++) {
            events[i + j] = of[j];
            (void)replay_add(replay, 0, &events[i + j], NULL);
        }
    }
    if (replay_run(replay, &result) != 0 || result.path_count < 1000)
        abort();
}

static void report(const char *name, void (*run)(void), double mark)
{
    static double ms[ROUNDS];

    for (uint32_t i = 0; i < ROUNDS; i++) {
        uint64_t before = clock_ns(CLOCK_THREAD_CPUTIME_ID);

        for (uint32_t j = 0; j < LOOKS; j++)
            run();
        ms[i] = (double)(clock_ns(CLOCK_THREAD_CPUTIME_ID) - before) / MS / LOOKS;
    }
    struct measure_middle middle = measure_middle(ms, ROUNDS);

    printf("{\"name\": \"%s\", \"value\": %.3g, \"unit\": \"ms\", \"ci95\": [%.3g, "
           "%.3g], \"mark\": %g, \"verdict\": \"%s\"}\n",
           name, middle.value, middle.low, middle.high, mark,
           measure_verdict(middle, mark, 0));
}

int main(void)
{
    sick_steps();
    sick_devices();
    sick_ops(&summary.cpu);
    sick_ops(&summary.cuda);
    sick_facts();
    findings_find(&summary, NULL, &found[0]);
    if (found[0].count < 10) {
        fprintf(stderr, "only %u rules have something to say\n", found[0].count);
        return 1;
    }
    findings_free(&found[0]);
    report("all rules on one snapshot", look_once, MARK_MS);
    report("a live session's judgement, four looks and what stands", judge_once,
           MARK_MS);
    report("replay of a step of 20,000 events, path and all questions", replay_once,
           REPLAY_MARK_MS);
    return 0;
}
