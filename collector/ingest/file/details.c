#include "ingest/file/details.h"

#include <stdlib.h>
#include <string.h>

#define FIRST      1024u
#define SLOTS_EACH 4u /* places of the index for each item */

static const char module_mark[] = "nn.Module: ";

struct file_details *file_details_new(const struct trace_names *names, uint32_t frames)
{
    struct file_details *details = calloc(1, sizeof(*details));

    if (details == NULL)
        return NULL;
    details->frames = frames;
    details->detail_count = details->key_count = 1;
    details->detail_capacity = details->key_capacity = FIRST;
    details->details = calloc(FIRST, sizeof(*details->details));
    details->keys = calloc(FIRST, sizeof(*details->keys));
    details->detail_slots = calloc((size_t)FIRST * SLOTS_EACH, sizeof(uint32_t));
    details->key_slots = calloc((size_t)FIRST * SLOTS_EACH, sizeof(uint32_t));
    if (!file_paths_open(&details->paths, names) || details->details == NULL ||
        details->keys == NULL || details->detail_slots == NULL ||
        details->key_slots == NULL) {
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
    free(details->detail_slots);
    free(details->keys);
    free(details->key_slots);
    free(details);
}

static uint32_t hash_of(uint32_t a, uint32_t b, uint32_t c)
{
    uint64_t key = ((uint64_t)a << 32 | b) * UINT64_C(0x9e3779b97f4a7c15) ^ c;

    return (uint32_t)(key * UINT64_C(0xbf58476d1ce4e5b9) >> 32);
}

static uint32_t *find_detail(const struct file_details *details,
                             const struct file_detail *detail)
{
    uint32_t slot = hash_of(detail->shapes, detail->stack, detail->module);

    for (;; slot++) {
        uint32_t *at =
            &details->detail_slots[slot & (details->detail_capacity * SLOTS_EACH - 1)];

        if (*at == 0 || memcmp(&details->details[*at], detail, sizeof(*detail)) == 0)
            return at;
    }
}

static uint32_t *find_key(const struct file_details *details, uint32_t path,
                          uint32_t detail)
{
    for (uint32_t slot = hash_of(path, detail, 0);; slot++) {
        uint32_t *at =
            &details->key_slots[slot & (details->key_capacity * SLOTS_EACH - 1)];
        const struct file_key *key = &details->keys[*at];

        if (*at == 0 || (key->path == path && key->detail == detail))
            return at;
    }
}

/* Twice the room for items and their index; the index is empty then. */
static bool grow(void **items, uint32_t **slots, uint32_t *capacity, size_t size)
{
    void *more = realloc(*items, 2 * *capacity * size);
    uint32_t *index;

    if (more == NULL)
        return false;
    *items = more;
    index = calloc((size_t)*capacity * 2 * SLOTS_EACH, sizeof(*index));
    if (index == NULL)
        return false;
    free(*slots);
    *slots = index;
    *capacity *= 2;
    return true;
}

static bool grow_details(struct file_details *details)
{
    void *items = details->details;
    bool grew = details->detail_capacity < FILE_DETAILS_MAX &&
                grow(&items, &details->detail_slots, &details->detail_capacity,
                     sizeof(*details->details));

    details->details = items;
    for (uint32_t i = 1; grew && i < details->detail_count; i++)
        *find_detail(details, &details->details[i]) = i;
    return grew;
}

static bool grow_keys(struct file_details *details)
{
    void *items = details->keys;
    bool grew = details->key_capacity < FILE_KEYS_MAX &&
                grow(&items, &details->key_slots, &details->key_capacity,
                     sizeof(*details->keys));

    details->keys = items;
    for (uint32_t i = 1; grew && i < details->key_count; i++)
        *find_key(details, details->keys[i].path, details->keys[i].detail) = i;
    return grew;
}

uint32_t file_details_add(struct file_details *details, const struct trace_event *event)
{
    struct file_detail detail = {event->shapes, event->stack, event->module};

    if (detail.shapes == 0 && detail.stack == 0 && detail.module == 0)
        return 0;
    uint32_t *at = find_detail(details, &detail);

    if (*at != 0)
        return *at;
    if (details->detail_count == details->detail_capacity) {
        if (!grow_details(details)) {
            details->left_out++;
            return 0;
        }
        at = find_detail(details, &detail);
    }
    *at = details->detail_count;
    details->details[details->detail_count] = detail;
    return details->detail_count++;
}

uint32_t file_details_key(struct file_details *details, uint32_t path, uint32_t detail)
{
    uint32_t *at = find_key(details, path, detail);

    if (*at != 0)
        return *at;
    if (details->key_count == details->key_capacity) {
        if (!grow_keys(details)) {
            details->left_out++;
            return 0;
        }
        at = find_key(details, path, detail);
    }
    *at = details->key_count;
    details->keys[details->key_count] =
        (struct file_key){.path = path, .detail = detail};
    return details->key_count++;
}

/* ---- texts ---------------------------------------------------------------------------- */

struct text {
    char *to;
    size_t used, size; /* one byte of the size is for NUL */
};

static void append(struct text *text, const char *more, size_t length)
{
    size_t room = text->size - 1 - text->used;

    length = length < room ? length : room;
    memcpy(text->to + text->used, more, length);
    text->used += length;
    text->to[text->used] = '\0';
}

static void append_name(struct text *text, const struct file_paths *paths,
                        uint32_t name)
{
    uint32_t length;
    const char *bytes = trace_names_get(paths->names, name, &length);

    append(text, bytes, length);
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
        if (text->used > 0)
            append(text, ";", 1);
        append_name(text, paths, paths->list[path].name);
        left--;
    }
}

/* The frames of modules, the outermost first. */
static void put_modules(const struct file_paths *paths, uint32_t path,
                        struct text *text)
{
    uint32_t found[64], count = 0;

    for (; path != 0 && count < 64; path = paths->list[path].parent) {
        const char *name = trace_names_get(paths->names, paths->list[path].name, NULL);

        if (paths->list[path].kind == FILE_PATH_FRAME &&
            strncmp(name, module_mark, sizeof(module_mark) - 1) == 0)
            found[count++] = paths->list[path].name;
    }
    while (count > 0) {
        const char *name = trace_names_get(paths->names, found[--count], NULL);

        if (text->used > 0)
            append(text, ".", 1);
        name += sizeof(module_mark) - 1;
        append(text, name, strlen(name));
    }
}

void file_details_text(const struct file_details *details, uint32_t key,
                       enum group_by by, char text[TEXT_BYTES_MAX])
{
    const struct file_key *of = &details->keys[key];
    const struct file_detail *detail = &details->details[of->detail];
    struct text made = {.to = text, .size = TEXT_BYTES_MAX};

    text[0] = '\0';
    if (by == GROUP_SHAPE)
        append_name(&made, &details->paths, detail->shapes);
    else if (by == GROUP_STACK)
        put_stack(details, of->path, &made);
    else if (detail->module != 0)
        append_name(&made, &details->paths, detail->module);
    else
        put_modules(&details->paths, of->path, &made);
}
