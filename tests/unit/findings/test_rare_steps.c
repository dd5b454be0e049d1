/* A few steps that are far longer than all others hide nothing of what the others have in
 * common, and are told for themselves. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "findings/findings.h"
#include "unit/hand.h"
#include "unit/simulated_job.h"
#include "wire/facts.h"

#define STEPS 250u

static struct bottlenecks_answer answer;
static struct findings findings;
static struct job job;
static struct status_fact facts[8];
static uint32_t fact_count;

/* What each step has, and what `rare` of them have more, as ms. */
struct run {
    double wait, take, forward, optimizer;
    uint32_t rare;
    double late, slow; /* more of wait; of forward */
};

static void number(const char *key, double value)
{
    facts[fact_count++] =
        (struct status_fact){.key = key, .type = WIRE_FACT_NUMBER, .number = value};
}

static void text(const char *key, const char *value)
{
    facts[fact_count++] =
        (struct status_fact){.key = key, .type = WIRE_FACT_TEXT, .text = value};
}

static int begin(void **state)
{
    (void)state;
    fact_count = 0;
    job = (struct job){.random = 17};
    number(FACT_DATALOADER_WORKERS, 2);
    number(FACT_DATALOADER_PREFETCH, 2);
    number(FACT_DATALOADER_SAMPLES, 4000);
    number(FACT_CPU_COUNT, 8);
    return 0;
}

static void forget(void)
{
    findings_free(&findings);
    bottlenecks_free(&answer);
    store_free(store);
    store = NULL;
}

static int end(void **state)
{
    (void)state;
    if (store != NULL)
        forget();
    return 0;
}

/* Skewed, as waits are. */
static int64_t drawn(double ms)
{
    return (int64_t)(ms * (double)MS * exp(0.3 * job_normal(&job) - 0.045));
}

static void phase(uint32_t which, int64_t ns)
{
    fold(EVENT_META(0, EVENT_PHASE, 0, which), now, ns, 0);
    now += ns;
}

/* At no fixed distance. */
static bool is_rare(const struct run *run, uint64_t i)
{
    for (uint32_t j = 1; j <= run->rare; j++)
        if (i == 20 + (uint64_t)(fmod(j * j * 0.618034, 1) * (STEPS - 40)))
            return true;
    return false;
}

static void fold_one(const struct run *run, uint64_t i)
{
    bool rare = is_rare(run, i);
    int64_t wait = drawn(run->wait) + (rare ? (int64_t)(run->late * (double)MS) : 0);
    int64_t start = now, data = wait + drawn(run->take);

    fold(EVENT_META(0, EVENT_WAITED, 0, 0), now + wait, wait, 0);
    phase(EVENT_PHASE_DATA, data);
    phase(EVENT_PHASE_FORWARD,
          drawn(run->forward) + (rare ? (int64_t)(run->slow * (double)MS) : 0));
    phase(EVENT_PHASE_OPTIMIZER, drawn(run->optimizer));
    fold(EVENT_META(0, EVENT_STEP, 0, 0xf), start, now - start,
         (1000 + i) | (uint64_t)1 << 48);
}

static void train(const struct run *run)
{
    struct selection whole = {.rank = SELECT_ANY, .window = {.kind = WINDOW_RUN}};

    assert_int_equal(hand_begin(), 0);
    for (uint64_t i = 0; i < STEPS; i++)
        fold_one(run, i);
    assert_int_equal(
        bottlenecks_query(store, &whole, &(struct bottlenecks_request){0}, &answer), 0);
    answer.facts = facts;
    answer.fact_count = fact_count;
    findings_find(&answer, NULL, &findings);
}

static const struct finding *find(const char *id)
{
    static const struct finding none = {.id = "none", .formula = "", .sentence = ""};

    for (uint32_t i = 0; i < findings.count; i++)
        if (strcmp(findings.list[i].id, id) == 0)
            return &findings.list[i];
    return &none;
}

/* As standing.c asks before a finding is shown. */
static bool is_sure(const struct finding *finding)
{
    return finding->ns_per_step > 0 && finding->error_ns <= finding->ns_per_step / 2;
}

static bool is_near(double ns, double truth)
{
    return fabs(ns - truth) <= 0.2 * truth;
}

static void a_batch_that_comes_far_later_hides_no_wait_for_the_others(void **state)
{
    struct run run = {.wait = 5, .take = 0.5, .forward = 3, .optimizer = 0.2};

    (void)state;
    train(&run);
    double usual = find("data-loading")->ns_per_step;

    assert_true(usual > 2 * (double)MS);
    assert_string_equal(find("unsteady-steps")->id, "none");
    forget();
    run.late = 600;
    for (run.rare = 1; run.rare <= 10; run.rare++) {
        train(&run);
        const struct finding *loading = find("data-loading"),
                             *late = find("unsteady-steps");

        assert_true(is_sure(loading) && is_near(loading->ns_per_step, usual));
        assert_true(is_sure(late));
        assert_true(is_near(late->ns_per_step, run.rare * 600.0 * (double)MS / STEPS));
        assert_true(late->low_ns < 0.8 * late->ns_per_step);
        assert_true((run.rare < 3) == (late->severity == FINDING_LOW));
        assert_non_null(strstr(late->title, "come"));
        assert_non_null(strstr(late->sentence, "of 250 steps"));
        assert_true(findings.avoidable_ns <= answer.steps.train.mean_ns);
        forget();
    }
}

/* Of a running job the next steps say whether it comes again, of a file nothing does. */
static void a_pause_in_forward_hides_no_other_finding(void **state)
{
    struct run run = {.wait = 0.05, .take = 0.05, .forward = 5, .optimizer = 2};

    (void)state;
    text(FACT_OPTIMIZER_CLASS, "Adam");
    text(FACT_OPTIMIZER_DEVICE, "cpu");
    train(&run);
    double usual = find("optimizer-loop")->ns_per_step;
    double error = find("optimizer-loop")->error_ns;

    assert_true(usual > (double)MS);
    forget();
    run.slow = 800;
    run.rare = 1;
    train(&run);
    assert_true(is_near(find("optimizer-loop")->ns_per_step, usual));
    assert_true(is_near(find("optimizer-loop")->error_ns, error));
    assert_string_equal(find("unsteady-steps")->id, "none");
    findings_free(&findings);
    answer.head.from_file = true;
    findings_find(&answer, NULL, &findings);
    assert_true(is_near(find("unsteady-steps")->ns_per_step, 3.2 * (double)MS));
    assert_string_equal(find("unsteady-steps")->title,
                        "One step takes far longer than the others");
}

/* The typical mean is known as well as its interval says. */
static void the_interval_of_typical_steps_holds_their_mean(void **state)
{
    uint32_t held = 0, runs = 400;

    (void)state;
    for (uint32_t i = 0; i < runs; i++) {
        struct run run = {.wait = 4,
                          .take = 0.5,
                          .forward = 3,
                          .optimizer = 0.5,
                          .rare = 1 + i % 5,
                          .late = 100 + 10.0 * (i % 90)};

        train(&run);
        const struct steps_typical *typical = &answer.steps.train.typical;
        double off = typical->mean_ns - 8 * (double)MS;

        assert_in_range(typical->rare, run.rare, run.rare + 1); /* one of them drawn */
        held += fabs(off) <= typical->error_ns;
        forget();
    }
    assert_true(held >= runs * 92 / 100);
}

static void batches_that_are_ready_and_take_long_have_a_line_of_their_own(void **state)
{
    struct run run = {.wait = 0.4, .take = 1.4, .forward = 2, .optimizer = 0.3};

    (void)state;
    number(FACT_DATALOADER_TENSORS, 5);
    train(&run);
    assert_string_equal(find("batch-handover")->id, "none"); /* any batch takes that */
    forget();
    run.take = run.forward = 3.5;
    train(&run);
    const struct finding *taking = find("batch-handover");

    assert_true(taking->open && taking->ns_per_step == 0);
    assert_non_null(strstr(taking->formula, "of data loading; how much of it"));
    assert_non_null(strstr(taking->advice[0], "Join the 5 tensors"));
    assert_true(findings_loading_saves(&answer).most_ns < 0.6 * (double)MS);
    forget();
    run.wait = 9; /* then more is to be won elsewhere */
    train(&run);
    assert_string_equal(find("batch-handover")->id, "none");
    assert_string_equal(find("data-loading")->id, "data-loading");
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, begin, end)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(a_batch_that_comes_far_later_hides_no_wait_for_the_others),
        TEST(a_pause_in_forward_hides_no_other_finding),
        TEST(the_interval_of_typical_steps_holds_their_mean),
        TEST(batches_that_are_ready_and_take_long_have_a_line_of_their_own),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
