#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "findings/standing.h"

#define MS 1e6
#define S  INT64_C(1000000000)

static const struct finding_rule quick = {.id = "quick", .owner = 1};
static const struct finding_rule trend = {.id = "trend", .owner = 1, .trend = true};
static const struct finding_rule early = {
    .id = "early", .owner = 1, .trend = true, .early = true};
static const struct finding_rule sampled = {.id = "ops", .owner = 1, .sampled = true};

static struct standing standing;
static struct finding lists[4][1];
static struct findings usual = {.list = lists[0]}, usual_relaxed = {.list = lists[1]},
                       recent = {.list = lists[2]}, recent_relaxed = {.list = lists[3]};
static struct standing_look look;
static int64_t window; /* steps of both */

static int begin(void **state)
{
    (void)state;
    standing = (struct standing){.looks = 0};
    look = (struct standing_look){.usual = &usual,
                                  .usual_relaxed = &usual_relaxed,
                                  .recent = &recent,
                                  .recent_relaxed = &recent_relaxed,
                                  .recent_is_recorded = true};
    window = 10;
    return 0;
}

static void put(struct findings *list, const struct finding_rule *rule, double ns)
{
    list->count = 1;
    list->list[0] = (struct finding){.id = rule->id,
                                     .rule = rule,
                                     .title = "A title",
                                     .ns_per_step = ns,
                                     .error_ns = ns / 10,
                                     .claim_count = 1,
                                     .claims = {{.part = PART_DATA, .ns = ns}}};
}

static void clear(void)
{
    usual.count = usual_relaxed.count = recent.count = recent_relaxed.count = 0;
}

/* A second and `steps` steps later. */
static void feed(int64_t steps)
{
    look.last_step += steps;
    look.now_ns += S;
    look.usual_level.first_step = look.recent_level.first_step =
        look.last_step - window + 1;
    standing_feed(&standing, &look);
}

/* The wait for data of the looks' steps. */
static struct gone_level level_of(double ns, double error)
{
    struct gone_level level = {.full = true,
                               .ns = {[PART_DATA] = ns, [CLAIM_PARTS] = 100 * MS + ns}};

    for (uint32_t i = 0; i <= CLAIM_PARTS; i++)
        level.error_ns[i] = error;
    return level;
}

/* `ns` is what the newest steps show, over a threshold of 10 ms that lets stay from 8. */
static void see(const struct finding_rule *rule, double ns)
{
    clear();
    if (ns >= 10 * MS) {
        put(&usual, rule, ns);
        put(&recent, rule, ns);
    }
    if (ns >= 8 * MS) {
        put(&usual_relaxed, rule, ns);
        put(&recent_relaxed, rule, ns);
    }
    look.usual_level = look.recent_level = level_of(ns, ns / 10);
}

/* The recent steps alone show it. */
static void see_recently(const struct finding_rule *rule, double ns)
{
    clear();
    put(&recent, rule, ns);
    put(&recent_relaxed, rule, ns);
}

/* Ten steps later, of which the recent ones are sure that it is gone; the usual window holds
 * what it held, and all steps from the first on. */
static void feed_cured(void)
{
    recent.count = recent_relaxed.count = 0;
    look.recent_level = level_of(0, MS);
    look.last_step += 10;
    look.now_ns += S;
    look.recent_level.first_step = look.last_step - 9;
    look.usual_level.first_step = 1;
    standing_feed(&standing, &look);
}

static enum standing_state state_of(const struct finding_rule *rule)
{
    const struct standing_entry *entry = standing_find(&standing, rule->id);

    return entry == NULL ? STANDING_NONE : entry->state;
}

/* Past the first look, which takes what it meets. */
static void start_healthy(void)
{
    see(&quick, 0);
    feed(20);
}

/* All looks show it; a relaxed one with that price, a strict one with this. */
static void see_at(double relaxed, double strict)
{
    put(&usual, &quick, strict);
    put(&recent, &quick, strict);
    put(&usual_relaxed, &quick, relaxed);
    put(&recent_relaxed, &quick, relaxed);
    look.usual_level = look.recent_level = level_of(20 * MS, 2 * MS);
}

/* Of 20 ms that it cost before it became a risk steps give back one, then all. */
static void expect_to_be_fixed_by_its_price_alone(void)
{
    struct standing was = standing;
    struct standing_look looked = look;

    clear();
    look.recent_level = level_of(19 * MS, MS / 10);
    feed(20);
    feed(20);
    feed(20);
    assert_int_equal(state_of(&quick), STANDING_STANDS);
    look.recent_level = level_of(0, MS / 10);
    feed(20);
    assert_int_equal(state_of(&quick), STANDING_FIXED);
    assert_true(standing_find(&standing, "quick")->ns_per_step == 20 * MS);
    standing = was;
    look = looked;
}

static void a_price_that_has_become_a_risk_stands_as_one(void **state)
{
    (void)state;
    start_healthy();
    see_at(20 * MS, 20 * MS);
    for (int i = 0; i < 4; i++)
        feed(10);
    assert_true(standing_find(&standing, "quick")->ns_per_step > 0);
    see_at(0, 0);
    for (int i = 0; i < 3; i++)
        feed(10);
    assert_int_equal(state_of(&quick), STANDING_STANDS);
    assert_true(standing_find(&standing, "quick")->ns_per_step == 0);
    assert_false(standing_find(&standing, "quick")->former.risk);
    expect_to_be_fixed_by_its_price_alone();
    /* It is a price again where a strict look has one. */
    see_at(9 * MS, 0);
    feed(10);
    assert_true(standing_find(&standing, "quick")->ns_per_step == 0);
    see_at(20 * MS, 20 * MS);
    feed(10);
    assert_true(standing_find(&standing, "quick")->ns_per_step > 0);
}

static void a_finding_appears_once_enough_steps_showed_it(void **state)
{
    (void)state;
    start_healthy();
    see(&quick, 20 * MS);
    feed(4); /* step 24 */
    assert_int_equal(state_of(&quick), STANDING_SEEN);
    feed(4);
    assert_int_equal(state_of(&quick), STANDING_SEEN);
    feed(6);
    assert_int_equal(state_of(&quick), STANDING_STANDS);
    assert_int_equal(standing_find(&standing, "quick")->since_step, 24);
    assert_string_equal(standing_find(&standing, "quick")->title, "A title");
}

static void a_thousand_steps_in_one_look_are_not_enough(void **state)
{
    (void)state;
    start_healthy();
    see(&quick, 20 * MS);
    feed(1000);
    assert_int_equal(state_of(&quick), STANDING_SEEN);
    see(&quick, 0);
    feed(1000);
    assert_int_equal(state_of(&quick), STANDING_NONE);
}

static void what_was_there_before_the_first_look_stands_at_once(void **state)
{
    (void)state;
    see(&quick, 20 * MS);
    feed(5000);
    assert_int_equal(state_of(&quick), STANDING_STANDS);
}

static void what_the_first_steps_of_a_run_show_must_be_seen_again(void **state)
{
    (void)state;
    see(&quick, 20 * MS);
    feed(12);
    assert_int_equal(state_of(&quick), STANDING_SEEN);
    see(&quick, 0);
    feed(100);
    assert_int_equal(state_of(&quick), STANDING_NONE);
}

static void a_price_that_is_not_sure_waits_for_more_steps(void **state)
{
    (void)state;
    start_healthy();
    for (uint32_t i = 0; i < 5; i++) {
        see(&quick, 20 * MS);
        recent.list[0].error_ns = i % 2 == 0 ? (double)NAN : 11 * MS;
        feed(10);
        assert_int_equal(state_of(&quick), STANDING_SEEN);
    }
    see(&quick, 20 * MS);
    feed(10);
    assert_int_equal(state_of(&quick), STANDING_STANDS);
}

static void between_the_thresholds_a_finding_neither_appears_nor_goes(void **state)
{
    (void)state;
    start_healthy();
    for (uint32_t i = 0; i < 100; i++) {
        see(&quick, 9 * MS);
        feed(10);
        assert_int_equal(state_of(&quick), STANDING_NONE);
    }
    see(&quick, 12 * MS);
    for (uint32_t i = 0; i < 3; i++)
        feed(10);
    see(&quick, 9 * MS);
    for (uint32_t i = 0; i < 100; i++) {
        feed(10);
        assert_int_equal(state_of(&quick), STANDING_STANDS);
    }
}

static void noise_around_the_threshold_changes_the_list_once(void **state)
{
    uint64_t random = 88172645463325252u;
    uint32_t changes = 0;
    bool stood = false;

    (void)state;
    start_healthy();
    for (uint32_t i = 0; i < 3600; i++) {
        random ^= random << 13;
        random ^= random >> 7;
        random ^= random << 17;
        see(&quick, 10 * MS + ((double)(random % 3000) - 1500) * 1000);
        feed(7);
        changes += stood != (state_of(&quick) == STANDING_STANDS);
        stood = state_of(&quick) == STANDING_STANDS;
    }
    assert_int_equal(changes, 1);
}

/* The newest 100 steps show a mixture until all of them are without. */
static void a_finding_that_goes_is_fixed_since_the_first_step_without_it(void **state)
{
    const struct standing_entry *entry;
    const int64_t fixed = 1020;

    (void)state;
    window = 100;
    see(&quick, 20 * MS);
    feed(20);
    for (int64_t step = 30; step <= 1200; step += 10) {
        double without = (double)(step - fixed + 1) / 100;

        without = without < 0 ? 0 : without > 1 ? 1 : without;
        see(&quick, (1 - without) * 20 * MS);
        feed(10);
    }
    entry = standing_find(&standing, "quick");
    assert_int_equal(entry->state, STANDING_FIXED);
    assert_in_range(entry->fixed_step, fixed - 10, fixed + 20);
    assert_true(fabs(entry->ns_per_step - 20 * MS) < MS);
    assert_int_equal(entry->since_step, 20);
}

/* A burst of 50 ms, then 12 ms for long: the first is not what was won at the end. */
static void what_cost_less_before_it_went_is_fixed_since_it_went_at_its_last_price(
    void **state)
{
    const struct standing_entry *entry;

    (void)state;
    start_healthy();
    for (uint32_t i = 0; i < 5; i++) {
        see(&quick, 50 * MS);
        feed(10);
    }
    for (uint32_t i = 0; i < 20; i++) {
        see(&quick, 12 * MS);
        feed(10);
    }
    assert_int_equal(state_of(&quick), STANDING_STANDS);
    for (uint32_t i = 0; i < 5; i++) {
        see(&quick, 0);
        feed(10);
    }
    assert_int_equal(state_of(&quick), STANDING_FIXED);
    entry = standing_find(&standing, "quick");
    assert_int_equal(entry->fixed_step, 20 + 25 * 10 + 1);
    assert_true(fabs(entry->ns_per_step - 12 * MS) < MS / 100);
}

static void a_pause_of_a_look_or_two_does_not_fix_it(void **state)
{
    (void)state;
    see(&quick, 20 * MS);
    feed(20);
    for (uint32_t i = 0; i < 100; i++) {
        see(&quick, 0);
        feed(4);
        feed(4);
        assert_int_equal(state_of(&quick), STANDING_STANDS);
        see(&quick, 20 * MS);
        feed(4);
        assert_int_equal(state_of(&quick), STANDING_STANDS);
    }
}

static void fix_it(const struct finding_rule *rule)
{
    see(rule, 20 * MS);
    feed(20);
    see(rule, 0);
    feed(10);
    feed(10);
    feed(10);
    assert_int_equal(state_of(rule), STANDING_FIXED);
}

static void fixed_is_told_for_ten_minutes_of_the_session(void **state)
{
    (void)state;
    fix_it(&quick);
    look.now_ns += STANDING_FIXED_NS - 2 * S;
    feed(10);
    assert_int_equal(state_of(&quick), STANDING_FIXED);
    look.now_ns += 2 * S;
    feed(10);
    assert_int_equal(state_of(&quick), STANDING_NONE);
}

/* Nothing is found any more, and the steps are as they were. */
static void hide(double level)
{
    clear();
    look.usual_level = look.recent_level = level_of(level, MS);
}

static void what_is_not_found_while_steps_stay_as_slow_is_not_fixed(void **state)
{
    (void)state;
    see(&quick, 20 * MS);
    feed(20);
    for (uint32_t i = 0; i < 300; i++) {
        hide(20 * MS);
        feed(10);
        assert_int_equal(state_of(&quick), STANDING_STANDS);
    }
    see(&quick, 20 * MS);
    feed(10);
    assert_int_equal(state_of(&quick), STANDING_STANDS);
    assert_int_equal(standing_find(&standing, "quick")->since_step, 20);
}

static void it_is_fixed_when_half_of_its_price_has_surely_gone(void **state)
{
    (void)state;
    see(&quick, 20 * MS);
    feed(20);
    for (uint32_t i = 0; i < 9; i++) {
        hide((20 - i) * MS); /* 8 ms less, give or take 1 */
        feed(10);
        assert_int_equal(state_of(&quick), STANDING_STANDS);
    }
    hide(8.5 * MS);
    feed(10);
    assert_int_equal(state_of(&quick), STANDING_FIXED);
}

static void what_stays_unproven_is_forgotten_and_not_called_fixed(void **state)
{
    (void)state;
    see(&quick, 20 * MS);
    feed(20);
    for (int64_t s = 0; s < STANDING_FIXED_NS / S; s++) {
        hide(20 * MS);
        feed(10);
        assert_int_equal(state_of(&quick), STANDING_STANDS);
    }
    hide(20 * MS);
    feed(10);
    feed(10);
    assert_int_equal(state_of(&quick), STANDING_NONE);
}

static void a_window_that_began_before_the_change_proves_nothing(void **state)
{
    (void)state;
    window = 1000;
    see(&quick, 20 * MS);
    feed(2000);
    for (uint32_t i = 0; i < 99; i++) {
        see(&quick, 0);
        feed(10);
        assert_int_equal(state_of(&quick), STANDING_STANDS);
    }
    feed(20);
    assert_int_equal(state_of(&quick), STANDING_FIXED);
}

static void a_window_that_is_not_full_proves_nothing(void **state)
{
    (void)state;
    see(&quick, 20 * MS);
    feed(20);
    for (uint32_t i = 0; i < 20; i++) {
        see(&quick, 0);
        look.recent_level.full = false;
        feed(10);
        assert_int_equal(state_of(&quick), STANDING_STANDS);
    }
    look.recent_level.full = true;
    feed(10);
    assert_int_equal(state_of(&quick), STANDING_FIXED);
}

static void a_price_that_is_no_part_of_the_steps_goes_in_silence(void **state)
{
    (void)state;
    see(&quick, 20 * MS);
    recent.list[0].claim_count = recent_relaxed.list[0].claim_count = 0;
    feed(20);
    assert_int_equal(state_of(&quick), STANDING_STANDS);
    see(&quick, 0);
    feed(10);
    feed(10);
    assert_int_equal(state_of(&quick), STANDING_NONE);
}

static void a_risk_without_a_price_is_gone_when_a_window_does_not_show_it(void **state)
{
    (void)state;
    clear();
    put(&recent, &quick, 0);
    put(&recent_relaxed, &quick, 0);
    recent.list[0].claim_count = recent_relaxed.list[0].claim_count = 0;
    feed(20);
    assert_int_equal(state_of(&quick), STANDING_STANDS);
    hide(0);
    feed(10);
    feed(10);
    assert_int_equal(state_of(&quick), STANDING_FIXED);
}

static void what_comes_back_stands_again_under_its_id(void **state)
{
    (void)state;
    fix_it(&quick);
    see(&quick, 15 * MS);
    feed(10);
    feed(10);
    feed(10);
    assert_int_equal(state_of(&quick), STANDING_STANDS);
    assert_string_equal(standing_find(&standing, "quick")->id, "quick");
}

static void a_trend_is_judged_by_the_usual_window_alone(void **state)
{
    (void)state;
    see(&trend, 20 * MS);
    feed(20);
    recent.count = recent_relaxed.count = 0;
    for (uint32_t i = 0; i < 10; i++)
        feed(10);
    assert_int_equal(state_of(&trend), STANDING_STANDS);
    see_recently(&trend, 20 * MS);
    look.usual_level = level_of(0, MS);
    feed(10);
    feed(10);
    feed(10);
    assert_int_equal(state_of(&trend), STANDING_FIXED);
}

static void
what_may_be_seen_early_appears_by_the_recent_steps_if_these_are_sure(void **state)
{
    (void)state;
    start_healthy();
    for (uint32_t i = 0; i < 5; i++) {
        see_recently(&early, 20 * MS);
        recent.list[0].error_ns = recent_relaxed.list[0].error_ns = 11 * MS;
        feed(10);
        assert_int_equal(state_of(&early), STANDING_NONE);
    }
    for (uint32_t i = 0; i < 3; i++) {
        see_recently(&early, 20 * MS);
        feed(10);
    }
    assert_int_equal(state_of(&early), STANDING_STANDS);
}

static void
what_the_usual_window_is_sure_of_stands_though_the_recent_steps_are_below(void **state)
{
    (void)state;
    start_healthy();
    for (uint32_t i = 0; i < 4; i++) {
        see(&early, 11 * MS);
        recent.count = 0; /* their interval reaches below the threshold */
        feed(10);
    }
    assert_int_equal(state_of(&early), STANDING_STANDS);
}

static void what_comes_in_bursts_is_told_as_fixed_once_at_most(void **state)
{
    (void)state;
    uint32_t fixed = 0;

    window = 10;
    for (uint32_t burst = 0; burst < 5; burst++) {
        for (uint32_t i = 0; i < 4; i++) {
            see(&early, 20 * MS);
            feed(10);
        }
        for (uint32_t i = 0; i < 4; i++) {
            see(&early, 12 * MS);
            feed_cured();
        }
        fixed += state_of(&early) == STANDING_FIXED;
    }
    assert_int_equal(fixed, 1);
    assert_int_equal(state_of(&early), STANDING_STANDS);
}

static void what_was_seen_early_stays_while_the_usual_window_shows_it(void **state)
{
    (void)state;
    see(&early, 20 * MS);
    feed(20);
    assert_int_equal(state_of(&early), STANDING_STANDS);
    /* That window holds less and less of it. */
    window = 200;
    for (double ms = 16; ms >= 8; ms--) {
        see(&early, ms * MS);
        recent.count = recent_relaxed.count = 0;
        look.recent_level = level_of(0, 30 * MS); /* which says nothing */
        feed(10);
        assert_int_equal(state_of(&early), STANDING_STANDS);
    }
    clear();
    window = 10;
    look.usual_level = level_of(0, MS);
    for (uint32_t i = 0; i < 3; i++)
        feed(10);
    assert_int_equal(state_of(&early), STANDING_FIXED);
    assert_int_equal(standing_find(&standing, "early")->fixed_step, 21);
}

static void
what_was_seen_early_is_fixed_when_the_recent_steps_are_sure_of_it(void **state)
{
    (void)state;
    see(&early, 20 * MS);
    feed(20);
    see(&early, 20 * MS);
    feed(10);
    for (double ms = 18; ms > 8; ms--) {
        see(&early, ms * MS); /* the usual window has it still */
        feed_cured();
    }
    assert_int_equal(state_of(&early), STANDING_FIXED);
    assert_int_equal(standing_find(&standing, "early")->fixed_step, 31);
    /* It comes back. */
    for (uint32_t i = 0; i < 3; i++) {
        see(&early, 20 * MS);
        feed(10);
    }
    assert_int_equal(state_of(&early), STANDING_STANDS);
}

static void without_recorded_steps_lately_the_usual_window_judges_ops(void **state)
{
    (void)state;
    see(&sampled, 20 * MS);
    feed(20);
    recent.count = recent_relaxed.count = 0;
    look.recent_is_recorded = false;
    for (uint32_t i = 0; i < 10; i++)
        feed(10);
    assert_int_equal(state_of(&sampled), STANDING_STANDS);
    look.recent_is_recorded = true;
    look.recent_level = level_of(0, MS);
    for (uint32_t i = 0; i < 3; i++)
        feed(10);
    assert_int_equal(state_of(&sampled), STANDING_FIXED);
}

static void a_full_table_forgets_what_was_fixed_and_keeps_what_stands(void **state)
{
    static char ids[2 * STANDING_MAX][16];

    (void)state;
    start_healthy();
    for (uint32_t i = 0; i < 2 * STANDING_MAX; i++) {
        snprintf(ids[i], sizeof(ids[i]), "quick-%u", i);
        see(&quick, 20 * MS);
        recent.list[0].id = recent_relaxed.list[0].id = ids[i];
        feed(10);
        feed(10);
        feed(10);
        assert_int_equal(standing_find(&standing, ids[i])->state, STANDING_STANDS);
        see(&quick, 0);
        feed(10);
        feed(10);
    }
    assert_null(standing_find(&standing, ids[0]));
    assert_non_null(standing_find(&standing, ids[2 * STANDING_MAX - 2]));
}

#define TEST(name) cmocka_unit_test_setup(name, begin)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(a_finding_appears_once_enough_steps_showed_it),
        TEST(a_price_that_has_become_a_risk_stands_as_one),
        TEST(a_thousand_steps_in_one_look_are_not_enough),
        TEST(what_was_there_before_the_first_look_stands_at_once),
        TEST(what_the_first_steps_of_a_run_show_must_be_seen_again),
        TEST(a_price_that_is_not_sure_waits_for_more_steps),
        TEST(between_the_thresholds_a_finding_neither_appears_nor_goes),
        TEST(noise_around_the_threshold_changes_the_list_once),
        TEST(a_finding_that_goes_is_fixed_since_the_first_step_without_it),
        TEST(what_cost_less_before_it_went_is_fixed_since_it_went_at_its_last_price),
        TEST(a_pause_of_a_look_or_two_does_not_fix_it),
        TEST(fixed_is_told_for_ten_minutes_of_the_session),
        TEST(what_is_not_found_while_steps_stay_as_slow_is_not_fixed),
        TEST(it_is_fixed_when_half_of_its_price_has_surely_gone),
        TEST(what_stays_unproven_is_forgotten_and_not_called_fixed),
        TEST(a_window_that_began_before_the_change_proves_nothing),
        TEST(a_window_that_is_not_full_proves_nothing),
        TEST(a_price_that_is_no_part_of_the_steps_goes_in_silence),
        TEST(a_risk_without_a_price_is_gone_when_a_window_does_not_show_it),
        TEST(what_comes_back_stands_again_under_its_id),
        TEST(a_trend_is_judged_by_the_usual_window_alone),
        TEST(what_may_be_seen_early_appears_by_the_recent_steps_if_these_are_sure),
        TEST(what_the_usual_window_is_sure_of_stands_though_the_recent_steps_are_below),
        TEST(what_comes_in_bursts_is_told_as_fixed_once_at_most),
        TEST(what_was_seen_early_stays_while_the_usual_window_shows_it),
        TEST(what_was_seen_early_is_fixed_when_the_recent_steps_are_sure_of_it),
        TEST(without_recorded_steps_lately_the_usual_window_judges_ops),
        TEST(a_full_table_forgets_what_was_fixed_and_keeps_what_stands),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
