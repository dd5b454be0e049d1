/* Arrays that grow as items come. */
#ifndef INGEST_TRACE_GROW_H
#define INGEST_TRACE_GROW_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

/* Room for one item more than `count` in the array that the pointer at `array` owns: twice
 * as much as before, `first` items at first. False, and all as it was, when out of memory. */
static inline bool grow_array(void *array, uint32_t count, uint32_t *capacity,
                              uint32_t first, size_t size)
{
    uint32_t larger = *capacity == 0 ? first : *capacity * 2;
    void *items;

    if (count < *capacity)
        return true;
    memcpy(&items, array, sizeof(items));
    items = realloc(items, larger * size);
    if (items == NULL)
        return false;
    memcpy(array, &items, sizeof(items));
    *capacity = larger;
    return true;
}

/* The same of a table by id, so that it has a row `id`; new rows are zero. */
static inline bool grow_table(void *table, uint32_t id, uint32_t *count, uint32_t first,
                              size_t size)
{
    while (*count <= id) {
        uint32_t before = *count;
        char *rows;

        if (!grow_array(table, before, count, first, size))
            return false;
        memcpy(&rows, table, sizeof(rows));
        memset(rows + before * size, 0, (*count - before) * size);
    }
    return true;
}

#endif
