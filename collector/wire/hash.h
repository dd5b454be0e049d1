/* FNV-1a of 64 bits (Fowler, Noll and Vo): the same in every process, run and version. For
 * tables and checksums, not against somebody who looks for collisions. */
#ifndef WIRE_HASH_H
#define WIRE_HASH_H

#include <stddef.h>
#include <stdint.h>
#include <string.h>

#define HASH_BEGIN UINT64_C(0xcbf29ce484222325)

/* Goes on from `hash`: HASH_BEGIN, or what came before. */
static inline uint64_t hash_bytes(uint64_t hash, const void *bytes, size_t size)
{
    const unsigned char *byte = (const unsigned char *)bytes;

    for (size_t i = 0; i < size; i++)
        hash = (hash ^ byte[i]) * UINT64_C(0x100000001b3);
    return hash;
}

static inline uint64_t hash_text(const char *text)
{
    return hash_bytes(HASH_BEGIN, text, strlen(text));
}

/* Its low bits are the worse ones. */
static inline uint32_t hash_fold(uint64_t hash)
{
    return (uint32_t)(hash ^ hash >> 32);
}

#endif
