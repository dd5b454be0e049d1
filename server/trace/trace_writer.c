#include "trace/trace_writer.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include "trace/trace_event.h"
#include "wire/segment.h"
#include "wire/words.h"

/* ---- blocks ------------------------------------------------------------------------ */

static bool fits(const struct trace_writer *writer)
{
    uint64_t bytes =
        writer->text.given + (uint64_t)(writer->text.at - writer->text.start);

    return writer->limits->max_bytes == 0 ||
           bytes + TRACE_EVENT_BYTES <= writer->limits->max_bytes;
}

static void write_block(struct trace_writer *writer, const struct trace_block *block)
{
    const struct trace_process *process = writer->process;
    const struct event *end = block->events + block->count;
    uint32_t tid = block->thread < process->thread_count
                       ? process->threads[block->thread].tid
                       : block->thread;

    for (const struct event *event = block->events; event < end; event++) {
        uint8_t kind = EVENT_KIND(event->meta);

        if (!trace_event_is_written(kind) ||
            !trace_event_touches(event, writer->limits))
            continue;
        writer->totals.seen++;
        if (!fits(writer)) {
            writer->totals.skipped++;
            continue;
        }
        trace_event_write(writer, event, end, tid);
    }
}

/* ---- steps, names, frame ------------------------------------------------------------- */

static void put_phase(struct trace_writer *writer, const char *key, double ns)
{
    trace_text_put(&writer->text, key, strlen(key));
    if (isfinite(ns))
        trace_text_signed(&writer->text, llround(ns));
    else
        TRACE_PUT(&writer->text, "null");
}

static void write_step(struct trace_writer *writer, const struct step_row *step)
{
    static const char *const keys[EVENT_PHASES] = {
        ",\"data_ns\":", ",\"forward_ns\":", ",\"backward_ns\":", ",\"optimizer_ns\":"};
    bool validation = (step->flags & EVENT_STEP_VALIDATION) != 0;
    struct trace_text *text = &writer->text;
    uint32_t pid = writer->process->pid;

    trace_event_begin(writer);
    if (validation) {
        TRACE_PUT(text, "{\"ph\":\"X\",\"cat\":\"user_annotation\",\"name\":"
                        "\"ValidationStep\"");
    } else {
        TRACE_SIGNED(text,
                     "{\"ph\":\"X\",\"cat\":\"user_annotation\",\"name\":"
                     "\"ProfilerStep#",
                     step->number);
        TRACE_PUT(text, "\"");
    }
    trace_event_where(writer, pid, pid);
    trace_text_us(text, step->start_ns);
    TRACE_PUT(text, ",\"dur\":");
    trace_text_us(
        text, trace_event_shortened_ns(llround(step->duration_ns), TRACE_STEP_GAP_NS));
    TRACE_PUT(text, ",\"args\":{\"epoch\":");
    if (step->epoch != 0)
        trace_text_number(text, step->epoch);
    else
        TRACE_PUT(text, "null");
    TRACE_PUT(text, ",\"recorded\":");
    trace_text_string(text, step_recorded_name(step->flags));
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

static void write_label(struct trace_writer *writer, const char *kind, int64_t tid,
                        const char *name)
{
    struct trace_text *text = &writer->text;

    trace_event_begin(writer);
    TRACE_PUT(text, "{\"ph\":\"M\",\"name\":");
    trace_text_string(text, kind);
    trace_event_where(writer, writer->process->pid, tid);
    TRACE_PUT(text, "0.000,\"args\":{\"name\":");
    trace_text_string(text, name);
    TRACE_PUT(text, "}}");
}

static void write_process(struct trace_writer *writer,
                          const struct trace_process *process)
{
    char label[64];

    writer->process = process;
    memset(writer->names, 0, TRACE_NAME_SLOTS * sizeof(*writer->names));
    if (process->rank >= 0)
        (void)snprintf(label, sizeof(label), "%s, rank %" PRId32,
                       wire_role_word(process->role), process->rank);
    else
        (void)snprintf(label, sizeof(label), "%s", wire_role_word(process->role));
    write_label(writer, "process_name", 0, label);
    for (uint32_t i = 0; i < process->thread_count; i++) {
        const struct trace_thread *thread = &process->threads[i];

        if (thread->name != NULL && *thread->name != '\0')
            write_label(writer, "thread_name", thread->tid, thread->name);
    }
    if (process->step_count > 0)
        write_label(writer, "thread_name", TRACE_PHASES_TRACK, "phases of steps");
    for (uint32_t i = 0; i < process->step_count; i++)
        write_step(writer, &process->steps[i]);
    for (uint32_t i = 0; i < process->block_count && !writer->text.broken; i++) {
        if (writer->limits->one_in < 2 || i % writer->limits->one_in == 0)
            write_block(writer, &process->blocks[i]);
    }
}

static void write_head(struct trace_writer *writer, const struct trace_answer *answer,
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
    TRACE_NUMBER(text, ",\"losses\":{\"lost_events\":", lost);
    TRACE_PUT(text, "}");
    if (writer->limits->critical != NULL)
        TRACE_NUMBER(text, ",\"critical_steps\":", writer->limits->critical->steps);
    TRACE_SIGNED(text, ",\"start_unix_ns\":", answer->head.start_unix_ns);
    TRACE_SIGNED(text,
                 "},\"schemaVersion\":1,\"displayTimeUnit\":\"ms\","
                 "\"baseTimeNanoseconds\":",
                 answer->head.start_unix_ns);
    TRACE_PUT(text, ",\"traceEvents\":[\n");
}

static void write_tail(struct trace_writer *writer)
{
    struct trace_text *text = &writer->text;

    trace_text_begin(text);
    TRACE_NUMBER(text, "\n],\"trainglassEnd\":{\"events\":", writer->totals.events);
    TRACE_NUMBER(text, ",\"skipped\":", writer->totals.skipped);
    TRACE_PUT(text, "}}\n");
    trace_text_flush(text);
}

struct trace_totals trace_write(const struct trace_answer *answer,
                                const struct trace_limits *limits, const char *facts,
                                const struct trace_sink *sink)
{
    struct trace_writer writer = {.limits = limits, .first = true};

    writer.names = calloc(TRACE_NAME_SLOTS, sizeof(*writer.names));
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
                count += trace_event_is_written(EVENT_KIND(block->events[k].meta)) &&
                         trace_event_touches(&block->events[k], limits);
        }
    }
    return count;
}
