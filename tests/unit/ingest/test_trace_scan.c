/* What looks at the bytes of a trace: every scan against the scalar one, decimal text
 * against arithmetic, texts. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "ingest/trace/scan/number.h"
#include "ingest/trace/scan/scan.h"
#include "ingest/trace/scan/text.h"
#include "ingest/trace/scan/words.h"

#define TEXT_BYTES 4096u

static uint64_t random_next(uint64_t *seed)
{
    *seed ^= *seed << 13;
    *seed ^= *seed >> 7;
    *seed ^= *seed << 17;
    return *seed;
}

/* Text in which all that matters is frequent, in runs and across blocks. */
static void random_text(char *text, uint32_t length, uint64_t *seed)
{
    static const char bytes[] = "\\\\\\\\\"\"\"{}[]:, abc\n\x7f\x80\xff[]";
    uint64_t kind = random_next(seed) % 4;

    for (uint32_t i = 0; i < length; i++) {
        uint64_t next = random_next(seed);

        text[i] = kind == 0   ? (char)next
                  : kind == 1 ? (next % 3 ? '\\' : '"')
                              : bytes[next % (sizeof(bytes) - 1)];
    }
}

/* One byte after the other, as the sentence in scan.h says it. */
static uint32_t scan_plainly(const char *text, uint32_t length, uint32_t *index)
{
    uint32_t count = 0;
    bool inside = false, escaped = false;

    for (uint32_t i = 0; i < length; i++) {
        bool quote = text[i] == '"' && !escaped;

        escaped = text[i] == '\\' && !escaped;
        inside ^= quote;
        if (quote || (!inside && memchr("{}[]", text[i], 4) != NULL))
            index[count++] = i;
    }
    return count;
}

static void compare(const char *text, uint32_t length, enum trace_scan_kind kind,
                    uint64_t *seed)
{
    static uint32_t wanted[TEXT_BYTES], got[2 * TEXT_BYTES + TRACE_SCAN_SLACK];
    struct trace_scan_state state = {0, 0};
    uint32_t count = 0, from = 0;

    while (from < length) { /* in pieces of any size */
        uint32_t piece = 1 + (uint32_t)(random_next(seed) % 300);
        uint32_t to = piece < length - from ? from + piece : length;

        count += trace_scan_choose(kind)(text, from, to, &state, got + count);
        from = to;
    }
    assert_int_equal(count, scan_plainly(text, length, wanted));
    assert_memory_equal(got, wanted, count * sizeof(*got));
}

static void every_scan_finds_what_a_plain_one_finds(void **state)
{
    (void)state;
    static char text[TEXT_BYTES + TRACE_SCAN_SLACK];
    uint64_t seed = 0x2545f4914f6cdd1d;

    for (int round = 0; round < 3000; round++) {
        uint32_t length = (uint32_t)(random_next(&seed) % TEXT_BYTES);

        random_text(text, length, &seed);
        compare(text, length, TRACE_SCAN_SCALAR, &seed);
        compare(text, length, TRACE_SCAN_AVX2, &seed);
        compare(text, length, TRACE_SCAN_AVX512, &seed);
    }
    if (trace_scan_best() != TRACE_SCAN_AVX512)
        print_message("no AVX-512 here: its scan was not compared\n");
}

static void assert_us(const char *text, int64_t wanted)
{
    char padded[512] = {0};
    int64_t ns = -1;

    assert_true(strlen(text) < sizeof(padded) - TRACE_SCAN_SLACK);
    memcpy(padded, text, strlen(text));
    const char *end = number_us_to_ns(padded, &ns);

    if (end != padded + strlen(text) || ns != wanted)
        print_message("%s us gave %lld\n", text, (long long)ns);
    assert_ptr_equal(end, padded + strlen(text));
    assert_true(ns == wanted);
}

static void decimal_us_are_exact_ns(void **state)
{
    (void)state;
    assert_us("0", 0);
    assert_us("7", 7000);
    assert_us("12345678", 12345678000);
    assert_us("123456789", 123456789000);
    assert_us("1623142623460016", 1623142623460016000);
    assert_us("1682725898236567.125", 1682725898236567125);
    assert_us("9223372036854775.807", INT64_MAX);
    assert_us("-9223372036854775.807", -INT64_MAX);
    assert_us("0.001", 1);
    assert_us("0.0005", 1);
    assert_us("0.00049999999999999999999999", 0);
    assert_us("-0.0005", -1);
    assert_us("5.1", 5100);
    assert_us("5.12", 5120);
    assert_us("5.1239", 5124);
    assert_us("5.99999999", 6000);
    assert_us("00000000000000000000000005.5", 5500);
    assert_us("5.", 5000);
    assert_us(".5", 500);
    assert_us("1e3", 1000000);
    assert_us("1.5E-3", 2);
    assert_us("1.623142623460016e+15", 1623142623460016000);
    assert_us("0e999999999999", 0);
    assert_us("1e-999999999999", 0);
}

static void what_is_no_number_or_too_large_is_refused(void **state)
{
    (void)state;
    static const char *const texts[] = {
        "",    "-", "nan",  "inf",  "N/A",     ".", "e5",  "1e",
        "1e+", "x", "null", "1e99", "1e16384", "+", "\"5", "9223372036854775.808"};
    char padded[TRACE_SCAN_SLACK + 512] = {0};
    int64_t ns;

    for (size_t i = 0; i < sizeof(texts) / sizeof(texts[0]); i++) {
        memset(padded, 0, sizeof(padded));
        memcpy(padded, texts[i], strlen(texts[i]));
        assert_null(number_us_to_ns(padded, &ns));
    }
    memset(padded, '9', 400);
    assert_null(number_us_to_ns(padded, &ns));
    assert_null(number_integer(padded, &ns));
    memset(padded, '0', 399);
    padded[1] = '.';
    assert_true(number_us_to_ns(padded, &ns) == padded + 400 && ns == 0);
}

static void random_numbers_survive_their_text(void **state)
{
    (void)state;
    uint64_t seed = 0x9e3779b97f4a7c15;

    for (int round = 0; round < 200000; round++) {
        int64_t number = (int64_t)(random_next(&seed) >> (random_next(&seed) % 64));
        char text[64 + TRACE_SCAN_SLACK] = {0};
        int64_t got = 0;

        if (number == INT64_MIN)
            continue;
        snprintf(text, sizeof(text), "%lld", (long long)number);
        assert_non_null(number_integer(text, &got));
        assert_true(got == number);
        snprintf(text, sizeof(text), "%s%lld.%03lld", number < 0 ? "-" : "",
                 llabs(number / 1000), llabs(number % 1000));
        assert_non_null(number_us_to_ns(text, &got));
        assert_true(got == number);
    }
}

static void reals_are_read_to_many_digits(void **state)
{
    (void)state;
    static const char *const texts[] = {"37.5", "0.0004464285714285714", "1e-3",
                                        "-2.5e2", "542.060608"};
    static const double wanted[] = {37.5, 0.0004464285714285714, 1e-3, -250,
                                    542.060608};

    for (int i = 0; i < 5; i++) {
        char padded[128] = {0};
        double real = 0;

        memcpy(padded, texts[i], strlen(texts[i]));
        assert_non_null(number_real(padded, &real));
        assert_true(real >= wanted[i] - 1e-12 && real <= wanted[i] + 1e-12);
    }
}

static void assert_clean(const char *json, size_t size, const char *wanted)
{
    char clean[16];

    assert_int_equal(text_unescape(json, strlen(json), clean, size), strlen(wanted));
    assert_string_equal(clean, wanted);
}

static void texts_are_unescaped_and_clean(void **state)
{
    (void)state;
    assert_clean("a\\/b\\n", 16, "a/b\n");
    assert_clean("\\u0041\\u00e9\\u20ac", 16, "A\xc3\xa9\xe2\x82\xac");
    assert_clean("\\ud83d\\ude00", 16, "\xf0\x9f\x98\x80");
    assert_clean("\\ud83d!", 16, "\xef\xbf\xbd!");
    assert_clean("\\u0000", 16, "\xef\xbf\xbd");
    assert_clean("\\u00g0\\x\\", 16, "\\u00g0\\x\\");
    assert_clean("\xc0\x80", 16, "\xef\xbf\xbd\xef\xbf\xbd");
    assert_clean("\xed\xa0\x80", 16, "\xef\xbf\xbd\xef\xbf\xbd\xef\xbf\xbd");
    assert_clean("\xc3\xa9\xc3\xa9", 4, "\xc3\xa9"); /* cut between characters */
    assert_clean("abc", 1, "");
}

static void a_word_is_found_by_all_of_its_bytes(void **state)
{
    (void)state;
    static struct words words;
    char text[64] = "Python parent id!";

    words_add_keys(&words);
    assert_int_equal(words_find(&words, text, 16), KEY_PYTHON_PARENT_ID);
    assert_int_equal(words_find(&words, text, 17), 0);
    assert_int_equal(words_find(&words, text, 9), 0);
    text[14] = 'x';
    assert_int_equal(words_find(&words, text, 16), 0);
    memcpy(text, "est. achieved occupancy %", 25);
    assert_int_equal(words_find(&words, text, 25), KEY_OCCUPANCY);
    text[20] = 'x';
    assert_int_equal(words_find(&words, text, 25), 0);
    assert_int_equal(words_find(&words, text, 60), 0);
    assert_int_equal(words_find(&words, "ts\0\0\0\0\0\0", 2), KEY_TIME);
    assert_int_equal(words_find(&words, "ts\0\0\0\0\0\0", 3), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_scan_finds_what_a_plain_one_finds),
        cmocka_unit_test(decimal_us_are_exact_ns),
        cmocka_unit_test(what_is_no_number_or_too_large_is_refused),
        cmocka_unit_test(random_numbers_survive_their_text),
        cmocka_unit_test(reals_are_read_to_many_digits),
        cmocka_unit_test(texts_are_unescaped_and_clean),
        cmocka_unit_test(a_word_is_found_by_all_of_its_bytes),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
