/* A collector lives on beside damaged segments, and says what finds no room. */
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>

#include "ingest/guard.h"
#include "unit/live_job.h"

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

/* Does the folder say that processes are left out? And how many the session has, and
 * lost. */
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
    /* Tried at least once, in vain unless the collector had one open when we
     * counted. */
    (void)sessions_shown();
    assert_int_equal(setrlimit(RLIMIT_NOFILE, &before), 0);
    assert_int_equal(sessions_shown(), 1);
    rmdir(elsewhere);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(one_thread_survives_faults_again_and_again),
        cmocka_unit_test_setup_teardown(a_segment_that_shrinks_is_lost_with_its_reason,
                                        begin, end),
        cmocka_unit_test_setup_teardown(
            impossible_positions_close_the_session_and_spare_the_others, begin, end),
        cmocka_unit_test_setup_teardown(another_major_version_is_named_with_the_remedy,
                                        begin, end),
        cmocka_unit_test_setup_teardown(more_files_than_are_looked_at_are_said, begin,
                                        end),
        cmocka_unit_test_setup_teardown(
            a_process_that_finds_no_place_is_said_and_takes_that_of_a_worker_that_ends,
            begin, end),
        cmocka_unit_test_setup_teardown(
            a_segment_for_which_no_descriptor_was_left_is_opened_later, begin, end),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
