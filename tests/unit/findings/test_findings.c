#include <errno.h>
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "findings/findings.h"
#include "wire/facts.h"

#define MS  1e6
#define GIB (1024.0 * 1024 * 1024)

static struct bottlenecks_answer summary;
static struct status_fact facts[16];
static struct memory_device device;
static struct slow_step slow[3];
static struct findings findings;

static void set_phases(double data, double forward, double backward, double optimizer)
{
    struct steps_summary *train = &summary.steps.train;
    double phases[EVENT_PHASES] = {data, forward, backward, optimizer};

    for (uint32_t i = 0; i < EVENT_PHASES; i++) {
        train->phase_ns[i] = phases[i];
        train->phase_share[i] = phases[i] / train->mean_ns;
    }
    train->other_ns = train->mean_ns - data - forward - backward - optimizer;
}

/* A steady step of 200 ms that nothing is wrong with. */
static int begin(void **state)
{
    (void)state;
    struct steps_summary *train = &summary.steps.train;

    memset(&summary, 0, sizeof(summary));
    summary.head.window.first_step = 100;
    summary.head.window.last_step = 299;
    train->count = 200;
    train->mean_ns = train->p50_ns = 200 * MS;
    train->p99_ns = 210 * MS;
    set_phases(2 * MS, 64 * MS, 120 * MS, 8 * MS);
    summary.steps.validation.mean_ns = (double)NAN;
    train->waited_ns = train->waited_error_ns = (double)NAN;
    summary.load.asleep_share = (double)NAN;
    summary.facts = facts;
    summary.memory.host.limit_bytes = 64 * GIB;
    summary.memory.host.used_bytes = 10 * GIB;
    return 0;
}

static int end(void **state)
{
    (void)state;
    findings_free(&findings);
    return 0;
}

static void number(const char *key, double value)
{
    facts[summary.fact_count++] =
        (struct status_fact){.key = key, .type = WIRE_FACT_NUMBER, .number = value};
}

static void text(const char *key, const char *value)
{
    facts[summary.fact_count++] =
        (struct status_fact){.key = key, .type = WIRE_FACT_TEXT, .text = value};
}

static const struct finding *find(const char *id)
{
    static const struct finding none = {.id = "none", .advice = {""}};

    for (uint32_t i = 0; i < findings.count; i++)
        if (strncmp(findings.list[i].id, id, strlen(id)) == 0)
            return &findings.list[i];
    return &none;
}

static void look(void)
{
    findings_free(&findings);
    findings_find(&summary, NULL, &findings);
}

static void a_healthy_run_has_no_findings(void **state)
{
    (void)state;
    look();
    assert_int_equal(findings.count, 0);
    assert_true(findings.avoidable_ns == 0);
}

static void fewer_than_ten_steps_have_none(void **state)
{
    (void)state;
    set_phases(100 * MS, 50 * MS, 40 * MS, 10 * MS);
    summary.steps.train.count = 9;
    look();
    assert_int_equal(findings.count, 0);
    summary.steps.train.count = 10;
    look();
    assert_int_equal(findings.count, 1);
}

static void a_loader_without_workers_is_priced_by_what_workers_would_hide(void **state)
{
    (void)state;
    set_phases(60 * MS, 50 * MS, 80 * MS, 10 * MS);
    number(FACT_DATALOADER_WORKERS, 0);
    number(FACT_CPU_COUNT, 8);
    look();
    const struct finding *finding = find("data-loading");

    /* 60 ms of loading by 4 workers hide behind 140 ms of computing: all of it but what
     * it takes to take a batch of two tensors over from a worker, which is a guess. */
    assert_true(fabs(finding->ns_per_step - 58.5 * MS) < 1);
    assert_true(finding->estimated);
    assert_int_equal(finding->severity, FINDING_HIGH);
    assert_string_equal(finding->colour, "data");
    assert_non_null(strstr(finding->formula, "60 ms"));
    assert_non_null(strstr(finding->advice[0], "num_workers=4"));
    assert_non_null(strstr(finding->sentence, "num_workers=0"));
    assert_int_equal(finding->first_step, 100);
    assert_true(fabs(findings.avoidable_ns - 58.5 * MS) < 1);
}

static void a_price_has_the_interval_of_the_means_that_it_reads(void **state)
{
    (void)state;
    set_phases(60 * MS, 50 * MS, 80 * MS, 10 * MS);
    summary.steps.train.phase_error_ns[EVENT_PHASE_DATA] = 3 * MS;
    number(FACT_CPU_COUNT, 8);
    look();
    const struct finding *finding = find("data-loading");

    assert_false(finding->estimated);
    assert_true(fabs(finding->low_ns - 57 * MS) < 1);
    assert_true(fabs(finding->high_ns - 63 * MS) < 1);
    /* Of few steps nothing is known; nobody invents an interval. */
    summary.steps.train.phase_error_ns[EVENT_PHASE_DATA] = (double)NAN;
    look();
    assert_true(isnan(find("data-loading")->low_ns));
    assert_true(isnan(find("data-loading")->high_ns));
}

static void what_taking_batches_over_will_cost_is_a_guess_with_an_interval(void **state)
{
    (void)state;
    set_phases(63 * MS, 50 * MS, 77 * MS, 10 * MS);
    summary.steps.train.phase_error_ns[EVENT_PHASE_DATA] = 3 * MS;
    number(FACT_DATALOADER_WORKERS, 0);
    number(FACT_DATALOADER_TENSORS, 5);
    number(FACT_CPU_COUNT, 8);
    look();
    const struct finding *finding = find("data-loading");

    /* 0.5 ms for the batch and each of five tensors, from a quarter to twice as much. */
    assert_true(fabs(finding->ns_per_step - 60 * MS) < 1);
    assert_true(fabs(finding->low_ns - (60 - 3 - 3) * MS) < 1);
    assert_true(fabs(finding->high_ns - (60 + 3 + 2.25) * MS) < 1);
    assert_non_null(strstr(finding->formula, "about 3 ms"));
    /* Pinning takes them over beside the training. */
    number(FACT_DEVICE_COUNT, 1);
    look();
    assert_true(fabs(find("data-loading")->ns_per_step - 63 * MS) < 1);
}

static void a_price_that_is_half_a_guess_says_so(void **state)
{
    (void)state;
    number(FACT_DATALOADER_WORKERS, 1);
    number(FACT_CPU_COUNT, 2);
    set_phases(40.375 * MS, 60 * MS, 80 * MS, 19.625 * MS);
    summary.steps.train.phase_error_ns[EVENT_PHASE_DATA] = 2 * MS;
    look();
    const struct finding *finding = find("data-loading");

    /* No core is left for more workers; 0.375 ms are what a ready batch costs. */
    assert_true(finding->estimated);
    assert_true(fabs(finding->ns_per_step - 20 * MS) < 1);
    assert_true(fabs(finding->low_ns - 9 * MS) < 1);
    assert_true(fabs(finding->high_ns - 31 * MS) < 1);
}

/* What it says of lost events hangs on these marks. */
static void a_rule_that_reads_what_may_be_lost_is_marked_so(void **state)
{
    static const char *const words[] = {"idle time of devices", "GPU time", "GPU work",
                                        "kernels", "ranges"};
    const struct finding_rule *rule;
    uint32_t marked = 0;

    (void)state;
    for (uint32_t i = 0; (rule = findings_rule(i)) != NULL; i++)
        for (uint32_t j = 0; j < sizeof(words) / sizeof(words[0]); j++)
            if (strstr(rule->reads, words[j]) != NULL) {
                marked++;
                assert_true(rule->sampled || rule->records);
            }
    assert_true(marked > 0);
}

static void a_relaxed_look_keeps_what_lies_little_below_its_threshold(void **state)
{
    (void)state;
    struct findings_settings settings = findings_configured();

    set_phases(5.1 * MS, 63 * MS, 120 * MS, 8 * MS);
    look();
    assert_string_equal(find("data-loading")->id, "none");
    settings.relaxed = true;
    findings_free(&findings);
    findings_find(&summary, &settings, &findings);
    assert_string_equal(find("data-loading")->id, "data-loading");
    set_phases(4.5 * MS, 63 * MS, 120 * MS, 8 * MS);
    findings_free(&findings);
    findings_find(&summary, &settings, &findings);
    assert_string_equal(find("data-loading")->id, "none");
}

static void more_workers_are_advised_only_where_cores_are_left(void **state)
{
    (void)state;
    set_phases(60.375 * MS, 50 * MS, 80 * MS,
               9.625 * MS); /* ready batches cost 0.375 ms */
    number(FACT_DATALOADER_WORKERS, 4);
    number(FACT_CPU_COUNT, 16);
    look();
    /* 4 workers need 200 ms a batch: 800 ms of loading, 100 ms with 8. */
    assert_true(fabs(find("data-loading")->ns_per_step - 60 * MS) < 1);
    assert_non_null(strstr(find("data-loading")->advice[0], "num_workers=8"));
    facts[1].number = 4;
    summary.load.workers = 4;
    summary.load.worker_cpu_share = 0.9;
    look();
    assert_null(strstr(find("data-loading")->advice[0], "num_workers="));
    assert_true(fabs(find("data-loading")->ns_per_step - 30 * MS) < 1);
}

static void advice_of_workers_knows_the_machine_and_its_quota(void **state)
{
    (void)state;
    set_phases(60 * MS, 50 * MS, 80 * MS, 10 * MS);
    number(FACT_DATALOADER_WORKERS, 0);
    /* A job in C says nothing of its cores: those of the machine. */
    summary.load.machine_cores = 2;
    look();
    assert_non_null(strstr(find("data-loading")->advice[0], "num_workers=1,"));
    summary.load.machine_cores = 64;
    number(FACT_CPU_COUNT, 64);
    look();
    assert_non_null(strstr(find("data-loading")->advice[0], "num_workers=4,"));
    summary.load.core_limit = 3.5;
    look();
    assert_non_null(strstr(find("data-loading")->advice[0], "num_workers=2,"));
    /* A loader that is not torch's. */
    facts[0].key = FACT_DATALOADER_SAMPLES;
    look();
    assert_non_null(strstr(find("data-loading")->advice[0], "num_workers=2`"));
}

static void unsteady_steps_name_the_worst_and_the_common_cause(void **state)
{
    (void)state;
    for (uint32_t i = 0; i < 3; i++)
        slow[i] = (struct slow_step){.number = 120 + i,
                                     .duration_ns = (500 + 100 * i) * MS,
                                     .cause = i == 0 ? "unknown" : "data"};
    summary.steps.slow = slow;
    summary.steps.slow_count = 3;
    summary.steps.train.p50_ns = 170 * MS;
    look();
    const struct finding *finding = find("unsteady-steps");

    assert_true(fabs(finding->ns_per_step - 30 * MS) < 1);
    assert_int_equal(finding->worst_step, 122);
    assert_string_equal(finding->colour, "data");
    assert_non_null(strstr(finding->sentence, "in 2 of 3 it was data"));
}

static void claims_on_the_same_time_count_once(void **state)
{
    (void)state;
    slow[0] =
        (struct slow_step){.number = 120, .duration_ns = 900 * MS, .cause = "data"};
    summary.steps.slow = slow;
    summary.steps.slow_count = 1;
    summary.steps.train.p50_ns = 170 * MS;
    set_phases(60 * MS, 50 * MS, 60 * MS, 30 * MS);
    number(FACT_DATALOADER_WORKERS, 0);
    number(FACT_CPU_COUNT, 8);
    text(FACT_OPTIMIZER_CLASS, "Adam");
    text(FACT_OPTIMIZER_DEVICE, "cpu");
    look();
    assert_int_equal(findings.count, 3);
    double sum = 0;

    for (uint32_t i = 0; i < findings.count; i++)
        sum += findings.list[i].ns_per_step;
    assert_true(fabs(sum - (58.5 + 30 + 24) * MS) < 1);
    assert_true(fabs(findings.avoidable_ns - (58.5 + 24) * MS) < 1);
}

static void a_looping_optimizer_is_found_and_a_fused_one_is_not(void **state)
{
    (void)state;
    set_phases(2 * MS, 62 * MS, 82 * MS, 50 * MS);
    text(FACT_OPTIMIZER_CLASS, "AdamW");
    text(FACT_OPTIMIZER_DEVICE, "cuda:0");
    look();
    assert_int_equal(findings.count, 0); /* torch takes foreach there */
    number(FACT_OPTIMIZER_FOREACH, 0);
    look();
    assert_true(fabs(find("optimizer-loop")->ns_per_step - 40 * MS) < 1);
    assert_string_equal(find("optimizer-loop")->advice[0], "`AdamW(..., fused=True)`");
    facts[0].text = "LBFGS"; /* has neither form */
    look();
    assert_string_equal(find("optimizer-loop")->id, "none");
    facts[0].text = "AdamW";
    number(FACT_OPTIMIZER_FUSED, 1);
    look();
    assert_int_equal(findings.count, 0);
}

static void the_numbers_of_an_update_take_their_time_on_the_cpu_alone(void **state)
{
    (void)state;
    set_phases(2 * MS, 60 * MS, 80 * MS, 50 * MS);
    text(FACT_OPTIMIZER_CLASS, "AdamW");
    text(FACT_OPTIMIZER_DEVICE, "cpu");
    number(FACT_OPTIMIZER_FOREACH, 0);
    number(FACT_OPTIMIZER_ELEMENTS, 25e6);
    look();
    assert_true(fabs(find("optimizer-loop")->ns_per_step - 25 * MS) < 1);
    facts[1].text = "cuda:0";
    look();
    assert_true(fabs(find("optimizer-loop")->ns_per_step - 40 * MS) < 1);
}

static void
an_optimizer_that_loops_costs_what_the_device_waits_for_the_host(void **state)
{
    (void)state;
    static struct gpu_device waits = {.device = "cuda:0", .name = ""};

    set_phases(2 * MS, 60 * MS, 80 * MS, 50 * MS);
    text(FACT_OPTIMIZER_CLASS, "AdamW");
    text(FACT_OPTIMIZER_DEVICE, "cuda:0");
    number(FACT_OPTIMIZER_FOREACH, 0);
    waits.use_ns[GPU_COMPUTE] = 180 * MS;
    waits.idle_ns[GPU_IDLE_LAUNCH] = 18 * MS;
    summary.gpu.devices = &waits;
    summary.gpu.device_count = 1;
    look();
    const struct finding *finding = find("optimizer-loop");

    assert_true(fabs(finding->ns_per_step - 18 * MS) < 1);
    assert_true(finding->low_ns <= 9 * MS && finding->high_ns < 18 * MS + 1);
    assert_non_null(strstr(finding->formula, "at most the 18 ms that cuda:0 waits"));
    waits.idle_ns[GPU_IDLE_LAUNCH] = 2 * MS; /* the host is ahead */
    look();
    assert_string_equal(find("optimizer-loop")->id, "none");
}

static void an_update_on_the_cpu_saves_no_more_than_lies_between_its_calls(void **state)
{
    (void)state;
    set_phases(2 * MS, 60 * MS, 80 * MS, 50 * MS);
    text(FACT_OPTIMIZER_CLASS, "SGD");
    text(FACT_OPTIMIZER_DEVICE, "cpu");
    number(FACT_OPTIMIZER_FOREACH, 0);
    summary.cpu.update_inside = 0.6;
    look();
    assert_true(fabs(find("optimizer-loop")->ns_per_step - 20 * MS) < 1);
    summary.cpu.update_inside = 0.98; /* a few large tensors */
    look();
    assert_string_equal(find("optimizer-loop")->id, "none");
    summary.cpu.update_inside = 0;
}

static void a_file_that_does_not_say_how_tensors_are_updated_has_no_loop(void **state)
{
    (void)state;
    set_phases(2 * MS, 60 * MS, 80 * MS, 50 * MS);
    text(FACT_OPTIMIZER_CLASS, "SGD");
    text(FACT_OPTIMIZER_DEVICE, "cpu");
    look();
    assert_true(find("optimizer-loop")->ns_per_step > 0); /* torch's own default */
    summary.head.from_file = true;
    look();
    assert_string_equal(find("optimizer-loop")->id, "none");
}

static void many_tiny_ops_are_priced_by_their_calls(void **state)
{
    (void)state;
    summary.cpu.short_count = 20000;
    summary.cpu.short_self_ns = 100 * MS;
    look();
    assert_true(fabs(find("tiny-ops")->ns_per_step - 60 * MS) < 1);
    assert_true(fabs(findings.avoidable_ns - 60 * MS) < 1);
    /* A trainer that loads by itself may make its samples of them: 6 of 200 ms. */
    set_phases(6 * MS, 92 * MS, 92 * MS, 10 * MS);
    number(FACT_DATALOADER_WORKERS, 0);
    look();
    assert_true(fabs(find("tiny-ops")->ns_per_step - 58.2 * MS) < 1);
    assert_non_null(
        strstr(find("tiny-ops")->formula, "* 1.5 - 1.8 ms of loading = 58.2 ms"));
    number(FACT_COMPILE_USED, 1);
    look();
    assert_int_equal(findings.count, 0);
}

/* 2,600 calls of 2 us and of Python between them, of a step that has little else. */
static void tiny_ops_save_no_more_than_they_take_together(void **state)
{
    (void)state;
    summary.cpu.short_count = 65000;
    summary.cpu.short_self_ns = 136 * MS;
    look();
    const struct finding *finding = find("tiny-ops");

    assert_true(fabs(finding->ns_per_step - 136 * MS) < 1);
    assert_true(fabs(finding->share - 0.68) < 1e-6);
    assert_true(findings.avoidable_ns <= 136 * MS + 1);
    assert_false(finding->high_ns > 200 * MS);
    assert_non_null(
        strstr(finding->formula, "195 ms, at most the 136 ms that these take"));
}

/* torch.compile became slower with a tiny BERT: it is no first advice, and no sure one. */
static void advice_that_was_seen_to_lose_says_where(void **state)
{
    (void)state;
    summary.cpu.short_count = 65000;
    summary.cpu.short_self_ns = 136 * MS;
    look();
    const struct finding *finding = find("tiny-ops");

    assert_int_equal(finding->severity, FINDING_MEDIUM);
    assert_non_null(strstr(finding->advice[0], "whole tensors"));
    assert_non_null(strstr(finding->wrong_if, "batches of many shapes"));
    assert_non_null(strstr(finding->wrong_if, "small models on the CPU"));
    summary.rhythm.sizes.steps = 100; /* longer texts take longer steps */
    summary.rhythm.sizes.ns_per_step = 20 * MS;
    look();
    finding = find("tiny-ops");
    assert_int_equal(finding->severity, FINDING_LOW);
    assert_true(finding->low_ns == 0);
    assert_non_null(strstr(finding->advice[1], "each new shape"));
}

/* CUPTI may be another profiler's: then nobody knows whether the host is ahead. */
static void tiny_ops_beside_a_device_that_is_not_seen_have_no_price(void **state)
{
    (void)state;
    summary.cpu.short_count = 20000;
    summary.cpu.short_self_ns = 100 * MS;
    number(FACT_DEVICE_COUNT, 1);
    look();
    assert_string_equal(find("tiny-ops")->id, "none");
    text(FACT_OPTIMIZER_DEVICE,
         "cpu"); /* the machine has one, the job does not use it */
    look();
    assert_string_equal(find("tiny-ops")->id, "tiny-ops");
}

static void tiny_ops_beside_a_device_cost_what_it_waits_for(void **state)
{
    (void)state;
    static struct gpu_device busy = {.device = "cuda:0"};

    summary.cpu.short_count = 20000;
    summary.cpu.short_self_ns = 60 * MS;
    summary.gpu.devices = &busy;
    summary.gpu.device_count = 1;
    look();
    assert_string_equal(find("tiny-ops")->id, "none");
}

static void a_trace_of_one_step_has_findings_but_no_trends(void **state)
{
    (void)state;
    static struct memory_device grows = {
        .device = "cuda:0", .growth = {.slope_bytes_per_s = GIB, .sure = true}};

    summary.head.from_file = true;
    summary.steps.train.count = 1;
    summary.memory.devices = &grows;
    summary.memory.device_count = 1;
    set_phases(100 * MS, 50 * MS, 40 * MS, 10 * MS);
    look();
    assert_string_equal(find("data-loading")->id, "data-loading");
    assert_string_equal(find("memory-growth")->id, "none");
}

static void validation_has_a_price_and_is_no_part_of_a_step(void **state)
{
    (void)state;
    summary.steps.validation.count = 200;
    summary.steps.validation.mean_ns = 100 * MS;
    look();
    assert_true(fabs(find("validation-share")->ns_per_step - 50 * MS) < 1);
    assert_true(findings.avoidable_ns == 0);
}

static void a_validation_that_just_ended_is_priced_by_its_share_of_the_run(void **state)
{
    (void)state;
    double trained = summary.steps.train.mean_ns * (double)summary.steps.train.count;

    summary.steps.validation.count = 5000;
    summary.steps.validation.mean_ns = 5 * trained / 5000;
    summary.steps.run_train_ns = 100 * trained;
    summary.steps.run_validation_ns = 8 * trained;
    look();
    assert_string_equal(find("validation-share")->id, "none");
    summary.steps.run_validation_ns = 50 * trained;
    look();
    const struct finding *finding = find("validation-share");

    assert_true(fabs(finding->ns_per_step - summary.steps.train.mean_ns / 4) < 1);
    assert_non_null(strstr(finding->sentence, "33 % of the time of the whole run"));
}

/* Of 80 GiB. */
static void put_memory(double peak_gib, double reserved_gib)
{
    device = (struct memory_device){.device = "cuda:1",
                                    .allocated_bytes = 40 * GIB,
                                    .reserved_bytes = reserved_gib * GIB,
                                    .peak_bytes = peak_gib * GIB,
                                    .peak_op = "aten::convolution",
                                    .total_bytes = 80 * GIB};
    summary.memory.devices = &device;
    summary.memory.device_count = 1;
}

static void memory_near_its_limit_is_a_risk_of_that_device(void **state)
{
    (void)state;
    put_memory(74, 76);
    look();
    const struct finding *finding = find("memory-full-");

    assert_int_equal(finding->severity, FINDING_MEDIUM);
    assert_true(finding->ns_per_step == 0);
    assert_int_equal(strlen(finding->id), strlen("memory-full-") + 8);
    assert_string_equal(finding->formula, "74 GiB of 80 GiB = 92.5 %");
    assert_non_null(strstr(finding->title, "cuda:1"));
    assert_non_null(strstr(finding->sentence, "aten::convolution"));
}

/* The same peak in every step is a job that was made to fill its device. */
static void memory_is_a_grave_risk_where_a_step_may_not_fit(void **state)
{
    (void)state;
    put_memory(78, 79);
    look();
    assert_int_equal(find("memory-full-")->severity, FINDING_HIGH);
    put_memory(74, 76);
    device.high_peaks = 2;
    look();
    assert_int_equal(find("memory-full-")->severity, FINDING_HIGH);
    device.high_peaks = 0;
    device.retries = 1;
    look();
    assert_int_equal(find("memory-full-")->severity, FINDING_HIGH);
}

static void memory_that_the_allocator_only_keeps_is_no_grave_risk(void **state)
{
    (void)state;
    put_memory(45, 74);
    look();
    const struct finding *finding = find("memory-full-");

    assert_int_equal(finding->severity, FINDING_LOW);
    assert_string_equal(
        finding->sentence,
        "74 of 80 GiB are reserved by the allocator; tensors held 45 GiB "
        "at the peak");
    put_memory((double)NAN, 74);
    look();
    assert_int_equal(find("memory-full-")->severity, FINDING_LOW);
    put_memory(74, (double)NAN);
    look();
    assert_int_equal(find("memory-full-")->severity, FINDING_MEDIUM);
}

static void growing_memory_says_when_it_is_full(void **state)
{
    (void)state;
    device = (struct memory_device){.device = "cuda:0",
                                    .allocated_bytes = 10 * GIB,
                                    .reserved_bytes = (double)NAN,
                                    .peak_bytes = 12 * GIB,
                                    .total_bytes = 80 * GIB,
                                    .growth = {.slope_bytes_per_s = GIB / 360,
                                               .sure = true,
                                               .full_in_s = 70 * 360,
                                               .earliest_s = 60 * 360,
                                               .latest_s = 90 * 360}};
    summary.memory.devices = &device;
    summary.memory.device_count = 1;
    look();
    assert_int_equal(find("memory-growth-")->severity, FINDING_HIGH);
    assert_non_null(strstr(find("memory-growth-")->formula,
                           "full in 7 h, not before 6 h, not after 9 h"));
    assert_non_null(
        strstr(find("memory-growth-")->sentence,
               "a second: memory is full in 7 h, not before 6 h, not after 9 h"));
    assert_false(find("memory-growth-")->urgent || find("memory-growth-")->open);
    /* On a device a wait in each step would be the next finding. */
    assert_non_null(strstr(find("memory-growth-")->advice[0], "loss.detach()"));
    device.growth.latest_s = (double)NAN;
    look();
    assert_non_null(
        strstr(find("memory-growth-")->formula, "full in 7 h, not before 6 h"));
    device.growth.sure = false;
    look();
    assert_int_equal(findings.count, 0);
}

static void
memory_that_two_things_fill_is_full_when_the_first_of_them_fills_it(void **state)
{
    const struct memory_growth later = {.slope_bytes_per_s = GIB / 360,
                                        .sure = true,
                                        .full_in_s = 70 * 360,
                                        .earliest_s = (double)NAN,
                                        .latest_s = (double)NAN};
    struct memory_growth earlier = later;

    (void)state;
    earlier.full_in_s = 20 * 360;
    device = (struct memory_device){.device = "cpu", .growth = later};
    summary.memory.devices = &device;
    summary.memory.device_count = 1;
    summary.memory.host.growth = earlier;
    look();
    assert_non_null(strstr(find("memory-growth-")->formula, "full in 2 h"));
    /* Beside a device, which is another memory, the host that is full sooner is told. */
    device.device = "cuda:0";
    look();
    assert_int_equal(findings.count, 2);
    summary.memory.host.growth.full_in_s = 90 * 360;
    look();
    assert_int_equal(findings.count, 1);
    summary.memory.host.growth = (struct memory_growth){.sure = false};
}

static void growing_memory_names_the_op_that_keeps_what_it_grows_by(void **state)
{
    (void)state;
    device = (struct memory_device){.device = "cpu",
                                    .growth = {.slope_bytes_per_s = 10.0 * 1048576,
                                               .sure = true,
                                               .full_in_s = (double)NAN,
                                               .earliest_s = (double)NAN,
                                               .latest_s = (double)NAN},
                                    .kept_ops = {"aten::empty", "aten::mm"},
                                    .kept_op_count = 1,
                                    .kept_bytes_per_step = 2 * 1048576,
                                    .kept_block_bytes = 2 * 1048576,
                                    .kept_steps = 20};
    summary.memory.devices = &device;
    summary.memory.device_count = 1;
    summary.steps.train.steps_per_s = 5;
    look();
    const struct finding *finding = find("memory-growth-");

    assert_non_null(strstr(finding->sentence,
                           "; each step keeps 2 MiB in blocks of 2 MiB, and such "
                           "blocks are taken by aten::empty (`torch.zeros`, "));
    assert_string_equal(finding->ops[0], "aten::empty");
    device.kept_op_count = 2;
    look();
    assert_non_null(
        strstr(find("memory-growth-")->sentence, "others call it) or aten::mm"));
    device.kept_steps = 4; /* too few */
    look();
    assert_null(strstr(find("memory-growth-")->sentence, "aten::empty"));
    device.kept_steps = 20;
    device.kept_bytes_per_step = 4 * 1048576; /* more than memory grows by */
    look();
    assert_null(strstr(find("memory-growth-")->sentence, "aten::empty"));
    device.kept_bytes_per_step = 0.5 * 1048576; /* and a part of no weight */
    look();
    assert_int_equal(find("memory-growth-")->op_count, 0);
}

static void memory_that_is_full_within_the_hour_stands_before_all_else(void **state)
{
    (void)state;
    struct memory_growth unknown = {.slope_bytes_per_s = 100.0 * 1048576,
                                    .sure = true,
                                    .full_in_s = (double)NAN,
                                    .earliest_s = (double)NAN,
                                    .latest_s = (double)NAN};

    /* The host's allocator knows no limit, the process does. */
    device = (struct memory_device){.device = "cpu", .growth = unknown};
    summary.memory.devices = &device;
    summary.memory.device_count = 1;
    summary.memory.host.growth = unknown;
    summary.memory.host.growth.full_in_s = 1500;
    set_phases(150 * MS, 20 * MS, 20 * MS, 10 * MS);
    summary.memory.host.growth.earliest_s = 50;
    look();
    assert_string_equal(find("data-loading")->id, "data-loading");
    assert_ptr_equal(find("memory-growth-"), &findings.list[0]);
    assert_non_null(
        strstr(findings.list[0].sentence, "memory is full in 25 min, not before 50 s"));
    summary.steps.validation.count = 400; /* takes three times the training */
    summary.steps.validation.mean_ns = 300 * MS;
    look();
    assert_true(find("validation-share")->share > 1); /* in no step: as it is */
    assert_ptr_equal(find("memory-growth-"), &findings.list[0]);
    summary.steps.validation.count = 0;
    summary.memory.host.growth.full_in_s = 15000;
    look();
    assert_ptr_equal(find("data-loading"), &findings.list[0]);
    assert_non_null(strstr(find("memory-growth-")->sentence, "full in 4.17 h"));
    assert_non_null(strstr(find("memory-growth-")->advice[0], "loss.item()"));
}

static void thresholds_can_be_set_by_rule(void **state)
{
    (void)state;
    struct findings_settings settings;

    findings_settings_init(&settings);
    assert_true(findings_settings_set(&settings, "data-loading", 0.005));
    assert_false(findings_settings_set(&settings, "no-such-rule", 1));
    findings_free(&findings);
    findings_find(&summary, &settings, &findings);
    assert_string_equal(find("data-loading")->id, "data-loading");
}

/* Of a job of which nothing but its steps is known. */
static void with_thresholds_of_0_nothing_is_told_that_costs_nothing(void **state)
{
    (void)state;
    struct findings_settings settings;
    struct bottlenecks_answer bare = {
        .steps.train = {.count = 500, .mean_ns = 100 * MS, .p50_ns = 100 * MS}};

    findings_settings_init(&settings);
    for (uint32_t i = 0; findings_rule(i) != NULL; i++)
        assert_true(findings_settings_set(&settings, findings_rule(i)->id, 0));
    findings_free(&findings);
    findings_find(&bare, &settings, &findings);
    for (uint32_t i = 0; i < findings.count; i++) {
        const struct finding *finding = &findings.list[i];

        assert_null(strstr(finding->formula, "nan"));
        assert_null(strstr(finding->sentence, "nan"));
        assert_true(finding->ns_per_step > 0);
    }
}

static void
a_threshold_of_nothing_finds_no_watched_function_where_there_is_none(void **state)
{
    (void)state;
    struct findings_settings settings;

    findings_settings_init(&settings);
    assert_true(findings_settings_set(&settings, "watched-function", 0));
    findings_free(&findings);
    findings_find(&summary, &settings, &findings);
    assert_int_equal(findings.count, 0);
}

static void every_rule_says_what_it_reads_and_how_it_counts(void **state)
{
    (void)state;
    uint32_t count = 0;

    for (; findings_rule(count) != NULL; count++) {
        const struct finding_rule *rule = findings_rule(count);

        assert_true(strspn(rule->id, "abcdefghijklmnopqrstuvwxyz0123456789_-") ==
                    strlen(rule->id));
        assert_true(strlen(rule->reads) > 0 && strlen(rule->formula) > 0 &&
                    strlen(rule->unit) > 0);
        assert_true(rule->owner > 0);
    }
    assert_true(count >= 6 && count < RULES_MAX);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, begin, end)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(a_healthy_run_has_no_findings),
        TEST(fewer_than_ten_steps_have_none),
        TEST(a_loader_without_workers_is_priced_by_what_workers_would_hide),
        TEST(a_price_has_the_interval_of_the_means_that_it_reads),
        TEST(what_taking_batches_over_will_cost_is_a_guess_with_an_interval),
        TEST(a_price_that_is_half_a_guess_says_so),
        TEST(a_rule_that_reads_what_may_be_lost_is_marked_so),
        TEST(a_relaxed_look_keeps_what_lies_little_below_its_threshold),
        TEST(more_workers_are_advised_only_where_cores_are_left),
        TEST(advice_of_workers_knows_the_machine_and_its_quota),
        TEST(unsteady_steps_name_the_worst_and_the_common_cause),
        TEST(claims_on_the_same_time_count_once),
        TEST(a_looping_optimizer_is_found_and_a_fused_one_is_not),
        TEST(the_numbers_of_an_update_take_their_time_on_the_cpu_alone),
        TEST(an_optimizer_that_loops_costs_what_the_device_waits_for_the_host),
        TEST(an_update_on_the_cpu_saves_no_more_than_lies_between_its_calls),
        TEST(a_file_that_does_not_say_how_tensors_are_updated_has_no_loop),
        TEST(many_tiny_ops_are_priced_by_their_calls),
        TEST(tiny_ops_save_no_more_than_they_take_together),
        TEST(advice_that_was_seen_to_lose_says_where),
        TEST(tiny_ops_beside_a_device_cost_what_it_waits_for),
        TEST(tiny_ops_beside_a_device_that_is_not_seen_have_no_price),
        TEST(a_trace_of_one_step_has_findings_but_no_trends),
        TEST(validation_has_a_price_and_is_no_part_of_a_step),
        TEST(a_validation_that_just_ended_is_priced_by_its_share_of_the_run),
        TEST(memory_near_its_limit_is_a_risk_of_that_device),
        TEST(memory_is_a_grave_risk_where_a_step_may_not_fit),
        TEST(memory_that_the_allocator_only_keeps_is_no_grave_risk),
        TEST(growing_memory_says_when_it_is_full),
        TEST(memory_that_two_things_fill_is_full_when_the_first_of_them_fills_it),
        TEST(growing_memory_names_the_op_that_keeps_what_it_grows_by),
        TEST(memory_that_is_full_within_the_hour_stands_before_all_else),
        TEST(thresholds_can_be_set_by_rule),
        TEST(with_thresholds_of_0_nothing_is_told_that_costs_nothing),
        TEST(a_threshold_of_nothing_finds_no_watched_function_where_there_is_none),
        TEST(every_rule_says_what_it_reads_and_how_it_counts),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
