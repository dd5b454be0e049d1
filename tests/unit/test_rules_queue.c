/* How a device works off what it is given: short kernels. */
#include "query/ops_sums.h"
#include "rule_summary.h"

static struct gpu_device device;

/* It computes for 80 of 100 ms. */
static void put_device(void)
{
    device = (struct gpu_device){.device = "cuda:0",
                                 .name = "NVIDIA H100",
                                 .compute_first_ns = (double)NAN,
                                 .compute_last_ns = (double)NAN};
    device.use_ns[GPU_COMPUTE] = 80 * MS;
    summary.gpu.devices = &device;
    summary.gpu.device_count = 1;
}

static bool is_found(const char *id)
{
    return strcmp(find(id)->id, "none") != 0;
}

static void add_kernel(double each_ns, double count, enum kernel_family family)
{
    struct op_row of = {.name = "k",
                        .kind = "kernel",
                        .family = family,
                        .count = count,
                        .self_ns = count * each_ns,
                        .per_step_ns = count * each_ns,
                        .per_step_count = count};

    ops_sums_add(&of, &summary.cuda);
}

static void kernels_that_end_when_they_have_begun_cost_their_starts(void **state)
{
    (void)state;
    put_device();
    add_kernel(12e3, 5000, KERNEL_OTHER); /* long enough */
    add_kernel(4e3, 5000, KERNEL_COLLECTIVE);
    assert_false(is_found("short-kernels"));
    add_kernel(4e3, 10000, KERNEL_OTHER);
    /* Half of the 40 ms are starts, for four fifths of the step the device works, and of
     * four kernels one stays. */
    assert_true(fabs(find("short-kernels")->ns_per_step - 20 * MS * 0.8 * 0.75) < 1);
    assert_non_null(strstr(find("short-kernels")->advice[0], "torch.compile(model)`"));
    number(FACT_COMPILE_USED, 1);
    assert_non_null(strstr(find("short-kernels")->advice[0], "max-autotune"));
    device.use_ns[GPU_COMPUTE] = 40 * MS; /* the host is what it waits for */
    assert_false(is_found("short-kernels"));
}

static void short_kernels_of_a_large_model_are_no_finding(void **state)
{
    (void)state;
    put_device();
    add_kernel(300e3, 250, KERNEL_OTHER);
    add_kernel(3e3, 2000, KERNEL_OTHER); /* norms, casts, indices: 2.4 ms to be won */
    assert_false(is_found("short-kernels"));
}

static void short_kernels_that_other_rules_are_about_are_theirs(void **state)
{
    (void)state;
    struct op_row row = {.name = "k",
                         .kind = "kernel",
                         .count = 20000,
                         .self_ns = 40 * MS,
                         .per_step_ns = 40 * MS,
                         .per_step_count = 20000,
                         .launch = {.known = true, .grid = {66, 1, 1}}};

    put_device();
    add_kernel(2e3, 20000, KERNEL_ELEMENTWISE);
    assert_true(is_found("elementwise-kernels"));
    assert_false(is_found("short-kernels"));
    summary.cuda.multiprocessors = 132;
    ops_sums_add(&row, &summary.cuda);
    /* Half of the device is free beside 40 ms, and half of that is the other rule's. */
    assert_true(fabs(find("small-grids")->ns_per_step - 40 * MS * 0.8 / 4) < 1);
    assert_true(fabs(find("short-kernels")->ns_per_step - 40 * MS * 0.8 / 2) < 1);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(kernels_that_end_when_they_have_begun_cost_their_starts),
        TEST(short_kernels_of_a_large_model_are_no_finding),
        TEST(short_kernels_that_other_rules_are_about_are_theirs),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
