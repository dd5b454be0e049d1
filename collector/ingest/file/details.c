#include "ingest/file/details.h"

#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>

#include "wire/text.h"

struct file_details *file_details_new(const struct trace_names *names, uint32_t frames)
{
    struct file_details *details = calloc(1, sizeof(*details));

    if (details == NULL)
        return NULL;
    details->frames = frames;
    details->detail_index =
        (struct file_index){.key_bytes = sizeof(struct file_detail),
                            .item_bytes = sizeof(struct file_detail),
                            .items_max = FILE_DETAILS_MAX};
    details->key_index =
        (struct file_index){.key_bytes = offsetof(struct file_key, linked),
                            .item_bytes = sizeof(struct file_key),
                            .items_max = FILE_KEYS_MAX};
    if (!file_paths_open(&details->paths, names) ||
        !file_index_open(&details->detail_index, &details->details,
                         &details->detail_count) ||
        !file_index_open(&details->key_index, &details->keys, &details->key_count)) {
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
    uint32_t added = file_index_add(&details->detail_index, &details->details,
                                    &details->detail_count, &detail);

    details->left_out += added == 0;
    return added;
}

uint32_t file_details_key(struct file_details *details, uint32_t path, uint32_t detail)
{
    struct file_key key = {.path = path, .detail = detail};
    uint32_t added =
        file_index_add(&details->key_index, &details->keys, &details->key_count, &key);

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
