/* Entry points that others look up by name in the training process. */
#include "probe/probe.h"
#include "wire/attributes.h"

int InitializeInjection(void);

/* CUDA_INJECTION64_PATH names this library; the driver calls us inside cuInit, on the
 * application's thread. Always 1: on 0 it would unload us and come again. */
EXPORTED int InitializeInjection(void)
{
    probe_capability(WIRE_SOURCE_CUPTI, WIRE_STATE_UNAVAILABLE,
                     "GPU work is not recorded by this version",
                     "the CUDA driver was initialised");
    return 1;
}
