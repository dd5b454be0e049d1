/* Memory of one answer: given out in pieces, freed as a whole. */
#ifndef QUERY_ARENA_H
#define QUERY_ARENA_H

#include <stddef.h>

#include "wire/attributes.h"

struct arena_chunk;

struct arena {
    struct arena_chunk *chunks; /* newest first */
    size_t left;                /* bytes free in the newest */
};

/* Zeroed memory for `count` things of `size` bytes, aligned for any type; NULL when out
 * of memory or when the product overflows. count 0 gives a valid pointer. */
MUST_CHECK void *arena_new(struct arena *arena, size_t count, size_t size);

/* Makes `list` one of `count` zeroed things; false without memory. */
#define ARENA_LIST(arena, list, count)                                                 \
    (((list) = arena_new(arena, count, sizeof(*(list)))) != NULL)

/* A copy of `text`; "" when text is NULL or memory is short: a label is never worth a
 * failed answer. */
const char *arena_text(struct arena *arena, const char *text);
const char *arena_print(struct arena *arena, const char *format, ...) PRINTF(2, 3);

/* Frees everything; the arena is empty and usable again. */
void arena_free(struct arena *arena);

#endif
