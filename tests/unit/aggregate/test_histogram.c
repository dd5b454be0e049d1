#include <errno.h>
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "aggregate/histogram.h"

static void every_value_lies_within_one_percent_of_its_cell_s_middle(void **state)
{
    (void)state;
    for (int64_t value = 1; value < (int64_t)1 << 46; value += 1 + value / 1000) {
        double middle = histogram_value(histogram_cell(value));

        assert_true(fabs(middle - (double)value) <= 0.008 * (double)value);
    }
}

static void cells_grow_with_values_and_stay_in_range(void **state)
{
    (void)state;
    uint32_t before = 0;

    for (int64_t value = 0; value < (int64_t)1 << 46; value += 1 + value / 500) {
        uint32_t cell = histogram_cell(value);

        assert_true(cell >= before && cell < HISTOGRAM_CELLS);
        before = cell;
    }
    assert_int_equal(histogram_cell(-5), 0);
    assert_true(histogram_cell(INT64_MAX) < HISTOGRAM_CELLS);
}

static void quantiles_agree_with_a_sorted_list(void **state)
{
    (void)state;
    static uint64_t cells[HISTOGRAM_CELLS];
    enum { COUNT = 10000 };

    for (uint32_t i = 1; i <= COUNT; i++)
        cells[histogram_cell((int64_t)i * i)]++;
    for (double share = 0.01; share < 1; share += 0.07) {
        double index = ceil(share * (double)COUNT);

        assert_true(fabs(histogram_quantile(cells, COUNT, share) - index * index) <=
                    0.01 * index * index);
    }
    assert_true(isnan(histogram_quantile(cells, 0, 0.5)));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_value_lies_within_one_percent_of_its_cell_s_middle),
        cmocka_unit_test(cells_grow_with_values_and_stay_in_range),
        cmocka_unit_test(quantiles_agree_with_a_sorted_list),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
