#include "ingest/nvml/library.h"

#include <dlfcn.h>
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

static void *load(void)
{
    /* The loader's own ways first; then where WSL and Google's nodes keep it. */
    static const char *const paths[] = {"libnvidia-ml.so.1",
                                        "/usr/lib/wsl/lib/libnvidia-ml.so.1",
                                        "/usr/local/nvidia/lib64/libnvidia-ml.so.1"};
    void *handle = NULL;

    for (size_t i = 0; handle == NULL && i < sizeof(paths) / sizeof(paths[0]); i++)
        handle = dlopen(paths[i], RTLD_NOW | RTLD_LOCAL);
    return handle;
}

#define MEMBER(name) offsetof(struct nvml_library, name)

/* Names that a driver may have the function under, the best one first. */
static const struct {
    size_t member;
    const char *names[3];
} rows[] = {
    {MEMBER(init), {"nvmlInit_v2"}},
    {MEMBER(count), {"nvmlDeviceGetCount_v2"}},
    {MEMBER(handle), {"nvmlDeviceGetHandleByIndex_v2"}},
    {MEMBER(shutdown), {"nvmlShutdown"}},
    {MEMBER(driver_version), {"nvmlSystemGetDriverVersion"}},
    {MEMBER(name), {"nvmlDeviceGetName"}},
    {MEMBER(uuid), {"nvmlDeviceGetUUID"}},
    {MEMBER(pci), {"nvmlDeviceGetPciInfo_v3"}},
    {MEMBER(mig_mode), {"nvmlDeviceGetMigMode"}},
    {MEMBER(instances), {"nvmlDeviceGetMaxMigDeviceCount"}},
    {MEMBER(instance), {"nvmlDeviceGetMigDeviceHandleByIndex"}},
    {MEMBER(utilization), {"nvmlDeviceGetUtilizationRates"}},
    {MEMBER(memory), {"nvmlDeviceGetMemoryInfo"}},
    {MEMBER(processes),
     {"nvmlDeviceGetComputeRunningProcesses_v2",
      "nvmlDeviceGetComputeRunningProcesses_v3"}},
    {MEMBER(power_mw), {"nvmlDeviceGetPowerUsage"}},
    {MEMBER(power_limit_mw), {"nvmlDeviceGetEnforcedPowerLimit"}},
    {MEMBER(energy_mj), {"nvmlDeviceGetTotalEnergyConsumption"}},
    {MEMBER(clock_mhz), {"nvmlDeviceGetClockInfo"}},
    {MEMBER(max_clock_mhz), {"nvmlDeviceGetMaxClockInfo"}},
    {MEMBER(slowed),
     {"nvmlDeviceGetCurrentClocksEventReasons",
      "nvmlDeviceGetCurrentClocksThrottleReasons"}},
    {MEMBER(temperature), {"nvmlDeviceGetTemperature"}},
    {MEMBER(pcie_kb_per_s), {"nvmlDeviceGetPcieThroughput"}},
    {MEMBER(pcie_generation), {"nvmlDeviceGetCurrPcieLinkGeneration"}},
    {MEMBER(pcie_width), {"nvmlDeviceGetCurrPcieLinkWidth"}},
    {MEMBER(fields), {"nvmlDeviceGetFieldValues"}},
    {MEMBER(ecc), {"nvmlDeviceGetTotalEccErrors"}},
    {MEMBER(events_new), {"nvmlEventSetCreate"}},
    {MEMBER(events_register), {"nvmlDeviceRegisterEvents"}},
    {MEMBER(events_wait), {"nvmlEventSetWait_v2"}},
};

static void find(struct nvml_library *library, void *handle)
{
    *library = (struct nvml_library){0};
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        void *symbol = NULL;

        for (size_t j = 0; symbol == NULL && j < 3 && rows[i].names[j] != NULL; j++)
            symbol = dlsym(handle, rows[i].names[j]);
        memcpy((char *)library + rows[i].member, &symbol, sizeof(symbol));
    }
}

static bool has_driver(void)
{
    return access("/proc/driver/nvidia/version", R_OK) == 0 ||
           access("/dev/nvidiactl", F_OK) == 0;
}

bool nvml_driver_is_here(void)
{
    return has_driver() || load() != NULL;
}

static const char *refusal(int error)
{
    switch (error) {
    case NVML_DRIVER_NOT_LOADED:
        return "the NVIDIA driver is not loaded, or not let into this container";
    case NVML_NO_PERMISSION:
        return "no permission to ask the NVIDIA driver";
    case NVML_VERSIONS_DIFFER:
        return "libnvidia-ml and the loaded NVIDIA driver are of different versions: "
               "the driver was updated without a reboot";
    case NVML_LOST:
        return "a GPU has fallen off the bus (error 15)";
    default:
        return NULL;
    }
}

int nvml_library_open(struct nvml_library *library, char *reason, size_t bytes)
{
    void *handle = load();

    if (handle == NULL) {
        (void)snprintf(
            reason, bytes, "%s",
            has_driver()
                ? "libnvidia-ml.so.1 is not here: a container needs "
                  "NVIDIA_DRIVER_CAPABILITIES with utility"
                : "no NVIDIA driver on this machine, or none in this container");
        return -ENOENT;
    }
    find(library, handle);
    if (library->init == NULL || library->count == NULL || library->handle == NULL) {
        (void)snprintf(reason, bytes, "libnvidia-ml.so.1 is too old or not NVIDIA's");
        return -ENOENT;
    }
    int error = library->init();

    if (error != NVML_OK) {
        const char *known = refusal(error);

        if (known != NULL)
            (void)snprintf(reason, bytes, "%s", known);
        else
            (void)snprintf(reason, bytes, "NVML refused to start: error %d", error);
        return -ENODEV;
    }
    library->open = true;
    return 0;
}

void nvml_library_close(struct nvml_library *library)
{
    if (library->open && library->shutdown != NULL)
        (void)library->shutdown();
    library->open = false;
}
