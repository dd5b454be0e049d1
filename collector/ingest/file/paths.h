/* Where the time of a file was spent: every path of calls once, as a tree of names, with
 * its own time and that of the device work launched there.
 *
 *     root ─ thread ─ Python frames, ranges, ops, calls
 *
 * Bounded: what finds no room counts in its parent.
 */
#ifndef INGEST_FILE_PATHS_H
#define INGEST_FILE_PATHS_H

#include <stdbool.h>
#include <stdint.h>

#include "ingest/file/index.h"
#include "ingest/trace/names.h"
#include "wire/attributes.h"

/* Of 40 bytes each, hash included; the largest real trace at hand needs 3,000. */
#define FILE_PATHS_MAX 524288u

enum file_path_kind {
    FILE_PATH_ROOT,
    FILE_PATH_THREAD,
    FILE_PATH_FRAME, /* of Python */
    FILE_PATH_RANGE,
    FILE_PATH_OP,
    FILE_PATH_CALL, /* of the device's runtime */
    FILE_PATH_WORK, /* on a device, below its launch: of a window (trace/call_tree.h) */
};

struct file_path {
    uint32_t parent, name; /* index before its own; the reader's id */
    uint32_t kind;         /* enum file_path_kind */
    uint32_t origin;       /* of a node of the backward: the path of what made it, which
                              stands before it; 0 else */
    int64_t self_ns, device_ns;
};

struct file_paths {
    const struct trace_names *names;
    struct file_path *list; /* [0] is the root */
    uint32_t count;
    struct file_index index; /* by all that tells where a path is */
    uint64_t left_out;       /* ranges whose path found no room */
    bool frames;             /* there are Python frames, or stacks beside the ops */
};

MUST_CHECK bool file_paths_open(struct file_paths *paths,
                                const struct trace_names *names);
void file_paths_close(struct file_paths *paths);

/* A thread's own node; its name may be another's too. */
uint32_t file_paths_thread(struct file_paths *paths, uint32_t name);

/* The child of that name and kind, made where there is none; `parent` without room. One
 * of another origin is another child. */
uint32_t file_paths_node(struct file_paths *paths, uint32_t parent, uint32_t name,
                         enum file_path_kind kind, uint32_t origin);
/* The same without origin. */
uint32_t file_paths_child(struct file_paths *paths, uint32_t parent, uint32_t name,
                          enum file_path_kind kind);

/* Below `parent`, the frames of a text such as "inner;outer", the outermost first. */
uint32_t file_paths_frames(struct file_paths *paths, uint32_t parent,
                           struct trace_names *names, uint32_t stack);

#endif
