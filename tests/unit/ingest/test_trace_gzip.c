/* Packed trace files that are cut, damaged, joined or bombs: whatever can be unpacked
 * is read, and memory stays bounded. */
#include <errno.h>
#include <sys/resource.h>
#include <zlib.h>

#include "unit/damaged_trace.h"

/* Appends a member; returns the new size. */
static size_t pack(const void *text, size_t length, uint8_t *to, size_t used,
                   size_t size)
{
    z_stream stream = {0};

    assert_int_equal(
        deflateInit2(&stream, 6, Z_DEFLATED, MAX_WBITS + 16, 8, Z_DEFAULT_STRATEGY),
        Z_OK);
    stream.next_in = (z_const Bytef *)(uintptr_t)text;
    stream.avail_in = (uInt)length;
    stream.next_out = to + used;
    stream.avail_out = (uInt)(size - used);
    assert_int_equal(deflate(&stream, Z_FINISH), Z_STREAM_END);
    assert_int_equal(deflateEnd(&stream), Z_OK);
    return size - stream.avail_out;
}

static void concatenated_gzip_members_are_one_text(void **state)
{
    (void)state;
    uint8_t packed[4096] = {0};
    size_t size = pack(small, 50, packed, 0, sizeof(packed));

    size = pack(small + 50, strlen(small) - 50, packed, size, sizeof(packed));
    struct traced traced = traced_bytes(packed, size + 512, &options);

    assert_int_equal(traced.count, 3); /* and zeros behind are padding */
    assert_int_equal(traced_report(&traced)->text_bytes, strlen(small));
    assert_string_equal(traced_report(&traced)->error, "");
    assert_false(traced_report(&traced)->is_cut);
    traced_free(&traced);
}

static void garbage_behind_a_gzip_is_left_out_and_said(void **state)
{
    (void)state;
    uint8_t packed[4096] = {0};
    size_t size = pack(small, strlen(small), packed, 0, sizeof(packed));

    memcpy(packed + size, "garbage", 7);
    struct traced traced = traced_bytes(packed, size + 7, &options);

    assert_int_equal(traced.count, 3);
    assert_non_null(strstr(traced_report(&traced)->error, "behind the gzip"));
    traced_free(&traced);
}

static void a_gzip_cut_at_any_byte_gives_what_was_before(void **state)
{
    (void)state;
    uint8_t packed[4096];
    size_t size = pack(small, strlen(small), packed, 0, sizeof(packed));
    uint32_t most = 0;

    for (size_t length = 2; length < size; length++) {
        struct traced traced = traced_bytes(packed, length, &options);

        assert_true(traced_report(&traced)->is_cut);
        assert_non_null(strstr(traced_report(&traced)->error, "gzip"));
        assert_true(traced.count >= most && traced.count <= 3);
        assert_int_equal(traced.result, traced.count > 0 ? 0 : traced.result);
        most = traced.count;
        traced_free(&traced);
    }
    assert_int_equal(most, 3); /* all but the checksum */
}

static void a_damaged_gzip_is_said_to_be(void **state)
{
    (void)state;
    uint8_t packed[4096];
    size_t size = pack(small, strlen(small), packed, 0, sizeof(packed));

    packed[size - 6] ^= 0xff; /* the checksum */
    struct traced traced = traced_bytes(packed, size, &options);

    assert_int_equal(traced.count, 3);
    assert_true(traced_report(&traced)->is_cut);
    assert_non_null(strstr(traced_report(&traced)->error, "damaged"));
    traced_free(&traced);
    packed[12] ^= 0xff;
    packed[13] ^= 0xff;
    traced = traced_bytes(packed, size, &options);
    assert_true(traced_report(&traced)->is_cut);
    traced_free(&traced);
}

static void a_gzip_bomb_is_gone_through_in_little_memory(void **state)
{
    (void)state;
    size_t size = (size_t)64 << 20, used;
    char *zeros = calloc(1, size);
    uint8_t *packed = malloc(1 << 20);
    struct rusage before, after;

    assert_true(zeros != NULL && packed != NULL);
    used = pack(zeros, size, packed, 0, 1 << 20);
    free(zeros);
    getrusage(RUSAGE_SELF, &before);
    struct traced traced = traced_bytes(packed, used, &options);

    getrusage(RUSAGE_SELF, &after);
    assert_int_equal(traced.result, -EBADMSG);
    assert_int_equal(traced_report(&traced)->text_bytes, size);
    assert_true(after.ru_maxrss - before.ru_maxrss < 8 << 10);
    traced_free(&traced);
    free(packed);
}

static void beyond_a_gigabyte_of_a_gzip_bomb_nothing_is_read(void **state)
{
    enum { MEMBERS = 24, ROOM = 1 << 17 };
    static const char begin[] =
        "{\"traceEvents\":[{\"ph\":\"X\",\"cat\":\"cpu_op\",\"name\":\"a\",\"pid\":1,"
        "\"tid\":1,\"ts\":1,\"dur\":1},\n";
    size_t size = (size_t)64 << 20, used, member, at;
    char *blanks = malloc(size);
    uint8_t *packed = malloc((MEMBERS + 1) * (size_t)ROOM);

    (void)state;
    assert_true(blanks != NULL && packed != NULL);
    memset(blanks, ' ', size);
    at = pack(begin, strlen(begin), packed, 0, ROOM);
    used = at;
    member = pack(blanks, size, packed + at, 0, ROOM);
    for (int i = 0; i < MEMBERS; i++, used += member)
        memmove(packed + used, packed + at, member);
    free(blanks);
    struct traced traced = traced_bytes(packed, used, &options);
    const struct trace_report *report = traced_report(&traced);

    assert_int_equal(traced.result, 0);
    assert_int_equal(report->events, 1);
    assert_true(report->is_cut);
    assert_non_null(strstr(report->error, "as no trace does: nothing was read beyond"));
    assert_true(report->text_bytes < ((uint64_t)1 << 30) + (4 << 20));
    traced_free(&traced);
    free(packed);
}

int main(int count, char **words)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(concatenated_gzip_members_are_one_text),
        cmocka_unit_test(garbage_behind_a_gzip_is_left_out_and_said),
        cmocka_unit_test(a_gzip_cut_at_any_byte_gives_what_was_before),
        cmocka_unit_test(a_damaged_gzip_is_said_to_be),
        cmocka_unit_test(a_gzip_bomb_is_gone_through_in_little_memory),
        cmocka_unit_test(beyond_a_gigabyte_of_a_gzip_bomb_nothing_is_read),
    };

    options.one_thread = count > 1 && strcmp(words[1], "alone") == 0;
    return cmocka_run_group_tests(tests, NULL, NULL);
}
