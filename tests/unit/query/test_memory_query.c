/* What a job holds on its device, of samples folded by hand: peaks, growth, and who
 * keeps it. */
#include <math.h>
#include <stdio.h>

#include "query/memory_query.h"
#include "unit/tables.h"
#include "wire/facts.h"

/* A sample at `time_ns` with its peak in between and two allocations of 10 bytes. */
static void memory_sample(int64_t time_ns, int64_t bytes, int64_t peak)
{
    uint32_t name = text("aten::conv2d");
    struct event events[3] = {
        {.time = (uint64_t)time_ns,
         .value = (uint64_t)bytes,
         .meta = EVENT_META(name, EVENT_MEMORY, 0, EVENT_DEVICE(1, 0)),
         .aux = (uint64_t)bytes + 1000},
        {.time = (uint64_t)time_ns - 5,
         .value = (uint64_t)peak,
         .meta = EVENT_META(0, EVENT_MORE, 0, 1),
         .aux = 2 | (uint64_t)1 << 32},
        {.time = 20, .meta = EVENT_META(0, EVENT_MORE, 0, 2)},
    };

    /* In pieces, as a batch may be cut anywhere. */
    process_fold(process, 0, events, 1);
    process_fold(process, 0, events + 1, 2);
    process_fold_whole(process, 0);
}

static void memory_has_peaks_with_their_op_and_a_leak_has_a_slope(void **state)
{
    (void)state;
    struct selection whose = {.rank = SELECT_ANY, .window = run};
    struct memory_answer answer;
    int64_t mib = 1024 * 1024;

    for (int64_t n = 0; n < 1000; n++) {
        step((uint64_t)n, 0, n * 100 * MS, (n + 1) * 100 * MS);
        memory_sample((n + 1) * 100 * MS, 1000 * mib + n * mib + (n % 5) * 20 * mib,
                      n == 700 ? 9000 * mib : 2200 * mib);
    }
    assert_int_equal(memory_query(store, &whose, &(struct memory_request){0}, &answer),
                     0);
    assert_int_equal(answer.device_count, 1);
    const struct memory_device *device = &answer.devices[0];

    assert_string_equal(device->device, "cuda:0");
    assert_true(device->peak_bytes == 9000.0 * (double)mib);
    assert_int_equal(device->peak_time_ns, 701 * 100 * MS - 5);
    assert_int_equal(device->peak_step, 700);
    assert_string_equal(device->peak_op, "aten::conv2d");
    assert_true(device->growth.sure);
    assert_true(fabs(device->growth.slope_bytes_per_s - 10.0 * (double)mib) <
                0.5 * (double)mib);
    assert_true(fabs(device->allocations_per_step - 2) < 1e-9);
    assert_true(fabs(device->bytes_per_step - 20) < 1e-9);
    assert_int_equal(device->point_count, 600);
    answer_free(&answer.head);
}

/* A sample of what an allocator asked of the driver meanwhile. */
static void driver_sample(int64_t time_ns, uint64_t got, uint64_t retries,
                          uint64_t segments)
{
    struct event events[4] = {
        {.time = (uint64_t)time_ns,
         .value = 1 << 20,
         .meta = EVENT_META(0, EVENT_MEMORY, 0, EVENT_DEVICE(1, 0)),
         .aux = 4 << 20},
        {.time = (uint64_t)time_ns,
         .value = 1 << 20,
         .meta = EVENT_META(0, EVENT_MORE, 0, 1)},
        {.value = got | (uint64_t)2 << 32,
         .meta = EVENT_META(0, EVENT_MORE, EVENT_MEMORY_SEGMENTS, 2),
         .aux = retries | (uint64_t)1 << 32},
        {.time = (uint64_t)time_ns - 3 * MS,
         .value = 3 * MS,
         .meta = EVENT_META(0, EVENT_MORE, 0, 3),
         .aux = segments},
    };

    process_fold(process, 0, events, 4);
    process_fold_whole(process, 0);
}

/* One of an allocation that failed; what it asked the driver for before nobody saw. */
static void failed_sample(int64_t time_ns, uint64_t allocations)
{
    struct event events[3] = {
        {.time = (uint64_t)time_ns,
         .value = 1 << 20,
         .meta = EVENT_META(0, EVENT_MEMORY, 0, EVENT_DEVICE(1, 0))},
        {.time = (uint64_t)time_ns,
         .value = 1 << 20,
         .meta = EVENT_META(0, EVENT_MORE, 0, 1),
         .aux = allocations},
        {.meta = EVENT_META(0, EVENT_MORE, EVENT_MEMORY_OOMS | EVENT_MEMORY_FAILED, 2),
         .aux = (uint64_t)1 << 32},
    };

    process_fold(process, 0, events, 3);
    process_fold_whole(process, 0);
}

static void a_sample_of_a_failure_is_no_step_and_tells_of_no_retries(void **state)
{
    (void)state;
    struct selection whose = {.rank = SELECT_ANY, .window = run};
    struct memory_answer answer;

    for (int64_t n = 0; n < 10; n++) {
        step((uint64_t)n, 0, n * 100 * MS, (n + 1) * 100 * MS);
        memory_sample((n + 1) * 100 * MS, 1 << 20, 1 << 20);
    }
    assert_int_equal(memory_query(store, &whose, &(struct memory_request){0}, &answer),
                     0);
    double usual = answer.devices[0].allocations_per_step;

    assert_true(isnan(answer.devices[0].ooms));
    answer_free(&answer.head);
    for (int64_t n = 0; n < 5; n++)
        failed_sample(1000 * MS + n + 1, 9);
    assert_int_equal(memory_query(store, &whose, &(struct memory_request){0}, &answer),
                     0);
    assert_true(answer.devices[0].ooms == 5);
    assert_true(isnan(answer.devices[0].retries));
    assert_true(isnan(answer.devices[0].driver_ns));
    /* Five times nine, by nine steps: before the first sample was another window. */
    assert_true(fabs(answer.devices[0].allocations_per_step - usual - 5) < 1e-9);
    answer_free(&answer.head);
}

static void what_an_allocator_asks_of_the_driver_is_summed_over_the_window(void **state)
{
    (void)state;
    struct selection whose = {.rank = SELECT_ANY, .window = run};
    struct memory_answer answer;

    for (int64_t n = 0; n < 10; n++) {
        step((uint64_t)n, 0, n * 100 * MS, (n + 1) * 100 * MS);
        driver_sample((n + 1) * 100 * MS, 3, n == 4 ? 7 : 0, n == 9 ? 0 : 12);
    }
    assert_int_equal(memory_query(store, &whose, &(struct memory_request){0}, &answer),
                     0);
    const struct memory_device *device = &answer.devices[0];

    assert_true(device->segments_got == 30 && device->segments_given_back == 20);
    assert_true(device->retries == 7 && device->ooms == 10);
    assert_true(device->driver_ns == 3 * MS && device->driver_lasting_ns == 3 * MS);
    assert_true(isnan(device->segments)); /* the newest does not know them all */
    answer_free(&answer.head);
    for (int64_t n = 0; n < 10; n++) /* as long, and of another allocator */
        memory_sample((1000 + n) * MS, 1 << 20, 1 << 20);
    assert_int_equal(memory_query(store, &whose, &(struct memory_request){0}, &answer),
                     0);
    assert_true(isnan(answer.devices[0].driver_lasting_ns));
    answer_free(&answer.head);
    driver_sample(1100 * MS, 0, 0, 1);
    memory_sample(1200 * MS, 1 << 20, 1 << 20);
    whose.window = (struct window){.kind = WINDOW_TIME, .a = 1050 * MS, .b = 1150 * MS};
    assert_int_equal(memory_query(store, &whose, &(struct memory_request){0}, &answer),
                     0);
    assert_true(answer.devices[0].segments == 0);
    assert_true(answer.devices[0].segments_got == 0);
    answer_free(&answer.head);
    whose.window = (struct window){.kind = WINDOW_TIME, .a = 1150 * MS, .b = 1250 * MS};
    assert_int_equal(memory_query(store, &whose, &(struct memory_request){0}, &answer),
                     0);
    assert_true(isnan(answer.devices[0].segments_got)); /* another's sample */
    assert_true(isnan(answer.devices[0].retries));
    answer_free(&answer.head);
}

/* The allocator is asked of one device: of another one nothing is known. */
static void
what_an_allocator_has_split_is_of_the_device_that_it_was_asked_about(void **state)
{
    (void)state;
    struct selection whose = {.rank = SELECT_ANY, .window = run};
    struct memory_answer answer;

    memory_sample(MS, 1 << 20, 1 << 20);
    say_fact(FACT_ALLOCATOR_INACTIVE_SPLIT, 4096);
    say_fact(FACT_ALLOCATOR_DEVICE, 1);
    assert_int_equal(memory_query(store, &whose, &(struct memory_request){0}, &answer),
                     0);
    assert_string_equal(answer.devices[0].device, "cuda:0");
    assert_true(isnan(answer.devices[0].inactive_split_bytes));
    answer_free(&answer.head);
    process->facts[process->fact_count - 1].number = 0;
    assert_int_equal(memory_query(store, &whose, &(struct memory_request){0}, &answer),
                     0);
    assert_true(answer.devices[0].inactive_split_bytes == 4096);
    answer_free(&answer.head);
}

static void the_ops_with_the_largest_blocks_are_remembered(void **state)
{
    (void)state;
    struct selection whose = {.rank = SELECT_ANY, .window = run};
    struct memory_answer answer;
    char name[16], best[16];

    /* In any order, each op twice, the second block smaller. */
    for (uint32_t n = 0; n < 100; n++) {
        uint32_t op = n * 37 % 50;

        (void)snprintf(name, sizeof(name), "op %u", op);
        struct event event = {
            .time = n,
            .value = (op + 1) * 1000 - (n >= 50 ? 500 : 0),
            .meta = EVENT_META(text(name), EVENT_ALLOC, 0, EVENT_DEVICE(1, 0))};

        process_fold(process, 0, &event, 1);
        event.value = (uint64_t)-1000000; /* a free is no block */
        process_fold(process, 0, &event, 1);
    }
    memory_sample(100 * MS, 1 << 20, 1 << 20);
    assert_int_equal(memory_query(store, &whose, &(struct memory_request){0}, &answer),
                     0);
    assert_int_equal(answer.devices[0].largest_count, MEMORY_OPS);
    for (uint32_t i = 0; i < MEMORY_OPS; i++) {
        (void)snprintf(best, sizeof(best), "op %u", 49 - i);
        assert_string_equal(answer.devices[0].largest[i].op, best);
        assert_true(answer.devices[0].largest[i].bytes == (50 - i) * 1000);
    }
    answer_free(&answer.head);
}

static void an_alloc(const char *op, int64_t bytes)
{
    struct event event = {.value = (uint64_t)bytes,
                          .meta = EVENT_META(op == NULL ? 0 : text(op), EVENT_ALLOC, 0,
                                             EVENT_DEVICE(1, 0))};

    process_fold(process, 0, &event, 1);
}

/* A gradient that the next step gives back, and `kept` that stays. */
static void a_step_that_keeps(int64_t n, const char *kept)
{
    step((uint64_t)n, 0, n * 100 * MS, (n + 1) * 100 * MS);
    an_alloc(kept, 1 << 20);
    an_alloc(NULL, -(4 << 20));
    an_alloc("aten::mm", 4 << 20);
    an_alloc("aten::mul", 2 << 20);
    an_alloc(NULL, -(2 << 20));
    memory_sample((n + 1) * 100 * MS, (n + 1) << 20, (n + 1) << 20);
}

static struct memory_answer ask_memory(void)
{
    struct selection whose = {.rank = SELECT_ANY, .window = run};
    struct memory_answer answer;

    assert_int_equal(memory_query(store, &whose, &(struct memory_request){0}, &answer),
                     0);
    return answer;
}

static void the_op_whose_blocks_stay_is_told_and_what_is_passing_is_not(void **state)
{
    (void)state;
    for (int64_t n = 0; n < 10; n++)
        a_step_that_keeps(n, "aten::relu");
    memory_sample(1100 * MS, 11 << 20, 11 << 20); /* of a step that was not recorded */
    struct memory_answer answer = ask_memory();

    assert_int_equal(answer.devices[0].kept_op_count, 1);
    assert_string_equal(answer.devices[0].kept_ops[0], "aten::relu");
    assert_true(answer.devices[0].kept_bytes_per_step == 1 << 20);
    assert_true(answer.devices[0].kept_block_bytes == 1 << 20);
    assert_int_equal(answer.devices[0].kept_steps, 10);
    answer_free(&answer.head);
}

/* A free may be of any of them, in whatever order they come. */
static void all_ops_that_take_blocks_of_the_size_that_stays_are_told(void **state)
{
    (void)state;
    for (int64_t n = 0; n < 10; n++) {
        an_alloc("aten::empty", 4 << 20);
        a_step_that_keeps(n, "aten::relu");
    }
    struct memory_answer answer = ask_memory();

    assert_true(answer.devices[0].kept_block_bytes == 4 << 20);
    assert_true(answer.devices[0].kept_bytes_per_step == 4 << 20);
    assert_int_equal(answer.devices[0].kept_op_count, 2);
    assert_string_equal(answer.devices[0].kept_ops[0], "aten::empty");
    assert_string_equal(answer.devices[0].kept_ops[1], "aten::mm");
    answer_free(&answer.head);
}

static void of_a_size_that_many_ops_take_nobody_is_told_to_keep_it(void **state)
{
    (void)state;
    for (int64_t n = 0; n < 10; n++) {
        an_alloc("aten::add", 1 << 20);
        an_alloc("aten::sub", 1 << 20);
        an_alloc(n < 5 ? "aten::div" : "aten::exp", 1 << 20); /* no step has four */
        memory_sample((n + 1) * 100 * MS, 3 * (n + 1) << 20, 3 * (n + 1) << 20);
    }
    step(0, 0, 0, 1100 * MS);
    struct memory_answer answer = ask_memory();

    assert_int_equal(answer.devices[0].kept_op_count, 0);
    assert_int_equal(answer.devices[0].kept_steps, 10);
    answer_free(&answer.head);
}

/* As a queue that is filled in one step and emptied in the next. */
static void what_every_other_step_keeps_and_the_next_gives_back_is_no_ones(void **state)
{
    (void)state;
    for (int64_t n = 0; n < 10; n++) {
        step((uint64_t)n, 0, n * 100 * MS, (n + 1) * 100 * MS);
        an_alloc(n % 2 ? NULL : "aten::pin", n % 2 ? -(8 << 20) : 8 << 20);
        an_alloc("aten::mm", 4 << 20);
        an_alloc(NULL, -(4 << 20));
        memory_sample((n + 1) * 100 * MS, 8 << 20, 8 << 20);
    }
    struct memory_answer answer = ask_memory();

    assert_int_equal(answer.devices[0].kept_op_count, 0);
    assert_int_equal(answer.devices[0].kept_steps, 10);
    answer_free(&answer.head);
}

static void of_a_step_with_too_many_sizes_nothing_is_told_of_who_keeps(void **state)
{
    (void)state;
    for (int64_t size = 1; size <= 1000; size++)
        an_alloc("aten::mm", size << 10);
    a_step_that_keeps(0, "aten::relu");
    struct memory_answer answer = ask_memory();

    assert_int_equal(answer.devices[0].kept_steps, 0);
    answer_free(&answer.head);
    a_step_that_keeps(1, "aten::relu"); /* begins anew */
    answer = ask_memory();
    assert_int_equal(answer.devices[0].kept_steps, 1);
    assert_string_equal(answer.devices[0].kept_ops[0], "aten::relu");
    answer_free(&answer.head);
}

static void memory_whose_stamps_run_back_is_told_at_the_newest_instant(void **state)
{
    (void)state;
    struct selection whose = {.rank = SELECT_ANY,
                              .window = {.kind = WINDOW_TIME, .b = 1000 * MS}};
    struct memory_answer answer;

    step(0, 0, 0, 1000 * MS);
    memory_sample(900 * MS, 4 << 20, 4 << 20);
    for (int64_t n = 0; n <= 30; n++)
        memory_sample(900 * MS - n, (4 + n) << 20, 64 << 20);
    assert_int_equal(
        memory_query(store, &whose, &(struct memory_request){.points = 10}, &answer),
        0);
    assert_int_equal(answer.device_count, 1);
    assert_true(answer.devices[0].allocated_bytes == (double)(34 << 20));
    assert_true(answer.devices[0].point_count > 0);
    for (uint32_t i = 0; i < answer.devices[0].point_count; i++)
        assert_int_equal(answer.devices[0].points[i].time_ns, 900 * MS);
    answer_free(&answer.head);
}

static void totals_below_zero_are_points_as_others_are(void **state)
{
    (void)state;
    struct selection whose = {.rank = SELECT_ANY, .window = run};
    struct memory_answer answer;

    for (int64_t n = 1; n <= 20; n++) {
        step((uint64_t)n, 0, (n - 1) * 100 * MS, n * 100 * MS);
        memory_sample(n * 100 * MS, -n * (1 << 20), 0);
    }
    assert_int_equal(
        memory_query(store, &whose, &(struct memory_request){.points = 10}, &answer),
        0);
    const struct memory_device *device = &answer.devices[0];

    assert_int_equal(device->point_count, 10);
    for (uint32_t i = 0; i < 9; i++) {
        assert_int_equal(device->points[i].time_ns, (2 * i + 1) * 100 * MS);
        assert_true(device->points[i].allocated == -(double)((2 * i + 1) << 20));
    }
    assert_int_equal(device->points[9].time_ns, 2000 * MS);
    answer_free(&answer.head);
}

static void what_is_held_at_the_end_depends_on_no_number_of_points(void **state)
{
    (void)state;
    struct selection whose = {.rank = SELECT_ANY, .window = run};

    step(0, 0, 0, 1000 * MS);
    for (int64_t n = 1; n <= 100; n++)
        memory_sample(n * 10 * MS, (200 - n) << 20, 256 << 20);
    for (uint32_t points = 1; points <= 128; points++) {
        struct memory_answer answer;
        const struct memory_device *device;

        assert_int_equal(memory_query(store, &whose,
                                      &(struct memory_request){.points = points},
                                      &answer),
                         0);
        device = &answer.devices[0];
        assert_int_equal(device->point_count, points < 100 ? points : 100);
        assert_true(device->points[device->point_count - 1].allocated == 100 << 20);
        if (points > 1) /* and the highest is among them */
            assert_true(device->points[0].allocated == 199 << 20);
        answer_free(&answer.head);
    }
}

static void steady_memory_has_no_sure_slope(void **state)
{
    (void)state;
    struct selection whose = {.rank = SELECT_ANY, .window = run};
    struct memory_answer answer;
    int64_t mib = 1024 * 1024;

    for (int64_t n = 0; n < 1000; n++) {
        step((uint64_t)n, 0, n * 100 * MS, (n + 1) * 100 * MS);
        memory_sample((n + 1) * 100 * MS, 1000 * mib + (n * 7919 % 101) * mib,
                      2200 * mib);
    }
    assert_int_equal(memory_query(store, &whose, &(struct memory_request){0}, &answer),
                     0);
    assert_false(answer.devices[0].growth.sure);
    assert_true(isnan(answer.devices[0].growth.full_in_s));
    answer_free(&answer.head);
}

static void the_peaks_of_single_steps_are_told_from_the_usual_one(void **state)
{
    (void)state;
    const int64_t mib = 1 << 20;
    struct memory_answer answer;
    struct selection whose = {.rank = SELECT_ANY, .window = {.kind = WINDOW_RUN}};

    for (int64_t n = 0; n < 50; n++)
        memory_sample((n + 1) * 100 * MS, 1000 * mib + n % 3 * mib,
                      (n % 20 == 7 ? 3000 : 2000 + n % 2) * mib);
    assert_int_equal(memory_query(store, &whose, &(struct memory_request){0}, &answer),
                     0);
    assert_true(answer.devices[0].usual_peak_bytes == 2000.0 * (double)mib);
    assert_true(answer.devices[0].least_peak_bytes == 2000.0 * (double)mib);
    assert_true(answer.devices[0].floor_bytes == 1000.0 * (double)mib);
    assert_int_equal(answer.devices[0].peaks, 50);
    assert_int_equal(answer.devices[0].high_peaks, 3);
    assert_int_equal(answer.devices[0].other_peaks, 3); /* 2,001 MiB are alike */
    answer_free(&answer.head);
    whose.window = (struct window){.kind = WINDOW_LAST_NS, .a = 1000 * MS};
    assert_int_equal(memory_query(store, &whose, &(struct memory_request){0}, &answer),
                     0);
    /* Ten steps have no usual peak. */
    assert_true(isnan(answer.devices[0].usual_peak_bytes));
    assert_true(isnan(answer.devices[0].floor_bytes));
    assert_int_equal(answer.devices[0].high_peaks, 0);
    answer_free(&answer.head);
}

/* The device's memory, as the job's facts have it. */
static void say_device_memory(double bytes)
{
    process->facts[process->fact_count++] =
        (struct process_fact){.key = texts_intern(process->texts, FACT_DEVICE_MEMORY,
                                                  strlen(FACT_DEVICE_MEMORY)),
                              .type = WIRE_FACT_NUMBER,
                              .number = bytes};
}

static void the_time_until_a_device_is_full_has_an_interval(void **state)
{
    (void)state;
    struct selection whose = {.rank = SELECT_ANY, .window = run};
    const int64_t mib = 1 << 20, last = 1000 * mib + 999 * mib + 50 * mib;
    const struct memory_growth *growth;
    struct memory_answer answer;

    say_device_memory(20000.0 * (double)mib);
    for (int64_t n = 0; n < 1000; n++) {
        int64_t held = n == 999 ? last : 1000 * mib + n * mib + n * 7919 % 101 * mib;

        step((uint64_t)n, 0, n * 100 * MS, (n + 1) * 100 * MS);
        memory_sample((n + 1) * 100 * MS, held, held + 500 * mib);
    }
    assert_int_equal(memory_query(store, &whose, &(struct memory_request){0}, &answer),
                     0);
    growth = &answer.devices[0].growth;
    assert_true(growth->sure);
    assert_true(growth->error_bytes_per_s > 0);
    assert_true(growth->error_bytes_per_s < 0.2 * growth->slope_bytes_per_s);
    /* A step needs its peak: that is what meets the end. */
    double left = (double)(20000 * mib - last - 500 * mib);

    assert_true(growth->full_in_s == left / growth->slope_bytes_per_s);
    assert_true(growth->earliest_s < left / (10.0 * (double)mib));
    assert_true(growth->latest_s > left / (10.0 * (double)mib));
    assert_true(growth->earliest_s < growth->full_in_s &&
                growth->full_in_s < growth->latest_s);
    answer_free(&answer.head);
}

static void stamps_that_run_back_end_no_query(void **state)
{
    (void)state;
    struct memory_answer answer;

    for (int64_t n = 0; n < 100; n++)
        memory_sample((n % 2 == 0 ? 100 : 1) * MS + n, 1000, 2000);
    for (int64_t from = 0; from < 110; from += 3) {
        struct selection whose = {
            .rank = SELECT_ANY,
            .window = {.kind = WINDOW_TIME, .a = from * MS, .b = (from + 5) * MS}};

        assert_int_equal(
            memory_query(store, &whose, &(struct memory_request){0}, &answer), 0);
        assert_true(answer.devices[0].point_count <= 100);
        answer_free(&answer.head);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(memory_has_peaks_with_their_op_and_a_leak_has_a_slope),
        TEST(what_an_allocator_asks_of_the_driver_is_summed_over_the_window),
        TEST(what_an_allocator_has_split_is_of_the_device_that_it_was_asked_about),
        TEST(a_sample_of_a_failure_is_no_step_and_tells_of_no_retries),
        TEST(the_ops_with_the_largest_blocks_are_remembered),
        TEST(the_op_whose_blocks_stay_is_told_and_what_is_passing_is_not),
        TEST(all_ops_that_take_blocks_of_the_size_that_stays_are_told),
        TEST(of_a_size_that_many_ops_take_nobody_is_told_to_keep_it),
        TEST(what_every_other_step_keeps_and_the_next_gives_back_is_no_ones),
        TEST(of_a_step_with_too_many_sizes_nothing_is_told_of_who_keeps),
        TEST(memory_whose_stamps_run_back_is_told_at_the_newest_instant),
        TEST(totals_below_zero_are_points_as_others_are),
        TEST(what_is_held_at_the_end_depends_on_no_number_of_points),
        TEST(steady_memory_has_no_sure_slope),
        TEST(the_peaks_of_single_steps_are_told_from_the_usual_one),
        TEST(the_time_until_a_device_is_full_has_an_interval),
        TEST(stamps_that_run_back_end_no_query),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
