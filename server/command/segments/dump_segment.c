#include "command/segments/dump_segment.h"

#include <cjson/cJSON.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "wire/event.h"
#include "wire/words.h"

#define KINDS         64
#define NAME_SHOWN    200u /* bytes of a name; the page has the whole one */
#define READ_AT_ONCE  256u
#define RELAXED(word) atomic_load_explicit(&(word), memory_order_relaxed)

static const char *const kind_names[KINDS] = {[EVENT_STEP] = "step",
                                              [EVENT_PHASE] = "phase",
                                              [EVENT_CPU_OP] = "cpu_op",
                                              [EVENT_USER_RANGE] = "user_range",
                                              [EVENT_KERNEL] = "kernel",
                                              [EVENT_MEMCPY] = "memcpy",
                                              [EVENT_MEMSET] = "memset",
                                              [EVENT_SYNC] = "sync",
                                              [EVENT_RUNTIME] = "runtime",
                                              [EVENT_LAUNCH] = "launch",
                                              [EVENT_ALLOC] = "alloc",
                                              [EVENT_MEMORY] = "memory",
                                              [EVENT_METRIC] = "metric",
                                              [EVENT_MARK] = "mark",
                                              [EVENT_COLLECTIVE] = "collective",
                                              [EVENT_OVERHEAD] = "overhead",
                                              [EVENT_LOSS] = "loss",
                                              [EVENT_FACT] = "fact",
                                              [EVENT_THREAD] = "thread",
                                              [EVENT_SAMPLES] = "samples",
                                              [EVENT_WAITED] = "waited",
                                              [EVENT_KNOWN] = "known",
                                              [EVENT_MORE] = "more"};

static const char *kind_name(uint8_t kind)
{
    return kind < KINDS && kind_names[kind] != NULL ? kind_names[kind] : "unknown";
}

/* Integers of 64 bits are written as digits: a double has 53. */
static void add_number(cJSON *object, const char *key, uint64_t number)
{
    char digits[24];

    snprintf(digits, sizeof(digits), "%" PRIu64, number);
    cJSON_AddRawToObject(object, key, digits);
}

static cJSON *add_row(cJSON *rows)
{
    cJSON *row = cJSON_CreateObject();

    cJSON_AddItemToArray(rows, row);
    return row;
}

/* Foreign bytes to printable ASCII: a dump is read on terminals. */
static void add_text(cJSON *object, const char *key, const char *bytes, size_t length)
{
    char text[NAME_SHOWN + 4];
    size_t i = 0;

    for (; i < length && i < NAME_SHOWN && bytes[i] != '\0'; i++) {
        unsigned char c = (unsigned char)bytes[i];

        text[i] = c < 0x20 || c > 0x7e ? '?' : bytes[i];
    }
    snprintf(text + i, 4, "%s", i < length && i == NAME_SHOWN ? "..." : "");
    cJSON_AddStringToObject(object, key, text);
}

static void add_name(cJSON *object, const char *key, const struct wire_view *view,
                     uint32_t id)
{
    const char *bytes = "";
    uint32_t length = names_lookup(&view->names, id, &bytes);

    add_text(object, key, bytes, length);
}

static void add_header(cJSON *process, const struct wire_view *view)
{
    const struct wire_header *header = view->header;
    cJSON *object = cJSON_AddObjectToObject(process, "header");
    char version[16];

    snprintf(version, sizeof(version), "%u.%u", header->major, header->minor);
    cJSON_AddStringToObject(object, "layout", version);
    add_text(object, "version", header->version, sizeof(header->version));
    add_text(object, "session", header->session, WIRE_TEXT);
    add_text(object, "run_name", header->run_name, WIRE_TEXT);
    add_text(object, "host", header->host, WIRE_TEXT);
    add_number(object, "pid", header->pid);
    add_number(object, "parent_pid", header->parent_pid);
    add_number(object, "uid", header->uid);
    add_number(object, "role", RELAXED(header->live_role));
    cJSON_AddNumberToObject(object, "rank",
                            wire_number(RELAXED(header->live_rank), header->rank));
    cJSON_AddNumberToObject(
        object, "local_rank",
        wire_number(RELAXED(header->live_local_rank), header->local_rank));
    cJSON_AddNumberToObject(
        object, "world_size",
        wire_number(RELAXED(header->live_world_size), header->world_size));
    add_number(object, "restart_count", header->restart_count);
    cJSON_AddStringToObject(object, "clock",
                            header->clock == WIRE_CLOCK_TSC ? "tsc" : "monotonic");
    add_number(object, "zero_realtime_ns", header->zero_realtime_ns);
    add_number(object, "steps", RELAXED(header->steps));
    add_number(object, "epoch", RELAXED(header->epoch));
    add_number(object, "level", RELAXED(header->level));
    cJSON_AddBoolToObject(object, "ended", RELAXED(header->ended) != 0);
    add_number(object, "threads_refused", RELAXED(header->threads_refused));
    add_number(object, "nested_lost", RELAXED(header->nested_lost));
    add_number(object, "clock_pairs", RELAXED(header->clock_pairs_count));
    add_number(object, "names", names_count(&view->names));
    add_number(object, "names_refused", names_refused(&view->names));
}

static void add_facts(cJSON *process, const struct wire_view *view)
{
    cJSON *facts = cJSON_AddObjectToObject(process, "facts");

    for (unsigned i = 0; i < WIRE_FACTS; i++) {
        const struct wire_fact *fact = &view->facts[i];
        /* Acquire: pairs with the release that publishes the key last. */
        uint32_t key = atomic_load_explicit(&fact->key, memory_order_acquire);
        uint64_t value = RELAXED(fact->value);
        char name[NAME_SHOWN];
        const char *bytes;
        uint32_t length = names_lookup(&view->names, key, &bytes);
        double real;

        if (length == 0 || length >= sizeof(name))
            continue;
        memcpy(name, bytes, length);
        name[length] = '\0';
        memcpy(&real, &value, sizeof(real));
        switch (RELAXED(fact->type)) {
        case WIRE_FACT_TEXT:
            add_name(facts, name, view, (uint32_t)value);
            break;
        case WIRE_FACT_NUMBER:
            cJSON_AddNumberToObject(facts, name, (double)(int64_t)value);
            break;
        case WIRE_FACT_REAL:
            cJSON_AddNumberToObject(facts, name, real);
            break;
        case WIRE_FACT_BOOL:
            cJSON_AddBoolToObject(facts, name, value != 0);
            break;
        default:
            cJSON_AddNullToObject(facts, name);
        }
    }
}

static void add_capabilities(cJSON *process, const struct wire_view *view)
{
    cJSON *rows = cJSON_AddArrayToObject(process, "capabilities");

    for (unsigned i = 0; i <= WIRE_SOURCE_STACKS; i++) {
        const struct wire_capability *source = &view->sources[i];
        cJSON *row = add_row(rows);

        cJSON_AddStringToObject(row, "source", wire_source_word(i));
        cJSON_AddStringToObject(row, "state",
                                wire_source_state_word(RELAXED(source->state)));
        add_name(row, "reason", view, RELAXED(source->reason));
        add_name(row, "detail", view, RELAXED(source->detail));
        cJSON_AddNumberToObject(row, "cost_ns", RELAXED(source->cost_ps) / 1000.0);
        add_number(row, "events", RELAXED(source->events));
        add_number(row, "lost", RELAXED(source->lost));
    }
}

/* The governor's running sums, as they stand: a reader that must not see half of an
 * update looks again while `sequence` moves; here it does not matter. */
static void add_overhead(cJSON *process, const struct wire_view *view)
{
    const struct wire_governor *sums = &view->header->governor;
    const struct {
        const char *key;
        const _Atomic uint64_t *share;
    } rows[] = {
        {"budget_pct", &sums->budget},        {"measured_pct", &sums->measured},
        {"ci95_low_pct", &sums->ci_low},      {"ci95_high_pct", &sums->ci_high},
        {"detail_pct", &sums->detail},        {"burst_pct", &sums->burst},
        {"fixed_pct", &sums->fixed},          {"recorded_share", &sums->recorded_share},
        {"phases_share", &sums->phases_share}};
    cJSON *overhead = cJSON_AddObjectToObject(process, "overhead");

    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        uint64_t bits = RELAXED(*rows[i].share);
        double share;

        memcpy(&share, &bits, sizeof(share));
        if (share >= -1e9 && share <= 1e9)
            cJSON_AddNumberToObject(overhead, rows[i].key, share);
        else
            cJSON_AddNullToObject(overhead, rows[i].key);
    }
    add_number(overhead, "recorded_steps", RELAXED(sums->recorded_steps));
    add_number(overhead, "control_steps", RELAXED(sums->control_steps));
    add_number(overhead, "steps_needed", RELAXED(sums->steps_needed));
    add_number(overhead, "rate", RELAXED(sums->rate));
    add_number(overhead, "state", RELAXED(sums->state));
}

static void add_event(cJSON *rows, const struct wire_view *view,
                      const struct event *event)
{
    cJSON *row = add_row(rows);

    cJSON_AddStringToObject(row, "kind", kind_name(EVENT_KIND(event->meta)));
    add_number(row, "time_ticks", event->time);
    add_number(row, "value", event->value);
    if (EVENT_NAME(event->meta) != 0)
        add_name(row, "name", view, EVENT_NAME(event->meta));
    add_number(row, "flags", EVENT_FLAGS(event->meta));
    add_number(row, "aux16", EVENT_AUX16(event->meta));
    add_number(row, "aux", event->aux);
}

/* Counts what the ring still holds and adds the newest `events` of it. */
static void add_ring(cJSON *thread, const struct wire_view *view,
                     struct ring_reader *reader, uint64_t events)
{
    cJSON *kinds = cJSON_AddObjectToObject(thread, "kinds");
    cJSON *rows = events > 0 ? cJSON_AddArrayToObject(thread, "newest") : NULL;
    uint64_t counts[KINDS + 1] = {0};
    uint64_t oldest = reader->pos, head = oldest + ring_pending(reader);
    uint64_t from = head > events ? head - events : 0;
    struct event batch[READ_AT_ONCE];
    int64_t got;

    while ((got = ring_read(reader, batch, READ_AT_ONCE)) > 0)
        for (int64_t i = 0; i < got; i++) {
            uint8_t kind = EVENT_KIND(batch[i].meta);

            counts[kind < KINDS ? kind : KINDS]++;
            if (rows != NULL && reader->pos - (uint64_t)(got - i) >= from)
                add_event(rows, view, &batch[i]);
        }
    add_number(thread, "overwritten", oldest + reader->lost);
    if (got < 0)
        cJSON_AddStringToObject(thread, "error", "the ring's positions are impossible");
    for (int kind = 0; kind <= KINDS; kind++)
        if (counts[kind] != 0)
            add_number(kinds, kind_name((uint8_t)kind), counts[kind]);
}

static void add_open_ranges(cJSON *thread, const struct wire_view *view,
                            const struct thread_slot *slot)
{
    uint32_t depth = RELAXED(slot->depth);
    cJSON *rows = cJSON_AddArrayToObject(thread, "open");

    for (uint32_t i = 0; i < depth && i < WIRE_OPEN_RANGES; i++) {
        uint64_t meta = RELAXED(slot->open[i].meta);
        cJSON *row = add_row(rows);

        add_name(row, "name", view, EVENT_NAME(meta));
        add_number(row, "start_ticks", RELAXED(slot->open[i].start));
    }
}

static void add_threads(cJSON *process, const struct wire_view *view, uint64_t events)
{
    cJSON *rows = cJSON_AddArrayToObject(process, "threads");

    for (uint32_t i = 0; i < view->layout.thread_count; i++) {
        const struct thread_slot *slot = &view->threads[i];
        uint32_t state = RELAXED(slot->state);
        struct ring_reader reader;

        if (state == THREAD_FREE)
            continue;
        cJSON *row = add_row(rows);

        add_number(row, "slot", i);
        add_number(row, "tid", RELAXED(slot->tid));
        add_name(row, "name", view, RELAXED(slot->name));
        cJSON_AddStringToObject(row, "state", state == THREAD_LIVE ? "live" : "ended");
        add_number(row, "ring_events", RELAXED(slot->ring_capacity));
        add_number(row, "lost", RELAXED(slot->lost));
        add_open_ranges(row, view, slot);
        int has_ring = wire_view_ring(view, i, &reader, 1);

        if (has_ring > 0)
            add_ring(row, view, &reader, events);
        else if (has_ring < 0)
            cJSON_AddStringToObject(row, "error", "its ring lies outside of the file");
    }
}

bool dump_segment(struct cJSON *processes, const char *directory,
                  const struct segment_entry *entry, uint64_t events)
{
    cJSON *process = add_row(processes);
    struct segment_file file;
    const char *reason;

    cJSON_AddStringToObject(process, "file", entry->file);
    add_number(process, "bytes", entry->bytes);
    cJSON_AddBoolToObject(process, "alive", entry->alive);
    if (segment_file_open(&file, directory, entry->file, &reason) != 0) {
        cJSON_AddStringToObject(process, "error", reason);
        return false;
    }
    add_header(process, &file.view);
    add_facts(process, &file.view);
    add_capabilities(process, &file.view);
    add_overhead(process, &file.view);
    add_threads(process, &file.view, events);
    segment_file_close(&file);
    return true;
}
