#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "wire/segment.h"

static const uint64_t sizes[] = {WIRE_BYTES_MIN, WIRE_BYTES_SMALL, 1 << 20, 5000000,
                                 WIRE_BYTES_MAX};

static void *made(uint64_t size)
{
    struct wire_layout layout;
    void *memory = aligned_alloc(4096, (size + 4095) / 4096 * 4096);

    memset(memory, 0, size);
    assert_int_equal(wire_layout_for(size, &layout), 0);
    wire_header_init(memory, &layout);
    return memory;
}

static void every_size_has_a_layout_whose_parts_do_not_overlap(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof(sizes) / sizeof(sizes[0]); i++) {
        struct wire_layout layout;

        assert_int_equal(wire_layout_for(sizes[i], &layout), 0);
        assert_true(layout.facts_offset >= sizeof(struct wire_header));
        assert_true(layout.sources_offset >=
                    layout.facts_offset + WIRE_FACTS * sizeof(struct wire_fact));
        assert_true(layout.names_offset >=
                    layout.sources_offset +
                        WIRE_SOURCES * sizeof(struct wire_capability));
        assert_true(layout.threads_offset >=
                    layout.names_offset +
                        names_size(layout.name_count, layout.name_bytes));
        assert_true(layout.rings_offset >=
                    layout.threads_offset +
                        layout.thread_count * sizeof(struct thread_slot));
        assert_true(layout.rings_offset + ring_size(RING_RECORDS_MAX) <= sizes[i]);
    }
    struct wire_layout layout;

    assert_int_equal(wire_layout_for(WIRE_BYTES_MIN - 1, &layout), -EINVAL);
    assert_int_equal(wire_layout_for(UINT64_MAX, &layout), -EINVAL);
}

static void a_reader_sees_the_layout_that_the_producer_wrote(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof(sizes) / sizeof(sizes[0]); i++) {
        void *memory = made(sizes[i]);
        struct wire_view view;
        struct ring_reader reader;
        const char *reason;

        assert_int_equal(wire_view_open(&view, memory, sizes[i], &reason), 0);
        assert_ptr_equal(view.header, memory);
        assert_int_equal(view.layout.segment_bytes, sizes[i]);
        assert_int_equal(wire_view_ring(&view, 0, &reader, 1), 0);
        free(memory);
    }
}

static void a_truncated_segment_says_so(void **state)
{
    (void)state;
    void *memory = made(WIRE_BYTES_SMALL);
    struct wire_view view;
    const char *reason;

    assert_int_equal(wire_view_open(&view, memory, 0, &reason), -ENODATA);
    assert_int_equal(wire_view_open(&view, memory, 4095, &reason), -ENODATA);
    assert_int_equal(wire_view_open(&view, memory, WIRE_BYTES_SMALL - 1, &reason),
                     -ENODATA);
    assert_true(strlen(reason) > 0);
    free(memory);
}

static void another_major_version_is_told_from_garbage(void **state)
{
    (void)state;
    struct wire_header *header = made(WIRE_BYTES_SMALL);
    struct wire_view view;
    const char *reason;

    header->major++;
    assert_int_equal(wire_view_open(&view, header, WIRE_BYTES_SMALL, &reason),
                     -ENOTSUP);
    header->magic++;
    assert_int_equal(wire_view_open(&view, header, WIRE_BYTES_SMALL, &reason), -EPROTO);
    free(header);
}

/* Each layout word in turn gets every value that could lead a reader astray. */
static void no_layout_word_can_point_outside(void **state)
{
    (void)state;
    static const uint32_t lies[] = {
        0, 1, 4095, 0x7fffffff, 0x80000000, 0xffffff80, 0xffffffff, WIRE_BYTES_SMALL};
    size_t first = offsetof(struct wire_header, facts_offset);
    size_t last = offsetof(struct wire_header, session);

    for (size_t word = first; word < last; word += 4) {
        for (size_t i = 0; i < sizeof(lies) / sizeof(lies[0]); i++) {
            unsigned char *memory = made(WIRE_BYTES_SMALL);
            struct wire_view view;
            const char *reason;

            memcpy(memory + word, &lies[i], 4);
            if (wire_view_open(&view, memory, WIRE_BYTES_SMALL, &reason) == 0) {
                const struct wire_layout *layout = &view.layout;

                assert_true(layout->threads_offset +
                                layout->thread_count * sizeof(struct thread_slot) <=
                            WIRE_BYTES_SMALL);
                assert_true(layout->names_offset +
                                names_size(layout->name_count, layout->name_bytes) <=
                            WIRE_BYTES_SMALL);
                assert_true(layout->facts_offset <= WIRE_BYTES_SMALL);
            }
            free(memory);
        }
    }
}

static void a_ring_outside_of_the_pool_is_refused(void **state)
{
    (void)state;
    unsigned char *memory = made(WIRE_BYTES_SMALL);
    struct wire_view view;
    struct ring_reader reader;
    const char *reason;

    assert_int_equal(wire_view_open(&view, memory, WIRE_BYTES_SMALL, &reason), 0);
    struct thread_slot *slot = (void *)(memory + view.layout.threads_offset);

    atomic_store(&slot->ring_capacity, 64);
    atomic_store(&slot->ring_offset, view.layout.rings_offset);
    assert_int_equal(wire_view_ring(&view, 0, &reader, 1), 1);
    atomic_store(&slot->ring_offset, 128);
    assert_int_equal(wire_view_ring(&view, 0, &reader, 1), -EPROTO);
    atomic_store(&slot->ring_offset, UINT64_MAX - 127);
    assert_int_equal(wire_view_ring(&view, 0, &reader, 1), -EPROTO);
    atomic_store(&slot->ring_offset, view.layout.rings_offset);
    atomic_store(&slot->ring_capacity, UINT64_C(1) << 59);
    assert_int_equal(wire_view_ring(&view, 0, &reader, 1), -EPROTO);
    free(memory);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_size_has_a_layout_whose_parts_do_not_overlap),
        cmocka_unit_test(a_reader_sees_the_layout_that_the_producer_wrote),
        cmocka_unit_test(a_truncated_segment_says_so),
        cmocka_unit_test(another_major_version_is_told_from_garbage),
        cmocka_unit_test(no_layout_word_can_point_outside),
        cmocka_unit_test(a_ring_outside_of_the_pool_is_refused),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
