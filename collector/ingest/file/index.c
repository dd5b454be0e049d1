#include "ingest/file/index.h"

#include <stdlib.h>
#include <string.h>

#include "ingest/trace/grow.h"

#define FIRST      1024u
#define SLOTS_EACH 4u /* places of the index for each item */

bool file_index_open(struct file_index *index, void *items, uint32_t *count)
{
    void *list = calloc(FIRST, index->item_bytes);

    memcpy(items, &list, sizeof(list));
    index->slots = calloc((size_t)FIRST * SLOTS_EACH, sizeof(*index->slots));
    index->capacity = FIRST;
    *count = 1;
    return list != NULL && index->slots != NULL;
}

/* The slot of the item that begins with `key`, or the free slot where it belongs. */
static uint32_t *index_find(const struct file_index *index, const char *list,
                            const void *key)
{
    uint32_t words[4];
    uint64_t hash = 0;

    memcpy(words, key, index->key_bytes);
    for (uint32_t i = 0; i < index->key_bytes / sizeof(words[0]); i++)
        hash = (hash ^ words[i]) * UINT64_C(0x9e3779b97f4a7c15);
    for (uint32_t slot = (uint32_t)(hash >> 32);; slot++) {
        uint32_t *at = &index->slots[slot & (index->capacity * SLOTS_EACH - 1)];

        if (*at == 0 ||
            memcmp(list + *at * index->item_bytes, key, index->key_bytes) == 0)
            return at;
    }
}

bool file_index_grow(struct file_index *index, void *items, uint32_t count)
{
    uint32_t *slots;
    char *list;

    if (count < index->capacity)
        return true;
    if (index->capacity >= index->items_max)
        return false;
    slots = calloc((size_t)index->capacity * 2 * SLOTS_EACH, sizeof(*slots));
    if (slots == NULL ||
        !grow_array(items, count, &index->capacity, FIRST, index->item_bytes)) {
        free(slots);
        return false;
    }
    free(index->slots);
    index->slots = slots;
    memcpy(&list, items, sizeof(list));
    for (uint32_t i = 1; i < count; i++)
        *index_find(index, list, list + i * index->item_bytes) = i;
    return true;
}

uint32_t file_index_add(struct file_index *index, void *items, uint32_t *count,
                        const void *item)
{
    char *list;

    memcpy(&list, items, sizeof(list));
    uint32_t *at = index_find(index, list, item);

    if (*at != 0)
        return *at;
    if (*count == index->capacity) {
        if (!file_index_grow(index, items, *count))
            return 0;
        memcpy(&list, items, sizeof(list));
        at = index_find(index, list, item);
    }
    memcpy(list + *count * index->item_bytes, item, index->item_bytes);
    return *at = (*count)++;
}
