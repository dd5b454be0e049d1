/* Trainers whose events a test folds one by one, and what it asks of their tables. */
#ifndef TESTS_UNIT_TABLES_H
#define TESTS_UNIT_TABLES_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "aggregate/state.h"
#include "query/ops_query.h"

#define MS   INT64_C(1000000)
#define FULL (EVENT_STEP_OPS)

static struct store *store;
static struct session *session;
static struct process *process;

static inline struct process *new_process(int32_t rank)
{
    struct process_identity identity = {.pid = 100 + (uint32_t)rank,
                                        .rank = rank,
                                        .world_size = 2,
                                        .role = WIRE_ROLE_TRAINER};

    return state_process(store, session, &identity);
}

static inline int begin(void **state)
{
    (void)state;
    store = store_new(NULL);
    session = state_session(store, "hand");
    process = new_process(0);
    return process == NULL ? -1 : 0;
}

static inline int end(void **state)
{
    (void)state;
    store_free(store);
    return 0;
}

static inline uint32_t text(const char *name)
{
    return texts_intern(process->texts, name, strlen(name));
}

static inline void fold(uint32_t thread, uint64_t meta, int64_t start, int64_t value)
{
    struct event event = {
        .time = (uint64_t)start, .value = (uint64_t)value, .meta = meta};

    process_fold(process, thread, &event, 1);
}

static inline void op(uint32_t thread, const char *name, int64_t start, int64_t end_ns)
{
    fold(thread, EVENT_META(text(name), EVENT_CPU_OP, 0, 0), start, end_ns - start);
}

static inline void phase(uint16_t which, int64_t start, int64_t end_ns)
{
    fold(0, EVENT_META(0, EVENT_PHASE, 0, which), start, end_ns - start);
}

static inline void step(uint64_t number, uint32_t flags, int64_t start, int64_t end_ns)
{
    struct event event = {.time = (uint64_t)start,
                          .value = (uint64_t)(end_ns - start),
                          .meta = EVENT_META(0, EVENT_STEP, flags, 0xf),
                          .aux = number | (uint64_t)1 << 48};

    process_fold(process, 0, &event, 1);
}

/* What began before it is known then. */
static inline void work_begins_at(int64_t start)
{
    fold(1, EVENT_META(text("next"), EVENT_KERNEL, 0, 0x100), start, MS);
}

static inline struct ops_answer ask_ops(struct window window)
{
    struct selection whose = {.rank = SELECT_ANY, .window = window};
    struct ops_answer answer;

    assert_int_equal(ops_query(store, &whose, &(struct ops_request){.k = 100}, &answer),
                     0);
    return answer;
}

/* The row of a name; one of nothing when there is none. */
static inline const struct op_row *find(const struct ops_answer *answer,
                                        const char *name)
{
    static const struct op_row none = {.name = "", .kind = ""};

    for (uint32_t i = 0; i < answer->row_count; i++)
        if (strcmp(answer->rows[i].name, name) == 0)
            return &answer->rows[i];
    return &none;
}

static const struct window run = {.kind = WINDOW_RUN};

/* Steps of 5 ms whose kernels come 200 ms late; two devices of which one is told of
 * first, and a third that worked only once. */
static inline void fold_late_kernels(int64_t steps, const char *name)
{
    uint64_t meta = EVENT_META(text(name), EVENT_KERNEL, 0, 0x100);
    uint64_t once = EVENT_META(text("once"), EVENT_KERNEL, 0, 0x102);
    uint64_t second = EVENT_META(text(name), EVENT_KERNEL, 0, 0x101);

    fold(1, once, 1, MS);
    for (int64_t n = 0; n < steps; n++) {
        int64_t t = n * 5 * MS;

        step((uint64_t)n, n % 2 == 0 ? EVENT_STEP_KERNELS : 0, t, t + 5 * MS);
        if (n % 20 != 19 || n < 59)
            continue;
        for (int64_t late = n - 59; late < n - 39; late++)
            fold(1, meta, late * 5 * MS + MS, 2 * MS);
        for (int64_t late = n - 59; late < n - 39; late++)
            fold(1, second, late * 5 * MS + MS, 2 * MS);
    }
}

static inline bool has_kernels(uint32_t i)
{
    return (steps_at(&process->steps, i)->flags & EVENT_STEP_KERNELS) != 0;
}

static inline void know_works_at(int64_t until_ns, int64_t now_ns)
{
    const struct event known = {(uint64_t)until_ns, (uint64_t)(now_ns - until_ns),
                                EVENT_META(0, EVENT_KNOWN, 0, 0), WIRE_SOURCE_CUPTI};

    process_fold(process, 1, &known, 1);
}

static inline void know_works(int64_t until_ns)
{
    know_works_at(until_ns, until_ns);
}

static inline void say_fact(const char *key, double number)
{
    process->facts[process->fact_count++] =
        (struct process_fact){.key = texts_intern(process->texts, key, strlen(key)),
                              .type = WIRE_FACT_NUMBER,
                              .number = number};
}

static inline void say(struct process *of, const char *key, const char *value)
{
    of->facts[of->fact_count++] =
        (struct process_fact){.key = texts_intern(of->texts, key, strlen(key)),
                              .type = WIRE_FACT_TEXT,
                              .text = texts_intern(of->texts, value, strlen(value))};
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, begin, end)

#endif
