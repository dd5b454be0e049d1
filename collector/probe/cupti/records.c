#include "probe/cupti/records.h"

#include <string.h>

#define WORD       8u /* records are aligned to it */
#define KERNEL_MIN 200u
#define MADE_UP    1024u /* bytes: the longest structure is below 300 */
#define STRIDE_MAX (MADE_UP / 2)
#define STAMPS(k)                                                                      \
    ((k) != CUPTI_EXTERNAL && (k) != CUPTI_MEMORY) /* has a start and an end */

#define FIELD(kind, name, offset, member)                                              \
    {                                                                                  \
        name, kind, offset, sizeof(((struct cupti_record *)0)->member),                \
            offsetof(struct cupti_record, member)                                      \
    }

#define KERNEL_FIELDS(kind)                                                            \
    FIELD(kind, "registersPerThread", 6, registers), FIELD(kind, "start", 16, start),  \
        FIELD(kind, "end", 24, end), FIELD(kind, "deviceId", 40, device),              \
        FIELD(kind, "contextId", 44, context), FIELD(kind, "streamId", 48, stream),    \
        FIELD(kind, "gridX", 52, grid), FIELD(kind, "blockX", 64, block),              \
        FIELD(kind, "staticSharedMemory", 76, static_bytes),                           \
        FIELD(kind, "dynamicSharedMemory", 80, dynamic_bytes),                         \
        FIELD(kind, "correlationId", 92, correlation), FIELD(kind, "name", 104, name), \
        FIELD(kind, "graphNodeId", 144, graph_node),                                   \
        FIELD(kind, "graphId", 156, graph)

#define CALL_FIELDS(kind)                                                              \
    FIELD(kind, "cbid", 4, call), FIELD(kind, "start", 8, start),                      \
        FIELD(kind, "end", 16, end), FIELD(kind, "processId", 24, process),            \
        FIELD(kind, "threadId", 28, thread),                                           \
        FIELD(kind, "correlationId", 32, correlation),                                 \
        FIELD(kind, "returnValue", 36, result)

/* By kind; read in this order. */
const struct cupti_field cupti_fields[] = {
    FIELD(CUPTI_MEMCPY, "copyKind", 4, copy),
    FIELD(CUPTI_MEMCPY, "srcKind", 5, from),
    FIELD(CUPTI_MEMCPY, "dstKind", 6, to),
    FIELD(CUPTI_MEMCPY, "bytes", 8, bytes),
    FIELD(CUPTI_MEMCPY, "start", 16, start),
    FIELD(CUPTI_MEMCPY, "end", 24, end),
    FIELD(CUPTI_MEMCPY, "deviceId", 32, device),
    FIELD(CUPTI_MEMCPY, "contextId", 36, context),
    FIELD(CUPTI_MEMCPY, "streamId", 40, stream),
    FIELD(CUPTI_MEMCPY, "correlationId", 44, correlation),
    FIELD(CUPTI_MEMCPY, "graphNodeId", 64, graph_node),
    FIELD(CUPTI_MEMCPY, "graphId", 72, graph),
    FIELD(CUPTI_MEMSET, "bytes", 8, bytes),
    FIELD(CUPTI_MEMSET, "start", 16, start),
    FIELD(CUPTI_MEMSET, "end", 24, end),
    FIELD(CUPTI_MEMSET, "deviceId", 32, device),
    FIELD(CUPTI_MEMSET, "contextId", 36, context),
    FIELD(CUPTI_MEMSET, "streamId", 40, stream),
    FIELD(CUPTI_MEMSET, "correlationId", 44, correlation),
    FIELD(CUPTI_MEMSET, "memoryKind", 50, memory),
    FIELD(CUPTI_MEMSET, "graphNodeId", 64, graph_node),
    FIELD(CUPTI_MEMSET, "graphId", 72, graph),
    KERNEL_FIELDS(CUPTI_SERIAL_KERNEL),
    CALL_FIELDS(CUPTI_DRIVER),
    CALL_FIELDS(CUPTI_RUNTIME),
    KERNEL_FIELDS(CUPTI_KERNEL),
    FIELD(CUPTI_OVERHEAD, "overheadKind", 4, type),
    FIELD(CUPTI_OVERHEAD, "start", 24, start),
    FIELD(CUPTI_OVERHEAD, "end", 32, end),
    FIELD(CUPTI_OVERHEAD, "correlationId", 40, correlation),
    FIELD(CUPTI_PEER_COPY, "copyKind", 4, copy),
    FIELD(CUPTI_PEER_COPY, "srcKind", 5, from),
    FIELD(CUPTI_PEER_COPY, "dstKind", 6, to),
    FIELD(CUPTI_PEER_COPY, "bytes", 8, bytes),
    FIELD(CUPTI_PEER_COPY, "start", 16, start),
    FIELD(CUPTI_PEER_COPY, "end", 24, end),
    FIELD(CUPTI_PEER_COPY, "deviceId", 32, device),
    FIELD(CUPTI_PEER_COPY, "contextId", 36, context),
    FIELD(CUPTI_PEER_COPY, "streamId", 40, stream),
    FIELD(CUPTI_PEER_COPY, "dstDeviceId", 52, to_device),
    FIELD(CUPTI_PEER_COPY, "correlationId", 60, correlation),
    FIELD(CUPTI_PEER_COPY, "graphNodeId", 72, graph_node),
    FIELD(CUPTI_PEER_COPY, "graphId", 80, graph),
    FIELD(CUPTI_SYNC, "type", 4, type),
    FIELD(CUPTI_SYNC, "start", 8, start),
    FIELD(CUPTI_SYNC, "end", 16, end),
    FIELD(CUPTI_SYNC, "correlationId", 24, correlation),
    FIELD(CUPTI_SYNC, "contextId", 28, context),
    FIELD(CUPTI_SYNC, "streamId", 32, stream),
    FIELD(CUPTI_EXTERNAL, "externalKind", 4, type),
    FIELD(CUPTI_EXTERNAL, "externalId", 8, external_id),
    FIELD(CUPTI_EXTERNAL, "correlationId", 16, correlation),
    FIELD(CUPTI_MEMORY, "memoryOperationType", 4, type),
    FIELD(CUPTI_MEMORY, "correlationId", 12, correlation),
    FIELD(CUPTI_MEMORY, "bytes", 24, bytes),
    FIELD(CUPTI_MEMORY, "timestamp", 32, start),
    FIELD(CUPTI_MEMORY, "processId", 48, process),
    FIELD(CUPTI_MEMORY, "deviceId", 52, device),
    FIELD(CUPTI_MEMORY, "contextId", 56, context),
    FIELD(CUPTI_MEMORY, "streamId", 60, stream),
    FIELD(CUPTI_GRAPH, "correlationId", 4, correlation),
    FIELD(CUPTI_GRAPH, "start", 8, start),
    FIELD(CUPTI_GRAPH, "end", 16, end),
    FIELD(CUPTI_GRAPH, "deviceId", 24, device),
    FIELD(CUPTI_GRAPH, "graphId", 28, graph),
    FIELD(CUPTI_GRAPH, "contextId", 32, context),
    FIELD(CUPTI_GRAPH, "streamId", 36, stream),
    FIELD(CUPTI_GRAPH, "endDeviceId", 48, to_device),
    {NULL, 0, 0, 0, 0},
};

/* Bytes that a record of the kind has had in every version, and must have: up to its
 * correlation. 0: a kind that we do not read. */
static size_t least_bytes(uint32_t kind)
{
    static const uint8_t least[CUPTI_KINDS] = {
        [CUPTI_MEMCPY] = 88,   [CUPTI_MEMSET] = 88,
        [CUPTI_DRIVER] = 40,   [CUPTI_SERIAL_KERNEL] = 200,
        [CUPTI_RUNTIME] = 40,  [CUPTI_KERNEL] = KERNEL_MIN,
        [CUPTI_OVERHEAD] = 40, [CUPTI_PEER_COPY] = 96,
        [CUPTI_SYNC] = 40,     [CUPTI_EXTERNAL] = 24,
        [CUPTI_MEMORY] = 120,  [CUPTI_GRAPH] = 48,
    };

    return kind < CUPTI_KINDS ? least[kind] : 0;
}

/* Where each kind's rows begin; those of a kind without are the last row's. */
static void find_fields(struct cupti_layout *layout)
{
    uint8_t last = 0;

    while (cupti_fields[last].kind != 0)
        last++;
    memset(layout->field, last, sizeof(layout->field));
    for (uint8_t row = last; row-- > 0;)
        layout->field[cupti_fields[row].kind] = row;
}

unsigned cupti_layout_learn(struct cupti_layout *layout, cupti_next next)
{
    _Alignas(WORD) uint8_t made_up[MADE_UP];
    unsigned known = 0;

    *layout = (struct cupti_layout){{0}, {0}};
    find_fields(layout);
    for (uint64_t kind = 1; kind < CUPTI_KINDS; kind++) {
        void *first = NULL, *second;

        /* Wherever the second record begins, its kind is there. */
        for (size_t at = 0; at < sizeof(made_up); at += sizeof(kind))
            memcpy(made_up + at, &kind, sizeof(kind));
        if (next(made_up, sizeof(made_up), &first) != 0 || first != made_up)
            continue;
        second = first;
        if (next(made_up, sizeof(made_up), &second) != 0)
            continue;
        uintptr_t stride = (uintptr_t)second - (uintptr_t)made_up;

        if (stride < WORD || stride > STRIDE_MAX || stride % WORD != 0)
            continue;
        layout->stride[kind] = (uint16_t)stride;
        known++;
    }
    return known;
}

void cupti_reader_open(struct cupti_reader *reader, const struct cupti_layout *layout,
                       cupti_next next, void *buffer, size_t bytes)
{
    *reader = (struct cupti_reader){
        .layout = layout, .next = next, .buffer = buffer, .bytes = bytes};
}

/* Where the next record begins; false at the end, or where nothing more is certain. */
static bool step(struct cupti_reader *reader, size_t *at)
{
    int error = reader->bytes < WORD
                    ? CUPTI_ENDED
                    : reader->next(reader->buffer, reader->bytes, &reader->record);

    if (error == CUPTI_ENDED || (error == CUPTI_NO_KIND && reader->open_ended))
        return false;
    /* Unsigned: a place before the buffer is far behind its end. */
    *at = (uintptr_t)reader->record - (uintptr_t)reader->buffer;
    if (error != 0 || *at % WORD != 0 || *at < reader->from ||
        *at > reader->bytes - WORD) {
        reader->skipped.broken++;
        reader->bytes = 0;
        return false;
    }
    reader->from = *at + WORD;
    return true;
}

/* Of a size that the compiler knows: a call for each field took most of the time. */
static void copy(uint8_t *to, const uint8_t *from, size_t size)
{
    switch (size) {
    case 8:
        memcpy(to, from, 8);
        return;
    case 4:
        memcpy(to, from, 4);
        return;
    default:
        memcpy(to, from, size);
        return;
    }
}

/* Copies what the `bytes` of a record hold. */
static void take(const struct cupti_layout *layout, const uint8_t *from, size_t bytes,
                 uint32_t kind, struct cupti_record *record)
{
    memset(record, 0, sizeof(*record));
    record->kind = kind;
    for (const struct cupti_field *field = &cupti_fields[layout->field[kind]];
         field->kind == kind; field++)
        if (field->offset <= bytes && field->size <= bytes - field->offset)
            copy((uint8_t *)record + field->to, from + field->offset, field->size);
}

bool cupti_read(struct cupti_reader *reader, struct cupti_record *record)
{
    size_t at = 0;

    while (step(reader, &at)) {
        size_t bytes = reader->bytes - at, stride = 0;
        uint32_t kind;

        memcpy(&kind, reader->buffer + at, sizeof(kind));
        size_t least = least_bytes(kind);

        if (least == 0) {
            reader->skipped.unknown++;
            continue;
        }
        stride = reader->layout->stride[kind];
        if (stride == 0)
            stride = least;
        bytes = bytes < stride ? bytes : stride;
        if (bytes < least) {
            reader->skipped.cut++;
            continue;
        }
        take(reader->layout, reader->buffer + at, bytes, kind, record);
        if (!STAMPS(kind) ||
            (record->start != 0 && record->end != 0 && record->end >= record->start))
            return true;
        reader->skipped.untimed++;
        if (reader->untimed)
            return true;
    }
    return false;
}
