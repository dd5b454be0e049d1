#include "findings/figure.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

/* Which of `ends` the key ends with, which then loses it; "" none. */
static const char *take_end(const char *key, size_t *length, const char *const *ends)
{
    for (; *ends != NULL; ends++) {
        size_t size = strlen(*ends), before = *length - size;

        if (size > *length || memcmp(key + before, *ends, size) != 0 ||
            (before > 0 && key[before - 1] != '_'))
            continue;
        *length = before > 0 ? before - 1 : 0;
        return *ends;
    }
    return "";
}

static void name_it(const char *key, size_t length, char *name, size_t size)
{
    snprintf(name, size, "%.*s", (int)length, length > 0 ? key : "");
    for (char *c = name; *c != '\0'; c++)
        *c = *c == '_' ? ' ' : *c;
    if (length == 0)
        snprintf(name, size, "size");
}

/* Three digits, or all that a whole number has. */
static const char *digits(char text[32], double value)
{
    snprintf(text, 32, fabs(value) >= 999.5 || value == rint(value) ? "%.0f" : "%.3g",
             value);
    return text;
}

static void print_time(double ms, char *text, size_t size)
{
    double us = ms * 1000;
    bool is_short = ms != 0 && fabs(ms) < 0.9995, is_long = fabs(ms) >= 999.5;

    snprintf(text, size, is_long && fabs(ms) >= 999.5e3 ? "%.0f %s" : "%.3g %s",
             is_short  ? us
             : is_long ? ms / 1000
                       : ms,
             is_short  ? "us"
             : is_long ? "s"
                       : "ms");
}

static void print_size(double bytes, char *text, size_t size)
{
    static const char *const units[] = {"bytes", "KiB", "MiB", "GiB"};
    uint32_t unit = 0;
    char number[32];

    for (; unit < 3 && fabs(bytes) >= 1023.5; unit++)
        bytes /= 1024;
    snprintf(text, size, "%s %s", digits(number, bytes), units[unit]);
}

static void print_number(const char *unit, double value, char *text, size_t size)
{
    char number[32];

    if (strcmp(unit, "ms") == 0 || strcmp(unit, "us") == 0)
        print_time(unit[0] == 'm' ? value : value / 1000, text, size);
    else if (strcmp(unit, "bytes") == 0)
        print_size(value, text, size);
    else
        snprintf(text, size, "%s%s", digits(number, value),
                 strcmp(unit, "pct") == 0 ? " %"
                 : strcmp(unit, "h") == 0 ? " h"
                                          : "");
}

void figure_of(const struct finding_evidence *evidence, struct figure *figure)
{
    static const char *const each[] = {"per_step", "per_s", "per_epoch", NULL};
    static const char *const units[] = {"ms", "us", "pct", "h", "bytes", NULL};
    size_t length = strlen(evidence->key), used;
    const char *per, *unit;

    figure->number[0] = '\0';
    figure->value = evidence->text;
    if (evidence->text != NULL) {
        name_it(evidence->key, length, figure->name, sizeof(figure->name));
        return;
    }
    per = take_end(evidence->key, &length, each);
    unit = take_end(evidence->key, &length, units);
    name_it(evidence->key, length, figure->name, sizeof(figure->name));
    print_number(unit, evidence->number, figure->number, sizeof(figure->number));
    used = strlen(figure->number);
    if (per[0] != '\0')
        snprintf(figure->number + used, sizeof(figure->number) - used, " per %s",
                 per + strlen("per_"));
    figure->value = figure->number;
}

int figure_length(const char *text)
{
    size_t length = strnlen(text, FIGURE_TEXT + 1);

    if (length > FIGURE_TEXT)
        for (length = FIGURE_TEXT; length > 0 && (text[length] & 0xc0) == 0x80;)
            length--;
    return (int)length;
}
