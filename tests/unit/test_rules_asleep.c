/* The rule over a training thread that sleeps: what it says, and where it is silent. */
#include "rule_summary.h"

static void sleeps(uint32_t part, double share, const char *place)
{
    struct asleep *asleep = &summary.asleep;

    asleep->looks = 600;
    for (uint32_t i = 0; i <= EVENT_PHASES; i++)
        asleep->place[i] = "";
    asleep->share[part] = share;
    asleep->error[part] = share / 10;
    asleep->place[part] = place;
}

static void a_sleep_in_forward_is_priced_and_told_with_what_to_look_for(void **state)
{
    (void)state;
    number(FACT_VERSION_PYTHON, 3);
    sleeps(EVENT_PHASE_FORWARD, 0.2, "hrtimer_nanosleep");
    const struct finding *finding = find("thread-asleep");

    assert_string_equal(finding->title, "The training thread sleeps in forward");
    assert_true(fabs(finding->ns_per_step - 20 * MS) < 1);
    assert_true(fabs(finding->low_ns - 18 * MS) < 1);
    assert_non_null(strstr(finding->sentence, "off the CPU with no op open"));
    assert_non_null(strstr(finding->sentence, "in a sleep"));
    assert_non_null(strstr(finding->advice[0], "time.sleep"));
    assert_int_equal(finding->claims[0].part, PART_FORWARD);
    assert_string_equal(finding->colour, "forward");
}

static void what_is_waited_for_decides_the_advice(void **state)
{
    (void)state;
    sleeps(EVENT_PHASE_OPTIMIZER, 0.06, "futex_wait_queue");
    const struct finding *finding = find("thread-asleep");

    assert_string_equal(finding->title, "The training thread sleeps in optimizer");
    assert_non_null(strstr(finding->advice[0], "lock"));
    assert_null(strstr(finding->advice[0], "time.sleep"));
    /* The kernel does not say: then nothing is claimed of it. */
    sleeps(EVENT_PHASE_OPTIMIZER, 0.06, "");
    finding = find("thread-asleep");
    assert_null(strstr(finding->sentence, "mostly"));
    assert_non_null(strstr(finding->advice[0], "requests and child processes"));
}

static void a_loop_without_a_loader_sleeps_in_what_forward_alone_can_hold(void **state)
{
    (void)state;
    /* 30 ms in no phase known then; only 3 ms of a step are in none afterwards. */
    sleeps(EVENT_PHASES, 0.3, "hrtimer_nanosleep");
    const struct finding *finding = find("thread-asleep");

    assert_true(fabs(finding->ns_per_step - 27 * MS) < 1);
    assert_non_null(strstr(finding->advice[0], "time.sleep"));
}

static void sleeps_that_others_explain_or_must_be_are_no_finding(void **state)
{
    (void)state;
    /* The loader's, and those that wait for other ranks. */
    sleeps(EVENT_PHASE_DATA, 0.4, "futex_wait_queue");
    assert_string_equal(find("thread-asleep")->id, "none");
    summary.asleep.share[EVENT_PHASE_DATA] = 0;
    sleeps(EVENT_PHASE_BACKWARD, 0.4, "futex_wait_queue");
    assert_string_equal(find("thread-asleep")->id, "none");
    summary.asleep.share[EVENT_PHASE_BACKWARD] = 0;
    /* Steps that are slow one by one have their own finding. */
    sleeps(EVENT_PHASE_FORWARD, 0.2, "hrtimer_nanosleep");
    summary.rhythm.period = extra(18 * MS, 10, EVENT_PHASE_FORWARD);
    summary.rhythm.period_steps = 50;
    assert_string_equal(find("thread-asleep")->id, "none");
    summary.rhythm.period = (struct rhythm_extra){0};
    assert_string_not_equal(find("thread-asleep")->id, "none");
    /* Beside a device the host waits for it. */
    number(FACT_DEVICE_COUNT, 1);
    assert_string_equal(find("thread-asleep")->id, "none");
}

static void the_wait_for_a_late_rank_is_no_sleep_of_ours(void **state)
{
    (void)state;
    sleeps(EVENT_PHASE_FORWARD, 0.2, "futex_wait_queue");
    summary.head.rank = 0;
    struct rank_row rows[2] = {{.rank = 0}, {.rank = 1}};

    summary.ranks = (struct ranks_answer){.slowest = 1,
                                          .rows = rows,
                                          .row_count = 2,
                                          .slowest_cause = "data",
                                          .slowest_price_ns = 18 * MS,
                                          .waits_in = EVENT_PHASE_FORWARD};
    assert_string_equal(find("thread-asleep")->id, "none");
    /* What it sleeps in another phase, or what the late one sleeps itself, is. */
    summary.ranks.waits_in = EVENT_PHASE_BACKWARD;
    assert_string_not_equal(find("thread-asleep")->id, "none");
    summary.ranks.waits_in = EVENT_PHASE_FORWARD;
    summary.head.rank = 1;
    assert_string_not_equal(find("thread-asleep")->id, "none");
}

static void too_few_looks_say_nothing(void **state)
{
    (void)state;
    sleeps(EVENT_PHASE_FORWARD, (double)NAN, "hrtimer_nanosleep");
    summary.asleep.error[EVENT_PHASE_FORWARD] = (double)NAN;
    assert_string_equal(find("thread-asleep")->id, "none");
    sleeps(EVENT_PHASE_FORWARD, 0.2, "hrtimer_nanosleep");
    summary.asleep.error[EVENT_PHASE_FORWARD] = 0.18;
    assert_string_equal(find("thread-asleep")->id, "none");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(a_sleep_in_forward_is_priced_and_told_with_what_to_look_for),
        TEST(what_is_waited_for_decides_the_advice),
        TEST(a_loop_without_a_loader_sleeps_in_what_forward_alone_can_hold),
        TEST(sleeps_that_others_explain_or_must_be_are_no_finding),
        TEST(the_wait_for_a_late_rank_is_no_sleep_of_ours),
        TEST(too_few_looks_say_nothing),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
