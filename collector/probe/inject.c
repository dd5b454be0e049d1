/* Entry points that others look up by name in the training process. */
#include <dlfcn.h>

#include "probe/cupti/session.h"
#include "probe/probe.h"
#include "wire/attributes.h"

int InitializeInjection(void);

/* CUDA_INJECTION64_PATH names this library; the driver calls us inside cuInit, on the
 * application's thread. Always 1: on 0 it would unload us and come again. A Python
 * program opens its own segment, in the role that it knows. */
EXPORTED int InitializeInjection(void)
{
    bool python = dlsym(RTLD_DEFAULT, "Py_IsInitialized") != NULL;

    if (!python)
        (void)probe_start(0);
    if (python || probe_is_open())
        cupti_start();
    return 1;
}
