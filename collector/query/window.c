#include "query/window.h"

#include <errno.h>
#include <inttypes.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>

#define NS_PER_MS INT64_C(1000000)
#define NS_PER_S  INT64_C(1000000000)

/* Longer than any run, and far from where sums of two overflow. */
#define STEP_MAX    (((int64_t)1 << 48) - 1)
#define LENGTH_S    (INT64_C(10) * 366 * 86400)
#define MS_MAX      (LENGTH_S * 1000)
#define TEXT_LENGTH 64u

/* Reads decimal digits; false without any or beyond `max`. */
static bool read_number(const char **text, int64_t max, int64_t *number)
{
    const char *at = *text;
    int64_t value = 0;

    for (; *at >= '0' && *at <= '9'; at++) {
        value = value * 10 + (*at - '0');
        if (value > max)
            return false;
    }
    if (at == *text)
        return false;
    *text = at;
    *number = value;
    return true;
}

/* Milliseconds, with a fraction if there is one, as ns. */
static bool read_ms(const char **text, int64_t *ns)
{
    int64_t whole, unit = NS_PER_MS;

    if (!read_number(text, MS_MAX, &whole))
        return false;
    *ns = whole * NS_PER_MS;
    if ((*text)[0] != '.' || (*text)[1] < '0' || (*text)[1] > '9')
        return true;
    for ((*text)++; **text >= '0' && **text <= '9'; (*text)++) {
        unit /= 10;
        *ns += (**text - '0') * unit;
    }
    return true;
}

static bool parse_range(const char *text, struct window *window)
{
    const char *at = text;

    if (read_number(&at, STEP_MAX, &window->a) && *at == '-') {
        at++;
        window->kind = WINDOW_STEPS;
        return read_number(&at, STEP_MAX, &window->b) && *at == '\0' &&
               window->a <= window->b;
    }
    at = text;
    if (!read_ms(&at, &window->a) || strncmp(at, "..", 2) != 0)
        return false;
    at += 2;
    window->kind = WINDOW_TIME;
    return read_ms(&at, &window->b) && *at == '\0' && window->a < window->b;
}

static bool parse_length(const char *text, struct window *window)
{
    static const struct {
        const char *unit;
        int64_t factor, max;
    } units[] = {{"s", NS_PER_S, LENGTH_S},
                 {"min", 60 * NS_PER_S, LENGTH_S / 60},
                 {"h", 3600 * NS_PER_S, LENGTH_S / 3600},
                 {"ms", NS_PER_MS, MS_MAX}};
    const char *at = text;

    if (!read_number(&at, STEP_MAX, &window->a) || window->a == 0)
        return false;
    window->kind = WINDOW_LAST_STEPS;
    if (strcmp(at, "steps") == 0)
        return true;
    window->kind = WINDOW_LAST_NS;
    for (size_t i = 0; i < sizeof(units) / sizeof(units[0]); i++) {
        if (strcmp(at, units[i].unit) != 0)
            continue;
        bool fits = window->a <= units[i].max;

        window->a *= fits ? units[i].factor : 1;
        return fits;
    }
    return false;
}

int window_parse(const char *text, struct window *window, const char **reason)
{
    *window = (struct window){.kind = WINDOW_DEFAULT};
    *reason = "";
    if (text == NULL || *text == '\0')
        return 0;
    *reason = "expected 10s, 10min, 100steps, a-b (steps), from..to (ms), epoch:n or "
              "run";
    if (strlen(text) > TEXT_LENGTH)
        return -EINVAL;
    bool good = false;

    if (strcmp(text, "run") == 0) {
        window->kind = WINDOW_RUN;
        good = true;
    } else if (strncmp(text, "epoch:", 6) == 0) {
        const char *at = text + 6;

        window->kind = WINDOW_EPOCH;
        good = read_number(&at, UINT16_MAX, &window->a) && *at == '\0' && window->a > 0;
    } else {
        good = parse_range(text, window) || parse_length(text, window);
    }
    if (!good)
        return -EINVAL;
    *reason = "";
    return 0;
}

void window_print(const struct window *window, char *text, size_t size)
{
    int64_t a = window->a, b = window->b;

    switch (window->kind) {
    case WINDOW_LAST_NS:
        if (a % NS_PER_S == 0)
            snprintf(text, size, "%" PRId64 "s", a / NS_PER_S);
        else
            snprintf(text, size, "%" PRId64 "ms", a / NS_PER_MS);
        return;
    case WINDOW_LAST_STEPS:
        snprintf(text, size, "%" PRId64 "steps", a);
        return;
    case WINDOW_STEPS:
        snprintf(text, size, "%" PRId64 "-%" PRId64, a, b);
        return;
    case WINDOW_TIME:
        snprintf(text, size, "%" PRId64 ".%06" PRId64 "..%" PRId64 ".%06" PRId64,
                 a / NS_PER_MS, a % NS_PER_MS, b / NS_PER_MS, b % NS_PER_MS);
        return;
    case WINDOW_EPOCH:
        snprintf(text, size, "epoch:%" PRId64, a);
        return;
    case WINDOW_RUN:
        snprintf(text, size, "run");
        return;
    case WINDOW_DEFAULT:
    default:
        snprintf(text, size, "%s", "");
        return;
    }
}
