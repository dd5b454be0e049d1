/* What ends a step where the program says so: by step(), by the profiler, through its
 * framework. */
#include "unit/step_script.h"

static void step_ends_one_and_begins_the_next(void **state)
{
    (void)state;

    expect("fetch@100-110 forward@120-130 back@130-140 opt@140-150 step@160 "
           "fetch@170-180 forward@180-190 back@190-200 opt@200-210 step@220",
           "by:optimizer data0@100-110 forward0@120-130 backward0@130-140 "
           "optimizer0@140-150 by:call step0@100-160+first+marked "
           "data1@170-180 forward1@180-190 backward1@190-200 optimizer1@200-210 "
           "step1@160-220+marked");
}

static void a_step_call_after_inferred_steps_begins_a_marked_stretch(void **state)
{
    (void)state;

    expect("fetch/1@100-110 back@120-130 opt@140-150 fetch/1@200-210 back@220-230 "
           "opt@240-250 step@260 fetch/1@300-310 back@320-330 opt@340-350 step@360",
           "by:optimizer data0@100-110 epoch1 forward0@110-120 backward0@120-130 "
           "optimizer0@140-150 step0@100-150+first data1@200-210 "
           "forward1@210-220 backward1@220-230 optimizer1@240-250 "
           "step1@150-250+first by:call data2@300-310 forward2@310-320 "
           "backward2@320-330 optimizer2@340-350 "
           "step2@260-360+first+marked");
}

static void step_alone_counts_from_the_start_of_the_probe(void **state)
{
    (void)state;

    expect("step@100 step@200",
           "by:call step0@1-100+first+marked step1@100-200+marked");
}

static void profiler_steps_count_only_from_the_first_step_on(void **state)
{
    (void)state;

    expect("+prof@50 fetch/1@100-110 back@120-130 opt@140-150 -prof@160 +prof@161 "
           "fetch/1@200-210 back@220-230 opt@240-250 -prof@260",
           "by:profiler data0@100-110 epoch1 forward0@110-120 backward0@120-130 "
           "optimizer0@140-150 step0@100-160+first+marked "
           "data1@200-210 forward1@210-220 backward1@220-230 "
           "optimizer1@240-250 step1@160-260+marked");
    expect("fetch/1@100-110 back@120-130 opt@140-150 fetch/1@160-170 +prof@180 "
           "back@220-230 opt@240-250 -prof@260",
           "by:optimizer data0@100-110 epoch1 forward0@110-120 backward0@120-130 "
           "optimizer0@140-150 step0@100-150+first data1@160-170 "
           "forward1@180-220 backward1@220-230 optimizer1@240-250 "
           "step1@150-250+first");
}

static void updates_end_the_steps_after_the_profiler_has_gone(void **state)
{
    (void)state;
    static struct log log;
    struct steps steps;

    begin(&steps, &log);
    feed(&steps, "+prof@1", 0);
    (void)steps_of(&steps, &log, "fetch/1@0-5 back@10-15 opt/1@20-30 -prof@40 +prof@41",
                   100, 10);
    feed(&steps, "-prof@50", 1000);
    assert_int_equal(log.steps, 10); /* its end is no step of a training */
    assert_int_equal(
        steps_of(&steps, &log, "fetch/1@0-5 back@10-15 opt/1@20-30", 100, 20), 20);
}

/* Lightning: a batch ahead, the closure inside of Optimizer.step, updates every second
 * batch, validation after the epoch. */
static void a_framework_ends_steps_only_where_an_update_happened(void **state)
{
    (void)state;

    expect("framework/1@50 fetch/1@100-110 fetch/1@120-130 back@150-160 batchend/0@170 "
           "fetch/1@180-190 +opt@200 back@210-220 -opt@230 batchend/0@240",
           "by:framework data0@100-110 data0@120-130 epoch1 forward0@130-150 "
           "backward0@150-160 data0@180-190 forward0@200-210 backward0@210-220 "
           "optimizer0@220-230 step0@100-240+first+marked");
}

static void a_framework_says_which_batches_validate(void **state)
{
    (void)state;

    expect("framework/1@50 fetch/1@100-110 +opt@120 back@130-140 -opt@150 "
           "batchend/1@160 +valid@170 fetch/2@180-190 batchend@200 fetch/2@210-220 "
           "batchend@230 -valid@240 fetch/1@300-310 +opt@320 back@330-340 -opt@350 "
           "batchend/1@360",
           "by:framework data0@100-110 epoch1 forward0@120-130 backward0@130-140 "
           "optimizer0@140-150 step0@100-160+first+marked validation1 "
           "data@180-190 forward@190-200 row@180-200 "
           "data@210-220 forward@220-230 row@210-230 validation0 "
           "data1@300-310 forward1@320-330 backward1@330-340 optimizer1@340-350 "
           "step1@230-360+marked");
}

static void a_program_may_say_everything_itself(void **state)
{
    (void)state;

    expect("epoch/1@10 fetch@100-110 forward@110-120 back@120-130 opt@130-140 step@150 "
           "+valid@160 fetch@170-180 forward@180-190 step@190 "
           "fetch@200-210 forward@210-220 step@220 -valid@230 "
           "fetch@300-310 forward@310-320 back@320-330 opt@330-340 step@350",
           "epoch1 by:optimizer data0@100-110 forward0@110-120 backward0@120-130 "
           "optimizer0@130-140 by:call step0@100-150+first+marked "
           "validation1 data@170-180 forward@180-190 row@170-190 "
           "data@200-210 forward@210-220 row@200-220 validation0 "
           "data1@300-310 forward1@310-320 backward1@320-330 optimizer1@330-340 "
           "step1@220-350+marked");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(step_ends_one_and_begins_the_next),
        cmocka_unit_test(a_step_call_after_inferred_steps_begins_a_marked_stretch),
        cmocka_unit_test(step_alone_counts_from_the_start_of_the_probe),
        cmocka_unit_test(profiler_steps_count_only_from_the_first_step_on),
        cmocka_unit_test(updates_end_the_steps_after_the_profiler_has_gone),
        cmocka_unit_test(a_framework_ends_steps_only_where_an_update_happened),
        cmocka_unit_test(a_framework_says_which_batches_validate),
        cmocka_unit_test(a_program_may_say_everything_itself),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
