#include "ingest/nvml/read.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "wire/clock.h"

#define RETRY_NS     INT64_C(30000000000) /* a driver may be loaded later */
#define FAILED_LOOKS 3                    /* in a row: then the handles may be stale */
#define EVENTS_MAX   64                   /* in one look */
#define UNKNOWN      ((double)NAN)

static int64_t now_ns(void)
{
    return (int64_t)clock_ns(CLOCK_MONOTONIC);
}

/* ---- numbers ----------------------------------------------------------------------- */

/* One device in one look: how it answered. */
struct look {
    const struct nvml_library *nvml;
    struct nvml_device *handle;
    struct hardware_device *device;
    int lost;    /* NVML_LOST or NVML_RESET_REQUIRED, when one of its calls said so */
    int refused; /* what another call was refused with, but for NVML_NOT_SUPPORTED */
    bool answered;
};

static bool ok(struct look *look, int error)
{
    if (error == NVML_LOST || error == NVML_RESET_REQUIRED)
        look->lost = error;
    else if (error == NVML_OK)
        look->answered = true;
    else if (error != NVML_NOT_SUPPORTED)
        look->refused = error;
    return error == NVML_OK;
}

/* Asks where the driver has the function. */
#define ASK(look, call, ...)                                                           \
    ((look)->nvml->call != NULL &&                                                     \
     ok(look, (look)->nvml->call((look)->handle, __VA_ARGS__)))

static double ask(struct look *look, int (*call)(struct nvml_device *, uint32_t *),
                  double scale)
{
    uint32_t value = 0;

    return call != NULL && ok(look, call(look->handle, &value)) ? value * scale
                                                                : UNKNOWN;
}

static double ask_of(struct look *look,
                     int (*call)(struct nvml_device *, int, uint32_t *), int which,
                     double scale)
{
    uint32_t value = 0;

    return call != NULL && ok(look, call(look->handle, which, &value)) ? value * scale
                                                                       : UNKNOWN;
}

static bool field_number(const struct nvml_field *field, uint64_t *number)
{
    switch (field->type) {
    case 1:
        *number = field->value.as_uint;
        return true;
    case 2:
    case 3:
        *number = field->value.as_u64;
        return true;
    case 4:
        *number = field->value.as_i64 > 0 ? (uint64_t)field->value.as_i64 : 0;
        return true;
    default:
        return false;
    }
}

/* ---- what does not change ---------------------------------------------------------- */

/* Name and UUID of a device or an instance; "" unknown. */
static void read_names(struct look *look, char *name, char *uuid, uint32_t bytes)
{
    if (!ASK(look, name, name, bytes))
        name[0] = '\0';
    if (!ASK(look, uuid, uuid, bytes))
        uuid[0] = '\0';
    name[bytes - 1] = uuid[bytes - 1] = '\0';
}

static void read_facts(struct look *look)
{
    struct hardware_device *device = look->device;
    struct nvml_pci pci = {0};
    uint32_t mig = 0, pending = 0;

    read_names(look, device->name, device->uuid, sizeof(device->name));
    device->place_known = ASK(look, pci, &pci);
    /* Without a place of its own its number tells it from the others. */
    device->place = device->place_known
                        ? (struct hardware_place){pci.domain, pci.bus, pci.device}
                        : (struct hardware_place){UINT32_MAX, device->index, 0};
    device->mig = ASK(look, mig_mode, &mig, &pending) && mig == 1;
}

/* What was known of it in the session before this one: its Xids, and who it is where it
 * does not say so any more. */
static void recall(const struct hardware_reading *before,
                   struct hardware_device *device)
{
    for (uint32_t i = 0; i < before->device_count; i++) {
        const struct hardware_device *old = &before->devices[i];

        if (device->place_known ? !hardware_same_place(&old->place, &device->place)
                                : old->index != device->index)
            continue;
        if (!device->place_known) {
            device->place = old->place;
            device->place_known = old->place_known;
            device->mig = old->mig;
            memcpy(device->name, old->name, sizeof(device->name));
            memcpy(device->uuid, old->uuid, sizeof(device->uuid));
        }
        device->xids = old->xids;
        device->last_xid = old->last_xid;
        device->last_xid_monotonic_ns = old->last_xid_monotonic_ns;
        return;
    }
}

static void watch_xids(struct nvml_reader *reader, struct hardware_reading *reading)
{
    const struct nvml_library *nvml = &reader->nvml;

    reader->events = NULL;
    if (nvml->events_new == NULL || nvml->events_register == NULL ||
        nvml->events_wait == NULL || nvml->events_new(&reader->events) != NVML_OK)
        return;
    for (uint32_t i = 0; i < reading->device_count; i++)
        if (reader->handles[i] != NULL &&
            nvml->events_register(reader->handles[i], NVML_EVENT_XID, reader->events) ==
                NVML_OK &&
            isnan(reading->devices[i].xids))
            reading->devices[i].xids = 0;
}

/* Where it fails, the devices stay as they were known. */
static bool begin(struct nvml_reader *reader, struct hardware_reading *reading)
{
    const struct nvml_library *nvml = &reader->nvml;
    uint32_t count = 0;

    reading->state = WIRE_STATE_UNAVAILABLE;
    if (nvml_library_open(&reader->nvml, reading->reason, sizeof(reading->reason)) != 0)
        return false;
    int error = nvml->count(&count);

    if (error != NVML_OK || count == 0) {
        (void)snprintf(reading->reason, sizeof(reading->reason),
                       error != NVML_OK ? "NVML cannot count the GPUs: error %d"
                                        : "the NVIDIA driver sees no GPU",
                       error);
        nvml_library_close(&reader->nvml);
        return false;
    }
    reader->before = *reading;
    *reading = (struct hardware_reading){.state = WIRE_STATE_ACTIVE};
    if (nvml->driver_version == NULL ||
        nvml->driver_version(reading->driver, sizeof(reading->driver)) != NVML_OK)
        reading->driver[0] = '\0';
    reading->driver[sizeof(reading->driver) - 1] = '\0';
    reading->device_count = count < HARDWARE_DEVICES ? count : HARDWARE_DEVICES;
    reading->devices_unseen = count - reading->device_count;
    memset(reader->link_ns, 0, sizeof(reader->link_ns));
    for (uint32_t i = 0; i < reading->device_count; i++) {
        struct look look = {.nvml = nvml, .device = &reading->devices[i]};

        look.device->index = i;
        look.device->xids = UNKNOWN;
        reader->handles[i] = NULL;
        if (ok(&look, nvml->handle(i, &reader->handles[i])))
            look.handle = reader->handles[i];
        else
            reader->handles[i] = NULL;
        if (look.handle != NULL)
            read_facts(&look);
        else
            look.device->place = (struct hardware_place){UINT32_MAX, i, 0};
        recall(&reader->before, look.device);
    }
    watch_xids(reader, reading);
    return true;
}

/* ---- what does --------------------------------------------------------------------- */

static void read_processes(struct look *look)
{
    /* Aligned for the records, and long enough for the longest known. */
    static _Alignas(8) char room[HARDWARE_PROCESSES * NVML_PROCESS_LONGEST];
    struct hardware_device *device = look->device;
    uint32_t count = HARDWARE_PROCESSES;

    device->process_count = 0;
    device->processes_known =
        ASK(look, processes, &count, room) && count <= HARDWARE_PROCESSES;
    for (uint32_t i = 0; device->processes_known && i < count; i++) {
        struct nvml_process one;

        memcpy(&one, room + i * sizeof(one), sizeof(one));
        device->processes[device->process_count++] = (struct hardware_process){
            one.pid, one.bytes == UINT64_MAX ? UNKNOWN : (double)one.bytes};
    }
}

/* Made and destroyed while we look: their places have gaps. */
static void read_instances(struct look *look)
{
    const struct nvml_library *nvml = look->nvml;
    struct hardware_device *device = look->device;
    uint32_t most = 0;

    device->instance_count = 0;
    if (!device->mig || nvml->instance == NULL || !ASK(look, instances, &most))
        return;
    for (uint32_t i = 0; i < most && device->instance_count < HARDWARE_INSTANCES; i++) {
        struct hardware_instance *one = &device->instances[device->instance_count];
        struct look part = {.nvml = nvml, .device = device};
        struct nvml_memory memory;

        if (nvml->instance(look->handle, i, &part.handle) != NVML_OK)
            continue;
        read_names(&part, one->name, one->uuid, sizeof(one->name));
        bool known =
            nvml->memory != NULL && nvml->memory(part.handle, &memory) == NVML_OK;

        one->total_bytes = known ? (double)memory.total : UNKNOWN;
        one->used_bytes = known ? (double)memory.used : UNKNOWN;
        device->instance_count++;
    }
}

static double read_ecc(struct look *look, int error)
{
    uint64_t count = 0;

    return ASK(look, ecc, error, NVML_VOLATILE, &count) ? (double)count : UNKNOWN;
}

/* Bytes per second since the look before; NaN at the first and where there is none. */
static float link_rate(struct nvml_reader *reader, uint32_t index, uint32_t way,
                       const struct nvml_field *field)
{
    int64_t now = now_ns(), before = reader->link_ns[index][way];
    uint64_t old = reader->link_bytes[index][way], kib = 0;

    if (field->error != NVML_OK || !field_number(field, &kib)) {
        reader->link_ns[index][way] = 0;
        return NAN;
    }
    reader->link_bytes[index][way] = kib * 1024;
    reader->link_ns[index][way] = now;
    if (before == 0 || now <= before || kib * 1024 < old)
        return NAN;
    return (float)((double)(kib * 1024 - old) * 1e9 / (double)(now - before));
}

static void read_links(struct nvml_reader *reader, struct look *look)
{
    struct hardware_sample *sample = &look->device->sample;
    struct nvml_field fields[2] = {
        {.id = NVML_FIELD_NVLINK_SENT, .scope = NVML_ALL_LINKS},
        {.id = NVML_FIELD_NVLINK_RECEIVED, .scope = NVML_ALL_LINKS}};

    sample->nvlink_sent = sample->nvlink_received = NAN;
    if (!ASK(look, fields, 2, fields))
        return;
    sample->nvlink_sent = link_rate(reader, look->device->index, 0, &fields[0]);
    sample->nvlink_received = link_rate(reader, look->device->index, 1, &fields[1]);
}

static void read_sample(struct look *look)
{
    const struct nvml_library *nvml = look->nvml;
    struct hardware_sample *sample = &look->device->sample;
    struct nvml_utilization used = {0, 0};
    uint64_t energy = 0, slowed = 0;
    bool known = ASK(look, utilization, &used);

    sample->busy_share = known ? (float)used.gpu / 100 : NAN;
    sample->memory_busy_share = known ? (float)used.memory / 100 : NAN;
    known = ASK(look, energy_mj, &energy);
    sample->energy_j = known ? (double)energy / 1e3 : UNKNOWN;
    sample->monotonic_ns = now_ns(); /* a counter by another's time is no power */
    sample->slowed_known = ASK(look, slowed, &slowed);
    sample->slowed = sample->slowed_known ? (uint32_t)slowed : 0;
    sample->power_w = (float)ask(look, nvml->power_mw, 1e-3);
    sample->temperature_c = (float)ask_of(look, nvml->temperature, NVML_DIE, 1);
    sample->sm_mhz = (float)ask_of(look, nvml->clock_mhz, NVML_CLOCK_SM, 1);
    sample->memory_mhz = (float)ask_of(look, nvml->clock_mhz, NVML_CLOCK_MEMORY, 1);
    sample->pcie_sent = (float)ask_of(look, nvml->pcie_kb_per_s, NVML_PCIE_SENT, 1e3);
    sample->pcie_received =
        (float)ask_of(look, nvml->pcie_kb_per_s, NVML_PCIE_RECEIVED, 1e3);
    sample->pcie_generation = (float)ask(look, nvml->pcie_generation, 1);
}

static void read_device(struct nvml_reader *reader, struct look *look)
{
    const struct nvml_library *nvml = look->nvml;
    struct hardware_device *device = look->device;
    struct nvml_memory memory;

    read_sample(look);
    bool known = ASK(look, memory, &memory);

    device->total_bytes = known ? (double)memory.total : UNKNOWN;
    device->sample.used_bytes = known ? (double)memory.used : UNKNOWN;
    read_links(reader, look);
    read_processes(look);
    read_instances(look);
    device->power_limit_w = ask(look, nvml->power_limit_mw, 1e-3);
    device->sm_max_mhz = ask_of(look, nvml->max_clock_mhz, NVML_CLOCK_SM, 1);
    device->memory_max_mhz = ask_of(look, nvml->max_clock_mhz, NVML_CLOCK_MEMORY, 1);
    device->pcie_width = ask(look, nvml->pcie_width, 1);
    device->ecc_corrected = read_ecc(look, NVML_CORRECTED);
    device->ecc_uncorrected = read_ecc(look, NVML_UNCORRECTED);
    device->reason[0] = '\0';
    if (look->lost != 0)
        (void)snprintf(device->reason, sizeof(device->reason), "%s",
                       look->lost == NVML_LOST
                           ? "the GPU has fallen off the bus (NVML error 15)"
                           : "the GPU must be reset before it works again (NVML error "
                             "16)");
    else if (!look->answered && look->refused != 0)
        (void)snprintf(device->reason, sizeof(device->reason),
                       "the driver answers nothing about this GPU (NVML error %d)",
                       look->refused);
}

static void read_xids(struct nvml_reader *reader, struct hardware_reading *reading)
{
    struct nvml_event event;

    for (int n = 0; reader->events != NULL && n < EVENTS_MAX; n++) {
        memset(&event, 0, sizeof(event));
        if (reader->nvml.events_wait(reader->events, &event, 0) != NVML_OK)
            return;
        for (uint32_t i = 0; i < reading->device_count; i++) {
            struct hardware_device *device = &reading->devices[i];

            if (event.type != NVML_EVENT_XID || reader->handles[i] != event.device)
                continue;
            device->xids++;
            device->last_xid = (uint32_t)event.data;
            device->last_xid_monotonic_ns = now_ns();
        }
    }
}

/* True when a device told something. */
static bool read_devices(struct nvml_reader *reader, struct hardware_reading *reading)
{
    bool told = false;

    for (uint32_t i = 0; i < reading->device_count; i++) {
        struct look look = {.nvml = &reader->nvml,
                            .handle = reader->handles[i],
                            .device = &reading->devices[i]};

        if (look.handle != NULL)
            read_device(reader, &look);
        else
            (void)snprintf(look.device->reason, sizeof(look.device->reason),
                           "the driver does not give access to this GPU");
        told |= look.device->reason[0] == '\0';
    }
    return told;
}

void nvml_read(struct nvml_reader *reader, struct hardware_reading *reading)
{
    bool stale = reader->failed_looks >= FAILED_LOOKS;

    if (stale && now_ns() >= reader->retry_ns)
        nvml_library_close(&reader->nvml);
    if (!reader->nvml.open) {
        if (now_ns() < reader->retry_ns)
            return;
        reader->retry_ns = now_ns() + RETRY_NS;
        reader->failed_looks = 0;
        if (!begin(reader, reading))
            return;
    }
    if (read_devices(reader, reading)) {
        reader->failed_looks = 0;
        reader->retry_ns = 0; /* a session that worked is opened anew at once */
    } else {
        reader->failed_looks++;
    }
    read_xids(reader, reading);
}
