#include <fcntl.h>
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "command/selftest/step_times.h"
#include "wire/clock.h"

#define MS   UINT64_C(1000000)
#define SIDE 1

static char folder[64];
static struct step_times times;

static int start(void **test)
{
    (void)test;
    snprintf(folder, sizeof(folder), "/tmp/trainglass-test-XXXXXX");
    return mkdtemp(folder) == NULL;
}

/* Removes what a test may have made. */
static int end(void **test)
{
    static const char *const names[] = {"1.updates", "1.steps", "1.steps.pid"};
    char path[128];

    (void)test;
    for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
        snprintf(path, sizeof(path), "%s/%s", folder, names[i]);
        unlink(path);
    }
    step_times_free(&times);
    return rmdir(folder);
}

static void write_file(const char *name, const void *bytes, size_t size)
{
    char path[128];

    snprintf(path, sizeof(path), "%s/%s", folder, name);
    FILE *file = fopen(path, "w");

    assert_non_null(file);
    assert_int_equal(fwrite(bytes, 1, size, file), size);
    fclose(file);
}

static void the_timers_updates_end_at_the_first_zero(void **test)
{
    const uint64_t updates[] = {5 * MS, 6 * MS, 7 * MS, 8 * MS, 0, 0, 0};
    const uint64_t begins[] = {1, 2, 3, 4, 5};

    (void)test;
    write_file("1.updates", updates, sizeof(updates));
    write_file("1.steps", begins, sizeof(begins));
    assert_int_equal(step_times_read(&times, folder, SIDE), 4);
    assert_int_equal(times.begins[3], 8 * MS);
    assert_true(fabs(step_times_between(&times, 0, UINT64_MAX).median_ns - (double)MS) <
                1e-3);
}

static void a_job_without_updates_tells_its_steps_itself(void **test)
{
    const uint64_t begins[] = {1, 2, 3, 4, 5};

    (void)test;
    assert_int_equal(step_times_read(&times, folder, SIDE), 0);
    assert_true(isnan(step_times_between(&times, 0, UINT64_MAX).median_ns));
    assert_true(isnan(step_times_between(&times, 0, UINT64_MAX).mean_ns));
    write_file("1.steps", begins, sizeof(begins) - 3); /* cut in its last one */
    assert_int_equal(step_times_read(&times, folder, SIDE), 4);
}

static void times_that_go_back_are_not_believed(void **test)
{
    const uint64_t begins[] = {10, 20, 15, 30};

    (void)test;
    write_file("1.steps", begins, sizeof(begins));
    assert_int_equal(step_times_read(&times, folder, SIDE), 2);
}

static void a_run_is_warm_after_its_steps_or_when_it_says_so(void **test)
{
    uint64_t now = clock_ns(CLOCK_MONOTONIC);
    uint64_t updates[8] = {now - 2000 * MS, now - 1000 * MS, now};

    (void)test;
    assert_false(step_times_are_warm(folder, SIDE, 3, 1000 * MS));
    write_file("1.steps.pid", "", 0);
    assert_false(step_times_are_warm(folder, SIDE, 3, 1000 * MS));
    write_file("1.steps.pid", "17", 2);
    assert_true(step_times_are_warm(folder, SIDE, 3, 1000 * MS));
    write_file("1.updates", updates, sizeof(updates));
    assert_true(step_times_are_warm(folder, SIDE, 3, 1000 * MS));
    assert_false(step_times_are_warm(folder, SIDE, 3, 1000000 * MS));
    assert_false(step_times_are_warm(folder, SIDE, 4, 1000 * MS));
}

static void steps_across_a_change_and_those_of_a_busy_machine_are_left_out(void **test)
{
    uint64_t begins[40], at = 0;

    (void)test;
    for (size_t i = 0; i < 40; i++) {
        begins[i] = 1 + at;
        /* One that is disturbed, one that is recorded. */
        at += i == 15 ? 50 * MS : i == 20 ? 2 * MS : MS;
    }
    write_file("1.updates", begins, sizeof(begins));
    assert_int_equal(step_times_read(&times, folder, SIDE), 40);
    /* Until 3 ms caches are cold; each step from there on takes a ms. */
    assert_true(fabs(step_times_between(&times, 0, 15 * MS).mean_ns - (double)MS) < 1);
    /* Of 36 whole ones one counts twice and one not at all. */
    assert_true(fabs(step_times_between(&times, 0, UINT64_MAX).mean_ns -
                     36.0 / 35 * (double)MS) < 1);
    assert_true(
        isnan(step_times_between(&times, 0, 6 * MS).mean_ns)); /* two are too few */
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(the_timers_updates_end_at_the_first_zero, start,
                                        end),
        cmocka_unit_test_setup_teardown(a_job_without_updates_tells_its_steps_itself,
                                        start, end),
        cmocka_unit_test_setup_teardown(times_that_go_back_are_not_believed, start,
                                        end),
        cmocka_unit_test_setup_teardown(
            a_run_is_warm_after_its_steps_or_when_it_says_so, start, end),
        cmocka_unit_test_setup_teardown(
            steps_across_a_change_and_those_of_a_busy_machine_are_left_out, start, end),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
