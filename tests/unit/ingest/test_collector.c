#include <errno.h>
#include <math.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/file.h>
#include <sys/mman.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include "aggregate/state.h"
#include "unit/fake_segment.h"
#include "ingest/collector.h"
#include "ingest/guard.h"
#include "ingest/source.h"
#include "query/ops_query.h"
#include "query/status_query.h"
#include "query/steps_query.h"
#include "query/trace_query.h"
#include "wire/clock.h"
#include "wire/end_note.h"

#define SETTLE_MS 20000
#define MS        INT64_C(1000000)
#define S         (1000 * MS)
#define RECORDED  (EVENT_STEP_OPS | 0xfu << 8)

static char directory[128];
static struct store *store;
static struct collector *collector;
static struct fake fake;

static int begin(void **state)
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

static int end(void **state)
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
static void train(uint64_t first, uint64_t count)
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

static void open_fake(void)
{
    fake_open(&fake, directory, "aaaa", "job-1", 4 * 1024 * 1024);
    fake_thread(&fake, 0, 16384);
    fake_thread(&fake, 1, 16384);
}

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

static enum process_state state_of_job(char *reason, size_t size)
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

/* A settled collector has asked for the lock; reading to the end may take another turn.
 */
static enum process_state wait_until_it_does_not_run(char *reason, size_t size)
{
    enum process_state state = PROCESS_RUNNING;

    for (int i = 0; i < 1000 && state == PROCESS_RUNNING; i++) {
        assert_true(collector_settle(collector, SETTLE_MS));
        state = state_of_job(reason, size);
    }
    return state;
}

static void a_job_without_its_lock_has_crashed_at_its_last_step(void **state)
{
    (void)state;
    char reason[160];

    open_fake();
    train(0, 7);
    assert_true(collector_settle(collector, SETTLE_MS));
    fake_die(&fake);
    assert_int_equal(wait_until_it_does_not_run(reason, sizeof(reason)),
                     PROCESS_CRASHED);
    assert_string_equal(reason, "crashed at step 7");
}

static enum process_state state_of_the_only_process(void)
{
    struct selection whose = {.rank = SELECT_ANY};
    struct status_answer answer;

    assert_true(collector_settle(collector, SETTLE_MS));
    assert_int_equal(status_query(store, &whose, &answer), 0);
    assert_int_equal(answer.session_count, 1);
    enum process_state known = answer.sessions[0].state;

    answer_free(&answer.head);
    return known;
}

static void
a_job_that_closed_its_lock_lives_while_it_has_the_file_in_memory(void **state)
{
    (void)state;
    struct stat here;

    assert_int_equal(stat("/proc/self/ns/pid", &here), 0);
    fake_pid = (uint32_t)getpid();
    fake_pid_namespace = here.st_ino;
    open_fake();
    train(0, 10);
    fake_die(&fake);
    assert_int_equal(state_of_the_only_process(), PROCESS_RUNNING);
    train(10, 10);
    assert_int_equal(state_of_the_only_process(), PROCESS_RUNNING);
    munmap(fake.base, fake.layout.segment_bytes);
    fake.base = NULL;
    assert_int_equal(state_of_the_only_process(), PROCESS_CRASHED);
    unlink(fake.path);
    fake_pid = 4242;
    fake_pid_namespace = 0;
}

static void
a_job_whose_memory_cannot_be_asked_has_time_to_take_its_lock_again(void **state)
{
    (void)state;
    struct source source;

    open_fake();
    train(0, 3);
    assert_int_equal(source_open(&source, store, fake.path), 0);
    assert_false(source_is_gone(&source, 5 * S));
    assert_int_equal(flock(fake.lock, LOCK_UN), 0);
    assert_false(source_is_gone(&source, 6 * S));
    source.wrote_ns = 8 * S;
    assert_false(source_is_gone(&source, 9 * S));
    assert_true(source_is_gone(&source, 10 * S));
    assert_int_equal(flock(fake.lock, LOCK_EX), 0);
    assert_false(source_is_gone(&source, 20 * S));
    assert_int_equal(flock(fake.lock, LOCK_UN), 0);
    assert_false(source_is_gone(&source, 21 * S));
    atomic_store(&fake.header->ended, 1);
    assert_true(source_is_gone(&source, 21 * S));
    source_close(&source);
}

static void a_job_that_said_goodbye_has_ended(void **state)
{
    (void)state;
    char reason[160];

    open_fake();
    train(0, 7);
    atomic_store(&fake.header->ended, 1);
    fake_die(&fake);
    assert_int_equal(wait_until_it_does_not_run(reason, sizeof(reason)), PROCESS_ENDED);
    assert_string_equal(reason, "");
}

/* As if it had died before the collector saw its file: it comes dead from `aside`. */
static void find_dead(const char *aside, const char *session, uint64_t steps,
                      uint32_t goodbye)
{
    struct fake dead;
    char path[192];

    fake_open(&dead, aside, session, session, WIRE_BYTES_MIN);
    atomic_store(&dead.header->steps, steps);
    atomic_store(&dead.header->ended, goodbye);
    fake_die(&dead);
    snprintf(path, sizeof(path), "%s/%s.seg", directory, session);
    assert_int_equal(rename(dead.path, path), 0);
    munmap(dead.base, dead.layout.segment_bytes);
}

static void remove_dead(const char *session)
{
    char path[192];

    snprintf(path, sizeof(path), "%s/%s.seg", directory, session);
    unlink(path);
}

static const struct status_session *find_session(const struct status_answer *answer,
                                                 const char *id)
{
    for (uint32_t i = 0; i < answer->session_count; i++)
        if (strcmp(answer->sessions[i].id, id) == 0)
            return &answer->sessions[i];
    fail_msg("no session %s", id);
    return NULL;
}

static void a_job_found_dead_has_crashed_unless_it_said_goodbye(void **state)
{
    (void)state;
    /* While one lives, nobody reads the dead: what is told is told without their events. */
    struct selection living = {.rank = SELECT_ANY, .session = "job-1"};
    struct status_answer answer;
    char aside[128];

    open_fake();
    train(0, 5);
    fake_directory(aside, sizeof(aside));
    find_dead(aside, "newborn", 0, 0);
    find_dead(aside, "grown", 7, 0);
    find_dead(aside, "polite", 7, 1);
    assert_true(collector_settle(collector, SETTLE_MS));
    assert_int_equal(status_query(store, &living, &answer), 0);
    const struct status_session *newborn = find_session(&answer, "newborn");
    const struct status_session *grown = find_session(&answer, "grown");
    const struct status_session *polite = find_session(&answer, "polite");

    assert_true(newborn->unread && grown->unread && polite->unread);
    assert_int_equal(newborn->state, PROCESS_CRASHED);
    assert_string_equal(newborn->reason, "crashed before its first step ended");
    assert_int_equal(grown->state, PROCESS_CRASHED);
    assert_string_equal(grown->reason, "crashed at step 7");
    assert_int_equal(polite->state, PROCESS_ENDED);
    assert_string_equal(polite->reason, "");
    assert_true(polite->end.known);
    answer_free(&answer.head);
    remove_dead("newborn");
    remove_dead("grown");
    remove_dead("polite");
    rmdir(aside);
}

static void an_ended_job_is_read_when_somebody_asks_for_it(void **state)
{
    (void)state;
    struct selection whose = {.rank = SELECT_ANY};
    struct steps_answer answer;
    uint64_t steps = 0;

    open_fake();
    train(0, 50);
    atomic_store(&fake.header->ended, 1);
    fake_die(&fake);
    for (int i = 0; i < 1000 && steps == 0; i++) {
        assert_true(collector_settle(collector, SETTLE_MS));
        assert_int_equal(
            steps_query(store, &whose, &(struct steps_request){0}, &answer), 0);
        steps = answer.train.count;
        answer_free(&answer.head);
    }
    assert_int_equal(steps, 50);
}

static void touch(void *bytes)
{
    (void)*(volatile char *)bytes;
}

static void one_thread_survives_faults_again_and_again(void **state)
{
    (void)state;
    FILE *file = tmpfile();

    assert_non_null(file);
    assert_int_equal(ftruncate(fileno(file), 4096), 0);
    void *bytes = mmap(NULL, 4096, PROT_READ, MAP_SHARED, fileno(file), 0);

    assert_ptr_not_equal(bytes, MAP_FAILED);
    assert_true(guard_install()); /* cmocka has put a handler of its own in place */
    assert_true(guard_run(touch, bytes));
    assert_int_equal(ftruncate(fileno(file), 0), 0);
    for (int i = 0; i < 3; i++)
        assert_false(guard_run(touch, bytes));
    munmap(bytes, 4096);
    (void)fclose(file);
}

static void a_segment_that_shrinks_is_lost_with_its_reason(void **state)
{
    (void)state;
    char reason[160];

    /* CMocka put a handler of its own in place for the time of a test. */
    assert_true(guard_install());
    open_fake();
    train(0, 5);
    assert_true(collector_settle(collector, SETTLE_MS));
    assert_int_equal(truncate(fake.path, 0), 0);
    assert_int_equal(wait_until_it_does_not_run(reason, sizeof(reason)), PROCESS_LOST);
    assert_non_null(strstr(reason, "cut short"));
}

static void impossible_positions_close_the_session_and_spare_the_others(void **state)
{
    (void)state;
    struct selection whose = {.rank = SELECT_ANY, .session = "job-2"};
    struct status_brief brief;
    struct fake other;
    char reason[160];

    open_fake();
    train(0, 5);
    assert_true(collector_settle(collector, SETTLE_MS));
    atomic_store(&fake.rings[0].shared->head, UINT64_MAX / 2);
    assert_int_equal(wait_until_it_does_not_run(reason, sizeof(reason)), PROCESS_LOST);
    assert_non_null(strstr(reason, "damaged"));
    fake_open(&other, directory, "bbbb", "job-2", 1024 * 1024);
    assert_true(collector_settle(collector, SETTLE_MS));
    assert_int_equal(status_brief_query(store, &whose, &brief), 0);
    assert_int_equal(brief.state, PROCESS_RUNNING);
    answer_free(&brief.head);
    fake_close(&other);
}

static void another_major_version_is_named_with_the_remedy(void **state)
{
    (void)state;
    char reason[160];

    fake_major = WIRE_MAJOR + 1;
    fake_open(&fake, directory, "aaaa", "job-1", 1024 * 1024);
    fake_major = WIRE_MAJOR;
    assert_true(collector_settle(collector, SETTLE_MS));
    assert_int_equal(state_of_job(reason, sizeof(reason)), PROCESS_LOST);
    assert_non_null(strstr(reason, "update trainglass"));
}

static void note_path(char *path, size_t size)
{
    snprintf(path, size, "%s/job-1.end", directory);
}

/* The job trains three steps and dies without a good-bye, and `run` says so. */
static void die_with_note(const struct end_note *note)
{
    char text[END_NOTE_BYTES_MAX], path[160];

    open_fake();
    train(0, 3);
    assert_true(collector_settle(collector, SETTLE_MS));
    fake_die(&fake);
    note_path(path, sizeof(path));
    FILE *file = fopen(path, "w");

    assert_non_null(file);
    fwrite(text, 1, end_note_format(note, text, sizeof(text)), file);
    fclose(file);
}

/* Of the session and of its process, which died with that note. */
static void assert_ended(const struct end_note *note, enum process_state expected,
                         int signal, const char *cause)
{
    struct selection whose = {.rank = SELECT_ANY};
    struct status_answer answer;
    char path[160], reason[160];

    die_with_note(note);
    assert_int_equal(wait_until_it_does_not_run(reason, sizeof(reason)), expected);
    assert_int_equal(*reason == '\0', expected == PROCESS_ENDED);
    assert_int_equal(status_query(store, &whose, &answer), 0);
    assert_int_equal(answer.sessions[0].processes[0].state, expected);
    assert_int_equal(answer.sessions[0].end.signal, signal);
    assert_non_null(strstr(answer.sessions[0].end.cause, cause));
    answer_free(&answer.head);
    note_path(path, sizeof(path));
    unlink(path);
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

static void more_files_than_are_looked_at_are_said(void **state)
{
    (void)state;
    struct selection whose = {.rank = SELECT_ANY};
    struct status_answer answer;
    char path[192];

    for (int turn = 0; turn < 2; turn++) {
        for (int i = 0; i < 4097; i++) {
            snprintf(path, sizeof(path), "%s/%d.seg", directory, i);
            if (turn == 0)
                fclose(fopen(path, "w"));
            else
                unlink(path);
        }
        assert_true(collector_settle(collector, SETTLE_MS));
        assert_int_equal(status_query(store, &whose, &answer), 0);
        assert_int_equal(answer.watching_count, 1);
        assert_true(answer.watching[0].readable);
        assert_int_equal(strstr(answer.watching[0].reason, "4096") != NULL, turn == 0);
        answer_free(&answer.head);
    }
}

/* Does the folder say that processes are left out? And how many the session has, and lost. */
static void assert_crowded(bool crowded, uint32_t processes, uint64_t dropped)
{
    struct selection whose = {.rank = SELECT_ANY};
    struct status_answer answer;

    assert_true(collector_settle(collector, SETTLE_MS));
    assert_int_equal(status_query(store, &whose, &answer), 0);
    assert_int_equal(strstr(answer.watching[0].reason, "1024 processes") != NULL,
                     crowded);
    assert_int_equal(answer.sessions[0].process_count, processes);
    assert_int_equal(answer.sessions[0].processes_dropped, dropped);
    answer_free(&answer.head);
}

static void
a_process_that_finds_no_place_is_said_and_takes_that_of_a_worker_that_ends(void **state)
{
    (void)state;
    struct process *worker = NULL;

    pthread_rwlock_wrlock(&store->lock);
    struct session *session = state_session(store, "job-1");

    for (uint32_t i = 0; i < STATE_PROCESSES; i++) {
        struct process_identity identity = {.pid = 10000 + i,
                                            .rank = -1,
                                            .role = i == 0 ? WIRE_ROLE_TRAINER
                                                           : WIRE_ROLE_WORKER};
        struct process *made = state_process(store, session, &identity);

        assert_non_null(made);
        made->state = PROCESS_RUNNING;
        if (i == STATE_PROCESSES / 2)
            worker = made;
    }
    pthread_rwlock_unlock(&store->lock);
    open_fake();
    assert_crowded(true, STATE_PROCESSES, 0);
    pthread_rwlock_wrlock(&store->lock);
    worker->state = PROCESS_ENDED;
    pthread_rwlock_unlock(&store->lock);
    assert_crowded(false, STATE_PROCESSES, 1);
    pthread_rwlock_rdlock(&store->lock);
    struct process *last = session->processes;

    while (last->next != NULL)
        last = last->next;
    assert_int_equal(last->identity.pid, fake_pid);
    pthread_rwlock_unlock(&store->lock);
}

static void a_command_that_exits_without_its_exit_handlers_has_ended(void **state)
{
    (void)state;
    assert_ended(&(struct end_note){.exit_code = 0, .pid = fake_pid}, PROCESS_ENDED, 0,
                 "");
}

static void what_a_launcher_ends_after_its_success_has_not_crashed(void **state)
{
    (void)state;
    assert_ended(&(struct end_note){.exit_code = 0, .pid = fake_pid + 1}, PROCESS_ENDED,
                 0, "");
}

static void a_process_that_dies_under_a_command_that_fails_has_crashed(void **state)
{
    (void)state;
    assert_ended(&(struct end_note){.exit_code = 1, .pid = fake_pid + 1},
                 PROCESS_CRASHED, 0, "");
}

static void what_the_kernel_kills_has_crashed_however_the_command_ends(void **state)
{
    (void)state;
    assert_ended(
        &(struct end_note){.exit_code = 0, .pid = fake_pid + 1, .oom_kills = 1},
        PROCESS_CRASHED, 0, "");
}

static void a_job_that_somebody_interrupts_has_not_crashed(void **state)
{
    (void)state;
    assert_ended(&(struct end_note){.exit_code = 130, .signal = 2}, PROCESS_ENDED, 2,
                 "interrupted");
}

static void a_launcher_that_fails_when_it_is_interrupted_has_not_crashed(void **state)
{
    (void)state;
    assert_ended(&(struct end_note){.exit_code = 1, .asked_signal = 2}, PROCESS_ENDED,
                 2, "interrupted");
}

static void a_process_that_died_long_before_the_interrupt_has_crashed(void **state)
{
    (void)state;
    uint64_t hour_ns = UINT64_C(3600000000000);
    uint64_t zero_ns =
        UINT64_C(1700000000000000000); /* the fake's, at a count of 1 s */
    struct end_note note = {.exit_code = 130,
                            .signal = 2,
                            .realtime_ns =
                                zero_ns + clock_ns(CLOCK_MONOTONIC) + hour_ns};

    assert_ended(&note, PROCESS_CRASHED, 2, "interrupted");
}

static void the_note_of_run_says_how_the_command_ended(void **state)
{
    (void)state;
    struct selection whose = {.rank = SELECT_ANY};
    struct end_note note = {.exit_code = 137, .signal = 9, .oom_kills = 1};
    struct status_answer answer;
    char path[160], reason[160];

    die_with_note(&note);
    assert_int_equal(wait_until_it_does_not_run(reason, sizeof(reason)),
                     PROCESS_CRASHED);
    assert_int_equal(status_query(store, &whose, &answer), 0);
    assert_true(answer.sessions[0].end.known);
    assert_int_equal(answer.sessions[0].end.signal, 9);
    assert_true(answer.sessions[0].end.oom);
    assert_non_null(strstr(answer.sessions[0].end.cause, "out of memory"));
    answer_free(&answer.head);
    note_path(path, sizeof(path));
    unlink(path);
}

static void open_ranges_of_every_thread_outlive_a_crash(void **state)
{
    (void)state;
    struct selection whose = {.rank = SELECT_ANY};
    struct status_answer answer;
    char reason[160];

    open_fake();
    train(0, 3);
    atomic_store(&fake.slots[1].open[0].start, fake_time(20 * MS));
    atomic_store(&fake.slots[1].open[0].meta,
                 EVENT_META(fake_name(&fake, "gloo:all_reduce"), EVENT_CPU_OP, 0, 0));
    atomic_store(&fake.slots[1].depth, 1);
    assert_true(collector_settle(collector, SETTLE_MS));
    fake_die(&fake);
    (void)wait_until_it_does_not_run(reason, sizeof(reason));
    assert_int_equal(status_query(store, &whose, &answer), 0);
    assert_int_equal(answer.sessions[0].processes[0].thread_count, 1);
    const struct status_thread *thread = &answer.sessions[0].processes[0].threads[0];

    assert_int_equal(thread->open_count, 1);
    assert_string_equal(thread->open[0].name, "gloo:all_reduce");
    assert_true(fabs(thread->open[0].open_for_ns - 10e6) < 1);
    answer_free(&answer.head);
}

/* Of a step whose ops are recorded, in the phase that is told; NULL before the first. */
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

/* A trainer in forward, with no op open, until it was seen at that and at nothing else. */
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

/* As one finds them who comes when they have trained: as long as somebody reads the store,
 * the collector waits. */
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
    /* All that was known when step 152 began, was told before; 199 is still to be told. */
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
    /* On a busy machine they may not have begun. The test's own time limit ends a wait in
     * vain. */
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

    /* About as fast as it is read, and all of it before the first step's end: nothing of
     * it may wait for a later one. */
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

static uint32_t sessions_shown(void)
{
    struct selection whose = {.rank = SELECT_ANY};
    struct status_answer answer;

    assert_true(collector_settle(collector, SETTLE_MS));
    assert_int_equal(status_query(store, &whose, &answer), 0);
    uint32_t count = answer.session_count;

    answer_free(&answer.head);
    return count;
}

static void a_segment_for_which_no_descriptor_was_left_is_opened_later(void **state)
{
    (void)state;
    char elsewhere[128];
    struct rlimit before, few;

    fake_directory(elsewhere, sizeof(elsewhere));
    fake_open(&fake, elsewhere, "aaaa", "job-1", 1024 * 1024);
    (void)sessions_shown(); /* the first scan is over, its descriptors are closed */
    int next = dup(STDERR_FILENO);

    close(next);
    assert_int_equal(getrlimit(RLIMIT_NOFILE, &before), 0);
    /* One more: the directory can be listed, and nothing in it opened. */
    few = (struct rlimit){.rlim_cur = (rlim_t)next + 1, .rlim_max = before.rlim_max};
    assert_int_equal(setrlimit(RLIMIT_NOFILE, &few), 0);
    char from[192];

    snprintf(from, sizeof(from), "%s", fake.path);
    snprintf(fake.path, sizeof(fake.path), "%s/aaaa.seg", directory);
    assert_int_equal(rename(from, fake.path), 0);
    /* Tried at least once, in vain unless the collector had one open when we counted. */
    (void)sessions_shown();
    assert_int_equal(setrlimit(RLIMIT_NOFILE, &before), 0);
    assert_int_equal(sessions_shown(), 1);
    rmdir(elsewhere);
}

static void two_hundred_dead_sessions_are_listed_and_not_read(void **state)
{
    (void)state;
    enum { DEAD = 200 };
    struct selection whose = {.rank = SELECT_ANY};
    struct status_answer answer;
    char name[32], path[192];
    uint64_t steps = 0;

    for (int i = 0; i < DEAD; i++) {
        snprintf(name, sizeof(name), "dead-%d", i);
        fake_open(&fake, directory, name, name, WIRE_BYTES_MIN);
        fake_thread(&fake, 0, 64);
        fake_step(&fake, 0, RECORDED, 0, MS);
        fake_die(&fake);
        munmap(fake.base, fake.layout.segment_bytes);
        fake.base = NULL;
    }
    assert_true(collector_settle(collector, SETTLE_MS));
    assert_int_equal(status_query(store, &whose, &answer), 0);
    assert_int_equal(answer.session_count, DEAD);
    for (uint32_t i = 0; i < answer.session_count; i++)
        steps += answer.sessions[i].steps;
    assert_int_equal(steps, DEAD);
    answer_free(&answer.head);
    for (int i = 0; i < DEAD; i++) {
        snprintf(path, sizeof(path), "%s/dead-%d.seg", directory, i);
        unlink(path);
    }
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
            a_job_without_its_lock_has_crashed_at_its_last_step, begin, end),
        cmocka_unit_test_setup_teardown(a_job_that_said_goodbye_has_ended, begin, end),
        cmocka_unit_test_setup_teardown(
            a_job_that_closed_its_lock_lives_while_it_has_the_file_in_memory, begin,
            end),
        cmocka_unit_test_setup_teardown(
            a_job_whose_memory_cannot_be_asked_has_time_to_take_its_lock_again, begin,
            end),
        cmocka_unit_test_setup_teardown(
            a_job_found_dead_has_crashed_unless_it_said_goodbye, begin, end),
        cmocka_unit_test_setup_teardown(an_ended_job_is_read_when_somebody_asks_for_it,
                                        begin, end),
        cmocka_unit_test(one_thread_survives_faults_again_and_again),
        cmocka_unit_test_setup_teardown(a_segment_that_shrinks_is_lost_with_its_reason,
                                        begin, end),
        cmocka_unit_test_setup_teardown(
            impossible_positions_close_the_session_and_spare_the_others, begin, end),
        cmocka_unit_test_setup_teardown(another_major_version_is_named_with_the_remedy,
                                        begin, end),
        cmocka_unit_test_setup_teardown(the_note_of_run_says_how_the_command_ended,
                                        begin, end),
        cmocka_unit_test_setup_teardown(
            a_command_that_exits_without_its_exit_handlers_has_ended, begin, end),
        cmocka_unit_test_setup_teardown(
            what_a_launcher_ends_after_its_success_has_not_crashed, begin, end),
        cmocka_unit_test_setup_teardown(
            a_process_that_dies_under_a_command_that_fails_has_crashed, begin, end),
        cmocka_unit_test_setup_teardown(
            what_the_kernel_kills_has_crashed_however_the_command_ends, begin, end),
        cmocka_unit_test_setup_teardown(
            a_rate_of_events_is_that_of_seconds_and_not_of_one_look, begin, end),
        cmocka_unit_test_setup_teardown(more_files_than_are_looked_at_are_said, begin,
                                        end),
        cmocka_unit_test_setup_teardown(
            a_process_that_finds_no_place_is_said_and_takes_that_of_a_worker_that_ends,
            begin, end),
        cmocka_unit_test_setup_teardown(a_job_that_somebody_interrupts_has_not_crashed,
                                        begin, end),
        cmocka_unit_test_setup_teardown(
            a_launcher_that_fails_when_it_is_interrupted_has_not_crashed, begin, end),
        cmocka_unit_test_setup_teardown(
            a_process_that_died_long_before_the_interrupt_has_crashed, begin, end),
        cmocka_unit_test_setup_teardown(
            a_trainer_that_sleeps_in_no_op_is_seen_in_its_phase, begin, end),
        cmocka_unit_test_setup_teardown(
            a_trainer_that_works_in_no_op_is_seen_in_forward, begin, end),
        cmocka_unit_test_setup_teardown(
            a_hang_in_no_op_shows_the_training_thread_s_step_and_phase, begin, end),
        cmocka_unit_test_setup_teardown(open_ranges_of_every_thread_outlive_a_crash,
                                        begin, end),
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
            a_segment_for_which_no_descriptor_was_left_is_opened_later, begin, end),
        cmocka_unit_test_setup_teardown(
            two_hundred_dead_sessions_are_listed_and_not_read, begin, end),
        cmocka_unit_test_setup_teardown(
            a_trace_takes_the_window_s_events_of_every_thread, begin, end),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
