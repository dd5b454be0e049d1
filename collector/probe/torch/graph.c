#include "probe/torch/graph.h"

#include <stdbool.h>
#include <stddef.h>
#include <string.h>

#include "probe/probe.h"
#include "probe/torch/library.h"

/* Torch's functions: written once, before the slots. */
static uint64_t (*next_number)(void);
static bool (*is_grad_enabled)(void);

/* A Python function's node is numbered also where no graph is built. */
static NEVER_INLINE void node_built(void)
{
    if (is_grad_enabled())
        probe_step_mark(STEPS_GRAPH_BEGIN, 0);
}

/* at::sequence_number::get_and_increment(): counts for each thread alone. */
static uint64_t counted_next_number(void)
{
    uint64_t number = next_number();

    if (probe_graph_is_ours()) {
        probe_graph.nodes++;
        if (UNLIKELY(probe_graph.awaited))
            node_built();
    }
    return number;
}

static struct torch_places places;
static const struct torch_slot slots[] = {
    {"_ZN2at15sequence_number17get_and_incrementEv",
     (void (*)(void))counted_next_number},
};

void torch_graph_attach(void)
{
    void *core = torch_library_find("libc10.so");
    void *library = torch_library_find("libtorch_cpu.so");
    void *grad =
        core == NULL ? NULL : torch_symbol(core, "_ZN3c108GradMode10is_enabledEv");
    void *next = library == NULL ? NULL : torch_symbol(library, slots[0].symbol);

    if (grad != NULL && next != NULL) {
        memcpy(&is_grad_enabled, &grad, sizeof(grad));
        memcpy(&next_number, &next, sizeof(next));
        if (torch_slots_replace("libtorch_cpu.so", slots, 1, &places) > 0 &&
            torch_slots_replace("libtorch_python.so", slots, 1, &places) > 0)
            return;
    }
    probe_capability(WIRE_SOURCE_PHASES, WIRE_STATE_UNAVAILABLE,
                     "nothing had a phase yet",
                     "forward is not known: this torch does not tell where it begins");
}

void torch_graph_record(uint32_t recording)
{
    bool needed = probe_graph.needed || (recording & RECORDING_PHASES) != 0;

    torch_slots_switch(&places, needed);
}
