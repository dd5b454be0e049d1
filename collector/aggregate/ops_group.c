#include "aggregate/ops_group.h"

#include <stdlib.h>

#include "aggregate/process.h"

struct ops_group *ops_group_new(size_t digest_bytes)
{
    struct ops_group *group = calloc(1, sizeof(*group));

    if (group == NULL)
        return NULL;
    group->texts = texts_new();
    if (group->texts == NULL || !ops_init(&group->ops, group->texts, digest_bytes)) {
        ops_group_free(group);
        return NULL;
    }
    return group;
}

void ops_group_free(struct ops_group *group)
{
    if (group == NULL)
        return;
    for (uint32_t i = 0; i < group->nest_count; i++)
        nest_free(&group->nests[i]);
    free(group->nests);
    free(group->linked);
    if (group->texts != NULL) {
        ops_free(&group->ops);
        texts_release(group->texts);
    }
    free(group);
}

/* NULL when out of memory. */
static struct nest *nest_of(struct ops_group *group, uint32_t thread)
{
    if (thread >= group->nest_count) {
        struct nest *nests = realloc(group->nests, (thread + 1) * sizeof(*nests));

        if (nests == NULL)
            return NULL;
        for (; group->nest_count <= thread; group->nest_count++)
            nests[group->nest_count] = (struct nest){0};
        group->nests = nests;
    }
    return &group->nests[thread];
}

/* True for what is a row of this table. */
static bool kind_of(uint8_t kind, enum ops_kind *row)
{
    switch (kind) {
    case EVENT_CPU_OP:
        *row = OPS_OP;
        return true;
    case EVENT_USER_RANGE:
        *row = OPS_RANGE;
        return true;
    case EVENT_RUNTIME:
    case EVENT_LAUNCH:
        *row = OPS_RUNTIME;
        return true;
    case EVENT_SYNC:
        *row = OPS_SYNC;
        return true;
    default:
        return false;
    }
}

void ops_group_fold(struct ops_group *group, uint32_t thread,
                    const struct event *events, uint32_t count)
{
    struct nest *nest = nest_of(group, thread);

    for (uint32_t i = 0; i < count && nest != NULL; i++) {
        const struct event *event = &events[i];
        int64_t start = (int64_t)event->time, duration = (int64_t)event->value;
        enum ops_kind kind;

        if (!kind_of(EVENT_KIND(event->meta), &kind))
            continue;
        uint32_t entry = ops_row(&group->ops, EVENT_NAME(event->meta), kind);

        if (entry & OPS_ROW_STEP)
            continue;
        bool nests = kind != OPS_RANGE && !(entry & OPS_ROW_RANGE);
        int64_t times[2] = {duration, nests ? nest_close(nest, start, duration) : 0};

        ops_add(&group->ops, OPS_ROW(entry), start, times);
    }
    if (group->ops.any_late)
        ops_refresh(&group->ops);
}
