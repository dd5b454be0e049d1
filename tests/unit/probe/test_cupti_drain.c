/* From full buffers to events, with CUPTI played by this file: what is missing is told
 * before what came beside it. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <time.h>

#include <cmocka.h>

#include "probe/cupti/buffers.h"
#include "probe/cupti/drain.h"
#include "probe/probe.h"
#include "segments.h"

#define KERNEL_BYTES 200u
#define EVENTS_MAX   4096

static size_t dropped;
static unsigned asked;
static uint8_t *comes_while_reading; /* a buffer of one kernel, after 7 were dropped */

static uint64_t realtime_ns(void)
{
    struct timespec now;

    clock_gettime(CLOCK_REALTIME, &now);
    return (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
}

static int get_timestamp(uint64_t *stamp)
{
    *stamp = realtime_ns();
    return 0;
}

static int get_dropped(void *context, uint32_t stream, size_t *count)
{
    (void)context, (void)stream;
    asked++;
    *count = dropped;
    dropped = 0;
    return 0;
}

/* Kernels alone, one behind the other. */
static int next(uint8_t *buffer, size_t valid_bytes, void **record)
{
    uint8_t *at = *record == NULL ? buffer : (uint8_t *)*record + KERNEL_BYTES;
    uint8_t *comes = comes_while_reading;

    if (comes != NULL && *record != NULL) {
        comes_while_reading = NULL;
        dropped += 7;
        buffers_complete(NULL, 0, comes, BUFFER_BYTES, KERNEL_BYTES);
    }
    if (valid_bytes < KERNEL_BYTES ||
        (size_t)(at - buffer) > valid_bytes - KERNEL_BYTES)
        return CUPTI_ENDED;
    uint32_t kind;

    memcpy(&kind, at, sizeof(kind));
    if (kind == 0)
        return CUPTI_NO_KIND;
    *record = at;
    return 0;
}

static struct cupti_library library = {
    .get_timestamp = get_timestamp, .get_dropped = get_dropped, .next = next};
static struct drain drain;

static uint8_t *borrow(void)
{
    size_t bytes = 0, records = 0;
    uint8_t *buffer = NULL;

    buffers_request(&buffer, &bytes, &records);
    return buffer;
}

/* The `at`-th of a buffer; `ago_ns` 0: without times. */
static void put_kernel(uint8_t *buffer, size_t at, uint64_t ago_ns)
{
    uint8_t *record = buffer + at * KERNEL_BYTES;
    uint64_t start = ago_ns > 0 ? realtime_ns() - ago_ns : 0;
    uint64_t end = ago_ns > 0 ? start + 1000 : 0;
    uint32_t kind = CUPTI_KERNEL, correlation = (uint32_t)at + 1;

    memcpy(record, &kind, sizeof(kind));
    memcpy(record + 16, &start, sizeof(start));
    memcpy(record + 24, &end, sizeof(end));
    memcpy(record + 92, &correlation, sizeof(correlation));
}

static bool never(unsigned ms)
{
    (void)ms;
    return false;
}

static bool begin(void)
{
    if (probe_start(0) != 0 || buffers_open() != 0)
        return false;
    drain_open(&drain, &library);
    (void)stamps_take(&drain.stamps, get_timestamp);
    drain_ask(&drain);
    return drain.layout.stride[CUPTI_KERNEL] == KERNEL_BYTES;
}

static void flush(void)
{
    (void)stamps_take(&drain.stamps, get_timestamp);
    drain_ask(&drain);
    (void)drain_buffers(&drain, never);
    drain_tell(&drain);
}

/* ---- what the segment then has ----------------------------------------------------- */

static struct event events[EVENTS_MAX];
static int64_t count;

static void read_events(int (*scenario)(void))
{
    struct segment_file file;

    assert_int_equal(segments_run(scenario), 0);
    assert_int_equal(segments_open_only(segments_directory, &file), 0);
    count = segments_events(&file, 0, events, EVENTS_MAX);
    assert_true(count > 0);
    segments_close(&file);
}

/* Where the `nth` event of the kind is, from 0; -1 there is none. */
static int64_t place_of(uint8_t kind, unsigned nth)
{
    for (int64_t i = 0; i < count; i++)
        if (EVENT_KIND(events[i].meta) == kind && nth-- == 0)
            return i;
    return -1;
}

/* ---- scenarios --------------------------------------------------------------------- */

static int drop_while_reading(void)
{
    uint8_t *first, *second;

    if (!begin())
        return 1;
    first = borrow();
    second = borrow();
    put_kernel(first, 0, 300000);
    put_kernel(first, 1, 200000);
    put_kernel(second, 0, 100000);
    buffers_complete(NULL, 0, first, BUFFER_BYTES, 2 * (size_t)KERNEL_BYTES);
    comes_while_reading = second;
    flush();
    flush();
    return 0;
}

static void drops_are_told_before_a_buffer_that_came_back_after_them(void **state)
{
    (void)state;
    read_events(drop_while_reading);
    assert_int_equal(place_of(EVENT_LOSS, 1), -1);
    assert_true(place_of(EVENT_LOSS, 0) >= 0);
    assert_int_equal(events[place_of(EVENT_LOSS, 0)].value, 7);
    assert_true(place_of(EVENT_KERNEL, 2) > place_of(EVENT_LOSS, 0));
}

static int leave_times_out(void)
{
    uint8_t *buffer;

    if (!begin())
        return 1;
    buffer = borrow();
    put_kernel(buffer, 0, 500000);
    put_kernel(buffer, 1, 400000);
    put_kernel(buffer, 2, 0);
    buffers_complete(NULL, 0, buffer, BUFFER_BYTES, 3 * (size_t)KERNEL_BYTES);
    flush();
    return 0;
}

static void
records_that_cannot_be_read_are_told_before_those_that_lie_beside_them(void **state)
{
    (void)state;
    read_events(leave_times_out);
    int64_t loss = place_of(EVENT_LOSS, 0);

    assert_true(loss >= 0);
    assert_int_equal(events[loss].value, 1);
    assert_true(place_of(EVENT_KERNEL, 0) > loss);
    /* Behind the last of its stream, and nobody knows how long. */
    const struct event *last = &events[place_of(EVENT_KERNEL, 1)];

    assert_int_equal(events[loss].time, last->time + last->value);
    assert_true(events[loss + 1].time > last->time + last->value);
    assert_int_equal(place_of(EVENT_LOSS, 1), -1);
    assert_int_equal(place_of(EVENT_KERNEL, 2), -1);
}

#define UNREADABLE_STREAM 2u

/* Of a stream: what has no times lies between what has. */
static int leave_times_out_between(void)
{
    static const uint64_t agos_ns[] = {900000, 800000, 0, 600000, 0, 400000, 300000};
    uint32_t stream = UNREADABLE_STREAM;
    uint8_t *buffer;

    if (!begin())
        return 1;
    buffer = borrow();
    for (size_t i = 0; i < 7; i++) {
        put_kernel(buffer, i, agos_ns[i]);
        if (i != 3) /* that one is of another stream, and no neighbour */
            memcpy(buffer + i * KERNEL_BYTES + 48, &stream, sizeof(stream));
    }
    buffers_complete(NULL, 0, buffer, BUFFER_BYTES, 7 * (size_t)KERNEL_BYTES);
    flush();
    return 0;
}

static void
what_cannot_be_read_is_lost_between_its_neighbours_and_nowhere_else(void **state)
{
    (void)state;
    read_events(leave_times_out_between);
    int64_t loss = place_of(EVENT_LOSS, 0), before = place_of(EVENT_KERNEL, 1),
            after = place_of(EVENT_KERNEL, 3);

    assert_true(loss >= 0 && after >= 0);
    assert_int_equal(place_of(EVENT_LOSS, 1), -1);
    assert_int_equal(events[loss].value, 2);
    assert_int_equal(events[loss].time, events[before].time + events[before].value);
    assert_int_equal(events[loss + 1].time, events[after].time);
}

static int leave_times_of_calls_out(void)
{
    uint32_t kind = CUPTI_OVERHEAD;
    uint8_t *buffer;

    if (!begin())
        return 1;
    buffer = borrow();
    put_kernel(buffer, 0, 500000);
    put_kernel(buffer, 1, 0);
    memcpy(buffer + KERNEL_BYTES, &kind, sizeof(kind));
    put_kernel(buffer, 2, 400000);
    buffers_complete(NULL, 0, buffer, BUFFER_BYTES, 3 * (size_t)KERNEL_BYTES);
    flush();
    return 0;
}

static void what_is_no_work_of_a_device_costs_no_step_its_work(void **state)
{
    (void)state;
    read_events(leave_times_of_calls_out);
    assert_true(place_of(EVENT_KERNEL, 1) >= 0);
    assert_int_equal(place_of(EVENT_LOSS, 0), -1);
}

static int reclaim(void)
{
    uint8_t *buffer;

    if (!begin())
        return 1;
    buffer = borrow();
    put_kernel(buffer, 0, 500000);
    put_kernel(buffer, 1, 400000);
    buffers_registered(); /* another profiler had it, and never gave it back */
    drain.reclaims = true;
    flush();
    return 0;
}

static void
a_buffer_that_is_reclaimed_ends_behind_its_records_and_nothing_is_lost(void **state)
{
    (void)state;
    read_events(reclaim);
    assert_true(place_of(EVENT_KERNEL, 1) >= 0);
    assert_int_equal(place_of(EVENT_LOSS, 0), -1);
}

static int read_three_buffers(void)
{
    if (!begin())
        return 1;
    for (int i = 0; i < 3; i++) {
        uint8_t *buffer = borrow();

        put_kernel(buffer, 0, 500000);
        buffers_complete(NULL, 0, buffer, BUFFER_BYTES, KERNEL_BYTES);
    }
    asked = 0;
    flush();
    return asked == 1 ? 0 : 2;
}

static void cupti_is_asked_once_where_all_buffers_were_back_before(void **state)
{
    (void)state;
    read_events(read_three_buffers);
    assert_true(place_of(EVENT_KERNEL, 2) >= 0);
    assert_int_equal(place_of(EVENT_LOSS, 0), -1);
}

static int overtake(void)
{
    uint8_t *first, *second;

    if (!begin())
        return 1;
    first = borrow();
    second = borrow();
    put_kernel(second, 0, 1);
    put_kernel(first, 0, 1);
    buffers_complete(NULL, 0, second, BUFFER_BYTES, KERNEL_BYTES);
    flush();
    flush();
    buffers_complete(NULL, 0, first, BUFFER_BYTES, KERNEL_BYTES);
    flush();
    return 0;
}

static void work_is_known_up_to_the_first_buffer_that_is_not_back(void **state)
{
    (void)state;
    read_events(overtake);
    int64_t overtaken = place_of(EVENT_KNOWN, 0), all = place_of(EVENT_KNOWN, 1);

    assert_true(overtaken > place_of(EVENT_KERNEL, 0));
    assert_true(all > place_of(EVENT_KERNEL, 1));
    assert_true(overtaken < place_of(EVENT_KERNEL, 1));
    assert_true(events[overtaken].time < events[place_of(EVENT_KERNEL, 0)].time);
    assert_true(events[all].time > events[place_of(EVENT_KERNEL, 1)].time);
    assert_int_equal(place_of(EVENT_KNOWN, 2), -1);
    assert_int_equal(place_of(EVENT_LOSS, 0), -1);
}

static int swallow(void)
{
    uint8_t *swallowed, *next;

    if (!begin())
        return 1;
    swallowed = borrow();
    put_kernel(swallowed, 0, 1);
    flush();
    buffers_registered();
    next = borrow();
    put_kernel(next, 0, 1);
    buffers_complete(NULL, 0, next, BUFFER_BYTES, KERNEL_BYTES);
    flush();
    flush();
    return 0;
}

static void what_another_profiler_swallowed_is_told_lost_and_not_waited_for(void **state)
{
    (void)state;
    read_events(swallow);
    int64_t loss = place_of(EVENT_LOSS, 0), kernel = place_of(EVENT_KERNEL, 0),
            known = place_of(EVENT_KNOWN, 1);

    assert_true(loss >= 0 && known > loss && known > kernel);
    assert_int_equal(events[place_of(EVENT_KNOWN, 0)].time, events[loss].time);
    assert_true(events[loss].time < events[loss + 1].time);
    assert_true(events[loss + 1].time < events[kernel].time);
    assert_true(events[known].time > events[kernel].time);
    assert_int_equal(place_of(EVENT_LOSS, 1), -1);
}

static int fill_all(void)
{
    uint8_t *lent[BUFFERS_COUNT], *scrap;

    if (!begin())
        return 1;
    for (unsigned i = 0; i < BUFFERS_COUNT; i++)
        lent[i] = borrow();
    flush();
    scrap = borrow();
    put_kernel(scrap, 0, 1);
    flush();
    flush();
    buffers_complete(NULL, 0, scrap, BUFFER_BYTES, KERNEL_BYTES);
    for (unsigned i = 0; i < BUFFERS_COUNT; i++)
        buffers_complete(NULL, 0, lent[i], BUFFER_BYTES, 0);
    flush();
    flush();
    return 0;
}

static void what_falls_into_the_scrap_is_told_lost_before_more_is_known(void **state)
{
    (void)state;
    read_events(fill_all);
    int64_t first = place_of(EVENT_LOSS, 0), last = first, at;
    uint64_t until = events[first].time, lost = 0;
    unsigned losses = 0;

    for (; (at = place_of(EVENT_LOSS, losses)) >= 0; losses++) {
        assert_true(events[at].time <= until); /* no time between them */
        until = events[at + 1].time;
        lost += events[at].value;
        last = at;
    }
    assert_int_equal(losses, 4); /* while it was out, and once with their number */
    assert_int_equal(lost, 1);
    /* Up to the first request while none was back; up to the end when all are. */
    assert_true(place_of(EVENT_KNOWN, 0) < first);
    assert_true(place_of(EVENT_KNOWN, 1) > last);
    assert_true(events[place_of(EVENT_KNOWN, 0)].time < events[first].time);
    assert_true(events[place_of(EVENT_KNOWN, 1)].time >= until);
}

static int pass_over(void)
{
    struct buffer_passed passed;
    uint64_t now;

    if (!begin())
        return 1;
    (void)borrow();
    (void)borrow();
    now = probe_ticks();
    if (buffers_known(now) >= now)
        return 2;
    if (buffers_pass(0, &passed) || !buffers_pass(now, &passed))
        return 3;
    /* The newest may still be filled: it alone is waited for. */
    if (buffers_known(now) != passed.followed_ticks || buffers_pass(now, &passed))
        return 4;
    return 0;
}

static void what_is_full_and_held_too_long_is_passed_over_once(void **state)
{
    (void)state;
    assert_int_equal(segments_run(pass_over), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup(drops_are_told_before_a_buffer_that_came_back_after_them,
                               segments_clear),
        cmocka_unit_test_setup(
            records_that_cannot_be_read_are_told_before_those_that_lie_beside_them,
            segments_clear),
        cmocka_unit_test_setup(
            what_cannot_be_read_is_lost_between_its_neighbours_and_nowhere_else,
            segments_clear),
        cmocka_unit_test_setup(what_is_no_work_of_a_device_costs_no_step_its_work,
                               segments_clear),
        cmocka_unit_test_setup(
            a_buffer_that_is_reclaimed_ends_behind_its_records_and_nothing_is_lost,
            segments_clear),
        cmocka_unit_test_setup(cupti_is_asked_once_where_all_buffers_were_back_before,
                               segments_clear),
        cmocka_unit_test_setup(work_is_known_up_to_the_first_buffer_that_is_not_back,
                               segments_clear),
        cmocka_unit_test_setup(
            what_another_profiler_swallowed_is_told_lost_and_not_waited_for,
            segments_clear),
        cmocka_unit_test_setup(
            what_falls_into_the_scrap_is_told_lost_before_more_is_known, segments_clear),
        cmocka_unit_test_setup(what_is_full_and_held_too_long_is_passed_over_once,
                               segments_clear),
    };

    return cmocka_run_group_tests(tests, segments_set_up, segments_tear_down);
}
