/* An array of unique items and the index that finds them. Item 0 is reserved.
 * `items` points at the pointer that owns the array: free() both that and `slots`. */
#ifndef INGEST_FILE_INDEX_H
#define INGEST_FILE_INDEX_H

#include <stdbool.h>
#include <stdint.h>

#include "wire/attributes.h"

struct file_index {
    /* The first bytes of an item, which tell it apart: whole words of four, at most 16. */
    uint32_t key_bytes;
    uint32_t item_bytes; /* in all */
    uint32_t items_max;  /* a power of two from 1024 on */
    uint32_t capacity;   /* of the array */
    uint32_t *slots;     /* open addressing; 0 free */
};

/* False without memory; then too the caller frees. */
MUST_CHECK bool file_index_open(struct file_index *index, void *items, uint32_t *count);

/* Twice the room in the array and the index, where the array is full. False at items_max,
 * or without memory. */
MUST_CHECK bool file_index_grow(struct file_index *index, void *items, uint32_t count);

/* The item that begins as `item` does, which is added where there is none; 0 without room. */
uint32_t file_index_add(struct file_index *index, void *items, uint32_t *count,
                        const void *item);

#endif
