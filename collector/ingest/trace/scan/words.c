#include "ingest/trace/scan/words.h"

#include "ingest/trace/event.h"

struct entry {
    const char *word;
    uint32_t value;
};

/* As Kineto, Chrome, Ascend and ROCm write them. */
static const struct entry keys[] = {
    {"ph", KEY_PHASE},
    {"name", KEY_NAME},
    {"cat", KEY_CATEGORY},
    {"pid", KEY_PID},
    {"tid", KEY_TID},
    {"ts", KEY_TIME},
    {"dur", KEY_DURATION},
    {"args", KEY_ARGS},
    {"id", KEY_ID},
    {"s", KEY_SCOPE},
    {"bp", KEY_BINDING},
    {"finished", KEY_FINISHED},
    {"correlation", KEY_CORRELATION},
    {"Correlation ID", KEY_CORRELATION},
    {"External id", KEY_EXTERNAL_ID},
    {"external id", KEY_EXTERNAL_ID},
    {"device", KEY_DEVICE},
    {"stream", KEY_STREAM},
    {"context", KEY_CONTEXT},
    {"bytes", KEY_BYTES},
    {"Bytes", KEY_BYTES},
    {"Total Allocated", KEY_TOTAL_ALLOCATED},
    {"Total Reserved", KEY_TOTAL_RESERVED},
    {"Addr", KEY_ADDRESS},
    {"Device Type", KEY_DEVICE_TYPE},
    {"Device Id", KEY_DEVICE_ID},
    {"grid", KEY_GRID},
    {"block", KEY_BLOCK},
    {"registers per thread", KEY_REGISTERS},
    {"shared memory", KEY_SHARED_MEMORY},
    {"est. achieved occupancy %", KEY_OCCUPANCY},
    {"Sequence number", KEY_SEQUENCE},
    {"Fwd thread id", KEY_FORWARD_THREAD},
    {"Input Dims", KEY_SHAPES},
    {"Input type", KEY_TYPES},
    {"Call stack", KEY_STACK},
    {"Module Hierarchy", KEY_MODULE},
    {"Python id", KEY_PYTHON_ID},
    {"Python parent id", KEY_PYTHON_PARENT_ID},
    {"Python module id", KEY_PYTHON_MODULE_ID},
    {"Collective name", KEY_COLLECTIVE},
};

static const struct entry categories[] = {
    {"cpu_op", TRACE_CPU_OP},
    {"operator", TRACE_CPU_OP},
    {"user_annotation", TRACE_USER_ANNOTATION},
    {"gpu_user_annotation", TRACE_GPU_USER_ANNOTATION},
    {"runtime", TRACE_RUNTIME},
    {"cuda_runtime", TRACE_RUNTIME},
    {"hip_runtime", TRACE_RUNTIME},
    {"xpu_runtime", TRACE_RUNTIME},
    {"mtia_runtime", TRACE_RUNTIME},
    {"glow_runtime", TRACE_RUNTIME},
    {"privateuse1_runtime", TRACE_RUNTIME},
    {"cuda_driver", TRACE_DRIVER},
    {"hip_driver", TRACE_DRIVER},
    {"xpu_driver", TRACE_DRIVER},
    {"privateuse1_driver", TRACE_DRIVER},
    {"kernel", TRACE_KERNEL},
    {"hpu_op", TRACE_KERNEL},
    {"mtia_ccp_events", TRACE_KERNEL},
    {"gpu_memcpy", TRACE_MEMCPY},
    {"memcpy", TRACE_MEMCPY},
    {"gpu_memset", TRACE_MEMSET},
    {"memset", TRACE_MEMSET},
    {"cuda_sync", TRACE_SYNC},
    {"xpu_sync", TRACE_SYNC},
    {"async", TRACE_LAUNCH_FLOW},
    {"ac2g", TRACE_LAUNCH_FLOW},
    {"async_cpu_to_gpu", TRACE_LAUNCH_FLOW},
    {"fwdbwd", TRACE_FORWARD_FLOW},
    {"forward_backward", TRACE_FORWARD_FLOW},
    {"overhead", TRACE_OVERHEAD},
    {"python_function", TRACE_PYTHON_FUNCTION},
    {"cpu_instant_event", TRACE_CPU_INSTANT},
    {"trace", TRACE_SPAN},
    {"collective_comm", TRACE_COLLECTIVE},
};

void words_add(struct words *words, const char *word, uint32_t value)
{
    char padded[WORD_BYTES_MAX] = {0};
    uint32_t length = (uint32_t)strnlen(word, WORD_BYTES_MAX);
    struct word added = {.length = length, .value = value};

    memcpy(padded, word, length);
    added.first = words_first(padded, length);
    memcpy(added.rest, padded + 8, sizeof(added.rest));
    uint32_t slot = words_slot(added.first, length);

    while (words->slots[slot].value != 0)
        slot = (slot + 1) % WORD_SLOTS;
    words->slots[slot] = added;
}

void words_add_keys(struct words *words)
{
    for (size_t i = 0; i < sizeof(keys) / sizeof(keys[0]); i++)
        words_add(words, keys[i].word, keys[i].value);
}

void words_add_categories(struct words *words)
{
    for (size_t i = 0; i < sizeof(categories) / sizeof(categories[0]); i++)
        words_add(words, categories[i].word, categories[i].value);
}
