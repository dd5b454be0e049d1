/* Requests of the page, as files that the probe reads. */
#include <fcntl.h>
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "control/control.h"
#include "wire/segment.h"

static char folder[64], path[128];

static int make_folder(void **state)
{
    (void)state;
    (void)snprintf(folder, sizeof(folder), "/tmp/trainglass-control-XXXXXX");
    if (mkdtemp(folder) == NULL)
        return -1;
    (void)snprintf(path, sizeof(path), "%s/a.ctl", folder);
    return 0;
}

static int remove_folder(void **state)
{
    (void)state;
    (void)unlink(path);
    return rmdir(folder); /* fails when anything else was left behind */
}

static struct control read_back(void)
{
    unsigned char bytes[512];
    struct control control;
    int file = open(path, O_RDONLY);
    ssize_t size = read(file, bytes, sizeof(bytes));

    close(file);
    assert_true(size > 0);
    assert_true(control_parse(bytes, (size_t)size, &control));
    return control;
}

static void a_request_keeps_what_was_asked_before(void **state)
{
    struct control_change budget = {.level = -1, .budget_ppm = 20000};
    struct control_change level = {.level = WIRE_LEVEL_OPS, .budget_ppm = -1};
    struct control control;

    (void)state;
    assert_int_equal(control_write(path, &budget), 0);
    control = read_back();
    assert_int_equal(control.budget_ppm, 20000);
    assert_int_equal(control.level, WIRE_LEVEL_AUTO);
    assert_int_equal(control.sequence, 1);
    assert_int_equal(control_write(path, &level), 0);
    control = read_back();
    assert_int_equal(control.budget_ppm, 20000);
    assert_int_equal(control.level, WIRE_LEVEL_OPS);
    assert_int_equal(control.sequence, 2);
    assert_int_equal(control.burst_id, 0);
}

static void each_burst_has_a_number_of_its_own(void **state)
{
    struct control_change burst = {.level = -1, .budget_ppm = -1, .burst_steps = 10};

    (void)state;
    assert_int_equal(control_write(path, &burst), 0);
    assert_int_equal(read_back().burst_id, 1);
    assert_int_equal(control_write(path, &burst), 0);
    assert_int_equal(read_back().burst_id, 2);
    assert_int_equal(read_back().burst_steps, 10);
}

static void the_job_s_own_settings_stay_where_nobody_asked(void **state)
{
    const struct control own = {.level = WIRE_LEVEL_OPS, .budget_ppm = 50000};
    struct control_change burst = {
        .level = -1, .budget_ppm = -1, .burst_steps = 10, .in_force = &own};
    struct control_change budget = {.level = -1, .budget_ppm = 2000, .in_force = &own};

    (void)state;
    assert_int_equal(control_write(path, &burst), 0);
    assert_int_equal(read_back().level, WIRE_LEVEL_OPS);
    assert_int_equal(read_back().budget_ppm, 50000);
    assert_int_equal(control_write(path, &budget), 0);
    assert_int_equal(control_write(path, &burst), 0);
    assert_int_equal(read_back().budget_ppm, 2000); /* asked: stands over the job's */
}

static void garbage_that_lies_there_is_replaced(void **state)
{
    struct control_change budget = {.level = -1, .budget_ppm = 5000};
    int file = open(path, O_WRONLY | O_CREAT, 0600);

    (void)state;
    assert_int_equal(write(file, "garbage", 7), 7);
    close(file);
    assert_int_equal(control_write(path, &budget), 0);
    assert_int_equal(read_back().budget_ppm, 5000);
}

static void a_window_stays_asked_beside_what_is_asked_later(void **state)
{
    struct control_window window = {.id = 7, .steps = 3, .seconds = 60, .flags = 5};
    struct control_change first = {.level = -1, .budget_ppm = -1, .window = &window};
    struct control_change second = {.level = WIRE_LEVEL_OPS, .budget_ppm = -1};
    struct control control;

    (void)state;
    assert_int_equal(control_write(path, &first), 0);
    assert_int_equal(control_write(path, &second), 0);
    control = read_back();
    assert_int_equal(control.window_id, 7);
    assert_int_equal(control.window_steps, 3);
    assert_int_equal(control.window_flags, 5);
    assert_int_equal(control.level, WIRE_LEVEL_OPS);
}

static void *ask_for_bursts(void *error)
{
    struct control_change burst = {.level = -1, .budget_ppm = -1, .burst_steps = 1};

    for (int i = 0; i < 200; i++)
        if (control_write(path, &burst) != 0)
            *(int *)error = 1;
    return NULL;
}

static void requests_of_the_same_moment_are_all_obeyed(void **state)
{
    pthread_t threads[4];
    int errors[4] = {0};

    (void)state;
    for (int i = 0; i < 4; i++)
        assert_int_equal(pthread_create(&threads[i], NULL, ask_for_bursts, &errors[i]),
                         0);
    for (int i = 0; i < 4; i++) {
        pthread_join(threads[i], NULL);
        assert_int_equal(errors[i], 0);
    }
    assert_int_equal(read_back().burst_id, 800);
    assert_int_equal(read_back().sequence, 800);
}

static void a_folder_that_may_not_be_written_is_an_error(void **state)
{
    struct control_change change = {.level = -1, .budget_ppm = 1};

    (void)state;
    assert_true(control_write("/nowhere/at/all.ctl", &change) < 0);
    assert_int_equal(control_write(path, &change), 0);
}

static void only_segments_have_control_files(void **state)
{
    struct control_change change = {.level = -1, .budget_ppm = 1};
    char out[64];

    (void)state;
    assert_true(control_path("/d/abc.seg", out, sizeof(out)));
    assert_string_equal(out, "/d/abc.ctl");
    assert_false(control_path("/d/abc.ctl", out, sizeof(out)));
    assert_false(control_path(".seg", out, sizeof(out)));
    assert_false(control_path("/d/abc.seg", out, 10));
    assert_int_equal(control_write(path, &change), 0);
}

#define IN_FOLDER(test)                                                                \
    cmocka_unit_test_setup_teardown(test, make_folder, remove_folder)

int main(void)
{
    const struct CMUnitTest tests[] = {
        IN_FOLDER(a_request_keeps_what_was_asked_before),
        IN_FOLDER(each_burst_has_a_number_of_its_own),
        IN_FOLDER(a_window_stays_asked_beside_what_is_asked_later),
        IN_FOLDER(the_job_s_own_settings_stay_where_nobody_asked),
        IN_FOLDER(garbage_that_lies_there_is_replaced),
        IN_FOLDER(requests_of_the_same_moment_are_all_obeyed),
        IN_FOLDER(a_folder_that_may_not_be_written_is_an_error),
        IN_FOLDER(only_segments_have_control_files),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
