/* Names: an append-only table in shared memory, so that an event carries 32 bits.
 *
 *     entries [ {state, offset, length, hash} ... ]   bytes [ "aten::addmmforward..." ]
 *
 * Many threads of one process add, without a lock; readers of other processes look up.
 * An id is given once and never changes its meaning. Id 0 is "no name". The bytes are
 * whole before the entry is published. Two threads that add the same new name at the
 * same instant may give it two ids; readers that care merge by content.
 *
 * Names are foreign text: any bytes but no NUL, at most NAME_BYTES_MAX, cut there.
 * Readers clean them before anyone shows them.
 */
#ifndef WIRE_NAMES_H
#define WIRE_NAMES_H

#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>

#include "wire/attributes.h"

#define NAME_BYTES_MAX 4096u

/* Shared memory, written by the adding thread alone. */
struct name_entry {
    _Atomic uint32_t published; /* 1 once the fields below hold */
    uint32_t length;            /* bytes */
    uint32_t offset;            /* of the first byte in the byte area */
    uint32_t reserved;
};

/* Shared memory; counters are written by the producers. */
struct names_shared {
    _Alignas(64) _Atomic uint32_t next_id; /* ids given, from 1; may pass the limit */
    _Atomic uint32_t reserved;
    _Atomic uint64_t bytes_used;              /* may pass the limit */
    _Atomic uint64_t refused;                 /* names that found no room */
    _Alignas(64) struct name_entry entries[]; /* `capacity`, then the bytes */
};

/* A private view of a table; producer and reader alike. */
struct names {
    struct names_shared *shared; /* borrowed; a reader never writes through it */
    uint32_t capacity;           /* entries; ids are 1 to capacity */
    uint64_t bytes_max;
    _Atomic uint32_t *index; /* producer's private hash index; NULL in a reader */
    uint32_t index_mask;
};

/* Bytes of shared memory for `capacity` names with `bytes_max` bytes together. */
size_t names_size(uint32_t capacity, uint64_t bytes_max);

/* Opens a view on `size` bytes (zeroed by the producer) at `memory`, aligned to 64.
 * A producer gives `index`: zeroed, private, `index_count` a power of two of at least
 * twice `capacity`. A reader gives NULL and 0. -EINVAL when something does not fit. */
MUST_CHECK int names_open(struct names *names, void *memory, size_t size,
                          uint32_t capacity, uint64_t bytes_max);
MUST_CHECK int names_index(struct names *names, _Atomic uint32_t *index,
                           uint32_t index_count);

/* Producer, any thread, wait-free but for hash collisions. The id of `bytes`, added if
 * it is new; 0 when the table is full (counted in `refused`). Async-signal-safe. */
uint32_t names_intern(struct names *names, const char *bytes, size_t length);

/* The same, but adds nothing: 0 when it is not there. */
uint32_t names_find(const struct names *names, const char *bytes, size_t length);

/* Copies nothing: points *bytes into shared memory, valid while the mapping is, and
 * returns the length; 0 for an id that is unknown, not yet published or out of bounds.
 * A producer may change the bytes at any time if it is hostile: copy before looking. */
uint32_t names_lookup(const struct names *names, uint32_t id, const char **bytes);

/* Ids given so far, at most capacity. */
uint32_t names_count(const struct names *names);
uint64_t names_refused(const struct names *names);

#endif
