/* What is a step where no update is known: a batch, or a backward. */
#include "unit/step_script.h"

static void without_a_known_update_each_trained_batch_is_a_step(void **state)
{
    (void)state;

    expect("iter/1@1-2 fetch/1@10-20 back@30-40 fetch/1@50-60 back@70-80 "
           "fetch/1@90-100 back@110-120 nomore/1@130-140",
           "by:optimizer data0@1-2 data0@10-20 epoch1 forward0@20-30 backward0@30-40 "
           "by:trained step0@1-50+first data1@50-60 forward1@60-70 backward1@70-80 "
           "step1@50-90+first data2@90-100 forward2@100-110 backward2@110-120 "
           "step2@90-130");
}

static void a_single_batch_without_an_update_is_a_step_when_its_loop_ends(void **state)
{
    (void)state;

    expect("iter/1@1-2 fetch/1@10-20 back@30-40 nomore/1@50-60",
           "by:optimizer data0@1-2 data0@10-20 epoch1 forward0@20-30 backward0@30-40 "
           "by:trained step0@1-50+first");
}

static void without_batches_each_backward_is_a_step(void **state)
{
    (void)state;

    expect("back@10-20 back@30-40 back@50-60",
           "by:optimizer backward0@10-20 by:backward step0@10-20+first forward1@20-30 "
           "backward1@30-40 step1@20-40+first forward2@40-50 backward2@50-60 "
           "step2@40-60");
}

static void backwards_whose_graphs_come_in_turns_are_one_step(void **state)
{
    (void)state;
    static struct log log;
    struct steps steps;

    begin(&steps, &log);
    assert_int_equal(steps_of(&steps, &log, "back/30@10-20 back/50@30-40", 100, 50),
                     51); /* the first of all is one of its own */
    assert_int_equal(steps_of(&steps, &log, "back/30@10-20 back/50@30-40", 100, 50),
                     50);
}

static void backwards_whose_graphs_never_come_again_are_a_step_each(void **state)
{
    (void)state;
    static struct log log;
    struct steps steps;

    begin(&steps, &log);
    for (unsigned i = 0; i < 100; i++) {
        char script[64];

        (void)snprintf(script, sizeof(script), "back/%u@10-20", 10 + i);
        feed(&steps, script, 100 * i);
    }
    assert_in_range(log.steps, 90, 100);
}

static void an_optimizer_that_was_built_in_vain_gives_way_after_a_while(void **state)
{
    (void)state;
    static struct log log;
    struct steps steps;

    begin(&steps, &log);
    feed(&steps, "built@1", 0);
    assert_in_range(steps_of(&steps, &log, "fetch/1@0-10 back@20-30", 100, 200), 130,
                    140);
    begin(&steps, &log);
    feed(&steps, "built@1", 0);
    assert_in_range(steps_of(&steps, &log, "back@20-30", 100, 200), 130, 140);
}

static void
an_update_that_comes_late_takes_over_and_keeps_its_micro_batches(void **state)
{
    (void)state;
    static struct log log;
    struct steps steps;

    begin(&steps, &log);
    feed(&steps, "built@1", 0);
    (void)steps_of(&steps, &log, "fetch/1@0-10 back@20-30", 100, 100);
    assert_int_equal(steps.source, STEPS_BY_TRAINED_BATCH);
    feed(&steps, "opt/1@0-10", 10200);
    assert_int_equal(steps.source, STEPS_BY_OPTIMIZER);
    (void)steps_of(&steps, &log, "fetch/1@0-10 back@20-30", 100, 100);
    feed(&steps, "opt/1@0-10", 20400);
    uint32_t before = log.steps;

    for (unsigned i = 0; i < 5; i++) {
        assert_int_equal(steps_of(&steps, &log, "fetch/1@0-10 back@20-30", 100, 100),
                         0);
        feed(&steps, "opt/1@50-60", steps.piece_start);
    }
    assert_int_equal(log.steps - before, 5);
}

static void a_framework_whose_updates_nobody_sees_has_steps(void **state)
{
    (void)state;
    static struct log log;
    struct steps steps;

    begin(&steps, &log);
    feed(&steps, "framework/1@1", 0);
    assert_in_range(
        steps_of(&steps, &log, "fetch/1@0-10 back@20-30 batchend/0@40", 100, 50), 48,
        50);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(without_a_known_update_each_trained_batch_is_a_step),
        cmocka_unit_test(a_single_batch_without_an_update_is_a_step_when_its_loop_ends),
        cmocka_unit_test(without_batches_each_backward_is_a_step),
        cmocka_unit_test(backwards_whose_graphs_come_in_turns_are_one_step),
        cmocka_unit_test(backwards_whose_graphs_never_come_again_are_a_step_each),
        cmocka_unit_test(an_optimizer_that_was_built_in_vain_gives_way_after_a_while),
        cmocka_unit_test(
            an_update_that_comes_late_takes_over_and_keeps_its_micro_batches),
        cmocka_unit_test(a_framework_whose_updates_nobody_sees_has_steps),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
