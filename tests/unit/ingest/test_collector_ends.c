/* How a job has ended, as a collector finds it: by its lock, its good-bye and the note
 * of `run`. */
#include <math.h>
#include <string.h>
#include <sys/file.h>
#include <sys/mman.h>
#include <sys/stat.h>

#include "ingest/source.h"
#include "query/steps_query.h"
#include "unit/live_job.h"
#include "wire/clock.h"
#include "wire/end_note.h"

#define S (1000 * MS)

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
    /* While one lives, nobody reads the dead: what is told is told without their
     * events. */
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
        cmocka_unit_test_setup_teardown(a_job_that_somebody_interrupts_has_not_crashed,
                                        begin, end),
        cmocka_unit_test_setup_teardown(
            a_launcher_that_fails_when_it_is_interrupted_has_not_crashed, begin, end),
        cmocka_unit_test_setup_teardown(
            a_process_that_died_long_before_the_interrupt_has_crashed, begin, end),
        cmocka_unit_test_setup_teardown(open_ranges_of_every_thread_outlive_a_crash,
                                        begin, end),
        cmocka_unit_test_setup_teardown(
            two_hundred_dead_sessions_are_listed_and_not_read, begin, end),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
