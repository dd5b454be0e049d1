#include "trace/trace_writer.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include "trace/trace_text.h"
#include "wire/segment.h"

/* Escaped names by id; a colliding id is escaped anew. */
#define NAME_SLOTS 4096u
#define NAME_BYTES 96u /* longer ones are not kept */

struct name_slot {
    uint32_t id; /* 0: empty */
    uint32_t size;
    char text[NAME_BYTES];
};

struct writer {
    struct trace_text text;
    const struct trace_limits *limits;
    struct trace_totals totals;
    const struct trace_process *process;
    struct name_slot *names;
    struct {
        int64_t pid, tid;
        size_t size; /* 0: none yet */
        char text[80];
    } where;    /* the newest pid and tid: most events share the one before */
    bool first; /* no comma before the next event */
};

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

static const char *const phases[EVENT_PHASES] = {"data", "forward", "backward",
                                                 "optimizer"};

static void begin(struct writer *writer)
{
    trace_text_begin(&writer->text);
    if (!writer->first)
        TRACE_PUT(&writer->text, ",\n");
    writer->first = false;
}

static void put_name(struct writer *writer, uint32_t id)
{
    struct name_slot *slot = &writer->names[id % NAME_SLOTS];
    struct trace_text *text = &writer->text;
    const char *start = text->at;

    if (slot->id == id && id != 0) {
        trace_text_put(text, slot->text, slot->size);
        return;
    }
    trace_text_string(text, trace_name(writer->process, id));
    if (text->at - start <= (ptrdiff_t)NAME_BYTES && id != 0) {
        slot->id = id;
        slot->size = (uint32_t)(text->at - start);
        memcpy(slot->text, start, slot->size);
    }
}

static void put_where(struct writer *writer, int64_t pid, int64_t tid)
{
    struct trace_text *text = &writer->text;
    const char *start = text->at;

    if (writer->where.size > 0 && writer->where.pid == pid &&
        writer->where.tid == tid) {
        trace_text_put(text, writer->where.text, writer->where.size);
        return;
    }
    TRACE_PUT(text, ",\"pid\":");
    trace_text_signed(text, pid);
    TRACE_PUT(text, ",\"tid\":");
    trace_text_signed(text, tid);
    TRACE_PUT(text, ",\"ts\":");
    writer->where.pid = pid;
    writer->where.tid = tid;
    writer->where.size = (size_t)(text->at - start);
    memcpy(writer->where.text, start, writer->where.size);
}

/* ---- one event ------------------------------------------------------------------- */

static bool on_device(uint8_t kind)
{
    return kind == EVENT_KERNEL || kind == EVENT_MEMCPY || kind == EVENT_MEMSET;
}

/* The stream of GPU work stands in the record behind it; 0 when it is cut off. */
static uint32_t stream_of(const struct event *event, const struct event *end)
{
    if (event + 1 >= end || EVENT_KIND(event[1].meta) != EVENT_MORE ||
        EVENT_AUX16(event[1].meta) != 1)
        return 0;
    return (uint32_t)(EVENT_KIND(event->meta) == EVENT_KERNEL ? event[1].time
                                                              : event[1].value);
}

static void put_copy_bytes(struct writer *writer, const struct event *event,
                           const struct event *end)
{
    if (event + 1 >= end || EVENT_KIND(event[1].meta) != EVENT_MORE)
        return;
    TRACE_PUT(&writer->text, ",\"bytes\":");
    trace_text_number(&writer->text, event[1].time);
}

static void put_device_args(struct writer *writer, const struct event *event,
                            const struct event *end)
{
    TRACE_PUT(&writer->text, ",\"args\":{\"device\":");
    trace_text_number(&writer->text, EVENT_DEVICE_INDEX(EVENT_AUX16(event->meta)));
    TRACE_PUT(&writer->text, ",\"stream\":");
    trace_text_number(&writer->text, stream_of(event, end));
    TRACE_PUT(&writer->text, ",\"correlation\":");
    trace_text_number(&writer->text, event->aux);
    if (EVENT_KIND(event->meta) != EVENT_KERNEL)
        put_copy_bytes(writer, event, end);
    TRACE_PUT(&writer->text, "}");
}

static void put_alloc_args(struct writer *writer, const struct event *event)
{
    uint16_t device = EVENT_AUX16(event->meta);

    TRACE_PUT(&writer->text, ",\"args\":{\"Device Type\":");
    trace_text_number(&writer->text, EVENT_DEVICE_TYPE(device));
    TRACE_PUT(&writer->text, ",\"Device Id\":");
    trace_text_signed(&writer->text,
                      EVENT_DEVICE_TYPE(device) == 0 ? -1 : EVENT_DEVICE_INDEX(device));
    TRACE_PUT(&writer->text, ",\"Bytes\":");
    trace_text_signed(&writer->text, (int64_t)event->value);
    TRACE_PUT(&writer->text, ",\"Total Allocated\":");
    trace_text_number(&writer->text, event->aux);
    TRACE_PUT(&writer->text, "}");
}

static void put_args(struct writer *writer, const struct event *event,
                     const struct event *end)
{
    uint8_t kind = EVENT_KIND(event->meta);

    if (kind == EVENT_PHASE) {
        TRACE_PUT(&writer->text, ",\"args\":{\"trainglass\":\"phase\",\"step\":");
        trace_text_number(&writer->text, EVENT_STEP_NUMBER(event->aux));
        TRACE_PUT(&writer->text, "}");
    } else if (kind == EVENT_CPU_OP && event->aux != 0) {
        TRACE_PUT(&writer->text, ",\"args\":{\"Sequence number\":");
        trace_text_number(&writer->text, event->aux);
        TRACE_PUT(&writer->text, "}");
    } else if (on_device(kind)) {
        put_device_args(writer, event, end);
    } else if (kind == EVENT_RUNTIME || kind == EVENT_LAUNCH || kind == EVENT_SYNC) {
        TRACE_PUT(&writer->text, ",\"args\":{\"correlation\":");
        trace_text_number(&writer->text, event->aux);
        TRACE_PUT(&writer->text, "}");
    } else if (kind == EVENT_ALLOC) {
        put_alloc_args(writer, event);
    } else if (kind == EVENT_COLLECTIVE) {
        TRACE_PUT(&writer->text, ",\"args\":{\"trainglass\":\"collective\",\"bytes\":");
        trace_text_number(&writer->text, event->aux);
        TRACE_PUT(&writer->text, "}");
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

static void put_event_name(struct writer *writer, const struct event *event)
{
    uint8_t kind = EVENT_KIND(event->meta);
    uint16_t phase = EVENT_AUX16(event->meta);

    if (kind == EVENT_PHASE)
        trace_text_string(&writer->text,
                          phase < EVENT_PHASES ? phases[phase] : "phase");
    else if (kind == EVENT_ALLOC)
        TRACE_PUT(&writer->text, "\"[memory]\"");
    else if (kind == EVENT_MARK && EVENT_NAME(event->meta) == 0)
        trace_text_string(&writer->text, mark_name(EVENT_FLAGS(event->meta)));
    else
        put_name(writer, EVENT_NAME(event->meta));
}

/* The arrow from a launch to its kernel. */
static void write_flow(struct writer *writer, const struct event *event, int64_t pid,
                       int64_t tid)
{
    bool device = on_device(EVENT_KIND(event->meta));

    begin(writer);
    if (device)
        TRACE_PUT(&writer->text, "{\"ph\":\"f\",\"bp\":\"e\",\"id\":");
    else
        TRACE_PUT(&writer->text, "{\"ph\":\"s\",\"id\":");
    trace_text_number(&writer->text, event->aux);
    TRACE_PUT(&writer->text, ",\"cat\":\"ac2g\",\"name\":\"ac2g\"");
    put_where(writer, pid, tid);
    trace_text_us(&writer->text, (int64_t)event->time);
    TRACE_PUT(&writer->text, "}");
}

/* Readers in JavaScript reckon in doubles: what touches in ns may then overlap by a
 * rounding, and they nest the next step into this one. Steps and phases touch, so they
 * give way to what follows; a phase may end with its step, and before it. */
#define STEP_GAP_NS  1
#define PHASE_GAP_NS 2

static int64_t shortened_ns(int64_t length_ns, int64_t gap_ns)
{
    return length_ns > gap_ns ? length_ns - gap_ns : 0;
}

static void write_event(struct writer *writer, const struct event *event,
                        const struct event *end, uint32_t thread)
{
    uint8_t kind = EVENT_KIND(event->meta);
    const struct shape *shape = &shapes[kind];
    struct trace_text *text = &writer->text;
    int64_t pid = writer->process->pid, tid = thread;

    if (on_device(kind)) {
        pid = EVENT_DEVICE_INDEX(EVENT_AUX16(event->meta));
        tid = stream_of(event, end);
    }
    begin(writer);
    trace_text_put(text, shape->head, shape->size);
    put_event_name(writer, event);
    put_where(writer, pid, tid);
    trace_text_us(text, (int64_t)event->time);
    if (shape->range) {
        TRACE_PUT(text, ",\"dur\":");
        trace_text_us(text, shortened_ns((int64_t)event->value,
                                         kind == EVENT_PHASE ? PHASE_GAP_NS : 0));
    }
    put_args(writer, event, end);
    *text->at++ = '}';
    writer->totals.events++;
    if ((kind == EVENT_LAUNCH || on_device(kind)) && event->aux != 0)
        write_flow(writer, event, pid, tid);
}

/* Allocated and reserved bytes at a step's end, as a counter. */
static void write_memory(struct writer *writer, const struct event *event)
{
    uint16_t device = EVENT_AUX16(event->meta);
    struct trace_text *text = &writer->text;

    begin(writer);
    TRACE_PUT(text, "{\"ph\":\"C\",\"cat\":\"trainglass\",\"name\":\"memory ");
    if (EVENT_DEVICE_TYPE(device) == 0) {
        TRACE_PUT(text, "cpu\"");
    } else {
        TRACE_PUT(text, "device ");
        trace_text_number(text, EVENT_DEVICE_INDEX(device));
        TRACE_PUT(text, "\"");
    }
    put_where(writer, writer->process->pid, 0);
    trace_text_us(text, (int64_t)event->time);
    TRACE_PUT(text, ",\"args\":{\"allocated_bytes\":");
    trace_text_number(text, event->value);
    if (event->aux != 0) {
        TRACE_PUT(text, ",\"reserved_bytes\":");
        trace_text_number(text, event->aux);
    }
    TRACE_PUT(text, "}}");
    writer->totals.events++;
}

/* ---- blocks ------------------------------------------------------------------------ */

static bool touches(const struct event *event, const struct trace_limits *limits)
{
    int64_t start = (int64_t)event->time, end = start;

    if (shapes[EVENT_KIND(event->meta) & EVENT_MORE].range)
        end += (int64_t)event->value;
    return start < limits->to_ns && (end > limits->from_ns || start >= limits->from_ns);
}

static bool is_written(uint8_t kind)
{
    return kind <= EVENT_MORE && (shapes[kind].head != NULL || kind == EVENT_MEMORY);
}

static bool fits(const struct writer *writer)
{
    uint64_t bytes =
        writer->text.given + (uint64_t)(writer->text.at - writer->text.start);

    return writer->limits->max_bytes == 0 ||
           bytes + TRACE_EVENT_BYTES <= writer->limits->max_bytes;
}

static void write_block(struct writer *writer, const struct trace_block *block)
{
    const struct trace_process *process = writer->process;
    const struct event *end = block->events + block->count;
    uint32_t tid = block->thread < process->thread_count
                       ? process->threads[block->thread].tid
                       : block->thread;

    for (const struct event *event = block->events; event < end; event++) {
        uint8_t kind = EVENT_KIND(event->meta);

        if (!is_written(kind) || !touches(event, writer->limits))
            continue;
        writer->totals.seen++;
        if (!fits(writer)) {
            writer->totals.skipped++;
            continue;
        }
        if (kind == EVENT_MEMORY)
            write_memory(writer, event);
        else
            write_event(writer, event, end, tid);
    }
}

/* ---- steps, names, frame ------------------------------------------------------------- */

static void put_phase(struct writer *writer, const char *key, double ns)
{
    trace_text_put(&writer->text, key, strlen(key));
    if (isfinite(ns))
        trace_text_signed(&writer->text, llround(ns));
    else
        TRACE_PUT(&writer->text, "null");
}

static const char *recorded_name(uint32_t flags)
{
    bool ops = (flags & EVENT_STEP_OPS) != 0,
         kernels = (flags & EVENT_STEP_KERNELS) != 0;

    if (ops)
        return kernels ? "all" : "ops";
    return kernels ? "kernels" : "phases";
}

static void write_step(struct writer *writer, const struct step_row *step)
{
    static const char *const keys[EVENT_PHASES] = {
        ",\"data_ns\":", ",\"forward_ns\":", ",\"backward_ns\":", ",\"optimizer_ns\":"};
    bool validation = (step->flags & EVENT_STEP_VALIDATION) != 0;
    struct trace_text *text = &writer->text;
    uint32_t pid = writer->process->pid;

    begin(writer);
    if (validation) {
        TRACE_PUT(text, "{\"ph\":\"X\",\"cat\":\"user_annotation\",\"name\":"
                        "\"ValidationStep\"");
    } else {
        TRACE_PUT(text, "{\"ph\":\"X\",\"cat\":\"user_annotation\",\"name\":"
                        "\"ProfilerStep#");
        trace_text_signed(text, step->number);
        TRACE_PUT(text, "\"");
    }
    put_where(writer, pid, pid);
    trace_text_us(text, step->start_ns);
    TRACE_PUT(text, ",\"dur\":");
    trace_text_us(text, shortened_ns(llround(step->duration_ns), STEP_GAP_NS));
    TRACE_PUT(text, ",\"args\":{\"epoch\":");
    if (step->epoch != 0)
        trace_text_number(text, step->epoch);
    else
        TRACE_PUT(text, "null");
    TRACE_PUT(text, ",\"recorded\":");
    trace_text_string(text, recorded_name(step->flags));
    if ((step->flags & EVENT_STEP_TAGGED) != 0)
        TRACE_PUT(text, ",\"tagged\":true");
    else
        TRACE_PUT(text, ",\"tagged\":false");
    for (int i = 0; i < EVENT_PHASES; i++)
        put_phase(writer, keys[i], step->phase_ns[i]);
    TRACE_PUT(text, "}}");
    writer->totals.steps += !validation;
    writer->totals.recorded_steps +=
        !validation && (step->flags & (EVENT_STEP_OPS | EVENT_STEP_KERNELS)) != 0;
}

static void write_label(struct writer *writer, const char *kind, int64_t tid,
                        const char *name)
{
    struct trace_text *text = &writer->text;

    begin(writer);
    TRACE_PUT(text, "{\"ph\":\"M\",\"name\":");
    trace_text_string(text, kind);
    put_where(writer, writer->process->pid, tid);
    TRACE_PUT(text, "0.000,\"args\":{\"name\":");
    trace_text_string(text, name);
    TRACE_PUT(text, "}}");
}

static const char *role_name(uint32_t role)
{
    if (role == WIRE_ROLE_TRAINER)
        return "trainer";
    return role == WIRE_ROLE_LAUNCHER ? "launcher" : "worker";
}

static void write_process(struct writer *writer, const struct trace_process *process)
{
    char label[64];

    writer->process = process;
    memset(writer->names, 0, NAME_SLOTS * sizeof(*writer->names));
    if (process->rank >= 0)
        (void)snprintf(label, sizeof(label), "%s, rank %" PRId32,
                       role_name(process->role), process->rank);
    else
        (void)snprintf(label, sizeof(label), "%s", role_name(process->role));
    write_label(writer, "process_name", 0, label);
    for (uint32_t i = 0; i < process->thread_count; i++) {
        const struct trace_thread *thread = &process->threads[i];

        if (thread->name != NULL && *thread->name != '\0')
            write_label(writer, "thread_name", thread->tid, thread->name);
    }
    for (uint32_t i = 0; i < process->step_count; i++)
        write_step(writer, &process->steps[i]);
    for (uint32_t i = 0; i < process->block_count && !writer->text.broken; i++) {
        if (writer->limits->one_in < 2 || i % writer->limits->one_in == 0)
            write_block(writer, &process->blocks[i]);
    }
}

static void write_head(struct writer *writer, const struct trace_answer *answer,
                       const char *facts)
{
    struct trace_text *text = &writer->text;
    size_t size = strlen(facts);
    uint64_t lost = 0;

    for (uint32_t i = 0; i < answer->process_count; i++)
        lost += answer->processes[i].lost_events;
    TRACE_PUT(text, "{\"trainglass\":{\"format\":1,\"session\":");
    trace_text_string(text, answer->head.session);
    TRACE_PUT(text, ",\"rank\":");
    if (answer->head.rank >= 0)
        trace_text_signed(text, answer->head.rank);
    else
        TRACE_PUT(text, "null");
    TRACE_PUT(text, ",\"facts\":");
    trace_text_put(text, size < TRACE_EVENT_BYTES ? facts : "{}",
                   size < TRACE_EVENT_BYTES ? size : 2);
    TRACE_PUT(text, ",\"losses\":{\"lost_events\":");
    trace_text_number(text, lost);
    TRACE_PUT(text, "},\"start_unix_ns\":");
    trace_text_signed(text, answer->head.start_unix_ns);
    TRACE_PUT(text, "},\"schemaVersion\":1,\"displayTimeUnit\":\"ms\","
                    "\"baseTimeNanoseconds\":");
    trace_text_signed(text, answer->head.start_unix_ns);
    TRACE_PUT(text, ",\"traceEvents\":[\n");
}

static void write_tail(struct writer *writer)
{
    struct trace_text *text = &writer->text;

    trace_text_begin(text);
    TRACE_PUT(text, "\n],\"trainglassEnd\":{\"events\":");
    trace_text_number(text, writer->totals.events);
    TRACE_PUT(text, ",\"skipped\":");
    trace_text_number(text, writer->totals.skipped);
    TRACE_PUT(text, "}}\n");
    trace_text_flush(text);
}

struct trace_totals trace_write(const struct trace_answer *answer,
                                const struct trace_limits *limits, const char *facts,
                                const struct trace_sink *sink)
{
    struct writer writer = {.limits = limits, .first = true};

    writer.names = calloc(NAME_SLOTS, sizeof(*writer.names));
    if (writer.names == NULL || !trace_text_open(&writer.text, sink)) {
        free(writer.names);
        return writer.totals;
    }
    write_head(&writer, answer, facts);
    trace_text_flush(&writer.text); /* the first byte at once */
    for (uint32_t i = 0; i < answer->process_count; i++)
        write_process(&writer, &answer->processes[i]);
    write_tail(&writer);
    writer.totals.bytes = writer.text.given;
    writer.totals.whole = !writer.text.broken;
    trace_text_close(&writer.text);
    free(writer.names);
    return writer.totals;
}

uint64_t trace_count(const struct trace_answer *answer,
                     const struct trace_limits *limits)
{
    uint64_t count = 0;

    for (uint32_t i = 0; i < answer->process_count; i++) {
        const struct trace_process *process = &answer->processes[i];

        for (uint32_t j = 0; j < process->block_count; j++) {
            const struct trace_block *block = &process->blocks[j];

            for (uint32_t k = 0; k < block->count; k++)
                count += is_written(EVENT_KIND(block->events[k].meta)) &&
                         touches(&block->events[k], limits);
        }
    }
    return count;
}
