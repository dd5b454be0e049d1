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

/* Milliseconds with three digits; "-" for NaN. */
void terminal_ms(double ns, int width);

/* A line of words, broken at blanks and indented by `indent`; `lead` stands before. */
void terminal_wrapped(const char *lead, const char *text, uint32_t indent,
                      uint32_t columns);

/* 1,234,567. */
void terminal_count(uint64_t count);

#endif
