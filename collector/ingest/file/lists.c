#include "ingest/file/lists.h"

#include <stdlib.h>
#include <string.h>

#include "ingest/file/parts.h"
#include "ingest/trace/grow.h"
#include "wire/text.h"

void *file_list_add(struct file *file, struct file_list *list, const void *item,
                    size_t size, enum file_remark full)
{
    if ((list->count + (uint64_t)1) * size > file->max_bytes / FILE_LIST_SHARE) {
        file->result->remarks[full]++;
        return NULL;
    }
    if (!grow_array(&list->items, list->count, &list->capacity, 1024, size)) {
        file->out_of_memory = true;
        return NULL;
    }
    return memcpy((char *)list->items + list->count++ * size, item, size);
}

int file_by_start(const void *left, const void *right)
{
    int64_t a = *(const int64_t *)left, b = *(const int64_t *)right;

    return a < b ? -1 : a > b;
}

void file_list_sort(struct file_list *list, size_t size,
                    int (*compare)(const void *left, const void *right))
{
    if (list->count > 0)
        qsort(list->items, list->count, size, compare);
}

uint32_t file_list_from(const struct file_list *list, size_t size, size_t offset,
                        int64_t from_ns)
{
    uint32_t low = 0, high = list->count;

    while (low < high) {
        uint32_t middle = low + (high - low) / 2;

        const char *item = (const char *)list->items + middle * size;

        if (*(const int64_t *)(const void *)(item + offset) >= from_ns)
            high = middle;
        else
            low = middle + 1;
    }
    return low;
}

uint32_t file_word_of(const struct file_word *words, size_t count, const char *name)
{
    for (size_t i = 0; i < count; i++) {
        const char *text = words[i].text;
        bool fits = false;

        switch (words[i].match) {
        case FILE_STARTS:
            fits = (*name == *text || *text == '\0') && text_starts(name, text);
            break;
        case FILE_HAS:
            fits = strstr(name, text) != NULL;
            break;
        case FILE_HAS_IN_ANY_CASE:
            fits = strcasestr(name, text) != NULL;
            break;
        case FILE_IS:
            fits = *name == *text && strcmp(name, text) == 0;
            break;
        }
        if (fits)
            return words[i].value;
    }
    return 0;
}

void file_skip(struct file *file, uint64_t offset, enum file_skip reason)
{
    struct file_result *result = file->result;

    if (result->skipped[reason]++ == 0)
        result->first_offset[reason] = offset;
}
