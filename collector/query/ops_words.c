/* Names of the columns and groups of ops. */
#include <stddef.h>
#include <string.h>

#include "query/ops_query.h"

const char *const ops_sort_words[] = {[OPS_BY_SELF] = "self",
                                      [OPS_BY_TOTAL] = "total",
                                      [OPS_BY_COUNT] = "count",
                                      [OPS_BY_MEAN] = "mean",
                                      [OPS_BY_MIN] = "min",
                                      [OPS_BY_MAX] = "max",
                                      [OPS_BY_P50] = "p50",
                                      [OPS_BY_P95] = "p95",
                                      [OPS_BY_P99] = "p99",
                                      [OPS_BY_PER_STEP] = "per_step",
                                      [OPS_BY_SHARE] = "share",
                                      [OPS_BY_NAME] = "name",
                                      [OPS_BY_DEVICE_TOTAL] = "device_total",
                                      [OPS_BY_DEVICE_SELF] = "device_self",
                                      [OPS_BY_HOST_BYTES] = "self_memory",
                                      [OPS_BY_DEVICE_BYTES] = "self_device_memory",
                                      [OPS_BY_HOST_TOTAL_BYTES] = "memory",
                                      [OPS_BY_DEVICE_TOTAL_BYTES] = "device_memory",
                                      [OPS_SORTS] = NULL};

const char *const ops_group_words[] = {[GROUP_NAME] = "name",
                                       [GROUP_SHAPE] = "shape",
                                       [GROUP_STACK] = "stack",
                                       [GROUP_MODULE] = "module",
                                       [GROUPS] = NULL};

static int index_of(const char *const *names, const char *name)
{
    for (int i = 0; names[i] != NULL; i++)
        if (strcmp(names[i], name) == 0)
            return i;
    return -1;
}

int ops_group_of(const char *word)
{
    return index_of(ops_group_words, word);
}

int ops_sort_of(const char *word)
{
    return index_of(ops_sort_words, word);
}
