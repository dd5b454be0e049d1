/* What tells an op from its namesakes: shapes, stack, module. Kept as small numbers, for
 * 32 bytes wait in memory for each event.
 *
 *     reading   detail = shapes, stack and module of one event, each combination once
 *     nesting   key = path and detail, each pair once; with what was launched there
 *     folding   text of a key in a group: "aten::mm" GROUP_MARK "[[2,3],[3,4]]"
 */
#ifndef INGEST_FILE_DETAILS_H
#define INGEST_FILE_DETAILS_H

#include <stdbool.h>
#include <stdint.h>

#include "aggregate/process.h"
#include "ingest/file/paths.h"
#include "ingest/trace/event.h"

#define FILE_DETAILS_MAX 262144u /* of 20 bytes; beyond: as if there were none */
#define FILE_KEYS_MAX    262144u /* of 72 bytes */

/* An event waits with its detail and its External id in one word. */
#define FILE_DETAIL(aux)      ((uint32_t)((aux) >> 40))
#define FILE_EXTERNAL_ID(aux) ((aux) & ((UINT64_C(1) << 40) - 1))
#define FILE_AUX(detail, id)                                                           \
    ((uint64_t)(detail) << 40 | FILE_EXTERNAL_ID((uint64_t)(id)))

struct file_detail {
    uint32_t shapes, stack, module; /* the reader's ids; 0 without */
};

struct file_key {
    uint32_t path, detail;
    struct process_linked linked;
};

struct file_details {
    struct file_paths paths;
    struct file_detail *details; /* [0] is none */
    struct file_key *keys;       /* [0] is none */
    uint32_t detail_count, key_count;
    struct file_index detail_index, key_index;
    uint32_t frames; /* of a stack that count */
    uint64_t left_out;
};

/* NULL when out of memory. `frames`: how many of a stack make a group. */
struct file_details *file_details_new(const struct trace_names *names, uint32_t frames);
void file_details_free(struct file_details *details);

/* 0 where there is nothing to tell, or no room. */
uint32_t file_details_add(struct file_details *details,
                          const struct trace_event *event);
uint32_t file_details_key(struct file_details *details, uint32_t path, uint32_t detail);

/* What the group adds to the op's name; "" nothing. */
void file_details_text(const struct file_details *details, uint32_t key,
                       enum group_by by, char text[TEXT_BYTES_MAX]);

#endif
