#include "query/arena.h"

#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Most answers are a few KiB; long lists get a chunk of their own. */
#define CHUNK_BYTES ((size_t)16 * 1024)

struct arena_chunk {
    struct arena_chunk *older;
    size_t size; /* bytes of `memory` */
    _Alignas(max_align_t) unsigned char memory[];
};

static struct arena_chunk *chunk_new(size_t size)
{
    if (size > SIZE_MAX - sizeof(struct arena_chunk))
        return NULL;
    struct arena_chunk *chunk = calloc(1, sizeof(*chunk) + size);

    if (chunk != NULL)
        chunk->size = size;
    return chunk;
}

/* A piece of its own, behind the newest chunk so that its rest stays in use. */
static void *piece_new(struct arena *arena, size_t size)
{
    struct arena_chunk *chunk = chunk_new(size);

    if (chunk == NULL)
        return NULL;
    if (arena->chunks == NULL) {
        arena->chunks = chunk;
        return chunk->memory;
    }
    chunk->older = arena->chunks->older;
    arena->chunks->older = chunk;
    return chunk->memory;
}

void *arena_new(struct arena *arena, size_t count, size_t size)
{
    size_t unit = _Alignof(max_align_t);

    if (size != 0 && count > (SIZE_MAX - unit) / size)
        return NULL;
    size_t bytes = (count * size + unit - 1) / unit * unit;

    if (bytes == 0)
        bytes = unit;
    if (bytes > CHUNK_BYTES / 4)
        return piece_new(arena, bytes);
    if (bytes > arena->left) {
        struct arena_chunk *chunk = chunk_new(CHUNK_BYTES);

        if (chunk == NULL)
            return NULL;
        chunk->older = arena->chunks;
        arena->chunks = chunk;
        arena->left = CHUNK_BYTES;
    }
    arena->left -= bytes;
    return arena->chunks->memory + (arena->chunks->size - arena->left - bytes);
}

const char *arena_text(struct arena *arena, const char *text)
{
    size_t size = text == NULL ? 0 : strlen(text) + 1;
    char *copy = size < 2 ? NULL : arena_new(arena, size, 1);

    if (copy == NULL)
        return "";
    memcpy(copy, text, size);
    return copy;
}

const char *arena_print(struct arena *arena, const char *format, ...)
{
    va_list arguments;
    char text[1024];

    va_start(arguments, format);
    int length = vsnprintf(text, sizeof(text), format, arguments);
    va_end(arguments);
    return length < 0 ? "" : arena_text(arena, text);
}

void arena_free(struct arena *arena)
{
    while (arena->chunks != NULL) {
        struct arena_chunk *older = arena->chunks->older;

        free(arena->chunks);
        arena->chunks = older;
    }
    arena->left = 0;
}
