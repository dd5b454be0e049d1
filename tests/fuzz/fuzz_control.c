/* A control file written by anybody: parsed whole, or refused. */

#include "fuzz.h"
#include "wire/control.h"
#include "wire/segment.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct control control;

    if (control_parse(data, size, &control) &&
        (control.level >= WIRE_LEVELS || control.budget_ppm > 1000000 ||
         control.burst_steps > 1000))
        abort();
    return 0;
}
