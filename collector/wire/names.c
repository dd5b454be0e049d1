#include "wire/names.h"

#include <errno.h>
#include <string.h>

#include "wire/hash.h"

size_t names_size(uint32_t capacity, uint64_t bytes_max)
{
    return sizeof(struct names_shared) + (size_t)capacity * sizeof(struct name_entry) +
           (size_t)bytes_max;
}

int names_open(struct names *names, void *memory, size_t size, uint32_t capacity,
               uint64_t bytes_max)
{
    if (capacity == 0 || bytes_max > UINT32_MAX || (uintptr_t)memory % 64 != 0 ||
        size < names_size(capacity, bytes_max))
        return -EINVAL;
    *names =
        (struct names){.shared = memory, .capacity = capacity, .bytes_max = bytes_max};
    return 0;
}

int names_index(struct names *names, _Atomic uint32_t *index, uint32_t index_count)
{
    if ((index_count & (index_count - 1)) != 0 || index_count / 2 < names->capacity)
        return -EINVAL;
    names->index = index;
    names->index_mask = index_count - 1;
    return 0;
}

static uint32_t hash(const char *bytes, size_t length)
{
    return hash_fold(hash_bytes(HASH_BEGIN, bytes, length));
}

static char *byte_area(const struct names *names)
{
    return (char *)&names->shared->entries[names->capacity];
}

static uint32_t add(struct names *names, const char *bytes, uint32_t length)
{
    struct names_shared *shared = names->shared;

    if (atomic_load_explicit(&shared->next_id, memory_order_relaxed) >=
            names->capacity ||
        atomic_load_explicit(&shared->bytes_used, memory_order_relaxed) + length >
            names->bytes_max)
        goto full;
    uint64_t offset =
        atomic_fetch_add_explicit(&shared->bytes_used, length, memory_order_relaxed);
    uint32_t id =
        atomic_fetch_add_explicit(&shared->next_id, 1, memory_order_relaxed) + 1;

    /* Several threads may pass the check above together: each looks again at its own.
     */
    if (id > names->capacity || offset > names->bytes_max - length)
        goto full;
    struct name_entry *entry = &shared->entries[id - 1];

    memcpy(byte_area(names) + offset, bytes, length);
    entry->offset = (uint32_t)offset;
    entry->length = length;
    /* Release: pairs with the acquire in names_lookup(). */
    atomic_store_explicit(&entry->published, 1, memory_order_release);
    return id;
full:
    atomic_fetch_add_explicit(&shared->refused, 1, memory_order_relaxed);
    return 0;
}

uint32_t names_intern(struct names *names, const char *bytes, size_t length)
{
    if (length > NAME_BYTES_MAX)
        length = NAME_BYTES_MAX;
    if (length == 0 || names->index == NULL)
        return 0;
    uint32_t slot = hash(bytes, length) & names->index_mask, mine = 0;

    for (uint32_t probes = 0; probes <= names->index_mask; probes++) {
        /* Acquire: pairs with the release below; the entry behind the id is whole. */
        uint32_t id = atomic_load_explicit(&names->index[slot], memory_order_acquire);
        const char *known;

        if (id == 0) {
            if (mine == 0 && (mine = add(names, bytes, (uint32_t)length)) == 0)
                return 0;
            if (atomic_compare_exchange_strong_explicit(&names->index[slot], &id, mine,
                                                        memory_order_release,
                                                        memory_order_acquire))
                return mine;
        }
        if (names_lookup(names, id, &known) == length &&
            memcmp(known, bytes, length) == 0)
            return id;
        slot = (slot + 1) & names->index_mask;
    }
    return mine;
}

uint32_t names_find(const struct names *names, const char *bytes, size_t length)
{
    if (length > NAME_BYTES_MAX)
        length = NAME_BYTES_MAX;
    if (length == 0 || names->index == NULL)
        return 0;
    uint32_t slot = hash(bytes, length) & names->index_mask;

    for (uint32_t probes = 0; probes <= names->index_mask; probes++) {
        /* Acquire: pairs with the release in names_intern(). */
        uint32_t id = atomic_load_explicit(&names->index[slot], memory_order_acquire);
        const char *known;

        if (id == 0)
            return 0;
        if (names_lookup(names, id, &known) == length &&
            memcmp(known, bytes, length) == 0)
            return id;
        slot = (slot + 1) & names->index_mask;
    }
    return 0;
}

uint32_t names_lookup(const struct names *names, uint32_t id, const char **bytes)
{
    *bytes = "";
    if (id == 0 || id > names->capacity)
        return 0;
    const struct name_entry *entry = &names->shared->entries[id - 1];

    /* Acquire: pairs with the release in add(). */
    if (atomic_load_explicit(&entry->published, memory_order_acquire) == 0)
        return 0;
    /* Each field is read once: a hostile producer may change it between check and use.
     */
    uint32_t offset = *(const volatile uint32_t *)&entry->offset;
    uint32_t length = *(const volatile uint32_t *)&entry->length;

    if (length > NAME_BYTES_MAX || length > names->bytes_max ||
        offset > names->bytes_max - length)
        return 0;
    *bytes = byte_area(names) + offset;
    return length;
}

uint32_t names_count(const struct names *names)
{
    uint32_t count =
        atomic_load_explicit(&names->shared->next_id, memory_order_relaxed);

    return count < names->capacity ? count : names->capacity;
}

uint64_t names_refused(const struct names *names)
{
    return atomic_load_explicit(&names->shared->refused, memory_order_relaxed);
}
