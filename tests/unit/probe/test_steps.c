/* What a step is where optimizers update: its phases, its batches, its graphs, and
 * several optimizers. */
#include "unit/step_script.h"

/* ---- one optimizer ---- */

static void a_step_is_an_update_with_its_four_phases(void **state)
{
    (void)state;

    expect("fetch/1@100-120 back@200-300 opt@310-350 "
           "fetch/1@400-420 back@500-600 opt@610-650",
           "by:optimizer data0@100-120 epoch1 forward0@120-200 backward0@200-300 "
           "optimizer0@310-350 step0@100-350+first data1@400-420 "
           "forward1@420-500 backward1@500-600 optimizer1@610-650 "
           "step1@350-650+first");
}

static void zero_grad_is_no_part_of_forward(void **state)
{
    (void)state;

    expect("fetch/1@100-120 graph@125 zero@130-150 back@200-300 opt@310-350 "
           "fetch/1@400-420",
           "by:optimizer data0@100-120 epoch1 forward0@125-130 forward0@150-200 "
           "backward0@200-300 optimizer0@310-350 step0@100-350+first");
}

static void micro_batches_belong_to_the_step_of_their_update(void **state)
{
    (void)state;

    expect("fetch/1@100-110 back@120-130 fetch/1@140-150 back@160-170 opt@180-190 "
           "fetch/1@200-210",
           "by:optimizer data0@100-110 epoch1 forward0@110-120 backward0@120-130 "
           "data0@140-150 forward0@150-160 backward0@160-170 "
           "optimizer0@180-190 step0@100-190+first");
}

static void a_job_that_never_fetches_has_forward_from_the_update_before(void **state)
{
    (void)state;

    expect(
        "zero@100-110 back@200-300 opt@310-350 zero@360-370 back@400-500 opt@510-550",
        "by:optimizer forward0@110-200 backward0@200-300 "
        "optimizer0@310-350 step0@100-350+first forward1@370-400 backward1@400-500 "
        "optimizer1@510-550 step1@350-550+first");
}

static void building_an_iterator_is_data_time(void **state)
{
    (void)state;

    expect("iter/1@100-150 fetch/1@150-160 back@200-300 opt@310-350 iter/1@360-400 "
           "fetch/1@400-410 back@500-600 opt@610-650",
           "by:optimizer data0@100-160 epoch1 forward0@160-200 backward0@200-300 "
           "optimizer0@310-350 step0@100-350+first data1@360-410 "
           "forward1@410-500 backward1@500-600 optimizer1@610-650 "
           "step1@350-650+first");
}

static void a_batch_fetched_ahead_counts_where_the_thread_waited_for_it(void **state)
{
    (void)state;

    expect("fetch/1@100-120 fetch/1@180-200 back@300-400 opt@410-450 "
           "fetch/1@500-510 back@600-700 opt@710-750",
           "by:optimizer data0@100-120 data0@180-200 epoch1 forward0@200-300 "
           "backward0@300-400 optimizer0@410-450 step0@100-450+first "
           "data1@500-510 forward1@510-600 backward1@600-700 "
           "optimizer1@710-750 step1@450-750+first");
}

static void
batches_fetched_ahead_of_the_loaders_end_train_and_are_no_validation(void **state)
{
    (void)state;

    expect("iter/1@90-95 fetch/1@100-110 fetch/1@120-130 back@200-300 opt@310-350 "
           "fetch/1@400-410 nomore/1@420-430 back@500-550 back@560-600 opt@610-650 "
           "fetch/2@700-710 fetch/2@720-730 nomore/2@740-750",
           "by:optimizer data0@90-95 data0@100-110 data0@120-130 epoch1 "
           "forward0@130-200 backward0@200-300 optimizer0@310-350 "
           "step0@90-350+first data1@400-410 data1@420-430 forward1@430-500 "
           "backward1@500-550 forward1@550-560 backward1@560-600 "
           "optimizer1@610-650 step1@350-650+first data@700-710 forward@710-720 "
           "row@700-720 data@720-730 forward@730-740 row@720-740");
}

static void batches_asked_for_in_a_row_are_as_many_as_they_are(void **state)
{
    (void)state;

    expect("fetch/1@100-110 fetch/1@111-120 back@200-300 opt@310-350 "
           "fetch/2@400-410 fetch/2@411-420 nomore/2@430-440",
           "by:optimizer data0@100-110 data0@111-120 epoch1 forward0@120-200 "
           "backward0@200-300 optimizer0@310-350 step0@100-350+first "
           "data@400-410 forward@410-411 row@400-411 data@411-420 forward@420-430 "
           "row@411-430");
}

/* Six micro-batches, all fetched before the first of them is used; then again. */
static void all_batches_of_an_update_may_be_fetched_before_it(void **state)
{
    static const char update[] = "fetch/1@100-110 fetch/1@120-130 fetch/1@140-150 "
                                 "fetch/1@160-170 fetch/1@180-190 fetch/1@200-210 "
                                 "back@300-350 back@360-400 opt@410-450 ";
    static struct log log;
    struct steps steps;

    (void)state;
    begin(&steps, &log);
    feed(&steps, "built@50", 0);
    for (unsigned long i = 0; i < 4; i++)
        feed(&steps, update, 400 * i);
    feed(&steps, "fetch/1@1700-1710", 0);
    assert_int_equal(log.steps, 4);
    assert_null(strstr(log.text, "row"));
    assert_non_null(strstr(log.text,
                           "data0@100-110 data0@120-130 data0@140-150 "
                           "data0@160-170 data0@180-190 data0@200-210 epoch1 "));
    assert_non_null(strstr(log.text, "step3@1250-1650"));
}

static void more_batches_than_may_wait_still_train_where_their_loader_did(void **state)
{
    static struct log log;
    struct steps steps;

    (void)state;
    begin(&steps, &log);
    feed(&steps, "built@50 fetch/1@100-110 back@150-200 opt@210-250", 0);
    for (unsigned long i = 0; i < 3 * STEPS_HELD; i++)
        feed(&steps, "fetch/1@300-310", 20 * i);
    feed(&steps, "back@2000-2100 opt@2110-2150 fetch/1@2200-2210", 0);
    assert_int_equal(log.steps, 2);
    assert_null(strstr(log.text, "row"));
}

static void two_loaders_asked_together_are_one_batch(void **state)
{
    (void)state;

    expect("fetch/1@100-110 fetch/2@112-120 back@200-300 opt@310-350 fetch/1@400-410",
           "by:optimizer data0@100-110 data0@112-120 epoch1 forward0@120-200 "
           "backward0@200-300 optimizer0@310-350 step0@100-350+first");
}

/* ---- closures ---- */

static void a_closure_is_split_into_forward_backward_and_update(void **state)
{
    (void)state;

    expect(
        "fetch/1@100-120 +opt@150 zero@200-210 back@300-400 -opt@450 fetch/1@500-510",
        "by:optimizer data0@100-120 epoch1 optimizer0@150-200 forward0@210-300 "
        "backward0@300-400 optimizer0@400-450 step0@100-450+first");
}

static void a_closure_called_many_times_is_one_step(void **state)
{
    (void)state;

    expect(
        "fetch/1@100-120 +opt@150 back@200-300 back@350-400 -opt@450 fetch/1@500-510",
        "by:optimizer data0@100-120 epoch1 forward0@150-200 backward0@200-300 "
        "forward0@300-350 backward0@350-400 optimizer0@400-450 step0@100-450+first");
}

static void a_backward_inside_a_backward_is_part_of_it(void **state)
{
    (void)state;

    expect(
        "fetch/1@100-120 +back@200 back@220-240 -back@300 opt@310-350 fetch/1@400-410",
        "by:optimizer data0@100-120 epoch1 forward0@120-200 backward0@200-220 "
        "backward0@220-240 backward0@240-300 optimizer0@310-350 "
        "step0@100-350+first");
}

static void updates_inside_a_backward_end_the_step_with_it(void **state)
{
    (void)state;
    static struct log log;
    struct steps steps;

    begin(&steps, &log);
    assert_int_equal(
        steps_of(&steps, &log,
                 "fetch/1@0-20 +back@100 opt/1@110-120 opt/2@130-140 -back@200", 1000,
                 20),
        20);
}

/* ---- several optimizers ---- */

static void a_gan_makes_one_step_of_both_updates(void **state)
{
    (void)state;

    expect("fetch/1@100-110 back@120-130 opt/1@140-150 back@160-170 opt/2@180-190 "
           "fetch/1@200-210 back@220-230 opt/1@240-250 back@260-270 opt/2@280-290",
           "by:optimizer data0@100-110 epoch1 forward0@110-120 backward0@120-130 "
           "optimizer0@140-150 forward0@150-160 backward0@160-170 "
           "optimizer0@180-190 step0@100-190+first data1@200-210 "
           "forward1@210-220 backward1@220-230 optimizer1@240-250 "
           "forward1@250-260 backward1@260-270 optimizer1@280-290 "
           "step1@190-290+first");
}

static void a_gan_without_a_loader_is_understood_at_its_second_cycle(void **state)
{
    (void)state;
    static struct log log;
    struct steps steps;

    begin(&steps, &log);
    assert_int_equal(steps_of(&steps, &log,
                              "zero@0-5 back@20-30 opt/1@40-50 back@60-70 opt/2@80-90",
                              100, 100),
                     100);
}

static void a_critic_that_runs_five_times_is_one_step_with_its_generator(void **state)
{
    (void)state;
    static struct log log;
    struct steps steps;
    const char *period = "fetch/1@0-5 back@10-15 opt/1@20-25 fetch/1@30-35 back@40-45 "
                         "opt/1@50-55 fetch/1@60-65 back@70-75 opt/1@80-85 back@90-95 "
                         "opt/2@96-99";

    begin(&steps, &log);
    (void)steps_of(&steps, &log, period, 100, 3);
    assert_int_equal(steps_of(&steps, &log, period, 100, 50), 50);
}

static void an_optimizer_that_steps_rarely_ends_no_step(void **state)
{
    (void)state;
    static struct log log;
    struct steps steps;

    begin(&steps, &log);
    for (unsigned i = 0; i < 4; i++) {
        (void)steps_of(&steps, &log, "fetch/1@0-5 back@10-20 opt/1@30-40", 100, 99);
        (void)steps_of(&steps, &log, "fetch/1@0-5 back@10-20 opt/1@30-40 opt/2@50-60",
                       100, 1);
    }
    assert_int_equal(log.steps, 400);
}

static void a_new_optimizer_in_the_place_of_another_loses_no_step(void **state)
{
    (void)state;
    static struct log log;
    struct steps steps;

    for (uint32_t before = 2; before < 50; before++) {
        begin(&steps, &log);
        (void)steps_of(&steps, &log, "back@10-20 opt/1@30-40", 100, before);
        (void)steps_of(&steps, &log, "back@10-20 opt/2@30-40", 100, 3);
        (void)steps_of(&steps, &log, "fetch/1@0-5 back@10-20 opt/3@30-40", 100, 40);
        assert_int_equal(log.steps, before + 43);
    }
}

static void when_the_slow_optimizer_stops_the_other_ends_the_steps(void **state)
{
    (void)state;
    static struct log log;
    struct steps steps;

    begin(&steps, &log);
    assert_int_equal(
        steps_of(&steps, &log,
                 "fetch/1@0-5 back@10-15 opt/1@20-30 back@40-50 opt/2@60-70", 100, 50),
        50);
    uint32_t alone =
        steps_of(&steps, &log, "fetch/1@0-5 back@10-15 opt/1@20-30", 100, 100);

    assert_in_range(alone, 100 - 33, 100 - 31);
}

/* ---- where forward begins ---- */

static void what_precedes_the_first_operation_of_a_graph_is_no_forward(void **state)
{
    (void)state;

    expect("back@20-30 opt@31-35 graph@90 back@100-110 opt@111-115 "
           "fetch/1@200-210 graph@290 back@300-310 opt@311-315",
           "by:optimizer backward0@20-30 optimizer0@31-35 "
           "step0@20-35+first forward1@90-100 backward1@100-110 "
           "optimizer1@111-115 step1@35-115+first data2@200-210 epoch1 "
           "forward2@290-300 backward2@300-310 optimizer2@311-315 "
           "step2@115-315");
}

static void of_several_graphs_the_newest_is_the_one_that_trains(void **state)
{
    (void)state;

    expect("fetch/1@10-20 graph@30 fetch/1@100-110 graph@130 back@150-160 opt@170-180 "
           "fetch/1@200-210",
           "by:optimizer data0@10-20 data0@100-110 epoch1 forward0@130-150 "
           "backward0@150-160 optimizer0@170-180 step0@10-180+first");
}

static void
a_batch_that_is_fetched_between_forward_and_backward_takes_no_forward(void **state)
{
    (void)state;

    expect("fetch/1@10-20 graph@30 fetch/1@40-50 again@60-70 opt@80-90 fetch/1@200-210",
           "by:optimizer data0@10-20 data0@40-50 epoch1 forward0@30-40 backward0@60-70 "
           "optimizer0@80-90 step0@10-90+first");
}

static void what_an_optimizer_does_between_evaluations_is_its_own(void **state)
{
    (void)state;

    expect("fetch/1@100-120 +opt@150 graph@160 back@200-300 graph@340 back@350-400 "
           "-opt@450 fetch/1@500-510",
           "by:optimizer data0@100-120 epoch1 optimizer0@150-160 forward0@160-200 "
           "backward0@200-300 optimizer0@300-340 forward0@340-350 backward0@350-400 "
           "optimizer0@400-450 step0@100-450+first");
}

/* ---- any marks ---- */

/* Any marks in any order: times only grow, numbers go up by one, stretches lie in
 * order, and nothing is emitted before its time. */
struct order {
    uint64_t next_number, last_end, now;
};

static void check_order(void *context, const struct steps_output *out)
{
    struct order *order = context;

    assert_true(out->start <= out->end && out->end <= order->now);
    if (out->kind != STEPS_OUT_STEP || out->number == STEPS_NO_NUMBER)
        return;
    assert_int_equal(out->number, order->next_number++);
    assert_true(out->start >= order->last_end);
    order->last_end = out->end;
}

static void any_marks_in_any_order_keep_numbers_and_times_in_order(void **state)
{
    (void)state;
    uint64_t seed = 88172645463325252u;

    for (unsigned run = 0; run < 200; run++) {
        struct order order = {.now = 1};
        struct steps steps;

        steps_init(&steps, GAP, 1, check_order, &order);
        for (unsigned i = 0; i < 500; i++) {
            seed ^= seed << 13, seed ^= seed >> 7, seed ^= seed << 17;
            order.now += seed >> 32 & 31;
            mark(&steps, (enum steps_mark_kind)(seed % STEPS_MARKS),
                 (unsigned)(seed >> 16 & 3), order.now);
        }
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_step_is_an_update_with_its_four_phases),
        cmocka_unit_test(zero_grad_is_no_part_of_forward),
        cmocka_unit_test(micro_batches_belong_to_the_step_of_their_update),
        cmocka_unit_test(a_job_that_never_fetches_has_forward_from_the_update_before),
        cmocka_unit_test(building_an_iterator_is_data_time),
        cmocka_unit_test(a_batch_fetched_ahead_counts_where_the_thread_waited_for_it),
        cmocka_unit_test(
            batches_fetched_ahead_of_the_loaders_end_train_and_are_no_validation),
        cmocka_unit_test(batches_asked_for_in_a_row_are_as_many_as_they_are),
        cmocka_unit_test(all_batches_of_an_update_may_be_fetched_before_it),
        cmocka_unit_test(more_batches_than_may_wait_still_train_where_their_loader_did),
        cmocka_unit_test(two_loaders_asked_together_are_one_batch),
        cmocka_unit_test(a_closure_is_split_into_forward_backward_and_update),
        cmocka_unit_test(a_closure_called_many_times_is_one_step),
        cmocka_unit_test(a_backward_inside_a_backward_is_part_of_it),
        cmocka_unit_test(updates_inside_a_backward_end_the_step_with_it),
        cmocka_unit_test(a_gan_makes_one_step_of_both_updates),
        cmocka_unit_test(a_gan_without_a_loader_is_understood_at_its_second_cycle),
        cmocka_unit_test(a_critic_that_runs_five_times_is_one_step_with_its_generator),
        cmocka_unit_test(an_optimizer_that_steps_rarely_ends_no_step),
        cmocka_unit_test(a_new_optimizer_in_the_place_of_another_loses_no_step),
        cmocka_unit_test(when_the_slow_optimizer_stops_the_other_ends_the_steps),
        cmocka_unit_test(what_precedes_the_first_operation_of_a_graph_is_no_forward),
        cmocka_unit_test(of_several_graphs_the_newest_is_the_one_that_trains),
        cmocka_unit_test(
            a_batch_that_is_fetched_between_forward_and_backward_takes_no_forward),
        cmocka_unit_test(what_an_optimizer_does_between_evaluations_is_its_own),
        cmocka_unit_test(any_marks_in_any_order_keep_numbers_and_times_in_order),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
