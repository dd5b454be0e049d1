/* Pieces of a report on a terminal: cells, bars, wrapped lines, numbers. */
#ifndef COMMAND_TERMINAL_H
#define COMMAND_TERMINAL_H

#include <stdint.h>

/* Columns of the terminal, 60 to 120; 80 where it is none. */
uint32_t terminal_columns(void);

/* Makes what a terminal would obey, in names of others, question marks. NULL is none. */
void terminal_clean(char *text);

/* Clean UTF-8 in exactly `width` columns: cut with dots, or filled up. */
void terminal_cell(const char *text, uint32_t width);

/* A bar of `share` of `width`, after two blanks; nothing for nothing. */
void terminal_bar(double share, uint32_t width);

/* Milliseconds with three digits, in `width` columns; "-" for NaN. */
#define TERMINAL_NUMBER_BYTES 40
const char *terminal_ms(char text[TERMINAL_NUMBER_BYTES], double ns, int width);
#define MS_TEXT(ns, width) terminal_ms((char[TERMINAL_NUMBER_BYTES]){0}, ns, width)

/* A line of words, broken at blanks and indented by `indent`; `lead` stands before. */
void terminal_wrapped(const char *lead, const char *text, uint32_t indent,
                      uint32_t columns);

/* 1,234,567. */
const char *terminal_count(char text[TERMINAL_NUMBER_BYTES], uint64_t count);
#define COUNT_TEXT(count) terminal_count((char[TERMINAL_NUMBER_BYTES]){0}, count)

#endif
