#include "report/fail_on.h"

#include <errno.h>
#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "findings/findings.h"

#define KIB 1024.0

#define TIME   (1u << FAIL_ON_MS | 1u << FAIL_ON_PERCENT)
#define MEMORY (1u << FAIL_ON_BYTES | 1u << FAIL_ON_PERCENT)
#define SHARE  (1u << FAIL_ON_PERCENT)

static const struct {
    const char *word;
    unsigned units; /* bits of enum fail_on_unit */
} names[FAIL_ON_NAMES] = {
    [FAIL_ON_STEP] = {"step", TIME},         [FAIL_ON_STEP_P95] = {"step.p95", TIME},
    [FAIL_ON_DATA] = {"data", TIME},         [FAIL_ON_FORWARD] = {"forward", TIME},
    [FAIL_ON_BACKWARD] = {"backward", TIME}, [FAIL_ON_OPTIMIZER] = {"optimizer", TIME},
    [FAIL_ON_OTHER] = {"other", TIME},       [FAIL_ON_IDLE] = {"idle", TIME},
    [FAIL_ON_MEMORY] = {"memory", MEMORY},   [FAIL_ON_OVERHEAD] = {"overhead", SHARE},
    [FAIL_ON_FINDING] = {"finding", TIME},
};

static const char *const causes[] = {"data",  "sync",       "launch", "copy",   "alloc",
                                     "setup", "collective", "python", "unknown"};

static const struct {
    const char *word;
    enum fail_on_unit unit;
    double factor;
} units[] = {
    {"ms", FAIL_ON_MS, 1},
    {"%", FAIL_ON_PERCENT, 1},
    {"bytes", FAIL_ON_BYTES, 1},
    {"KiB", FAIL_ON_BYTES, KIB},
    {"MiB", FAIL_ON_BYTES, KIB *KIB},
    {"GiB", FAIL_ON_BYTES, KIB *KIB *KIB},
};

const char *fail_on_word(enum fail_on_name name)
{
    return (size_t)name < FAIL_ON_NAMES ? names[name].word : "";
}

struct parsing {
    const char *text;
    size_t at;
    struct fail_on *expression;
    struct fail_on_error *error;
};

PRINTF(3, 4)
static int refuse(struct parsing *parsing, size_t at, const char *format, ...)
{
    va_list arguments;

    parsing->error->at = at;
    va_start(arguments, format);
    vsnprintf(parsing->error->reason, sizeof(parsing->error->reason), format,
              arguments);
    va_end(arguments);
    return -EINVAL;
}

static void skip_space(struct parsing *parsing)
{
    parsing->at += strspn(parsing->text + parsing->at, " \t");
}

static bool is_word(const char *text, size_t length, const char *word)
{
    return strlen(word) == length && memcmp(text, word, length) == 0;
}

/* A rule, or a rule and 8 hex digits of its subject. */
static bool is_finding(const char *id)
{
    const struct finding_rule *rule;

    for (uint32_t i = 0; (rule = findings_rule(i)) != NULL; i++) {
        size_t length = strlen(rule->id);

        if (strcmp(id, rule->id) == 0)
            return true;
        if (strncmp(id, rule->id, length) == 0 && id[length] == '-' &&
            strlen(id + length + 1) == 8 &&
            strspn(id + length + 1, "0123456789abcdef") == 8)
            return true;
    }
    return false;
}

/* What follows "idle." and "finding.". */
static int take_subject(struct parsing *parsing, size_t at, size_t length)
{
    struct fail_on *expression = parsing->expression;
    bool known = false;

    if (length == 0 || length >= sizeof(expression->subject))
        return refuse(parsing, at, "a name of at most %zu bytes belongs here",
                      sizeof(expression->subject) - 1);
    memcpy(expression->subject, parsing->text + at, length);
    expression->subject[length] = '\0';
    if (expression->name == FAIL_ON_FINDING)
        return is_finding(expression->subject)
                   ? 0
                   : refuse(parsing, at, "no rule finds '%s'", expression->subject);
    for (size_t i = 0; i < sizeof(causes) / sizeof(causes[0]); i++)
        known = known || strcmp(causes[i], expression->subject) == 0;
    return known ? 0
                 : refuse(parsing, at,
                          "no GPU is idle for '%s', but for data, sync, launch, copy, "
                          "alloc, setup, collective, python or unknown",
                          expression->subject);
}

static int take_name(struct parsing *parsing)
{
    const char *text = parsing->text + parsing->at;
    size_t at = parsing->at, length = strspn(text, "abcdefghijklmnopqrstuvwxyz"
                                                   "0123456789_.-");

    parsing->at += length;
    for (int i = 0; i < FAIL_ON_NAMES; i++) {
        size_t size = strlen(names[i].word);
        bool subject = (i == FAIL_ON_IDLE || i == FAIL_ON_FINDING) && length > size &&
                       text[size] == '.' && memcmp(text, names[i].word, size) == 0;

        parsing->expression->name = (enum fail_on_name)i;
        if (subject)
            return take_subject(parsing, at + size + 1, length - size - 1);
        if (is_word(text, length, names[i].word))
            return i != FAIL_ON_FINDING
                       ? 0
                       : refuse(parsing, at + size, "finding.ID names which finding");
    }
    return refuse(parsing, at,
                  "'%.*s' is no name; one is step, step.p95, data, forward, backward, "
                  "optimizer, other, idle[.cause], memory, overhead or finding.ID",
                  (int)(length > 40 ? 40 : length), text);
}

static int take_comparison(struct parsing *parsing)
{
    char sign = parsing->text[parsing->at];

    if (sign != '>' && sign != '<')
        return refuse(parsing, parsing->at, "'>' or '<' belongs here");
    parsing->expression->above = sign == '>';
    parsing->at++;
    return 0;
}

/* Decimal, without a locale's or strtod()'s other forms. */
static int take_number(struct parsing *parsing)
{
    const char *text = parsing->text + parsing->at;
    const char *digits = text + (text[0] == '-');
    size_t whole = strspn(digits, "0123456789"), part = 0;

    if (whole > 0 && digits[whole] == '.')
        part = strspn(digits + whole + 1, "0123456789");
    if (whole == 0 || whole > 15 || part > 15 || (digits[whole] == '.' && part == 0))
        return refuse(parsing, parsing->at, "a decimal number belongs here");
    parsing->expression->limit = strtod(text, NULL);
    parsing->at += (size_t)(digits - text) + whole + (part > 0 ? part + 1 : 0);
    return 0;
}

static int take_unit(struct parsing *parsing)
{
    struct fail_on *expression = parsing->expression;
    const char *word = parsing->text + parsing->at;
    size_t length = strcspn(word, " \t");

    for (size_t i = 0; i < sizeof(units) / sizeof(units[0]); i++) {
        if (!is_word(word, length, units[i].word))
            continue;
        expression->unit = units[i].unit;
        expression->limit *= units[i].factor;
        if ((names[expression->name].units >> units[i].unit & 1) == 0)
            break;
        parsing->at += length;
        return 0;
    }
    return refuse(
        parsing, parsing->at, "%s is measured in %s", names[expression->name].word,
        names[expression->name].units == SHARE    ? "%"
        : names[expression->name].units == MEMORY ? "bytes, KiB, MiB, GiB or %"
                                                  : "ms or %");
}

static int check_whole(struct parsing *parsing, enum fail_on_scale scale, size_t number)
{
    const struct fail_on *expression = parsing->expression;

    if (parsing->text[parsing->at] != '\0')
        return refuse(parsing, parsing->at, "nothing belongs behind the unit");
    if (scale == FAIL_ON_ONE_RUN && expression->name == FAIL_ON_STEP &&
        expression->unit == FAIL_ON_PERCENT)
        return refuse(parsing, number, "a step is 100 %% of itself; give it in ms");
    if (expression->limit < 0 &&
        !(scale == FAIL_ON_CHANGE && expression->unit == FAIL_ON_PERCENT))
        return refuse(parsing, number, "only a change in %% may be below zero");
    return 0;
}

int fail_on_parse(const char *text, enum fail_on_scale scale,
                  struct fail_on *expression, struct fail_on_error *error)
{
    struct parsing parsing = {.text = text, .expression = expression, .error = error};
    size_t number;
    int wrong;

    *expression = (struct fail_on){.limit = 0};
    if (strlen(text) >= sizeof(expression->text))
        return refuse(&parsing, sizeof(expression->text) - 1, "it is too long");
    snprintf(expression->text, sizeof(expression->text), "%s", text);
    skip_space(&parsing);
    wrong = take_name(&parsing);
    skip_space(&parsing);
    wrong = wrong != 0 ? wrong : take_comparison(&parsing);
    skip_space(&parsing);
    number = parsing.at;
    wrong = wrong != 0 ? wrong : take_number(&parsing);
    skip_space(&parsing);
    wrong = wrong != 0 ? wrong : take_unit(&parsing);
    skip_space(&parsing);
    return wrong != 0 ? wrong : check_whole(&parsing, scale, number);
}

bool fail_on_found(const struct fail_on *expression,
                   const struct fail_on_measure *measure)
{
    if (measure->open && expression->above && !(expression->limit > 0))
        return true;
    return expression->above ? measure->low > expression->limit
                             : measure->high < expression->limit;
}

void fail_on_describe(const struct fail_on *expression,
                      const struct fail_on_measure *measure, char *text, size_t size)
{
    bool bytes = expression->unit == FAIL_ON_BYTES;
    double scale = bytes ? KIB * KIB * KIB : 1;
    const char *unit = bytes ? "GiB" : expression->unit == FAIL_ON_PERCENT ? "%" : "ms";

    if (measure->open)
        snprintf(text, size, "it stands, without a price");
    else if (measure->low < measure->high)
        snprintf(text, size, "%.4g %s (95 %%: %.4g to %.4g %s)", measure->value / scale,
                 unit, measure->low / scale, measure->high / scale, unit);
    else
        snprintf(text, size, "%.4g %s", measure->value / scale, unit);
}
