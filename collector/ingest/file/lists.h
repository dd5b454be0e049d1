/* Arrays that grow within the file's memory, sorted lists of times, and tables of names. */
#ifndef INGEST_FILE_LISTS_H
#define INGEST_FILE_LISTS_H

#include <stddef.h>
#include <stdint.h>

#include "ingest/file/file.h"

struct file;

/* An array that grows; count and capacity in elements. */
struct file_list {
    void *items;
    uint32_t count, capacity;
};

/* A copy of `item` behind the others; NULL when out of memory (noted in the file), or beyond
 * the part of the file's memory that each list may have: counted as `full`. */
#define FILE_LIST_SHARE 8
void *file_list_add(struct file *file, struct file_list *list, const void *item,
                    size_t size, enum file_remark full);
#define FILE_LIST_ADD(file, list, full, type, ...)                                     \
    ((type *)file_list_add(file, list, &(type)__VA_ARGS__, sizeof(type), full))

/* Of items whose first member is a time: in its order; the first at or after `from_ns`, the
 * count where there is none, by the time at `offset` in items of so many bytes. */
int file_by_start(const void *left, const void *right);
void file_list_sort(struct file_list *list, size_t size,
                    int (*compare)(const void *left, const void *right));
uint32_t file_list_from(const struct file_list *list, size_t size, size_t offset,
                        int64_t from_ns);

/* Words that names begin with, contain or are, and what each tells. */
enum file_match { FILE_STARTS, FILE_HAS, FILE_HAS_IN_ANY_CASE, FILE_IS };
struct file_word {
    enum file_match match;
    const char *text;
    uint32_t value;
};
/* The value of the first that fits; 0 where none does. */
uint32_t file_word_of(const struct file_word *words, size_t count, const char *name);
#define FILE_WORD_OF(words, name)                                                      \
    file_word_of(words, sizeof(words) / sizeof((words)[0]), name)

#endif
