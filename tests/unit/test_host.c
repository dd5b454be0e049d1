/* The machine's samples: what they say of a process. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include "aggregate/state.h"
#include "ingest/host.h"
#include "wire/clock.h"

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

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_process_that_just_died_keeps_the_memory_that_it_had),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
