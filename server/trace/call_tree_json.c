#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "aggregate/gpu_host.h"
#include "document/json.h"
#include "query/kernel_name.h"
#include "trace/call_tree.h"
#include "wire/segment.h"

#define NAME_BYTES 320u /* longer ones are cut */

struct listing {
    const struct call_tree *tree;
    struct flame_order order;
    enum flame_metric metric;
    cJSON *nodes;
    uint32_t count;                      /* of them */
    uint32_t *row_of;                    /* of each path that is listed */
    const struct trace_process *process; /* of the root that is listed */
};

struct row {
    const char *name, *kind;
    const char *short_name, *category; /* NULL: as the name, as the kind */
    int64_t total_ns, self_ns;
    uint64_t calls;
};

static void put_row(struct listing *listing, uint32_t parent, const struct row *from)
{
    cJSON *row = cJSON_CreateArray();

    cJSON_AddItemToArray(
        row, json_value(parent == 0 ? (double)NAN : (double)listing->row_of[parent]));
    cJSON_AddItemToArray(row, json_value_text(from->name, NAME_BYTES));
    cJSON_AddItemToArray(row, cJSON_CreateString(from->kind));
    cJSON_AddItemToArray(row, json_value(json_rounded_ms((double)from->total_ns)));
    cJSON_AddItemToArray(row, json_value(json_rounded_ms((double)from->self_ns)));
    cJSON_AddItemToArray(row, json_value((double)from->calls));
    cJSON_AddItemToArray(row, json_value_text(from->short_name, NAME_BYTES));
    cJSON_AddItemToArray(row, json_value_text(from->category, NAME_BYTES));
    cJSON_AddItemToArray(listing->nodes, row);
    listing->count++;
}

static void name_root(const struct call_tree_root *root, char *name, size_t size)
{
    const struct trace_process *process = root->process;
    const struct trace_thread *thread;
    const char *label;
    char where[48] = "";

    if (process->role == WIRE_ROLE_WORKER)
        (void)snprintf(where, sizeof(where), "worker %u, ", process->pid);
    else if (process->rank >= 0)
        (void)snprintf(where, sizeof(where), "rank %d, ", process->rank);
    if (root->thread == CALL_TREE_UNKNOWN) {
        (void)snprintf(name, size, "%sdevice work whose launch is not known", where);
        return;
    }
    thread = &process->threads[root->thread];
    label = thread->name == NULL ? "" : thread->name;
    if (strstr(label, "thread ") != NULL) /* a file's says which */
        (void)snprintf(name, size, "%s%s", where, label);
    else
        (void)snprintf(name, size, "%s%s%sthread %u", where, label,
                       *label == '\0' ? "" : ", ", thread->tid);
}

/* What its time is, where that is more than its kind says; else NULL. */
static const char *category_of(uint8_t kind, const char *name)
{
    uint8_t known = gpu_name_classify(name);
    enum gpu_host host = (enum gpu_host)GPU_NAME_HOST(known);

    switch (kind) {
    case EVENT_MEMCPY:
    case EVENT_MEMSET:
        return "copy";
    case EVENT_KERNEL:
        return (known & GPU_NAME_COMMUNICATION) != 0 ? "communication" : "compute";
    case EVENT_SYNC:
        return "sync";
    case EVENT_RUNTIME:
        return host == GPU_HOST_SYNC ? "sync" : NULL;
    case EVENT_USER_RANGE:
    case EVENT_CPU_OP:
        if (host == GPU_HOST_COLLECTIVE)
            return "communication";
        return host == GPU_HOST_DATA && kind == EVENT_USER_RANGE ? "data" : NULL;
    default:
        return NULL;
    }
}

static void put_path(struct listing *listing, uint32_t path)
{
    static const char *const kinds[] = {
        [FILE_PATH_ROOT] = "other",  [FILE_PATH_THREAD] = "thread",
        [FILE_PATH_FRAME] = "frame", [FILE_PATH_RANGE] = "range",
        [FILE_PATH_OP] = "op",       [FILE_PATH_CALL] = "call",
        [FILE_PATH_WORK] = "work"};
    const struct call_tree *tree = listing->tree;
    const struct file_path *at = &tree->paths.list[path];
    int64_t self_ns = listing->metric == FLAME_CPU ? at->self_ns : at->device_ns;
    uint32_t row = listing->count;
    char label[NAME_BYTES + 8], text[KERNEL_SHORT_BYTES];
    const char *name = label, *short_name = NULL, *category = NULL;

    if (at->kind == FILE_PATH_THREAD) {
        listing->process = tree->roots[at->name].process;
        name_root(&tree->roots[at->name], label, sizeof(label));
    } else {
        name = trace_name(listing->process, at->name);
        if (at->kind == FILE_PATH_RANGE &&
            strncmp(name, CALL_TREE_STEP "#", sizeof(CALL_TREE_STEP)) == 0)
            name = CALL_TREE_STEP;
        category = category_of(tree->kinds[path], name);
        if (tree->kinds[path] == EVENT_KERNEL &&
            kernel_short_name(name, text, sizeof(text)))
            short_name = text;
    }
    put_row(listing, at->parent,
            &(struct row){.name = name,
                          .kind = kinds[at->kind],
                          .short_name = short_name,
                          .category = category,
                          .total_ns = listing->order.total[path],
                          .self_ns = self_ns > 0 ? self_ns : 0,
                          .calls = tree->counts[path]});
    listing->row_of[path] = row;
}

/* The children that found no place, as one. */
static void put_other(struct listing *listing, uint32_t path)
{
    const struct flame_order *order = &listing->order;
    uint64_t calls = 0, paths = 0;
    int64_t total_ns = 0;
    char name[48];

    for (uint32_t at = order->next[path]; at < order->first[path + 1]; at++) {
        if (order->total[order->order[at]] == 0)
            break; /* the rest has none either */
        total_ns += order->total[order->order[at]];
        calls += listing->tree->counts[order->order[at]];
        paths++;
    }
    if (paths == 0)
        return;
    (void)snprintf(name, sizeof(name), "%llu other%s", (unsigned long long)paths,
                   paths == 1 ? "" : "s");
    put_row(listing, path,
            &(struct row){.name = name,
                          .kind = "other",
                          .total_ns = total_ns,
                          .self_ns = total_ns,
                          .calls = calls});
}

static void put_all(struct listing *listing)
{
    const struct file_path *list = listing->tree->paths.list;

    for (uint32_t path = 0;;) {
        uint32_t child = flame_order_next(&listing->order, path);

        if (child != 0) {
            put_path(listing, child);
            path = child;
            continue;
        }
        put_other(listing, path);
        if (path == 0)
            return;
        path = list[path].parent;
    }
}

static void put_head(cJSON *body, const struct listing *listing,
                     const struct answer *head)
{
    static const char *const columns[] = {"parent",  "name",  "kind",       "total_ms",
                                          "self_ms", "calls", "short_name", "category"};
    const struct call_tree *tree = listing->tree;

    json_head(body, head);
    cJSON_DeleteItemFromObject(body, "recorded_steps");
    json_count(body, "recorded_steps",
               listing->metric == FLAME_CPU ? tree->steps_with_ops
                                            : tree->steps_with_work);
    json_count(body, "validation_batches", tree->validation_batches);
    json_text(body, "metric", listing->metric == FLAME_CPU ? "cpu" : "device");
    json_ms(body, "total_ms", (double)listing->order.total[0]);
    json_count(body, "events", tree->events);
    json_count(body, "left_out", tree->left_out + tree->paths.left_out);
    json_count(body, "paths", tree->paths.count - 1 - tree->root_count);
    json_count(body, "paths_in_other", listing->order.left_out);
    json_columns(body, columns, (int)(sizeof(columns) / sizeof(columns[0])));
}

cJSON *call_tree_json(const struct call_tree *tree, const struct answer *head,
                      enum flame_metric metric)
{
    struct listing listing = {.tree = tree, .metric = metric};
    cJSON *body = cJSON_CreateObject();

    listing.row_of = calloc(tree->paths.count, sizeof(*listing.row_of));
    if (flame_order_open(&listing.order, &tree->paths, CALL_TREE_SHOWN_MAX) &&
        listing.row_of != NULL && body != NULL) {
        flame_order_weigh(&listing.order, metric);
        put_head(body, &listing, head);
        listing.nodes = cJSON_AddArrayToObject(body, "nodes");
        put_all(&listing);
    } else {
        cJSON_Delete(body);
        body = NULL;
    }
    flame_order_close(&listing.order);
    free(listing.row_of);
    return body;
}
