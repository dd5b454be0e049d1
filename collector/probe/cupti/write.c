#include "probe/cupti/write.h"

#include <stdbool.h>
#include <stdio.h>
#include <string.h>

#include "probe/cupti/kernel_names.h"
#include "probe/probe.h"

#define THREADS_CACHED 64u
#define LAUNCHES_KEPT  256u /* of all threads that end at one moment */

static uint32_t buffer_number;

struct thread_place {
    uint32_t tid, slot_and_1;
    uint32_t buffer;
};
static struct thread_place threads[THREADS_CACHED];

void write_buffer_begins(void)
{
    buffer_number++;
    kernel_names_buffer_begins();
}

static const char *memory_name(uint32_t kind)
{
    static const char *const names[] = {"Unknown",       "Pageable",      "Pinned",
                                        "Device",        "Array",         "Managed",
                                        "Device Static", "Managed Static"};

    return names[kind < sizeof(names) / sizeof(names[0]) ? kind : 0];
}

/* As torch.profiler says it: "Memcpy HtoD (Pageable -> Device)". */
static uint32_t copy_name(const struct cupti_record *record)
{
    static const char *const ways[] = {"",     "HtoD", "DtoH", "HtoA", "AtoH", "AtoA",
                                       "AtoD", "DtoA", "DtoD", "HtoH", "PtoP"};
    const char *words[] = {"Memcpy ", ways[record->copy < 11 ? record->copy : 0],
                           " (",      memory_name(record->from),
                           " -> ",    memory_name(record->to),
                           ")"};
    char text[96];
    size_t length = 0;

    for (size_t i = 0; i < sizeof(words) / sizeof(words[0]); i++) {
        size_t more = strlen(words[i]);

        memcpy(text + length, words[i], more); /* 71 bytes at most */
        length += more;
    }
    return probe_name_bytes(text, length);
}

/* ---- where it belongs -------------------------------------------------------------- */

/* Slot index + 1 of a thread by its id; 0 when it has written nothing yet. */
static uint16_t slot_of(uint32_t tid)
{
    struct thread_place *place = &threads[tid % THREADS_CACHED];

    if (place->tid == tid && place->buffer == buffer_number)
        return (uint16_t)place->slot_and_1;
    uint32_t used = atomic_load_explicit(&probe->threads_used, memory_order_relaxed);

    *place = (struct thread_place){tid, 0, buffer_number};
    for (uint32_t i = 0; i < used && place->slot_and_1 == 0; i++)
        if (atomic_load_explicit(&probe->slots[i].tid, memory_order_relaxed) == tid)
            place->slot_and_1 = i + 1;
    return (uint16_t)place->slot_and_1;
}

/* A graph that begins on the host is of the device on which it ends. */
static uint16_t device_of(const struct cupti_record *record)
{
    bool begins_on_host = record->kind == CUPTI_GRAPH && record->device == INT32_MAX;
    uint32_t device = begins_on_host ? record->to_device : record->device;

    return EVENT_DEVICE(1, device < 256 ? device : 255);
}

bool write_knows_times(const struct writer *writer, const struct cupti_record *record,
                       uint64_t ticks[2])
{
    return record->start != 0 && record->end != 0 &&
           stamps_ticks(writer->stamps, record->start, &ticks[0]) &&
           stamps_ticks(writer->stamps, record->end, &ticks[1]) && ticks[1] >= ticks[0];
}

static bool times(struct writer *writer, const struct cupti_record *record,
                  struct event *event)
{
    uint64_t ticks[2];

    if (!write_knows_times(writer, record, ticks))
        return false;
    event->time = ticks[0];
    event->value = ticks[1] - ticks[0];
    if (ticks[1] > writer->counts.last_ticks)
        writer->counts.last_ticks = ticks[1];
    return true;
}

static void push(struct writer *writer, const struct event *events, uint32_t count)
{
    probe_events(events, count);
    writer->counts.events += count;
}

/* ---- kinds ------------------------------------------------------------------------- */

static void write_kernel(struct writer *writer, const struct cupti_record *record)
{
    uint64_t shared = (uint64_t)record->static_bytes + record->dynamic_bytes;
    uint32_t count = 2;
    struct event events[3] = {
        {.aux = record->correlation},
        {EVENT_STREAM(record->stream, record->context),
         EVENT_GRID(record->grid[0], record->grid[1], record->grid[2]),
         EVENT_META(0, EVENT_MORE, 0, 1),
         EVENT_BLOCK(record->block[0], record->block[1], record->block[2],
                     record->registers, shared)},
        {record->graph, record->graph_node, EVENT_META(0, EVENT_MORE, 0, 2), 0},
    };
    uint32_t name = record->kind == CUPTI_GRAPH ? probe_name("CUDA graph")
                                                : kernel_names_id(record->name);

    if (!times(writer, record, &events[0]))
        return;
    events[0].meta = EVENT_META(name, EVENT_KERNEL, 0, device_of(record));
    if (record->graph != 0)
        count = 3;
    writer->counts.work++;
    push(writer, events, count);
}

static uint8_t copy_flags(const struct cupti_record *record)
{
    static const uint8_t ways[] = {0,
                                   EVENT_COPY_H2D,
                                   EVENT_COPY_D2H,
                                   EVENT_COPY_H2D,
                                   EVENT_COPY_D2H,
                                   EVENT_COPY_D2D,
                                   EVENT_COPY_D2D,
                                   EVENT_COPY_D2D,
                                   EVENT_COPY_D2D,
                                   EVENT_COPY_H2H,
                                   EVENT_COPY_P2P};
    uint8_t way = record->kind == CUPTI_PEER_COPY ? EVENT_COPY_P2P
                  : record->copy < sizeof(ways)   ? ways[record->copy]
                                                  : 0;
    bool pageable = (way == EVENT_COPY_H2D && record->from == 1) ||
                    (way == EVENT_COPY_D2H && record->to == 1);

    return (uint8_t)(way | (pageable ? EVENT_COPY_PAGEABLE : 0));
}

/* Copies and memsets. */
static void write_move(struct writer *writer, const struct cupti_record *record)
{
    bool set = record->kind == CUPTI_MEMSET;
    struct event events[2] = {
        {.aux = record->correlation},
        {record->bytes, EVENT_STREAM(record->stream, record->context),
         EVENT_META(0, EVENT_MORE, 0, 1), record->graph_node},
    };
    char text[48];

    if (!times(writer, record, &events[0]))
        return;
    if (set)
        (void)snprintf(text, sizeof(text), "Memset (%s)", memory_name(record->memory));
    events[0].meta = EVENT_META(set ? probe_name(text) : copy_name(record),
                                set ? EVENT_MEMSET : EVENT_MEMCPY,
                                set ? 0 : copy_flags(record), device_of(record));
    writer->counts.work++;
    push(writer, events, 2);
}

static uint32_t domain_of(const struct cupti_record *record)
{
    return record->kind == CUPTI_DRIVER ? CUPTI_DOMAIN_DRIVER : CUPTI_DOMAIN_RUNTIME;
}

/* A launch by the runtime may be told behind the driver's inside of it, which ends first and
 * has the same number: that one has launched, and nothing is launched twice. */
static uint32_t driver_launches[LAUNCHES_KEPT]; /* the newest; our thread's */

static uint32_t *place_of_launch(const struct cupti_record *record)
{
    return &driver_launches[record->correlation % LAUNCHES_KEPT];
}

static bool holds_launch(const struct cupti_record *record)
{
    return record->kind != CUPTI_DRIVER && record->correlation != 0 &&
           *place_of_launch(record) == record->correlation;
}

static void write_call(struct writer *writer, const struct cupti_record *record)
{
    uint32_t domain = domain_of(record);
    enum call_class class = calls_class(writer->calls, domain, record->call);
    bool launches = class == CALL_LAUNCH && !holds_launch(record);
    enum event_kind kind = launches             ? EVENT_LAUNCH
                           : class == CALL_SYNC ? EVENT_SYNC
                                                : EVENT_RUNTIME;
    struct event event = {.aux = record->correlation};

    if (class <= CALL_OTHER) {
        writer->counts.dropped++;
        return;
    }
    if (!times(writer, record, &event))
        return;
    event.meta =
        EVENT_META(calls_name(writer->calls, writer->cupti, domain, record->call), kind,
                   0, slot_of(record->thread));
    writer->counts.calls++;
    push(writer, &event, 1);
    if (launches && record->kind == CUPTI_DRIVER)
        *place_of_launch(record) = record->correlation;
}

static void write_overhead(struct writer *writer, const struct cupti_record *record)
{
    const char *name =
        record->type == CUPTI_OVERHEAD_MODULE_LOADING     ? "module loading"
        : record->type == CUPTI_OVERHEAD_FUNCTION_LOADING ? "lazy function loading"
        : record->type == CUPTI_OVERHEAD_COMMANDS_FULL    ? "command buffer full"
                                                          : "CUPTI";
    struct event event = {.aux = WIRE_SOURCE_CUPTI};

    if (!times(writer, record, &event))
        return;
    event.meta = EVENT_META(probe_name(name), EVENT_OVERHEAD, 0, 0);
    push(writer, &event, 1);
}

bool write_wants(const struct writer *writer, const struct cupti_record *record)
{
    switch (record->kind) {
    case CUPTI_GRAPH: /* on all the time, also where nothing is recorded */
        return writer->calls->were_on;
    case CUPTI_KERNEL:
    case CUPTI_SERIAL_KERNEL:
    case CUPTI_MEMCPY:
    case CUPTI_PEER_COPY:
    case CUPTI_MEMSET:
    case CUPTI_OVERHEAD:
        return true;
    case CUPTI_DRIVER:
    case CUPTI_RUNTIME:
        return calls_class(writer->calls, domain_of(record), record->call) > CALL_OTHER;
    default: /* waits are told by their calls; the rest somebody else asked for */
        return false;
    }
}

void write_record(struct writer *writer, const struct cupti_record *record)
{
    switch (record->kind) {
    case CUPTI_GRAPH:
        if (write_wants(writer, record))
            write_kernel(writer, record);
        break;
    case CUPTI_KERNEL:
    case CUPTI_SERIAL_KERNEL:
        write_kernel(writer, record);
        break;
    case CUPTI_MEMCPY:
    case CUPTI_PEER_COPY:
    case CUPTI_MEMSET:
        write_move(writer, record);
        break;
    case CUPTI_DRIVER:
    case CUPTI_RUNTIME:
        write_call(writer, record);
        break;
    case CUPTI_OVERHEAD:
        write_overhead(writer, record);
        break;
    default: /* write_wants() */
        break;
    }
}
