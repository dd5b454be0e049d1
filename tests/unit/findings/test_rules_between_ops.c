/* Rules over a training thread that is in no op: what they say, and where they are silent. */
#include "unit/rule_summary.h"

static void sleeps(uint32_t part, double share, const char *place)
{
    struct between_ops *between = &summary.between_ops;

    between->looks = 600;
    between->other_share = (double)NAN;
    for (uint32_t i = 0; i <= EVENT_PHASES; i++)
        between->place[i] = "";
    between->asleep[part].share = share;
    between->asleep[part].error = share / 10;
    between->place[part] = place;
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

/* Without a loader all from the update to the first op of the graph lies before it. */
static void
code_before_the_forward_pass_is_told_by_whoever_knows_most_of_it(void **state)
{
    (void)state;
    struct between_ops *between = &summary.between_ops;
    struct op_row row = {.name = "aten::sort", .kind = "op", .per_step_ns = 30 * MS};

    summary.steps.train.phase_ns[EVENT_PHASE_DATA] = (double)NAN;
    summary.steps.train.other_ns = summary.rhythm.median_other_ns = 40 * MS;
    sleeps(EVENT_PHASES, 0.39, "hrtimer_nanosleep");
    assert_string_equal(
        find("thread-asleep")->title,
        "The training thread sleeps in the time before the forward pass");
    assert_true(fabs(find("thread-asleep")->ns_per_step - 39 * MS) < 1);
    assert_int_equal(find("thread-asleep")->claims[0].part, PART_OTHER);
    assert_string_equal(find("between-steps")->id, "none");
    sleeps(EVENT_PHASES, 0, "");
    between->busy_nowhere = (struct between_ops_share){.share = 0.39, .error = 0.04};
    assert_string_equal(find("other-code")->title,
                        "Code that is no op takes time before the forward pass");
    assert_int_equal(find("other-code")->claims[0].part, PART_OTHER);
    assert_string_equal(find("between-steps")->id, "none");
    /* Ops are the loop's own work. */
    between->busy_nowhere.share = 0.01;
    assert_string_equal(find("other-code")->id, "none");
    assert_string_equal(find("between-steps")->id, "none");
    /* Nothing looked at it, and the ops that are known do not fill it. */
    sleeps(EVENT_PHASES, (double)NAN, "");
    between->looks = 0;
    summary.cpu.rows = &row;
    summary.cpu.row_count = summary.cpu.judged_count = 1;
    assert_string_equal(find("between-steps")->id, "between-steps");
    summary.cpu.head.recorded_steps = 10; /* soon something will */
    assert_string_equal(find("between-steps")->id, "none");
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

static void a_wait_for_what_ranks_exchange_is_called_communication(void **state)
{
    (void)state;
    struct op_row row = {
        .name = "c10d::_allgather_base_", .kind = "op", .per_step_count = 8};

    summary.cpu.rows = &row;
    summary.cpu.row_count = summary.cpu.judged_count = 1;
    sleeps(EVENT_PHASE_FORWARD, 0.2, "futex_do_wait");
    assert_string_equal(find("thread-asleep")->title,
                        "The training thread sleeps in forward"); /* no ranks */
    text(FACT_DISTRIBUTED_BACKEND, "gloo");
    text(FACT_DISTRIBUTED_WRAPPER, "FSDP");
    const struct finding *finding = find("thread-asleep");

    assert_non_null(strstr(finding->title, "in forward the ranks may wait"));
    assert_non_null(strstr(finding->sentence, "(`c10d::_allgather_base_`)"));
    assert_null(strstr(finding->advice[0], "queue"));
    assert_non_null(strstr(finding->advice[0], "reshard_after_forward"));
    assert_int_equal(finding->claims[0].kind, CLAIM_PEERS);
    /* Where the kernel does not say what is waited for, it need not be the ranks: DDP, too,
     * exchanges something. */
    sleeps(EVENT_PHASE_FORWARD, 0.2, "");
    assert_string_equal(find("thread-asleep")->title,
                        "The training thread sleeps in forward");
    sleeps(EVENT_PHASE_FORWARD, 0.2, "futex_do_wait");
    /* In a pipeline it is a message. */
    row.name = "c10d::recv_";
    facts[summary.fact_count - 1].text = "";
    finding = find("thread-asleep");
    assert_non_null(strstr(finding->title, "Communication"));
    assert_non_null(strstr(finding->advice[0], "micro-batches"));
    /* What DDP reduces in backward is no reason to sleep in forward; nor is it a sleep. */
    row.name = "c10d::allreduce_";
    facts[summary.fact_count - 1].text = "DDP";
    assert_non_null(strstr(find("thread-asleep")->advice[0], "queue"));
    row.name = "c10d::recv_";
    sleeps(EVENT_PHASE_FORWARD, 0.2, "hrtimer_nanosleep");
    assert_non_null(strstr(find("thread-asleep")->sentence, "in a sleep"));
}

static void a_loop_without_a_loader_sleeps_in_what_forward_alone_can_hold(void **state)
{
    (void)state;
    /* 30 ms in no phase known then; only 3 ms of a step are in none afterwards. */
    sleeps(EVENT_PHASES, 0.3, "hrtimer_nanosleep");
    const struct finding *finding = find("thread-asleep");

    assert_true(fabs(finding->ns_per_step - 27 * MS) < 1);
    assert_non_null(strstr(finding->advice[0], "time.sleep"));
    /* Of the steps that were looked at 28 are: those before had less. */
    summary.between_ops.other_share = 0.28;
    assert_string_equal(find("thread-asleep")->id, "none");
}

static void sleeps_that_others_explain_or_must_be_are_no_finding(void **state)
{
    (void)state;
    /* The loader's, and those that wait for other ranks. */
    sleeps(EVENT_PHASE_DATA, 0.4, "futex_wait_queue");
    assert_string_equal(find("thread-asleep")->id, "none");
    summary.between_ops.asleep[EVENT_PHASE_DATA].share = 0;
    sleeps(EVENT_PHASE_BACKWARD, 0.4, "futex_wait_queue");
    assert_string_equal(find("thread-asleep")->id, "none");
    summary.between_ops.asleep[EVENT_PHASE_BACKWARD].share = 0;
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
    summary.between_ops.asleep[EVENT_PHASE_FORWARD].error = (double)NAN;
    assert_string_equal(find("thread-asleep")->id, "none");
    sleeps(EVENT_PHASE_FORWARD, 0.2, "hrtimer_nanosleep");
    summary.between_ops.asleep[EVENT_PHASE_FORWARD].error = 0.18;
    assert_string_equal(find("thread-asleep")->id, "none");
}

/* Of each of these parts the training thread waits for a tenth of the step, while
 * another thread runs. */
static void is_locked_out(const uint32_t *parts, uint32_t count)
{
    struct between_ops *between = &summary.between_ops;

    *between = (struct between_ops){
        .looks = 600, .runner = 77, .runner_name = "Thread-1 (parse"};
    for (uint32_t i = 0; i <= EVENT_PHASES; i++)
        between->place[i] = "futex_do_wait";
    for (uint32_t i = 0; i < count; i++) {
        between->asleep[parts[i]] = (struct between_ops_share){0.1, 0.01};
        between->behind[parts[i]] = between->asleep[parts[i]];
    }
}

static void waits_for_the_interpreter_in_several_phases_are_one_finding(void **state)
{
    (void)state;
    static const uint32_t parts[] = {EVENT_PHASE_FORWARD, EVENT_PHASE_BACKWARD,
                                     EVENT_PHASE_OPTIMIZER};

    is_locked_out(parts, 3);
    const struct finding *finding = find("interpreter-lock");

    assert_true(fabs(finding->ns_per_step - 30 * MS) < 1);
    assert_true(fabs(finding->low_ns - (30 - sqrt(3)) * MS) < 1);
    assert_non_null(strstr(finding->sentence, "thread 77 (`Thread-1 (parse`)"));
    assert_int_equal(finding->claim_count, 3);
    assert_string_equal(find("thread-asleep")->id, "none");
    /* That it makes some steps long is told by it. */
    struct slow_step slow = {.number = 7, .duration_ns = 300 * MS, .cause = "unknown"};

    summary.steps.slow = &slow;
    summary.steps.slow_count = 1;
    summary.steps.train.p50_ns = 40 * MS;
    summary.rhythm.rest = extra(34 * MS, 300, EVENT_PHASES);
    assert_string_equal(find("unsteady-steps")->id, "none");
    summary.rhythm.rest.ns_per_step = 50 * MS;
    assert_true(fabs(find("unsteady-steps")->ns_per_step - 20 * MS) < 1);
    summary.rhythm.rest = (struct rhythm_extra){0};
    summary.steps.slow_count = 0;
    /* What it sleeps for beside that stays a finding. */
    summary.between_ops.asleep[EVENT_PHASE_FORWARD].share = 0.3;
    assert_true(fabs(find("thread-asleep")->ns_per_step - 20 * MS) < 1);
}

static void
a_wait_at_one_place_is_for_a_result_and_not_for_the_interpreter(void **state)
{
    (void)state;
    static const uint32_t parts[] = {EVENT_PHASE_FORWARD, EVENT_PHASE_BACKWARD};

    is_locked_out(parts, 1);
    assert_string_equal(find("interpreter-lock")->id, "none");
    assert_true(fabs(find("thread-asleep")->ns_per_step - 10 * MS) < 1);
    is_locked_out(parts, 2);
    assert_string_not_equal(find("interpreter-lock")->id, "none");
    /* Little of it elsewhere is no second place. */
    summary.between_ops.behind[EVENT_PHASE_BACKWARD].share = 0.01;
    assert_string_equal(find("interpreter-lock")->id, "none");
    /* Ranks wait for each other in backward. */
    struct rank_row rows[2] = {{.rank = 0}, {.rank = 1}};

    is_locked_out(parts, 2);
    summary.ranks = (struct ranks_answer){.slowest = -1, .rows = rows, .row_count = 2};
    assert_string_equal(find("interpreter-lock")->id, "none");
}

static void no_lock_is_told_without_python_or_beside_a_device(void **state)
{
    (void)state;
    static const uint32_t parts[] = {EVENT_PHASE_FORWARD, EVENT_PHASE_OPTIMIZER};

    is_locked_out(parts, 2);
    summary.native = true;
    assert_string_equal(find("interpreter-lock")->id, "none");
    summary.native = false;
    assert_string_not_equal(find("interpreter-lock")->id, "none");
    number(FACT_DEVICE_COUNT, 1);
    assert_string_equal(find("interpreter-lock")->id, "none");
}

static void works(double share)
{
    summary.between_ops = (struct between_ops){0};
    sleeps(EVENT_PHASE_FORWARD, 0, "");
    summary.between_ops.busy_forward = (struct between_ops_share){share, share / 10};
}

static void code_that_is_no_op_costs_what_forward_holds_of_it(void **state)
{
    (void)state;
    works(0.2);
    const struct finding *finding = find("other-code");

    assert_true(fabs(finding->ns_per_step - 20 * MS) < 1);
    assert_true(fabs(finding->low_ns - 18 * MS) < 1);
    assert_non_null(strstr(finding->sentence, "in forward, the training thread works"));
    assert_non_null(
        strstr(finding->advice[0], "trainglass window --steps 10 --stacks"));
    assert_int_equal(finding->claims[0].part, PART_FORWARD);
    /* Loops without a loader: in no phase then, 3 ms of it beside the phases. */
    works(0);
    summary.between_ops.busy_nowhere = (struct between_ops_share){0.3, 0.01};
    assert_true(fabs(find("other-code")->ns_per_step - 27 * MS) < 1);
    summary.between_ops.busy_nowhere.error = 0.25; /* it may be less than it must */
    assert_string_equal(find("other-code")->id, "none");
    works((double)NAN); /* too few looks */
    assert_string_equal(find("other-code")->id, "none");
}

static void calling_ops_and_what_is_told_elsewhere_is_no_other_code(void **state)
{
    (void)state;
    works(0.2);
    summary.cpu.short_count = 4000; /* of 2 us, and one more for calling each */
    summary.cpu.short_self_ns = 12 * MS;
    const struct finding *finding = find("other-code");

    /* 40 ms of the 100 are forward: so are 1.6 of 4 ms for calling. */
    assert_true(fabs(finding->ns_per_step - 18.4 * MS) < 1);
    assert_non_null(
        strstr(finding->formula, "* 100 ms - 1.6 ms of calling ops = 18.4 ms"));
    summary.rhythm.gc = extra(10 * MS, 100, EVENT_PHASE_FORWARD);
    finding = find("other-code");
    assert_true(fabs(finding->ns_per_step - 8.4 * MS) < 1);
    assert_non_null(
        strstr(finding->formula, " - 10 ms that other findings tell = 8.4 ms"));
    summary.rhythm.gc = extra(14 * MS, 100, EVENT_PHASE_FORWARD);
    assert_string_equal(find("other-code")->id, "none");
}

static void what_no_other_finding_tells_is_left_in_the_price(void **state)
{
    (void)state;
    static struct slow_step slow = {.cause = "forward", .duration_ns = 400 * MS};

    works(0.2);
    summary.steps.slow = &slow;
    summary.steps.slow_count = 1;
    summary.steps.train.p50_ns = 90 * MS;
    summary.rhythm.rest = extra(4.9 * MS, 100, EVENT_PHASE_FORWARD);
    assert_string_equal(find("unsteady-steps")->id, "none");
    assert_true(fabs(find("other-code")->ns_per_step - 20 * MS) < 1);
    summary.rhythm.rest = extra(6 * MS, 100, EVENT_PHASE_FORWARD);
    assert_string_equal(find("unsteady-steps")->id, "unsteady-steps");
    assert_true(fabs(find("other-code")->ns_per_step - 14 * MS) < 1);
    summary.load.delay_most = 0.02; /* others had the core: then it is not told */
    assert_string_equal(find("unsteady-steps")->id, "none");
    assert_true(fabs(find("other-code")->ns_per_step - 20 * MS) < 1);
    /* What others may have made of a drift is none. */
    summary.load.delay_share = 0.02;
    summary.rhythm.drift = extra(10 * MS, 500, EVENT_PHASE_FORWARD);
    assert_string_equal(find("step-drift")->id, "step-drift");
    assert_true(fabs(find("other-code")->ns_per_step - 10 * MS) < 1);
    summary.load.delay_share = 0.05;
    assert_string_equal(find("step-drift")->id, "none");
    assert_true(fabs(find("other-code")->ns_per_step - 20 * MS) < 1);
}

static void its_own_beginning_is_no_drift_that_is_told_elsewhere(void **state)
{
    (void)state;
    struct findings_settings stands = findings_configured();

    works(0.2);
    summary.rhythm.drift = extra(10 * MS, 500, EVENT_PHASE_FORWARD);
    assert_true(fabs(find("other-code")->ns_per_step - 10 * MS) < 1);
    stands.by_price = true;
    findings_free(&findings);
    findings_find(&summary, &stands, &findings);
    uint32_t at = 0;

    while (at < findings.count && strcmp(findings.list[at].id, "other-code") != 0)
        at++;
    assert_true(at < findings.count);
    assert_true(fabs(findings.list[at].ns_per_step - 20 * MS) < 1);
}

static void what_validation_may_have_been_is_no_code_of_a_training_step(void **state)
{
    (void)state;
    works(0.3);
    summary.steps.validation.count = 100; /* a fifth of the training's 50 s */
    summary.steps.validation.mean_ns = 100 * MS;
    assert_true(fabs(find("other-code")->ns_per_step - 16 * MS) < 1);
    summary.steps.validation.count = 200;
    assert_string_equal(find("other-code")->id, "none");
}

static void
code_is_not_told_where_ops_may_run_unseen_or_a_device_is_waited_for(void **state)
{
    (void)state;
    works(0.2);
    assert_string_equal(find("other-code")->id, "other-code");
    summary.native = true;
    assert_string_equal(find("other-code")->id, "none");
    summary.native = false;
    number(FACT_COMPILE_USED, 1);
    assert_string_equal(find("other-code")->id, "none");
    summary.fact_count = 0;
    number(FACT_DEVICE_COUNT, 1);
    assert_string_equal(find("other-code")->id, "none");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(a_sleep_in_forward_is_priced_and_told_with_what_to_look_for),
        TEST(code_before_the_forward_pass_is_told_by_whoever_knows_most_of_it),
        TEST(what_is_waited_for_decides_the_advice),
        TEST(a_wait_for_what_ranks_exchange_is_called_communication),
        TEST(a_loop_without_a_loader_sleeps_in_what_forward_alone_can_hold),
        TEST(sleeps_that_others_explain_or_must_be_are_no_finding),
        TEST(the_wait_for_a_late_rank_is_no_sleep_of_ours),
        TEST(too_few_looks_say_nothing),
        TEST(waits_for_the_interpreter_in_several_phases_are_one_finding),
        TEST(a_wait_at_one_place_is_for_a_result_and_not_for_the_interpreter),
        TEST(no_lock_is_told_without_python_or_beside_a_device),
        TEST(code_that_is_no_op_costs_what_forward_holds_of_it),
        TEST(calling_ops_and_what_is_told_elsewhere_is_no_other_code),
        TEST(what_no_other_finding_tells_is_left_in_the_price),
        TEST(its_own_beginning_is_no_drift_that_is_told_elsewhere),
        TEST(what_validation_may_have_been_is_no_code_of_a_training_step),
        TEST(code_is_not_told_where_ops_may_run_unseen_or_a_device_is_waited_for),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
