/* What real trace files do, each in a small file under tests/data/traces. */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include <cmocka.h>

#include "unit/traces.h"

static struct traced read_file(const char *name)
{
    static const struct trace_options options = {.shapes = true, .stacks = true};
    char path[4096];

    snprintf(path, sizeof(path), "%s/%s", TRACES, name);
    struct traced traced = traced_file(path, &options);

    if (traced.result != 0)
        print_message("%s: %s\n", path, traced_report(&traced)->error);
    assert_int_equal(traced.result, 0);
    return traced;
}

static const char *name_of(const struct traced *traced, uint32_t event)
{
    return traced_text(traced, traced->events[event].name);
}

static void assert_nothing_wrong(const struct traced *traced)
{
    assert_int_equal(trace_reader_skipped(traced->reader), 0);
    assert_int_equal(traced_report(traced)->values_unreadable, 0);
    assert_string_equal(traced_report(traced)->error, "");
    assert_false(traced_report(traced)->is_cut);
}

static void quirk_1_the_top_level_may_be_a_bare_list(void **state)
{
    (void)state;
    struct traced traced = read_file("01-bare-list.json");

    assert_int_equal(traced.count, 2);
    assert_true(trace_reader_head(traced.reader)->is_array);
    assert_nothing_wrong(&traced);
    traced_free(&traced);
}

static void quirk_1_events_stand_before_or_behind_the_other_keys(void **state)
{
    (void)state;
    static const char *const names[] = {"01-events-first.json", "01-events-last.json"};

    for (int i = 0; i < 2; i++) {
        struct traced traced = read_file(names[i]);
        const struct trace_head *head = trace_reader_head(traced.reader);

        assert_int_equal(traced.count, 1);
        assert_int_equal(head->span_count, 6);
        assert_true(head->base_time_ns == INT64_C(1751410836000000000));
        assert_int_equal(head->rank, 2);
        assert_int_equal(head->world_size, 4);
        assert_string_equal(trace_reader_span(traced.reader, "deviceProperties")->value,
                            "[{\"id\": 0, \"name\": \"Tesla [V100] {32 GB}\"}]");
        assert_nothing_wrong(&traced);
        traced_free(&traced);
    }
}

static void quirk_2_white_space_and_order_of_keys_do_not_matter(void **state)
{
    (void)state;
    static const char *const names[] = {"02-dense.json", "02-indented.json",
                                        "02-other-key-order.json", "02-of-2021.json"};

    for (int i = 0; i < 4; i++) {
        struct traced traced = read_file(names[i]);

        assert_int_equal(traced.count, 2);
        assert_string_equal(name_of(&traced, 0), "aten::add");
        assert_int_equal(traced.events[0].time_ns, 10000);
        assert_int_equal(traced.events[0].duration_ns, 2500);
        assert_int_equal(traced.events[0].external_id, 3);
        assert_string_equal(traced_text(&traced, traced.events[0].shapes),
                            "[[2,3],[]]");
        assert_string_equal(name_of(&traced, 1), "void add<4>(float*)");
        assert_int_equal(traced.events[1].grid[2], 3);
        assert_int_equal(traced.events[1].correlation, 3);
        assert_nothing_wrong(&traced);
        traced_free(&traced);
    }
}

static void quirk_3_stamps_are_exact_in_every_notation(void **state)
{
    (void)state;
    static const int64_t times[][2] = {
        {INT64_C(1623142623460016000), 68000},
        {INT64_C(1682725898236567250), 68750},
        {INT64_C(5898236567128), 1},
        {INT64_C(1717570800123456789), 12500},
        {1000, 1001},
        {INT64_C(1623142623400000000), 2500},
        {-3500, 1000},
    };
    struct traced traced = read_file("03-stamps.json");

    assert_int_equal(traced.count, 7);
    for (uint32_t i = 0; i < traced.count; i++) {
        assert_true(traced.events[i].time_ns == times[i][0]);
        assert_true(traced.events[i].duration_ns == times[i][1]);
    }
    assert_nothing_wrong(&traced);
    traced_free(&traced);
}

static void quirk_4_every_phase_is_given_as_it_is(void **state)
{
    (void)state;
    struct traced traced = read_file("04-phases.json");
    char name[16];

    assert_int_equal(traced.count, 8);
    for (uint32_t i = 0; i < traced.count; i++)
        assert_int_equal(traced.events[i].phase, "MXBEiCsf"[i]);
    trace_args_text(&traced.events[0], "name", name, sizeof(name));
    assert_string_equal(name, "python");
    assert_int_equal(traced.events[4].scope, 'g');
    assert_int_equal(traced.events[6].flow, 18);
    assert_int_equal(traced.events[7].flow, 18);
    assert_true(traced.events[7].has & TRACE_BINDS_ENCLOSING);
    assert_false(traced.events[6].has & TRACE_BINDS_ENCLOSING);
    assert_nothing_wrong(&traced);
    traced_free(&traced);
}

static void quirk_5_a_thread_is_the_same_as_number_and_as_text(void **state)
{
    (void)state;
    struct traced traced = read_file("05-threads.json");
    struct trace_names *names = trace_reader_names(traced.reader);
    const struct trace_event *events = traced.events;
    int64_t number;

    assert_int_equal(traced.count, 6);
    assert_int_equal(events[0].tid, events[1].tid);
    assert_int_equal(events[0].pid, events[1].pid);
    assert_string_equal(traced_text(&traced, events[2].tid), "stream 7");
    assert_string_equal(traced_text(&traced, events[3].pid), "Spans");
    assert_int_equal(events[4].tid, TRACE_NAMES_NONE);
    assert_true(trace_names_number(names, events[0].tid, &number));
    assert_int_equal(number, 25738);
    assert_true(trace_names_number(names, events[5].pid, &number));
    assert_int_equal(number, -1);
    assert_false(trace_names_number(names, events[2].tid, &number));
    assert_nothing_wrong(&traced);
    traced_free(&traced);
}

static void quirk_6_categories_of_every_era_are_known(void **state)
{
    (void)state;
    static const uint8_t wanted[] = {
        TRACE_CPU_OP,
        TRACE_CPU_OP,
        TRACE_RUNTIME,
        TRACE_RUNTIME,
        TRACE_DRIVER,
        TRACE_RUNTIME,
        TRACE_RUNTIME,
        TRACE_DRIVER,
        TRACE_KERNEL,
        TRACE_KERNEL,
        TRACE_KERNEL,
        TRACE_KERNEL,
        TRACE_MEMCPY,
        TRACE_MEMCPY,
        TRACE_MEMSET,
        TRACE_MEMSET,
        TRACE_SYNC,
        TRACE_LAUNCH_FLOW,
        TRACE_LAUNCH_FLOW,
        TRACE_LAUNCH_FLOW,
        TRACE_FORWARD_FLOW,
        TRACE_FORWARD_FLOW,
        TRACE_OVERHEAD,
        TRACE_USER_ANNOTATION,
        TRACE_GPU_USER_ANNOTATION,
        TRACE_PYTHON_FUNCTION,
        TRACE_CPU_INSTANT,
        TRACE_SPAN,
        TRACE_COLLECTIVE,
        TRACE_OTHER,
        TRACE_NO_CATEGORY,
    };
    struct traced traced = read_file("06-categories.json");

    assert_int_equal(traced.count, sizeof(wanted));
    for (uint32_t i = 0; i < traced.count; i++)
        assert_int_equal(traced.events[i].category, wanted[i]);
    assert_string_equal(traced_text(&traced, traced.events[0].category_name),
                        "Operator");
    assert_string_equal(traced_text(&traced, traced.events[29].category_name),
                        "something_new");
    traced_free(&traced);
}

static void quirk_7_events_come_in_the_order_of_the_file(void **state)
{
    (void)state;
    struct traced traced = read_file("07-children-first.json");

    assert_int_equal(traced.count, 3);
    assert_string_equal(name_of(&traced, 0), "child");
    assert_string_equal(name_of(&traced, 1), "parent");
    assert_true(traced.events[2].offset > traced.events[1].offset);
    traced_free(&traced);
}

static void quirk_8_kernels_that_overlap_are_given_unclipped(void **state)
{
    (void)state;
    struct traced traced = read_file("08-into-the-next.json");

    assert_int_equal(traced.count, 2);
    assert_int_equal(traced.events[0].time_ns + traced.events[0].duration_ns, 15000);
    assert_int_equal(traced.events[1].time_ns, 13000);
    assert_true(traced.events[0].has & TRACE_HAS_STREAM);
    traced_free(&traced);
}

static void quirk_9_both_spellings_of_the_external_id_are_one(void **state)
{
    (void)state;
    struct traced traced = read_file("09-external-ids.json");

    assert_int_equal(traced.count, 3);
    assert_int_equal(traced.events[0].external_id, 537);
    assert_int_equal(traced.events[1].external_id, 537);
    assert_int_equal(traced.events[1].correlation, 34417);
    assert_int_equal(traced.events[2].external_id, traced.events[2].correlation);
    traced_free(&traced);
}

static void quirk_10_a_step_and_its_copy_on_the_device_differ_in_category(void **state)
{
    (void)state;
    struct traced traced = read_file("10-steps-twice.json");

    assert_int_equal(traced.count, 2);
    assert_int_equal(traced.events[0].name, traced.events[1].name);
    assert_int_equal(traced.events[0].category, TRACE_USER_ANNOTATION);
    assert_int_equal(traced.events[1].category, TRACE_GPU_USER_ANNOTATION);
    traced_free(&traced);
}

static void quirk_11_memory_says_whether_it_has_totals(void **state)
{
    (void)state;
    struct traced traced = read_file("11-memory.json");
    const struct trace_event *old = &traced.events[0], *new = &traced.events[1];

    assert_int_equal(traced.count, 2);
    assert_int_equal(old->bytes, 4);
    assert_int_equal(old->device_id, -1);
    assert_false(old->has & (TRACE_HAS_TOTAL_ALLOCATED | TRACE_HAS_ADDRESS));
    assert_int_equal(new->bytes, -18317312);
    assert_int_equal(new->total_allocated_bytes, 1003059712);
    assert_true(new->total_reserved_bytes == INT64_C(2629828608));
    assert_true(new->address == UINT64_C(137877174353920));
    assert_int_equal(new->device_type, 1);
    traced_free(&traced);
}

static void quirk_12_unfinished_is_said_however_it_is_written(void **state)
{
    (void)state;
    struct traced traced = read_file("12-unfinished.json");

    assert_int_equal(traced.count, 5);
    for (uint32_t i = 0; i < 3; i++)
        assert_true(traced.events[i].has & TRACE_UNFINISHED);
    assert_false(traced.events[3].has & TRACE_UNFINISHED);
    assert_true(traced.events[0].has & TRACE_HAS_DURATION);
    assert_true(traced.events[4].time_ns == INT64_C(9223372036854000));
    traced_free(&traced);
}

static void quirk_13_bare_words_cost_the_value_or_the_event_that_needs_it(void **state)
{
    (void)state;
    struct traced traced = read_file("13-bare-words.json");

    assert_int_equal(traced.count, 4);
    assert_int_equal(traced.events[0].bytes, 4);
    assert_int_equal(traced.events[1].device, 3);
    assert_int_equal(traced.events[1].has & (TRACE_HAS_STREAM | TRACE_HAS_OCCUPANCY),
                     0);
    assert_int_equal(traced.events[2].python_id, 5);
    assert_false(traced.events[2].has & TRACE_HAS_PYTHON_PARENT_ID);
    assert_int_equal(traced_report(&traced)->values_unreadable, 3);
    assert_int_equal(traced_report(&traced)->skipped[TRACE_SKIP_TIME], 2);
    assert_int_equal(trace_reader_skipped(traced.reader), 2);
    assert_string_equal(name_of(&traced, 3), "last");
    traced_free(&traced);
}

static void quirk_13_a_quote_in_a_name_costs_that_event_alone(void **state)
{
    (void)state;
    struct traced traced = read_file("13-quotes-and-newlines.json");

    assert_int_equal(traced.count, 3);
    assert_string_equal(name_of(&traced, 0), "first");
    assert_string_equal(name_of(&traced, 1), "one line\nand another");
    assert_string_equal(name_of(&traced, 2), "last");
    assert_int_equal(traced_report(&traced)->skipped[TRACE_SKIP_SYNTAX], 3);
    assert_int_equal(trace_reader_skipped(traced.reader), 3);
    assert_int_equal(traced_report(&traced)->first_offset[TRACE_SKIP_SYNTAX], 67);
    assert_int_equal(trace_reader_head(traced.reader)->base_time_ns, 7);
    traced_free(&traced);
}

static void quirk_13_backslashes_of_windows_are_read_as_far_as_they_can_be(void **state)
{
    (void)state;
    struct traced traced = read_file("13-backslashes.json");

    assert_int_equal(traced.count, 3);
    assert_string_equal(name_of(&traced, 0), "C:\\Users\\me\train.py(3): forward");
    assert_string_equal(name_of(&traced, 1), "C:\\temp\\");
    assert_string_equal(name_of(&traced, 2),
                        "\"\xc3\xa9\xf0\x9f\x98\x80/\xef\xbf\xbd\"");
    assert_int_equal(traced_report(&traced)->skipped[TRACE_SKIP_SYNTAX], 1);
    assert_non_null(trace_reader_span(traced.reader, "traceName"));
    traced_free(&traced);
}

static void quirk_13_bytes_that_are_no_text_become_a_mark(void **state)
{
    (void)state;
    struct traced traced = read_file("13-bytes.json");

    assert_int_equal(traced.count, 4);
    assert_string_equal(name_of(&traced, 0), "a\xef\xbf\xbd\xef\xbf\xbd(b");
    assert_string_equal(name_of(&traced, 1), "tab\there \xef\xbf\xbd\xef\xbf\xbd[31m");
    assert_string_equal(name_of(&traced, 3), "behind zeros");
    assert_int_equal(traced_report(&traced)->skipped[TRACE_SKIP_SYNTAX], 1);
    traced_free(&traced);
}

static void quirk_13_everything_before_a_cut_is_read(void **state)
{
    (void)state;
    struct traced traced = read_file("13-cut.json");

    assert_int_equal(traced.count, 1);
    assert_string_equal(name_of(&traced, 0), "first");
    assert_int_equal(traced_report(&traced)->skipped[TRACE_SKIP_CUT], 1);
    assert_int_equal(traced_report(&traced)->first_offset[TRACE_SKIP_CUT], 87);
    assert_true(traced_report(&traced)->is_cut);
    traced_free(&traced);
}

static void
quirk_13_a_gzip_that_reaches_back_too_far_gives_what_was_before(void **state)
{
    (void)state;
    struct traced traced = {.reader = trace_reader_new(NULL)};

    assert_int_equal(
        trace_reader_open(traced.reader, TRACES "/13-reaches-back-too-far.json.gz"), 0);
    assert_int_equal(trace_reader_run(traced.reader, traced_keep, &traced), -EBADMSG);
    assert_in_range(traced_report(&traced)->text_bytes, 100, 117); /* by library */
    assert_non_null(strstr(traced_report(&traced)->error, "the gzip is damaged"));
    traced_free(&traced);
}

static void quirk_14_names_of_collectives_are_as_written(void **state)
{
    (void)state;
    struct traced traced = read_file("14-nccl.json");
    int64_t elements;

    assert_int_equal(traced.count, 3);
    assert_string_equal(name_of(&traced, 1),
                        "ncclDevKernel_AllReduce_Sum_f32_RING_LL(ncclDevComm*)");
    assert_string_equal(traced_text(&traced, traced.events[1].collective), "allreduce");
    assert_true(trace_args_integer(&traced.events[1], "In msg nelems", &elements));
    assert_int_equal(elements, 25557032);
    assert_int_equal(traced.events[0].collective, TRACE_NAMES_NONE);
    traced_free(&traced);
}

static void quirk_15_a_long_event_is_read_and_gzip_known_by_its_magic(void **state)
{
    (void)state;
    struct traced traced = read_file("15-long-event.json");

    assert_int_equal(traced.count, 2);
    assert_true(traced.events[0].length > 4096);
    assert_int_equal(traced.events[0].bytes, 7);
    assert_int_equal(strlen(traced_text(&traced, traced.events[0].stack)),
                     TRACE_NAME_BYTES_MAX);
    traced_free(&traced);
    traced = read_file("15-gzip-by-another-name.json");
    assert_int_equal(traced.count, 2);
    assert_true(traced_report(&traced)->is_gzip);
    assert_nothing_wrong(&traced);
    traced_free(&traced);
}

static void quirk_16_parts_of_a_us_and_what_is_outside_of_steps_are_kept(void **state)
{
    (void)state;
    struct traced traced = read_file("16-parts-of-a-us.json");

    assert_int_equal(traced.count, 3);
    assert_int_equal(traced.events[1].time_ns, 999);
    assert_int_equal(traced.events[1].duration_ns, 1002);
    assert_int_equal(traced.events[2].duration_ns, 999);
    traced_free(&traced);
}

static void quirk_17_devices_and_streams_are_what_each_event_says(void **state)
{
    (void)state;
    struct traced traced = read_file("17-strange-devices.json");

    assert_int_equal(traced.count, 4);
    assert_true(traced.events[0].has & TRACE_UNFINISHED);
    assert_int_equal(traced.events[0].device_id, 0);
    assert_int_equal(traced.events[1].device, 3);
    assert_int_equal(traced.events[2].category, TRACE_CPU_OP);
    assert_int_equal(traced.events[2].stream, 7);
    assert_int_equal(traced.events[3].duration_ns, 4);
    traced_free(&traced);
}

static void an_op_its_launch_and_its_kernel_say_what_links_them(void **state)
{
    (void)state;
    struct traced traced = read_file("a-launch.json");
    const struct trace_event *op = &traced.events[0], *frame = &traced.events[1];
    const struct trace_event *memory = &traced.events[2], *launch = &traced.events[3];
    const struct trace_event *kernel = &traced.events[5], *flow = &traced.events[6];

    assert_int_equal(traced.count, 7);
    assert_int_equal(op->sequence, 1096588);
    assert_true(op->has & TRACE_HAS_FORWARD_THREAD);
    assert_string_equal(traced_text(&traced, op->shapes),
                        "[[3072],[8944,1024],[1024,3072],[],[]]");
    assert_string_equal(traced_text(&traced, op->types),
                        "[\"c10::BFloat16\",\"c10::BFloat16\",\"c10::BFloat16\","
                        "\"Scalar\",\"Scalar\"]");
    assert_int_equal(frame->python_id, 13);
    assert_int_equal(frame->python_parent_id, 12);
    assert_int_equal(memory->bytes, 54951936);
    assert_int_equal(launch->correlation, kernel->correlation);
    assert_int_equal(launch->external_id, op->external_id);
    assert_int_equal(kernel->registers, 230);
    assert_int_equal(kernel->shared_memory_bytes, 98304);
    assert_int_equal(kernel->grid[0], 70);
    assert_int_equal(kernel->time_ns, 5898236612331);
    assert_int_equal(flow->flow, 675771);
    assert_true(flow->has & TRACE_BINDS_ENCLOSING);
    assert_nothing_wrong(&traced);
    traced_free(&traced);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(quirk_1_the_top_level_may_be_a_bare_list),
        cmocka_unit_test(quirk_1_events_stand_before_or_behind_the_other_keys),
        cmocka_unit_test(quirk_2_white_space_and_order_of_keys_do_not_matter),
        cmocka_unit_test(quirk_3_stamps_are_exact_in_every_notation),
        cmocka_unit_test(quirk_4_every_phase_is_given_as_it_is),
        cmocka_unit_test(quirk_5_a_thread_is_the_same_as_number_and_as_text),
        cmocka_unit_test(quirk_6_categories_of_every_era_are_known),
        cmocka_unit_test(quirk_7_events_come_in_the_order_of_the_file),
        cmocka_unit_test(quirk_8_kernels_that_overlap_are_given_unclipped),
        cmocka_unit_test(quirk_9_both_spellings_of_the_external_id_are_one),
        cmocka_unit_test(quirk_10_a_step_and_its_copy_on_the_device_differ_in_category),
        cmocka_unit_test(quirk_11_memory_says_whether_it_has_totals),
        cmocka_unit_test(quirk_12_unfinished_is_said_however_it_is_written),
        cmocka_unit_test(quirk_13_bare_words_cost_the_value_or_the_event_that_needs_it),
        cmocka_unit_test(quirk_13_a_quote_in_a_name_costs_that_event_alone),
        cmocka_unit_test(
            quirk_13_backslashes_of_windows_are_read_as_far_as_they_can_be),
        cmocka_unit_test(quirk_13_bytes_that_are_no_text_become_a_mark),
        cmocka_unit_test(quirk_13_everything_before_a_cut_is_read),
        cmocka_unit_test(
            quirk_13_a_gzip_that_reaches_back_too_far_gives_what_was_before),
        cmocka_unit_test(quirk_14_names_of_collectives_are_as_written),
        cmocka_unit_test(quirk_15_a_long_event_is_read_and_gzip_known_by_its_magic),
        cmocka_unit_test(quirk_16_parts_of_a_us_and_what_is_outside_of_steps_are_kept),
        cmocka_unit_test(an_op_its_launch_and_its_kernel_say_what_links_them),
        cmocka_unit_test(quirk_17_devices_and_streams_are_what_each_event_says),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
