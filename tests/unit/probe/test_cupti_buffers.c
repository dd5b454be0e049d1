/* The pool of buffers: what CUPTI may do with them, on many threads. */
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "probe/cupti/buffers.h"

#define THREADS 4
#define ROUNDS  2000

static int open_pool(void **state)
{
    struct buffer_lent lent;

    (void)state;
    while (buffers_take(&lent))
        buffers_give_back(&lent);
    return buffers_open();
}

static uint8_t *borrow(void)
{
    size_t bytes = 0, records = 7;
    uint8_t *buffer = NULL;

    buffers_request(&buffer, &bytes, &records);
    assert_non_null(buffer);
    assert_int_equal((uintptr_t)buffer % 8, 0);
    assert_int_equal(bytes, BUFFER_BYTES);
    assert_int_equal(records, 0);
    return buffer;
}

static void
a_buffer_comes_back_with_what_is_valid_and_is_zeroed_for_the_next(void **state)
{
    (void)state;
    struct buffer_lent lent;
    uint8_t *buffer = borrow();

    assert_false(buffers_take(&lent));
    memset(buffer, 0xff, BUFFER_BYTES);
    buffers_complete(NULL, 0, buffer, BUFFER_BYTES, 800);
    assert_true(buffers_take(&lent));
    assert_ptr_equal(lent.bytes, buffer);
    assert_int_equal(lent.valid_bytes, 800);
    buffers_give_back(&lent);
    assert_false(buffers_take(&lent));
    for (unsigned i = 0; i < BUFFERS_COUNT; i++) {
        uint8_t *next = borrow();

        for (size_t at = 0; at < BUFFER_BYTES; at += 4096)
            assert_int_equal(next[at], 0);
        buffers_complete(NULL, 0, next, BUFFER_BYTES, 0);
    }
}

static void buffers_are_read_in_the_order_in_which_they_came_back(void **state)
{
    (void)state;
    struct buffer_lent lent;
    uint8_t *a = borrow(), *b = borrow(), *c = borrow();

    buffers_complete(NULL, 0, c, BUFFER_BYTES, 1);
    buffers_complete(NULL, 0, a, BUFFER_BYTES, 2);
    buffers_complete(NULL, 0, b, BUFFER_BYTES, 3);
    for (size_t valid = 1; valid <= 3; valid++) {
        assert_true(buffers_take(&lent));
        assert_int_equal(lent.valid_bytes, valid);
        buffers_give_back(&lent);
    }
}

static void when_all_are_lent_a_scrap_is_given_and_its_bytes_are_counted(void **state)
{
    (void)state;
    uint8_t *all[BUFFERS_COUNT], *scrap;
    struct buffer_lent lent;

    for (unsigned i = 0; i < BUFFERS_COUNT; i++)
        all[i] = borrow();
    assert_int_equal(buffers_lent(), BUFFERS_COUNT);
    scrap = borrow();
    assert_ptr_equal(borrow(), scrap);
    scrap[100] = 1;
    buffers_registered();
    assert_int_equal(scrap[100], 0);
    for (unsigned i = 0; i < BUFFERS_COUNT; i++)
        assert_ptr_not_equal(scrap, all[i]);
    (void)buffers_scrapped();
    buffers_complete(NULL, 0, scrap, BUFFER_BYTES, 416);
    assert_int_equal(buffers_scrapped(), 416);
    assert_int_equal(buffers_scrapped(), 0);
    assert_false(buffers_take(&lent));
    for (unsigned i = 0; i < BUFFERS_COUNT; i++)
        buffers_complete(NULL, 0, all[i], BUFFER_BYTES, 0);
}

static void the_scrap_holds_work_until_it_is_back_or_somebody_else_has_it(void **state)
{
    (void)state;
    uint8_t *all[BUFFERS_COUNT], *scrap;

    (void)buffers_scrap_was_out();
    for (unsigned i = 0; i < BUFFERS_COUNT; i++)
        all[i] = borrow();
    assert_false(buffers_scrap_was_out());
    scrap = borrow();
    buffers_complete(NULL, 0, scrap, BUFFER_BYTES, 200);
    assert_true(buffers_scrap_was_out());
    assert_false(buffers_scrap_was_out());
    (void)borrow();
    assert_true(buffers_scrap_was_out());
    assert_true(buffers_scrap_was_out());
    buffers_registered(); /* another profiler was given it */
    assert_false(buffers_scrap_was_out());
    buffers_complete(NULL, 0, scrap, BUFFER_BYTES, 200); /* and we all the same */
    assert_true(buffers_scrap_was_out());
    assert_false(buffers_scrap_was_out());
    (void)borrow();
    assert_true(buffers_scrap_was_out());
    assert_true(buffers_scrap_was_out());
    buffers_complete(NULL, 0, scrap, BUFFER_BYTES, 200);
    assert_true(buffers_scrap_was_out());
    assert_false(buffers_scrap_was_out());
    (void)buffers_scrapped();
    for (unsigned i = 0; i < BUFFERS_COUNT; i++)
        buffers_complete(NULL, 0, all[i], BUFFER_BYTES, 0);
}

static void what_is_not_ours_or_comes_back_twice_changes_nothing(void **state)
{
    (void)state;
    static uint8_t foreign[64];
    struct buffer_lent lent;
    uint8_t *buffer = borrow();

    buffers_complete(NULL, 0, foreign, sizeof(foreign), 8);
    buffers_complete(NULL, 0, NULL, 0, 0);
    buffers_complete(NULL, 0, buffer + 8, BUFFER_BYTES, 8);
    assert_false(buffers_take(&lent));
    buffers_complete(NULL, 0, buffer, BUFFER_BYTES, SIZE_MAX);
    buffers_complete(NULL, 0, buffer, BUFFER_BYTES, 8);
    assert_true(buffers_take(&lent));
    assert_int_equal(lent.valid_bytes, BUFFER_BYTES);
    buffers_give_back(&lent);
    buffers_complete(NULL, 0, buffer, BUFFER_BYTES, 8);
    assert_false(buffers_take(&lent));
}

static void
what_another_profiler_swallowed_is_reclaimed_and_lent_elsewhere(void **state)
{
    (void)state;
    uint8_t *swallowed = borrow(), *ours;
    struct buffer_lent lent, none;

    swallowed[0] = 7;
    assert_false(buffers_reclaim(&lent));
    buffers_registered();
    ours = borrow();
    assert_true(buffers_reclaim(&lent));
    assert_ptr_equal(lent.bytes, swallowed);
    assert_int_equal(lent.bytes[0], 7);
    assert_int_equal(lent.valid_bytes, BUFFER_BYTES);
    assert_false(buffers_reclaim(&none));
    buffers_give_back(&lent);

    /* Too late: its bytes are counted, and nothing of it is read. */
    (void)buffers_scrapped();
    buffers_complete(NULL, 0, swallowed, BUFFER_BYTES, 300);
    assert_int_equal(buffers_scrapped(), 300);
    assert_false(buffers_take(&none));
    for (unsigned i = 0; i < BUFFERS_COUNT - 1; i++) {
        uint8_t *next = borrow();

        assert_ptr_not_equal(next, swallowed);
        assert_int_equal(next[0], 0);
        buffers_complete(NULL, 0, next, BUFFER_BYTES, 0);
    }
    buffers_complete(NULL, 0, ours, BUFFER_BYTES, 0);
    assert_int_equal(buffers_lent(), 0);
}

static void all_of_them_may_be_swallowed_again_and_again(void **state)
{
    (void)state;
    struct buffer_lent lent;

    for (unsigned round = 0; round < 3 * BUFFER_PLACES; round++) {
        for (unsigned i = 0; i < BUFFERS_COUNT; i++)
            memset(borrow(), 0xff, BUFFER_BYTES);
        buffers_registered();
        for (unsigned i = 0; i < BUFFERS_COUNT; i++) {
            assert_true(buffers_reclaim(&lent));
            buffers_give_back(&lent);
        }
        for (unsigned i = 0; i < BUFFERS_COUNT; i++) {
            uint8_t *next = borrow();

            for (size_t at = 0; at < BUFFER_BYTES; at += 4096)
                assert_int_equal(next[at], 0);
            buffers_complete(NULL, 0, next, BUFFER_BYTES, 0);
        }
        while (buffers_take(&lent))
            buffers_give_back(&lent);
    }
}

static void *borrow_and_return(void *argument)
{
    uint8_t mark = *(const uint8_t *)argument;

    for (unsigned i = 0; i < ROUNDS; i++) {
        size_t bytes, records;
        uint8_t *buffer;

        buffers_request(&buffer, &bytes, &records);
        /* Several may have the scrap at once. */
        __atomic_store_n(&buffer[0], mark, __ATOMIC_RELAXED);
        __atomic_store_n(&buffer[1000], mark, __ATOMIC_RELAXED);
        buffers_complete(NULL, 0, buffer, bytes, 1001);
    }
    return NULL;
}

static void threads_never_share_a_buffer_that_is_read(void **state)
{
    (void)state;
    static const uint8_t marks[THREADS] = {1, 2, 3, 4};
    uint64_t before = buffers_completed(), read = 0;
    pthread_t threads[THREADS];
    struct buffer_lent lent;

    (void)buffers_scrapped();
    for (unsigned i = 0; i < THREADS; i++)
        assert_int_equal(pthread_create(&threads[i], NULL, borrow_and_return,
                                        (void *)(uintptr_t)&marks[i]),
                         0);
    while (buffers_completed() - before < THREADS * ROUNDS)
        while (buffers_take(&lent)) {
            assert_int_not_equal(lent.bytes[0], 0);
            assert_int_equal(lent.bytes[0], lent.bytes[1000]);
            buffers_give_back(&lent);
            read++;
        }
    for (unsigned i = 0; i < THREADS; i++)
        pthread_join(threads[i], NULL);
    for (; buffers_take(&lent); read++)
        buffers_give_back(&lent);
    assert_int_equal(read + buffers_scrapped() / 1001, THREADS * ROUNDS);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup(
            a_buffer_comes_back_with_what_is_valid_and_is_zeroed_for_the_next,
            open_pool),
        cmocka_unit_test_setup(buffers_are_read_in_the_order_in_which_they_came_back,
                               open_pool),
        cmocka_unit_test_setup(
            when_all_are_lent_a_scrap_is_given_and_its_bytes_are_counted, open_pool),
        cmocka_unit_test_setup(
            the_scrap_holds_work_until_it_is_back_or_somebody_else_has_it, open_pool),
        cmocka_unit_test_setup(what_is_not_ours_or_comes_back_twice_changes_nothing,
                               open_pool),
        cmocka_unit_test_setup(
            what_another_profiler_swallowed_is_reclaimed_and_lent_elsewhere, open_pool),
        cmocka_unit_test_setup(all_of_them_may_be_swallowed_again_and_again, open_pool),
        cmocka_unit_test_setup(threads_never_share_a_buffer_that_is_read, open_pool),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
