/* The records of libcupti's activity buffers, as plain events.
 *
 *     buffer [ kernel | memcpy | call | ... ] --> cupti_read --> struct cupti_record
 *
 * The loaded library writes its own newest structures, whatever headers anybody
 * compiled with. They only ever grew at their ends (11.8 to 13.5), so one table of
 * offsets serves all, and a field is read only where it lies within the stride that
 * was learned from the library itself. Nothing here includes a header of CUPTI's.
 *
 * The bytes are hostile: a record is copied, and every place in it is checked first.
 * What cannot be used is skipped and counted.
 */
#ifndef PROBE_CUPTI_RECORDS_H
#define PROBE_CUPTI_RECORDS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* CUpti_ActivityKind: the same in every version. */
enum cupti_kind {
    CUPTI_MEMCPY = 1,
    CUPTI_MEMSET = 2,
    CUPTI_SERIAL_KERNEL = 3, /* as CUPTI_KERNEL, when somebody else enabled it */
    CUPTI_DRIVER = 4,
    CUPTI_RUNTIME = 5,
    CUPTI_KERNEL = 10,
    CUPTI_OVERHEAD = 17,
    CUPTI_PEER_COPY = 22,
    CUPTI_SYNC = 38,
    CUPTI_EXTERNAL = 39,
    CUPTI_MEMORY = 49,
    CUPTI_GRAPH = 51,
    CUPTI_KINDS = 64, /* of which we remember a stride */
};

/* CUpti_ActivityOverheadKind, CUpti_ActivitySynchronizationType: `type`. */
#define CUPTI_OVERHEAD_MODULE_LOADING   (4u << 16)
#define CUPTI_OVERHEAD_FUNCTION_LOADING (5u << 16)
#define CUPTI_OVERHEAD_COMMANDS_FULL    (6u << 16)

/* One record. Stamps are in the library's clock (stamps.h). A field that the kind, or
 * this version of it, does not have is 0. */
struct cupti_record {
    uint32_t kind; /* enum cupti_kind */
    uint32_t type; /* of a sync, an overhead, an external id, a memory operation */
    uint64_t start, end;
    uint64_t bytes;
    uint64_t name; /* address of a kernel's name; it may be stale */
    uint64_t graph_node;
    uint64_t external_id;
    uint32_t graph;
    uint32_t device, context, stream;
    uint32_t correlation;
    uint32_t to_device; /* of a peer copy; where a graph ends */
    uint32_t grid[3], block[3];
    uint32_t static_bytes, dynamic_bytes;   /* shared memory of a block */
    uint32_t call, process, thread, result; /* of a call of the API */
    uint16_t registers;
    uint16_t memory;        /* CUpti_ActivityMemoryKind that a memset fills */
    uint8_t copy, from, to; /* CUpti_ActivityMemcpyKind and MemoryKind */
};

/* Where a field lies: the table behind cupti_read(), for the check against NVIDIA's own
 * headers. Ends with a row of kind 0. */
struct cupti_field {
    const char *name; /* in NVIDIA's structure */
    uint8_t kind;     /* enum cupti_kind */
    uint8_t offset, size;
    uint8_t to; /* in struct cupti_record */
};
extern const struct cupti_field cupti_fields[];

/* cuptiActivityGetNextRecord: 0, or CUPTI_ENDED where the buffer ends. */
typedef int (*cupti_next)(uint8_t *buffer, size_t valid_bytes, void **record);
#define CUPTI_ENDED   12 /* CUPTI_ERROR_MAX_LIMIT_REACHED */
#define CUPTI_NO_KIND 21 /* CUPTI_ERROR_INVALID_KIND: zeroes, for one */

struct cupti_layout {
    /* Bytes from one record to the next, by kind; 0: the library does not know it. */
    uint16_t stride[CUPTI_KINDS];
    uint8_t field[CUPTI_KINDS]; /* the kind's first row of cupti_fields */
};

/* Lets `next` walk over a made-up buffer. Returns the kinds that it knows; 0 when it
 * does not answer: cupti_read() then believes in the smallest structures. */
unsigned cupti_layout_learn(struct cupti_layout *layout, cupti_next next);

/* What could not be used. */
struct cupti_skipped {
    uint64_t unknown; /* records of kinds that we do not read */
    uint64_t untimed; /* without a start or an end, or that end before they start */
    uint64_t cut;     /* structures too short for what they must have */
    uint64_t broken;  /* buffers whose rest could not be walked */
};

struct cupti_reader {
    const struct cupti_layout *layout;
    cupti_next next;
    uint8_t *buffer;
    size_t bytes;
    void *record; /* where `next` stands */
    size_t from;  /* the next record begins here or later */
    bool open_ended; /* set by who knows of no end: it is where no kind is */
    bool untimed; /* set by who wants those without a start or an end too */
    struct cupti_skipped skipped;
};

/* `buffer` is borrowed while it is read; `next` may want to write to it. */
void cupti_reader_open(struct cupti_reader *reader, const struct cupti_layout *layout,
                       cupti_next next, void *buffer, size_t bytes);

/* The next record that can be used; false when there is none. */
bool cupti_read(struct cupti_reader *reader, struct cupti_record *record);

#endif
