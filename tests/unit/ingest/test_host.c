/* The machine's samples: what they say of a process. */
#include <fcntl.h>
#include <math.h>
#include <semaphore.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include "aggregate/state.h"
#include "ingest/host.h"
#include "ingest/loaders.h"
#include "ingest/proc_counters.h"
#include "wire/clock.h"
#include "wire/facts.h"

static struct store *watched; /* NULL none: may be read while the kernel is asked */
static uint32_t asked, locked;
static int64_t busy_ns; /* that pass, at work, before the kernel answers */

bool __real_proc_counters_read(uint32_t pid, struct proc_counters *now);
bool __wrap_proc_counters_read(uint32_t pid, struct proc_counters *now);

bool __wrap_proc_counters_read(uint32_t pid, struct proc_counters *now)
{
    if (watched != NULL) {
        bool free = pthread_rwlock_tryrdlock(&watched->lock) == 0;

        asked++;
        locked += !free;
        if (free)
            pthread_rwlock_unlock(&watched->lock);
    }
    for (uint64_t began = clock_ns(CLOCK_MONOTONIC);
         (int64_t)(clock_ns(CLOCK_MONOTONIC) - began) < busy_ns;)
        ;
    return __real_proc_counters_read(pid, now);
}

static struct process *add(struct store *store, pid_t pid)
{
    struct process_identity identity = {.pid = (uint32_t)pid,
                                        .rank = -1,
                                        .role = WIRE_ROLE_TRAINER,
                                        .same_namespace = true};

    return state_process(store, state_session(store, "hand"), &identity);
}

static void a_process_that_just_died_keeps_the_memory_that_it_had(void **state)
{
    struct store *store = store_new(NULL);
    struct host host = {0};
    pid_t child = fork();
    siginfo_t ended;

    (void)state;
    if (child == 0)
        _exit(0);
    /* Dead, and not reaped: nobody has told the collector. */
    assert_int_equal(waitid(P_PID, (id_t)child, &ended, WEXITED | WNOWAIT), 0);
    struct process *dead = add(store, child), *living = add(store, getpid());

    assert_non_null(dead);
    assert_non_null(living);
    dead->rss_bytes = 7e6;
    host_open(&host);
    host_sample(&host, store, (int64_t)clock_ns(CLOCK_MONOTONIC));
    host_close(&host);
    assert_true(dead->rss_bytes == 7e6);
    assert_true(living->rss_bytes > 0);
    assert_int_equal(waitpid(child, NULL, 0), child);
    store_free(store);
}

static void readers_do_not_wait_while_the_kernel_is_asked_of_a_process(void **state)
{
    struct store *store = store_new(NULL);
    struct host host = {0};

    (void)state;
    assert_non_null(add(store, getpid()));
    host_open(&host);
    asked = locked = 0;
    watched = store;
    host_sample(&host, store, (int64_t)clock_ns(CLOCK_MONOTONIC));
    watched = NULL;
    host_close(&host);
    assert_int_equal(asked, 1);
    assert_int_equal(locked, 0);
    store_free(store);
}

static void a_share_is_of_the_time_between_two_answers_however_long_one_took(void **state)
{
    struct store *store = store_new(NULL);
    struct host host = {0};
    struct process *process = add(store, getpid());

    (void)state;
    assert_non_null(process);
    host_open(&host);
    host_sample(&host, store, (int64_t)clock_ns(CLOCK_MONOTONIC));
    busy_ns = 300000000;
    host_sample(&host, store, (int64_t)clock_ns(CLOCK_MONOTONIC));
    busy_ns = 0;
    host_close(&host);
    assert_true(process->cpu_share > 0);
    assert_true(process->cpu_share < 1.2); /* one thread; the kernel counts in 10 ms */
    store_free(store);
}

static void
a_file_that_is_mapped_is_resident_and_not_its_readers_own(void **state)
{
    const size_t bytes = 64u << 20, page = (size_t)sysconf(_SC_PAGESIZE);
    struct proc_counters before, after;
    FILE *file = tmpfile();

    (void)state;
    assert_non_null(file);
    assert_int_equal(posix_fallocate(fileno(file), 0, (off_t)bytes), 0);
    assert_true(proc_counters_read((uint32_t)getpid(), &before));
    /* The kernel touches the pages: where a sanitizer watched each read, it would take
       memory of the process's own for it. */
    void *map = mmap(NULL, bytes, PROT_READ, MAP_SHARED | MAP_POPULATE, fileno(file), 0);

    assert_ptr_not_equal(map, MAP_FAILED);
    assert_true(proc_counters_read((uint32_t)getpid(), &after));
    /* The kernel counts in batches of some dozen pages. */
    assert_true(after.pages >= before.pages + bytes / page / 2);
    assert_true(after.own_pages < before.own_pages + bytes / page / 8);
    munmap(map, bytes);
    fclose(file);
}

#define FRESH_BYTES ((size_t)64 << 20)

/* Takes that many bytes of pages from the kernel, one by one, and gives them back. */
static void make_pages(void)
{
    const size_t page = (size_t)sysconf(_SC_PAGESIZE);
    char *map = mmap(NULL, FRESH_BYTES, PROT_READ | PROT_WRITE,
                     MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

    if (map == MAP_FAILED)
        return;
    (void)madvise(map, FRESH_BYTES, MADV_NOHUGEPAGE);
    for (size_t at = 0; at < FRESH_BYTES; at += page)
        map[at] = 1;
    munmap(map, FRESH_BYTES);
}

static sem_t go, done; /* to the other thread, and from it */
static uint32_t other_tid;

static void *run_other(void *unused)
{
    (void)unused;
    other_tid = (uint32_t)syscall(SYS_gettid);
    sem_post(&done);
    sem_wait(&go);
    make_pages();
    sem_post(&done);
    sem_wait(&go);
    return NULL;
}

/* Samples before and after another thread made pages; it may be the one that trains. */
static void sample_around_other(struct store *store, struct process *process,
                                bool trains)
{
    struct host host = {0};
    pthread_t other;

    assert_int_equal(sem_init(&go, 0, 0) | sem_init(&done, 0, 0), 0);
    assert_int_equal(pthread_create(&other, NULL, run_other, NULL), 0);
    sem_wait(&done);
    if (trains) {
        struct process_thread *thread = process_thread(process, 0);

        assert_non_null(thread);
        thread->tid = other_tid;
        thread->tells_steps = true;
    }
    host_open(&host);
    host_sample(&host, store, (int64_t)clock_ns(CLOCK_MONOTONIC));
    sem_post(&go);
    sem_wait(&done);
    host_sample(&host, store, (int64_t)clock_ns(CLOCK_MONOTONIC));
    sem_post(&go);
    assert_int_equal(pthread_join(other, NULL), 0);
    host_close(&host);
}

/* A load's mean rate of the newest second that has one. */
static double newest(const struct process *process, enum process_load load)
{
    const struct series_ring *ring = &process->rss.rings[0];

    for (uint32_t i = ring->count; i-- > 0;) {
        const struct series_bucket *bucket = series_at(ring, i);

        if (bucket->counts[load] > 0)
            return (double)bucket->sum[load] / bucket->counts[load];
    }
    return (double)NAN;
}

static void pages_of_other_threads_are_not_those_of_the_training_thread(void **state)
{
    struct store *store = store_new(NULL);
    struct process *process = add(store, getpid());

    (void)state;
    assert_non_null(process);
    sample_around_other(store, process, false);
    assert_true(newest(process, PROCESS_LOAD_FAULTS) <
                newest(process, PROCESS_LOAD_MADE) / 8);
    store_free(store);
}

static void the_training_thread_is_the_one_that_tells_steps(void **state)
{
    struct store *store = store_new(NULL);
    struct process *process = add(store, getpid());

    (void)state;
    assert_non_null(process);
    sample_around_other(store, process, true);
    assert_true(newest(process, PROCESS_LOAD_FAULTS) >
                newest(process, PROCESS_LOAD_MADE) / 2);
    store_free(store);
}

static void shared_memory_is_measured_where_the_segment_lies_in_it(void **state)
{
    struct store *store = store_new(NULL);
    struct host host = {0};
    struct process *process = add(store, getpid());

    (void)state;
    assert_non_null(process);
    host_open(&host);
    (void)snprintf(process->identity.path, sizeof(process->identity.path), "/tmp");
    host_sample(&host, store, (int64_t)clock_ns(CLOCK_MONOTONIC));
    assert_true(isnan(process->shared_bytes)); /* the loader's batches lie elsewhere */
    (void)snprintf(process->identity.path, sizeof(process->identity.path), "/dev/shm/");
    host_sample(&host, store, (int64_t)clock_ns(CLOCK_MONOTONIC));
    host_close(&host);
    assert_true(process->shared_bytes > 0);
    assert_true(process->shared_used_bytes >= 0 &&
                process->shared_used_bytes <= process->shared_bytes);
    store_free(store);
}

static void say_workers(struct process *trainer, double workers)
{
    const char *key = FACT_DATALOADER_WORKERS;

    trainer->facts[trainer->fact_count++] =
        (struct process_fact){.key = texts_intern(trainer->texts, key, strlen(key)),
                              .type = WIRE_FACT_NUMBER,
                              .number = workers};
}

/* Children that wait until they are ended. */
static void start_children(pid_t *children, uint32_t count, const char *name)
{
    for (uint32_t i = 0; i < count; i++) {
        children[i] = fork();
        assert_true(children[i] >= 0);
        if (children[i] != 0)
            continue;
        if (name != NULL)
            prctl(PR_SET_NAME, name);
        for (;;)
            pause();
    }
    usleep(name != NULL ? 100000 : 0); /* until they have it */
}

static void end_children(const pid_t *children, uint32_t count)
{
    for (uint32_t i = 0; i < count; i++) {
        kill(children[i], SIGKILL);
        assert_int_equal(waitpid(children[i], NULL, 0), children[i]);
    }
}

static uint32_t sampled(const struct process *trainer)
{
    uint32_t count = 0;

    for (uint32_t i = 0; trainer->loaders != NULL && i < PROCESS_LOADERS; i++)
        count += trainer->loaders[i].count > 0;
    return count;
}

static void sample_loaders(struct process *trainer, int64_t time_ns)
{
    struct loaders_reading reading;

    loaders_read(trainer->identity.pid, loaders_workers(trainer), &reading);
    loaders_take(trainer, &reading, time_ns);
}

static void children_are_workers_only_where_their_number_is_the_jobs_own(void **state)
{
    struct store *store = store_new(NULL);
    struct process *sure = add(store, getpid());
    pid_t children[2];

    (void)state;
    assert_non_null(sure);
    if (access("/proc/thread-self/children", R_OK) != 0) {
        store_free(store);
        skip(); /* a kernel that does not list them */
    }
    start_children(children, 2, NULL);
    say_workers(sure, 2);
    for (int64_t second = 1; second <= 3; second++)
        sample_loaders(sure, second * 1000000000);
    uint32_t two = sampled(sure);

    sure->facts[0].number = 3; /* one of them is not there, or somebody else is */
    free(sure->loaders);
    sure->loaders = NULL;
    for (int64_t second = 4; second <= 6; second++)
        sample_loaders(sure, second * 1000000000);
    uint32_t three = sampled(sure);

    end_children(children, 2);
    store_free(store);
    assert_int_equal(two, 2);
    assert_int_equal(three, 0);
}

static void workers_of_a_second_loader_do_not_hide_those_of_the_first(void **state)
{
    struct store *store = store_new(NULL);
    struct process *trainer = add(store, getpid());
    pid_t children[4];

    (void)state;
    assert_non_null(trainer);
    if (access("/proc/thread-self/children", R_OK) != 0) {
        store_free(store);
        skip(); /* a kernel that does not list them */
    }
    start_children(children, 4, "pt_data_worker");
    say_workers(trainer, 2);
    for (int64_t second = 1; second <= 3; second++)
        sample_loaders(trainer, second * 1000000000);
    end_children(children, 4);
    uint32_t count = sampled(trainer);

    store_free(store);
    assert_int_equal(count, 4);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_process_that_just_died_keeps_the_memory_that_it_had),
        cmocka_unit_test(readers_do_not_wait_while_the_kernel_is_asked_of_a_process),
        cmocka_unit_test(
            a_share_is_of_the_time_between_two_answers_however_long_one_took),
        cmocka_unit_test(a_file_that_is_mapped_is_resident_and_not_its_readers_own),
        cmocka_unit_test(pages_of_other_threads_are_not_those_of_the_training_thread),
        cmocka_unit_test(the_training_thread_is_the_one_that_tells_steps),
        cmocka_unit_test(shared_memory_is_measured_where_the_segment_lies_in_it),
        cmocka_unit_test(children_are_workers_only_where_their_number_is_the_jobs_own),
        cmocka_unit_test(workers_of_a_second_loader_do_not_hide_those_of_the_first),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
