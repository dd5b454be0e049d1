/* What is said of findings over time, as text and back; the text is as foreign as any. */
#include <cjson/cJSON.h>
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "judge/said.h"

static struct standing standing, again;

static int begin(void **state)
{
    (void)state;
    standing = (struct standing){.looks = 9};
    standing.entries[3] = (struct standing_entry){
        .id = "data-loading",
        .title = "Training \"waits\"",
        .state = STANDING_STANDS,
        .since_step = 40,
        .missed_step = NOT_KNOWN,
        .fixed_step = NOT_KNOWN,
        .whole_step = 90,
        .ns_per_step = 4.5e6,
        .former = {.part = PART_DATA, .claims = true, .part_ns = 5e6, .step_ns = 9e6}};
    standing.entries[4] = standing.entries[5] = standing.entries[3];
    standing.entries[4].state = STANDING_FIXED;
    standing.entries[4].fixed_step = 120;
    standing.entries[4].fixed_ns = INT64_C(7000000000);
    standing.entries[4].former.price_error_ns = (double)NAN;
    snprintf(standing.entries[4].id, STANDING_ID, "memory-growth-0123abcd");
    standing.entries[5].state = STANDING_SEEN;
    snprintf(standing.entries[5].id, STANDING_ID, "tiny-ops");
    return 0;
}

static void what_stands_and_what_was_fixed_comes_back_as_it_was(void **state)
{
    char *text = said_print(&standing);
    const struct standing_entry *entry;

    (void)state;
    assert_true(said_read(text, &again));
    entry = standing_find(&again, "data-loading");
    assert_int_equal(entry->state, STANDING_STANDS);
    assert_string_equal(entry->title, "Training \"waits\"");
    assert_string_equal(entry->rule->id, "data-loading");
    assert_int_equal(entry->since_step, 40);
    assert_int_equal(entry->whole_step, 90);
    assert_true(entry->missed_step == NOT_KNOWN);
    assert_int_equal(entry->former.part, PART_DATA);
    assert_true(entry->former.claims && !entry->former.risk);
    assert_true(entry->ns_per_step == 4.5e6 && entry->former.part_ns == 5e6);
    entry = standing_find(&again, "memory-growth-0123abcd");
    assert_int_equal(entry->state, STANDING_FIXED);
    assert_string_equal(entry->rule->id, "memory-growth");
    assert_true(entry->fixed_ns == INT64_C(7000000000));
    assert_true(isnan(entry->former.price_error_ns));
    /* What was not yet sure begins anew; and nothing is taken for older than it is. */
    assert_null(standing_find(&again, "tiny-ops"));
    assert_true(again.looks > 0);
    cJSON_free(text);
}

static void assert_nothing_in(const char *text, bool known)
{
    assert_int_equal(said_read(text, &again), known);
    for (uint32_t i = 0; i < STANDING_MAX; i++)
        assert_int_equal(again.entries[i].state, STANDING_NONE);
}

static void what_is_not_understood_is_left_out(void **state)
{
    (void)state;
    assert_nothing_in("", false);
    assert_nothing_in("[]", false);
    assert_nothing_in("{\"version\":2,\"findings\":[]}", false);
    assert_nothing_in("{\"version\":1,\"findings\":{}}", false);
    assert_nothing_in("{\"version\":1,\"findings\":[]}", true);
    assert_nothing_in("{\"version\":1,\"findings\":[1,null,[],{}]}", true);
    assert_nothing_in(
        "{\"version\":1,\"findings\":[{\"id\":\"no-such-rule\",\"title\":\"\","
        "\"part\":0,\"since_step\":1,\"whole_step\":1,\"ns_per_step\":1}]}",
        true);
    assert_nothing_in(
        "{\"version\":1,\"findings\":[{\"id\":\"tiny-ops\",\"title\":\"\","
        "\"part\":99,\"since_step\":1,\"whole_step\":1,\"ns_per_step\":1}]}",
        true);
    assert_nothing_in(
        "{\"version\":1,\"findings\":[{\"id\":\"tiny-ops\",\"title\":\"\","
        "\"part\":1,\"since_step\":1e300,\"whole_step\":1,"
        "\"ns_per_step\":1}]}",
        true);
}

static void a_damaged_text_is_read_within_its_bounds(void **state)
{
    char *text = said_print(&standing);
    size_t length = strlen(text);
    uint32_t random = 1;

    (void)state;
    for (uint32_t i = 0; i < 20000; i++) {
        char *damaged = strdup(text);

        for (uint32_t j = 0; j < 1 + i % 5; j++) {
            random = random * 1664525u + 1013904223u;
            damaged[(random >> 8) % length] = (char)(random >> 24);
        }
        if (said_read(damaged, &again))
            for (uint32_t j = 0; j < STANDING_MAX; j++)
                if (again.entries[j].state != STANDING_NONE) {
                    assert_non_null(again.entries[j].rule);
                    assert_true(again.entries[j].former.part <= CLAIM_PARTS);
                    assert_true(again.entries[j].ns_per_step >= 0);
                }
        free(damaged);
    }
    cJSON_free(text);
}

static void a_full_table_fits_into_a_text(void **state)
{
    char *text;
    uint32_t kept = 0;

    (void)state;
    for (uint32_t i = 0; i < STANDING_MAX; i++) {
        standing.entries[i] = standing.entries[4];
        snprintf(standing.entries[i].id, STANDING_ID, "memory-growth-%08x", i);
        memset(standing.entries[i].title, '"', STANDING_TITLE - 1);
    }
    text = said_print(&standing);
    assert_true(strlen(text) < SAID_BYTES);
    assert_true(said_read(text, &again));
    for (uint32_t i = 0; i < STANDING_MAX; i++)
        kept += again.entries[i].state == STANDING_FIXED;
    assert_int_equal(kept, STANDING_MAX);
    cJSON_free(text);
}

#define TEST(name) cmocka_unit_test_setup(name, begin)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(what_stands_and_what_was_fixed_comes_back_as_it_was),
        TEST(what_is_not_understood_is_left_out),
        TEST(a_damaged_text_is_read_within_its_bounds),
        TEST(a_full_table_fits_into_a_text),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
