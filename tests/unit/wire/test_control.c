#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>

#include <cmocka.h>

#include "wire/control.h"
#include "wire/segment.h"

static struct control sealed(uint32_t level, uint32_t budget_ppm, uint32_t burst)
{
    struct control control = {
        .sequence = 7, .level = level, .budget_ppm = budget_ppm, .burst_steps = burst};

    control_seal(&control);
    return control;
}

static void a_request_arrives_as_it_was_sealed(void **state)
{
    (void)state;
    struct control sent = sealed(WIRE_LEVEL_OPS, 10000, 10), seen;

    assert_true(control_parse(&sent, sizeof(sent), &seen));
    assert_memory_equal(&sent, &seen, sizeof(seen));
}

static void any_changed_byte_makes_it_no_request(void **state)
{
    (void)state;
    struct control sent = sealed(WIRE_LEVEL_AUTO, 10000, 0), seen;
    unsigned char bytes[sizeof(sent)];

    for (size_t i = 0; i < sizeof(bytes); i++) {
        memcpy(bytes, &sent, sizeof(bytes));
        bytes[i] ^= 0x10;
        assert_false(control_parse(bytes, sizeof(bytes), &seen));
    }
}

static void a_file_cut_anywhere_is_no_request(void **state)
{
    (void)state;
    struct control sent = sealed(WIRE_LEVEL_AUTO, 10000, 0), seen;

    for (size_t size = 0; size < sizeof(sent); size++)
        assert_false(control_parse(&sent, size, &seen));
}

static void values_out_of_range_are_refused_though_sealed(void **state)
{
    (void)state;
    struct control seen, level = sealed(WIRE_LEVELS, 10000, 0),
                         budget = sealed(WIRE_LEVEL_AUTO, 1000001, 0),
                         burst = sealed(WIRE_LEVEL_AUTO, 10000, 1001);

    assert_false(control_parse(&level, sizeof(level), &seen));
    assert_false(control_parse(&budget, sizeof(budget), &seen));
    assert_false(control_parse(&burst, sizeof(burst), &seen));
    struct control window = {.window_steps = CONTROL_WINDOW_STEPS_MAX + 1};

    control_seal(&window);
    assert_false(control_parse(&window, sizeof(window), &seen));
    window = (struct control){.window_seconds = CONTROL_WINDOW_SECONDS_MAX + 1};
    control_seal(&window);
    assert_false(control_parse(&window, sizeof(window), &seen));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_request_arrives_as_it_was_sealed),
        cmocka_unit_test(any_changed_byte_makes_it_no_request),
        cmocka_unit_test(a_file_cut_anywhere_is_no_request),
        cmocka_unit_test(values_out_of_range_are_refused_though_sealed),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
