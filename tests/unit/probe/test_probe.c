/* The probe in a process of its own: what it did is read from the segment it left. */
#include <fcntl.h>
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

#include "probe/probe.h"
#include "segments.h"
#include "wire/segment.h"

/* ---- scenarios, each in a child of its own
 * -------------------------------------------- */

static int write_two_ranges(void)
{
    uint64_t meta;

    if (probe_start(WIRE_ROLE_TRAINER) != 0)
        return 1;
    meta = EVENT_META(probe_name("outer"), EVENT_USER_RANGE, EVENT_RANGE_API, 0);
    probe_range_begin(meta);
    probe_range_begin(EVENT_META(probe_name("inner"), EVENT_CPU_OP, 0, 0));
    probe_range_end(EVENT_CPU_OP, 7);
    probe_range_end(PROBE_RANGE_OWNER(meta), 0);
    return 0;
}

static void ranges_are_written_when_they_end_with_their_names(void **state)
{
    (void)state;
    struct segment_file file;
    struct event events[16];
    char name[64];

    assert_int_equal(segments_run(write_two_ranges), 0);
    assert_int_equal(segments_open_only(segments_directory, &file), 0);
    int64_t count = segments_events(&file, 0, events, 16);

    assert_int_equal(count, 3);
    assert_int_equal(EVENT_KIND(events[0].meta), EVENT_THREAD);
    assert_int_equal(EVENT_KIND(events[1].meta), EVENT_CPU_OP);
    assert_string_equal(segments_name(&file, events[1].meta, name), "inner");
    assert_int_equal(events[1].aux, 7);
    assert_string_equal(segments_name(&file, events[2].meta, name), "outer");
    assert_true(events[2].time <= events[1].time);
    assert_true(events[2].time + events[2].value >= events[1].time + events[1].value);
    segments_close(&file);
}

static int stay_inside_two_ranges(void)
{
    if (probe_start(WIRE_ROLE_TRAINER) != 0)
        return 1;
    probe_range_begin(
        EVENT_META(probe_name("epoch"), EVENT_USER_RANGE, EVENT_RANGE_API, 0));
    probe_range_begin(EVENT_META(probe_name("collate"), EVENT_CPU_OP, 0, 0));
    _exit(0);
}

static void what_a_dead_thread_was_in_can_be_read(void **state)
{
    (void)state;
    struct segment_file file;
    char name[64];

    assert_int_equal(segments_run(stay_inside_two_ranges), 0);
    assert_int_equal(segments_open_only(segments_directory, &file), 0);
    const struct thread_slot *slot = &file.view.threads[0];

    assert_int_equal(atomic_load(&slot->depth), 2);
    assert_string_equal(segments_name(&file, atomic_load(&slot->open[0].meta), name),
                        "epoch");
    assert_string_equal(segments_name(&file, atomic_load(&slot->open[1].meta), name),
                        "collate");
    assert_true(atomic_load(&slot->open[1].start) >= atomic_load(&slot->open[0].start));
    segments_close(&file);
}

static int overlap_two_interfaces(void)
{
    uint64_t nvtx, api;

    if (probe_start(WIRE_ROLE_TRAINER) != 0)
        return 1;
    nvtx = EVENT_META(probe_name("nvtx"), EVENT_USER_RANGE, EVENT_RANGE_NVTX, 0);
    api = EVENT_META(probe_name("api"), EVENT_USER_RANGE, EVENT_RANGE_API, 0);
    probe_range_begin(nvtx);
    probe_range_begin(api);
    probe_range_end(PROBE_RANGE_OWNER(nvtx), 0);
    probe_range_end(PROBE_RANGE_OWNER(nvtx), 0); /* one too many */
    probe_range_end(PROBE_RANGE_OWNER(api), 0);
    return 0;
}

static void an_end_closes_only_what_its_own_interface_opened(void **state)
{
    (void)state;
    struct segment_file file;
    struct event events[16];
    char name[64];

    assert_int_equal(segments_run(overlap_two_interfaces), 0);
    assert_int_equal(segments_open_only(segments_directory, &file), 0);
    assert_int_equal(segments_events(&file, 0, events, 16), 3);
    assert_string_equal(segments_name(&file, events[1].meta, name), "nvtx");
    assert_string_equal(segments_name(&file, events[2].meta, name), "api");
    assert_int_equal(atomic_load(&file.view.threads[0].depth), 0);
    segments_close(&file);
}

static int end_with_seven(void)
{
    (void)probe_start(WIRE_ROLE_TRAINER);
    return 7;
}

static void a_process_that_ends_says_so_with_its_code(void **state)
{
    (void)state;
    struct segment_file file;
    struct stat status;

    assert_int_equal(segments_run(end_with_seven), 7);
    assert_int_equal(segments_open_only(segments_directory, &file), 0);
    assert_int_equal(atomic_load(&file.view.header->ended), 1);
    assert_int_equal(atomic_load(&file.view.header->exit_code), 7);
    assert_int_equal(fstat(file.fd, &status), 0);
    assert_int_equal(status.st_mode & 0777, 0600);
    segments_close(&file);
}

static int start_where_nobody_may_write(void)
{
    if (setenv("TRAINGLASS_DIR", "/proc/nowhere", 1) != 0)
        return 1;
    if (probe_start(WIRE_ROLE_TRAINER) == 0 || probe_reason()[0] == '\0')
        return 2;
    probe_range_begin(EVENT_META(1, EVENT_CPU_OP, 0, 0));
    probe_range_end(EVENT_CPU_OP, 0);
    probe_fact_number("x", 1);
    probe_step_mark(STEPS_STEP, 0);
    return probe_recording() == 0 ? 0 : 3;
}

static void without_shared_memory_every_call_does_nothing(void **state)
{
    (void)state;

    assert_int_equal(segments_run(start_where_nobody_may_write), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_teardown(ranges_are_written_when_they_end_with_their_names,
                                  segments_clear),
        cmocka_unit_test_teardown(what_a_dead_thread_was_in_can_be_read,
                                  segments_clear),
        cmocka_unit_test_teardown(an_end_closes_only_what_its_own_interface_opened,
                                  segments_clear),
        cmocka_unit_test_teardown(a_process_that_ends_says_so_with_its_code,
                                  segments_clear),
        cmocka_unit_test_teardown(without_shared_memory_every_call_does_nothing,
                                  segments_clear),
    };

    return cmocka_run_group_tests(tests, segments_set_up, segments_tear_down);
}
