/* What of loading to work on, as the finding of late batches says it. */
#include "unit/rule_summary.h"

/* 60 of 100 ms wait for data, on 8 cores. */
static void put_loader(double workers)
{
    summary.steps.train.phase_ns[EVENT_PHASE_DATA] = 60 * MS;
    number(FACT_CPU_COUNT, 8);
    number(FACT_DATALOADER_WORKERS, workers);
    number(FACT_DATALOADER_SAMPLES, 1000);
    text(FACT_DATALOADER_DATASET, "Images");
}

static bool advises(const char *words)
{
    const struct finding *finding = find("data-loading");

    for (uint32_t i = 0; i < finding->advice_count; i++)
        if (strstr(finding->advice[i], words) != NULL)
            return true;
    return false;
}

static bool says(const char *words)
{
    return strstr(find("data-loading")->sentence, words) != NULL;
}

static void what_takes_most_of_the_trainers_loading_is_named(void **state)
{
    (void)state;
    put_loader(0);
    number(FACT_DATALOADER_COLLATE_SHARE, 0.92);
    assert_true(says("(num_workers=0): 92 % of it in `collate_fn`"));
    assert_true(advises("Collating takes 92 % of loading"));
    assert_false(advises("samples of"));
    facts[summary.fact_count - 1].number = 0.04;
    assert_true(says("(num_workers=0): 96 % of it for samples of `Images`"));
    assert_true(advises("The samples of `Images` take 96 % of loading"));
    assert_false(advises("Collating"));
    /* Both are worth it. */
    facts[summary.fact_count - 1].number = 0.45;
    assert_true(says("55 % of it for samples of `Images`"));
    assert_true(advises("Collating takes 45 %"));
    assert_true(advises("take 55 %"));
    assert_non_null(strstr(find("data-loading")->advice[0], "num_workers="));
}

static struct rank_row ranks[6];

/* Four on this host, of which one was started again, and one on another. */
static void put_ranks(void)
{
    const int32_t rank[] = {0, 1, 1, 2, 3, 4};

    for (uint32_t i = 0; i < 6; i++)
        ranks[i] = (struct rank_row){
            .rank = rank[i], .pid = 100 + i, .host = i < 5 ? "here" : "there"};
    summary.ranks.rows = ranks;
    summary.ranks.row_count = 6;
    summary.ranks.head.pid = 103;
}

static void ranks_of_a_host_share_its_cores(void **state)
{
    (void)state;
    put_loader(0);
    summary.load.machine_cores = 8;
    assert_true(advises("num_workers=4"));
    put_ranks();
    assert_true(advises("num_workers=1")); /* beside itself, on two cores */
    ranks[1].pid = 0;
    summary.ranks.head.pid = 105; /* alone on its host */
    assert_true(advises("num_workers=4"));
}

static void ranks_that_are_pinned_have_the_cores_that_they_are_pinned_to(void **state)
{
    (void)state;
    put_loader(0);
    put_ranks();
    facts[0].number = 3;
    summary.load.machine_cores = 12;
    assert_true(advises("num_workers=2"));
}

static void threads_of_ranks_are_told_of_how_many_cores_they_have_a_part(void **state)
{
    (void)state;
    put_loader(0);
    put_ranks();
    summary.load.machine_cores = 8;
    summary.load.delay_share = summary.load.delay_least = 0.2;
    number(FACT_THREADS_INTRA, 8);
    assert_string_equal(find("cpu-wait")->advice[0],
                        "`torch.set_num_threads(2)` or `OMP_NUM_THREADS=2`: one op has "
                        "8 threads on 2 cores (its part of the 8 that 4 ranks share)");
}

static void why_no_more_workers_are_advised_is_what_is_true(void **state)
{
    (void)state;
    put_loader(7);
    summary.load.workers = 7;
    summary.load.worker_cpu_share = 0.9;
    assert_true(advises("All cores load already"));
    summary.load.worker_cpu_share = 0.6;
    assert_true(advises("More workers find no core of their own among 8 cores: "));
    facts[0].number = 64;
    facts[1].number = summary.load.workers = 16;
    assert_true(advises("More workers than these seldom help: "));
}

static void
others_are_blamed_for_full_memory_only_where_all_of_the_job_is_known(void **state)
{
    const double gib = 1024.0 * 1024 * 1024;
    struct memory_host *host = &summary.memory.host;

    (void)state;
    put_loader(0);
    *host = (struct memory_host){.used_bytes = 145 * gib,
                                 .limit_bytes = 150 * gib,
                                 .job_bytes = 10 * gib,
                                 .limit_name = "machine"};
    assert_non_null(strstr(find("memory-full")->advice[0], "Other programs hold most"));
    facts[1].number = 16; /* workers, of which nobody says what they hold */
    assert_null(strstr(find("memory-full")->advice[0], "Other programs"));
    facts[1].number = 0;
    host->limit_name = "container";
    assert_null(strstr(find("memory-full")->advice[0], "Other programs"));
}

static void what_is_pinned_meanwhile_is_no_sample(void **state)
{
    (void)state;
    put_loader(0);
    number(FACT_DATALOADER_PIN_MEMORY, 1);
    number(FACT_DATALOADER_COLLATE_SHARE, 0.04);
    assert_false(says("of it for"));
    assert_false(advises("samples of"));
    facts[summary.fact_count - 1].number = 0.8;
    assert_true(says("80 % of it in `collate_fn`"));
}

static void nothing_is_said_of_parts_that_nobody_told(void **state)
{
    (void)state;
    put_loader(0);
    assert_false(says("of it"));
    /* What an earlier loader said is not the share of workers that are no forks. */
    number(FACT_DATALOADER_COLLATE_SHARE, 0.92);
    facts[1].number = 1;
    text(FACT_DATALOADER_START_METHOD, "spawn");
    assert_false(says("collate_fn"));
    assert_false(advises("Collating"));
}

static void what_takes_most_of_the_workers_loading_is_named(void **state)
{
    (void)state;
    put_loader(1);
    summary.load.workers = 1;
    summary.load.worker_cpu_share = 0.1;
    text(FACT_DATALOADER_START_METHOD, "fork");
    number(FACT_DATALOADER_COLLATE_SHARE, 0.92);
    assert_true(says(", with 1 worker; 92 % of loading is spent in `collate_fn`"));
    assert_true(advises("Collating takes 92 % of loading"));
    assert_false(advises("storage"));
    /* The thread that pins does so beside them. */
    number(FACT_DATALOADER_PIN_MEMORY, 1);
    facts[summary.fact_count - 2].number = 0.2;
    assert_true(says(", with 1 worker that waits for its storage; 80 % of loading is "
                     "spent on samples of `Images`"));
    assert_true(advises("The samples of `Images` take 80 % of loading"));
}

static void of_workers_it_is_told_how_to_learn_it(void **state)
{
    (void)state;
    put_loader(1);
    assert_false(advises("watching(")); /* all of it is torch's */
    text(FACT_DATALOADER_FUNCTIONS, "data.Images.__getitem__");
    assert_true(advises("trainglass.watching(\"data.Images.__getitem__\")"));
    facts[summary.fact_count - 1].text = "data.Images.__getitem__,__main__.pad";
    assert_true(
        advises("watching(\"data.Images.__getitem__\", \"__main__.pad\"):` around"));
    text(FACT_WATCH_FUNCTIONS, "job.Images.__getitem__");
    assert_false(advises("watching("));
}

static void
batches_that_are_late_at_a_period_are_told_how_many_ahead_hide_them(void **state)
{
    (void)state;
    number(FACT_DATALOADER_WORKERS, 2);
    number(FACT_DATALOADER_PREFETCH, 2);
    summary.rhythm.period = extra(12 * MS, 25, EVENT_PHASE_DATA);
    summary.rhythm.period.worst_ns = 1450 * MS; /* of steps of 100 */
    summary.rhythm.period_steps = 20;
    const struct finding *finding = find("periodic-steps");

    assert_string_equal(finding->advice[0],
                        "`prefetch_factor=10` instead of 2: a batch came 15 "
                        "steps late, though 2 workers had 4 ahead");
    assert_non_null(
        strstr(finding->advice[1], "what the loader does every 20 batches"));
    summary.rhythm.period.worst_ns = 250 * MS; /* as many are ahead already */
    assert_non_null(strstr(find("periodic-steps")->advice[0], "Look for"));
    summary.rhythm.period.worst_ns = 5000 * MS; /* more than memory is worth */
    assert_non_null(strstr(find("periodic-steps")->advice[0], "Look for"));
    facts[0].number = facts[1].number = 1;
    summary.rhythm.period.worst_ns = 100 * MS;
    assert_non_null(strstr(find("periodic-steps")->advice[0],
                           "a batch came 1 step late, though 1 worker had 1 ahead"));
    facts[0].number = 0; /* the trainer loads: nothing is ahead */
    assert_non_null(strstr(find("periodic-steps")->advice[0], "Look for"));
}

static void workers_that_keep_up_but_for_a_few_batches_wait_for_no_storage(void **state)
{
    (void)state;
    put_loader(2);
    number(FACT_DATALOADER_PREFETCH, 2);
    summary.load.workers = 2;
    summary.load.worker_cpu_share = 0.05;
    summary.steps.train.waited_ns = 60 * MS;
    summary.steps.train.waited_error_ns = 1 * MS;
    /* Each round one of them is waited for: they never rest. */
    summary.steps.train.late_share = 0.5;
    assert_true(says("with 2 workers that wait for their storage"));
    assert_true(advises("`num_workers=4` instead of 2, and `prefetch_factor=4`"));
    facts[4].number = 8; /* more is ready already */
    assert_string_equal(find("data-loading")->advice[0], "`num_workers=4` instead of 2");
    facts[4].number = 2;
    /* One in eight: more than what is loaded ahead goes by in between. */
    summary.steps.train.late_share = 0.125;
    assert_true(says("with 2 workers; in 12.5 % of the steps no batch was ready"));
    assert_false(says("storage"));
    assert_false(advises("storage"));
    assert_false(advises("num_workers=4"));
    assert_true(advises("`prefetch_factor=5` instead of 2: a batch came 5 steps late"));
    assert_true(advises("Look for samples that are far larger"));
    assert_true(fabs(find("data-loading")->ns_per_step - 60 * MS) < 1);
    assert_true(fabs(find("data-loading")->low_ns - 29 * MS) < 1);
    assert_non_null(
        strstr(find("data-loading")->formula, "hidden by more batches ahead"));
    /* More than memory is worth: how much of it goes nobody knows, so half. */
    facts[4].number = 15;
    summary.steps.train.late_share = 0.02;
    assert_true(says("in 2 % of the steps no batch was ready"));
    assert_false(advises("prefetch_factor"));
    assert_true(fabs(find("data-loading")->ns_per_step - 30 * MS) < 1);
    assert_true(find("data-loading")->estimated);
    /* Nobody told: as before. */
    summary.steps.train.late_share = (double)NAN;
    assert_true(says("storage"));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(what_takes_most_of_the_trainers_loading_is_named),
        TEST(ranks_of_a_host_share_its_cores),
        TEST(ranks_that_are_pinned_have_the_cores_that_they_are_pinned_to),
        TEST(threads_of_ranks_are_told_of_how_many_cores_they_have_a_part),
        TEST(why_no_more_workers_are_advised_is_what_is_true),
        TEST(others_are_blamed_for_full_memory_only_where_all_of_the_job_is_known),
        TEST(what_is_pinned_meanwhile_is_no_sample),
        TEST(nothing_is_said_of_parts_that_nobody_told),
        TEST(what_takes_most_of_the_workers_loading_is_named),
        TEST(of_workers_it_is_told_how_to_learn_it),
        TEST(workers_that_keep_up_but_for_a_few_batches_wait_for_no_storage),
        TEST(batches_that_are_late_at_a_period_are_told_how_many_ahead_hide_them),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
