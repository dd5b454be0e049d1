/* Any events to a trace and back: what is written is valid JSON, and our reader finds in
 * it every event that was counted, with its kind, its times and what links it. The same
 * events added up by their calls: no path has more than there is. */
#include <string.h>

#include "aggregate/sum.h"
#include "cut/cut_json.h"
#include "fuzz.h"
#include "ingest/trace/reader.h"
#include "trace/call_tree.h"
#include "trace/trace_event.h"

#define EVENTS_MAX 1024u
#define BLOCKS     2u

static char long_name[6000];
static const char *const names[] = {
    "aten::mm", "</script>\"\\\x01\n", "\xc3\xa9\xe2\x82\xac", "ProfilerStep#7", "",
    long_name};

struct reading {
    const struct event *next, *end; /* what was written */
    const struct trace_limits *limits;
    uint64_t events, others; /* read: of the history; steps, labels, arrows, samples */
};

/* The tables' own looks a name up in the session; here there is none. */
const char *trace_name(const struct trace_process *process, uint32_t id)
{
    (void)process;
    return id == 0 ? "" : names[id % (sizeof(names) / sizeof(names[0]))];
}

static bool collect(void *context, const void *data, size_t size)
{
    bytes_append(context, data, size);
    return true;
}

/* ---- and back ----------------------------------------------------------------------- */

static bool is_device(uint8_t kind)
{
    return kind == EVENT_KERNEL || kind == EVENT_MEMCPY || kind == EVENT_MEMSET;
}

static void check_event(const struct event *event, const struct trace_event *read)
{
    uint8_t kind = EVENT_KIND(event->meta);

    demand(read->time_ns == (int64_t)event->time);
    if (read->phase == 'X')
        demand(
            read->duration_ns == /* not negative */
            trace_event_shortened_ns((int64_t)event->value, trace_event_gap_ns(kind)));
    if (is_device(kind)) {
        demand(read->device == EVENT_DEVICE_INDEX(EVENT_AUX16(event->meta)));
        demand(read->category == (kind == EVENT_KERNEL   ? TRACE_KERNEL
                                  : kind == EVENT_MEMCPY ? TRACE_MEMCPY
                                                         : TRACE_MEMSET));
    }
    if (is_device(kind) || kind == EVENT_LAUNCH || kind == EVENT_RUNTIME ||
        kind == EVENT_SYNC)
        demand(event->aux > INT64_MAX || read->correlation == (int64_t)event->aux);
    if (kind == EVENT_CPU_OP && event->aux <= INT64_MAX)
        demand(read->sequence == (int64_t)event->aux);
    if (kind == EVENT_ALLOC)
        demand(read->bytes == (int64_t)event->value &&
               (event->aux > INT64_MAX ||
                read->total_allocated_bytes == (int64_t)event->aux));
}

/* Arrows and what stands around the events is not theirs. */
static bool is_other(const struct trace_event *read)
{
    return read->phase == 'M' || read->phase == 's' || read->phase == 'f' ||
           (read->category == TRACE_CPU_INSTANT && read->bytes == 0 &&
            memmem(read->text, read->length, "\"memory\"", 8) != NULL);
}

static bool check(void *user, struct trace_event *events, uint32_t count)
{
    struct reading *reading = user;

    for (uint32_t i = 0; i < count; i++) {
        if (is_other(&events[i])) {
            reading->others++;
            continue;
        }
        while (reading->next < reading->end &&
               (!trace_event_is_written(EVENT_KIND(reading->next->meta)) ||
                !trace_event_touches(reading->next, reading->limits)))
            reading->next++;
        demand(reading->next < reading->end);
        check_event(reading->next++, &events[i]);
        reading->events++;
    }
    return true;
}

static void check_text(const struct bytes *text, struct reading *reading)
{
    static const struct trace_options alone = {.one_thread = true};
    struct trace_reader *reader = trace_reader_new(&alone);
    struct bytes clean = {0};

    demand(cut_json_value(&clean, text->data, text->size - 1));
    demand(clean.size == text->size - 1 &&
           memcmp(clean.data, text->data, clean.size) == 0);
    bytes_close(&clean);
    demand(reader != NULL);
    demand(trace_reader_open_bytes(reader, text->data, text->size) == 0);
    demand(trace_reader_run(reader, check, reading) == 0);
    demand(trace_reader_skipped(reader) == 0);
    trace_reader_free(reader);
}

static void check_calls(const struct trace_answer *answer,
                        const struct trace_limits *limits)
{
    struct call_tree tree;

    demand(call_tree_build(&tree, answer, limits) == 0);
    for (uint32_t i = 0; i < tree.paths.count; i++)
        demand(tree.paths.list[i].self_ns <= SUM_MAX_NS &&
               tree.paths.list[i].device_ns >= 0 &&
               tree.paths.list[i].device_ns <= SUM_MAX_NS);
    for (int metric = FLAME_CPU; metric <= FLAME_DEVICE; metric++) {
        cJSON *body = call_tree_json(&tree, &answer->head, (enum flame_metric)metric);

        demand(body != NULL);
        cJSON_Delete(body);
    }
    call_tree_close(&tree);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static struct event events[EVENTS_MAX];
    static struct trace_thread threads[] = {{.tid = 7, .name = "main \"\\"}};
    size_t count = size / sizeof(events[0]);
    struct bytes text = {0};
    struct trace_sink sink = {collect, &text};
    struct trace_limits limits = {.to_ns = INT64_MAX, .from_ns = INT64_MIN};

    if (count > EVENTS_MAX)
        count = EVENTS_MAX;
    if (count > 0) /* the source is any address */
        memcpy(events, data, count * sizeof(events[0]));
    for (size_t i = 0; i < count; i++) /* the one stamp that the reader refuses */
        events[i].time += events[i].time == (uint64_t)INT64_MIN;
    if (size % sizeof(events[0]) == 1 && count > 0)
        limits.from_ns = (int64_t)events[0].time;
    memset(long_name, 1, sizeof(long_name) - 1);
    struct trace_block blocks[BLOCKS] = {
        {.events = events, .count = (uint32_t)(count / 2)},
        {.events = events + count / 2,
         .count = (uint32_t)(count - count / 2),
         .thread = 9}};
    struct trace_process process = {.pid = 3,
                                    .rank = -1,
                                    .threads = threads,
                                    .thread_count = 1,
                                    .blocks = blocks,
                                    .block_count = BLOCKS};
    struct trace_answer answer = {.head = {.session = "s-1", .rank = -1},
                                  .processes = &process,
                                  .process_count = 1};
    struct reading reading = {.next = events, .end = events + count, .limits = &limits};
    struct trace_totals totals = trace_write(&answer, &limits, "{}", &sink);

    demand(totals.whole && totals.bytes == text.size && totals.skipped == 0);
    check_text(&text, &reading);
    demand(reading.events == totals.events);
    demand(trace_count(&answer, &limits) == totals.seen);
    for (uint32_t i = 0; i < BLOCKS; i++)
        blocks[i].thread = 0; /* the one that there is */
    check_calls(&answer, &limits);
    bytes_close(&text);
    return 0;
}
