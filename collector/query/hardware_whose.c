#include <stdio.h>
#include <string.h>

#include "query/hardware_inside.h"
#include "query/parts.h"
#include "wire/clock.h"
#include "wire/facts.h"

/* `places` lists them in CUDA's order: "0000:3b:00.0 0000:af:00.0". CUDA's number of a
 * device in the process; -1: not its, or nobody knows. */
static int cuda_index(const char *places, const struct hardware_device *device)
{
    int index = 0;

    for (const char *at = places; device->place_known && *at != '\0'; index++) {
        struct hardware_place place;

        at += strspn(at, " ");
        if (sscanf(at, "%8x:%2x:%2x", &place.domain, &place.bus, &place.device) == 3 &&
            hardware_same_place(&place, &device->place))
            return index;
        at += strcspn(at, " ");
    }
    return -1;
}

static const char *device_name(const struct pick *pick,
                               const struct hardware_device *device)
{
    const char *places = parts_fact_text(pick->process, FACT_DEVICE_PCI);
    int index = cuda_index(places, device);

    /* Where nobody tells places, one GPU and one device are the same. */
    if (places[0] == '\0' && pick->store->hardware.now.device_count == 1 &&
        pick->process->gpu.table_count == 1)
        index = 0;
    return index < 0 ? NULL : arena_print(&pick->head->arena, "cuda:%d", index);
}

/* What was recorded of the process's accelerators: anything, and of this one. */
struct recorded {
    bool any, own;
};

static void add_recorded(const struct pick *pick, uint16_t device, const char *name,
                         struct recorded *recorded)
{
    if (EVENT_DEVICE_TYPE(device) == 0)
        return;
    recorded->any = true;
    recorded->own |= name != NULL && strcmp(pick_device(pick->head, device), name) == 0;
}

/* Work, or memory that an allocator has asked for. */
static struct recorded recorded_of(const struct pick *pick, const char *name)
{
    const struct gpu *gpu = &pick->process->gpu;
    const struct memory *memory = &pick->process->memory;
    struct recorded recorded = {false, false};

    for (uint32_t i = 0; i < gpu->table_count; i++)
        add_recorded(pick, gpu->tables[i]->device, name, &recorded);
    for (uint32_t i = 0; i < memory->count; i++)
        if (memory->tables[i].count > 0)
            add_recorded(pick, memory->tables[i].device, name, &recorded);
    return recorded;
}

void whose_devices(const struct pick *pick, struct hardware_answer *answer)
{
    const struct hardware_device *devices = pick->store->hardware.now.devices;
    bool told = parts_fact_text(pick->process, FACT_DEVICE_PCI)[0] != '\0';
    uint32_t seen = 0;

    for (uint32_t i = 0; i < answer->row_count; i++) {
        answer->rows[i].device = device_name(pick, &devices[i]);
        seen += answer->rows[i].device != NULL;
    }
    for (uint32_t i = 0; i < answer->row_count; i++) {
        struct hardware_row *row = &answer->rows[i];
        bool sees = row->device != NULL;
        struct recorded recorded = recorded_of(pick, row->device);

        row->works = recorded.own || (sees && seen == 1 && !recorded.any);
        row->works_known =
            row->works || (sees ? recorded.any : told && devices[i].place_known);
    }
}

double whose_else(const struct pick *pick, const char *device, double own_bytes)
{
    const struct hardware_reading *now = &pick->store->hardware.now;
    int64_t since_ns = (int64_t)clock_ns(CLOCK_MONOTONIC) - HARDWARE_CURRENT_NS;

    for (uint32_t i = 0; pick->head->live && i < now->device_count; i++) {
        const struct hardware_device *one = &now->devices[i];
        const char *name = device_name(pick, one);

        if (name != NULL && strcmp(name, device) == 0 && !one->mig &&
            one->reason[0] == '\0' && one->sample.monotonic_ns > since_ns) {
            double others = one->sample.used_bytes - own_bytes;

            return others < 0 ? 0 : others; /* what one of both told a second ago */
        }
    }
    return UNKNOWN;
}

static bool is_ours(const struct session *session, uint32_t pid)
{
    for (const struct process *process = session->processes; process != NULL;
         process = process->next)
        if (process->identity.pid == pid && process->identity.same_namespace &&
            process->state == PROCESS_RUNNING)
            return true;
    return false;
}

/* Of the device's memory, by the driver's list; false where none of ours is in it. */
static bool add_memory(const struct pick *pick, const struct hardware_device *device,
                       double *ours, double *others)
{
    bool found = false;

    *ours = *others = 0;
    for (uint32_t i = 0; i < device->process_count; i++) {
        bool own = is_ours(pick->session, device->processes[i].pid);

        found |= own;
        *(own ? ours : others) += device->processes[i].bytes;
    }
    return found;
}

static void share_memory(const struct pick *pick, const struct hardware_device *device,
                         bool listed, struct hardware_row *row)
{
    double ours, others;
    bool found = add_memory(pick, device, &ours, &others);

    if (!device->processes_known) {
        row->processes_reason = "the driver does not tell which process uses what";
    } else if (device->mig) {
        row->processes_reason = "under MIG the list is of the whole GPU, and other "
                                "instances' memory is none of this job's device";
    } else if (!found && (!listed || row->works)) {
        row->processes_reason =
            "the driver's list does not hold this job: it counts in "
            "another PID namespace, or hides from this container";
    } else {
        row->job_bytes = ours;
        row->other_bytes = others;
        if (isnan(ours) || isnan(others))
            row->processes_reason = "the driver does not tell how much each process "
                                    "uses";
    }
}

void whose_memory(const struct pick *pick, struct hardware_answer *answer)
{
    const struct hardware_reading *now = &pick->store->hardware.now;
    bool listed = false;
    double ours, others;

    /* Where the driver's list of any device holds one of our processes, it counts as we do,
     * and does not hide them. */
    for (uint32_t i = 0; i < now->device_count && !listed; i++)
        listed = add_memory(pick, &now->devices[i], &ours, &others);
    for (uint32_t i = 0; i < answer->row_count; i++)
        if (pick->head->live)
            share_memory(pick, &now->devices[i], listed, &answer->rows[i]);
        else
            answer->rows[i].processes_reason = "the process has ended";
}
