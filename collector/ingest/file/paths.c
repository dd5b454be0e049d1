#include "ingest/file/paths.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "ingest/file/details.h"
#include "ingest/trace/grow.h"
#include "wire/text.h"

#define FIRST      1024u
#define SLOTS_EACH 4u /* places of the index for each item */

/* ---- items that are there once ---------------------------------------------------------- */

static bool index_open(struct file_index *index, void *items, uint32_t *count)
{
    void *list = calloc(FIRST, index->size);

    memcpy(items, &list, sizeof(list));
    index->slots = calloc((size_t)FIRST * SLOTS_EACH, sizeof(*index->slots));
    index->capacity = FIRST;
    *count = 1;
    return list != NULL && index->slots != NULL;
}

/* The place of the item that begins with `key`, or the free one that it would have. */
static uint32_t *index_find(const struct file_index *index, const char *list,
                            const void *key)
{
    uint32_t words[4];
    uint64_t hash = 0;

    memcpy(words, key, index->key);
    for (uint32_t i = 0; i < index->key / sizeof(words[0]); i++)
        hash = (hash ^ words[i]) * UINT64_C(0x9e3779b97f4a7c15);
    for (uint32_t slot = (uint32_t)(hash >> 32);; slot++) {
        uint32_t *at = &index->slots[slot & (index->capacity * SLOTS_EACH - 1)];

        if (*at == 0 || memcmp(list + *at * index->size, key, index->key) == 0)
            return at;
    }
}

/* Twice the room in the array that the pointer at `items` owns, and in the index. */
static bool index_grow(struct file_index *index, void *items, uint32_t count)
{
    uint32_t *slots;
    char *list;

    if (count < index->capacity)
        return true;
    if (index->capacity >= index->most)
        return false;
    slots = calloc((size_t)index->capacity * 2 * SLOTS_EACH, sizeof(*slots));
    if (slots == NULL ||
        !grow_array(items, count, &index->capacity, FIRST, index->size)) {
        free(slots);
        return false;
    }
    free(index->slots);
    index->slots = slots;
    memcpy(&list, items, sizeof(list));
    for (uint32_t i = 1; i < count; i++)
        *index_find(index, list, list + i * index->size) = i;
    return true;
}

/* The item that begins as `item` does, which is added where there is none; 0 without room. */
static uint32_t index_add(struct file_index *index, void *items, uint32_t *count,
                          const void *item)
{
    char *list;

    memcpy(&list, items, sizeof(list));
    uint32_t *at = index_find(index, list, item);

    if (*at != 0)
        return *at;
    if (*count == index->capacity) {
        if (!index_grow(index, items, *count))
            return 0;
        memcpy(&list, items, sizeof(list));
        at = index_find(index, list, item);
    }
    memcpy(list + *count * index->size, item, index->size);
    return *at = (*count)++;
}

/* ---- paths ------------------------------------------------------------------------------ */

bool file_paths_open(struct file_paths *paths, const struct trace_names *names)
{
    *paths = (struct file_paths){.names = names,
                                 .index = {.key = offsetof(struct file_path, self_ns),
                                           .size = sizeof(struct file_path),
                                           .most = FILE_PATHS_MAX}};
    return index_open(&paths->index, &paths->list, &paths->count);
}

void file_paths_close(struct file_paths *paths)
{
    free(paths->list);
    free(paths->index.slots);
    *paths = (struct file_paths){0};
}

uint32_t file_paths_thread(struct file_paths *paths, uint32_t name)
{
    if (!index_grow(&paths->index, &paths->list, paths->count))
        return 0;
    paths->list[paths->count] =
        (struct file_path){.name = name, .kind = FILE_PATH_THREAD};
    return paths->count++;
}

uint32_t file_paths_child(struct file_paths *paths, uint32_t parent, uint32_t name,
                          enum file_path_kind kind)
{
    return file_paths_node(paths, parent, name, kind, 0);
}

uint32_t file_paths_node(struct file_paths *paths, uint32_t parent, uint32_t name,
                         enum file_path_kind kind, uint32_t origin)
{
    struct file_path child = {
        .parent = parent, .name = name, .kind = kind, .origin = origin};
    uint32_t path = index_add(&paths->index, &paths->list, &paths->count, &child);

    paths->left_out += path == 0;
    paths->frames = paths->frames || (path != 0 && kind == FILE_PATH_FRAME);
    return path != 0 ? path : parent;
}

uint32_t file_paths_frames(struct file_paths *paths, uint32_t parent,
                           struct trace_names *names, uint32_t stack)
{
    char copy[TRACE_NAME_BYTES_MAX + 1];
    uint32_t length;
    const char *text = trace_names_get(names, stack, &length);

    length = length < TRACE_NAME_BYTES_MAX ? length : TRACE_NAME_BYTES_MAX;
    memcpy(copy, text, length);
    for (uint32_t end = length; end > 0;) {
        uint32_t start = end;

        while (start > 0 && copy[start - 1] != ';')
            start--;
        if (end > start)
            parent = file_paths_child(
                paths, parent, trace_names_intern(names, copy + start, end - start),
                FILE_PATH_FRAME);
        end = start > 0 ? start - 1 : 0;
    }
    return parent;
}

/* ---- details ---------------------------------------------------------------------------- */

struct file_details *file_details_new(const struct trace_names *names, uint32_t frames)
{
    struct file_details *details = calloc(1, sizeof(*details));

    if (details == NULL)
        return NULL;
    details->frames = frames;
    details->detail_index = (struct file_index){.key = sizeof(struct file_detail),
                                                .size = sizeof(struct file_detail),
                                                .most = FILE_DETAILS_MAX};
    details->key_index = (struct file_index){.key = offsetof(struct file_key, linked),
                                             .size = sizeof(struct file_key),
                                             .most = FILE_KEYS_MAX};
    if (!file_paths_open(&details->paths, names) ||
        !index_open(&details->detail_index, &details->details,
                    &details->detail_count) ||
        !index_open(&details->key_index, &details->keys, &details->key_count)) {
        file_details_free(details);
        return NULL;
    }
    return details;
}

void file_details_free(struct file_details *details)
{
    if (details == NULL)
        return;
    file_paths_close(&details->paths);
    free(details->details);
    free(details->detail_index.slots);
    free(details->keys);
    free(details->key_index.slots);
    free(details);
}

uint32_t file_details_add(struct file_details *details, const struct trace_event *event)
{
    struct file_detail detail = {event->shapes, event->stack, event->module};

    if (detail.shapes == 0 && detail.stack == 0 && detail.module == 0)
        return 0;
    uint32_t added = index_add(&details->detail_index, &details->details,
                               &details->detail_count, &detail);

    details->left_out += added == 0;
    return added;
}

uint32_t file_details_key(struct file_details *details, uint32_t path, uint32_t detail)
{
    struct file_key key = {.path = path, .detail = detail};
    uint32_t added =
        index_add(&details->key_index, &details->keys, &details->key_count, &key);

    details->left_out += added == 0;
    return added;
}

struct text {
    char *to;
    size_t used, size; /* one byte of the size is for NUL */
};

/* Behind `separator`, where it is not the first. */
static void append(struct text *text, const char *separator, const char *more)
{
    size_t room = text->size - 1 - text->used;
    int length = snprintf(text->to + text->used, room + 1, "%s%s",
                          text->used > 0 ? separator : "", more);

    text->used += length < 0 ? 0 : (size_t)length < room ? (size_t)length : room;
}

/* Innermost first, as torch writes a stack. */
static void put_stack(const struct file_details *details, uint32_t path,
                      struct text *text)
{
    const struct file_paths *paths = &details->paths;
    uint32_t left = details->frames;

    for (; path != 0 && left > 0; path = paths->list[path].parent) {
        if (paths->list[path].kind != FILE_PATH_FRAME)
            continue;
        append(text, ";", trace_names_get(paths->names, paths->list[path].name, NULL));
        left--;
    }
}

/* The frames of modules, the outermost first. */
static void put_modules(const struct file_paths *paths, uint32_t path,
                        struct text *text)
{
    static const char module_mark[] = "nn.Module: ";
    const char *found[64];
    uint32_t count = 0;

    for (; path != 0 && count < 64; path = paths->list[path].parent) {
        const char *name = trace_names_get(paths->names, paths->list[path].name, NULL);

        if (paths->list[path].kind == FILE_PATH_FRAME && text_starts(name, module_mark))
            found[count++] = name + sizeof(module_mark) - 1;
    }
    while (count > 0)
        append(text, ".", found[--count]);
}

void file_details_text(const struct file_details *details, uint32_t key,
                       enum group_by by, char text[TEXT_BYTES_MAX])
{
    const struct file_key *of = &details->keys[key];
    const struct file_detail *detail = &details->details[of->detail];
    struct text made = {.to = text, .size = TEXT_BYTES_MAX};
    uint32_t name = by == GROUP_SHAPE ? detail->shapes : detail->module;

    text[0] = '\0';
    if (by == GROUP_STACK)
        put_stack(details, of->path, &made);
    else if (by == GROUP_SHAPE || name != 0)
        append(&made, "", trace_names_get(details->paths.names, name, NULL));
    else
        put_modules(&details->paths, of->path, &made);
}
