/* Traces that trainglass wrote: they say what steps and phases were, and a live run's
 * tables come back. */
#include <stdlib.h>
#include <string.h>

#include "ingest/file/parts.h"
#include "ingest/trace/args.h"

/* What the writer takes off, so that neighbours do not touch in viewers. */
#define STEP_GAP_NS  1
#define RANGE_GAP_NS 2

static const char *const phase_keys[EVENT_PHASES] = {"data_ns", "forward_ns",
                                                     "backward_ns", "optimizer_ns"};

static void take_step(struct file *file, const struct trace_event *event,
                      const char *recorded)
{
    bool validation = file_name_kind(file, event->name) == FILE_NAME_VALIDATION;
    struct file_step *step =
        FILE_LIST_ADD(file, &file->steps, FILE_REMARK_MARKS, struct file_step,
                      {.start_ns = event->time_ns,
                       .end_ns = event->time_ns + event->duration_ns + STEP_GAP_NS,
                       .number = EVENT_STEP_NONE,
                       .flags = EVENT_STEP_MARKED});
    const char *name = trace_names_get(file->names, event->name, NULL);
    int64_t number;

    if (step == NULL)
        return;
    file->held_bytes += sizeof(*step);
    if (validation)
        step->flags |= EVENT_STEP_VALIDATION;
    else
        step->number = file_step_number(name);
    if (strcmp(recorded, "ops") == 0 || strcmp(recorded, "all") == 0)
        step->flags |= EVENT_STEP_OPS;
    if (strcmp(recorded, "kernels") == 0 || strcmp(recorded, "all") == 0)
        step->flags |= EVENT_STEP_KERNELS;
    if (trace_args_true(event, "tagged"))
        step->flags |= EVENT_STEP_TAGGED;
    if (trace_args_integer(event, "epoch", &number) && number > 0 &&
        number <= UINT16_MAX)
        step->epoch = (uint16_t)number;
    for (uint32_t phase = 0; phase < EVENT_PHASES; phase++) {
        if (!trace_args_integer(event, phase_keys[phase], &number) || number < 0 ||
            number > event->duration_ns + STEP_GAP_NS)
            continue;
        step->known |= (uint8_t)(1u << phase);
        step->phase_ns[phase] = number;
    }
    file->own = true;
}

static bool take_phase(struct file *file, const struct trace_event *event)
{
    char said[16];
    uint32_t length;
    const char *name = trace_names_get(file->names, event->name, &length);

    trace_args_text(event, "trainglass", said, sizeof(said));
    if (strcmp(said, "phase") != 0)
        return false;
    struct file_mark *mark =
        FILE_LIST_ADD(file, &file->phases, FILE_REMARK_MARKS, struct file_mark,
                      {.start_ns = event->time_ns,
                       .end_ns = event->time_ns + event->duration_ns + RANGE_GAP_NS});

    if (mark == NULL)
        return true;
    file->held_bytes += sizeof(*mark);
    while (mark->kind < EVENT_PHASES - 1 &&
           strncmp(name, phase_keys[mark->kind], length) != 0)
        mark->kind++;
    return true;
}

bool file_take_own(struct file *file, const struct trace_event *event)
{
    enum file_name kind = file_name_kind(file, event->name);
    char recorded[16];

    if (kind == FILE_NAME_PHASE)
        return take_phase(file, event);
    if (kind != FILE_NAME_STEP && kind != FILE_NAME_VALIDATION)
        return false;
    trace_args_text(event, "recorded", recorded, sizeof(recorded));
    if (recorded[0] == '\0')
        return false;
    take_step(file, event, recorded);
    return kind == FILE_NAME_VALIDATION; /* a step speaks for its thread */
}

int64_t file_length_ns(const struct file *file, enum file_name name,
                       const struct trace_event *event)
{
    if (!file->own)
        return event->duration_ns;
    if (name == FILE_NAME_STEP)
        return event->duration_ns + STEP_GAP_NS;
    if (event->duration_ns > 0)
        return event->duration_ns + RANGE_GAP_NS;
    uint64_t ns = trace_args_count(event, "ns");

    return ns <= RANGE_GAP_NS ? (int64_t)ns : 0;
}

/* What the allocator asked of the driver, where the sample has it. */
static void take_driver(struct file_sample *sample, const struct trace_event *event)
{
    struct event *counts = &sample->events[2];
    int64_t number, segments;

    counts->aux = trace_args_count(event, "ooms") << 32;
    if (trace_args_integer(event, "ooms", &number))
        counts->meta |= EVENT_META(0, 0, EVENT_MEMORY_OOMS, 0);
    if (trace_args_count(event, "failed") > 0)
        counts->meta |= EVENT_META(0, 0, EVENT_MEMORY_FAILED, 0);
    if (!trace_args_integer(event, "segments_got", &number))
        return;
    counts->value = (trace_args_count(event, "segments_got") & UINT32_MAX) |
                    trace_args_count(event, "segments_given_back") << 32;
    counts->meta |= EVENT_META(0, 0, EVENT_MEMORY_SEGMENTS, 0);
    counts->aux |= trace_args_count(event, "retries") & UINT32_MAX;
    bool whole = trace_args_integer(event, "segments", &segments) && segments >= 0 &&
                 segments < INT32_MAX;

    sample->events[3] = (struct event){.time = (uint64_t)event->time_ns,
                                       .value = trace_args_count(event, "driver_ns"),
                                       .meta = EVENT_META(0, EVENT_MORE, 0, 3),
                                       .aux = whole ? (uint64_t)segments + 1 : 0};
    sample->more = 3;
}

bool file_take_sample(struct file *file, const struct trace_event *event)
{
    struct file_sample *sample;
    char text[512];
    int64_t before_ns;
    uint32_t op = 0;
    uint16_t device = EVENT_DEVICE((uint8_t)event->device_type,
                                   event->device_type == 0 || event->device_id < 0
                                       ? 0
                                       : (uint8_t)event->device_id);

    if (event->bytes != 0 || !(event->has & TRACE_HAS_TOTAL_ALLOCATED))
        return false;
    trace_args_text(event, "trainglass", text, sizeof(text));
    if (strcmp(text, "memory") != 0)
        return false;
    trace_args_text(event, "op", text, sizeof(text));
    sample = FILE_LIST_ADD(
        file, &file->samples, FILE_REMARK_MARKS, struct file_sample,
        {.events = {{.time = (uint64_t)event->time_ns,
                     .value = (uint64_t)event->total_allocated_bytes,
                     .aux = trace_args_count(event, "Total Reserved")},
                    {.value = trace_args_count(event, "peak_bytes"),
                     .meta = EVENT_META(0, EVENT_MORE, 0, 1),
                     .aux = (trace_args_count(event, "allocations") & UINT32_MAX) |
                            trace_args_count(event, "frees") << 32},
                    {.time = trace_args_count(event, "taken_bytes"),
                     .meta = EVENT_META(0, EVENT_MORE, 0, 2)}}});
    if (sample == NULL)
        return true;
    file->held_bytes += sizeof(*sample);
    if (text[0] != '\0')
        op = trace_names_intern(file->names, text, strlen(text));
    sample->events[0].meta = EVENT_META(op, EVENT_MEMORY, 0, device);
    if (trace_args_integer(event, "peak_ns_before", &before_ns) &&
        before_ns >= -FILE_TIME_MAX_NS && before_ns <= FILE_TIME_MAX_NS) {
        sample->events[1].time = (uint64_t)(event->time_ns - before_ns);
        sample->more = 2;
    }
    if (sample->more == 2)
        take_driver(sample, event);
    return true;
}

static struct event phase_event(const struct file_step *step, uint32_t phase,
                                int64_t start_ns, int64_t duration_ns)
{
    return (struct event){.time = (uint64_t)start_ns,
                          .value = (uint64_t)duration_ns,
                          .meta = EVENT_META(0, EVENT_PHASE, 0, phase),
                          .aux = step->number};
}

uint32_t file_phases_own(const struct file *file, struct file_phases *phases,
                         const struct file_step *step, struct event *events,
                         uint32_t most)
{
    const struct file_mark *marks = file->phases.items;
    int64_t at = step->start_ns;
    uint32_t count = 0;

    while (phases->mark < file->phases.count &&
           marks[phases->mark].start_ns < step->start_ns)
        phases->mark++;
    for (; phases->mark < file->phases.count &&
           marks[phases->mark].start_ns < step->end_ns && count < most;
         phases->mark++) {
        const struct file_mark *mark = &marks[phases->mark];

        events[count++] = phase_event(step, mark->kind, mark->start_ns,
                                      mark->end_ns - mark->start_ns);
    }
    if (count > 0)
        return count;
    /* The stretches are forgotten: how long they were is all that is known. */
    for (uint32_t phase = 0; phase < EVENT_PHASES && count < most; phase++) {
        if (step->phase_ns[phase] == 0)
            continue;
        events[count++] = phase_event(step, phase, at, step->phase_ns[phase]);
        at += step->phase_ns[phase];
    }
    return count;
}
