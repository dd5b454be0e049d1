#include <errno.h>
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "aggregate/nest.h"

#define RANGES 600u

static struct nest nest;

struct range {
    int64_t start, end, self;
};

static struct range ranges[RANGES];
static uint32_t count;
static uint64_t seed;

static uint32_t draw(uint32_t below)
{
    seed = seed * 6364136223846793005u + 1442695040888963407u;
    return (uint32_t)(seed >> 33) % below;
}

/* A random tree from `start`: returns its end. Ranges are listed as they end, with the
 * self time that their children leave. */
static int64_t grow(int64_t start, uint32_t depth)
{
    int64_t now = start + draw(50), inside = 0;

    for (uint32_t children = draw(4); children > 0 && depth < 6 && count < RANGES - 8;
         children--) {
        int64_t from = now;

        now = grow(now, depth + 1);
        inside += now - from;
        now += draw(20);
    }
    now += 1 + draw(50);
    if (count < RANGES)
        ranges[count++] = (struct range){start, now, now - start - inside};
    return now;
}

static void self_time_of_random_nestings_is_what_brute_force_says(void **state)
{
    (void)state;
    for (seed = 1; seed <= 300; seed++) {
        uint64_t keep = seed;
        int64_t now = 0;

        nest_clear(&nest);
        count = 0;
        while (count < RANGES / 2)
            now = grow(now, 0) + draw(30);
        for (uint32_t i = 0; i < count; i++)
            assert_int_equal(
                nest_close(&nest, ranges[i].start, ranges[i].end - ranges[i].start),
                ranges[i].self);
        seed = keep;
    }
}

static void a_thread_that_never_closes_an_outer_range_stays_bounded(void **state)
{
    (void)state;
    nest_clear(&nest);
    for (int64_t i = 0; i < 10 * NEST_MAX; i++)
        assert_int_equal(nest_close(&nest, i * 10, 5), 5);
    assert_true(nest.count <= NEST_MAX);
    /* The newest siblings still find their parent. */
    assert_int_equal(nest_close(&nest, (10 * NEST_MAX - 4) * 10, 40), 20);
}

/* Of calls of 7 ns in 10, each with another of 2 ns inside, `before` of nobody's. */
static int64_t self_of_an_op_that_calls(int64_t calls, int64_t before)
{
    int64_t outer = before * 10, time = outer;

    nest_clear(&nest);
    for (int64_t i = 0; i < before; i++)
        assert_int_equal(nest_close(&nest, i * 10, 5), 5);
    for (int64_t i = 0; i < calls; i++, time += 10) {
        assert_int_equal(nest_close(&nest, time + 3, 2), 2);
        assert_int_equal(nest_close(&nest, time + 1, 7), 5);
    }
    return nest_close(&nest, outer, time - outer);
}

static void an_op_that_calls_a_hundred_thousand_has_the_self_time_that_they_leave(
    void **state)
{
    (void)state;
    assert_int_equal(self_of_an_op_that_calls(100000, 0), 300000);
    assert_int_equal(self_of_an_op_that_calls(NEST_MAX / 2, NEST_MAX / 4),
                     3 * NEST_MAX / 2);
    /* Where others wait before it, the first of its own may stand in a group of theirs. */
    int64_t self = self_of_an_op_that_calls(100000, 3 * NEST_MAX);

    assert_in_range(self, 300000, 300000 + 7 * 4 * 150000 / NEST_MAX);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(self_time_of_random_nestings_is_what_brute_force_says),
        cmocka_unit_test(a_thread_that_never_closes_an_outer_range_stays_bounded),
        cmocka_unit_test(
            an_op_that_calls_a_hundred_thousand_has_the_self_time_that_they_leave),
    };

    int failed = cmocka_run_group_tests(tests, NULL, NULL);

    nest_free(&nest);
    return failed;
}
