#include "trace/trace_event.h"

#include "aggregate/gpu.h"
#include "wire/words.h"

/* How a kind of event appears. */
struct shape {
    const char *head; /* up to the name's value */
    uint8_t size;
    bool range;
};

#define RANGE(category)                                                                \
    {                                                                                  \
        "{\"ph\":\"X\",\"cat\":\"" category "\",\"name\":",                            \
            sizeof("{\"ph\":\"X\",\"cat\":\"" category "\",\"name\":") - 1, true       \
    }
#define INSTANT(category)                                                              \
    {                                                                                  \
        "{\"ph\":\"i\",\"s\":\"t\",\"cat\":\"" category "\",\"name\":",                \
            sizeof("{\"ph\":\"i\",\"s\":\"t\",\"cat\":\"" category "\",\"name\":") -   \
                1,                                                                     \
            false                                                                      \
    }

static const struct shape shapes[EVENT_MORE + 1] = {
    [EVENT_PHASE] = RANGE("user_annotation"),
    [EVENT_CPU_OP] = RANGE("cpu_op"),
    [EVENT_USER_RANGE] = RANGE("user_annotation"),
    [EVENT_KERNEL] = RANGE("kernel"),
    [EVENT_MEMCPY] = RANGE("gpu_memcpy"),
    [EVENT_MEMSET] = RANGE("gpu_memset"),
    [EVENT_SYNC] = RANGE("cuda_runtime"),
    [EVENT_RUNTIME] = RANGE("cuda_runtime"),
    [EVENT_LAUNCH] = RANGE("cuda_runtime"),
    [EVENT_COLLECTIVE] = RANGE("user_annotation"),
    [EVENT_OVERHEAD] = RANGE("overhead"),
    [EVENT_ALLOC] = INSTANT("cpu_instant_event"),
    [EVENT_MARK] = INSTANT("trainglass"),
};

void trace_event_begin(struct trace_writer *writer)
{
    trace_text_begin(&writer->text);
    if (!writer->first)
        TRACE_PUT(&writer->text, ",\n");
    writer->first = false;
}

static void put_name(struct trace_writer *writer, uint32_t id)
{
    struct trace_name_slot *slot = &writer->names[id % TRACE_NAME_SLOTS];
    struct trace_text *text = &writer->text;
    const char *start = text->at;

    if (slot->id == id && id != 0) {
        trace_text_put(text, slot->text, slot->size);
        return;
    }
    trace_text_string(text, trace_name(writer->process, id));
    if (text->at - start <= (ptrdiff_t)TRACE_NAME_BYTES && id != 0) {
        slot->id = id;
        slot->size = (uint32_t)(text->at - start);
        memcpy(slot->text, start, slot->size);
    }
}

void trace_event_where(struct trace_writer *writer, int64_t pid, int64_t tid)
{
    struct trace_text *text = &writer->text;
    const char *start = text->at;

    if (writer->where.size > 0 && writer->where.pid == pid &&
        writer->where.tid == tid) {
        trace_text_put(text, writer->where.text, writer->where.size);
        return;
    }
    TRACE_SIGNED(text, ",\"pid\":", pid);
    TRACE_SIGNED(text, ",\"tid\":", tid);
    TRACE_PUT(text, ",\"ts\":");
    writer->where.pid = pid;
    writer->where.tid = tid;
    writer->where.size = (size_t)(text->at - start);
    memcpy(writer->where.text, start, writer->where.size);
}

/* ---- one event ------------------------------------------------------------------- */

/* The record so many behind the event, if it is more of it; NULL where it is cut off. */
static const struct event *more_of(const struct event *event, uint16_t number,
                                   const struct event *end)
{
    bool is_more = end - event > number &&
                   EVENT_KIND(event[number].meta) == EVENT_MORE &&
                   EVENT_AUX16(event[number].meta) == number;

    return is_more ? &event[number] : NULL;
}

/* The stream of GPU work; 0 when it is cut off. */
static uint32_t stream_of(const struct event *event, const struct event *end)
{
    const struct event *more = more_of(event, 1, end);

    if (more == NULL)
        return 0;
    return (uint32_t)(EVENT_KIND(event->meta) == EVENT_KERNEL ? more->time
                                                              : more->value);
}

static void put_copy_bytes(struct trace_writer *writer, const struct event *event,
                           const struct event *end)
{
    if (event + 1 >= end || EVENT_KIND(event[1].meta) != EVENT_MORE ||
        event[1].time == GPU_BYTES_UNKNOWN)
        return;
    TRACE_NUMBER(&writer->text, ",\"bytes\":", event[1].time);
}

static void put_triple(struct trace_text *text, const uint32_t triple[3])
{
    TRACE_NUMBER(text, "[", triple[0]);
    TRACE_NUMBER(text, ",", triple[1]);
    TRACE_NUMBER(text, ",", triple[2]);
    TRACE_PUT(text, "]");
}

/* How a kernel was launched, as torch.profiler writes it; a graph as a whole has none. */
static void put_launch(struct trace_writer *writer, const struct event *event,
                       const struct event *end)
{
    const struct event *more = more_of(event, 1, end);
    struct trace_text *text = &writer->text;

    if (more == NULL || EVENT_BLOCK_X(more->aux) == 0)
        return;
    const uint32_t grid[3] = {EVENT_GRID_X(more->value), EVENT_GRID_Y(more->value),
                              EVENT_GRID_Z(more->value)};
    const uint32_t block[3] = {EVENT_BLOCK_X(more->aux), EVENT_BLOCK_Y(more->aux),
                               EVENT_BLOCK_Z(more->aux)};

    TRACE_PUT(text, ",\"grid\":");
    put_triple(text, grid);
    TRACE_PUT(text, ",\"block\":");
    put_triple(text, block);
    TRACE_NUMBER(text, ",\"registers per thread\":", EVENT_BLOCK_REGISTERS(more->aux));
    TRACE_NUMBER(text, ",\"shared memory\":", EVENT_SHARED_BYTES(more->aux));
}

/* The end of an event's arguments. */
static void end_args(struct trace_writer *writer, const struct event *event)
{
    const struct replay_marks *critical = writer->limits->critical;

    if (critical != NULL && replay_is_marked(critical, event))
        TRACE_PUT(&writer->text, ",\"critical\":1}");
    else
        TRACE_PUT(&writer->text, "}");
}

static void put_device_args(struct trace_writer *writer, const struct event *event,
                            const struct event *end)
{
    TRACE_NUMBER(&writer->text, ",\"args\":{\"device\":",
                 EVENT_DEVICE_INDEX(EVENT_AUX16(event->meta)));
    TRACE_NUMBER(&writer->text, ",\"stream\":", stream_of(event, end));
    TRACE_NUMBER(&writer->text, ",\"correlation\":", event->aux);
    if (EVENT_KIND(event->meta) == EVENT_KERNEL)
        put_launch(writer, event, end);
    else
        put_copy_bytes(writer, event, end);
    end_args(writer, event);
}

static void put_device_of_memory(struct trace_writer *writer, uint16_t device)
{
    TRACE_NUMBER(&writer->text,
                 ",\"args\":{\"Device Type\":", EVENT_DEVICE_TYPE(device));
    TRACE_SIGNED(&writer->text, ",\"Device Id\":",
                 EVENT_DEVICE_TYPE(device) == 0 ? -1 : EVENT_DEVICE_INDEX(device));
}

static void put_alloc_args(struct trace_writer *writer, const struct event *event)
{
    put_device_of_memory(writer, EVENT_AUX16(event->meta));
    TRACE_SIGNED(&writer->text, ",\"Bytes\":", (int64_t)event->value);
    TRACE_NUMBER(&writer->text, ",\"Total Allocated\":", event->aux);
    TRACE_PUT(&writer->text, "}");
}

int64_t trace_event_gap_ns(uint8_t kind)
{
    switch (kind) {
    case EVENT_PHASE:
    case EVENT_CPU_OP:
    case EVENT_USER_RANGE:
    case EVENT_COLLECTIVE:
        return TRACE_RANGE_GAP_NS;
    default:
        return 0;
    }
}

/* Of what its gap leaves nothing. */
static void put_length(struct trace_writer *writer, const struct event *event,
                       const char *before)
{
    trace_text_put(&writer->text, before, strlen(before));
    TRACE_NUMBER(&writer->text, "\"ns\":", event->value);
}

static void put_args(struct trace_writer *writer, const struct event *event,
                     const struct event *end)
{
    uint8_t kind = EVENT_KIND(event->meta);
    bool gone = event->value - 1 < TRACE_RANGE_GAP_NS && trace_event_gap_ns(kind) > 0;

    if (kind == EVENT_PHASE) {
        TRACE_NUMBER(&writer->text, ",\"args\":{\"trainglass\":\"phase\",\"step\":",
                     EVENT_STEP_NUMBER(event->aux));
        TRACE_PUT(&writer->text, "}");
    } else if (kind == EVENT_CPU_OP && event->aux != 0) {
        TRACE_NUMBER(&writer->text, ",\"args\":{\"Sequence number\":", event->aux);
        if (gone)
            put_length(writer, event, ",");
        end_args(writer, event);
    } else if ((kind == EVENT_CPU_OP || kind == EVENT_USER_RANGE) && gone) {
        put_length(writer, event, ",\"args\":{");
        end_args(writer, event);
    } else if (kind == EVENT_CPU_OP && writer->limits->critical != NULL &&
               replay_is_marked(writer->limits->critical, event)) {
        TRACE_PUT(&writer->text, ",\"args\":{\"critical\":1}");
    } else if (trace_event_is_work(kind)) {
        put_device_args(writer, event, end);
    } else if (trace_event_is_call(kind)) {
        TRACE_NUMBER(&writer->text, ",\"args\":{\"correlation\":", event->aux);
        end_args(writer, event);
    } else if (kind == EVENT_ALLOC) {
        put_alloc_args(writer, event);
    } else if (kind == EVENT_COLLECTIVE) {
        TRACE_NUMBER(&writer->text,
                     ",\"args\":{\"trainglass\":\"collective\",\"bytes\":", event->aux);
        end_args(writer, event);
    }
}

/* Of a mark that has no name of its own. */
static const char *mark_name(uint8_t mark)
{
    static const char *const names[] = {[EVENT_MARK_USER] = "mark",
                                        [EVENT_MARK_EPOCH] = "epoch",
                                        [EVENT_MARK_VALIDATION] = "validation",
                                        [EVENT_MARK_STRETCH] = "steps from here",
                                        [EVENT_MARK_LEVEL] = "level",
                                        [EVENT_MARK_GC] = "garbage collection",
                                        [EVENT_MARK_WINDOW] = "window",
                                        [EVENT_MARK_CHECKPOINT] = "checkpoint"};

    return mark < sizeof(names) / sizeof(names[0]) ? names[mark] : "mark";
}

static void put_event_name(struct trace_writer *writer, const struct event *event)
{
    uint8_t kind = EVENT_KIND(event->meta);
    uint16_t phase = EVENT_AUX16(event->meta);

    if (kind == EVENT_PHASE)
        trace_text_string(&writer->text,
                          phase < EVENT_PHASES ? wire_phase_word(phase) : "phase");
    else if (kind == EVENT_ALLOC)
        TRACE_PUT(&writer->text, "\"[memory]\"");
    else if (kind == EVENT_MARK && EVENT_NAME(event->meta) == 0)
        trace_text_string(&writer->text, mark_name(EVENT_FLAGS(event->meta)));
    else
        put_name(writer, EVENT_NAME(event->meta));
}

/* The arrow from a launch to its kernel. */
static void write_flow(struct trace_writer *writer, const struct event *event,
                       int64_t pid, int64_t tid)
{
    trace_event_begin(writer);
    if (trace_event_is_work(EVENT_KIND(event->meta)))
        TRACE_NUMBER(&writer->text, "{\"ph\":\"f\",\"bp\":\"e\",\"id\":", event->aux);
    else
        TRACE_NUMBER(&writer->text, "{\"ph\":\"s\",\"id\":", event->aux);
    TRACE_PUT(&writer->text, ",\"cat\":\"ac2g\",\"name\":\"ac2g\"");
    trace_event_where(writer, pid, tid);
    trace_text_us(&writer->text, (int64_t)event->time);
    TRACE_PUT(&writer->text, "}");
}

/* CUPTI's records of calls stand in the ring of the thread that fetched them: where it is
 * known they are shown on the one that called. */
static uint32_t caller_of(const struct trace_process *process,
                          const struct event *event, uint32_t thread)
{
    uint8_t kind = EVENT_KIND(event->meta);
    uint32_t caller =
        trace_event_is_call(kind) ? EVENT_CALLER(event->meta, UINT32_MAX) : UINT32_MAX;

    return caller < process->thread_count ? process->threads[caller].tid : thread;
}

static void write_event(struct trace_writer *writer, const struct event *event,
                        const struct event *end, uint32_t thread)
{
    uint8_t kind = EVENT_KIND(event->meta);
    const struct shape *shape = &shapes[kind];
    struct trace_text *text = &writer->text;
    int64_t pid = writer->process->pid, tid = caller_of(writer->process, event, thread);

    if (trace_event_is_work(kind)) {
        pid = EVENT_DEVICE_INDEX(EVENT_AUX16(event->meta));
        tid = stream_of(event, end);
    }
    if (kind == EVENT_PHASE)
        tid = TRACE_PHASES_TRACK;
    trace_event_begin(writer);
    trace_text_put(text, shape->head, shape->size);
    put_event_name(writer, event);
    trace_event_where(writer, pid, tid);
    trace_text_us(text, (int64_t)event->time);
    if (shape->range) {
        TRACE_PUT(text, ",\"dur\":");
        trace_text_us(text, trace_event_shortened_ns((int64_t)event->value,
                                                     trace_event_gap_ns(kind)));
    }
    put_args(writer, event, end);
    *text->at++ = '}';
    writer->totals.events++;
    if ((kind == EVENT_LAUNCH || trace_event_is_work(kind)) && event->aux != 0)
        write_flow(writer, event, pid, tid);
}

/* Allocated and reserved bytes at a step's end, as a counter. */
static void write_memory(struct trace_writer *writer, const struct event *event)
{
    uint16_t device = EVENT_AUX16(event->meta);
    struct trace_text *text = &writer->text;

    trace_event_begin(writer);
    TRACE_PUT(text, "{\"ph\":\"C\",\"cat\":\"trainglass\",\"name\":\"memory ");
    if (EVENT_DEVICE_TYPE(device) == 0) {
        TRACE_PUT(text, "cpu\"");
    } else {
        TRACE_NUMBER(text, "device ", EVENT_DEVICE_INDEX(device));
        TRACE_PUT(text, "\"");
    }
    trace_event_where(writer, writer->process->pid, 0);
    trace_text_us(text, (int64_t)event->time);
    TRACE_NUMBER(text, ",\"args\":{\"allocated_bytes\":", event->value);
    if (event->aux != 0)
        TRACE_NUMBER(text, ",\"reserved_bytes\":", event->aux);
    TRACE_PUT(text, "}}");
    writer->totals.events++;
}

/* What the allocator asked of the driver: in a sample's second and third record. */
static void put_driver(struct trace_text *text, const struct event *event,
                       const struct event *end)
{
    const struct event *calls = more_of(event, 3, end);
    uint32_t flags = EVENT_FLAGS(event[2].meta);

    if (flags & EVENT_MEMORY_FAILED)
        TRACE_PUT(text, ",\"failed\":1");
    if (flags & (EVENT_MEMORY_SEGMENTS | EVENT_MEMORY_OOMS))
        TRACE_NUMBER(text, ",\"ooms\":", event[2].aux >> 32);
    if ((flags & EVENT_MEMORY_SEGMENTS) == 0)
        return;
    TRACE_NUMBER(text, ",\"segments_got\":", event[2].value & UINT32_MAX);
    TRACE_NUMBER(text, ",\"segments_given_back\":", event[2].value >> 32);
    TRACE_NUMBER(text, ",\"retries\":", event[2].aux & UINT32_MAX);
    if (calls == NULL)
        return;
    TRACE_NUMBER(text, ",\"driver_ns\":", calls->value);
    if (calls->aux == 0)
        return;
    TRACE_NUMBER(text, ",\"segments\":", calls->aux - 1);
}

/* The same for whoever reads traces, as torch's allocator tells it, and what else the
 * sample holds: the reader gives the live run's table back. */
static void write_sample(struct trace_writer *writer, const struct event *event,
                         const struct event *end)
{
    bool peak = more_of(event, 1, end) != NULL;
    bool bytes = peak && more_of(event, 2, end) != NULL;
    struct trace_text *text = &writer->text;

    trace_event_begin(writer);
    TRACE_PUT(text, "{\"ph\":\"i\",\"s\":\"t\",\"cat\":\"cpu_instant_event\","
                    "\"name\":\"[memory]\"");
    trace_event_where(writer, writer->process->pid, 0);
    trace_text_us(text, (int64_t)event->time);
    put_device_of_memory(writer, EVENT_AUX16(event->meta));
    TRACE_NUMBER(text, ",\"Bytes\":0,\"Total Allocated\":", event->value);
    if (event->aux != 0)
        TRACE_NUMBER(text, ",\"Total Reserved\":", event->aux);
    TRACE_PUT(text, ",\"trainglass\":\"memory\"");
    if (EVENT_NAME(event->meta) != 0) {
        TRACE_PUT(text, ",\"op\":");
        put_name(writer, EVENT_NAME(event->meta));
    }
    if (peak) {
        TRACE_NUMBER(text, ",\"peak_bytes\":", event[1].value);
        TRACE_SIGNED(text,
                     ",\"peak_ns_before\":", (int64_t)(event->time - event[1].time));
        TRACE_NUMBER(text, ",\"allocations\":", event[1].aux & UINT32_MAX);
        TRACE_NUMBER(text, ",\"frees\":", event[1].aux >> 32);
    }
    if (bytes) {
        TRACE_NUMBER(text, ",\"taken_bytes\":", event[2].time);
        put_driver(text, event, end);
    }
    TRACE_PUT(text, "}}");
}

/* ---- between the parts -------------------------------------------------------------- */

bool trace_event_touches(const struct event *event, const struct trace_limits *limits)
{
    int64_t start = (int64_t)event->time, end = start;

    if (shapes[EVENT_KIND(event->meta) & EVENT_MORE].range)
        end = trace_event_end_ns(event);
    return start < limits->to_ns && (end > limits->from_ns || start >= limits->from_ns);
}

bool trace_event_is_written(uint8_t kind)
{
    return kind <= EVENT_MORE && (shapes[kind].head != NULL || kind == EVENT_MEMORY);
}

void trace_event_write(struct trace_writer *writer, const struct event *event,
                       const struct event *end, uint32_t thread)
{
    if (EVENT_KIND(event->meta) == EVENT_MEMORY) {
        write_memory(writer, event);
        write_sample(writer, event, end);
        return;
    }
    write_event(writer, event, end, thread);
}
