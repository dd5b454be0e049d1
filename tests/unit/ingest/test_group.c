#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

#include "ingest/group.h"

static char root[64]; /* a fake /sys/fs/cgroup */
static struct group group;
static struct group_memory memory;
static struct group_cpu cpu;

static int set_up(void **state)
{
    (void)state;
    snprintf(root, sizeof(root), "/tmp/test-group-XXXXXX");
    return mkdtemp(root) == NULL;
}

static int tear_down(void **state)
{
    char command[128];

    (void)state;
    snprintf(command, sizeof(command), "rm -r '%s'", root);
    return system(command); /* NOLINT(cert-env33-c): a path of ours */
}

/* Writes a fake file of the tree, with the folders above it. */
static void fake(const char *name, const char *text)
{
    char path[256];

    snprintf(path, sizeof(path), "%s/%s", root, name);
    for (char *slash = strchr(path + 1, '/'); slash != NULL;
         slash = strchr(slash + 1, '/')) {
        *slash = '\0';
        mkdir(path, 0700);
        *slash = '/';
    }
    FILE *file = fopen(path, "w");

    assert_non_null(file);
    fputs(text, file);
    fclose(file);
}

static void look(const char *text)
{
    group_open(&group, root, text);
    group_read_memory(&group, &memory);
    group_read_cpu(&group, &cpu);
}

static void a_fake_tree_of_version_2_says_limits_and_use(void **state)
{
    (void)state;
    fake("job/memory.max", "1000000\n");
    fake("job/memory.current", "700000\n");
    fake("job/memory.stat", "anon 500000\ninactive_file 150000\n");
    fake("job/cpu.max", "150000 100000\n");
    fake("job/cpu.stat", "usage_usec 5\nnr_periods 40\nnr_throttled 7\n");
    look("0::/job\n");
    assert_int_equal(memory.limit_bytes, 1000000);
    assert_int_equal(memory.used_bytes, 550000);
    assert_float_equal(cpu.limit_cores, 1.5, 1e-9);
    assert_int_equal(cpu.throttled, 7);
}

static void a_fake_tree_of_version_1_says_the_same(void **state)
{
    (void)state;
    fake("memory/job/memory.limit_in_bytes", "1000000\n");
    fake("memory/job/memory.usage_in_bytes", "700000\n");
    fake("memory/job/memory.stat", "inactive_file 1\ntotal_inactive_file 150000\n");
    fake("cpu,cpuacct/job/cpu.cfs_quota_us", "150000\n");
    fake("cpu,cpuacct/job/cpu.cfs_period_us", "100000\n");
    fake("cpu,cpuacct/job/cpu.stat", "nr_periods 40\nnr_throttled 7\n");
    look("5:cpu,cpuacct:/job\n4:memory:/job\n3:cpuset:/other\n0::/\n");
    assert_true(group.version1);
    assert_int_equal(memory.limit_bytes, 1000000);
    assert_int_equal(memory.used_bytes, 550000);
    assert_float_equal(cpu.limit_cores, 1.5, 1e-9);
    assert_int_equal(cpu.periods, 40);
    assert_int_equal(cpu.throttled, 7);
}

static void what_the_kernel_can_take_back_is_not_used_in_both_versions(void **state)
{
    (void)state;
    fake("memory.max", "1000000\n");
    fake("memory.current", "960000\n");
    fake("memory.stat", "anon 300000\nfile 600000\nshmem 50000\ninactive_anon 350000\n"
                        "inactive_file 150000\nactive_file 400000\n"
                        "slab_reclaimable 20000\nslab_unreclaimable 40000\n");
    look("0::/\n");
    assert_int_equal(memory.used_bytes, 390000);
    fake("memory/memory.limit_in_bytes", "1000000\n");
    fake("memory/memory.usage_in_bytes", "960000\n");
    fake("memory/memory.stat",
         "inactive_file 1\nactive_file 2\ntotal_inactive_file 150000\n"
         "total_active_file 400000\n");
    look("4:memory:/\n");
    assert_int_equal(memory.used_bytes, 410000);
    /* The files are read one after the other: a sum may be more than the use. */
    fake("memory/memory.usage_in_bytes", "500000\n");
    look("4:memory:/\n");
    assert_int_equal(memory.used_bytes, 0);
}

static void no_limit_is_none_in_both_versions(void **state)
{
    (void)state;
    fake("memory/memory.limit_in_bytes", "9223372036854771712\n");
    fake("cpu/cpu.cfs_quota_us", "-1\n");
    fake("cpu/cpu.cfs_period_us", "100000\n");
    look("2:memory:/\n1:cpu:/\n");
    assert_int_equal(memory.limit_bytes, 0);
    assert_true(isnan(cpu.limit_cores));
    fake("memory.max", "max\n");
    fake("cpu.max", "max 100000\n");
    look("0::/\n");
    assert_false(group.version1);
    assert_int_equal(memory.limit_bytes, 0);
    assert_true(isnan(cpu.limit_cores));
}

static void in_a_container_the_mounted_root_is_the_group(void **state)
{
    (void)state;
    fake("memory/memory.limit_in_bytes", "2000000\n");
    look("4:memory:/docker/0123456789\n");
    assert_int_equal(memory.limit_bytes, 2000000);
    fake("memory.max", "3000000\n");
    look("0::/docker/0123456789\n");
    assert_int_equal(memory.limit_bytes, 3000000);
}

static void nonsense_is_no_limit(void **state)
{
    static const char *const texts[] = {"",    "\n\n",        "0:",
                                        "0::", "4:memory",    "4::::",
                                        "x",   "4:memory:\n", "0::/../../etc\n"};
    (void)state;
    for (size_t i = 0; i < sizeof(texts) / sizeof(texts[0]); i++) {
        look(texts[i]);
        assert_int_equal(memory.limit_bytes, 0);
        assert_true(isnan(cpu.limit_cores));
    }
}

static void a_key_at_which_the_text_was_cut_has_no_value(void **state)
{
    static const char text[] = "nr_periods 7\nnr_throttled\0 9";

    (void)state;
    assert_int_equal(group_value(text, "nr_periods", 1), 7);
    assert_int_equal(group_value(text, "nr_throttled", 1), 1);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(a_fake_tree_of_version_2_says_limits_and_use,
                                        set_up, tear_down),
        cmocka_unit_test_setup_teardown(a_fake_tree_of_version_1_says_the_same, set_up,
                                        tear_down),
        cmocka_unit_test_setup_teardown(
            what_the_kernel_can_take_back_is_not_used_in_both_versions, set_up,
            tear_down),
        cmocka_unit_test_setup_teardown(no_limit_is_none_in_both_versions, set_up,
                                        tear_down),
        cmocka_unit_test_setup_teardown(in_a_container_the_mounted_root_is_the_group,
                                        set_up, tear_down),
        cmocka_unit_test_setup_teardown(nonsense_is_no_limit, set_up, tear_down),
        cmocka_unit_test(a_key_at_which_the_text_was_cut_has_no_value),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
