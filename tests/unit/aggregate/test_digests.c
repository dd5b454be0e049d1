#include <errno.h>
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "aggregate/digests.h"

static struct digests digests;
static struct tally tally;

static int begin(void **state)
{
    (void)state;
    digests_init(&digests, 64 * 1024);
    tally = (struct tally){0};
    return tally_reserve(&tally, 64) ? 0 : -1;
}

static int end(void **state)
{
    (void)state;
    digests_free(&digests);
    tally_free(&tally);
    return 0;
}

/* Step `number` of 1 ms: row r has r + 1 calls of (number % 7 + 1) * (r + 1) us. */
static void push_step(int64_t number, uint32_t rows)
{
    struct digest_span span = {.from_ns = number * 1000000,
                               .to_ns = (number + 1) * 1000000,
                               .first_step = number,
                               .last_step = number,
                               .steps = 1,
                               .ops_steps = 1,
                               .step_ns = 1000000};

    for (uint32_t r = 0; r < rows; r++)
        for (uint32_t call = 0; call <= r; call++)
            tally_add(&tally, r, (number % 7 + 1) * 1000 * (r + 1), 500);
    digests_push(&digests, DIGEST_DRAWN, tally_seal(&tally, &span, true, UINT32_MAX));
}

static void a_sealed_digest_holds_what_was_added(void **state)
{
    (void)state;
    struct digest_span span = {.steps = 1};

    tally_add(&tally, 3, 1000, 400);
    tally_add(&tally, 3, 3000, 600);
    tally_add(&tally, 9, 50, 50);
    struct digest *digest = tally_seal(&tally, &span, true, UINT32_MAX);

    assert_int_equal(digest->row_count, 2);
    assert_int_equal(digest->rows[0].row, 3);
    assert_int_equal(digest->rows[0].count, 2);
    assert_int_equal(digest->rows[0].total_ns, 4000);
    assert_int_equal(digest->rows[0].self_ns, 1000);
    assert_int_equal(digest->rows[0].min_ns, 1000);
    assert_int_equal(digest->rows[0].max_ns, 3000);
    assert_true(digest->rows[0].self_squares == 1e6);
    assert_int_equal(digest->cell_count, 3);
    free(digest);
}

struct seen {
    uint64_t steps, count, cells;
    int64_t total_ns, until_ns;
    double squares;
};

static void look(void *user, const struct digest *digest)
{
    struct seen *seen = user;
    const uint32_t *cells = digest->cells;

    assert_true(digest->span.from_ns >= seen->until_ns);
    seen->until_ns = digest->span.to_ns;
    seen->steps += digest->span.steps;
    for (uint32_t i = 0; i < digest->row_count; i++) {
        seen->count += digest->rows[i].count;
        seen->total_ns += digest->rows[i].total_ns;
        seen->squares += digest->rows[i].self_squares;
        for (uint32_t c = 0; c < digest->rows[i].cell_count; c++)
            seen->cells += DIGEST_COUNT(cells[c]);
        cells += digest->rows[i].cell_count;
    }
}

static void merging_keeps_every_sum_and_the_order_of_time(void **state)
{
    (void)state;
    enum { STEPS = 5000, ROWS = 6 };
    int64_t range[2] = {0, INT64_MAX}, total = 0;
    struct seen seen = {0};

    for (int64_t n = 0; n < STEPS; n++) {
        push_step(n, ROWS);
        for (int64_t r = 0; r < ROWS; r++)
            total += (n % 7 + 1) * 1000 * (r + 1) * (r + 1);
    }
    digests_visit(&digests, DIGEST_DRAWN, range, look, &seen);
    assert_true(digests.merges > 0);
    assert_true(digests.bytes <= digests.bytes_max);
    assert_int_equal(seen.steps, STEPS);
    assert_int_equal(seen.count, STEPS * 21);
    assert_int_equal(seen.cells, STEPS * 21);
    assert_int_equal(seen.total_ns, total);
    assert_true(fabs(seen.squares - (double)STEPS * 91.0 * 250000) < 1);
}

static void the_newest_steps_are_each_remembered_for_themselves(void **state)
{
    (void)state;
    struct seen seen = {0};

    for (int64_t n = 0; n < 5000; n++)
        push_step(n, 6);
    int64_t range[2] = {INT64_C(4990) * 1000000, INT64_C(4993) * 1000000};

    digests_visit(&digests, DIGEST_DRAWN, range, look, &seen);
    assert_int_equal(seen.steps, 3);
}

static void a_count_beyond_its_field_is_off_by_less_than_one_percent(void **state)
{
    (void)state;
    struct digest_span span = {.steps = 1};

    for (uint32_t i = 0; i < 3000000; i++)
        tally_add(&tally, 1, 1000, 1000);
    struct digest *digest = tally_seal(&tally, &span, true, UINT32_MAX);

    assert_int_equal(digest->rows[0].count, 3000000);
    assert_int_equal(digest->cell_count, 1);
    assert_true(fabs((double)DIGEST_COUNT(digest->cells[0]) - 3e6) < 0.01 * 3e6);
    free(digest);
}

static void a_merge_too_large_for_the_limit_gives_up_percentiles_not_sums(void **state)
{
    (void)state;
    struct digest_span span = {.from_ns = 0, .to_ns = 10, .steps = 1};
    int64_t range[2] = {0, INT64_MAX};
    struct seen seen = {0};

    assert_true(tally_reserve(&tally, 2000));
    for (int64_t n = 0; n < 40; n++) {
        for (uint32_t r = 0; r < 300; r++)
            for (int64_t d = 0; d < 40; d++)
                tally_add(&tally, r, (n + 1) * 1000 + d * 137 * (r + 1), 10 + r);
        span.from_ns = n * 10;
        span.to_ns = n * 10 + 10;
        digests_push(&digests, DIGEST_DRAWN,
                     tally_seal(&tally, &span, true, UINT32_MAX));
    }
    digests_visit(&digests, DIGEST_DRAWN, range, look, &seen);
    assert_int_equal(seen.count, 40 * 300 * 40);
    assert_true(seen.cells < seen.count);
    assert_true(digests.bytes < 2 * digests.bytes_max);
}

static uint64_t sums[64][HISTOGRAM_CELLS];

/* Adds what a digest counts to sums[]; how many cells it needs for that. */
static uint32_t add_up(const struct digest *digest, bool minus)
{
    const uint32_t *cells = digest->cells;

    for (uint32_t i = 0; i < digest->row_count; i++) {
        for (uint32_t c = 0; c < digest->rows[i].cell_count; c++) {
            uint64_t count = DIGEST_COUNT(cells[c]);

            sums[digest->rows[i].row][DIGEST_CELL(cells[c])] += minus ? -count : count;
        }
        cells += digest->rows[i].cell_count;
    }
    return digest->cell_count;
}

static int64_t duration_of(uint32_t i)
{
    return (int64_t)(i * 2654435761u >> 12) % 3000;
}

static void short_and_long_steps_count_the_same_durations(void **state)
{
    (void)state;
    struct digest_span span = {.steps = 1};
    const uint32_t few = 500, many = 20 * few;

    for (uint32_t i = 0; i < many; i++) {
        tally_add(&tally, i % 7, duration_of(i), 1);
        if ((i + 1) % few != 0)
            continue;
        struct digest *small = tally_seal(&tally, &span, true, UINT32_MAX);

        assert_int_equal(add_up(small, false), few);
        free(small);
    }
    for (uint32_t i = 0; i < many; i++)
        tally_add(&tally, i % 7, duration_of(i), 1);
    struct digest *large = tally_seal(&tally, &span, true, UINT32_MAX);

    assert_in_range(add_up(large, true), 1, many / 2);
    free(large);
    for (uint32_t row = 0; row < 64; row++)
        for (uint32_t cell = 0; cell < HISTOGRAM_CELLS; cell++)
            assert_int_equal(sums[row][cell], 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(a_sealed_digest_holds_what_was_added, begin,
                                        end),
        cmocka_unit_test_setup_teardown(merging_keeps_every_sum_and_the_order_of_time,
                                        begin, end),
        cmocka_unit_test_setup_teardown(
            the_newest_steps_are_each_remembered_for_themselves, begin, end),
        cmocka_unit_test_setup_teardown(
            a_count_beyond_its_field_is_off_by_less_than_one_percent, begin, end),
        cmocka_unit_test_setup_teardown(
            a_merge_too_large_for_the_limit_gives_up_percentiles_not_sums, begin, end),
        cmocka_unit_test_setup_teardown(short_and_long_steps_count_the_same_durations,
                                        begin, end),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
