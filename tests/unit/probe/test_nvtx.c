/* NVTX through the injection, with NVTX played by this file: a table of slots. */
#include <errno.h>
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>
#include <wchar.h>

#include <cmocka.h>

#include "probe/nvtx.h"
#include "probe/probe.h"
#include "probe/thread.h"
#include "segments.h"

#define SLOTS 16

static nvtx_function functions[2][SLOTS];
static nvtx_function *slots[2][SLOTS];

static int clean(void **state)
{
    unsetenv("TRAINGLASS_LEVEL");
    return segments_clear(state);
}

static int module_table(uint32_t module, nvtx_function ***table, unsigned *size)
{
    int which = module == NVTX_CORE2;

    if (module != NVTX_CORE && module != NVTX_CORE2)
        return 0;
    *table = slots[which];
    *size = SLOTS;
    return 1;
}

static const void *export_table(uint32_t id)
{
    static const struct nvtx_callbacks callbacks = {sizeof(callbacks), module_table};

    return id == NVTX_TABLE_CALLBACKS ? &callbacks : NULL;
}

static bool inject(void)
{
    for (int i = 0; i < 2 * SLOTS; i++)
        slots[i / SLOTS][i % SLOTS] =
            i % SLOTS > 0 ? &functions[i / SLOTS][i % SLOTS] : NULL;
    return InitializeInjectionNvtx2(export_table) == 1 &&
           InitializeInjectionNvtx2(export_table) == 1; /* once per object */
}

#define CALL(type, module, index) ((type)functions[module][index])

static int push_a(const char *text)
{
    return CALL(int (*)(const char *), 0, NVTX_RANGE_PUSH_A)(text);
}

static int pop(void)
{
    return CALL(int (*)(void), 0, NVTX_RANGE_POP)();
}

static int domain_push(void *domain, const struct nvtx_attributes *event)
{
    return CALL(int (*)(void *, const struct nvtx_attributes *), 1,
                NVTX_DOMAIN_RANGE_PUSH_EX)(domain, event);
}

static int domain_pop(void *domain)
{
    return CALL(int (*)(void *), 1, NVTX_DOMAIN_RANGE_POP)(domain);
}

/* ---- scenarios --------------------------------------------------------------------- */

static int push_texts_of_all_kinds(void)
{
    char text[8] = "first";
    struct nvtx_attributes event = {.version = 3, .size = sizeof(event)};

    if (!inject())
        return 1;
    errno = EDOM;
    if (push_a(text) != 0 || push_a("inner") != 1 || pop() != 1 || pop() != 0)
        return 2;
    (void)snprintf(text, sizeof(text), "second"); /* the same pointer, another text */
    (void)push_a(text);
    (void)pop();
    (void)CALL(int (*)(const wchar_t *), 0, NVTX_RANGE_PUSH_W)(L"\u00fcber");
    (void)pop();
    event.message_type = NVTX_ASCII;
    event.message = "a text of more than sixteen bytes";
    (void)CALL(int (*)(const struct nvtx_attributes *), 0, NVTX_RANGE_PUSH_EX)(&event);
    (void)pop();
    (void)CALL(int (*)(const struct nvtx_attributes *), 0, NVTX_RANGE_PUSH_EX)(&event);
    (void)pop();
    (void)pop(); /* one too many */
    return errno == EDOM ? 0 : 3;
}

static void ranges_have_the_text_that_was_pushed(void **state)
{
    (void)state;
    static const char *const expected[] = {"inner",
                                           "first",
                                           "second",
                                           ("\xc3\xbc"
                                            "ber"),
                                           "a text of more than sixteen bytes",
                                           "a text of more than sixteen bytes"};
    struct segment_file file;
    struct event events[32];
    char name[64];

    assert_int_equal(segments_run(push_texts_of_all_kinds), 0);
    assert_int_equal(segments_open_only(segments_directory, &file), 0);
    assert_int_equal(segments_events(&file, 0, events, 32), 7);
    for (int i = 0; i < 6; i++) {
        assert_int_equal(EVENT_KIND(events[i + 1].meta), EVENT_USER_RANGE);
        assert_int_equal(EVENT_FLAGS(events[i + 1].meta), EVENT_RANGE_NVTX);
        assert_string_equal(segments_name(&file, events[i + 1].meta, name),
                            expected[i]);
    }
    assert_int_equal(atomic_load(&file.view.sources[WIRE_SOURCE_NVTX].state),
                     WIRE_STATE_ACTIVE);
    segments_close(&file);
}

/* Whoever reads a byte beyond the text dies. */
static char *page_end(void)
{
    size_t page = (size_t)sysconf(_SC_PAGESIZE);
    char *pages = mmap(NULL, 2 * page, PROT_READ | PROT_WRITE,
                       MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

    if (pages == MAP_FAILED || mprotect(pages + page, page, PROT_NONE) != 0)
        return NULL;
    return pages + page;
}

static const char *const edge_texts[] = {"edge", "edge", "ridge", "", "x"};

static int push_at_a_page_end(void)
{
    char *end = page_end();

    if (!inject() || end == NULL)
        return 1;
    for (size_t i = 0; i < sizeof(edge_texts) / sizeof(edge_texts[0]); i++) {
        size_t bytes = strlen(edge_texts[i]) + 1;

        memcpy(end - bytes, edge_texts[i], bytes);
        (void)push_a(end - bytes);
        (void)pop();
    }
    (void)push_a(NULL);
    (void)pop();
    return 0;
}

static void texts_are_read_to_their_end_and_no_further(void **state)
{
    (void)state;
    struct segment_file file;
    struct event events[32];
    char name[64];

    assert_int_equal(segments_run(push_at_a_page_end), 0);
    assert_int_equal(segments_open_only(segments_directory, &file), 0);
    assert_int_equal(segments_events(&file, 0, events, 32), 7);
    for (int i = 0; i < 5; i++)
        assert_string_equal(segments_name(&file, events[i + 1].meta, name),
                            edge_texts[i]);
    assert_int_equal(EVENT_NAME(events[6].meta), EVENT_NAME(events[4].meta));
    segments_close(&file);
}

#define DEEP 100 /* deeper than a slot of the segment holds */

static int push_deep(void)
{
    if (!inject())
        return 1;
    for (int depth = 0; depth < DEEP; depth++) {
        if (push_a(depth % 2 == 0 ? "even" : "odd") != depth)
            return 2;
    }
    for (int depth = DEEP; depth-- > 0;) {
        if (pop() != depth)
            return 3;
    }
    return pop() == -1 ? 0 : 4;
}

static void deep_ranges_keep_their_order(void **state)
{
    (void)state;
    static struct event events[DEEP + 8];
    struct segment_file file;
    char name[64];

    assert_int_equal(segments_run(push_deep), 0);
    assert_int_equal(segments_open_only(segments_directory, &file), 0);
    assert_int_equal(segments_events(&file, 0, events, DEEP + 8), DEEP + 1);
    for (int i = 0; i < DEEP; i++)
        assert_string_equal(segments_name(&file, events[i + 1].meta, name),
                            i % 2 == 0 ? "odd" : "even");
    segments_close(&file);
}

static int push_in_a_domain(void)
{
    struct nvtx_attributes event = {.version = 3, .size = sizeof(event)};

    if (!inject() || probe_start(WIRE_ROLE_TRAINER) != 0)
        return 1;
    void *domain = CALL(void *(*)(const char *), 1, NVTX_DOMAIN_CREATE_A)("a library");

    event.message_type = NVTX_REGISTERED;
    event.message = CALL(void *(*)(void *, const char *), 1,
                         NVTX_DOMAIN_REGISTER_STRING_A)(domain, "all_reduce");
    (void)domain_push(domain, &event);
    (void)push_a("the user's"); /* inside of it */
    (void)pop();
    (void)domain_pop(domain);
    return 0;
}

static void ranges_of_libraries_are_recorded_with_the_ops_of_a_step(void **state)
{
    (void)state;
    struct segment_file file;
    struct event events[32];
    char name[64];

    assert_int_equal(setenv("TRAINGLASS_LEVEL", "phases", 1), 0);
    assert_int_equal(segments_run(push_in_a_domain), 0);
    assert_int_equal(segments_open_only(segments_directory, &file), 0);
    assert_int_equal(segments_events(&file, 0, events, 32), 2);
    assert_string_equal(segments_name(&file, events[1].meta, name), "the user's");
    segments_close(&file);

    assert_int_equal(segments_remove_all(segments_directory), 0);
    assert_int_equal(setenv("TRAINGLASS_LEVEL", "ops", 1), 0);
    assert_int_equal(segments_run(push_in_a_domain), 0);
    assert_int_equal(segments_open_only(segments_directory, &file), 0);
    assert_int_equal(segments_events(&file, 0, events, 32), 3);
    assert_string_equal(segments_name(&file, events[2].meta, name), "all_reduce");
    segments_close(&file);
}

static void *end_range(void *id)
{
    CALL(void (*)(uint64_t), 0, NVTX_RANGE_END)(*(uint64_t *)id);
    return NULL;
}

static int start_here_and_end_there(void)
{
    pthread_t thread;

    if (!inject())
        return 1;
    uint64_t id =
        CALL(uint64_t(*)(const char *), 0, NVTX_RANGE_START_A)("across threads");

    if (id == 0 || pthread_create(&thread, NULL, end_range, &id) != 0)
        return 2;
    pthread_join(thread, NULL);
    end_range(&id); /* it has ended already */
    id = 12345;     /* nobody started it */
    end_range(&id);
    return 0;
}

static void a_range_may_end_on_another_thread(void **state)
{
    (void)state;
    struct segment_file file;
    struct event events[32];
    char name[64];

    assert_int_equal(segments_run(start_here_and_end_there), 0);
    assert_int_equal(segments_open_only(segments_directory, &file), 0);
    assert_int_equal(segments_events(&file, 0, events, 32), 1);
    assert_int_equal(segments_events(&file, 1, events, 32), 2);
    assert_string_equal(segments_name(&file, events[1].meta, name), "across threads");
    assert_int_equal(EVENT_FLAGS(events[1].meta), EVENT_RANGE_NVTX | EVENT_RANGE_ASYNC);
    assert_int_equal(events[1].aux, 1); /* slot 0 opened it */
    segments_close(&file);
}

/* Three ranges and a mark of NVTX in a step, and one range of trainglass.h. */
static int name_ranges_of_two_kinds(void)
{
    const uint16_t own = (uint16_t)(EVENT_USER_RANGE | EVENT_RANGE_API << 8);

    setenv("TRAINGLASS_LEVEL", "phases", 1); /* steps of no length are bare in auto */
    if (!inject() || probe_start(WIRE_ROLE_TRAINER) != 0)
        return 1;
    probe_step_mark(STEPS_STEP, 0);
    for (int i = 0; i < 2; i++) {
        (void)push_a("pushed");
        (void)pop();
    }
    uint64_t id = CALL(uint64_t(*)(const char *), 0, NVTX_RANGE_START_A)("started");

    end_range(&id);
    CALL(void (*)(const char *), 0, NVTX_MARK_A)("marked");
    probe_range_begin(EVENT_META(probe_name("own"), EVENT_USER_RANGE, EVENT_RANGE_API, 0));
    (void)push_a("not the innermost when it ends");
    probe_range_end(own, 0);
    (void)pop();
    probe_step_mark(STEPS_STEP, 0);
    return 0;
}

static void ranges_of_nvtx_are_booked_as_nvtx_and_no_others(void **state)
{
    (void)state;
    struct segment_file file;

    assert_int_equal(segments_run(name_ranges_of_two_kinds), 0);
    assert_int_equal(segments_open_only(segments_directory, &file), 0);
    assert_int_equal(atomic_load(&file.view.sources[WIRE_SOURCE_NVTX].events), 5);
    assert_int_equal(atomic_load(&file.view.sources[WIRE_SOURCE_RANGES].events), 1);
    segments_close(&file);
}

static int inject_from_something_else(void)
{
    return InitializeInjectionNvtx2(NULL) == 1 && !probe_is_open() ? 0 : 1;
}

static void injection_alone_opens_no_segment(void **state)
{
    (void)state;

    assert_int_equal(segments_run(inject_from_something_else), 0);
    assert_int_equal(segments_count(segments_directory, ".seg"), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_teardown(ranges_have_the_text_that_was_pushed, clean),
        cmocka_unit_test_teardown(
            ranges_of_libraries_are_recorded_with_the_ops_of_a_step, clean),
        cmocka_unit_test_teardown(texts_are_read_to_their_end_and_no_further, clean),
        cmocka_unit_test_teardown(deep_ranges_keep_their_order, clean),
        cmocka_unit_test_teardown(a_range_may_end_on_another_thread, clean),
        cmocka_unit_test_teardown(ranges_of_nvtx_are_booked_as_nvtx_and_no_others,
                                  clean),
        cmocka_unit_test_teardown(injection_alone_opens_no_segment, clean),
    };

    return cmocka_run_group_tests(tests, segments_set_up, segments_tear_down);
}
