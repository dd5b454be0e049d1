#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "ingest/file/track/track.h"

#define RECORDS 5000u

static struct track_record records[RECORDS];
static uint64_t seed;

static uint64_t draw(uint64_t below)
{
    seed = seed * 6364136223846793005u + 1442695040888963407u;
    return (seed >> 20) % below;
}

/* Of every length: small differences mostly, and some words that are anything. */
static uint64_t draw_word(void)
{
    return draw(4) != 0 ? draw(100) : (seed ^ seed << 23) >> draw(64);
}

static void make_record(struct track_record *record, uint32_t index)
{
    static const uint8_t kinds[] = {EVENT_CPU_OP, EVENT_USER_RANGE, EVENT_LAUNCH,
                                    EVENT_ALLOC, EVENT_KERNEL};
    uint64_t start = index * 10 + draw(200);

    if (draw(50) == 0)
        start = draw_word();
    *record = (struct track_record){
        .event = {.time = start,
                  .value = draw_word(),
                  .meta =
                      EVENT_META(draw_word(), kinds[draw(5)], draw(3), draw(2) << 8),
                  .aux = index},
        .more = {draw_word(), draw(2) * draw_word(), draw_word()}};
}

static void add_all(struct track *track)
{
    for (uint32_t i = 0; i < RECORDS; i++) {
        struct track_record *place = track_add(track);

        make_record(&records[i], i);
        assert_non_null(place);
        *place = records[i];
    }
}

static int by_start(const void *left, const void *right)
{
    const struct event *a = left, *b = right;

    if (a->time != b->time)
        return (int64_t)a->time < (int64_t)b->time ? -1 : 1;
    if (a->value != b->value)
        return a->value < b->value ? -1 : 1;
    return a->aux < b->aux ? -1 : a->aux > b->aux;
}

/* What the reader gives are the records, from the first to the last. */
static void assert_all_read(struct track_reader *reader)
{
    const struct track_record *record;

    for (uint32_t i = 0; i < RECORDS; i++) {
        record = track_peek(reader);
        assert_non_null(record);
        assert_memory_equal(record, &records[i], sizeof(*record));
        track_next(reader);
    }
    assert_null(track_peek(reader));
    assert_false(reader->failed);
    track_end(reader);
}

static void any_record_is_read_as_it_was_written(void **state)
{
    struct track track = {.order = TRACK_GIVEN};
    struct track_reader reader;

    (void)state;
    for (seed = 1; seed <= 20; seed++) {
        uint64_t keep = seed;

        add_all(&track);
        assert_int_equal(track_look(&reader, &track), 0);
        assert_all_read(&reader);
        assert_int_equal(track_drain(&reader, &track), 0);
        assert_all_read(&reader);
        track_free(&track);
        seed = keep;
    }
}

static void records_come_back_by_start_however_far_from_it_they_came(void **state)
{
    struct track track = {.order = TRACK_WORKS};
    struct track_reader reader;

    (void)state;
    for (seed = 1; seed <= 20; seed++) {
        uint64_t keep = seed;

        add_all(&track);
        qsort(records, RECORDS, sizeof(records[0]), by_start);
        assert_int_equal(track_drain(&reader, &track), 0);
        assert_all_read(&reader);
        track_free(&track);
        seed = keep;
    }
}

/* Names the record by aux, which is an op's External id. */
static void add(struct track *track, uint64_t start, uint64_t duration, uint64_t id)
{
    struct track_record *place = track_add(track);

    assert_non_null(place);
    *place = (struct track_record){.event = {.time = start,
                                             .value = duration,
                                             .meta = EVENT_META(7, EVENT_CPU_OP, 0, 0),
                                             .aux = id}};
}

static void
an_outer_range_stands_before_the_inner_ones_and_equals_by_their_ids(void **state)
{
    static const uint64_t wanted[] = {9, 3, 1, 2, 5};
    struct track track = {.order = TRACK_RANGES};
    struct track_reader reader;

    (void)state;
    add(&track, 100, 5, 2); /* the second of three with the same start */
    add(&track, 200, 1, 5);
    add(&track, 100, 5, 1);
    add(&track, 100, 50, 3);
    add(&track, 10, 500, 9);
    assert_int_equal(track_drain(&reader, &track), 0);
    for (uint32_t i = 0; i < 5; i++) {
        assert_non_null(track_peek(&reader));
        assert_int_equal(track_peek(&reader)->event.aux, wanted[i]);
        track_next(&reader);
    }
    track_end(&reader);
    track_free(&track);
}

static void sections_of_a_file_that_overlap_are_merged(void **state)
{
    struct track track = {.order = TRACK_RANGES};
    struct track_reader reader;
    int64_t last = -1;

    (void)state;
    for (uint64_t section = 0; section < 5; section++)
        for (uint64_t i = 0; i < 1000; i++)
            add(&track, i * 5 + section, 3, 0);
    assert_int_equal(track_drain(&reader, &track), 0);
    for (uint32_t i = 0; i < 5000; i++) {
        assert_non_null(track_peek(&reader));
        assert_int_equal(track_peek(&reader)->event.time, last + 1);
        last = (int64_t)track_peek(&reader)->event.time;
        track_next(&reader);
    }
    assert_null(track_peek(&reader));
    track_end(&reader);
    track_free(&track);
}

static void what_was_read_is_given_back_before_the_last_is(void **state)
{
    struct track track = {.order = TRACK_RANGES};
    struct track_reader reader;

    (void)state;
    for (uint64_t i = 0; i < 100000; i++)
        add(&track, i * 1000, 900, i + 1);
    assert_int_equal(track_drain(&reader, &track), 0);
    assert_in_range(track.bytes, 1,
                    100000 * 12); /* as events they would take 32 each */
    uint64_t whole = track.bytes;

    for (uint32_t i = 0; i < 90000; i++) {
        assert_non_null(track_peek(&reader));
        track_next(&reader);
    }
    assert_true(track.bytes < whole / 8);
    track_end(&reader);
    track_free(&track);
}

static void an_empty_track_has_nothing_to_read(void **state)
{
    struct track track = {.order = TRACK_POINTS};
    struct track_reader reader;

    (void)state;
    assert_int_equal(track_look(&reader, &track), 0);
    assert_null(track_peek(&reader));
    track_end(&reader);
    assert_int_equal(track_drain(&reader, &track), 0);
    assert_null(track_peek(&reader));
    track_end(&reader);
    track_free(&track);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(any_record_is_read_as_it_was_written),
        cmocka_unit_test(records_come_back_by_start_however_far_from_it_they_came),
        cmocka_unit_test(
            an_outer_range_stands_before_the_inner_ones_and_equals_by_their_ids),
        cmocka_unit_test(sections_of_a_file_that_overlap_are_merged),
        cmocka_unit_test(what_was_read_is_given_back_before_the_last_is),
        cmocka_unit_test(an_empty_track_has_nothing_to_read),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
