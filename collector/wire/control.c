#include "wire/control.h"

#include <string.h>

#include "wire/hash.h"
#include "wire/segment.h"

static uint64_t checksum(const struct control *control)
{
    return hash_bytes(HASH_BEGIN, control, offsetof(struct control, checksum));
}

void control_seal(struct control *control)
{
    control->magic = CONTROL_MAGIC;
    control->bytes = sizeof(*control);
    control->checksum = checksum(control);
}

bool control_parse(const void *bytes, size_t size, struct control *control)
{
    if (size < sizeof(*control))
        return false;
    memcpy(control, bytes, sizeof(*control));
    return control->magic == CONTROL_MAGIC && control->bytes >= sizeof(*control) &&
           control->checksum == checksum(control) && control->level < WIRE_LEVELS &&
           control->budget_ppm <= 1000000 && control->burst_steps <= 1000 &&
           control->window_steps <= CONTROL_WINDOW_STEPS_MAX &&
           control->window_seconds <= CONTROL_WINDOW_SECONDS_MAX;
}
