#include <errno.h>
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "wire/names.h"

#define NAMES 64u
#define BYTES 16384u

static _Alignas(64) unsigned char memory[32 * 1024];
static _Atomic uint32_t names_hash[2 * NAMES];

static void open_table(struct names *names, uint32_t capacity, uint64_t bytes)
{
    memset(memory, 0, sizeof(memory));
    for (uint32_t i = 0; i < 2 * NAMES; i++)
        atomic_store(&names_hash[i], 0);
    assert_int_equal(names_open(names, memory, sizeof(memory), capacity, bytes), 0);
    assert_int_equal(names_index(names, names_hash, 2 * NAMES), 0);
}

static void assert_name(const struct names *names, uint32_t id, const char *expected)
{
    const char *bytes;
    uint32_t length = names_lookup(names, id, &bytes);

    assert_int_equal(length, strlen(expected));
    assert_memory_equal(bytes, expected, length);
}

static void a_name_gets_one_id_and_keeps_it(void **state)
{
    (void)state;
    struct names names;

    open_table(&names, NAMES, BYTES);
    uint32_t add = names_intern(&names, "aten::add", 9);
    uint32_t mul = names_intern(&names, "aten::mul", 9);

    assert_int_not_equal(add, 0);
    assert_int_not_equal(add, mul);
    assert_int_equal(names_intern(&names, "aten::add", 9), add);
    assert_name(&names, add, "aten::add");
    assert_name(&names, mul, "aten::mul");
    assert_int_equal(names_count(&names), 2);
}

static void a_name_is_found_without_being_added(void **state)
{
    (void)state;
    struct names names;

    open_table(&names, 1, BYTES);
    uint32_t add = names_intern(&names, "aten::add", 9);

    assert_int_equal(names_find(&names, "aten::add", 9), add);
    assert_int_equal(names_find(&names, "aten::mul", 9), 0);
    assert_int_equal(names_find(&names, "", 0), 0);
    assert_int_equal(names_count(&names), 1);
    assert_int_equal(names_refused(&names), 0);
}

static void a_full_table_gives_no_name_and_counts_it(void **state)
{
    (void)state;
    struct names names;
    char text[16];

    open_table(&names, 4, BYTES);
    for (int i = 0; i < 6; i++) {
        int length = snprintf(text, sizeof(text), "op%d", i);
        uint32_t id = names_intern(&names, text, (size_t)length);

        assert_int_equal(id != 0, i < 4);
    }
    assert_int_equal(names_refused(&names), 2);
    assert_int_equal(names_count(&names), 4);
    assert_name(&names, names_intern(&names, "op3", 3), "op3");
}

static void a_table_without_bytes_left_refuses_only_what_does_not_fit(void **state)
{
    (void)state;
    struct names names;
    char text[64];

    memset(text, 'x', sizeof(text));
    open_table(&names, NAMES, 80);
    assert_int_not_equal(names_intern(&names, text, 64), 0);
    assert_int_equal(names_intern(&names, text, 63), 0);
    assert_int_not_equal(names_intern(&names, "short", 5), 0);
    assert_int_equal(names_refused(&names), 1);
}

static void a_name_of_64_kib_is_cut(void **state)
{
    (void)state;
    static char text[65536];
    struct names names;
    const char *bytes;

    memset(text, 'k', sizeof(text));
    open_table(&names, NAMES, BYTES);
    uint32_t id = names_intern(&names, text, sizeof(text));

    assert_int_equal(names_lookup(&names, id, &bytes), NAME_BYTES_MAX);
    assert_int_equal(names_intern(&names, text, sizeof(text)), id);
}

static void an_id_that_was_never_given_has_no_name(void **state)
{
    (void)state;
    struct names names;
    const char *bytes;

    open_table(&names, NAMES, BYTES);
    assert_int_equal(names_lookup(&names, 0, &bytes), 0);
    assert_int_equal(names_lookup(&names, 1, &bytes), 0);
    assert_int_equal(names_lookup(&names, NAMES, &bytes), 0);
    assert_int_equal(names_lookup(&names, NAMES + 1, &bytes), 0);
    assert_int_equal(names_lookup(&names, UINT32_MAX, &bytes), 0);
}

static void an_entry_that_points_outside_has_no_name(void **state)
{
    (void)state;
    struct names names;
    const char *bytes;

    open_table(&names, NAMES, BYTES);
    uint32_t id = names_intern(&names, "aten::add", 9);
    struct name_entry *entry = &names.shared->entries[id - 1];

    entry->offset = BYTES - 8;
    assert_int_equal(names_lookup(&names, id, &bytes), 0);
    entry->offset = UINT32_MAX;
    assert_int_equal(names_lookup(&names, id, &bytes), 0);
    entry->offset = 0;
    entry->length = UINT32_MAX;
    assert_int_equal(names_lookup(&names, id, &bytes), 0);
}

#define THREADS 4

static void *intern_all(void *arg)
{
    char text[16];

    for (int i = 0; i < 40; i++) {
        int length = snprintf(text, sizeof(text), "name %d", i);

        if (names_intern(arg, text, (size_t)length) == 0)
            return arg;
    }
    return NULL;
}

static void threads_that_add_the_same_names_never_see_a_wrong_one(void **state)
{
    (void)state;
    static _Alignas(64) unsigned char large[64 * 1024];
    static _Atomic uint32_t large_hash[1024];
    struct names names;
    pthread_t threads[THREADS];
    char text[16];

    assert_int_equal(names_open(&names, large, sizeof(large), 400, BYTES), 0);
    assert_int_equal(names_index(&names, large_hash, 1024), 0);
    for (int i = 0; i < THREADS; i++)
        assert_int_equal(pthread_create(&threads[i], NULL, intern_all, &names), 0);
    for (int i = 0; i < THREADS; i++) {
        void *failed;

        assert_int_equal(pthread_join(threads[i], &failed), 0);
        assert_null(failed);
    }
    for (int i = 0; i < 40; i++) {
        int length = snprintf(text, sizeof(text), "name %d", i);

        assert_name(&names, names_intern(&names, text, (size_t)length), text);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_name_gets_one_id_and_keeps_it),
        cmocka_unit_test(a_name_is_found_without_being_added),
        cmocka_unit_test(a_full_table_gives_no_name_and_counts_it),
        cmocka_unit_test(a_table_without_bytes_left_refuses_only_what_does_not_fit),
        cmocka_unit_test(a_name_of_64_kib_is_cut),
        cmocka_unit_test(an_id_that_was_never_given_has_no_name),
        cmocka_unit_test(an_entry_that_points_outside_has_no_name),
        cmocka_unit_test(threads_that_add_the_same_names_never_see_a_wrong_one),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
