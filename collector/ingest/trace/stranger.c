#include "ingest/trace/stranger.h"

#include <string.h>

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
     "is a result of rocprofv3, which has no list of events: torch.profiler records AMD's "
     "devices too, and its export_chrome_trace() writes what is read here"},
    {"$schema", "profiles", "is a profile for speedscope, which has no list of events"},
};

static bool has_key(const struct trace_head *head, const char *key)
{
    size_t length = strlen(key);

    for (uint32_t i = 0; i < head->span_count; i++)
        if (head->spans[i].key_length == length &&
            memcmp(head->spans[i].key, key, length) == 0)
            return true;
    return false;
}

const char *stranger_sentence(const struct trace_head *head,
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
