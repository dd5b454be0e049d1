/* Events that a second thread reads before their turn: what comes of a file is what one
 * thread makes of it, to the byte. */
#include <dirent.h>
#include <sched.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>

#include <cmocka.h>

#include "ingest/trace/parse/ahead.h"
#include "unit/traces.h"

#define LARGE_BYTES 500000u

static const struct trace_options alone = {
    .one_thread = true, .shapes = true, .stacks = true};
static const struct trace_options ahead = {
    .always_ahead = true, .shapes = true, .stacks = true};

/* A reader's callback may intern too, as that of thread names does: so it matters where
 * a batch ends. */
static bool keep(void *user, struct trace_event *events, uint32_t count)
{
    struct traced *traced = user;
    char text[32];
    int length = snprintf(text, sizeof(text), "behind %u", traced->count);

    (void)trace_names_intern(trace_reader_names(traced->reader), text, (size_t)length);
    return traced_keep(user, events, count);
}

static struct traced read_bytes(const char *bytes, size_t size,
                                const struct trace_options *options)
{
    struct traced traced = {.reader = trace_reader_new(options)};

    assert_non_null(traced.reader);
    assert_int_equal(trace_reader_open_bytes(traced.reader, bytes, size), 0);
    traced.result = trace_reader_run(traced.reader, keep, &traced);
    return traced;
}

static void assert_same_events(const struct traced *a, const struct traced *b)
{
    assert_int_equal(a->count, b->count);
    for (uint32_t i = 0; i < a->count; i++) {
        struct trace_event left = a->events[i], right = b->events[i];

        assert_int_equal(left.length, right.length);
        assert_memory_equal(left.text, right.text, left.length);
        left.text = right.text = NULL;
        assert_memory_equal(&left, &right, sizeof(left));
    }
}

static void assert_same_head(const struct trace_head *a, const struct trace_head *b)
{
    assert_int_equal(a->span_count, b->span_count);
    for (uint32_t i = 0; i < a->span_count; i++) {
        assert_string_equal(a->spans[i].key, b->spans[i].key);
        assert_int_equal(a->spans[i].length, b->spans[i].length);
        assert_memory_equal(a->spans[i].value, b->spans[i].value, a->spans[i].length);
        assert_int_equal(a->spans[i].offset, b->spans[i].offset);
    }
    assert_int_equal(a->is_array, b->is_array);
    assert_int_equal(a->base_time_ns, b->base_time_ns);
}

static void assert_same(const char *bytes, size_t size)
{
    struct traced one = read_bytes(bytes, size, &alone);
    struct traced two = read_bytes(bytes, size, &ahead);
    uint32_t names = trace_names_count(trace_reader_names(one.reader));

    assert_int_equal(one.result, two.result);
    assert_same_events(&one, &two);
    assert_int_equal(names, trace_names_count(trace_reader_names(two.reader)));
    for (uint32_t id = 0; id < names; id++)
        assert_string_equal(traced_text(&one, id), traced_text(&two, id));
    assert_memory_equal(traced_report(&one), traced_report(&two),
                        sizeof(struct trace_report));
    assert_same_head(trace_reader_head(one.reader), trace_reader_head(two.reader));
    traced_free(&one);
    traced_free(&two);
}

/* ---- files ---- */

struct bytes {
    char *at;
    size_t size;
};

static struct bytes read_whole(const char *name)
{
    char path[512];
    static char content[65536];

    snprintf(path, sizeof(path), "%s/%s", TRACES, name);
    FILE *file = fopen(path, "rb");

    assert_non_null(file);
    size_t size = fread(content, 1, sizeof(content), file);

    assert_in_range(size, 1, sizeof(content) - 1);
    assert_int_equal(fclose(file), 0);
    char *copy = malloc(size);

    assert_non_null(copy);
    memcpy(copy, content, size);
    return (struct bytes){copy, size};
}

static void for_each_file(void (*look)(struct bytes file))
{
    DIR *folder = opendir(TRACES);
    uint32_t files = 0;

    assert_non_null(folder);
    for (const struct dirent *entry; (entry = readdir(folder)) != NULL;) {
        if (entry->d_name[0] == '.')
            continue;
        struct bytes file = read_whole(entry->d_name);

        look(file);
        free(file.at);
        files++;
    }
    closedir(folder);
    assert_true(files > 20);
}

static void look_whole(struct bytes file)
{
    assert_same(file.at, file.size);
}

static void every_file_gives_the_same_as_one_thread_makes_of_it(void **state)
{
    (void)state;
    for_each_file(look_whole);
}

static void look_cut_and_damaged(struct bytes file)
{
    static const char strange[] = "\"\\{}[]:,x \0\n";

    for (size_t at = 1; at < file.size; at += 5) {
        char before = file.at[at];

        assert_same(file.at, at);
        file.at[at] = strange[at / 5 % (sizeof(strange) - 1)];
        assert_same(file.at, file.size);
        file.at[at] = before;
    }
}

static void cut_and_damaged_files_give_the_same(void **state)
{
    (void)state;
    for_each_file(look_cut_and_damaged);
}

/* ---- many blocks ---- */

static uint32_t random_below(uint64_t *seed, uint32_t below)
{
    *seed = *seed * UINT64_C(6364136223846793005) + 1;
    return (uint32_t)(*seed >> 33) % below;
}

/* Events of every kind, as many as make some blocks, and what stands around them. */
static size_t write_large(char *text)
{
    static const char *const kinds[] = {
        "{\"ph\": \"X\", \"cat\": \"cpu_op\", \"name\": \"aten::op%u\", \"pid\": 9, "
        "\"tid\": %u, \"ts\": %u.125, \"dur\": 3, \"args\": {\"External id\": 7, "
        "\"Input Dims\": [[%u, 2], []], \"Call stack\": \"a.py(%u): f;b\"}},\n",
        "{\"ph\":\"X\",\"cat\":\"kernel\",\"name\":\"k<%u, \\\"x\\\">\",\"pid\":0,"
        "\"tid\":\"stream %u\",\"ts\":%u,\"dur\":1.5,\"args\":{\"grid\":[%u,1,1],"
        "\"correlation\":%u}} , ",
        "{\"name\": \"[memory]\", \"ph\": \"i\", \"s\": \"t\", \"pid\": %u, "
        "\"tid\": %u, \"ts\": %u, \"args\": {\"Bytes\": -%u, \"Addr\": \"N/A%u\", "
        "\"list\": [{\"a\": 1}, {\"b\": 2}]}},",
        "{\"ph\": \"M\", \"name\": \"thread_name\", \"name\": \"thread%u\", \"pid\": "
        "%u, \"tid\": %u, \"args\": {\"name\": \"t\\u00e4%u %u\"}},",
        "{\"ph\": \"s\", \"id\": %u, \"pid\": %u, \"tid\": %u, \"ts\": %u, \"cat\": "
        "\"Other%u\", \"name\": null},",
    };
    uint64_t seed = 7;
    size_t size = (size_t)snprintf(text, LARGE_BYTES,
                                   "{\"schemaVersion\": 1, \"traceEvents\": [");

    while (size < LARGE_BYTES - 2000) {
        uint32_t kind = random_below(&seed, sizeof(kinds) / sizeof(kinds[0]));
        uint32_t number = random_below(&seed, 300);

#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wformat-nonliteral"
        size += (size_t)snprintf(text + size, LARGE_BYTES - size, kinds[kind], number,
                                 number % 5, number * 7, number / 3, number);
#pragma GCC diagnostic pop
    }
    return size + (size_t)snprintf(text + size, LARGE_BYTES - size,
                                   "{\"ph\": \"?\"}], \"displayTimeUnit\": \"ns\", "
                                   "\"baseTimeNanoseconds\": 5}\n");
}

static void many_blocks_give_the_same_wherever_they_are_damaged(void **state)
{
    (void)state;
    static const char strange[] = "\"\\{}[]:,x\0\n1";
    static char text[LARGE_BYTES], copy[LARGE_BYTES];
    size_t size = write_large(text);
    uint64_t seed = 3;

    assert_same(text, size);
    for (int round = 0; round < 60; round++) {
        uint32_t damages = 1 + random_below(&seed, 12);

        memcpy(copy, text, size);
        while (damages-- > 0)
            copy[random_below(&seed, (uint32_t)size)] =
                strange[random_below(&seed, sizeof(strange) - 1)];
        assert_same(copy, round % 4 == 0 ? random_below(&seed, (uint32_t)size) : size);
    }
}

static void a_block_of_sound_events_is_read_but_for_the_first(void **state)
{
    (void)state;
    static const char text[] =
        "[{\"ph\":\"M\",\"name\":\"a\"},{\"ph\":\"M\",\"name\":\"b\"}, "
        "{\"ph\":\"M\",\"name\":\"c\"},{\"ph\":\"X\",\"name\":\"no time\"}]";
    struct ahead *thread = ahead_new(&ahead);
    struct feed *feed = feed_new(false, trace_scan_choose(TRACE_SCAN_BEST));
    struct feed_block block;

    assert_non_null(thread);
    assert_non_null(feed);
    feed_set_ahead(feed, ahead_read, thread, true);
    fill_open_bytes(feed_fill(feed), text, sizeof(text) - 1);
    assert_int_equal(feed_next(feed, &block), 1);
    assert_non_null(block.run);
    assert_int_equal(block.run->count, 2);
    assert_int_equal(block.run->text_count, 2);
    assert_int_equal(block.run->begin, FEED_HEADROOM + (strstr(text, "{\"ph\":\"M\","
                                                                     "\"name\":\"b") -
                                                        text));
    assert_int_equal(block.run->end,
                     FEED_HEADROOM + (strstr(text, ",{\"ph\":\"X\"") - text));
    feed_free(feed);
    ahead_free(thread);
}

/* ---- threads ---- */

static uint32_t count_threads(void)
{
    DIR *tasks = opendir("/proc/self/task");
    uint32_t threads = 0;

    assert_non_null(tasks);
    for (const struct dirent *entry; (entry = readdir(tasks)) != NULL;)
        threads += entry->d_name[0] != '.';
    closedir(tasks);
    return threads;
}

static bool note_threads(void *user, struct trace_event *events, uint32_t count)
{
    (void)events;
    (void)count;
    *(uint32_t *)user = count_threads();
    return true;
}

static uint32_t threads_while_reading(void)
{
    /* So many blocks that a second thread cannot have ended at the first event. */
    static char text[8 * FEED_BLOCK_BYTES];
    struct trace_reader *reader = trace_reader_new(NULL);
    uint32_t threads = 0;

    memset(text, ' ', sizeof(text));
    memcpy(text, "[{\"ph\":\"M\"},", 12);
    text[sizeof(text) - 1] = ']';
    assert_non_null(reader);
    assert_int_equal(trace_reader_open_bytes(reader, text, sizeof(text)), 0);
    assert_int_equal(trace_reader_run(reader, note_threads, &threads), 0);
    trace_reader_free(reader);
    return threads;
}

static void where_there_is_one_processor_there_is_one_thread(void **state)
{
    (void)state;
    uint32_t before = count_threads();
    cpu_set_t all, one;
    size_t processor = 0;

    assert_int_equal(sched_getaffinity(0, sizeof(all), &all), 0);
    while (!CPU_ISSET(processor, &all))
        processor++;
    CPU_ZERO(&one);
    CPU_SET(processor, &one);
    assert_int_equal(sched_setaffinity(0, sizeof(one), &one), 0);
    uint32_t threads = threads_while_reading();

    assert_int_equal(sched_setaffinity(0, sizeof(all), &all), 0);
    assert_int_equal(threads, before);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_block_of_sound_events_is_read_but_for_the_first),
        cmocka_unit_test(every_file_gives_the_same_as_one_thread_makes_of_it),
        cmocka_unit_test(cut_and_damaged_files_give_the_same),
        cmocka_unit_test(where_there_is_one_processor_there_is_one_thread),
        cmocka_unit_test(many_blocks_give_the_same_wherever_they_are_damaged),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
