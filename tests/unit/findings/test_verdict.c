/* What is said of a job on the CPU where no finding gives much back. */
#include "unit/rule_summary.h"

static struct op_row rows[3];
static struct rank_row ranks[2];

/* Of 100 ms 40 and 21 are convolutions, and 9 a product. */
static void put_ops(void)
{
    rows[0] = (struct op_row){
        .name = "aten::convolution_backward", .kind = "op", .per_step_ns = 40 * MS};
    rows[1] = (struct op_row){
        .name = "aten::mkldnn_convolution", .kind = "op", .per_step_ns = 21 * MS};
    rows[2] =
        (struct op_row){.name = "aten::addmm", .kind = "op", .per_step_ns = 9 * MS};
    summary.cpu.rows = rows;
    summary.cpu.judged_count = 3;
    summary.cpu.head.recorded_steps = 50;
}

static const char *verdict(void)
{
    (void)find("");
    return findings.verdict;
}

static void
what_takes_most_of_a_step_on_the_cpu_is_said_where_nothing_is_to_be_won(void **state)
{
    (void)state;
    put_ops();
    assert_non_null(strstr(verdict(), "convolutions take 61 % of each step"));
    assert_non_null(strstr(verdict(), "channels_last"));
    assert_int_equal(findings.count, 0);
    rows[2].per_step_ns = 55 * MS;
    rows[0].per_step_ns = 4 * MS;
    assert_non_null(strstr(verdict(), "matrix products take 55 % of each step"));
    assert_null(strstr(verdict(), "channels_last"));
    rows[2].per_step_ns = 45 * MS; /* nothing takes half */
    assert_string_equal(verdict(), "");
}

static void an_op_that_takes_most_of_a_step_and_is_no_product_is_named(void **state)
{
    (void)state;
    put_ops();
    rows[0] = (struct op_row){.name = "aten::sort",
                              .kind = "op",
                              .per_step_ns = 70 * MS,
                              .per_step_count = 3};
    const struct finding *finding = find("dominant-op-");

    assert_true(finding->open && finding->ns_per_step == 0);
    assert_string_equal(finding->title, "One op, `aten::sort`, takes most of the step");
    assert_non_null(strstr(finding->sentence, "70 ms of a step in 3 calls"));
    assert_non_null(strstr(finding->advice[0], "torch.topk"));
    assert_string_equal(finding->ops[0], "aten::sort");
    rows[0].per_step_ns = 140 * MS; /* in two threads, of which one may be a loader's */
    assert_false(is_found("dominant-op"));
    rows[0].per_step_ns = 70 * MS;
    number(FACT_DEVICE_COUNT, 1); /* which computes meanwhile */
    assert_false(is_found("dominant-op"));
    facts[0].number = 0;
    summary.cpu.head.recorded_steps = 9;
    assert_false(is_found("dominant-op"));
    summary.cpu.head.recorded_steps = 50;
    rows[0].per_step_ns = 45 * MS;
    assert_false(is_found("dominant-op"));
    rows[0].per_step_ns = 70 * MS;
    rows[0].name = "c10d::allreduce_"; /* waits for other ranks */
    assert_false(is_found("dominant-op"));
    rows[0].name = "_c10d_functional::wait_tensor";
    assert_false(is_found("dominant-op"));
    rows[0].name = "aten::addmm";
    assert_false(is_found("dominant-op"));
    rows[0].name = "aten::sort";
    rows[0].kind = "range";
    assert_false(is_found("dominant-op"));
}

static void what_computes_in_few_bits_already_is_not_told_to(void **state)
{
    (void)state;
    put_ops();
    assert_non_null(strstr(verdict(), ", or `torch.autocast"));
    text(FACT_AMP_DTYPE, "bfloat16");
    assert_non_null(strstr(verdict(), "channels_last"));
    assert_null(strstr(verdict(), "autocast"));
    rows[2].per_step_ns = 55 * MS;
    rows[0].per_step_ns = 4 * MS;
    assert_non_null(strstr(verdict(), "gives back a twentieth."));
    assert_null(strstr(verdict(), "Faster"));
}

static void
nothing_is_said_of_a_few_steps_nor_beside_a_device_or_a_finding(void **state)
{
    (void)state;
    put_ops();
    summary.cpu.head.recorded_steps = 9;
    assert_string_equal(verdict(), "");
    summary.cpu.head.recorded_steps = 50;
    summary.head.from_file = true; /* of a job that may have had a device */
    assert_string_equal(verdict(), "");
    summary.head.from_file = false;
    number(FACT_DEVICE_COUNT, 1);
    assert_string_equal(verdict(), "");
    facts[0].number = 0;
    assert_non_null(strstr(verdict(), "convolutions"));
    summary.rhythm.gc = extra(8 * MS, 100, EVENT_PHASE_FORWARD);
    assert_string_equal(verdict(), "");
}

static void cores_that_idle_beside_few_threads_are_told(void **state)
{
    (void)state;
    put_ops();
    number(FACT_CPU_COUNT, 8);
    number(FACT_THREADS_INTRA, 2);
    summary.load.machine_share = 0.25;
    assert_non_null(
        strstr(verdict(), "use 2 threads of 8 cores: `torch.set_num_threads(4)`"));
    facts[1].number = 4; /* one for each core of two hyperthreads, as torch has it */
    assert_null(strstr(verdict(), "set_num_threads"));
    facts[1].number = 2;
    summary.load.machine_share = 0.9; /* others have them */
    assert_null(strstr(verdict(), "set_num_threads"));
    summary.load.machine_share = (double)NAN;
    assert_null(strstr(verdict(), "set_num_threads"));
    summary.load.machine_share = 0.25;
    ranks[0].host = ranks[1].host = "here";
    summary.ranks.rows = ranks;
    summary.ranks.row_count = 2;
    assert_null(strstr(verdict(), "set_num_threads"));
    summary.ranks.row_count = 0;
    facts[1].number = 8;
    assert_null(strstr(verdict(), "set_num_threads"));
}

static void
beside_what_another_look_found_nobody_says_that_there_is_nothing(void **state)
{
    struct finding elsewhere = {.id = "step-drift",
                                .rule = findings_rule_of("step-drift"),
                                .title = "",
                                .formula = "",
                                .sentence = "",
                                .wrong_if = "",
                                .reason = "",
                                .colour = "",
                                .ns_per_step = 6 * MS,
                                .from_elsewhere = true};

    (void)state;
    put_ops();
    assert_string_not_equal(verdict(), "");
    findings_add_copy(&findings, &elsewhere);
    findings_settle(&summary, &findings);
    assert_string_equal(findings.verdict, "");
    findings.list[0].dismissed = true;
    findings_settle(&summary, &findings);
    assert_string_not_equal(findings.verdict, "");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(what_takes_most_of_a_step_on_the_cpu_is_said_where_nothing_is_to_be_won),
        TEST(an_op_that_takes_most_of_a_step_and_is_no_product_is_named),
        TEST(what_computes_in_few_bits_already_is_not_told_to),
        TEST(nothing_is_said_of_a_few_steps_nor_beside_a_device_or_a_finding),
        TEST(cores_that_idle_beside_few_threads_are_told),
        TEST(beside_what_another_look_found_nobody_says_that_there_is_nothing),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
