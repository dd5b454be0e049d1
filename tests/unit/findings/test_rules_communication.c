/* Ranks on the CPU that wait for each other in collectives. */
#include "unit/rule_summary.h"

static void give(struct op_row *rows, uint32_t count)
{
    summary.cpu.rows = rows;
    summary.cpu.judged_count = count;
    summary.cpu.head.recorded_steps = 500;
}

static void a_job_on_the_cpu_that_waits_in_a_barrier_is_told_so(void **state)
{
    struct op_row rows[] = {{.name = "c10d::barrier",
                             .kind = "op",
                             .per_step_ns = 1 * MS, /* of its own */
                             .per_step_count = 1,
                             .mean_ns = 92 * MS},
                            {.name = "record_param_comms",
                             .kind = "range",
                             .per_step_ns = 91 * MS,
                             .per_step_count = 1,
                             .mean_ns = 91 * MS},
                            {.name = "aten::mm",
                             .kind = "op",
                             .per_step_ns = 5 * MS,
                             .per_step_count = 10,
                             .mean_ns = 0.5 * MS}};

    (void)state;
    give(rows, 3);
    const struct finding *finding = find("communication-wait");

    assert_true(fabs(finding->ns_per_step - 46 * MS) < 1);
    assert_non_null(strstr(finding->sentence, "c10d::barrier"));
    assert_null(strstr(finding->sentence, "nothing else"));
    rows[0].mean_ns = 3 * MS;
    rows[1].mean_ns = 2 * MS;
    assert_false(is_found("communication-wait"));
}

static void exchanges_of_gloo_count_as_far_as_no_op_runs_beside_them(void **state)
{
    struct op_row rows[] = {{.name = "gloo:all_reduce",
                             .kind = "range",
                             .per_step_ns = 80 * MS,
                             .per_step_count = 4,
                             .mean_ns = 20 * MS},
                            {.name = "aten::mm",
                             .kind = "op",
                             .per_step_ns = 70 * MS,
                             .per_step_count = 10,
                             .mean_ns = 7 * MS}};

    (void)state;
    give(rows, 2);
    assert_true(fabs(find("communication-wait")->ns_per_step - 15 * MS) < 1);
    assert_non_null(strstr(find("communication-wait")->sentence, "Up to 30 ms"));
    rows[1].per_step_ns = 98 * MS; /* hidden behind the backward */
    assert_false(is_found("communication-wait"));
}

static void beside_a_device_the_devices_own_waits_tell(void **state)
{
    static struct gpu_device device;
    struct op_row row = {
        .name = "c10d::barrier", .kind = "op", .per_step_count = 1, .mean_ns = 92 * MS};

    (void)state;
    give(&row, 1);
    assert_true(is_found("communication-wait"));
    give_device(&device, 60 * MS);
    assert_false(is_found("communication-wait"));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(a_job_on_the_cpu_that_waits_in_a_barrier_is_told_so),
        TEST(exchanges_of_gloo_count_as_far_as_no_op_runs_beside_them),
        TEST(beside_a_device_the_devices_own_waits_tell),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
