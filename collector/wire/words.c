#include "wire/words.h"

#include <stddef.h>

#include "wire/event.h"
#include "wire/segment.h"

static const char *word_of(const char *const *words, size_t count, uint32_t number)
{
    return number < count && words[number] != NULL ? words[number] : "unknown";
}

#define WORD_OF(words, number)                                                         \
    word_of(words, sizeof(words) / sizeof((words)[0]), number)

const char *wire_role_word(uint32_t role)
{
    static const char *const words[] = {[WIRE_ROLE_TRAINER] = "trainer",
                                        [WIRE_ROLE_LAUNCHER] = "launcher",
                                        [WIRE_ROLE_WORKER] = "worker",
                                        [WIRE_ROLE_HELPER] = "helper"};

    return WORD_OF(words, role);
}

const char *wire_level_word(uint32_t level)
{
    static const char *const words[WIRE_LEVELS] = {
        [WIRE_LEVEL_AUTO] = "auto",       [WIRE_LEVEL_OFF] = "off",
        [WIRE_LEVEL_PHASES] = "phases",   [WIRE_LEVEL_OPS] = "ops",
        [WIRE_LEVEL_KERNELS] = "kernels", [WIRE_LEVEL_ALL] = "all"};

    return WORD_OF(words, level);
}

const char *wire_source_word(uint32_t source)
{
    static const char *const words[WIRE_SOURCES] = {
        [WIRE_SOURCE_STEPS] = "steps",
        [WIRE_SOURCE_PHASES] = "phases",
        [WIRE_SOURCE_CPU_OPS] = "cpu_ops",
        [WIRE_SOURCE_RANGES] = "ranges",
        [WIRE_SOURCE_NVTX] = "nvtx",
        [WIRE_SOURCE_CPU_MEMORY] = "cpu_memory",
        [WIRE_SOURCE_DEVICE_MEMORY] = "device_memory",
        [WIRE_SOURCE_CUPTI] = "cupti",
        [WIRE_SOURCE_PYTHON] = "python",
        [WIRE_SOURCE_FRAMEWORK] = "framework",
        [WIRE_SOURCE_STACKS] = "stacks",
    };

    return WORD_OF(words, source);
}

const char *wire_source_state_word(uint32_t state)
{
    static const char *const words[] = {
        [WIRE_STATE_UNKNOWN] = "unknown",         [WIRE_STATE_ACTIVE] = "active",
        [WIRE_STATE_YIELDED] = "yielded",         [WIRE_STATE_STOLEN] = "stolen",
        [WIRE_STATE_UNAVAILABLE] = "unavailable", [WIRE_STATE_DISABLED] = "disabled"};

    return WORD_OF(words, state);
}

const char *wire_phase_word(uint32_t phase)
{
    static const char *const words[] = {[EVENT_PHASE_DATA] = "data",
                                        [EVENT_PHASE_FORWARD] = "forward",
                                        [EVENT_PHASE_BACKWARD] = "backward",
                                        [EVENT_PHASE_OPTIMIZER] = "optimizer",
                                        [EVENT_PHASES] = "other"};

    return WORD_OF(words, phase);
}
