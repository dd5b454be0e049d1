/* Ranges in a loader's workers, as their trainer's tables and findings tell of them. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "aggregate/state.h"
#include "query/ops_query.h"
#include "wire/facts.h"

#define MS INT64_C(1000000)

static struct store *store;
static struct session *session;
static struct process *trainer;
static struct ops_answer answer;

static struct process *new_process(uint32_t pid, uint32_t parent, enum wire_role role)
{
    struct process_identity identity = {
        .pid = pid, .parent_pid = parent, .rank = -1, .role = role};

    return state_process(store, session, &identity);
}

static uint32_t text(const struct process *process, const char *name)
{
    return texts_intern(process->texts, name, strlen(name));
}

static void range(struct process *process, const char *name, int64_t start, int64_t ns)
{
    uint64_t meta =
        EVENT_META(text(process, name), EVENT_USER_RANGE, EVENT_RANGE_TORCH, 0);

    process_fold(
        process, 0,
        &(struct event){.time = (uint64_t)start, .value = (uint64_t)ns, .meta = meta},
        1);
}

static void fact(struct process *process, const char *key, const char *value)
{
    process->facts[process->fact_count++] =
        (struct process_fact){.key = text(process, key),
                              .type = WIRE_FACT_TEXT,
                              .text = text(process, value)};
}

static void step(uint64_t number, uint32_t flags, int64_t start)
{
    process_fold(trainer, 0,
                 &(struct event){.time = (uint64_t)start,
                                 .value = 10 * MS,
                                 .meta = EVENT_META(0, EVENT_STEP, flags, 0xf),
                                 .aux = number | (uint64_t)1 << 48},
                 1);
}

/* Ten steps of 10 ms, two validation batches behind them. */
static int begin(void **state)
{
    (void)state;
    store = store_new(NULL);
    session = state_session(store, "hand");
    trainer = new_process(7, 1, WIRE_ROLE_TRAINER);
    if (trainer == NULL)
        return -1;
    for (uint64_t i = 0; i < 10; i++)
        step(i, EVENT_STEP_OPS, (int64_t)i * 10 * MS);
    step(0, EVENT_STEP_VALIDATION, 100 * MS);
    step(0, EVENT_STEP_VALIDATION, 110 * MS);
    return 0;
}

static int end(void **state)
{
    (void)state;
    answer_free(&answer.head);
    store_free(store);
    return 0;
}

/* A worker of `parent` that calls `name` once for each of its batches. */
static void work(uint32_t pid, uint32_t parent, const char *stage, const char *name)
{
    struct process *worker = new_process(pid, parent, WIRE_ROLE_WORKER);

    if (stage != NULL)
        fact(worker, FACT_LOADER_STAGE, stage);
    for (int64_t i = 0; i < 5; i++)
        range(worker, name, i * 20 * MS + MS, 4 * MS);
    ops_settle(&worker->ops);
}

static const struct op_row *find(const char *name)
{
    static const struct op_row none = {.name = "", .kind = ""};
    struct selection whose = {.rank = SELECT_ANY, .window = {.kind = WINDOW_RUN}};

    answer_free(&answer.head);
    assert_int_equal(ops_query(store, &whose, &(struct ops_request){.k = 100}, &answer),
                     0);
    for (uint32_t i = 0; i < answer.row_count; i++)
        if (strcmp(answer.rows[i].name, name) == 0)
            return &answer.rows[i];
    return &none;
}

static bool near(double value, double expected)
{
    return fabs(value - expected) < 0.001 * expected;
}

static void a_range_in_workers_is_a_row_of_their_trainer(void **state)
{
    (void)state;
    work(20, 7, NULL, "polygons");
    work(21, 7, "train", "polygons");
    const struct op_row *row = find("polygons");

    assert_string_equal(row->kind, "range");
    assert_int_equal(row->workers, 2);
    assert_true(row->watched);
    assert_true(near(row->count, 10));
    assert_true(near(row->per_step_ns, 4.0 * MS));
    assert_true(near(row->share, 0.4));
    assert_true(near(row->mean_ns, 4.0 * MS));
    assert_true(fabs(row->p95_ns - 4.0 * MS) < 0.01 * 4.0 * MS);
    assert_true(row->max_ns == (double)(4 * MS));
}

static void what_the_user_watches_is_first_by_the_time_in_it(void **state)
{
    (void)state;
    struct event op = {.time = 1000,
                       .value = (uint64_t)MS,
                       .meta =
                           EVENT_META(text(trainer, "aten::mm"), EVENT_CPU_OP, 0, 0)};

    process_fold(trainer, 1, &op, 1);
    work(20, 7, NULL, "polygons");
    (void)find("polygons");
    assert_string_equal(answer.rows[0].name, "polygons");
    assert_int_equal(answer.watched_count, 1);
    assert_string_equal(answer.watched[0].name, "polygons");
}

static void what_feeds_validation_is_no_part_of_a_training_step(void **state)
{
    (void)state;
    work(20, 7, "train", "polygons");
    work(21, 7, "validate", "polygons");
    const struct op_row *row = find("polygons");

    assert_true(near(row->per_step_ns, 2.0 * MS));
    assert_true(near(row->validation_batch_ns, 10.0 * MS));
    assert_true(near(row->validation_share, 1.0));
}

static void workers_of_another_trainer_are_not_its_own(void **state)
{
    (void)state;
    work(20, 8, NULL, "polygons");
    assert_string_equal(find("polygons")->name, "");
    assert_int_equal(answer.watched_count, 0);
}

static void a_window_has_its_part_of_what_reaches_beyond_it(void **state)
{
    (void)state;
    struct selection whose = {.rank = SELECT_ANY, .window = {WINDOW_STEPS, 0, 4}};

    work(20, 7, NULL, "polygons"); /* one digest of 1 to 85 ms */
    assert_int_equal(ops_query(store, &whose, &(struct ops_request){.k = 100}, &answer),
                     0);
    assert_int_equal(answer.row_count, 1);
    assert_true(near(answer.rows[0].total_ns, 20.0 * MS * 49 / 84));
}

static void
a_function_that_the_trainer_watches_is_told_where_the_facts_name_it(void **state)
{
    (void)state;
    range(trainer, "augment", 120 * MS, 3 * MS);
    range(trainer, "polygons", 121 * MS, MS);
    step(10, 0, 120 * MS);
    range(trainer, "augment", 130 * MS, 4 * MS);
    step(0, EVENT_STEP_VALIDATION, 130 * MS);
    assert_false(find("augment")->watched);
    fact(trainer, FACT_WATCH_FUNCTIONS, "polygon,augment");
    assert_false(find("polygons")->watched);
    const struct op_row *row = find("augment");

    assert_true(row->watched);
    assert_int_equal(row->workers, 0);
    assert_true(near(row->total_ns, 3.0 * MS));
    assert_true(near(row->validation_batch_ns, 4.0 * MS / 3));
}

static void more_names_than_there_is_room_for_are_counted(void **state)
{
    (void)state;
    struct process *worker = new_process(20, 7, WIRE_ROLE_WORKER);

    for (int64_t i = 0; i < 70; i++) {
        char name[16];

        (void)snprintf(name, sizeof(name), "f%d", (int)i);
        range(worker, name, i * MS, MS / 2);
    }
    ops_settle(&worker->ops);
    (void)find("f0");
    assert_int_equal(answer.row_count, 64);
    assert_int_equal(answer.overflowed, 6);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, begin, end)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(a_range_in_workers_is_a_row_of_their_trainer),
        TEST(what_the_user_watches_is_first_by_the_time_in_it),
        TEST(what_feeds_validation_is_no_part_of_a_training_step),
        TEST(workers_of_another_trainer_are_not_its_own),
        TEST(a_window_has_its_part_of_what_reaches_beyond_it),
        TEST(a_function_that_the_trainer_watches_is_told_where_the_facts_name_it),
        TEST(more_names_than_there_is_room_for_are_counted),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
