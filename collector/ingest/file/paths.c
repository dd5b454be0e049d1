#include "ingest/file/paths.h"

#include <stdlib.h>
#include <string.h>

#define FIRST 1024u

bool file_paths_open(struct file_paths *paths, const struct trace_names *names)
{
    *paths =
        (struct file_paths){.names = names, .capacity = FIRST, .mask = 4 * FIRST - 1};
    paths->list = calloc(paths->capacity, sizeof(*paths->list));
    paths->slots = calloc(paths->mask + 1, sizeof(*paths->slots));
    paths->count = 1;
    return paths->list != NULL && paths->slots != NULL;
}

void file_paths_close(struct file_paths *paths)
{
    free(paths->list);
    free(paths->slots);
    *paths = (struct file_paths){0};
}

static uint32_t hash_of(const struct file_path *path)
{
    uint64_t key = (uint64_t)path->parent << 32 | path->name;

    return (uint32_t)((key ^ path->kind ^ (uint64_t)path->origin << 20) *
                          UINT64_C(0x9e3779b97f4a7c15) >>
                      32);
}

/* Where it stands, or the free place where it would. */
static uint32_t *find(const struct file_paths *paths, const struct file_path *path)
{
    for (uint32_t slot = hash_of(path);; slot++) {
        uint32_t *at = &paths->slots[slot & paths->mask];
        const struct file_path *there = &paths->list[*at];

        if (*at == 0 || (there->parent == path->parent && there->name == path->name &&
                         there->kind == path->kind && there->origin == path->origin))
            return at;
    }
}

static bool grow(struct file_paths *paths)
{
    uint32_t capacity = paths->capacity * 2, *slots;
    struct file_path *list;

    if (capacity > FILE_PATHS_MAX)
        return false;
    list = realloc(paths->list, capacity * sizeof(*list));
    if (list == NULL)
        return false;
    paths->list = list;
    slots = calloc((size_t)capacity * 4, sizeof(*slots));
    if (slots == NULL)
        return false;
    free(paths->slots);
    paths->slots = slots;
    paths->mask = capacity * 4 - 1;
    paths->capacity = capacity;
    for (uint32_t i = 1; i < paths->count; i++)
        if (list[i].kind != FILE_PATH_THREAD)
            *find(paths, &list[i]) = i;
    return true;
}

uint32_t file_paths_thread(struct file_paths *paths, uint32_t name)
{
    if (paths->count == paths->capacity && !grow(paths))
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
        .parent = parent, .name = name, .kind = (uint8_t)kind, .origin = origin};
    uint32_t *at = find(paths, &child);

    if (*at != 0)
        return *at;
    if (paths->count == paths->capacity) {
        if (!grow(paths)) {
            paths->left_out++;
            return parent;
        }
        at = find(paths, &child);
    }
    *at = paths->count;
    paths->list[paths->count] = child;
    paths->frames = paths->frames || kind == FILE_PATH_FRAME;
    return paths->count++;
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
