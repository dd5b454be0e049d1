#include <errno.h>
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>

#include <cmocka.h>

#include "wire/ring.h"

#define CAPACITY 8u

static _Alignas(128) unsigned char memory[128 * 1024];

static void open_both(struct ring *ring, struct ring_reader *reader, uint64_t capacity)
{
    memset(memory, 0, sizeof(memory));
    assert_int_equal(ring_open(ring, memory, sizeof(memory), capacity), 0);
    assert_int_equal(ring_attach(reader, memory, sizeof(memory), capacity, 1), 0);
}

static struct event numbered(uint64_t i)
{
    return (struct event){.time = i, .value = ~i, .meta = i << 8, .aux = i ^ 0x5555};
}

static void assert_whole(const struct event *event)
{
    assert_int_equal(event->value, ~event->time);
    assert_int_equal(event->meta, event->time << 8);
    assert_int_equal(event->aux, event->time ^ 0x5555);
}

static void events_come_out_in_the_order_they_went_in(void **state)
{
    (void)state;
    struct ring ring;
    struct ring_reader reader;
    struct event event;

    open_both(&ring, &reader, CAPACITY);
    for (uint64_t i = 0; i < 5 * CAPACITY; i++) {
        ring_push(&ring, numbered(i));
        assert_int_equal(ring_pending(&reader), 1);
        assert_int_equal(ring_read(&reader, &event, 1), 1);
        assert_int_equal(event.time, i);
        assert_whole(&event);
    }
    assert_int_equal(ring_read(&reader, &event, 1), 0);
    assert_int_equal(reader.lost, 0);
}

static void a_full_ring_overwrites_the_oldest_and_the_reader_counts_them(void **state)
{
    (void)state;
    struct ring ring;
    struct ring_reader reader;
    struct event events[2 * CAPACITY];

    open_both(&ring, &reader, CAPACITY);
    for (uint64_t i = 0; i < 3 * CAPACITY + 3; i++)
        ring_push(&ring, numbered(i));
    assert_int_equal(ring_read(&reader, events, 2 * CAPACITY), CAPACITY);
    assert_int_equal(reader.lost, 2 * CAPACITY + 3);
    for (uint64_t i = 0; i < CAPACITY; i++)
        assert_int_equal(events[i].time, 2 * CAPACITY + 3 + i);
}

static void what_a_stopped_producer_was_writing_is_thrown_away(void **state)
{
    (void)state;
    struct ring ring;
    struct ring_reader reader;
    struct event events[CAPACITY];

    open_both(&ring, &reader, CAPACITY);
    for (uint64_t i = 0; i < CAPACITY; i++)
        ring_push(&ring, numbered(i));
    /* Killed between reserve and head: two records are half overwritten. */
    atomic_store(&ring.shared->reserve, CAPACITY + 2);
    atomic_store(&ring.shared->words[0], 999);
    assert_int_equal(ring_read(&reader, events, CAPACITY), CAPACITY - 2);
    assert_int_equal(reader.lost, 2);
    assert_int_equal(events[0].time, 2);
}

static void a_head_and_its_more_records_are_published_as_one(void **state)
{
    (void)state;
    struct ring ring;
    struct ring_reader reader;
    struct event group[3] = {numbered(1), numbered(2), numbered(3)}, read[4];

    open_both(&ring, &reader, CAPACITY);
    ring_push_many(&ring, group, 3);
    assert_int_equal(ring_read(&reader, read, 4), 3);
    for (uint64_t i = 0; i < 3; i++)
        assert_int_equal(read[i].time, i + 1);
}

static void a_later_owner_goes_on_where_the_first_one_stopped(void **state)
{
    (void)state;
    struct ring first, second;
    struct ring_reader reader;
    struct event events[CAPACITY];

    open_both(&first, &reader, CAPACITY);
    ring_push(&first, numbered(0));
    assert_int_equal(ring_open(&second, memory, sizeof(memory), CAPACITY), 0);
    ring_push(&second, numbered(1));
    assert_int_equal(ring_read(&reader, events, CAPACITY), 2);
    assert_int_equal(events[1].time, 1);
}

static void several_readers_read_the_same_events(void **state)
{
    (void)state;
    struct ring ring;
    struct ring_reader one, two, late;
    struct event events[CAPACITY];

    open_both(&ring, &one, CAPACITY);
    assert_int_equal(ring_attach(&two, memory, sizeof(memory), CAPACITY, 1), 0);
    ring_push(&ring, numbered(0));
    assert_int_equal(ring_attach(&late, memory, sizeof(memory), CAPACITY, 0), 0);
    ring_push(&ring, numbered(1));
    assert_int_equal(ring_read(&one, events, CAPACITY), 2);
    assert_int_equal(ring_read(&two, events, CAPACITY), 2);
    assert_int_equal(ring_read(&late, events, CAPACITY), 1);
    assert_int_equal(events[0].time, 1);
}

static void an_impossible_head_is_refused_every_time(void **state)
{
    (void)state;
    struct ring ring;
    struct ring_reader reader;
    struct event event;

    open_both(&ring, &reader, CAPACITY);
    ring_push(&ring, numbered(0));
    assert_int_equal(ring_read(&reader, &event, 1), 1);
    atomic_store(&ring.shared->head, 0); /* backwards */
    assert_int_equal(ring_read(&reader, &event, 1), -EPROTO);
    assert_int_equal(ring_read(&reader, &event, 1), -EPROTO);
}

static void a_capacity_that_cannot_be_is_refused(void **state)
{
    (void)state;
    struct ring ring;
    struct ring_reader reader;

    assert_int_equal(ring_open(&ring, memory, sizeof(memory), 0), -EINVAL);
    assert_int_equal(ring_open(&ring, memory, sizeof(memory), 2), -EINVAL);
    assert_int_equal(ring_open(&ring, memory, sizeof(memory), 12), -EINVAL);
    assert_int_equal(ring_open(&ring, memory, ring_size(8) - 1, 8), -EINVAL);
    assert_int_equal(ring_attach(&reader, memory, sizeof(memory), UINT64_C(1) << 63, 1),
                     -EINVAL);
    assert_int_equal(ring_attach(&reader, memory + 8, 4096, 8, 1), -EINVAL);
}

#define RACE_EVENTS 400000u

static void *push_all(void *arg)
{
    for (uint64_t i = 0; i < RACE_EVENTS; i++)
        ring_push(arg, numbered(i));
    return NULL;
}

/* A ring far too small for its reader: most events are overwritten, many of them in the
 * very moment in which they are copied. */
static void a_reader_that_is_overrun_never_sees_a_torn_event(void **state)
{
    (void)state;
    struct ring ring;
    struct ring_reader reader;
    struct event events[64];
    uint64_t seen = 0, next = 0;
    pthread_t thread;

    open_both(&ring, &reader, 64);
    assert_int_equal(pthread_create(&thread, NULL, push_all, &ring), 0);
    while (seen + reader.lost < RACE_EVENTS) {
        int64_t count = ring_read(&reader, events, 64);

        assert_true(count >= 0);
        for (int64_t i = 0; i < count; i++) {
            assert_whole(&events[i]);
            assert_true(events[i].time >= next);
            next = events[i].time + 1;
        }
        seen += (uint64_t)count;
    }
    assert_int_equal(pthread_join(thread, NULL), 0);
    assert_int_equal(seen + reader.lost, RACE_EVENTS);
    assert_int_equal(next, RACE_EVENTS);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(events_come_out_in_the_order_they_went_in),
        cmocka_unit_test(a_full_ring_overwrites_the_oldest_and_the_reader_counts_them),
        cmocka_unit_test(what_a_stopped_producer_was_writing_is_thrown_away),
        cmocka_unit_test(a_head_and_its_more_records_are_published_as_one),
        cmocka_unit_test(a_later_owner_goes_on_where_the_first_one_stopped),
        cmocka_unit_test(several_readers_read_the_same_events),
        cmocka_unit_test(an_impossible_head_is_refused_every_time),
        cmocka_unit_test(a_capacity_that_cannot_be_is_refused),
        cmocka_unit_test(a_reader_that_is_overrun_never_sees_a_torn_event),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
