/* A fake libnvidia-ml.so.1, for tests alone: as many GPUs as it is told, with numbers that
 * a test can know. FAKE_NVML names a file of "name=value" lines that is read at each call,
 * so that a test changes what happens while the server runs:
 *
 *   devices=n      GPUs (1)                      init=n        nvmlInit_v2 returns n
 *   unsupported=1  no optional call works        hang=1        calls do not return
 *   lost=n         GPU n - 1 is off the bus      mig=n         MIG is on, n instances
 *   slowed=n       reasons of the clocks         xid=n         one event of Xid n
 *   pid=n          a process with 30 GiB, beside pid 1 with 5
 *   idle=n         they do nothing, and take n mW
 *   loaded=n       the driver was loaded for the n-th time: sessions of before are dead
 *   mute=1         neither power nor energy is told
 */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "ingest/nvml/abi.h"

#define GIB      (UINT64_C(1) << 30)
#define DEVICES  64
#define POWER_MW 412000u

static uint64_t told(const char *name, uint64_t otherwise)
{
    const char *path = getenv("FAKE_NVML");
    FILE *file = path != NULL ? fopen(path, "re") : NULL;
    size_t length = strlen(name);
    uint64_t value = otherwise;
    char line[128];

    while (file != NULL && fgets(line, sizeof(line), file) != NULL)
        if (strncmp(line, name, length) == 0 && line[length] == '=')
            value = strtoull(line + length + 1, NULL, 10);
    if (file != NULL)
        fclose(file);
    return value;
}

#define PARTS 8 /* the device itself, and then its instances */

static char places[DEVICES][PARTS];

static uint32_t at(struct nvml_device *device)
{
    return (uint32_t)((char *)device - &places[0][0]);
}

static uint32_t number(struct nvml_device *device)
{
    return at(device) / PARTS;
}

/* 1 for the first instance; 0 for a device. */
static uint32_t part(struct nvml_device *device)
{
    return at(device) % PARTS;
}

static uint64_t opened; /* "loaded" when the session began */

/* What each call to a device begins with. */
static int enter(struct nvml_device *device, int optional)
{
    while (told("hang", 0) != 0)
        usleep(10000);
    if (told("loaded", 0) != opened)
        return NVML_UNINITIALIZED;
    if (told("lost", 0) == number(device) + 1)
        return NVML_LOST;
    return optional && told("unsupported", 0) != 0 ? NVML_NOT_SUPPORTED : NVML_OK;
}

static int give(struct nvml_device *device, uint32_t *to, uint32_t value)
{
    int error = enter(device, 1);

    if (error == NVML_OK)
        *to = value;
    return error;
}

/* Who calls them has found them by their names: no header declares them. */
#pragma GCC diagnostic ignored "-Wmissing-prototypes"

int nvmlInit_v2(void)
{
    opened = told("loaded", 0);
    return (int)told("init", 0);
}

int nvmlShutdown(void)
{
    return NVML_OK;
}

int nvmlSystemGetDriverVersion(char *text, uint32_t bytes)
{
    snprintf(text, bytes, "580.00-fake");
    return NVML_OK;
}

int nvmlDeviceGetCount_v2(uint32_t *count)
{
    *count = (uint32_t)told("devices", 1);
    return NVML_OK;
}

int nvmlDeviceGetHandleByIndex_v2(uint32_t index, struct nvml_device **device)
{
    *device = (struct nvml_device *)(void *)places[index % DEVICES];
    return NVML_OK;
}

int nvmlDeviceGetName(struct nvml_device *device, char *text, uint32_t bytes)
{
    snprintf(text, bytes, part(device) != 0 ? "Fake GPU MIG 1g.10gb" : "Fake GPU");
    return enter(device, 0);
}

int nvmlDeviceGetUUID(struct nvml_device *device, char *text, uint32_t bytes)
{
    if (part(device) != 0)
        snprintf(text, bytes, "MIG-fake-%u-%u", number(device), part(device));
    else
        snprintf(text, bytes, "GPU-fake-%u", number(device));
    return enter(device, 0);
}

int nvmlDeviceGetPciInfo_v3(struct nvml_device *device, struct nvml_pci *pci)
{
    memset(pci, 0, sizeof(*pci));
    pci->bus = 0x3b + number(device);
    return enter(device, 0);
}

int nvmlDeviceGetMigMode(struct nvml_device *device, uint32_t *now, uint32_t *then)
{
    *now = *then = told("mig", 0) != 0;
    return enter(device, 1);
}

int nvmlDeviceGetMaxMigDeviceCount(struct nvml_device *device, uint32_t *most)
{
    *most = PARTS - 1;
    return enter(device, 1);
}

/* The second place is free: instances come and go. */
int nvmlDeviceGetMigDeviceHandleByIndex(struct nvml_device *device, uint32_t index,
                                        struct nvml_device **instance)
{
    uint64_t there = told("mig", 0);

    if (index >= PARTS - 1 || index == 1 || index >= there + (index > 1))
        return NVML_NOT_FOUND;
    *instance = (struct nvml_device *)(void *)&places[number(device)][1 + index];
    return NVML_OK;
}

int nvmlDeviceGetUtilizationRates(struct nvml_device *device,
                                  struct nvml_utilization *used)
{
    *used = told("idle", 0) != 0 ? (struct nvml_utilization){0, 0}
                                 : (struct nvml_utilization){97, 41};
    return told("mig", 0) != 0 ? NVML_NOT_SUPPORTED : enter(device, 1);
}

int nvmlDeviceGetMemoryInfo(struct nvml_device *device, struct nvml_memory *memory)
{
    if (part(device) != 0)
        *memory = (struct nvml_memory){10 * GIB, 8 * GIB, 2 * GIB};
    else
        *memory = (struct nvml_memory){80 * GIB, 44 * GIB, 36 * GIB};
    return enter(device, 1);
}

int nvmlDeviceGetPowerUsage(struct nvml_device *device, uint32_t *power)
{
    return told("mute", 0) != 0 ? NVML_TIMEOUT
                                : give(device, power, (uint32_t)told("idle", POWER_MW));
}

int nvmlDeviceGetEnforcedPowerLimit(struct nvml_device *device, uint32_t *power)
{
    return give(device, power, 700000);
}

int nvmlDeviceGetClockInfo(struct nvml_device *device, int type, uint32_t *clock)
{
    return give(device, clock, type == NVML_CLOCK_SM ? 1755 : 2619);
}

int nvmlDeviceGetMaxClockInfo(struct nvml_device *device, int type, uint32_t *clock)
{
    return give(device, clock, type == NVML_CLOCK_SM ? 1980 : 2619);
}

int nvmlDeviceGetTemperature(struct nvml_device *device, int sensor, uint32_t *celsius)
{
    return sensor == NVML_DIE ? give(device, celsius, 71) : NVML_NOT_SUPPORTED;
}

int nvmlDeviceGetPcieThroughput(struct nvml_device *device, int counter, uint32_t *rate)
{
    return give(device, rate, counter == NVML_PCIE_SENT ? 1000000 : 3000000);
}

int nvmlDeviceGetCurrPcieLinkGeneration(struct nvml_device *device,
                                        uint32_t *generation)
{
    return give(device, generation, 5);
}

int nvmlDeviceGetCurrPcieLinkWidth(struct nvml_device *device, uint32_t *lanes)
{
    return give(device, lanes, 16);
}

int nvmlDeviceGetTotalEccErrors(struct nvml_device *device, int error, int counter,
                                uint64_t *count)
{
    *count = error == NVML_CORRECTED ? 3 : 0;
    return counter == NVML_VOLATILE ? enter(device, 1) : NVML_NOT_SUPPORTED;
}

int nvmlDeviceGetCurrentClocksThrottleReasons(struct nvml_device *device,
                                              uint64_t *reasons)
{
    *reasons = told("slowed", 0);
    return enter(device, 1);
}

#ifndef FAKE_OLD

static double seconds(void)
{
    struct timespec now;

    clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)now.tv_sec + (double)now.tv_nsec / 1e9;
}

int nvmlDeviceGetCurrentClocksEventReasons(struct nvml_device *device,
                                           uint64_t *reasons)
{
    return nvmlDeviceGetCurrentClocksThrottleReasons(device, reasons);
}

int nvmlDeviceGetComputeRunningProcesses_v2(struct nvml_device *device, uint32_t *count,
                                            struct nvml_process *list)
{
    if (*count < 2)
        return NVML_TOO_SMALL;
    list[0] = (struct nvml_process){.pid = 1, .bytes = 5 * GIB};
    list[1] = (struct nvml_process){.pid = (uint32_t)told("pid", 2), .bytes = 30 * GIB};
    *count = 2;
    return enter(device, 1);
}

int nvmlDeviceGetTotalEnergyConsumption(struct nvml_device *device, uint64_t *energy)
{
    *energy = (uint64_t)(seconds() * POWER_MW);
    return told("mute", 0) != 0 ? NVML_TIMEOUT : enter(device, 1);
}

int nvmlDeviceGetFieldValues(struct nvml_device *device, int count,
                             struct nvml_field *fields)
{
    int error = enter(device, 1);

    for (int i = 0; error == NVML_OK && i < count; i++) {
        double gib = fields[i].id == NVML_FIELD_NVLINK_SENT ? 50 : 25;

        fields[i].error = fields[i].scope == NVML_ALL_LINKS ? 0 : NVML_NOT_SUPPORTED;
        fields[i].type = 3;
        fields[i].value.as_u64 = (uint64_t)(seconds() * gib * 1024 * 1024);
    }
    return error;
}

int nvmlEventSetCreate(struct nvml_events **events)
{
    static char set;

    *events = (struct nvml_events *)(void *)&set;
    return told("unsupported", 0) != 0 ? NVML_NOT_SUPPORTED : NVML_OK;
}

int nvmlDeviceRegisterEvents(struct nvml_device *device, uint64_t types,
                             struct nvml_events *events)
{
    (void)types, (void)events;
    return enter(device, 1);
}

int nvmlEventSetWait_v2(struct nvml_events *events, struct nvml_event *event,
                        uint32_t ms)
{
    static uint64_t told_already;
    uint64_t xid = told("xid", 0);

    (void)events, (void)ms;
    if (xid == told_already)
        return NVML_TIMEOUT;
    told_already = xid;
    *event = (struct nvml_event){.device = (struct nvml_device *)(void *)places,
                                 .type = NVML_EVENT_XID,
                                 .data = xid};
    return NVML_OK;
}

#endif
