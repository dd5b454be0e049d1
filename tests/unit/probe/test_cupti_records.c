/* Activity buffers to plain events: the strides of every version, and hostile bytes. */
#include <dlfcn.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "probe/cupti/records.h"

#define BUFFER 4096u

/* Bytes of a record: CUDA 11.8, 12.4, 13.0, and one that is not there yet. */
struct version {
    const char *name;
    uint16_t kernel, memcpy, memset, sync, overhead, graph;
};
static const struct version versions[] = {{"11.8", 200, 88, 88, 40, 40, 48},
                                          {"12.4", 208, 88, 88, 40, 56, 56},
                                          {"13.0", 216, 96, 88, 56, 56, 56},
                                          {"later", 320, 128, 128, 72, 80, 80}};
static const struct version *speaks = &versions[0];

static _Alignas(8) uint8_t buffer[BUFFER];
static size_t filled;

static uint16_t stride_of(uint32_t kind)
{
    switch (kind) {
    case CUPTI_KERNEL:
        return speaks->kernel;
    case CUPTI_MEMCPY:
        return speaks->memcpy;
    case CUPTI_MEMSET:
        return speaks->memset;
    case CUPTI_RUNTIME:
    case CUPTI_DRIVER:
        return 40;
    case CUPTI_SYNC:
        return speaks->sync;
    case CUPTI_OVERHEAD:
        return speaks->overhead;
    case CUPTI_GRAPH:
        return speaks->graph;
    case CUPTI_EXTERNAL:
        return 24;
    case 55: /* a kind that we do not read */
        return 32;
    default:
        return 0;
    }
}

/* As the library does it. */
static int next(uint8_t *bytes, size_t valid, void **record)
{
    uint8_t *at = *record;
    uint32_t kind = 0;

    if (at == NULL) {
        at = bytes;
    } else {
        memcpy(&kind, at, sizeof(kind));
        at += stride_of(kind);
    }
    size_t from = (size_t)(at - bytes);

    if (valid - from < sizeof(kind))
        return CUPTI_ENDED;
    memcpy(&kind, at, sizeof(kind));
    if (stride_of(kind) == 0)
        return 21;
    if (stride_of(kind) > valid - from)
        return CUPTI_ENDED;
    *record = at;
    return 0;
}

static uint8_t *add(uint32_t kind)
{
    uint8_t *at = buffer + filled;

    assert_true(filled + stride_of(kind) <= sizeof(buffer));
    memset(at, 0, stride_of(kind));
    memcpy(at, &kind, sizeof(kind));
    filled += stride_of(kind);
    return at;
}

static void put32(uint8_t *at, size_t offset, uint32_t value)
{
    memcpy(at + offset, &value, sizeof(value));
}

static void put64(uint8_t *at, size_t offset, uint64_t value)
{
    memcpy(at + offset, &value, sizeof(value));
}

static void add_kernel(uint64_t start, uint64_t end, uint32_t correlation)
{
    uint8_t *at = add(CUPTI_KERNEL);
    uint16_t registers = 96;

    memcpy(at + 6, &registers, sizeof(registers));
    put64(at, 16, start);
    put64(at, 24, end);
    put32(at, 40, 3);
    put32(at, 44, 1);
    put32(at, 48, 7);
    for (uint32_t i = 0; i < 3; i++) {
        put32(at, 52 + 4 * i, 10 + i);
        put32(at, 64 + 4 * i, 20 + i);
    }
    put32(at, 76, 1024);
    put32(at, 80, 2048);
    put32(at, 92, correlation);
    put64(at, 104, (uintptr_t) "gemm");
    put64(at, 144, 77);
    put32(at, 156, 5);
}

static void add_call(uint32_t kind, uint32_t call, uint64_t start, uint64_t end)
{
    uint8_t *at = add(kind);

    put32(at, 4, call);
    put64(at, 8, start);
    put64(at, 16, end);
    put32(at, 28, 4321);
    put32(at, 32, 9);
}

static struct cupti_reader reader;
static struct cupti_layout layout;

static void open_buffer(void)
{
    cupti_reader_open(&reader, &layout, next, buffer, filled);
}

static int clean(void **state)
{
    (void)state;
    filled = 0;
    speaks = &versions[0];
    layout = (struct cupti_layout){.stride = {0}};
    return 0;
}

static void strides_are_learned_from_any_library(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof(versions) / sizeof(versions[0]); i++) {
        speaks = &versions[i];
        assert_int_equal(cupti_layout_learn(&layout, next), 10);
        for (uint32_t kind = 0; kind < CUPTI_KINDS; kind++)
            assert_int_equal(layout.stride[kind], stride_of(kind));
    }
}

static int silent(uint8_t *bytes, size_t valid, void **record)
{
    (void)bytes, (void)valid, (void)record;
    return 999;
}

static int liar(uint8_t *bytes, size_t valid, void **record)
{
    (void)valid;
    *record = *record == NULL ? bytes : bytes - 4096;
    return 0;
}

static void a_library_that_does_not_answer_teaches_nothing(void **state)
{
    (void)state;
    assert_int_equal(cupti_layout_learn(&layout, silent), 0);
    assert_int_equal(cupti_layout_learn(&layout, liar), 0);
    for (uint32_t kind = 0; kind < CUPTI_KINDS; kind++)
        assert_int_equal(layout.stride[kind], 0);
}

static void a_kernel_is_the_same_in_every_version(void **state)
{
    (void)state;
    struct cupti_record record;

    for (size_t i = 0; i < sizeof(versions) / sizeof(versions[0]); i++) {
        speaks = &versions[i];
        filled = 0;
        (void)cupti_layout_learn(&layout, next);
        add_kernel(1000, 3000, 42);
        add_kernel(4000, 4000, 43);
        open_buffer();
        assert_true(cupti_read(&reader, &record));
        assert_int_equal(record.kind, CUPTI_KERNEL);
        assert_int_equal(record.start, 1000);
        assert_int_equal(record.end, 3000);
        assert_int_equal(record.device, 3);
        assert_int_equal(record.context, 1);
        assert_int_equal(record.stream, 7);
        assert_int_equal(record.correlation, 42);
        assert_int_equal(record.registers, 96);
        for (uint32_t axis = 0; axis < 3; axis++) {
            assert_int_equal(record.grid[axis], 10 + axis);
            assert_int_equal(record.block[axis], 20 + axis);
        }
        assert_int_equal(record.static_bytes, 1024);
        assert_int_equal(record.dynamic_bytes, 2048);
        assert_string_equal((const char *)(uintptr_t)record.name, "gemm");
        assert_int_equal(record.graph_node, 77);
        assert_int_equal(record.graph, 5);
        assert_true(cupti_read(&reader, &record));
        assert_int_equal(record.correlation, 43);
        assert_false(cupti_read(&reader, &record));
        assert_int_equal(reader.skipped.broken, 0);
    }
}

static void calls_copies_and_correlations_are_read(void **state)
{
    (void)state;
    struct cupti_record record;
    uint8_t *at;

    (void)cupti_layout_learn(&layout, next);
    add_call(CUPTI_RUNTIME, 211, 500, 600);
    at = add(CUPTI_MEMCPY);
    at[4] = 1;
    at[5] = 2;
    at[6] = 3;
    put64(at, 8, 1 << 20);
    put64(at, 16, 700);
    put64(at, 24, 800);
    at = add(CUPTI_EXTERNAL);
    put64(at, 8, 123456789012);
    put32(at, 16, 9);
    at = add(CUPTI_SYNC);
    put32(at, 4, 3);
    put64(at, 8, 900);
    put64(at, 16, 950);
    at = add(CUPTI_OVERHEAD);
    put32(at, 4, CUPTI_OVERHEAD_MODULE_LOADING);
    put64(at, 24, 960);
    put64(at, 32, 990);
    open_buffer();
    assert_true(cupti_read(&reader, &record));
    assert_int_equal(record.call, 211);
    assert_int_equal(record.thread, 4321);
    assert_int_equal(record.correlation, 9);
    assert_int_equal(record.end - record.start, 100);
    assert_true(cupti_read(&reader, &record));
    assert_int_equal(record.bytes, 1 << 20);
    assert_int_equal(record.copy, 1);
    assert_int_equal(record.from, 2);
    assert_int_equal(record.to, 3);
    assert_true(cupti_read(&reader, &record));
    assert_int_equal(record.external_id, 123456789012);
    assert_int_equal(record.correlation, 9);
    assert_true(cupti_read(&reader, &record));
    assert_int_equal(record.type, 3);
    assert_int_equal(record.start, 900);
    assert_true(cupti_read(&reader, &record));
    assert_int_equal(record.type, CUPTI_OVERHEAD_MODULE_LOADING);
    assert_int_equal(record.end, 990);
    assert_false(cupti_read(&reader, &record));
}

static void records_without_a_time_are_counted_and_not_given(void **state)
{
    (void)state;
    struct cupti_record record;

    (void)cupti_layout_learn(&layout, next);
    add_kernel(0, 10, 1);
    add_kernel(10, 0, 2);
    add_kernel(10, 9, 3);
    add_kernel(10, 20, 4);
    open_buffer();
    assert_true(cupti_read(&reader, &record));
    assert_int_equal(record.correlation, 4);
    assert_false(cupti_read(&reader, &record));
    assert_int_equal(reader.skipped.untimed, 3);
}

static void unknown_kinds_are_counted_and_passed_over(void **state)
{
    (void)state;
    struct cupti_record record;

    (void)cupti_layout_learn(&layout, next);
    (void)add(55);
    add_kernel(10, 20, 4);
    (void)add(55);
    open_buffer();
    assert_true(cupti_read(&reader, &record));
    assert_int_equal(record.correlation, 4);
    assert_false(cupti_read(&reader, &record));
    assert_int_equal(reader.skipped.unknown, 2);
}

static void a_kind_that_the_library_cannot_walk_ends_its_buffer(void **state)
{
    (void)state;
    struct cupti_record record;

    (void)cupti_layout_learn(&layout, next);
    add_kernel(10, 20, 4);
    put32(buffer, filled, 63);
    filled += 64;
    open_buffer();
    assert_true(cupti_read(&reader, &record));
    assert_false(cupti_read(&reader, &record));
    assert_int_equal(reader.skipped.broken, 1);
    assert_false(cupti_read(&reader, &record));
    assert_int_equal(reader.skipped.broken, 1);
}

static int at_place;
static int places(uint8_t *bytes, size_t valid, void **record)
{
    /* Backwards, before the buffer, behind it, between two words, no progress. */
    static const int64_t offsets[] = {0, -8, 4096, 12, 0};

    (void)valid;
    *record = (void *)((uintptr_t)bytes +
                       (uintptr_t)(*record == NULL ? 0 : offsets[at_place]));
    return 0;
}

static void a_walk_that_leaves_its_buffer_ends_it(void **state)
{
    (void)state;
    struct cupti_record record;

    (void)cupti_layout_learn(&layout, next);
    add_kernel(10, 20, 4);
    for (at_place = 1; at_place < 5; at_place++) {
        cupti_reader_open(&reader, &layout, places, buffer, filled);
        assert_true(cupti_read(&reader, &record));
        assert_false(cupti_read(&reader, &record));
        assert_int_equal(reader.skipped.broken, 1);
    }
}

static void a_cut_structure_is_counted_and_never_read_beyond_its_end(void **state)
{
    (void)state;
    struct cupti_record record;

    /* Exactly as long as it says: the sanitizer guards what lies behind. */
    at_place = 4;
    add_kernel(10, 20, 4);
    for (size_t bytes = 0; bytes < filled; bytes++) {
        uint8_t *exact = test_malloc(bytes > 0 ? bytes : 1);

        memcpy(exact, buffer, bytes);
        cupti_reader_open(&reader, &layout, places, exact, bytes);
        assert_false(cupti_read(&reader, &record));
        assert_int_equal(reader.skipped.cut, bytes >= 8);
        test_free(exact);
    }
}

/* Says what it knows, for the check against NVIDIA's headers. */
static int print_fields(void)
{
    for (const struct cupti_field *field = cupti_fields; field->kind != 0; field++)
        printf("%u %s %u %u\n", field->kind, field->name, field->offset, field->size);
    return 0;
}

/* A kernel between two of its calls, walked over by the library itself. */
static bool reads_by(cupti_next real)
{
    static struct version spoken;
    static const uint32_t kinds[] = {CUPTI_RUNTIME, CUPTI_KERNEL, CUPTI_RUNTIME};
    struct cupti_record record;
    bool right = true;

    spoken.kernel = layout.stride[CUPTI_KERNEL];
    speaks = &spoken;
    filled = 0;
    add_call(CUPTI_RUNTIME, 211, 500, 600);
    add_kernel(1000, 3000, 42);
    add_call(CUPTI_RUNTIME, 165, 3100, 3200);
    cupti_reader_open(&reader, &layout, real, buffer, filled);
    for (size_t i = 0; i < 3; i++)
        right = right && cupti_read(&reader, &record) && record.kind == kinds[i] &&
                record.end > record.start &&
                (i != 1 || (record.correlation == 42 && record.graph == 5));
    return right && !cupti_read(&reader, &record) && reader.skipped.broken == 0;
}

/* Says what a real library teaches, for the same check: it may not survive it. Where it
 * teaches, it must walk over our own records too. */
static int print_strides(const char *path)
{
    void *library = dlopen(path, RTLD_NOW);
    void *symbol = library != NULL ? dlsym(library, "cuptiActivityGetNextRecord") : NULL;
    cupti_next real;

    if (symbol == NULL)
        return 1;
    memcpy(&real, &symbol, sizeof(real));
    if (cupti_layout_learn(&layout, real) == 0)
        return 0;
    for (uint32_t kind = 0; kind < CUPTI_KINDS; kind++)
        if (layout.stride[kind] != 0)
            printf("%u %u\n", kind, layout.stride[kind]);
    if (!reads_by(real))
        printf("0 0\n"); /* no kind: the check says what it means */
    return 0;
}

int main(int count, char **words)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup(strides_are_learned_from_any_library, clean),
        cmocka_unit_test_setup(a_library_that_does_not_answer_teaches_nothing, clean),
        cmocka_unit_test_setup(a_kernel_is_the_same_in_every_version, clean),
        cmocka_unit_test_setup(calls_copies_and_correlations_are_read, clean),
        cmocka_unit_test_setup(records_without_a_time_are_counted_and_not_given, clean),
        cmocka_unit_test_setup(unknown_kinds_are_counted_and_passed_over, clean),
        cmocka_unit_test_setup(a_kind_that_the_library_cannot_walk_ends_its_buffer,
                               clean),
        cmocka_unit_test_setup(a_walk_that_leaves_its_buffer_ends_it, clean),
        cmocka_unit_test_setup(a_cut_structure_is_counted_and_never_read_beyond_its_end,
                               clean),
    };

    if (count == 2 && strcmp(words[1], "--fields") == 0)
        return print_fields();
    if (count == 3 && strcmp(words[1], "--strides") == 0)
        return print_strides(words[2]);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
