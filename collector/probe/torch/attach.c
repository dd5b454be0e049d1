#include "probe/torch/attach.h"

#include <errno.h>

#include "probe/cupti/session.h"
#include "probe/probe.h"
#include "probe/torch/graph.h"
#include "probe/torch/memory.h"
#include "probe/torch/observer.h"
#include "probe/torch/wrappers.h"

static void step_ending(const struct probe_step *step)
{
    probe_capability_events(WIRE_SOURCE_PYTHON, torch_wrapper_calls(), step->end);
    torch_memory_sample(step);
}

static void recording_changed(uint32_t recording)
{
    torch_observer_record(recording);
    torch_memory_record(recording);
    torch_graph_record(recording);
}

static void graph_needed(void)
{
    torch_graph_record(probe_recording());
}

static const struct probe_hooks hooks = {
    .step_ending = step_ending,
    .recording_changed = recording_changed,
    .graph_needed = graph_needed,
};

static uint32_t hooked_pid; /* the process whose step boundaries call us */

static int no_operators(int error, const char *reason)
{
    probe_capability(WIRE_SOURCE_CPU_OPS, WIRE_STATE_UNAVAILABLE, reason, NULL);
    probe_capability(WIRE_SOURCE_RANGES, WIRE_STATE_UNAVAILABLE, reason, NULL);
    return error;
}

int torch_attach_begin(uint32_t scopes)
{
    const char *reason;
    int error = torch_observer_open(scopes, &reason);

    if (error == -EALREADY)
        return 1;
    return error == 0 ? 0 : no_operators(error, reason);
}

int torch_attach_end(void)
{
    const char *reason;
    int error = torch_observer_confirm(&reason);

    if (error != 0) {
        no_operators(error, reason);
    } else {
        probe_capability(WIRE_SOURCE_CPU_OPS, WIRE_STATE_ACTIVE, NULL,
                         "at::addGlobalCallback, FUNCTION and BACKWARD scopes");
        probe_capability(WIRE_SOURCE_RANGES, WIRE_STATE_ACTIVE, NULL,
                         "at::addGlobalCallback, USER scope");
    }
    torch_memory_attach();
    torch_graph_attach();
    cupti_attach();
    /* A forked child that records starts without hooks. */
    if (hooked_pid != probe->pid && probe_hooks_add(&hooks))
        hooked_pid = probe->pid;
    recording_changed(probe_recording());
    return error;
}
