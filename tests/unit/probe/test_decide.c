/* What steps record and what that is said to cost, in a process of its own: read from
 * the segment that it left. */
#include <fcntl.h>
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
#include "segments.h"
#include "wire/control.h"
#include "wire/segment.h"

#define CARRIED ((uint32_t)(RECORDING_PHASES | RECORDING_MEMORY))

#define OPS_PER_STEP 20u

static int clean(void **state)
{
    unsetenv("TRAINGLASS_LEVEL");
    unsetenv("TRAINGLASS_BUDGET");
    unsetenv("MASTER_ADDR");
    return segments_clear(state);
}

static struct wire_governor *published(void)
{
    return &probe->header->governor;
}

static double share(const _Atomic uint64_t *word)
{
    uint64_t bits = atomic_load(word);
    double value;

    memcpy(&value, &bits, sizeof(bits));
    return value;
}

static void spend_us(unsigned us)
{
    uint64_t end = probe_ticks() + us * probe_ticks_per_us();

    while (probe_ticks() < end)
        ;
}

/* A step of 100 us with its ops, as an observer does it. */
static void train_step(void)
{
    uint64_t op = EVENT_META(probe_name("op"), EVENT_CPU_OP, 0, 0);

    if (probe_recording() & EVENT_STEP_OPS)
        for (unsigned i = 0; i < OPS_PER_STEP; i++) {
            probe_range_begin(op);
            probe_range_end(PROBE_RANGE_OWNER(op), 0);
        }
    spend_us(100);
    probe_step_mark(STEPS_STEP, 0);
}

static int start_with_ops(void)
{
    if (probe_start(WIRE_ROLE_TRAINER) != 0)
        return 1;
    probe_capability(WIRE_SOURCE_CPU_OPS, WIRE_STATE_ACTIVE, NULL, NULL);
    probe_step_mark(STEPS_FETCH_BEGIN, 0);
    probe_step_mark(STEPS_FETCH_END, 0);
    return 0;
}

/* ---- auto ------------------------------------------------------------------------ */

static int train_three_hundred_steps(void)
{
    if (start_with_ops() != 0)
        return 1;
    for (unsigned i = 0; i < 300; i++)
        train_step();
    return 0;
}

/* Walks the events of the main thread and counts ops between step ends. */
static void a_step_says_what_it_recorded_and_that_is_whole(void **state)
{
    (void)state;
    struct segment_file file;
    static struct event events[32768];
    unsigned ops = 0, steps = 0, tagged = 0, control = 0, recorded = 0;

    assert_int_equal(segments_run(train_three_hundred_steps), 0);
    assert_int_equal(segments_open_only(segments_directory, &file), 0);
    int64_t count = segments_events(&file, 0, events, 32768);

    for (int64_t i = 0; i < count; i++) {
        uint8_t flags = EVENT_FLAGS(events[i].meta);

        ops += EVENT_KIND(events[i].meta) == EVENT_CPU_OP;
        if (EVENT_KIND(events[i].meta) != EVENT_STEP)
            continue;
        assert_int_equal(ops, flags & EVENT_STEP_OPS ? OPS_PER_STEP : 0);
        assert_false(flags & EVENT_STEP_CONTROL && flags & EVENT_STEP_OPS);
        if (steps < 3)
            assert_true(flags & EVENT_STEP_TAGGED && flags & EVENT_STEP_OPS);
        tagged += (flags & EVENT_STEP_TAGGED) != 0;
        control += (flags & EVENT_STEP_CONTROL) != 0;
        recorded += (flags & EVENT_STEP_OPS) != 0;
        steps++;
        ops = 0;
    }
    assert_int_equal(steps, 300);
    assert_true(control > 50 && control < 150); /* one third, in blocks of 3 */
    assert_true(recorded >= tagged && tagged >= 3);
    segments_close(&file);
}

static void the_sums_are_published_in_the_segment(void **state)
{
    (void)state;
    struct segment_file file;

    setenv("TRAINGLASS_BUDGET", "7.5", 1);
    assert_int_equal(segments_run(train_three_hundred_steps), 0);
    assert_int_equal(segments_open_only(segments_directory, &file), 0);
    const struct wire_governor *sums = &file.view.header->governor;

    assert_true(atomic_load(&sums->sequence) > 8);
    assert_int_equal(atomic_load(&sums->sequence) % 2, 0);
    assert_true(share(&sums->budget) > 7.499 && share(&sums->budget) < 7.501);
    double measured = share(&sums->measured);
    double sum = share(&sums->detail) + share(&sums->burst) + share(&sums->fixed);
    assert_true(measured - sum < 1e-9 && sum - measured < 1e-9);
    assert_true(share(&sums->fixed) > 0);
    assert_true(atomic_load(&sums->control_steps) > 0);
    /* Every source says what an event of it costs. */
    assert_int_equal(atomic_load(&file.view.sources[WIRE_SOURCE_CPU_OPS].cost_ps),
                     250000);
    segments_close(&file);
}

static int train_without_any_source(void)
{
    if (probe_start(WIRE_ROLE_TRAINER) != 0)
        return 1;
    for (unsigned i = 0; i < 50; i++) {
        if (probe_recording() & (EVENT_STEP_OPS | EVENT_STEP_KERNELS))
            return 2;
        train_step();
    }
    return 0;
}

static void nobody_claims_ops_where_nothing_sees_them(void **state)
{
    (void)state;

    assert_int_equal(segments_run(train_without_any_source), 0);
    setenv("TRAINGLASS_LEVEL", "phases", 1);
    assert_int_equal(segments_run(train_without_any_source), 0);
}

/* ---- ranks -------------------------------------------------------------------------- */

static void write_draws(const char *name)
{
    char path[256];
    FILE *file;

    (void)snprintf(path, sizeof(path), "%s/%s", segments_directory, name);
    file = fopen(path, "w");
    for (unsigned i = 0; file != NULL && i < 200; i++) {
        (void)fputc(probe_recording() & EVENT_STEP_CONTROL ? 'c' : '.', file);
        train_step();
    }
    if (file != NULL)
        (void)fclose(file);
}

static int rank_of_a_job(void)
{
    if (start_with_ops() != 0)
        return 1;
    write_draws(getenv("RANK")); /* NOLINT(concurrency-mt-unsafe): one thread */
    return 0;
}

static void read_draws(const char *name, char draws[256])
{
    char path[256];

    (void)snprintf(path, sizeof(path), "%s/%s", segments_directory, name);
    FILE *file = fopen(path, "r");

    assert_non_null(file);
    assert_non_null(fgets(draws, 256, file));
    assert_int_equal(fclose(file), 0);
    assert_int_equal(unlink(path), 0);
}

static void ranks_of_a_job_leave_the_same_steps_alone(void **state)
{
    (void)state;
    char draws[3][256];

    setenv("MASTER_ADDR", "10.1.2.3", 1);
    setenv("RANK", "0", 1);
    assert_int_equal(segments_run(rank_of_a_job), 0);
    setenv("RANK", "1", 1);
    assert_int_equal(segments_run(rank_of_a_job), 0);
    setenv("MASTER_ADDR", "10.1.2.4", 1);
    setenv("RANK", "2", 1);
    assert_int_equal(segments_run(rank_of_a_job), 0);
    unsetenv("RANK");
    read_draws("0", draws[0]);
    read_draws("1", draws[1]);
    read_draws("2", draws[2]);
    assert_non_null(strchr(draws[0], 'c'));
    assert_string_equal(draws[0], draws[1]);
    assert_string_not_equal(draws[0], draws[2]);
}

/* ---- levels and requests -------------------------------------------------------------- */

static int expect_level_ops(void)
{
    if (start_with_ops() != 0)
        return 1;
    for (unsigned i = 0; i < 50; i++) {
        if (probe_recording() != (CARRIED | EVENT_STEP_OPS))
            return 2;
        train_step();
    }
    return atomic_load(&published()->state) == WIRE_GOVERNOR_FIXED &&
                   share(&published()->detail) > 0 &&
                   share(&published()->ci_low) != share(&published()->ci_low)
               ? 0
               : 3;
}

static void a_fixed_level_records_every_step_without_an_interval(void **state)
{
    (void)state;

    setenv("TRAINGLASS_LEVEL", "ops", 1);
    assert_int_equal(segments_run(expect_level_ops), 0);
}

static int budget_is(double expected)
{
    if (probe_start(WIRE_ROLE_TRAINER) != 0)
        return 1;
    double difference = share(&published()->budget) - expected;

    return difference < 1e-9 && difference > -1e-9 ? 0 : 2;
}

static int budget_is_half(void)
{
    return budget_is(0.5);
}

static int budget_is_the_default(void)
{
    return budget_is(1);
}

static void a_budget_that_cannot_be_read_is_the_default(void **state)
{
    (void)state;
    static const char *const bad[] = {"", "x", "1e9", "-1", "101", "1.2.3", "1%%"};

    setenv("TRAINGLASS_BUDGET", "0.5", 1);
    assert_int_equal(segments_run(budget_is_half), 0);
    setenv("TRAINGLASS_BUDGET", ".5%", 1);
    assert_int_equal(segments_run(budget_is_half), 0);
    for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
        setenv("TRAINGLASS_BUDGET", bad[i], 1);
        assert_int_equal(segments_run(budget_is_the_default), 0);
    }
}

static int ask(struct control control)
{
    char path[256];
    static uint32_t sequence;

    (void)snprintf(path, sizeof(path), "%.*sctl", (int)(strlen(probe_path()) - 3),
                   probe_path());
    int file = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);

    control.sequence = ++sequence;
    control_seal(&control);
    if (file < 0 || write(file, &control, sizeof(control)) != sizeof(control))
        return 1;
    close(file);
    for (unsigned i = 0; i < 100000; i++) {
        if (atomic_load(&probe->header->control_seen) == sequence)
            return 0;
        train_step();
    }
    return 2;
}

static int switch_while_training(void)
{
    if (start_with_ops() != 0)
        return 1;
    struct control control = {.level = WIRE_LEVEL_OPS, .budget_ppm = 20000};

    if (ask(control) != 0)
        return 2;
    for (unsigned i = 0; i < 20; i++, train_step())
        if (probe_recording() != (CARRIED | EVENT_STEP_OPS))
            return 3;
    control.level = WIRE_LEVEL_PHASES;
    if (ask(control) != 0 || probe_recording() != CARRIED)
        return 4;
    control.burst_id = 7;
    control.burst_steps = 5;
    if (ask(control) != 0)
        return 5;
    for (unsigned i = 0; i < 5; i++, train_step())
        if (probe_recording() != (CARRIED | EVENT_STEP_OPS | EVENT_STEP_TAGGED))
            return 6;
    if (probe_recording() != CARRIED)
        return 7;
    /* The same request again asks for nothing new. */
    if (ask(control) != 0 || probe_recording() != CARRIED)
        return 8;
    control.level = WIRE_LEVEL_AUTO;
    if (ask(control) != 0)
        return 9;
    for (unsigned i = 0; i < 200; i++) {
        if (probe_recording() & EVENT_STEP_CONTROL)
            return share(&published()->budget) > 1.99 ? 0 : 10;
        train_step();
    }
    return 11;
}

static void level_budget_and_bursts_are_switched_while_it_trains(void **state)
{
    (void)state;
    struct segment_file file;
    static struct event events[32768];
    unsigned switches = 0;

    assert_int_equal(segments_run(switch_while_training), 0);
    assert_int_equal(segments_open_only(segments_directory, &file), 0);
    int64_t count = segments_events(&file, 0, events, 32768);

    for (int64_t i = 0; i < count; i++)
        switches += EVENT_KIND(events[i].meta) == EVENT_MARK &&
                    EVENT_FLAGS(events[i].meta) == EVENT_MARK_LEVEL;
    assert_int_equal(switches, 3);
    segments_close(&file);
}

static int ask_from_within(void)
{
    if (start_with_ops() != 0)
        return 1;
    probe_ask(WIRE_LEVEL_PHASES, 30000, 0);
    probe_ask(-1, -1, 4);               /* both hold */
    probe_ask(WIRE_LEVELS, 2000000, 0); /* neither exists */
    train_step();
    for (unsigned i = 0; i < 4; i++, train_step())
        if (probe_recording() != (CARRIED | EVENT_STEP_OPS | EVENT_STEP_TAGGED))
            return 2;
    if (probe_recording() != CARRIED ||
        atomic_load(&probe->header->level) != WIRE_LEVEL_PHASES)
        return 3;
    double budget = share(&published()->budget);

    return budget > 2.99 && budget < 3.01 ? 0 : 4;
}

static void the_process_itself_may_ask_too(void **state)
{
    (void)state;

    assert_int_equal(segments_run(ask_from_within), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_teardown(a_step_says_what_it_recorded_and_that_is_whole,
                                  clean),
        cmocka_unit_test_teardown(the_sums_are_published_in_the_segment, clean),
        cmocka_unit_test_teardown(nobody_claims_ops_where_nothing_sees_them, clean),
        cmocka_unit_test_teardown(ranks_of_a_job_leave_the_same_steps_alone, clean),
        cmocka_unit_test_teardown(a_fixed_level_records_every_step_without_an_interval,
                                  clean),
        cmocka_unit_test_teardown(a_budget_that_cannot_be_read_is_the_default, clean),
        cmocka_unit_test_teardown(level_budget_and_bursts_are_switched_while_it_trains,
                                  clean),
        cmocka_unit_test_teardown(the_process_itself_may_ask_too, clean),
    };

    return cmocka_run_group_tests(tests, segments_set_up, segments_tear_down);
}
