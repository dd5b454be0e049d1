/* A trace file of any bytes: what is given out lies in the file; where nothing was
 * skipped it does not matter where a block ends; and a second thread changes nothing. */
#include <string.h>

#include "fuzz.h"
#include "ingest/trace/args.h"
#include "ingest/trace/feed/feed.h"
#include "ingest/trace/reader.h"

struct seen {
    struct trace_reader *reader;
    uint64_t events, next; /* next: offset behind the event before */
    uint64_t skipped, hash;
    bool refused; /* by its first bytes, or in its middle */
};

static uint64_t mix(uint64_t hash, uint64_t value)
{
    return (hash ^ value) * UINT64_C(0x100000001b3);
}

static uint64_t hash_of(const struct trace_event *event)
{
    struct trace_event plain = *event;
    uint64_t words[sizeof(plain) / 8], hash = 0;

    plain.text = NULL;
    memcpy(words, &plain, sizeof(words));
    for (size_t i = 0; i < sizeof(words) / sizeof(words[0]); i++)
        hash = mix(hash, words[i]);
    return hash;
}

static bool check(void *user, struct trace_event *events, uint32_t count)
{
    struct seen *seen = user;
    uint32_t names = trace_names_count(trace_reader_names(seen->reader));

    for (uint32_t i = 0; i < count; i++) {
        const struct trace_event *event = &events[i];
        const char *value;
        size_t length;
        char text[16];

        demand(event->text[0] == '{' && event->text[event->length - 1] == '}');
        demand(event->phase != '\0' && event->category < TRACE_CATEGORIES);
        demand(event->name < names && event->pid < names && event->tid < names);
        demand(event->category_name < names && event->shapes < names);
        demand(event->types < names && event->stack < names && event->module < names);
        demand(event->args_at <= event->length &&
               event->args_length <= event->length - event->args_at);
        demand(event->offset >= seen->next);
        seen->next = event->offset + event->length;
        if (trace_args_find(event, "name", &value, &length))
            demand(value > event->text && length < event->length);
        trace_args_text(event, "name", text, sizeof(text));
        seen->hash = mix(seen->hash, hash_of(event));
    }
    seen->events += count;
    return true;
}

static struct seen read_all(const uint8_t *data, size_t size, bool ahead)
{
    const struct trace_options options = {
        .one_thread = !ahead, .always_ahead = ahead, .shapes = true, .stacks = true};
    struct seen seen = {.reader = trace_reader_new(&options)};

    if (seen.reader == NULL)
        return seen;
    demand(trace_reader_open_bytes(seen.reader, data, size) == 0);
    int result = trace_reader_run(seen.reader, check, &seen);
    const struct trace_report *report = trace_reader_report(seen.reader);

    demand(report->events == seen.events && (result == 0 || report->error[0] != '\0'));
    demand(memchr(report->error, '\0', sizeof(report->error)) != NULL);
    seen.skipped = trace_reader_skipped(seen.reader);
    seen.refused = result != 0;
    trace_reader_free(seen.reader);
    return seen;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct seen seen = read_all(data, size, false);
    bool is_text = size > 1 && (data[0] == '{' || data[0] == '[') && data[1] != '\0';

    if (is_text && size % 4 == 1) { /* a thread each time would make it slow */
        struct seen ahead = read_all(data, size, true);

        demand(ahead.events == seen.events && ahead.skipped == seen.skipped &&
               ahead.hash == seen.hash);
    }
    if (!is_text || seen.refused || seen.skipped > 0 || size % 8 != 0 ||
        size > FEED_BLOCK_BYTES)
        return 0;
    size_t before = FEED_BLOCK_BYTES - size / 2;
    uint8_t *late = malloc(before + size);

    if (late == NULL)
        return 0;
    memset(late, ' ', before);
    memcpy(late + before, data, size);
    struct seen seen_late = read_all(late, before + size, false);

    demand(seen_late.skipped > 0 || seen_late.events == seen.events);
    free(late);
    return 0;
}
