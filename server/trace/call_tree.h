/* The remembered calls of a window added up by their path, however many there are.
 *
 *     root ─ thread ─ ranges, ops, calls of the device's runtime ─ work on the device
 *
 * Time on the CPU is in self_ns of its path, that of work on a device in device_ns below
 * the call that launched it. Calls are cut at the window's ends, and at their caller's:
 * no path has less time than what it calls. Ranges in steps whose ops were not recorded
 * are left out where other steps have them: nothing would stand below. So is work on a
 * device in steps whose work was not recorded whole.
 */
#ifndef TRACE_CALL_TREE_H
#define TRACE_CALL_TREE_H

#include <cjson/cJSON.h>

#include "cut/flame_order.h"
#include "ingest/file/paths.h"
#include "trace/trace_writer.h"

/* Calls of the device's runtime in a window, of 40 bytes each: they are written by other
 * threads, and have to be sorted. */
#define CALL_TREE_CALLS_MAX (1u << 20)

struct call_tree_root {
    const struct trace_process *process; /* borrowed from the answer */
    uint32_t thread; /* index; CALL_TREE_UNKNOWN of work whose launch is not known */
};
#define CALL_TREE_UNKNOWN UINT32_MAX

/* torch.profiler's ranges of steps, with "#N" behind: one path. */
#define CALL_TREE_STEP "ProfilerStep"

struct call_tree {
    struct file_paths paths;      /* a thread's name: index of its root; else as in
                                     trace_name() of its root's process */
    uint64_t *counts;             /* calls of each path */
    uint8_t *kinds;               /* of its events: enum event_kind; 0 of a thread */
    struct call_tree_root *roots; /* paths 1 to root_count */
    uint32_t root_count;
    uint64_t events;   /* that were added up */
    uint64_t left_out; /* async ones, and calls beyond CALL_TREE_CALLS_MAX */
    uint64_t steps_with_ops, steps_with_work; /* recorded so; of all processes */
    uint64_t validation_batches;
};

/* -ENOMEM, or -E2BIG with more threads than paths. call_tree_close() is owed in any
 * case, before trace_release(). Any thread. */
MUST_CHECK int call_tree_build(struct call_tree *tree,
                               const struct trace_answer *answer,
                               const struct trace_limits *limits);
void call_tree_close(struct call_tree *tree);

/* More are narrower than a pixel; some 300 KB. */
#define CALL_TREE_SHOWN_MAX 4000u

/* A whole answer. "nodes" are rows of "columns", each behind its parent (an index, null of
 * a root); a kernel has the short name that people call it by (query/kernel_name.h), others
 * null. The category is data, sync, communication, copy or compute, null where the kind
 * says all. What is called there and not among the largest is one row of kind "other":
 * the totals of a row's children and its self time add up to its total. NULL without
 * memory. */
cJSON *call_tree_json(const struct call_tree *tree, const struct answer *head,
                      enum flame_metric metric);

#endif
