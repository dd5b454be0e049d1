/* A job that writes its segment, and the collector that reads it. */
#ifndef TESTS_UNIT_LIVE_JOB_H
#define TESTS_UNIT_LIVE_JOB_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <unistd.h>

#include <cmocka.h>

#include "aggregate/state.h"
#include "ingest/collector.h"
#include "query/status_query.h"
#include "unit/fake_segment.h"

#define SETTLE_MS 20000
#define MS        INT64_C(1000000)
#define RECORDED  (EVENT_STEP_OPS | 0xfu << 8)

static char directory[128];
static struct store *store;
static struct collector *collector;
static struct fake fake;

static inline int begin(void **state)
{
    (void)state;
    fake_directory(directory, sizeof(directory));
    const char *directories[] = {directory};
    const char *reason;

    store = store_new(NULL);
    collector = collector_start(
        store,
        &(struct collector_options){.directories = directories, .directory_count = 1},
        &reason);
    return store != NULL && collector != NULL ? 0 : -1;
}

static inline int end(void **state)
{
    (void)state;
    collector_stop(collector);
    store_free(store);
    if (fake.base != NULL)
        fake_close(&fake);
    fake.base = NULL;
    rmdir(directory);
    return 0;
}

/* `count` steps of 10 ms from `first`: data 2, forward 3 with two nested ops, backward
 * 4, optimizer 1; backward's op runs on thread 1. */
static inline void train(uint64_t first, uint64_t count)
{
    for (uint64_t n = first; n < first + count; n++) {
        int64_t t = (int64_t)n * 10 * MS;

        fake_phase(&fake, 0, EVENT_PHASE_DATA, t, t + 2 * MS);
        fake_op(&fake, 0, "aten::mm", t + 2 * MS, t + 4 * MS);
        fake_op(&fake, 0, "aten::linear", t + 2 * MS, t + 5 * MS);
        fake_phase(&fake, 0, EVENT_PHASE_FORWARD, t + 2 * MS, t + 5 * MS);
        fake_op(&fake, 1, "AddmmBackward0", t + 5 * MS, t + 8 * MS);
        fake_phase(&fake, 0, EVENT_PHASE_BACKWARD, t + 5 * MS, t + 9 * MS);
        fake_phase(&fake, 0, EVENT_PHASE_OPTIMIZER, t + 9 * MS, t + 10 * MS);
        fake_step(&fake, n, RECORDED, t, t + 10 * MS);
    }
}

static inline void open_fake(void)
{
    fake_open(&fake, directory, "aaaa", "job-1", 4 * 1024 * 1024);
    fake_thread(&fake, 0, 16384);
    fake_thread(&fake, 1, 16384);
}

static inline enum process_state state_of_job(char *reason, size_t size)
{
    struct selection whose = {.rank = SELECT_ANY};
    struct status_answer answer;

    assert_int_equal(status_query(store, &whose, &answer), 0);
    assert_int_equal(answer.session_count, 1);
    enum process_state state = answer.sessions[0].state;

    snprintf(reason, size, "%s", answer.sessions[0].reason);
    answer_free(&answer.head);
    return state;
}

/* A settled collector has asked for the lock; reading to the end may take another
 * turn. */
static inline enum process_state wait_until_it_does_not_run(char *reason, size_t size)
{
    enum process_state state = PROCESS_RUNNING;

    for (int i = 0; i < 1000 && state == PROCESS_RUNNING; i++) {
        assert_true(collector_settle(collector, SETTLE_MS));
        state = state_of_job(reason, size);
    }
    return state;
}

#endif
