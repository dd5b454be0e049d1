/* When memory is a risk, when it will be full, and who fills it, on numbers made by
 * hand. */
#include "unit/steady_summary.h"

static struct memory_device device;

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
    /* Beside a device, which is another memory, the host that is full sooner is
     * told. */
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

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(memory_near_its_limit_is_a_risk_of_that_device),
        TEST(memory_is_a_grave_risk_where_a_step_may_not_fit),
        TEST(memory_that_the_allocator_only_keeps_is_no_grave_risk),
        TEST(growing_memory_says_when_it_is_full),
        TEST(memory_that_two_things_fill_is_full_when_the_first_of_them_fills_it),
        TEST(growing_memory_names_the_op_that_keeps_what_it_grows_by),
        TEST(memory_that_is_full_within_the_hour_stands_before_all_else),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
