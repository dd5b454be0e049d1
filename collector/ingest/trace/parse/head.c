#include <stdlib.h>
#include <string.h>

#include "ingest/trace/parse/parser.h"
#include "ingest/trace/scan/number.h"

static bool is_key(const struct trace_span *span, const char *key)
{
    return span->key_length == strlen(key) &&
           memcmp(span->key, key, span->key_length) == 0;
}

/* The number that stands behind "key": in a flat object's text. */
static bool number_in(const char *object, const char *key, int64_t *number)
{
    const char *found = strstr(object, key);

    if (found == NULL)
        return false;
    found += strlen(key);
    found += strspn(found, " \t\r\n");
    if (*found++ != ':')
        return false;
    found += strspn(found, " \t\r\n\"");
    return number_integer(found, number) != NULL;
}

/* The copies have zeros behind them, as the numbers want. */
static void read_known(struct trace_head *head, const struct trace_span *span)
{
    const char *value = span->value + (*span->value == '"');

    if (is_key(span, "baseTimeNanoseconds")) {
        head->has_base_time = number_integer(value, &head->base_time_ns) != NULL;
    } else if (is_key(span, "displayTimeUnit")) {
        head->display_in_ns = strncmp(value, "ns", 2) == 0;
    } else if (is_key(span, "distributedInfo")) {
        head->has_rank = number_in(value, "\"rank\"", &head->rank);
        (void)number_in(value, "\"world_size\"", &head->world_size);
    }
}

void head_add(struct head *head, const struct trace_span *span)
{
    struct trace_span kept = *span;
    size_t size = span->key_length + 1 + span->length + TRACE_SCAN_SLACK;

    if (head->seen.span_count == TRACE_SPANS_MAX ||
        size > TRACE_HEAD_BYTES_MAX - head->bytes) {
        head->seen.spans_left_out++;
        return;
    }
    char *copy = calloc(1, size);

    if (copy == NULL) {
        head->seen.spans_left_out++;
        return;
    }
    memcpy(copy, span->key, span->key_length);
    kept.key = copy;
    copy += span->key_length + 1;
    memcpy(copy, span->value, span->length);
    kept.value = copy;
    head->bytes += size;
    head->spans[head->seen.span_count++] = kept;
    head->seen.spans = head->spans;
    if (!kept.cut)
        read_known(&head->seen, &kept);
}

void head_close(struct head *head)
{
    for (uint32_t i = 0; i < head->seen.span_count; i++)
        free((void *)(uintptr_t)head->spans[i].key);
    head->seen.span_count = 0;
}

/* Keys of the top level that are there together in no other kind of file. */
struct stranger {
    const char *key, *other; /* NULL: the first is enough */
    const char *sentence;
};

static const struct stranger strangers[] = {
    {"schema", "nodes",
     "is an execution trace (ExecutionTraceObserver), which has no list of events: "
     "export_chrome_trace() of torch.profiler writes what is read here"},
    {"device_traces", NULL,
     "is a memory snapshot of torch, which has no list of events: its memory_viz shows "
     "those"},
    {"step_rows", "step_ms",
     "is a result of `trainglass analyze --json`: `trainglass compare` takes it"},
    {"rocprofiler-sdk-tool", NULL,
     "is a result of rocprofv3, which has no list of events: torch.profiler records "
     "AMD's "
     "devices too, and its export_chrome_trace() writes what is read here"},
    {"$schema", "profiles", "is a profile for speedscope, which has no list of events"},
};

static bool has_key(const struct trace_head *head, const char *key)
{
    for (uint32_t i = 0; i < head->span_count; i++)
        if (is_key(&head->spans[i], key))
            return true;
    return false;
}

const char *head_stranger(const struct trace_head *head,
                          const struct trace_report *report)
{
    uint64_t skipped = 0;

    for (size_t i = 0; i < sizeof(strangers) / sizeof(strangers[0]); i++)
        if (has_key(head, strangers[i].key) &&
            (strangers[i].other == NULL || has_key(head, strangers[i].other)))
            return strangers[i].sentence;
    for (int i = 0; i < TRACE_SKIPS; i++)
        skipped += report->skipped[i];
    if (head->is_array && skipped > 0 && report->lists == skipped)
        return "is a list of lists, as export_memory_timeline() of torch.profiler "
               "writes "
               "it, and has no event: export_chrome_trace() writes what is read here, "
               "with profile_memory=True memory too";
    return NULL;
}
