#include "cut/flame_order.h"

#include <stdlib.h>
#include <string.h>

#include "aggregate/sum.h"

bool flame_order_open(struct flame_order *order, const struct file_paths *paths,
                      uint32_t most)
{
    uint32_t count = paths->count;

    *order = (struct flame_order){.paths = paths, .most = most};
    order->total = calloc(count, sizeof(*order->total));
    order->sorted = calloc(count, sizeof(*order->sorted));
    order->order = calloc(count, sizeof(*order->order));
    order->first = calloc((size_t)count + 1, sizeof(*order->first));
    order->next = calloc(count, sizeof(*order->next));
    return order->total != NULL && order->sorted != NULL && order->order != NULL &&
           order->first != NULL && order->next != NULL;
}

void flame_order_close(struct flame_order *order)
{
    free(order->total);
    free(order->sorted);
    free(order->order);
    free(order->first);
    free(order->next);
    *order = (struct flame_order){0};
}

static int by_parent(const void *left, const void *right, void *user)
{
    const struct flame_order *order = user;
    const uint32_t *a = left, *b = right;
    uint32_t pa = order->paths->list[*a].parent, pb = order->paths->list[*b].parent;

    if (pa != pb)
        return pa < pb ? -1 : 1;
    if (order->total[*a] != order->total[*b])
        return order->total[*a] > order->total[*b] ? -1 : 1;
    return *a < *b ? -1 : *a > *b;
}

static int larger_first(const void *left, const void *right)
{
    const int64_t *a = left, *b = right;

    return (*a < *b) - (*a > *b);
}

/* From what total on a path is one of the largest. */
static void set_least(struct flame_order *order)
{
    uint32_t count = order->paths->count;

    order->least = 1;
    order->left_out = 0;
    if (count > order->most) {
        memcpy(order->sorted, order->total, count * sizeof(*order->sorted));
        qsort(order->sorted, count, sizeof(*order->sorted), larger_first);
        if (order->sorted[order->most] >= order->least)
            order->least = order->sorted[order->most] + 1;
    }
    for (uint32_t i = 1; i < count; i++)
        order->left_out += order->total[i] > 0 && order->total[i] < order->least;
}

void flame_order_weigh(struct flame_order *order, enum flame_metric metric)
{
    const struct file_path *list = order->paths->list;
    uint32_t count = order->paths->count;

    memset(order->total, 0, count * sizeof(*order->total));
    memset(order->first, 0, ((size_t)count + 1) * sizeof(*order->first));
    for (uint32_t i = count; i-- > 1;) {
        int64_t own = metric == FLAME_CPU ? list[i].self_ns : list[i].device_ns;

        order->total[i] = sum_ns(order->total[i], own > 0 ? own : 0);
        order->total[list[i].parent] =
            sum_ns(order->total[list[i].parent], order->total[i]);
        order->first[list[i].parent + 1]++;
        order->order[i - 1] = i;
    }
    for (uint32_t i = 0; i < count; i++)
        order->first[i + 1] += order->first[i];
    qsort_r(order->order, count - 1, sizeof(*order->order), by_parent, order);
    memcpy(order->next, order->first, count * sizeof(*order->next));
    set_least(order);
}

uint32_t flame_order_next(struct flame_order *order, uint32_t path)
{
    uint32_t at = order->next[path];

    if (at >= order->first[path + 1] || order->total[order->order[at]] < order->least)
        return 0;
    return order->order[order->next[path]++];
}
