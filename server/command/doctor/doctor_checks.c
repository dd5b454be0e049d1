/* The checks of `trainglass doctor`, in the order in which a job needs them. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/statfs.h>
#include <unistd.h>

#include "command/doctor/doctor.h"
#include "command/live/holder.h"
#include "ingest/group.h"
#include "ingest/nvml/nvml.h"
#include "wire/clock.h"
#include "wire/segment.h"

#define MIB              (1024.0 * 1024)
#define NFS_MAGIC        0x6969
#define NVML_PATIENCE_MS 5000 /* an idle driver wakes up for it */
#define OLDEST_TORCH     "2.2"
#define NO_TORCH                                                                       \
    "Install PyTorch " OLDEST_TORCH                                                    \
    " or newer for this interpreter, or use trainglass.h"

static void look_library(const struct doctor *doctor, struct diagnosis *diagnosis)
{
    char path[PLACE_BYTES];

    (void)doctor;
    if (place_library(path))
        doctor_say(diagnosis, DOCTOR_OK, "", "%.250s", path);
    else
        doctor_say(diagnosis, DOCTOR_MISSING, "Build or install all of trainglass.",
                   "libtrainglass.so is not beside this program");
}

static bool look_folder_rights(const struct doctor *doctor, struct diagnosis *diagnosis)
{
    struct stat status;

    if (lstat(doctor->directory, &status) != 0) {
        if (errno == ENOENT && place_make(doctor->directory) == 0)
            return true;
        doctor_say(
            diagnosis, DOCTOR_MISSING,
            "Set TRAINGLASS_DIR to a folder in shared memory that you may write.",
            "%.200s: %s", doctor->directory, strerror(errno));
        return false;
    }
    if (!S_ISDIR(status.st_mode) || status.st_uid != geteuid() ||
        access(doctor->directory, W_OK | X_OK) != 0) {
        doctor_say(diagnosis, DOCTOR_MISSING,
                   "Remove it or set TRAINGLASS_DIR to a folder of your own.",
                   "%.200s is not a folder that you own and may write",
                   doctor->directory);
        return false;
    }
    return true;
}

static void look_memory(const struct doctor *doctor, struct diagnosis *diagnosis)
{
    struct statfs status;
    double segment;

    if (!look_folder_rights(doctor, diagnosis))
        return;
    if (statfs(doctor->directory, &status) != 0) {
        doctor_say(diagnosis, DOCTOR_MISSING, "", "%.200s: %s", doctor->directory,
                   strerror(errno));
        return;
    }
    segment = (double)status.f_bavail * (double)status.f_bsize / 8;
    if (segment > WIRE_BYTES_MAX)
        segment = WIRE_BYTES_MAX;
    if (segment < WIRE_BYTES_MIN)
        doctor_say(diagnosis, DOCTOR_MISSING,
                   "`trainglass clean`, or a larger one: docker run --shm-size=1g",
                   "%.200s has no room left", doctor->directory);
    else if (segment < MIB)
        doctor_say(diagnosis, DOCTOR_LIMITED,
                   "`trainglass clean`, or a larger one: docker run --shm-size=1g",
                   "room for %.1f MiB per process: steps and phases only",
                   segment / MIB);
    else
        doctor_say(diagnosis, DOCTOR_OK, "", "%.200s, %.0f MiB for the next process",
                   doctor->directory, segment / MIB);
}

static void look_port(const struct doctor *doctor, struct diagnosis *diagnosis)
{
    unsigned port = (unsigned)options_number(doctor->options, OPTION_PORT);

    switch (holder_ask((uint16_t)port, doctor->directory, HOLDER_PATIENCE_MS)) {
    case HOLDER_NONE:
        doctor_say(diagnosis, DOCTOR_OK, "", "port %u is free", port);
        break;
    case HOLDER_OURS:
        doctor_say(diagnosis, DOCTOR_OK, "", "your server is at http://localhost:%u",
                   port);
        break;
    case HOLDER_OTHER:
        doctor_say(diagnosis, DOCTOR_LIMITED,
                   "`run` takes the next free one; --port chooses another.",
                   "port %u is held by another program", port);
        break;
    }
}

static void look_state(const struct doctor *doctor, struct diagnosis *diagnosis)
{
    char path[PLACE_BYTES];
    struct statfs status;
    int error = place_state(doctor->options, path) ? place_make(path) : -ENOENT;

    if (error == 0 && access(path, W_OK) != 0)
        error = -errno;
    if (error != 0)
        doctor_say(diagnosis, DOCTOR_LIMITED, "Set TRAINGLASS_STATE_DIR.",
                   "no folder for earlier runs: %s", strerror(-error));
    else if (statfs(path, &status) == 0 && status.f_type == NFS_MAGIC)
        doctor_say(diagnosis, DOCTOR_OK, "",
                   "%.200s (NFS: each host keeps its runs apart)", path);
    else
        doctor_say(diagnosis, DOCTOR_OK, "", "%.250s", path);
}

static void look_clock(const struct doctor *doctor, struct diagnosis *diagnosis)
{
    (void)doctor;
    if (clock_tsc_usable())
        doctor_say(diagnosis, DOCTOR_OK, "", "time stamp counter");
    else
        doctor_say(diagnosis, DOCTOR_LIMITED, "",
                   "CLOCK_MONOTONIC: the counter is not trusted here; an event costs "
                   "a little more");
}

static void look_limits(const struct doctor *doctor, struct diagnosis *diagnosis)
{
    struct group_memory memory;
    struct group group;
    char text[4096];

    (void)doctor;
    group_open(&group, GROUP_ROOT,
               group_slurp("/proc/self/cgroup", text, sizeof(text)));
    group_read_memory(&group, &memory);
    if (memory.limit_bytes == 0)
        doctor_say(diagnosis, DOCTOR_OK, "", "no memory limit of a container is known");
    else
        doctor_say(diagnosis, DOCTOR_OK, "", "the container's memory limit is %.1f GiB",
                   (double)memory.limit_bytes / (1024 * MIB));
}

static void look_python(const struct doctor *doctor, struct diagnosis *diagnosis)
{
    char folder[PLACE_BYTES];

    if (doctor->interpreter[0] == '\0')
        doctor_say(diagnosis, DOCTOR_LIMITED,
                   "Install Python 3, or name it: --python FILE",
                   "no interpreter answers; C programs are recorded all the same");
    else if (!place_python(folder))
        doctor_say(diagnosis, DOCTOR_LIMITED, "Build or install all of trainglass.",
                   "the Python side of trainglass is not beside this program");
    else
        doctor_say(diagnosis, DOCTOR_OK, "", "%.200s, Python %s", doctor->interpreter,
                   doctor->python_version);
}

/* "2.10.0" is newer than "2.2": numbers, not texts. */
static bool torch_is_old(const char *version)
{
    unsigned major = 0, minor = 0;

    return sscanf(version, "%u.%u", &major, &minor) == 2 &&
           (major < 2 || (major == 2 && minor < 2));
}

static bool look_torch(const struct doctor *doctor, struct diagnosis *diagnosis)
{
    if (doctor->torch_version[0] == '\0')
        doctor_say(diagnosis, DOCTOR_LIMITED, NO_TORCH,
                   "PyTorch is not installed for %.150s",
                   doctor->interpreter[0] ? doctor->interpreter : "any interpreter");
    else if (torch_is_old(doctor->torch_version))
        doctor_say(diagnosis, DOCTOR_LIMITED, NO_TORCH, "PyTorch %s is too old",
                   doctor->torch_version);
    else
        return true;
    return false;
}

static void look_steps(const struct doctor *doctor, struct diagnosis *diagnosis)
{
    if (look_torch(doctor, diagnosis))
        doctor_say(diagnosis, DOCTOR_OK, "",
                   "optimizer and data loader of PyTorch %s, no change of code",
                   doctor->torch_version);
}

static void look_ops(const struct doctor *doctor, struct diagnosis *diagnosis)
{
    if (!look_torch(doctor, diagnosis))
        return;
    if (strcmp(doctor->machine, "x86_64") != 0 &&
        strcmp(doctor->machine, "aarch64") != 0)
        doctor_say(
            diagnosis, DOCTOR_LIMITED, "",
            "the observer of PyTorch is used on x86_64 and aarch64 alone; this is "
            "%s",
            doctor->machine);
    else
        doctor_say(diagnosis, DOCTOR_OK, "", "observer of PyTorch %s",
                   doctor->torch_version);
}

static void look_nvtx(const struct doctor *doctor, struct diagnosis *diagnosis)
{
    const char *other = getenv("NVTX_INJECTION64_PATH");
    char library[PLACE_BYTES];

    (void)doctor;
    if (other != NULL && (!place_library(library) || strcmp(other, library) != 0))
        doctor_say(diagnosis, DOCTOR_LIMITED, "Unset NVTX_INJECTION64_PATH.",
                   "held by %.200s", other);
    else
        doctor_say(diagnosis, DOCTOR_OK, "", "ranges of libraries that use NVTX");
}

/* In one line for all that a GPU would have. */
static void look_driver(const struct doctor *doctor, struct diagnosis *diagnosis)
{
    if (!doctor->gpu_driver)
        doctor_say(diagnosis, DOCTOR_LIMITED, "",
                   "no NVIDIA driver on this machine, or none in this container");
}

static void look_gpu(const struct doctor *doctor, struct diagnosis *diagnosis)
{
    if (!doctor->gpu_driver)
        return;
    if (access("/proc/driver/nvidia/version", R_OK) != 0 &&
        access("/dev/nvidiactl", F_OK) != 0)
        doctor_say(diagnosis, DOCTOR_LIMITED, "", "no NVIDIA driver on this machine");
    else if (doctor->torch_version[0] != '\0' && doctor->torch_cuda[0] == '\0')
        doctor_say(diagnosis, DOCTOR_LIMITED, "Install a PyTorch built with CUDA.",
                   "PyTorch %s is a build without CUDA", doctor->torch_version);
    else
        doctor_say(diagnosis, DOCTOR_OK, "",
                   "kernels, copies and waits, by the CUPTI that PyTorch brings");
}

/* The driver itself is asked, as the server would: it may be old, sick or shut out. */
static void look_meters(const struct doctor *doctor, struct diagnosis *diagnosis)
{
    static struct hardware_reading reading;
    uint32_t mig = 0, instances = 0;

    if (!doctor->gpu_driver)
        return;
    struct nvml *nvml = nvml_start();
    bool answered = nvml != NULL && nvml_wait(nvml, &reading, NVML_PATIENCE_MS);

    nvml_stop(nvml);
    if (!answered) {
        doctor_say(diagnosis, DOCTOR_LIMITED, "Look for Xid in the kernel's log.",
                   "the NVIDIA driver does not answer");
        return;
    }
    for (uint32_t i = 0; i < reading.device_count; i++) {
        mig += reading.devices[i].mig;
        instances += reading.devices[i].instance_count;
    }
    if (reading.state != WIRE_STATE_ACTIVE)
        doctor_say(diagnosis, DOCTOR_LIMITED, "", "%s", reading.reason);
    else if (mig > 0)
        doctor_say(
            diagnosis, DOCTOR_LIMITED, "",
            "%u x %s, driver %s; MIG is on on %u, with %u instances: an instance tells "
            "its memory, power and clocks are those of the whole GPU",
            reading.device_count, reading.devices[0].name, reading.driver, mig,
            instances);
    else
        doctor_say(diagnosis, DOCTOR_OK, "", "%u x %s, driver %s", reading.device_count,
                   reading.devices[0].name, reading.driver);
}

static void look_stacks(const struct doctor *doctor, struct diagnosis *diagnosis)
{
    if (doctor->interpreter[0] == '\0')
        doctor_say(diagnosis, DOCTOR_LIMITED, "", "needs Python");
    else
        doctor_say(diagnosis, DOCTOR_OK, "",
                   "faulthandler, for a server in the job's PID namespace");
}

/* clang-format off: a table */
const struct doctor_check doctor_checks[] = {
    {"library", true, look_library},   {"shared memory", true, look_memory},
    {"page", false, look_port},        {"earlier runs", false, look_state},
    {"clock", false, look_clock},      {"limits", false, look_limits},
    {"python", false, look_python},    {"steps, phases", false, look_steps},
    {"cpu ops", false, look_ops},      {"cpu memory", false, look_ops},
    {"nvtx ranges", false, look_nvtx}, {"gpu", false, look_driver},
    {"gpu kernels", false, look_gpu},  {"gpu meters", false, look_meters},
    {"stacks", false, look_stacks},    {NULL, false, NULL},
};
/* clang-format on */
