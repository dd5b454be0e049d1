/* Whatever the tables hold, a finding is whole: its numbers are finite, its texts name
 * none that is not, and its JSON can be read.
 *
 *     test_any_summary [SEED]    all cases, or the one that failed
 */
#include <ctype.h>
#include <inttypes.h>
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include <cmocka.h>

#include "document/document.h"
#include "judge/judge.h"
#include "unit/drawn_summary.h"

#define CASES 3000u

static uint64_t only, seed; /* only: 0 all */
static struct judgement judgement;
static uint32_t times_found[RULES_MAX];

#define findings (judgement.findings)

#define EXPECT(finding, condition)                                                     \
    do {                                                                               \
        if (!(condition))                                                              \
            fail_msg("seed %" PRIu64 ": %s: not %s", seed, (finding)->id, #condition); \
    } while (false)

/* ---- texts ------------------------------------------------------------------------------ */

/* A word of letters that stands where a number should. */
static bool is_no_number(const char *word, size_t length)
{
    static const char *const words[] = {"nan", "inf", "infinity", "null"};

    for (size_t i = 0; i < sizeof(words) / sizeof(words[0]); i++)
        if (strlen(words[i]) == length && strncasecmp(word, words[i], length) == 0)
            return true;
    return false;
}

/* A number of more digits than any that was measured has. */
#define DIGITS_MOST 24u

static bool is_readable(const char *text)
{
    size_t letters = 0, digits = 0;

    if (text[0] == '\0' || strstr(text, "  ") != NULL || strstr(text, " ,") != NULL ||
        text[0] == ' ' || text[strlen(text) - 1] == ' ')
        return false;
    for (const char *at = text;; at++) {
        if (!isalpha((unsigned char)*at) && is_no_number(at - letters, letters))
            return false;
        letters = isalpha((unsigned char)*at) ? letters + 1 : 0;
        digits = isdigit((unsigned char)*at) ? digits + 1 : 0;
        if (digits > DIGITS_MOST)
            return false;
        if (*at == '\0')
            return true;
    }
}

static void expect_text(const struct finding *finding, const char *text)
{
    if (text == NULL || !is_readable(text))
        fail_msg("seed %" PRIu64 ": %s: \"%s\"", seed, finding->id,
                 text == NULL ? "(none)" : text);
}

static void check_texts(const struct finding *finding)
{
    expect_text(finding, finding->title);
    expect_text(finding, finding->formula);
    expect_text(finding, finding->sentence);
    expect_text(finding, finding->wrong_if);
    EXPECT(finding, finding->advice_count > 0);
    for (uint32_t i = 0; i < finding->advice_count; i++)
        expect_text(finding, finding->advice[i]);
    for (uint32_t i = 0; i < finding->op_count; i++)
        EXPECT(finding, finding->ops[i] != NULL && finding->ops[i][0] != '\0');
}

/* ---- numbers ---------------------------------------------------------------------------- */

static void check_evidence(const struct finding *finding)
{
    for (uint32_t i = 0; i < finding->evidence_count; i++) {
        const struct finding_evidence *at = &finding->evidence[i];
        bool whole = at->text == NULL ? isfinite(at->number) : at->text[0] != '\0';

        if (!whole)
            fail_msg("seed %" PRIu64 ": %s: evidence %s", seed, finding->id, at->key);
    }
}

/* NaN: too few steps say nothing. */
static void check_price(const struct finding *finding)
{
    double price = finding->ns_per_step, slack = price * 1e-9;
    double low = finding->low_ns, high = finding->high_ns;

    EXPECT(finding, isfinite(price) && price >= 0);
    EXPECT(finding, isfinite(finding->share) && finding->share >= 0);
    EXPECT(finding, !isinf(low) && !isinf(high) && !isinf(finding->error_ns));
    EXPECT(finding, isnan(low) || (low >= 0 && low <= price + slack));
    EXPECT(finding, isnan(high) || high >= price - slack);
    EXPECT(finding, isfinite(finding->owned_ns) && finding->owned_ns >= 0);
}

/* The evidence that says, in ms per step, what a price is a part of. */
static const struct {
    const char *rule, *key;
} takes[] = {{"data-loading", "data_ms"}, {"tiny-ops", "together_ms"},
             {"moved-data", "moved_ms"},  {"optimizer-loop", "optimizer_ms"},
             {"gc-pauses", "extra_ms"},   {"warm-up", "extra_ms"},
             {"epoch-start", "extra_ms"}, {"periodic-steps", "extra_ms"},
             {"step-drift", "extra_ms"}};

/* Of all rules: no more than a step, where it lies in one, nor than what the evidence takes;
 * and so what it owns. */
static void check_promise(const struct finding *finding)
{
    double step = drawn.steps.train.mean_ns, price = finding->ns_per_step;
    double slack = price * 1e-9 + 1e-3;

    if (!finding->rule->outside) {
        EXPECT(finding, price <= step && finding->share <= 1);
        EXPECT(finding, isnan(finding->high_ns) || finding->high_ns <= step);
    }
    EXPECT(finding, isnan(finding->takes_ns) || price <= finding->takes_ns);
    EXPECT(finding, finding->owned_ns <= price + slack);
    for (size_t i = 0; i < sizeof(takes) / sizeof(takes[0]); i++)
        for (uint32_t j = 0; j < finding->evidence_count; j++)
            if (strcmp(finding->rule->id, takes[i].rule) == 0 &&
                strcmp(finding->evidence[j].key, takes[i].key) == 0)
                EXPECT(finding, price <= finding->evidence[j].number * 1e6 + slack);
}

static void check_sum(void)
{
    double step = drawn.steps.train.mean_ns, sum = 0;

    for (uint32_t i = 0; i < findings.count; i++)
        sum += findings.list[i].owned_ns;
    if (!(sum <= step * (1 + 1e-9)) || !isfinite(findings.avoidable_ns))
        fail_msg("seed %" PRIu64 ": %g of %g ns are owned", seed, sum, step);
}

/* ---- JSON ------------------------------------------------------------------------------- */

/* Nothing that was found is null, but an interval of which too few steps say nothing. */
static void expect_no_null(const cJSON *part)
{
    const char *name = part->string == NULL ? "" : part->string;

    if (cJSON_IsNull(part) && strcmp(name, "ms_per_step_low") != 0 &&
        strcmp(name, "ms_per_step_high") != 0)
        fail_msg("seed %" PRIu64 ": %s is null", seed, name);
    for (const cJSON *child = part->child; child != NULL; child = child->next)
        expect_no_null(child);
}

static void check_json(void)
{
    cJSON *body = cJSON_CreateObject(), *read;
    char *text;

    add_findings_json(body, &judgement, &drawn.head);
    text = cJSON_PrintUnformatted(body);
    assert_non_null(text);
    read = cJSON_ParseWithOpts(text, NULL, true);
    if (read == NULL)
        fail_msg("seed %" PRIu64 ": no JSON: %s", seed, text);
    expect_no_null(read);
    assert_int_equal(cJSON_GetArraySize(cJSON_GetObjectItem(read, "findings")),
                     findings.count);
    cJSON_Delete(read);
    cJSON_Delete(body);
    cJSON_free(text);
}

/* ---- all rules -------------------------------------------------------------------------- */

static void count_rule(const struct finding *finding)
{
    const struct finding_rule *rule;

    for (uint32_t i = 0; (rule = findings_rule(i)) != NULL; i++)
        times_found[i] += rule == finding->rule;
    EXPECT(finding, findings_rule_of(finding->id) == finding->rule);
}

static void look(const struct findings_settings *settings)
{
    findings_find(&drawn, settings, &findings);
    for (uint32_t i = 0; i < findings.count; i++) {
        check_price(&findings.list[i]);
        check_promise(&findings.list[i]);
        check_evidence(&findings.list[i]);
        check_texts(&findings.list[i]);
        count_rule(&findings.list[i]);
    }
    check_sum();
    check_json();
    findings_free(&findings);
}

/* As configured, and with rules that tell of whatever costs anything. */
static void check_seed(void)
{
    struct findings_settings all;

    draw_any_summary(seed);
    look(NULL);
    findings_settings_init(&all);
    for (uint32_t i = 0; i < RULES_MAX; i++)
        all.thresholds[i] = 0;
    all.by_price = seed % 2 == 0;
    look(&all);
}

static void no_finding_has_a_number_that_is_none_whatever_the_tables_hold(void **unused)
{
    const struct finding_rule *rule;

    (void)unused;
    for (seed = only > 0 ? only : 1; seed <= (only > 0 ? only : CASES); seed++)
        check_seed();
    for (uint32_t i = 0; only == 0 && (rule = findings_rule(i)) != NULL; i++)
        if (times_found[i] == 0)
            fail_msg("%s was never found: nothing was asked of it", rule->id);
}

int main(int count, char **arguments)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(no_finding_has_a_number_that_is_none_whatever_the_tables_hold),
    };

    only = count > 1 ? strtoull(arguments[1], NULL, 10) : 0;
    return cmocka_run_group_tests(tests, NULL, NULL);
}
