#include "probe/cupti/state.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "probe/probe.h"

const char *state_reason(int error)
{
    static const struct {
        int error;
        const char *reason;
    } rows[] = {
        {CUPTI_NOT_INITIALIZED, "CUPTI does not work with this driver: the driver is "
                                "older than CUPTI (error 15)"},
        {CUPTI_NOT_SUPPORTED, "this GPU or driver does not record activity (error 27)"},
        {CUPTI_MPS, "the GPU is shared through MPS, where CUPTI is not available "
                    "(error 31)"},
        {CUPTI_VIRTUAL_DEVICE, "the GPU is virtual and does not record (error 33)"},
        {CUPTI_NO_PRIVILEGE, "no permission to record GPU work: ask for "
                             "NVreg_RestrictProfilingToAdminUsers=0 (error 35)"},
        {CUPTI_OLD_PROFILER, "the old profiler API is in use here (error 36)"},
        {CUPTI_LEGACY_DEVICE, "this GPU is too old for CUPTI (error 38)"},
        {CUPTI_TAKEN, "another profiler holds CUPTI in this process (error 39)"},
        {CUPTI_VIRTUAL_PRIVILEGE, "the virtual GPU's host does not allow recording "
                                  "(error 40)"},
        {CUPTI_CONFIDENTIAL, "the GPU is in confidential mode (error 41)"},
        {CUPTI_MIG, "the GPU is a MIG instance that does not record (error 43)"},
        {CUPTI_WSL, "GPU work cannot be recorded under WSL here (error 45)"},
    };

    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++)
        if (rows[i].error == error)
            return rows[i].reason;
    return "CUPTI refused to record GPU work";
}

bool state_wants_whole_graphs(void)
{
    /* NOLINTNEXTLINE(concurrency-mt-unsafe): the environment is read, never written */
    const char *wanted = getenv("TRAINGLASS_CUDA_GRAPHS");

    return wanted != NULL && strcmp(wanted, "whole") == 0;
}

const char *state_foreign(void)
{
    /* NOLINTBEGIN(concurrency-mt-unsafe): the environment is read, never written */
    const char *injected = getenv("CUDA_INJECTION64_PATH");
    const char *nsys = getenv("NSYS_PROFILING_SESSION_ID");
    /* NOLINTEND(concurrency-mt-unsafe) */

    if (nsys != NULL && *nsys != '\0')
        return "Nsight Systems records this process";
    if (injected != NULL && strstr(injected, "ToolsInjection") != NULL)
        return "Nsight Systems records this process";
    if (injected != NULL && *injected != '\0' && strstr(injected, "trainglass") == NULL)
        return "another tool is injected into CUDA (CUDA_INJECTION64_PATH)";
    return NULL;
}

void state_say(enum wire_source_state state, const char *reason, const char *detail)
{
    probe_capability(WIRE_SOURCE_CUPTI, state, reason, detail);
}

void state_detail(const struct cupti_library *library, unsigned kinds_known,
                  const char *clock, char *text, size_t bytes)
{
    const char *slash = strrchr(library->path, '/');

    (void)snprintf(text, bytes, "%.80s%s, API %u, %u kinds known, stamps by %s",
                   slash != NULL ? slash + 1 : library->path,
                   library->copies > 1 ? " (another one is loaded too)" : "",
                   library->version, kinds_known, clock);
}
