#include "ingest/file/paths.h"

#include <stddef.h>
#include <stdlib.h>
#include <string.h>

bool file_paths_open(struct file_paths *paths, const struct trace_names *names)
{
    *paths =
        (struct file_paths){.names = names,
                            .index = {.key_bytes = offsetof(struct file_path, self_ns),
                                      .item_bytes = sizeof(struct file_path),
                                      .items_max = FILE_PATHS_MAX}};
    return file_index_open(&paths->index, &paths->list, &paths->count);
}

void file_paths_close(struct file_paths *paths)
{
    free(paths->list);
    free(paths->index.slots);
    *paths = (struct file_paths){0};
}

uint32_t file_paths_thread(struct file_paths *paths, uint32_t name)
{
    if (!file_index_grow(&paths->index, &paths->list, paths->count))
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
    uint32_t path = file_index_add(&paths->index, &paths->list, &paths->count, &child);

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
