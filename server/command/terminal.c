#include "command/terminal.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include "aggregate/sum.h"

#define COLUMNS_MIN 60u
#define COLUMNS_MAX 120u
#define MS          1e6

uint32_t terminal_columns(void)
{
    const char *said = getenv("COLUMNS");
    struct winsize size = {0};
    unsigned long columns = said == NULL ? 0 : strtoul(said, NULL, 10);

    if (columns == 0 && ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) == 0)
        columns = size.ws_col;
    if (columns == 0)
        return 80;
    return columns < COLUMNS_MIN   ? COLUMNS_MIN
           : columns > COLUMNS_MAX ? COLUMNS_MAX
                                   : (uint32_t)columns;
}

void terminal_clean(char *text)
{
    for (unsigned char *c = (unsigned char *)text; c != NULL && *c != '\0'; c++)
        if (*c < 0x20 || *c == 0x7f)
            *c = '?';
        else if (*c == 0xc2 && c[1] >= 0x80 && c[1] < 0xa0) /* U+0080 to U+009F */
            *c = c[1] = '?';
}

void terminal_cell(const char *text, uint32_t width)
{
    uint32_t characters = 0, bytes = 0, cut = 0;

    for (; text[bytes] != '\0'; bytes++) {
        characters += ((unsigned char)text[bytes] & 0xc0) != 0x80;
        if (characters <= width - 2)
            cut = bytes + 1;
    }
    if (characters > width)
        printf("%.*s..", (int)cut, text);
    else
        printf("%s%*s", text, (int)(width - characters), "");
}

void terminal_bar(double share, uint32_t width)
{
    uint32_t length = share > 0 ? (uint32_t)lround(share * width) : 0;

    if (length > 0)
        fputs("  ", stdout);
    for (uint32_t i = 0; i < length && i < width; i++)
        putchar('#');
}

const char *terminal_ms(char text[TERMINAL_NUMBER_BYTES], double ns, int width)
{
    double ms = fabs(ns) >= (double)SUM_MAX_NS ? (double)NAN : ns / MS;

    if (isnan(ms) || ms == 0)
        (void)snprintf(text, TERMINAL_NUMBER_BYTES, "%*s", width,
                       isnan(ms) ? "-" : "0");
    else
        (void)snprintf(text, TERMINAL_NUMBER_BYTES, "%*.*f", width,
                       ms >= 1000    ? 0
                       : ms >= 100   ? 1
                       : ms >= 1     ? 2
                       : ms >= 0.001 ? 3
                                     : 6, /* single nanoseconds */
                       ms);
    return text;
}

void terminal_wrapped(const char *lead, const char *text, uint32_t indent,
                      uint32_t columns)
{
    uint32_t at = indent;

    printf("%*s%s", (int)(indent - strlen(lead)), "", lead);
    while (*text != '\0') {
        size_t length = strcspn(text, " ");

        if (text[length] == ' ' && text[length + 1] == '%') /* stays with its number */
            length += 1 + strcspn(text + length + 1, " ");
        if (at > indent && at + length + 1 > columns) {
            printf("\n%*s", (int)indent, "");
            at = indent;
        }
        printf("%s%.*s", at > indent ? " " : "", (int)length, text);
        at += (uint32_t)length + (at > indent);
        text += length + strspn(text + length, " ");
    }
    putchar('\n');
}

const char *terminal_count(char text[TERMINAL_NUMBER_BYTES], uint64_t count)
{
    char digits[32];
    int length = snprintf(digits, sizeof(digits), "%llu", (unsigned long long)count);

    char *to = text;

    for (int i = 0; i < length; i++) {
        if (i > 0 && (length - i) % 3 == 0)
            *to++ = ',';
        *to++ = digits[i];
    }
    *to = '\0';
    return text;
}
