/* Names of one process: interned by content, cleaned once, kept for good.
 *
 * The collector alone adds, under the store's lock. An id that a reader saw under the
 * lock may be looked up without it for as long as the reader holds a reference: entries
 * never move. Id 0 is "" and stands for every name that found no room.
 */
#ifndef AGGREGATE_TEXTS_H
#define AGGREGATE_TEXTS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "wire/attributes.h"

/* A live segment has room for 16,384 names in 2 MiB; a trace file may bring more. */
#define TEXTS_MAX       32768u
#define TEXTS_BYTES_MAX ((size_t)8 * 1024 * 1024)
#define TEXT_BYTES_MAX  4096u

/* What a name alone says about its range. */
enum text_class {
    TEXT_PLAIN,
    TEXT_ANNOTATION, /* DataLoader, Optimizer, compiled regions ...: a range, no op */
    TEXT_STEP,       /* ProfilerStep: a step, never a row */
};

struct texts;

/* One reference is the caller's. NULL when out of memory. */
struct texts *texts_new(void);
struct texts *texts_share(struct texts *texts);
void texts_release(struct texts *texts);

/* Id of `length` bytes, cleaned to valid UTF-8 without control characters and cut at
 * TEXT_BYTES_MAX; 0 when there is no room (counted). */
uint32_t texts_intern(struct texts *texts, const char *bytes, size_t length);

const char *texts_get(const struct texts *texts, uint32_t id);
enum text_class texts_class(const struct texts *texts, uint32_t id);
enum text_class texts_classify(const char *text);
uint32_t texts_count(const struct texts *texts); /* ids are below it */
uint64_t texts_refused(const struct texts *texts);

/* Writes `length` bytes as clean UTF-8 with NUL into `clean` (size >= 1): every byte
 * that is no part of a character and every control character becomes U+FFFD. */
void texts_clean(const char *bytes, size_t length, char *clean, size_t size);

#endif
