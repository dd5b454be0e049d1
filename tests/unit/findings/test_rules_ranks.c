/* The rule over ranks: what it says of the one that the others wait for. */
#include "unit/rule_summary.h"

static struct rank_row rows[4];

/* Rank 3 of four takes 100 ms of its own, the others 80: they wait 20 ms. */
static void slow_rank(const char *cause)
{
    struct ranks_answer *ranks = &summary.ranks;

    for (int32_t i = 0; i < 4; i++)
        rows[i] = (struct rank_row){.rank = i,
                                    .step_ns = 100 * MS,
                                    .own_ns = i == 3 ? 100 * MS : 80 * MS,
                                    .wait_ns = i == 3 ? 0 : 20 * MS,
                                    .delay_share = 0.01,
                                    .batch_elements = (double)NAN};
    ranks->rows = rows;
    ranks->row_count = 4;
    ranks->comparable = true;
    ranks->slowest = 3;
    ranks->slowest_share = 0.97;
    ranks->slowest_by_ns = 20 * MS;
    ranks->slowest_cause = cause;
    ranks->slowest_cause_ns = 21 * MS;
    ranks->slowest_price_ns = 19 * MS;
    ranks->slowest_error_ns = 1 * MS;
    ranks->waits_in = EVENT_PHASE_BACKWARD;
}

static void the_last_rank_is_named_with_its_phase_and_what_the_others_wait(void **state)
{
    (void)state;
    slow_rank("forward");
    const struct finding *finding = find("last-rank");

    assert_string_equal(finding->title,
                        "Rank 3 arrives last, and the others wait for it");
    assert_true(fabs(finding->ns_per_step - 19 * MS) < 1);
    assert_true(fabs(finding->high_ns - 20 * MS) < 1);
    assert_non_null(
        strstr(finding->sentence, "In 97 % of the steps rank 3 comes last"));
    assert_non_null(strstr(finding->sentence, "its forward takes 21 ms longer"));
    assert_non_null(strstr(finding->advice[0], "rank == 3"));
    assert_string_equal(finding->colour, "forward");
}

static void what_a_rank_does_between_its_phases_is_advised_for_what_it_is(void **state)
{
    (void)state;
    slow_rank("other");
    const struct finding *finding = find("last-rank");

    assert_non_null(strstr(finding->sentence, "outside of data, forward"));
    assert_non_null(strstr(finding->advice[0], "checkpoints"));
    slow_rank("data");
    assert_null(strstr(find("last-rank")->advice[0], "checkpoints"));
    assert_non_null(strstr(find("last-rank")->advice[0], "loader"));
    /* Nothing is known of where: then nothing is said of it. */
    slow_rank("unknown");
    finding = find("last-rank");
    assert_int_equal(finding->advice_count, 1);
    assert_non_null(strstr(finding->advice[0], "rank=all"));
    /* In a file the files themselves are all that there is. */
    summary.head.from_file = true;
    finding = find("last-rank");
    assert_int_equal(finding->advice_count, 1);
    assert_non_null(strstr(finding->advice[0], "rank 3"));
}

static void
what_a_device_waits_for_the_last_rank_is_no_communication_to_hide(void **state)
{
    struct gpu_device device = {.device = "cuda:0"};

    (void)state;
    slow_rank("data");
    summary.ranks.waits_on_device = true;
    summary.ranks.waits_in = EVENT_PHASES;
    summary.gpu.devices = &device;
    summary.gpu.device_count = 1;
    device.use_ns[GPU_COMPUTE] = 65 * MS;
    device.use_ns[GPU_COMMUNICATION] = 31 * MS;
    const struct finding *finding = find("exposed-communication");

    assert_true(fabs(finding->ns_per_step - 6 * MS) < 1);
    assert_non_null(strstr(finding->sentence, "only communicates for 31 ms"));
    assert_non_null(strstr(finding->formula, "- 19 ms for the last rank) / 2 = 6 ms"));
    assert_true(find("last-rank")->claims[0].ns > 0);
    /* Who comes last waits for nobody: all of it is its own. */
    summary.head.rank = 3;
    assert_true(fabs(find("exposed-communication")->ns_per_step - 15.5 * MS) < 1);
    summary.head.rank = 0;
    summary.ranks.slowest = -1;
    assert_true(fabs(find("exposed-communication")->ns_per_step - 15.5 * MS) < 1);
}

static void a_rank_without_a_core_is_told_from_one_with_more_work(void **state)
{
    (void)state;
    slow_rank("forward");
    rows[3].delay_share = 0.17;
    const struct finding *finding = find("last-rank");

    assert_non_null(strstr(finding->sentence, "waiting for a core"));
    assert_non_null(strstr(finding->advice[0], "cores of its own"));
}

static void a_rank_with_larger_batches_is_told_from_a_slower_one(void **state)
{
    (void)state;
    slow_rank("forward");
    for (uint32_t i = 0; i < 4; i++)
        rows[i].batch_elements = 1000;
    assert_null(strstr(find("last-rank")->sentence, "batches"));
    rows[3].batch_elements = 1080; /* by less than half of what it takes longer */
    assert_null(strstr(find("last-rank")->sentence, "batches"));
    rows[3].batch_elements = 1250;
    const struct finding *finding = find("last-rank");

    assert_non_null(strstr(finding->sentence,
                           "its batches are 25 % larger: 1250 elements, theirs 1000"));
    assert_non_null(strstr(finding->advice[0], "of like length"));
    /* So it has more to do in backward too, where the others wait. */
    for (uint32_t i = 0; i < 4; i++) {
        rows[i].phase_ns[EVENT_PHASE_FORWARD] = i == 3 ? 36 * MS : 30 * MS;
        rows[i].phase_ns[EVENT_PHASE_BACKWARD] = 60 * MS;
    }
    finding = find("last-rank");
    assert_true(fabs(finding->ns_per_step - (19 * MS + 10 * MS)) < 1);
    assert_true(finding->estimated && fabs(finding->high_ns - (19 + 12 + 1) * MS) < 1);
    summary.ranks.waits_on_device = true; /* which tells all of it */
    assert_true(fabs(find("last-rank")->ns_per_step - 19 * MS) < 1);
    summary.ranks.waits_on_device = false;
    rows[1].batch_elements = (double)NAN; /* one that loads in a way of its own */
    assert_null(strstr(find("last-rank")->sentence, "batches"));
    rows[1].batch_elements = 1000;
    rows[3].delay_share = 0.17; /* what it lacks is a core */
    assert_null(strstr(find("last-rank")->sentence, "batches"));
}

static void on_a_page_of_another_rank_the_wait_lies_in_backward(void **state)
{
    (void)state;
    slow_rank("forward");
    summary.head.rank = 0;
    assert_int_equal(find("last-rank")->claims[0].part, PART_BACKWARD);
    assert_int_equal(find("last-rank")->claims[0].kind, CLAIM_PEERS);
    summary.head.rank = 3;
    assert_int_equal(find("last-rank")->claims[0].part, PART_FORWARD);
    /* Unless they wait elsewhere. */
    slow_rank("data");
    summary.head.rank = 0;
    summary.ranks.waits_in = EVENT_PHASE_FORWARD;
    assert_int_equal(find("last-rank")->claims[0].part, PART_FORWARD);
    assert_int_equal(find("last-rank")->claims[0].kind, CLAIM_PEERS);
}

static void the_wait_for_the_last_rank_is_given_back_once(void **state)
{
    static struct gpu_device device = {.device = "cuda:0", .name = ""};

    (void)state;
    slow_rank("forward");
    summary.head.rank = 0;
    device.use_ns[GPU_COMPUTE] = 60 * MS;
    device.idle_ns[GPU_IDLE_COLLECTIVE] = 20 * MS;
    device.idle_ns[GPU_IDLE_UNKNOWN] = 20 * MS; /* room for what is counted twice */
    summary.gpu.devices = &device;
    summary.gpu.device_count = 1;
    assert_true(fabs(find("last-rank")->owned_ns - 19 * MS) < 1);
    assert_true(fabs(find("collective-wait")->owned_ns - 1 * MS) < 1);
    assert_true(fabs(findings.avoidable_ns - 20 * MS) < 1);
}

static void ranks_that_take_turns_at_being_last_are_no_finding(void **state)
{
    (void)state;
    slow_rank("forward");
    summary.ranks.slowest_error_ns = 18 * MS;
    assert_string_equal(find("last-rank")->id, "none");
    slow_rank("forward");
    summary.ranks.slowest = -1;
    assert_string_equal(find("last-rank")->id, "none");
    slow_rank("forward");
    summary.ranks.slowest_price_ns = summary.ranks.slowest_error_ns = (double)NAN;
    assert_string_equal(find("last-rank")->id, "none");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(the_last_rank_is_named_with_its_phase_and_what_the_others_wait),
        TEST(what_a_rank_does_between_its_phases_is_advised_for_what_it_is),
        TEST(what_a_device_waits_for_the_last_rank_is_no_communication_to_hide),
        TEST(a_rank_without_a_core_is_told_from_one_with_more_work),
        TEST(a_rank_with_larger_batches_is_told_from_a_slower_one),
        TEST(on_a_page_of_another_rank_the_wait_lies_in_backward),
        TEST(the_wait_for_the_last_rank_is_given_back_once),
        TEST(ranks_that_take_turns_at_being_last_are_no_finding),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
