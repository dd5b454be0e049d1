/* What the loop of an optimizer and many tiny operators cost, on numbers made by
 * hand. */
#include "unit/steady_summary.h"

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

/* torch.compile became slower with a tiny BERT: it is no first advice, and no sure
 * one. */
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

int main(void)
{
    const struct CMUnitTest tests[] = {
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
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
