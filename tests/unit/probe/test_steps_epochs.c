/* Which batches are validation, where epochs begin, and what is in no step. */
#include "unit/step_script.h"

/* ---- validation, epochs ---- */

static void batches_without_an_update_are_validation_rows(void **state)
{
    (void)state;

    expect("fetch/1@100-110 back@120-130 opt@140-150 nomore/1@160-165 "
           "fetch/2@200-210 fetch/2@300-310 fetch/2@400-410 nomore/2@500-505 "
           "fetch/1@600-610 back@620-630 opt@640-650",
           "by:optimizer data0@100-110 epoch1 forward0@110-120 backward0@120-130 "
           "optimizer0@140-150 step0@100-150+first data@160-165 "
           "data@200-210 forward@210-300 row@160-300 data@300-310 forward@310-400 "
           "row@300-400 data@400-410 forward@410-500 row@400-500 data1@500-505 "
           "data1@600-610 forward1@610-620 backward1@620-630 "
           "optimizer1@640-650 step1@500-650+first");
}

static void a_validation_that_is_broken_off_has_all_its_rows(void **state)
{
    (void)state;

    expect("built@1 fetch/2@200-210 fetch/1@300-310 back@400-500 opt@510-550 "
           "fetch/1@600-610",
           "data@200-210 forward@210-300 row@200-300 by:optimizer data0@300-310 "
           "epoch1 forward0@310-400 backward0@400-500 "
           "optimizer0@510-550 step0@300-550+first");
}

static void a_new_pass_over_the_training_loader_is_an_epoch(void **state)
{
    (void)state;
    static struct log log;
    struct steps steps;

    begin(&steps, &log);
    for (unsigned i = 0; i < 3; i++)
        feed(&steps,
             "iter/1@0-5 fetch/1@10-20 back@30-40 opt@50-60 fetch/1@70-80 back@90-100 "
             "opt@110-120 nomore/1@130-140 iter/2@150-155 fetch/2@160-170 "
             "fetch/2@180-190 nomore/2@200-210",
             1000 * i);
    assert_non_null(strstr(log.text, "epoch3 "));
    assert_null(strstr(log.text, "epoch4 "));
    assert_int_equal(log.steps, 6);
}

static void a_pass_that_only_evaluates_the_training_loader_is_no_epoch(void **state)
{
    (void)state;
    static struct log log;
    struct steps steps;

    begin(&steps, &log);
    for (unsigned i = 0; i < 3; i++)
        feed(&steps,
             "iter/1@0-5 fetch/1@10-20 back@30-40 opt@50-60 fetch/1@70-80 back@90-100 "
             "opt@110-120 nomore/1@130-140 iter/1@150-155 fetch/1@160-170 "
             "fetch/1@180-190 nomore/1@200-210",
             1000 * i);
    assert_non_null(strstr(log.text, "epoch3 "));
    assert_null(strstr(log.text, "epoch4 "));
}

/* `count` trained batches of loader 2, and its end. */
static void pass_over_other(struct steps *steps, unsigned at, unsigned count)
{
    feed(steps, "iter/2@0-5", at);
    for (unsigned i = 0; i < count; i++)
        feed(steps, "fetch/2@10-20 back@30-40 opt@50-60", at + 100 * i);
    feed(steps, "nomore/2@10-20", at + 100 * count);
}

/* As where a run goes on with other data: the first loop is left with `break`. */
static void a_loader_that_takes_over_from_one_in_its_middle_has_epochs(void **state)
{
    (void)state;
    static struct log log;
    struct steps steps;

    begin(&steps, &log);
    feed(&steps, "iter/1@0-5 fetch/1@10-20 back@30-40 opt@50-60", 0);
    for (unsigned i = 1; i < 4; i++)
        pass_over_other(&steps, 10000 * i, 20);
    /* The first loop's, and two of the other: of its first pass nobody knew. */
    assert_non_null(strstr(log.text, "epoch3 "));
    assert_null(strstr(log.text, "epoch4 "));
    assert_int_equal(log.steps, 61);
}

/* As a critic that trains on five batches for each one of the generator's. */
static void
a_loader_that_runs_out_between_batches_of_another_has_no_epochs(void **state)
{
    (void)state;
    static struct log log;
    struct steps steps;

    begin(&steps, &log);
    for (unsigned i = 0; i < 4; i++) {
        feed(&steps, "fetch/1@10-20 back@30-40 opt@50-60", 10000 * i);
        pass_over_other(&steps, 10000 * i + 100, 5);
    }
    assert_non_null(strstr(log.text, "epoch1 "));
    assert_null(strstr(log.text, "epoch2 "));
}

static void loaders_that_train_in_turns_have_the_epochs_of_one(void **state)
{
    (void)state;
    static struct log log;
    struct steps steps;

    begin(&steps, &log);
    for (unsigned i = 0; i < 3; i++)
        feed(&steps,
             "iter/1@0-2 iter/2@3-5 fetch/1@10-20 back@30-40 opt@50-60 fetch/2@70-80 "
             "back@90-100 opt@110-120 fetch/1@210-220 back@230-240 opt@250-260 "
             "fetch/2@270-280 back@290-300 opt@310-320 nomore/1@330-340 "
             "nomore/2@350-360",
             1000 * i);
    assert_non_null(strstr(log.text, "epoch3 "));
    assert_null(strstr(log.text, "epoch4 "));
    assert_int_equal(log.steps, 12);
}

static void an_iterator_for_each_batch_is_no_epoch(void **state)
{
    (void)state;
    static struct log log;
    struct steps steps;

    begin(&steps, &log);
    for (unsigned i = 0; i < 20; i++)
        feed(&steps, "iter/1@0-5 fetch/1@6-20 back@30-40 opt@50-60", 100 * i);
    assert_non_null(strstr(log.text, "epoch1 "));
    assert_null(strstr(log.text, "epoch2 "));
}

static void users_who_count_epochs_from_zero_are_shifted(void **state)
{
    (void)state;

    expect("epoch/0@10 epoch/1@20 epoch/1@30", "epoch1 epoch2");
    expect("epoch/1@10 epoch/2@20", "epoch1 epoch2");
}

static void where_nothing_trains_batches_are_the_steps(void **state)
{
    (void)state;

    expect("fetch/1@100-110 fetch/1@200-210 fetch/1@300-310 nomore/1@400-405",
           "by:batch data0@100-110 forward0@110-200 step0@100-200+first "
           "data1@200-210 forward1@210-300 step1@200-300 "
           "data2@300-310 forward2@310-400 step2@300-400");
}

static void a_job_that_built_an_optimizer_in_vain_has_steps_after_a_while(void **state)
{
    (void)state;
    static struct log log;
    struct steps steps;

    begin(&steps, &log);
    feed(&steps, "built@1", 0);
    assert_int_equal(steps_of(&steps, &log, "fetch/1@0-10", 100, 200), 0);
    assert_int_equal(steps_of(&steps, &log, "fetch/1@0-10", 100, 200), 200 - 57);
}

static void training_after_batches_goes_on_with_the_next_number(void **state)
{
    (void)state;

    expect("fetch/1@100-110 nomore/1@200-205 fetch/1@300-310 back@400-500 opt@510-550 "
           "fetch/1@600-610",
           "by:batch data0@100-110 forward0@110-200 step0@100-200+first by:optimizer "
           "data1@200-205 data1@300-310 epoch1 forward1@310-400 backward1@400-500 "
           "optimizer1@510-550 step1@200-550+first");
}

/* ---- peeks and pauses ---- */

static void a_batch_that_is_only_peeked_at_is_no_step(void **state)
{
    (void)state;

    expect("iter/1@1-2 fetch/1@10-20 iter/1@100-105 fetch/1@110-120 back@130-140 "
           "opt@150-160 fetch/1@200-210",
           "by:optimizer data0@100-105 data0@110-120 epoch1 forward0@120-130 "
           "backward0@130-140 optimizer0@150-160 step0@100-160+first");
}

static void a_pause_before_a_new_iterator_is_in_no_step(void **state)
{
    (void)state;

    expect("fetch/1@10-20 back@30-40 opt@50-60 nomore/1@70-80 iter/1@900000-900010 "
           "fetch/1@900010-900020 back@900030-900040 opt@900050-900060",
           "by:optimizer data0@10-20 epoch1 forward0@20-30 backward0@30-40 "
           "optimizer0@50-60 step0@10-60+first data1@900000-900020 "
           "epoch2 forward1@900020-900030 backward1@900030-900040 "
           "optimizer1@900050-900060 step1@900000-900060+first");
}

static void a_pause_before_an_optimizer_is_built_is_in_no_step(void **state)
{
    (void)state;

    expect("fetch/1@10-20 back@30-40 opt@50-60 nomore/1@70-80 built@900000 "
           "iter/2@900010-900020 fetch/2@900020-900030 back@900040-900050 "
           "opt@900060-900070",
           "by:optimizer data0@10-20 epoch1 forward0@20-30 backward0@30-40 "
           "optimizer0@50-60 step0@10-60+first data1@900010-900030 "
           "epoch2 forward1@900030-900040 backward1@900040-900050 "
           "optimizer1@900060-900070 step1@900010-900070+first");
    expect("back@30-40 opt@50-60 back@70-80 opt@90-100 built@900000 "
           "zero@900010-900020 back@900030-900040 opt@900050-900060",
           "by:optimizer backward0@30-40 optimizer0@50-60 step0@30-60+first "
           "forward1@60-70 backward1@70-80 optimizer1@90-100 step1@60-100+first "
           "forward2@900020-900030 backward2@900030-900040 optimizer2@900050-900060 "
           "step2@900010-900060");
}

static void an_iterator_that_goes_on_from_the_start_begins_an_epoch(void **state)
{
    (void)state;
    static struct log log;
    struct steps steps;

    begin(&steps, &log);
    for (unsigned i = 0; i < 8; i++)
        feed(&steps,
             "+fetch/1@10 iter/1@11-12 -fetch/1@20 back@30-40 opt@50-60 "
             "fetch/1@70-80 back@90-100 opt@110-120 fetch/2@200-210",
             1000 * i);
    assert_non_null(strstr(log.text, "epoch8 "));
    assert_null(strstr(log.text, "epoch9 "));
    assert_int_equal(log.steps, 16);
    assert_non_null(strstr(log.text, "row@"));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(batches_without_an_update_are_validation_rows),
        cmocka_unit_test(a_validation_that_is_broken_off_has_all_its_rows),
        cmocka_unit_test(a_new_pass_over_the_training_loader_is_an_epoch),
        cmocka_unit_test(a_pass_that_only_evaluates_the_training_loader_is_no_epoch),
        cmocka_unit_test(a_loader_that_takes_over_from_one_in_its_middle_has_epochs),
        cmocka_unit_test(
            a_loader_that_runs_out_between_batches_of_another_has_no_epochs),
        cmocka_unit_test(loaders_that_train_in_turns_have_the_epochs_of_one),
        cmocka_unit_test(an_iterator_for_each_batch_is_no_epoch),
        cmocka_unit_test(users_who_count_epochs_from_zero_are_shifted),
        cmocka_unit_test(where_nothing_trains_batches_are_the_steps),
        cmocka_unit_test(a_job_that_built_an_optimizer_in_vain_has_steps_after_a_while),
        cmocka_unit_test(training_after_batches_goes_on_with_the_next_number),
        cmocka_unit_test(a_batch_that_is_only_peeked_at_is_no_step),
        cmocka_unit_test(a_pause_before_a_new_iterator_is_in_no_step),
        cmocka_unit_test(a_pause_before_an_optimizer_is_built_is_in_no_step),
        cmocka_unit_test(an_iterator_that_goes_on_from_the_start_begins_an_epoch),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
