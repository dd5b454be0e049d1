/* Marks of the training thread, from the call to the events in the segment. */
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include <cmocka.h>

#include "probe/probe.h"
#include "probe/reported.h"
#include "probe/window.h"
#include "segments.h"
#include "wire/control.h"

static int only_phases(void **state)
{
    return segments_set_up(state) != 0 || setenv("TRAINGLASS_LEVEL", "phases", 1) != 0;
}

static void mark(enum steps_mark_kind kind)
{
    probe_step_mark(kind, 0);
}

static void train_one_step(void)
{
    mark(STEPS_FETCH_BEGIN);
    mark(STEPS_FETCH_END);
    mark(STEPS_GRAPH_BEGIN);
    mark(STEPS_BACKWARD_BEGIN);
    mark(STEPS_BACKWARD_END);
    mark(STEPS_OPTIMIZER_BEGIN);
    mark(STEPS_OPTIMIZER_END);
}

static uint64_t now_ms(void)
{
    return clock_ns(CLOCK_MONOTONIC) / 1000000u;
}

/* ---- events and header -------------------------------------------------------------- */

static int train_three_steps(void)
{
    if (probe_start(WIRE_ROLE_LAUNCHER) != 0)
        return 1;
    errno = EDOM;
    for (int i = 0; i < 3; i++)
        train_one_step();
    mark(STEPS_FETCH_BEGIN);
    return errno == EDOM ? 0 : 2;
}

static void a_step_is_published_after_its_phases(void **state)
{
    (void)state;
    struct segment_file file;
    struct event events[64];
    uint64_t expected = 0, phases = 0;

    assert_int_equal(segments_run(train_three_steps), 0);
    assert_int_equal(segments_open_only(segments_directory, &file), 0);
    int64_t count = segments_events(&file, 0, events, 64);

    for (int64_t i = 0; i < count; i++) {
        uint64_t number = EVENT_STEP_NUMBER(events[i].aux);

        if (EVENT_KIND(events[i].meta) == EVENT_PHASE) {
            assert_int_equal(number, expected);
            phases++;
        }
        if (EVENT_KIND(events[i].meta) != EVENT_STEP)
            continue;
        assert_int_equal(number, expected++);
        assert_int_equal(EVENT_AUX16(events[i].meta), (1 << EVENT_PHASES) - 1);
    }
    assert_int_equal(expected, 3);
    assert_in_range(phases, 9, 12); /* forward may take less than a tick here */
    assert_int_equal(atomic_load(&file.view.header->steps), 3);
    assert_int_equal(atomic_load(&file.view.header->phase), EVENT_PHASE_DATA + 1);
    const struct event *last = &events[count - 1];

    assert_int_equal(EVENT_KIND(last->meta), EVENT_STEP);
    assert_true(atomic_load(&file.view.header->phase_start) >=
                last->time + last->value);
    assert_int_equal(atomic_load(&file.view.header->live_role), WIRE_ROLE_TRAINER);
    assert_true(atomic_load(&file.view.header->clock_pairs_count) >= 2);
    segments_close(&file);
}

static int close_every_descriptor(void)
{
    struct segment_file file;
    int others[8];

    if (probe_start(WIRE_ROLE_TRAINER) != 0)
        return 1;
    train_one_step();
    if (close_range(3, ~0U, 0) != 0)
        return 77;
    for (int i = 0; i < 8; i++) /* our numbers are theirs now */
        others[i] = open("/dev/null", O_RDONLY);
    if (segments_open_only(segments_directory, &file) != 0 || segments_alive(&file))
        return 2;
    while (!segments_alive(&file))
        train_one_step();
    segments_close(&file);
    for (int i = 0; i < 8; i++)
        if (close(others[i]) != 0)
            return 3;
    return 0;
}

static void a_job_that_closes_every_descriptor_is_alive_again_at_a_step(void **state)
{
    (void)state;
    int code = segments_run(close_every_descriptor);

    if (code == 77)
        skip();
    assert_int_equal(code, 0);
}

static void *train_elsewhere(void *steps)
{
    for (int i = 0; i < *(int *)steps; i++)
        train_one_step();
    return NULL;
}

static int train_on_two_threads(void)
{
    pthread_t thread;
    int steps = 5;

    if (probe_start(WIRE_ROLE_TRAINER) != 0)
        return 1;
    train_one_step();
    if (pthread_create(&thread, NULL, train_elsewhere, &steps) != 0)
        return 2;
    pthread_join(thread, NULL);
    train_one_step();
    mark(STEPS_FETCH_BEGIN);
    return probe_step_number() == 2 ? 0 : 3;
}

static void a_second_training_thread_counts_no_steps(void **state)
{
    (void)state;

    assert_int_equal(segments_run(train_on_two_threads), 0);
}

static int fetch_here_and_train_there(void)
{
    pthread_t thread;
    int steps = 5;

    if (probe_start(WIRE_ROLE_TRAINER) != 0)
        return 1;
    mark(STEPS_FETCH_BEGIN); /* a thread that only loads ahead */
    mark(STEPS_FETCH_END);
    if (pthread_create(&thread, NULL, train_elsewhere, &steps) != 0)
        return 2;
    pthread_join(thread, NULL);
    return probe_step_number() >= 4 ? 0 : 3;
}

static void the_thread_that_trains_takes_over_from_one_that_only_fetches(void **state)
{
    (void)state;

    assert_int_equal(segments_run(fetch_here_and_train_there), 0);
}

static int train_on_one_thread_after_another(void)
{
    if (probe_start(WIRE_ROLE_TRAINER) != 0)
        return 1;
    for (int i = 0; i < 3; i++) {
        pthread_t thread;
        int steps = 5;

        if (pthread_create(&thread, NULL, train_elsewhere, &steps) != 0)
            return 2;
        pthread_join(thread, NULL);
    }
    return probe_step_number() == 15 ? 0 : 3;
}

static void training_goes_on_in_another_thread_when_the_first_has_ended(void **state)
{
    (void)state;

    assert_int_equal(segments_run(train_on_one_thread_after_another), 0);
}

static int train_here_no_more(void)
{
    pthread_t thread;
    int steps = 40;

    if (probe_start(WIRE_ROLE_TRAINER) != 0)
        return 1;
    train_one_step();
    if (pthread_create(&thread, NULL, train_elsewhere, &steps) != 0)
        return 2;
    pthread_join(thread, NULL);
    return probe_step_number() > 20 ? 0 : 3;
}

static void a_thread_that_trains_alone_takes_over_from_a_silent_one(void **state)
{
    (void)state;

    assert_int_equal(segments_run(train_here_no_more), 0);
}

/* ---- control ------------------------------------------------------------------------- */

static uint32_t requests;

static void requested(const struct control *control)
{
    requests += control->window_id;
}

/* Writes a request as the server does: a new file, renamed over the old one. */
static bool ask(struct control control, size_t bytes)
{
    char path[320], fresh[328];

    control_seal(&control);
    (void)snprintf(path, sizeof(path), "%.*sctl", (int)(strlen(probe_path()) - 3),
                   probe_path());
    (void)snprintf(fresh, sizeof(fresh), "%s.new", path);
    int fd = open(fresh, O_CREAT | O_WRONLY | O_TRUNC | O_CLOEXEC, 0600);
    bool written = fd >= 0 && write(fd, &control, bytes) == (ssize_t)bytes;

    if (fd >= 0)
        close(fd);
    return written && rename(fresh, path) == 0;
}

/* Trains until `sequence` was obeyed; false when that takes ten seconds. */
static bool train_until_obeyed(uint32_t sequence)
{
    uint64_t end = now_ms() + 10000;

    while (now_ms() < end) {
        train_one_step();
        if (atomic_load(&probe->header->control_seen) == sequence)
            return true;
    }
    return false;
}

static int obey_requests(void)
{
    static const struct probe_hooks hooks = {.requested = requested};
    struct control control = {
        .sequence = 1, .level = WIRE_LEVEL_OPS, .budget_ppm = 10000, .window_id = 1};

    if (probe_start(WIRE_ROLE_TRAINER) != 0 || !probe_hooks_add(&hooks))
        return 1;
    probe_capability(WIRE_SOURCE_CPU_OPS, WIRE_STATE_ACTIVE, NULL, "this test");
    if (!ask(control, sizeof(control)) || !train_until_obeyed(1))
        return 2;
    train_one_step();
    if ((probe_recording() & EVENT_STEP_OPS) == 0 || requests != 1)
        return 3;
    if (atomic_load(&probe->header->level) != WIRE_LEVEL_OPS)
        return 4;
    /* A torn request is ignored as a whole; the next one is obeyed. */
    control.sequence = 2;
    control.level = WIRE_LEVEL_ALL;
    uint64_t end = now_ms() + 200;

    for (bool asked = ask(control, sizeof(control) - 8); asked && now_ms() < end;)
        train_one_step();
    if (atomic_load(&probe->header->control_seen) != 1)
        return 5;
    control.sequence = 3;
    control.level = WIRE_LEVEL_PHASES;
    if (!ask(control, sizeof(control)) || !train_until_obeyed(3))
        return 6;
    train_one_step();
    return (probe_recording() & EVENT_STEP_OPS) == 0 ? 0 : 7;
}

static void requests_are_obeyed_once_and_at_step_boundaries(void **state)
{
    (void)state;

    assert_int_equal(segments_run(obey_requests), 0);
}

static int switch_off_and_on(void)
{
    if (probe_start(WIRE_ROLE_TRAINER) != 0)
        return 1;
    for (int i = 0; i < 10; i++)
        train_one_step();
    probe_ask(WIRE_LEVEL_OFF, -1, 0);
    for (int i = 0; i < 100; i++)
        train_one_step();
    if (probe_recording() != 0)
        return 2;
    probe_ask(WIRE_LEVEL_PHASES, -1, 0);
    for (int i = 0; i < 10; i++)
        train_one_step();
    return probe_recording() != 0 ? 0 : 3;
}

static void
steps_are_counted_while_it_is_switched_off_and_have_phases_again_after(void **state)
{
    (void)state;
    struct segment_file file;
    static struct event events[1024];
    uint64_t steps = 0, backwards_before = 0, backwards_after = 0;

    assert_int_equal(segments_run(switch_off_and_on), 0);
    assert_int_equal(segments_open_only(segments_directory, &file), 0);
    int64_t count = segments_events(&file, 0, events, 1024);

    for (int64_t i = 0; i < count; i++) {
        uint64_t number = EVENT_STEP_NUMBER(events[i].aux);

        if (EVENT_KIND(events[i].meta) == EVENT_STEP)
            assert_int_equal(number, steps++);
        if (EVENT_KIND(events[i].meta) != EVENT_PHASE ||
            EVENT_AUX16(events[i].meta) != EVENT_PHASE_BACKWARD)
            continue;
        backwards_before += number < 60;
        backwards_after += number >= 60;
    }
    assert_int_equal(steps, 120);
    assert_in_range(backwards_before, 9, 11); /* asked for between two boundaries */
    assert_in_range(backwards_after, 8, 10);
    segments_close(&file);
}

/* ---- deep windows ---------------------------------------------------------------------- */

static uint32_t calls; /* that were scheduled */
static bool is_full;   /* the interpreter takes no more calls */

static int called(void *argument)
{
    (void)argument;
    return 0;
}

static int schedule(int (*call)(void *), void *argument)
{
    calls += call == called && argument == NULL && !is_full;
    return is_full ? -1 : 0;
}

static int follow_a_window(void)
{
    struct control control = {.sequence = 1,
                              .level = WIRE_LEVEL_PHASES,
                              .budget_ppm = 10000,
                              .window_id = 77,
                              .window_steps = 5,
                              .window_first_step = 9};

    if (probe_start(WIRE_ROLE_TRAINER) != 0)
        return 1;
    window_listen(schedule, called);
    train_one_step();
    is_full = true;
    if (calls != 0 || !ask(control, sizeof(control)) || !train_until_obeyed(1))
        return 2;
    if (calls != 0 || window_word(WINDOW_ID) != 77 || window_word(WINDOW_STEPS) != 5)
        return 3;
    is_full = false;
    train_one_step();
    train_one_step();
    if (calls != 1 || window_word(WINDOW_RUNNING_STEP) + 1 != probe_step_number() ||
        window_word(WINDOW_THREAD) != (uint64_t)gettid())
        return 4;
    /* The same request again, beside another one. */
    control.sequence = 2;
    if (!ask(control, sizeof(control)) || !train_until_obeyed(2) || calls != 1)
        return 5;
    window_state(WINDOW_WATCH | WINDOW_FLAG);
    train_one_step();
    if (calls != 2 || window_flag() != EVENT_STEP_WINDOW)
        return 6;
    window_state(0);
    train_one_step();
    return calls == 2 && window_flag() == 0 && window_word(WINDOW_WORDS) == 0 ? 0 : 7;
}

static void a_window_is_told_once_and_followed_only_when_python_asks(void **state)
{
    (void)state;
    assert_int_equal(segments_run(follow_a_window), 0);
}

static int profile_beside_the_job(void)
{
    if (probe_start(WIRE_ROLE_TRAINER) != 0)
        return 1;
    window_state(WINDOW_OURS);
    mark(STEPS_PROFILER_STEP_BEGIN);
    window_state(0);
    train_one_step();
    train_one_step();
    window_state(WINDOW_OURS);
    mark(STEPS_PROFILER_STEP_END);
    return probe_step_number() == 2 ? 0 : 2;
}

static void steps_of_a_windows_own_profiler_end_none_of_the_jobs(void **state)
{
    (void)state;
    assert_int_equal(segments_run(profile_beside_the_job), 0);
}

/* ---- hooks ---------------------------------------------------------------------------- */

#define COMERS 8 /* as many as there are places */

static _Atomic uint32_t hooked[COMERS];
static pthread_barrier_t gate;

/* Hooks carry no argument: each comer has a function of its own. */
#define HOOK(n)                                                                        \
    static void hook_##n(const struct probe_step *step)                                \
    {                                                                                  \
        (void)step;                                                                    \
        hooked[n]++;                                                                   \
    }
HOOK(0)
HOOK(1)
HOOK(2)
HOOK(3)
HOOK(4)
HOOK(5)
HOOK(6)
HOOK(7)
static const struct probe_hooks comers[COMERS] = {
    {.step_ending = hook_0}, {.step_ending = hook_1}, {.step_ending = hook_2},
    {.step_ending = hook_3}, {.step_ending = hook_4}, {.step_ending = hook_5},
    {.step_ending = hook_6}, {.step_ending = hook_7}};

static void *come(void *which)
{
    pthread_barrier_wait(&gate);
    return probe_hooks_add(which) ? which : NULL;
}

static int hook_from_eight_threads(void)
{
    pthread_t threads[COMERS];
    void *added;

    if (probe_start(WIRE_ROLE_TRAINER) != 0 ||
        pthread_barrier_init(&gate, NULL, COMERS) != 0)
        return 1;
    for (int i = 0; i < COMERS; i++)
        if (pthread_create(&threads[i], NULL, come, (void *)(uintptr_t)&comers[i]) != 0)
            return 2;
    for (int i = 0; i < COMERS; i++)
        if (pthread_join(threads[i], &added) != 0 || added == NULL)
            return 3;
    if (probe_hooks_add(&comers[0]))
        return 4; /* they are full */
    train_one_step();
    mark(STEPS_FETCH_BEGIN);
    for (int i = 0; i < COMERS; i++)
        if (hooked[i] != 1)
            return 5;
    return 0;
}

static void hooks_that_come_at_one_moment_are_all_called(void **state)
{
    (void)state;
    for (int i = 0; i < 20; i++) {
        assert_int_equal(segments_run(hook_from_eight_threads), 0);
        segments_clear(state);
    }
}

static int report_two_devices(void)
{
    if (probe_start(WIRE_ROLE_TRAINER) != 0)
        return 1;
    reported_memory(EVENT_DEVICE(0, 0), 4096, 0);
    reported_memory(EVENT_DEVICE(1, 0), 8192, 16384);
    return 0;
}

static void every_device_whose_memory_is_reported_has_its_source(void **state)
{
    (void)state;
    static const enum wire_source sources[] = {WIRE_SOURCE_CPU_MEMORY,
                                               WIRE_SOURCE_DEVICE_MEMORY};
    struct segment_file file;

    assert_int_equal(segments_run(report_two_devices), 0);
    assert_int_equal(segments_open_only(segments_directory, &file), 0);
    for (size_t i = 0; i < 2; i++)
        assert_int_equal(atomic_load(&file.view.sources[sources[i]].state),
                         WIRE_STATE_ACTIVE);
    segments_close(&file);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_teardown(a_step_is_published_after_its_phases, segments_clear),
        cmocka_unit_test_teardown(
            a_job_that_closes_every_descriptor_is_alive_again_at_a_step,
            segments_clear),
        cmocka_unit_test_teardown(a_second_training_thread_counts_no_steps,
                                  segments_clear),
        cmocka_unit_test_teardown(
            the_thread_that_trains_takes_over_from_one_that_only_fetches,
            segments_clear),
        cmocka_unit_test_teardown(
            training_goes_on_in_another_thread_when_the_first_has_ended,
            segments_clear),
        cmocka_unit_test_teardown(
            a_thread_that_trains_alone_takes_over_from_a_silent_one, segments_clear),
        cmocka_unit_test_teardown(requests_are_obeyed_once_and_at_step_boundaries,
                                  segments_clear),
        cmocka_unit_test_teardown(
            steps_are_counted_while_it_is_switched_off_and_have_phases_again_after,
            segments_clear),
        cmocka_unit_test_teardown(
            a_window_is_told_once_and_followed_only_when_python_asks, segments_clear),
        cmocka_unit_test_teardown(steps_of_a_windows_own_profiler_end_none_of_the_jobs,
                                  segments_clear),
        cmocka_unit_test_teardown(hooks_that_come_at_one_moment_are_all_called,
                                  segments_clear),
        cmocka_unit_test_teardown(every_device_whose_memory_is_reported_has_its_source,
                                  segments_clear),
    };

    return cmocka_run_group_tests(tests, only_phases, segments_tear_down);
}
