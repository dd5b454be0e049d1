/* What a step is: scripts of marks in, what the state machine says out.
 *
 * A script is words like fetch@10-20 (begin and end), +opt/7@70 ... -opt/7@80 (nested,
 * of optimizer 7), step@90. What comes out is one word each: step0@10-80+first,
 * data0@10-20, row@10-20 (a validation batch), epoch1, by:optimizer. Times are ticks;
 * fetches closer than 5 are one. What a backward follows is a forward pass from the mark
 * before on, unless graph@15 says where it begins. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "probe/steps/steps.h"
#include "wire/attributes.h"

#define GAP 5u

struct log {
    char text[8192];
    size_t length;
    uint32_t steps;
};

static PRINTF(2, 3) void log_word(struct log *log, const char *format, ...)
{
    va_list arguments;
    int more;

    if (log->length > sizeof(log->text) / 2)
        log->length = 0; /* long runs look at the newest words and the counts */
    va_start(arguments, format);
    more = vsnprintf(log->text + log->length, sizeof(log->text) - log->length, format,
                     arguments);
    va_end(arguments);
    assert_true(more > 0 && (size_t)more < sizeof(log->text) - log->length);
    log->length += (size_t)more;
}

static void log_step(struct log *log, const struct steps_output *out)
{
    log->steps += out->number != STEPS_NO_NUMBER;
    if (out->number == STEPS_NO_NUMBER)
        log_word(log, "row");
    else
        log_word(log, "step%llu", (unsigned long long)out->number);
    log_word(log, "@%llu-%llu%s%s ", (unsigned long long)out->start,
             (unsigned long long)out->end,
             out->flags & EVENT_STEP_FIRST ? "+first" : "",
             out->flags & EVENT_STEP_MARKED ? "+marked" : "");
}

static void write_down(void *context, const struct steps_output *out)
{
    static const char *const phases[] = {"data", "forward", "backward", "optimizer"};
    static const char *const sources[] = {"nobody",    "batch",     "trained",
                                          "backward",  "optimizer", "profiler",
                                          "framework", "call"};
    struct log *log = context;

    switch (out->kind) {
    case STEPS_OUT_STEP:
        log_step(log, out);
        break;
    case STEPS_OUT_PHASE:
        log_word(log, "%s", phases[out->phase]);
        if (out->number != STEPS_NO_NUMBER)
            log_word(log, "%llu", (unsigned long long)out->number);
        log_word(log, "@%llu-%llu ", (unsigned long long)out->start,
                 (unsigned long long)out->end);
        break;
    case STEPS_OUT_EPOCH:
        log_word(log, "epoch%llu ", (unsigned long long)out->number);
        break;
    case STEPS_OUT_VALIDATION:
        log_word(log, "validation%llu ", (unsigned long long)out->number);
        break;
    case STEPS_OUT_SOURCE:
        log_word(log, "by:%s ", sources[out->number]);
        break;
    }
}

struct word {
    const char *name;
    enum steps_mark_kind begin, end; /* equal: an instant */
};

static const struct word words[] = {
    {"iter", STEPS_ITERATOR_BEGIN, STEPS_ITERATOR_END},
    {"fetch", STEPS_FETCH_BEGIN, STEPS_FETCH_END},
    {"nomore", STEPS_FETCH_BEGIN, STEPS_FETCH_EXHAUSTED},
    {"graph", STEPS_GRAPH_BEGIN, STEPS_GRAPH_BEGIN},
    {"back", STEPS_BACKWARD_BEGIN, STEPS_BACKWARD_END},
    {"again", STEPS_BACKWARD_BEGIN, STEPS_BACKWARD_END}, /* no graph since the last */
    {"opt", STEPS_OPTIMIZER_BEGIN, STEPS_OPTIMIZER_END},
    {"zero", STEPS_ZERO_GRAD_BEGIN, STEPS_ZERO_GRAD_END},
    {"forward", STEPS_FORWARD_BEGIN, STEPS_FORWARD_END},
    {"prof", STEPS_PROFILER_STEP_BEGIN, STEPS_PROFILER_STEP_END},
    {"valid", STEPS_VALIDATION_BEGIN, STEPS_VALIDATION_END},
    {"step", STEPS_STEP, STEPS_STEP},
    {"built", STEPS_OPTIMIZER_BUILT, STEPS_OPTIMIZER_BUILT},
    {"framework", STEPS_FRAMEWORK, STEPS_FRAMEWORK},
    {"batchend", STEPS_BATCH_END, STEPS_BATCH_END},
    {"epoch", STEPS_EPOCH, STEPS_EPOCH},
};

static void mark(struct steps *steps, enum steps_mark_kind kind, unsigned id,
                 unsigned long time)
{
    steps_mark(steps, &(struct steps_mark){kind, id, time});
}

/* Feeds one word, its times moved by `shift`. */
static void feed_word(struct steps *steps, const char *text, unsigned long shift)
{
    char sign = *text == '+' || *text == '-' ? *text++ : '\0';
    size_t length = strcspn(text, "/@ ");
    unsigned id = 0;
    const struct word *word = NULL;

    for (size_t i = 0; i < sizeof(words) / sizeof(words[0]); i++)
        if (strlen(words[i].name) == length &&
            strncmp(words[i].name, text, length) == 0)
            word = &words[i];
    assert_non_null(word);
    char *rest = NULL;

    text += length;
    if (*text == '/')
        id = (unsigned)strtoul(text + 1, &rest, 10), text = rest;
    unsigned long start = strtoul(text + 1, &rest, 10) + shift;

    if (strcmp(word->name, "back") == 0 && sign != '-' && steps_awaits_graph(steps))
        mark(steps, STEPS_GRAPH_BEGIN, 0, steps->piece_start);
    if (sign != '-')
        mark(steps, word->begin, id, start);
    if (sign == '-')
        mark(steps, word->end, id, start);
    if (*rest == '-')
        mark(steps, word->end, id, strtoul(rest + 1, NULL, 10) + shift);
}

static void feed(struct steps *steps, const char *script, unsigned long shift)
{
    for (; *script != '\0'; script += strspn(script, " ")) {
        feed_word(steps, script, shift);
        script += strcspn(script, " ");
    }
}

static void begin(struct steps *steps, struct log *log)
{
    log->length = 0;
    log->steps = 0;
    log->text[0] = '\0';
    steps_init(steps, GAP, 1, write_down, log);
}

static void expect(const char *script, const char *expected)
{
    static struct log log;
    struct steps steps;

    begin(&steps, &log);
    feed(&steps, script, 0);
    if (log.length > 0)
        log.text[log.length - 1] = '\0';
    assert_string_equal(log.text, expected);
}

/* Feeds `period` `times` times, `length` ticks apart; how many steps came out. */
static uint32_t steps_of(struct steps *steps, struct log *log, const char *period,
                         unsigned long length, unsigned times)
{
    uint32_t before = log->steps;

    for (unsigned i = 1; i <= times; i++)
        feed(steps, period, steps->piece_start / length * length + length);
    return log->steps - before;
}

/* ---- one optimizer
 * -------------------------------------------------------------------- */

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

/* ---- closures
 * --------------------------------------------------------------------------- */

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

/* ---- several optimizers
 * ------------------------------------------------------------------ */

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

/* ---- validation, epochs
 * --------------------------------------------------------------------- */

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

/* ---- step(), ProfilerStep, frameworks
 * ---------------------------------------------------------- */

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

/* ---- where forward begins -----------------------------------------------------------
 */

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

/* ---- no update is known
 * -------------------------------------------------------------- */

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

/* ---- peeks and pauses ---------------------------------------------------------------
 */

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
        cmocka_unit_test(step_ends_one_and_begins_the_next),
        cmocka_unit_test(a_step_call_after_inferred_steps_begins_a_marked_stretch),
        cmocka_unit_test(step_alone_counts_from_the_start_of_the_probe),
        cmocka_unit_test(profiler_steps_count_only_from_the_first_step_on),
        cmocka_unit_test(updates_end_the_steps_after_the_profiler_has_gone),
        cmocka_unit_test(a_framework_ends_steps_only_where_an_update_happened),
        cmocka_unit_test(a_framework_says_which_batches_validate),
        cmocka_unit_test(a_program_may_say_everything_itself),
        cmocka_unit_test(what_precedes_the_first_operation_of_a_graph_is_no_forward),
        cmocka_unit_test(of_several_graphs_the_newest_is_the_one_that_trains),
        cmocka_unit_test(
            a_batch_that_is_fetched_between_forward_and_backward_takes_no_forward),
        cmocka_unit_test(what_an_optimizer_does_between_evaluations_is_its_own),
        cmocka_unit_test(without_a_known_update_each_trained_batch_is_a_step),
        cmocka_unit_test(a_single_batch_without_an_update_is_a_step_when_its_loop_ends),
        cmocka_unit_test(without_batches_each_backward_is_a_step),
        cmocka_unit_test(backwards_whose_graphs_come_in_turns_are_one_step),
        cmocka_unit_test(backwards_whose_graphs_never_come_again_are_a_step_each),
        cmocka_unit_test(an_optimizer_that_was_built_in_vain_gives_way_after_a_while),
        cmocka_unit_test(
            an_update_that_comes_late_takes_over_and_keeps_its_micro_batches),
        cmocka_unit_test(a_framework_whose_updates_nobody_sees_has_steps),
        cmocka_unit_test(a_batch_that_is_only_peeked_at_is_no_step),
        cmocka_unit_test(a_pause_before_a_new_iterator_is_in_no_step),
        cmocka_unit_test(a_pause_before_an_optimizer_is_built_is_in_no_step),
        cmocka_unit_test(an_iterator_that_goes_on_from_the_start_begins_an_epoch),
        cmocka_unit_test(any_marks_in_any_order_keep_numbers_and_times_in_order),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
