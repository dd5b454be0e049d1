/* Days on which things end: kills at any instant, forks, threads, no room. Real
 * processes; what they left is read as any reader would. TRAINGLASS_TEST_MODE=long kills
 * a thousand times in place of 60. */
#include <fcntl.h>
#include <pthread.h>
#include <sched.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include <cmocka.h>

#include "probe/probe.h"
#include "segments.h"
#include "wire/segment.h"

#define WORKERS 64
#define THREADS 16

static void wait_us(unsigned us)
{
    struct timespec time = {.tv_nsec = (long)us * 1000};

    (void)nanosleep(&time, NULL);
}

/* ---- kills --------------------------------------------------------------------------- */

/* Every word of the event follows from its number. */
static struct event checkable(uint64_t number)
{
    return (struct event){number, ~number, EVENT_META(0, EVENT_METRIC, 0, number),
                          number * 3};
}

static bool is_whole(const struct event *event)
{
    struct event expected = checkable(event->time);

    return memcmp(event, &expected, sizeof(expected)) == 0;
}

static void *write_for_ever(void *unused)
{
    (void)unused;
    for (uint64_t number = 1;; number++)
        probe_event(checkable(number));
    return NULL;
}

static int write_from_two_threads(void)
{
    pthread_t thread;

    if (probe_start(WIRE_ROLE_TRAINER) != 0 ||
        pthread_create(&thread, NULL, write_for_ever, NULL) != 0)
        return 1;
    write_for_ever(NULL);
    return 0;
}

/* Checks every record of every ring; how many there were. */
static uint64_t check_all(const struct segment_file *file)
{
    static struct event events[4096];
    uint64_t records = 0;

    for (uint32_t slot = 0; slot < file->view.layout.thread_count; slot++) {
        struct ring_reader reader;

        if (wire_view_ring(&file->view, slot, &reader, 1) != 1)
            continue;
        for (int64_t got; (got = ring_read(&reader, events, 4096)) > 0;) {
            for (int64_t i = 0; i < got; i++)
                assert_true(EVENT_KIND(events[i].meta) == EVENT_THREAD ||
                            is_whole(&events[i]));
            records += (uint64_t)got;
        }
    }
    return records;
}

/* Until something was recorded: a busy machine may need longer than any fixed time. */
static void wait_for_a_record(void)
{
    struct segment_file file;
    uint64_t records = 0;

    while (records == 0) {
        wait_us(100);
        if (segments_open_only(segments_directory, &file) != 0)
            continue;
        records = check_all(&file);
        segments_close(&file);
    }
}

static void a_trainer_killed_at_any_instant_leaves_no_torn_record(void **state)
{
    (void)state;
    const char *mode = getenv("TRAINGLASS_TEST_MODE");
    unsigned kills = mode != NULL && strcmp(mode, "long") == 0 ? 1000 : 60;
    unsigned random = 12345;
    uint64_t records = 0;

    for (unsigned i = 0; i < kills; i++) {
        struct segment_file file;
        pid_t child = fork();

        if (child == 0)
            _exit(write_from_two_threads());
        while (segments_count(segments_directory, ".seg") == 0)
            wait_us(100);
        if (i % 2 == 1) /* the others: also in the middle of the start */
            wait_for_a_record();
        random = random * 1103515245u + 12345u;
        wait_us(random >> 16 & 16383);
        assert_int_equal(kill(child, SIGKILL), 0);
        assert_int_equal(waitpid(child, NULL, 0), child);
        assert_int_equal(segments_open_only(segments_directory, &file), 0);
        assert_false(segments_alive(&file));
        assert_int_equal(atomic_load(&file.view.header->ended), 0);
        records += check_all(&file);
        segments_close(&file);
        assert_int_equal(segments_remove_all(segments_directory), 0);
    }
    assert_true(records > kills);
}

/* ---- forks ---------------------------------------------------------------------------- */

static int fork_workers_that_record(void)
{
    if (probe_start(WIRE_ROLE_TRAINER) != 0)
        return 1;
    probe_event(checkable(1));
    for (int i = 0; i < WORKERS; i++)
        if (fork() == 0) {
            /* Every second one has something to say. */
            probe_event(checkable(2)); /* not yet: nobody opened a segment here */
            if (i % 2 == 0 && probe_start(0) == 0)
                probe_event(checkable(3));
            _exit(0);
        }
    while (wait(NULL) > 0)
        ;
    probe_event(checkable(4));
    return 0;
}

static void forked_workers_record_in_segments_of_their_own(void **state)
{
    (void)state;
    struct event events[16];
    int trainers = 0, workers = 0;

    assert_int_equal(segments_run(fork_workers_that_record), 0);
    for (int i = 0; i < 1 + WORKERS / 2; i++) {
        struct segment_file file;

        assert_int_equal(segments_open_at(segments_directory, i, &file), 0);
        bool worker = file.view.header->role == WIRE_ROLE_WORKER;
        int64_t count = segments_events(&file, 0, events, 16);

        assert_int_equal(count, worker ? 2 : 3);
        assert_int_equal(events[1].time, worker ? 3 : 1);
        assert_true(!worker || file.bytes <= WIRE_BYTES_SMALL);
        workers += worker;
        trainers += !worker;
        segments_close(&file);
    }
    assert_int_equal(trainers, 1);
    assert_int_equal(workers, WORKERS / 2);
    assert_int_equal(segments_count(segments_directory, ".seg"), 1 + WORKERS / 2);
}

static void a_worker_that_outlives_a_killed_trainer_does_not_keep_it_alive(void **state)
{
    (void)state;
    struct segment_file file;
    int ready[2], released[2];
    char byte;

    assert_int_equal(pipe(ready), 0);
    assert_int_equal(pipe(released), 0);
    pid_t trainer = fork();

    if (trainer == 0) {
        (void)probe_start(WIRE_ROLE_TRAINER);
        if (fork() == 0) { /* the worker: lives until the test is done with it */
            close(released[1]);
            (void)!write(ready[1], "w", 1);
            (void)!read(released[0], &byte, 1);
            _exit(0);
        }
        pause();
        _exit(0);
    }
    assert_int_equal(read(ready[0], &byte, 1), 1);
    assert_int_equal(segments_open_only(segments_directory, &file), 0);
    assert_true(segments_alive(&file));
    assert_int_equal(kill(trainer, SIGKILL), 0);
    assert_int_equal(waitpid(trainer, NULL, 0), trainer);
    assert_false(segments_alive(&file));
    segments_close(&file);
    close(released[1]);
    close(released[0]);
    close(ready[0]);
    close(ready[1]);
}

static int write_in_a_child_without_handlers(void)
{
    if (probe_start(WIRE_ROLE_TRAINER) != 0)
        return 1;
    probe_event(checkable(1));
    /* Not fork(): no handler of ours runs. */
    pid_t child = (pid_t)syscall(SYS_clone, SIGCHLD, NULL, NULL, NULL, NULL);

    if (child == 0) {
        probe_event(checkable(2));
        probe_range_begin(EVENT_META(1, EVENT_CPU_OP, 0, 0));
        probe_step_mark(STEPS_STEP, 0);
        _exit(probe_start(0) == 0 && probe_is_open());
    }
    int status = 1;

    return waitpid(child, &status, 0) == child && status == 0 ? 0 : 2;
}

static void a_child_that_no_handler_saw_is_quiet(void **state)
{
    (void)state;
    struct segment_file file;
    struct event events[16];

    assert_int_equal(segments_run(write_in_a_child_without_handlers), 0);
    assert_int_equal(segments_open_only(segments_directory, &file), 0);
    assert_int_equal(segments_events(&file, 0, events, 16), 2);
    assert_int_equal(atomic_load(&file.view.header->steps), 0);
    segments_close(&file);
}

/* ---- threads, signals ------------------------------------------------------------------- */

static void *write_a_hundred(void *unused)
{
    (void)unused;
    for (uint64_t number = 1; number <= 100; number++)
        probe_event(checkable(number));
    return NULL;
}

static int run_many_threads(void)
{
    pthread_t threads[THREADS];

    if (probe_start(WIRE_ROLE_TRAINER) != 0)
        return 1;
    for (int round = 0; round < 4; round++) {
        for (int i = 0; i < THREADS; i++)
            if (pthread_create(&threads[i], NULL, write_a_hundred, NULL) != 0)
                return 2;
        for (int i = 0; i < THREADS; i++)
            pthread_join(threads[i], NULL);
    }
    return 0;
}

static void threads_have_rings_of_their_own_and_leave_them_to_later_ones(void **state)
{
    (void)state;
    struct segment_file file;
    uint64_t records = 0;
    uint32_t used = 0;

    assert_int_equal(segments_run(run_many_threads), 0);
    assert_int_equal(segments_open_only(segments_directory, &file), 0);
    records = check_all(&file);
    for (uint32_t i = 0; i < file.view.layout.thread_count; i++) {
        uint32_t slot_state = atomic_load(&file.view.threads[i].state);

        assert_int_equal(slot_state == THREAD_LIVE, i == 0); /* the main thread's */
        used += slot_state == THREAD_ENDED;
    }
    assert_int_equal(records, 1 + 4 * THREADS * 101); /* with EVENT_THREADs */
    assert_in_range(used, 1, THREADS);
    assert_int_equal(atomic_load(&file.view.header->threads_refused), 0);
    segments_close(&file);
}

static pthread_barrier_t all_have_written;

static void *write_and_wait_for_the_others(void *unused)
{
    (void)write_a_hundred(unused);
    pthread_barrier_wait(&all_have_written);
    return NULL;
}

#define CROWD 600 /* threads at once: more than any segment has slots */

static int run_more_threads_than_slots(void)
{
    static pthread_t threads[CROWD];
    pthread_attr_t small;

    if (probe_start(WIRE_ROLE_TRAINER) != 0 || pthread_attr_init(&small) != 0 ||
        pthread_attr_setstacksize(&small, 256 * 1024) != 0 ||
        pthread_barrier_init(&all_have_written, NULL, CROWD) != 0)
        return 1;
    for (int i = 0; i < CROWD; i++)
        if (pthread_create(&threads[i], &small, write_and_wait_for_the_others, NULL) != 0)
            return 2;
    for (int i = 0; i < CROWD; i++)
        pthread_join(threads[i], NULL);
    return 0;
}

static void a_thread_that_finds_no_slot_is_counted_once_and_not_event_by_event(void **state)
{
    (void)state;
    struct segment_file file;
    uint32_t used = 0;

    assert_int_equal(segments_run(run_more_threads_than_slots), 0);
    assert_int_equal(segments_open_only(segments_directory, &file), 0);
    for (uint32_t i = 0; i < file.view.layout.thread_count; i++)
        used += atomic_load(&file.view.threads[i].state) == THREAD_ENDED;
    assert_in_range(used, 1, CROWD - 1);
    assert_int_equal(atomic_load(&file.view.header->threads_refused), CROWD - used);
    assert_int_equal(atomic_load(&file.view.header->nested_lost), 0);
    segments_close(&file);
}

static volatile sig_atomic_t signals;

static void write_in_a_handler(int signal)
{
    (void)signal;
    probe_event(checkable(7));
    signals = signals + 1;
}

static int write_while_signals_come(void)
{
    struct itimerspec often = {{0, 50000}, {0, 50000}};
    struct sigevent event = {.sigev_notify = SIGEV_SIGNAL, .sigev_signo = SIGUSR1};
    timer_t timer;

    if (probe_start(WIRE_ROLE_TRAINER) != 0 ||
        signal(SIGUSR1, write_in_a_handler) == SIG_ERR ||
        timer_create(CLOCK_MONOTONIC, &event, &timer) != 0 ||
        timer_settime(timer, 0, &often, NULL) != 0)
        return 1;
    uint64_t number = 1000;

    while (signals < 200)
        probe_event(checkable(number++));
    timer_delete(timer);
    return 0;
}

static void an_event_in_a_signal_handler_is_whole_or_counted(void **state)
{
    (void)state;
    struct segment_file file;

    assert_int_equal(segments_run(write_while_signals_come), 0);
    assert_int_equal(segments_open_only(segments_directory, &file), 0);
    assert_true(check_all(&file) > 200);
    segments_close(&file);
}

/* ---- room ----------------------------------------------------------------------------------- */

/* A folder with a tmpfs of 64 MiB in a mount namespace of its own; 77 where the kernel
 * does not allow that. */
static int mount_small(void)
{
    if (unshare(CLONE_NEWNS) != 0 && unshare(CLONE_NEWUSER | CLONE_NEWNS) != 0)
        return 77;
    if (mount(NULL, "/", NULL, MS_REC | MS_PRIVATE, NULL) != 0 ||
        mount("small", segments_directory, "tmpfs", 0, "size=64m,mode=0700") != 0)
        return 77;
    return 0;
}

static int take(const char *name, off_t bytes)
{
    char path[128];
    int fd;

    (void)snprintf(path, sizeof(path), "%s/%s", segments_directory, name);
    fd = open(path, O_CREAT | O_RDWR | O_CLOEXEC, 0600);
    return fd < 0 ? -1 : posix_fallocate(fd, 0, bytes);
}

static int start_beside_a_loader_that_needs_40(void)
{
    struct segment_file file;

    if (mount_small() != 0)
        return 77;
    if (probe_start(WIRE_ROLE_TRAINER) != 0 ||
        segments_open_path(probe_path(), &file) != 0)
        return 1;
    if (file.bytes > 8 * 1024 * 1024 || take("tensors", 40 * 1024 * 1024) != 0)
        return 2;
    /* Nothing is left at all: our pages are there already. */
    (void)take("rest", 64 * 1024 * 1024);
    for (uint64_t number = 1; number <= 200000; number++)
        probe_event(checkable(number));
    return probe_events_written(EVENT_METRIC) == 200000 ? 0 : 3;
}

static void a_small_dev_shm_keeps_its_room_for_the_loader(void **state)
{
    (void)state;
    int code = segments_run(start_beside_a_loader_that_needs_40);

    if (code == 77)
        skip();
    assert_int_equal(code, 0);
}

static int start_where_little_is_left(void)
{
    struct segment_file file;

    if (mount_small() != 0)
        return 77;
    if (take("rest", 62 * 1024 * 1024) != 0)
        return 1;
    if (probe_start(WIRE_ROLE_TRAINER) != 0 ||
        segments_open_path(probe_path(), &file) != 0)
        return 2;
    return file.bytes >= WIRE_BYTES_MIN && file.bytes <= 256 * 1024 ? 0 : 3;
}

static void with_little_left_the_segment_is_small(void **state)
{
    (void)state;
    int code = segments_run(start_where_little_is_left);

    if (code == 77)
        skip();
    assert_int_equal(code, 0);
}

static int start_where_nothing_is_left(void)
{
    if (mount_small() != 0)
        return 77;
    (void)take("rest", 64 * 1024 * 1024);
    for (int i = 0; take("crumb", 4096 << i) == 0 && i < 14; i++)
        ;
    if (probe_start(WIRE_ROLE_TRAINER) == 0)
        return 1;
    probe_event(checkable(1));
    return strstr(probe_reason(), "too little") != NULL ? 0 : 2;
}

static void with_nothing_left_training_goes_on_without_us(void **state)
{
    (void)state;
    int code = segments_run(start_where_nothing_is_left);

    if (code == 77)
        skip();
    assert_int_equal(code, 0);
}

#define RANKS 8

/* A rank that lives until it is killed; whether it records. */
static bool start_rank(int rank, pid_t *child)
{
    char name[16], recording = 0;
    int told[2];

    (void)snprintf(name, sizeof(name), "%d", rank);
    if (pipe(told) != 0 || setenv("RANK", name, 1) != 0 ||
        setenv("LOCAL_RANK", name, 1) != 0)
        return false;
    *child = fork();
    if (*child == 0) {
        recording = probe_start(WIRE_ROLE_TRAINER) == 0;
        (void)!write(told[1], &recording, 1);
        pause();
        _exit(0);
    }
    close(told[1]);
    (void)!read(told[0], &recording, 1);
    close(told[0]);
    return recording == 1;
}

static int start_all_ranks(void)
{
    pid_t children[RANKS] = {0};
    int recording = 0;

    if (mount_small() != 0)
        return 77;
    setenv("TRAINGLASS_SESSION", "s-ranks", 1);
    setenv("LOCAL_WORLD_SIZE", "8", 1);
    for (int i = 0; i < RANKS; i++)
        recording += start_rank(i, &children[i]);
    for (int i = 0; i < RANKS; i++)
        if (children[i] > 0 && kill(children[i], SIGKILL) == 0)
            waitpid(children[i], NULL, 0);
    return RANKS - recording;
}

static void each_rank_of_a_job_finds_room_in_a_small_dev_shm(void **state)
{
    (void)state;
    int code = segments_run(start_all_ranks);

    if (code == 77)
        skip();
    assert_int_equal(code, 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_teardown(a_trainer_killed_at_any_instant_leaves_no_torn_record,
                                  segments_clear),
        cmocka_unit_test_teardown(forked_workers_record_in_segments_of_their_own,
                                  segments_clear),
        cmocka_unit_test_teardown(
            a_worker_that_outlives_a_killed_trainer_does_not_keep_it_alive,
            segments_clear),
        cmocka_unit_test_teardown(a_child_that_no_handler_saw_is_quiet, segments_clear),
        cmocka_unit_test_teardown(
            threads_have_rings_of_their_own_and_leave_them_to_later_ones,
            segments_clear),
        cmocka_unit_test_teardown(
            a_thread_that_finds_no_slot_is_counted_once_and_not_event_by_event,
            segments_clear),
        cmocka_unit_test_teardown(an_event_in_a_signal_handler_is_whole_or_counted,
                                  segments_clear),
        cmocka_unit_test_teardown(a_small_dev_shm_keeps_its_room_for_the_loader,
                                  segments_clear),
        cmocka_unit_test_teardown(each_rank_of_a_job_finds_room_in_a_small_dev_shm,
                                  segments_clear),
        cmocka_unit_test_teardown(with_little_left_the_segment_is_small,
                                  segments_clear),
        cmocka_unit_test_teardown(with_nothing_left_training_goes_on_without_us,
                                  segments_clear),
    };

    return cmocka_run_group_tests(tests, segments_set_up, segments_tear_down);
}
