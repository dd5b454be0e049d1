/* Where autograd's graph was built on the training thread: what lies before the first op that
 * adds a node to it is no forward pass, but the making of a batch, an evaluation, a rollout.
 *
 * A node and the op that makes it have one sequence number, which the node's backward has too.
 * Ops before it may carry the number as well, for it says which node comes next: the newest of
 * them is the one. Ops under no_grad() carry none.
 */
#include <stdlib.h>

#include "ingest/file/parts.h"

struct node {
    int64_t start_ns, number;
    uint32_t thread;
    bool backward;
};

void file_graph_take(struct file *file, const struct trace_event *event,
                     uint32_t thread)
{
    struct node *newest = file->nodes.count == 0 ? NULL
                                                 : (struct node *)file->nodes.items +
                                                       file->nodes.count - 1;
    bool backward =
        (event->has & TRACE_HAS_FORWARD_THREAD) != 0 && event->forward_thread != 0;

    if (event->sequence < 0)
        return;
    if (newest == NULL || newest->number != event->sequence ||
        newest->thread != thread || newest->backward != backward) {
        newest =
            file_list_add(file, &file->nodes, sizeof(*newest), FILE_REMARK_SEQUENCES);
        if (newest == NULL)
            return;
        file->held_bytes += sizeof(*newest);
        *newest = (struct node){.number = event->sequence,
                                .thread = thread,
                                .backward = backward,
                                .start_ns = event->time_ns};
    }
    if (event->time_ns > newest->start_ns)
        newest->start_ns = event->time_ns;
}

/* Backward ops first, then by number; forward ops of a number with the newest last. */
static int by_number(const void *left, const void *right)
{
    const struct node *a = left, *b = right;

    if (a->backward != b->backward)
        return a->backward ? -1 : 1;
    if (a->number != b->number)
        return a->number < b->number ? -1 : 1;
    return a->start_ns < b->start_ns ? -1 : a->start_ns > b->start_ns;
}

static int by_time(const void *left, const void *right)
{
    int64_t a = *(const int64_t *)left, b = *(const int64_t *)right;

    return a < b ? -1 : a > b;
}

void file_graph_settle(struct file *file)
{
    struct node *nodes = file->nodes.items;
    uint32_t count = file->nodes.count, backward = 0, at = 0;

    if (count == 0)
        return;
    qsort(nodes, count, sizeof(*nodes), by_number);
    while (backward < count && nodes[backward].backward)
        backward++;
    for (uint32_t i = backward; i < count; i++) {
        const struct node *node = &nodes[i];

        if (node->thread != file->trainer ||
            (i + 1 < count && nodes[i + 1].number == node->number))
            continue;
        while (at < backward && nodes[at].number < node->number)
            at++;
        if (at == backward || nodes[at].number != node->number)
            continue;
        int64_t *added =
            file_list_add(file, &file->builds, sizeof(*added), FILE_REMARK_SEQUENCES);

        if (added == NULL)
            break;
        *added = node->start_ns - file->zero_ns;
    }
    if (file->builds.count > 0)
        qsort(file->builds.items, file->builds.count, sizeof(int64_t), by_time);
    free(nodes);
    file->nodes = (struct file_list){0};
}

/* The first of a sorted list at or after `from_ns`; its count when there is none. */
static uint32_t first_from(const struct file_list *list, int64_t from_ns)
{
    const int64_t *times = list->items;
    uint32_t low = 0, high = list->count;

    while (low < high) {
        uint32_t middle = low + (high - low) / 2;

        if (times[middle] >= from_ns)
            high = middle;
        else
            low = middle + 1;
    }
    return low;
}

bool file_graph_known(const struct file *file)
{
    return file->builds.count > 0;
}

int64_t file_graph_begin(const struct file *file, int64_t from_ns, int64_t to_ns)
{
    const int64_t *builds = file->builds.items, *outer = file->foreground.items;
    uint32_t at = first_from(&file->builds, from_ns);

    if (at == file->builds.count || builds[at] >= to_ns)
        return to_ns;
    /* With the outermost op that it lies in. */
    uint32_t in = first_from(&file->foreground, builds[at] + 1);

    return in > 0 && outer[in - 1] > from_ns ? outer[in - 1] : builds[at];
}
