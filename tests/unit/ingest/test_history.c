/* Jobs and trace files in one store: which raw events stay, which go. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "aggregate/state.h"
#include "ingest/file/file.h"
#include "query/trace_query.h"

#define HISTORY_BYTES                                                                  \
    (4u * (sizeof(struct history_block) + 1024 * sizeof(struct event)))
#define JOB_EVENTS  1000u
#define FILE_EVENTS 20000u /* five times what is remembered */

static struct store *store;

static int begin(void **state)
{
    (void)state;
    store = store_new(&(struct store_limits){.history_bytes = HISTORY_BYTES});
    return store == NULL;
}

static int end(void **state)
{
    (void)state;
    store_free(store);
    return 0;
}

static void fold_job(const char *id)
{
    struct process_identity identity = {
        .pid = 100, .rank = 0, .world_size = 1, .role = WIRE_ROLE_TRAINER};
    struct process *process = state_process(store, state_session(store, id), &identity);

    assert_non_null(process);
    for (uint32_t i = 0; i < JOB_EVENTS; i++) {
        struct event event = {
            .time = i * 100, .value = 50, .meta = EVENT_META(1, EVENT_CPU_OP, 0, 0)};

        process_fold(process, 0, &event, 1);
    }
}

static void a_record_and_what_follows_it_are_in_one_block(void **state)
{
    (void)state;
    struct process_identity identity = {.pid = 100, .role = WIRE_ROLE_TRAINER};
    struct process *process =
        state_process(store, state_session(store, "a"), &identity);
    uint32_t blocks = 0;

    assert_non_null(process);
    for (uint32_t i = 0; i < 600; i++) {
        struct event events[RING_RECORDS_MAX] = {
            {.time = i * 100, .meta = EVENT_META(1, EVENT_MEMORY, 0, 0)}};

        for (uint16_t j = 1; j < RING_RECORDS_MAX; j++)
            events[j].meta = EVENT_META(0, EVENT_MORE, 0, j);
        process_fold(process, 0, events, RING_RECORDS_MAX);
        events[0].meta = EVENT_META(1, EVENT_CPU_OP, 0, 0);
        process_fold(process, 0, events, 1 + i % 2);
    }
    for (const struct history_block *block = process->blocks.oldest; block != NULL;
         block = block->after, blocks++)
        assert_int_not_equal(EVENT_KIND(block->events[0].meta), EVENT_MORE);
    assert_true(blocks >= 2);
}

static void load_file(const char *session)
{
    char path[] = "/tmp/trainglass-test-XXXXXX";
    struct file_request request = {.path = path, .session = session};
    struct file_result result;
    FILE *file = fdopen(mkstemp(path), "w");

    assert_non_null(file);
    fputs("{\"traceEvents\":[\n", file);
    for (uint32_t i = 0; i < FILE_EVENTS; i++)
        fprintf(file,
                "%s{\"ph\":\"X\",\"cat\":\"cpu_op\",\"name\":\"aten::mm\",\"pid\":5,"
                "\"tid\":5,\"ts\":%u,\"dur\":3}",
                i == 0 ? "" : ",\n", i * 10);
    fputs("]}", file);
    fclose(file);
    assert_int_equal(file_load(store, &request, &result), 0);
    unlink(path);
}

static uint64_t remembered(const char *session)
{
    struct selection selection = {.rank = SELECT_ANY, .window = {.kind = WINDOW_RUN}};
    struct trace_request request = {0};
    struct trace_answer answer;
    uint64_t events;

    (void)snprintf(selection.session, sizeof(selection.session), "%s", session);
    assert_int_equal(trace_query(store, &selection, &request, &answer), 0);
    events = answer.events;
    trace_release(&answer);
    return events;
}

static void a_trace_file_costs_a_job_none_of_its_remembered_events(void **state)
{
    (void)state;
    fold_job("job");
    load_file("t-first");
    load_file("t-second");
    assert_int_equal(remembered("job"), JOB_EVENTS);
    assert_true(remembered("t-second") > 0);
}

static void a_file_that_goes_gives_its_events_memory_back(void **state)
{
    uint64_t held;

    (void)state;
    load_file("t-first");
    held = store->file_history.bytes;
    assert_true(held > 0);
    file_forget(store, "t-first");
    assert_int_equal(store->file_history.bytes, 0);
    load_file("t-second");
    assert_int_equal(store->file_history.bytes, held);
}

static void what_goes_from_among_others_leaves_theirs(void **state)
{
    (void)state;
    fold_job("first");
    fold_job("second");
    fold_job("third");
    /* Sealed, so that they stand in the one order of all. */
    for (uint32_t i = 0; i < store->session_count; i++)
        process_finish(store->sessions[i]->processes, PROCESS_ENDED, "");
    state_drop(store, state_session(store, "second"));
    assert_int_equal(remembered("first"), JOB_EVENTS);
    assert_int_equal(remembered("third"), JOB_EVENTS);
    state_drop(store, state_session(store, "first"));
    state_drop(store, state_session(store, "third"));
    assert_int_equal(store->history.bytes, 0);
    assert_null(store->history.oldest);
    assert_null(store->history.newest);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, begin, end)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(a_trace_file_costs_a_job_none_of_its_remembered_events),
        TEST(a_file_that_goes_gives_its_events_memory_back),
        TEST(what_goes_from_among_others_leaves_theirs),
        TEST(a_record_and_what_follows_it_are_in_one_block),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
