/* The tree of calls of a window as JSON: the largest paths, callers first. */
#ifndef TRACE_CALL_TREE_JSON_H
#define TRACE_CALL_TREE_JSON_H

#include <cjson/cJSON.h>

#include "trace/call_tree.h"
#include "trace/flame_order.h"

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
