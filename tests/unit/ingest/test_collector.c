/* What a collector reads of a job that lives: its steps, its ops, and what it does just
 * now. */
#include <math.h>
#include <signal.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>

#include "ingest/source.h"
#include "query/ops_query.h"
#include "query/steps_query.h"
#include "query/trace_query.h"
#include "unit/live_job.h"

static void steps_and_phases_of_a_live_job_arrive(void **state)
{
    (void)state;
    struct selection whose = {.rank = SELECT_ANY};
    struct steps_answer answer;

    open_fake();
    train(0, 100);
    assert_true(collector_settle(collector, SETTLE_MS));
    assert_int_equal(
        steps_query(store, &whose, &(struct steps_request){.points = 1000}, &answer),
        0);
    assert_int_equal(answer.row_count, 100);
    assert_int_equal(answer.train.count, 100);
    assert_true(fabs(answer.train.mean_ns - 10e6) < 1);
    assert_true(fabs(answer.train.phase_ns[EVENT_PHASE_BACKWARD] - 4e6) < 1);
    assert_true(fabs(answer.train.other_ns) < 1);
    assert_string_equal(answer.head.session, "job-1");
    assert_true(answer.head.live);
    answer_free(&answer.head);
}

static void a_rank_that_is_learned_late_is_the_process_s_from_then_on(void **state)
{
    (void)state;
    struct selection any = {.rank = SELECT_ANY}, third = {.rank = 3};
    struct steps_answer answer;

    open_fake();
    train(0, 10);
    assert_true(collector_settle(collector, SETTLE_MS));
    assert_int_equal(
        steps_query(store, &any, &(struct steps_request){.points = 100}, &answer), 0);
    assert_int_not_equal(answer.head.rank, 3);
    answer_free(&answer.head);
    atomic_store(&fake.header->live_rank, 4);                /* each plus 1 */
    atomic_store(&fake.header->live_world_size, UINT32_MAX); /* none of ours */
    train(10, 10);
    assert_true(collector_settle(collector, SETTLE_MS));
    assert_int_equal(
        steps_query(store, &third, &(struct steps_request){.points = 100}, &answer), 0);
    assert_int_equal(answer.head.rank, 3);
    assert_int_equal(answer.row_count, 20);
    answer_free(&answer.head);
}

static const struct op_row *find_op(const struct ops_answer *answer, const char *name)
{
    for (uint32_t i = 0; i < answer->row_count; i++)
        if (strcmp(answer->rows[i].name, name) == 0)
            return &answer->rows[i];
    fail_msg("no op %s", name);
    return NULL;
}

static void ops_of_all_threads_count_in_their_steps_with_their_self_time(void **state)
{
    (void)state;
    struct selection whose = {.rank = SELECT_ANY,
                              .window = {.kind = WINDOW_STEPS, .a = 10, .b = 19}};
    struct ops_answer answer;

    open_fake();
    train(0, 100);
    assert_true(collector_settle(collector, SETTLE_MS));
    assert_int_equal(ops_query(store, &whose, &(struct ops_request){0}, &answer), 0);
    assert_int_equal(answer.total_ops, 3);
    assert_int_equal(answer.head.steps, 10);
    assert_int_equal(answer.head.recorded_steps, 10);
    const struct op_row *linear = find_op(&answer, "aten::linear");
    const struct op_row *backward = find_op(&answer, "AddmmBackward0");

    assert_int_equal(linear->recorded_count, 10);
    assert_true(fabs(linear->total_ns - 30e6) < 1);
    assert_true(fabs(linear->self_ns - 10e6) < 1);
    assert_true(fabs(linear->error_pct) < 1e-9);
    assert_int_equal(backward->recorded_count, 10);
    assert_true(fabs(backward->per_step_ns - 3e6) < 1);
    assert_true(fabs(backward->share - 0.3) < 1e-9);
    assert_true(fabs(backward->p95_ns - 3e6) < 0.01 * 3e6);
    answer_free(&answer.head);
}

static double rate_after(struct source *source, struct store *own, uint64_t events,
                         int64_t now_ns)
{
    struct wire_capability *sources = (void *)(fake.base + fake.layout.sources_offset);

    atomic_store(&sources[WIRE_SOURCE_STEPS].events, events);
    source_look(source, own, now_ns);
    return own->sessions[0]->processes->capabilities[WIRE_SOURCE_STEPS].events_per_s;
}

static void a_rate_of_events_is_that_of_seconds_and_not_of_one_look(void **state)
{
    (void)state;
    const int64_t look = 250 * MS, start = 1000 * MS;
    struct store *own = store_new(NULL);
    struct source source;

    open_fake();
    assert_int_equal(source_open(&source, own, fake.path), 0);
    assert_true(isnan(rate_after(&source, own, 50, start)));
    for (int i = 1; i < 8; i++) /* a step of 200 events, between two of the looks */
        assert_true(
            isnan(rate_after(&source, own, i < 3 ? 50 : 250, start + i * look)));
    assert_true(fabs(rate_after(&source, own, 250, start + 8 * look) - 100) < 1e-9);
    assert_true(fabs(rate_after(&source, own, 850, start + 9 * look) - 100) < 1e-9);
    source_close(&source);
    store_free(own);
}

/* Of a step whose ops are recorded, in the phase that is told; NULL before the
 * first. */
static const struct series_bucket *newest_look(void)
{
    const struct process *process =
        store->session_count > 0 ? store->sessions[0]->processes : NULL;
    const struct series_ring *ring =
        process == NULL ? NULL : &process->between_ops.shares.rings[0];

    return ring == NULL || ring->count == 0 ? NULL : series_at(ring, ring->count - 1);
}

/* At least: of some thirty. One that falls in while it goes to sleep is not enough. */
#define LOOKS_OF_A_SECOND 5

static bool was_seen_only_at(uint32_t what)
{
    bool seen = false;

    pthread_rwlock_rdlock(&store->lock);
    const struct series_bucket *look = newest_look();

    if (look != NULL && look->sum[what] >= LOOKS_OF_A_SECOND) {
        seen = true;
        for (uint32_t i = 0; i < PROCESS_LOOKS; i++)
            if (i != what && look->sum[i] > 0)
                seen = false;
    }
    pthread_rwlock_unlock(&store->lock);
    return seen;
}

/* A trainer in forward, with no op open, until it was seen at that and at nothing
 * else. */
static void be_seen(bool works, uint32_t what)
{
    struct stat status;
    pid_t trainer = fork();

    if (trainer == 0)
        for (;;)
            if (!works)
                pause();
    assert_true(trainer > 0);
    assert_int_equal(stat("/proc/self/ns/pid", &status), 0);
    fake_pid = (uint32_t)trainer;
    fake_pid_namespace = status.st_ino;
    open_fake();
    fake_pid = 4242;
    fake_pid_namespace = 0;
    atomic_store(&fake.slots[0].tid, (uint32_t)trainer);
    train(0, 3);
    atomic_store(&fake.header->phase, EVENT_PHASE_FORWARD + 1);
    atomic_store(&fake.header->recording, EVENT_STEP_OPS);
    atomic_store(&fake.header->step_start, fake_time(30 * MS));
    /* The test's own time limit ends a wait in vain. */
    while (!was_seen_only_at(what))
        usleep(1000);
    kill(trainer, SIGKILL);
    waitpid(trainer, NULL, 0);
}

static void a_trainer_that_sleeps_in_no_op_is_seen_in_its_phase(void **state)
{
    (void)state;
    be_seen(false, PROCESS_LOOK_ASLEEP + EVENT_PHASE_FORWARD);
}

static void a_trainer_that_works_in_no_op_is_seen_in_forward(void **state)
{
    (void)state;
    be_seen(true, PROCESS_LOOK_BUSY_FORWARD);
}

/* "step 3 (17 ms) > forward (5 ms)" */
static void a_hang_in_no_op_shows_the_training_thread_s_step_and_phase(void **state)
{
    (void)state;
    struct selection whose = {.rank = SELECT_ANY};
    struct status_answer answer;
    char reason[160];

    open_fake();
    train(0, 3);
    atomic_store(&fake.slots[0].open[0].start, fake_time(1 * MS));
    atomic_store(&fake.slots[0].open[0].meta,
                 EVENT_META(fake_name(&fake, "epoch"), EVENT_USER_RANGE, 0, 0));
    atomic_store(&fake.slots[0].depth, 1);
    atomic_store(&fake.header->step_start, fake_time(13 * MS));
    atomic_store(&fake.header->phase_start, fake_time(25 * MS));
    atomic_store(&fake.header->phase, EVENT_PHASE_FORWARD + 1);
    assert_true(collector_settle(collector, SETTLE_MS));
    fake_die(&fake);
    (void)wait_until_it_does_not_run(reason, sizeof(reason));
    assert_int_equal(status_query(store, &whose, &answer), 0);
    assert_int_equal(answer.sessions[0].processes[0].thread_count, 1);
    const struct status_thread *thread = &answer.sessions[0].processes[0].threads[0];

    assert_int_equal(thread->open_count, 3);
    assert_string_equal(thread->open[0].name, "epoch");
    assert_string_equal(thread->open[1].name, "step 3");
    assert_int_equal(thread->open[1].kind, EVENT_STEP);
    assert_true(fabs(thread->open[1].open_for_ns - 17e6) < 1);
    assert_string_equal(thread->open[2].name, "forward");
    assert_int_equal(thread->open[2].kind, EVENT_PHASE);
    assert_true(fabs(thread->open[2].open_for_ns - 5e6) < 1);
    answer_free(&answer.head);
}

static void overwritten_events_are_counted_and_their_step_is_not_recorded(void **state)
{
    (void)state;
    struct selection whose = {.rank = SELECT_ANY, .window = {.kind = WINDOW_RUN}};
    struct ops_answer answer;

    fake_open(&fake, directory, "aaaa", "job-1", 4 * 1024 * 1024);
    fake_thread(&fake, 0, 64);
    fake_thread(&fake, 1, 64);
    assert_true(collector_settle(collector, SETTLE_MS));
    train(0, 4);
    assert_true(collector_settle(collector, SETTLE_MS));
    /* As long as somebody reads the store the collector waits, and the ring of 64 turns
     * more than three times: 26 steps of 7 events, and of the 64 that are left 9 whole
     * steps. */
    pthread_rwlock_rdlock(&store->lock);
    train(4, 26);
    pthread_rwlock_unlock(&store->lock);
    assert_true(collector_settle(collector, SETTLE_MS));
    assert_int_equal(ops_query(store, &whose, &(struct ops_request){0}, &answer), 0);
    assert_int_equal(answer.head.lost_events, 26 * 7 - 64);
    assert_int_equal(answer.head.recorded_steps, 4 + 9);
    answer_free(&answer.head);
}

/* As one finds them who comes when they have trained: as long as somebody reads the
 * store, the collector waits. */
static void
a_step_is_not_recorded_whose_other_thread_reaches_less_far_back(void **state)
{
    (void)state;
    struct selection whose = {.rank = SELECT_ANY, .window = {.kind = WINDOW_RUN}};
    struct ops_answer answer;

    pthread_rwlock_rdlock(&store->lock);
    fake_open(&fake, directory, "aaaa", "job-1", 4 * 1024 * 1024);
    fake_thread(&fake, 0, 16384);
    fake_thread(&fake, 1, 64); /* backward's op of 136 and later */
    train(0, 200);
    pthread_rwlock_unlock(&store->lock);
    assert_true(collector_settle(collector, SETTLE_MS));
    assert_int_equal(ops_query(store, &whose, &(struct ops_request){0}, &answer), 0);
    assert_int_equal(answer.head.steps, 200);
    assert_int_equal(answer.head.recorded_steps, 63);
    assert_int_equal(find_op(&answer, "AddmmBackward0")->recorded_count, 63);
    assert_int_equal(find_op(&answer, "aten::linear")->recorded_count, 63);
    answer_free(&answer.head);
}

static void a_step_has_no_known_work_where_its_ring_reaches_less_far_back(void **state)
{
    (void)state;
    struct selection whose = {.rank = SELECT_ANY, .window = {.kind = WINDOW_RUN}};
    struct ops_request request = {.device = OPS_ACCELERATOR};
    struct ops_answer answer;

    pthread_rwlock_rdlock(&store->lock);
    fake_open(&fake, directory, "aaaa", "job-1", 4 * 1024 * 1024);
    fake_thread(&fake, 0, 16384);
    fake_thread(&fake, 1, 64); /* from the kernel of step 149 on */
    for (uint64_t n = 0; n < 200; n++) {
        int64_t t = (int64_t)n * 10 * MS;

        fake_range(&fake, 1, EVENT_META(fake_name(&fake, "gemm"), EVENT_KERNEL, 0, 0),
                   (int64_t[2]){t + MS, t + 3 * MS});
        if (n % 4 == 3) /* up to this step's begin, at its end */
            ring_push(&fake.rings[1],
                      (struct event){.time = fake_time(t),
                                     .value = 10 * MS,
                                     .meta = EVENT_META(0, EVENT_KNOWN, 0, 0),
                                     .aux = WIRE_SOURCE_CUPTI});
        fake_step(&fake, n, EVENT_STEP_KERNELS, t, t + 10 * MS);
    }
    pthread_rwlock_unlock(&store->lock);
    assert_true(collector_settle(collector, SETTLE_MS));
    assert_int_equal(ops_query(store, &whose, &request, &answer), 0);
    /* All that was known when step 152 began, was told before; 199 is still to be
     * told. */
    assert_int_equal(answer.head.recorded_steps, 199 - 152);
    assert_int_equal(find_op(&answer, "gemm")->recorded_count, 199 - 152);
    answer_free(&answer.head);
}

static void
what_other_threads_wrote_before_a_step_is_folded_in_many_short_locks(void **state)
{
    (void)state;
    struct selection whose = {.rank = SELECT_ANY, .window = {.kind = WINDOW_RUN}};
    struct store *own = store_new(NULL);
    struct source source;
    struct ops_answer answer;
    uint64_t one, most = 0, all = 0;

    fake_open(&fake, directory, "aaaa", "job-1", 8 * 1024 * 1024);
    fake_thread(&fake, 0, 64);
    fake_thread(&fake, 1, 131072);
    for (int i = 0; i < 100000; i++)
        fake_op(&fake, 1, "other", 1000 + 10 * i, 1005 + 10 * i);
    fake_step(&fake, 0, EVENT_STEP_OPS, 0, 1000);
    fake_step(&fake, 1, EVENT_STEP_OPS, 1000, 2000000);
    assert_int_equal(source_open(&source, own, fake.path), 0);
    source_find_rings(&source, own);
    /* A budget of one event: one turn with the lock. */
    while ((one = source_drain(&source, own, 1)) > 0) {
        most = one > most ? one : most;
        all += one;
    }
    assert_int_equal(all, 100000 + 2);
    assert_in_range(most, 1, 12000);
    source_look(&source, own, 0);
    assert_int_equal(ops_query(own, &whose, &(struct ops_request){0}, &answer), 0);
    assert_int_equal(answer.head.recorded_steps, 2);
    assert_int_equal(answer.rows[0].count, 100000);
    answer_free(&answer.head);
    source_close(&source);
    store_free(own);
}

static void threads_and_names_that_found_no_room_stand_in_the_status(void **state)
{
    (void)state;
    struct selection whose = {.rank = SELECT_ANY};
    struct status_answer answer;

    open_fake();
    atomic_store(&fake.header->threads_refused, 3);
    for (int i = 0; i < 100000 && names_refused(&fake.names) < 2; i++) {
        char name[16];

        snprintf(name, sizeof(name), "name %d", i);
        (void)fake_name(&fake, name);
    }
    train(0, 1);
    assert_true(collector_settle(collector, SETTLE_MS));
    assert_int_equal(status_query(store, &whose, &answer), 0);
    assert_int_equal(answer.sessions[0].threads_refused, 3);
    assert_int_equal(answer.sessions[0].processes[0].threads_refused, 3);
    assert_true(answer.sessions[0].names_refused >= 2);
    assert_int_equal(answer.sessions[0].processes[0].names_refused,
                     answer.sessions[0].names_refused);
    answer_free(&answer.head);
}

static void a_trace_takes_the_window_s_events_of_every_thread(void **state)
{
    (void)state;
    struct selection whose = {.rank = SELECT_ANY,
                              .window = {.kind = WINDOW_STEPS, .a = 2, .b = 2}};
    struct trace_answer answer;
    uint32_t ops = 0;

    open_fake();
    train(0, 10);
    assert_true(collector_settle(collector, SETTLE_MS));
    assert_int_equal(trace_query(store, &whose,
                                 &(struct trace_request){.all_ranks = false}, &answer),
                     0);
    assert_int_equal(answer.process_count, 1);
    const struct trace_process *process = &answer.processes[0];

    assert_int_equal(process->step_count, 1);
    assert_int_equal(process->steps[0].number, 2);
    for (uint32_t b = 0; b < process->block_count; b++)
        for (uint32_t i = 0; i < process->blocks[b].count; i++) {
            const struct event *event = &process->blocks[b].events[i];

            if ((int64_t)event->time < 20 * MS || (int64_t)event->time >= 30 * MS ||
                EVENT_KIND(event->meta) != EVENT_CPU_OP)
                continue;
            ops++;
            assert_true(strlen(trace_name(process, EVENT_NAME(event->meta))) > 0);
        }
    assert_int_equal(ops, 3);
    trace_release(&answer);
}

static void a_live_process_without_steps_shows_its_ops(void **state)
{
    (void)state;
    struct selection whose = {.rank = SELECT_ANY};
    struct ops_answer answer;
    uint32_t ops = 0;

    open_fake();
    fake_op(&fake, 0, "aten::mm", MS, 2 * MS);
    for (int i = 0; i < 1000 && ops == 0; i++) {
        assert_true(collector_settle(collector, SETTLE_MS));
        assert_int_equal(ops_query(store, &whose, &(struct ops_request){0}, &answer),
                         0);
        ops = answer.total_ops;
        answer_free(&answer.head);
    }
    assert_int_equal(ops, 1);
}

struct reading {
    _Atomic int stop;
    _Atomic uint64_t answers;
};

static void *read_on(void *user)
{
    struct reading *reading = user;
    struct selection whose = {.rank = SELECT_ANY};

    while (!atomic_load(&reading->stop)) {
        struct ops_answer ops;
        struct trace_answer trace;

        if (ops_query(store, &whose, &(struct ops_request){.k = 50}, &ops) == 0)
            for (uint32_t i = 0; i < ops.row_count; i++)
                atomic_fetch_add(&reading->answers, strlen(ops.rows[i].name) > 0);
        answer_free(&ops.head);
        if (trace_query(store, &whose, &(struct trace_request){0}, &trace) == 0)
            for (uint32_t b = 0;
                 trace.process_count > 0 && b < trace.processes[0].block_count; b++)
                (void)trace_name(&trace.processes[0],
                                 EVENT_NAME(trace.processes[0].blocks[b].events->meta));
        trace_release(&trace);
    }
    return NULL;
}

static void readers_see_whole_answers_while_the_collector_folds(void **state)
{
    (void)state;
    struct reading reading = {0};
    struct selection whose = {.rank = SELECT_ANY, .window = {.kind = WINDOW_RUN}};
    struct ops_answer answer;
    pthread_t threads[2];
    char name[32];

    open_fake();
    for (int i = 0; i < 2; i++)
        assert_int_equal(pthread_create(&threads[i], NULL, read_on, &reading), 0);
    for (uint64_t n = 0; n < 40; n++) {
        train(n * 50, 50);
        snprintf(name, sizeof(name), "aten::op_%u", (unsigned)n);
        fake_op(&fake, 1, name, (int64_t)n * 500 * MS, (int64_t)n * 500 * MS + 10);
        assert_true(collector_settle(collector, SETTLE_MS));
    }
    /* On a busy machine they may not have begun. The test's own time limit ends a wait
     * in vain. */
    while (atomic_load(&reading.answers) == 0)
        usleep(1000);
    atomic_store(&reading.stop, 1);
    for (int i = 0; i < 2; i++)
        pthread_join(threads[i], NULL);
    assert_int_equal(ops_query(store, &whose, &(struct ops_request){.k = 100}, &answer),
                     0);
    assert_int_equal(answer.total_ops, 3 + 40);
    assert_int_equal(answer.head.steps, 2000);
    assert_int_equal(find_op(&answer, "aten::mm")->recorded_count, 2000);
    answer_free(&answer.head);
}

static void *write_without_pause(void *user)
{
    uint64_t meta = EVENT_META(fake_name(&fake, "aten::mm"), EVENT_CPU_OP, 0, 0);
    _Atomic int *stop = user;

    /* About as fast as it is read, and all of it before the first step's end: nothing
     * of it may wait for a later one. */
    while (!atomic_load(stop)) {
        fake_range(&fake, 1, meta, (int64_t[2]){MS, 2 * MS});
        for (int i = 0; i < 32; i++)
            (void)atomic_load(stop);
    }
    return NULL;
}

static void
who_writes_without_a_pause_keeps_neither_the_lock_nor_the_others(void **state)
{
    (void)state;
    struct selection whose = {.rank = SELECT_ANY};
    _Atomic int stop = 0;
    char reason[160];
    uint64_t steps = 0;
    pthread_t thread;

    open_fake();
    assert_int_equal(pthread_create(&thread, NULL, write_without_pause, &stop), 0);
    fake_step(&fake, 0, RECORDED, 0, 10 * MS);
    while (steps == 0) {
        struct steps_answer answer;

        if (steps_query(store, &whose, &(struct steps_request){0}, &answer) == 0)
            steps = answer.train.count;
        answer_free(&answer.head);
    }
    fake_die(&fake);
    assert_int_equal(wait_until_it_does_not_run(reason, sizeof(reason)),
                     PROCESS_CRASHED);
    atomic_store(&stop, 1);
    pthread_join(thread, NULL);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(steps_and_phases_of_a_live_job_arrive, begin,
                                        end),
        cmocka_unit_test_setup_teardown(
            a_rank_that_is_learned_late_is_the_process_s_from_then_on, begin, end),
        cmocka_unit_test_setup_teardown(
            ops_of_all_threads_count_in_their_steps_with_their_self_time, begin, end),
        cmocka_unit_test_setup_teardown(
            a_rate_of_events_is_that_of_seconds_and_not_of_one_look, begin, end),
        cmocka_unit_test_setup_teardown(
            a_trainer_that_sleeps_in_no_op_is_seen_in_its_phase, begin, end),
        cmocka_unit_test_setup_teardown(
            a_trainer_that_works_in_no_op_is_seen_in_forward, begin, end),
        cmocka_unit_test_setup_teardown(
            a_hang_in_no_op_shows_the_training_thread_s_step_and_phase, begin, end),
        cmocka_unit_test_setup_teardown(
            overwritten_events_are_counted_and_their_step_is_not_recorded, begin, end),
        cmocka_unit_test_setup_teardown(
            a_step_is_not_recorded_whose_other_thread_reaches_less_far_back, begin,
            end),
        cmocka_unit_test_setup_teardown(
            a_step_has_no_known_work_where_its_ring_reaches_less_far_back, begin, end),
        cmocka_unit_test_setup_teardown(
            what_other_threads_wrote_before_a_step_is_folded_in_many_short_locks, begin,
            end),
        cmocka_unit_test_setup_teardown(
            threads_and_names_that_found_no_room_stand_in_the_status, begin, end),
        cmocka_unit_test_setup_teardown(a_live_process_without_steps_shows_its_ops,
                                        begin, end),
        cmocka_unit_test_setup_teardown(
            readers_see_whole_answers_while_the_collector_folds, begin, end),
        cmocka_unit_test_setup_teardown(
            who_writes_without_a_pause_keeps_neither_the_lock_nor_the_others, begin,
            end),
        cmocka_unit_test_setup_teardown(
            a_trace_takes_the_window_s_events_of_every_thread, begin, end),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
