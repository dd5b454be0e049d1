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
        newest = FILE_LIST_ADD(file, &file->nodes, FILE_REMARK_SEQUENCES, struct node,
                               {.number = event->sequence,
                                .thread = thread,
                                .backward = backward,
                                .start_ns = event->time_ns});
        if (newest == NULL)
            return;
        file->held_bytes += sizeof(*newest);
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
    return file_by_start(left, right);
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
        if (FILE_LIST_ADD(file, &file->builds, FILE_REMARK_SEQUENCES, int64_t,
                          {node->start_ns - file->zero_ns}) == NULL)
            break;
    }
    file_list_sort(&file->builds, sizeof(int64_t), file_by_start);
    free(nodes);
    file->nodes = (struct file_list){0};
}

int64_t file_graph_begin(const struct file *file, int64_t from_ns, int64_t to_ns)
{
    const int64_t *builds = file->builds.items, *outer = file->foreground.items;
    uint32_t at = file_list_from(&file->builds, sizeof(*builds), 0, from_ns);

    if (at == file->builds.count || builds[at] >= to_ns)
        return to_ns;
    /* With the outermost op that it lies in. */
    uint32_t in = file_list_from(&file->foreground, sizeof(*outer), 0, builds[at] + 1);

    return in > 0 && outer[in - 1] > from_ns ? outer[in - 1] : builds[at];
}
