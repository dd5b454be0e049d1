#include "probe/decide.h"

#include <stdlib.h>
#include <string.h>

#include "wire/event.h"

/* A new level holds from the next boundary on. */
static uint32_t level_asked;

static uint32_t level_parse(const char *text)
{
    static const char *const names[WIRE_LEVELS] = {"auto", "off",     "phases",
                                                   "ops",  "kernels", "all"};

    for (uint32_t level = 0; text != NULL && level < WIRE_LEVELS; level++)
        if (strcmp(text, names[level]) == 0)
            return level;
    return WIRE_LEVEL_AUTO;
}

static uint32_t flags_of(uint32_t level)
{
    switch (level) {
    case WIRE_LEVEL_OFF:
    case WIRE_LEVEL_PHASES:
        return 0;
    case WIRE_LEVEL_OPS:
        return EVENT_STEP_OPS;
    case WIRE_LEVEL_KERNELS:
        return EVENT_STEP_KERNELS;
    default:
        return EVENT_STEP_OPS | EVENT_STEP_KERNELS;
    }
}

static uint32_t in_force(void)
{
    atomic_store_explicit(&probe->header->level, level_asked, memory_order_relaxed);
    return flags_of(level_asked);
}

uint32_t decide_open(void)
{
    /* NOLINTNEXTLINE(concurrency-mt-unsafe): the environment is read, never written */
    level_asked = level_parse(getenv("TRAINGLASS_LEVEL"));
    atomic_store_explicit(&probe->header->governor.state, WIRE_GOVERNOR_FIXED,
                          memory_order_relaxed);
    return in_force();
}

uint32_t decide_next(const struct probe_step *ended, uint64_t next)
{
    (void)next;
    /* Validation batches lie inside what was decided for the step after them. */
    return ended->number == STEPS_NO_NUMBER ? ended->recording : in_force();
}

void decide_request(const struct control *control)
{
    level_asked = control->level;
}
