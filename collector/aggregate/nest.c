#include "aggregate/nest.h"

#include <stdlib.h>

#define NEST_LEAST 256u

/* Neighbours that are no more than `most` together become one, but for the newest. */
static void group(struct nest *nest, uint32_t most)
{
    struct nest_range *waiting = nest->waiting;
    uint32_t *sizes = nest->sizes, kept = 0, old = nest->count / 4 * 3;

    for (uint32_t i = 1; i < nest->count; i++) {
        if (i < old && sizes[kept] + sizes[i] <= most) {
            waiting[kept].duration_ns += waiting[i].duration_ns;
            sizes[kept] += sizes[i];
        } else {
            waiting[++kept] = waiting[i];
            sizes[kept] = sizes[i];
        }
    }
    nest->count = kept + 1;
}

/* Some room; the groups are as small as they can be. */
static void group_some(struct nest *nest)
{
    uint32_t least = nest->count / 8 * 7;

    if (nest->sizes == NULL)
        nest->sizes = calloc(nest->capacity, sizeof(*nest->sizes));
    if (nest->sizes == NULL) {
        nest->count = 0; /* they lose their claim */
        return;
    }
    for (; nest->sized < nest->count; nest->sized++)
        nest->sizes[nest->sized] = 1;
    for (uint32_t most = 2; nest->count > least; most *= 2)
        group(nest, most);
    nest->sized = nest->count;
}

bool nest_make_room(struct nest *nest)
{
    uint32_t capacity = nest->capacity == 0 ? NEST_LEAST : nest->capacity * 2;
    struct nest_range *waiting;

    if (nest->capacity == NEST_MAX) {
        group_some(nest);
        return true;
    }
    waiting = realloc(nest->waiting, capacity * sizeof(*waiting));
    if (waiting == NULL)
        return false;
    nest->waiting = waiting;
    nest->capacity = capacity;
    return true;
}

void nest_free(struct nest *nest)
{
    free(nest->waiting);
    free(nest->sizes);
    *nest = (struct nest){0};
}
