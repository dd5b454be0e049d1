/* Ops of one process under finer names: by the shapes of their inputs, by the stack that
 * called them, by their module. Trace files fill them; a live process has none.
 *
 * A table of its own each, with the same steps as the plain one. A row's name and what
 * tells it from its namesakes are one text, GROUP_MARK between them.
 */
#ifndef AGGREGATE_OPS_GROUP_H
#define AGGREGATE_OPS_GROUP_H

#include "aggregate/nest.h"
#include "aggregate/ops.h"

enum group_by { GROUP_NAME, GROUP_SHAPE, GROUP_STACK, GROUP_MODULE, GROUPS };

#define GROUP_MARK       "\xe2\x90\x9e" /* U+241E, "symbol for record separator" */
#define GROUP_MARK_BYTES 3u

struct process_linked;

struct ops_group {
    struct texts *texts; /* own: there are more of them than names */
    struct ops ops;
    struct nest *nests; /* by thread */
    uint32_t nest_count;
    struct process_linked *linked; /* by text, as of the process */
    uint32_t linked_count;
};

/* NULL when out of memory. */
struct ops_group *ops_group_new(size_t digest_bytes);
void ops_group_free(struct ops_group *group);

/* As process_fold(); names are the group's texts. What belongs to devices, phases and
 * steps is passed over. */
void ops_group_fold(struct ops_group *group, uint32_t thread,
                    const struct event *events, uint32_t count);

#endif
