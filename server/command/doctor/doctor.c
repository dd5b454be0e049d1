/* trainglass doctor: every source and every need, can it work here, why not, what to
 * do. A check is a row of the table below; it looks and changes nothing. */
#include "command/doctor/doctor.h"

#include <cjson/cJSON.h>
#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/statfs.h>
#include <unistd.h>

#include "command/client.h"
#include "ingest/group.h"
#include "ingest/nvml/library.h"
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

enum state { OK, LIMITED, MISSING };

struct diagnosis {
    enum state state;
    char reason[300]; /* what was found; "": the check has no line */
    char remedy[300]; /* what to do; "" nothing */
};

PRINTF(4, 5)
static void say(struct diagnosis *found, enum state state, const char *remedy,
                const char *format, ...)
{
    va_list arguments;

    found->state = state;
    snprintf(found->remedy, sizeof(found->remedy), "%s", remedy);
    va_start(arguments, format);
    vsnprintf(found->reason, sizeof(found->reason), format, arguments);
    va_end(arguments);
}

static void look_library(const struct doctor *doctor, struct diagnosis *found)
{
    char path[PLACE_BYTES];

    (void)doctor;
    if (place_find(PLACE_LIBRARY, path))
        say(found, OK, "", "%.250s", path);
    else
        say(found, MISSING, "Build or install all of trainglass.",
            "libtrainglass.so is not beside this program");
}

/* In the order of the words: is there a folder, may we use it, is there room? */
static void look_memory(const struct doctor *doctor, struct diagnosis *found)
{
    static const char larger[] =
        "`trainglass clean`, or a larger one: docker run --shm-size=1g";
    const char *directory = doctor->directory;
    struct statfs room;
    struct stat status;

    if (lstat(directory, &status) != 0) {
        if (errno != ENOENT || place_make(directory) != 0) {
            say(found, MISSING,
                "Set TRAINGLASS_DIR to a folder in shared memory that you may write.",
                "%.200s: %s", directory, strerror(errno));
            return;
        }
    } else if (!S_ISDIR(status.st_mode) || status.st_uid != geteuid() ||
               access(directory, W_OK | X_OK) != 0) {
        say(found, MISSING, "Remove it or set TRAINGLASS_DIR to a folder of your own.",
            "%.200s is not a folder that you own and may write", directory);
        return;
    }
    if (statfs(directory, &room) != 0) {
        say(found, MISSING, "", "%.200s: %s", directory, strerror(errno));
        return;
    }
    double segment = (double)room.f_bavail * (double)room.f_bsize / 8;

    if (segment > WIRE_BYTES_MAX)
        segment = WIRE_BYTES_MAX;
    if (segment < WIRE_BYTES_MIN)
        say(found, MISSING, larger, "%.200s has no room left", directory);
    else if (segment < MIB)
        say(found, LIMITED, larger,
            "room for %.1f MiB per process: steps and phases only", segment / MIB);
    else
        say(found, OK, "", "%.200s, %.0f MiB for the next process", directory,
            segment / MIB);
}

static void look_port(const struct doctor *doctor, struct diagnosis *found)
{
    unsigned port = (unsigned)options_number(doctor->options, OPTION_PORT);

    switch (holder_ask((uint16_t)port, doctor->directory, HOLDER_PATIENCE_MS)) {
    case HOLDER_NONE:
        say(found, OK, "", "port %u is free", port);
        break;
    case HOLDER_OURS:
        say(found, OK, "", "your server is at http://localhost:%u", port);
        break;
    case HOLDER_OTHER:
        say(found, LIMITED, "`run` takes the next free one; --port chooses another.",
            "port %u is held by another program", port);
        break;
    }
}

static void look_state(const struct doctor *doctor, struct diagnosis *found)
{
    char path[PLACE_BYTES];
    struct statfs status;
    int error = place_state(doctor->options, path) ? place_make(path) : -ENOENT;

    if (error == 0 && access(path, W_OK) != 0)
        error = -errno;
    if (error != 0)
        say(found, LIMITED, "Set TRAINGLASS_STATE_DIR.",
            "no folder for earlier runs: %s", strerror(-error));
    else if (statfs(path, &status) == 0 && status.f_type == NFS_MAGIC)
        say(found, OK, "", "%.200s (NFS: each host keeps its runs apart)", path);
    else
        say(found, OK, "", "%.250s", path);
}

static void look_clock(const struct doctor *doctor, struct diagnosis *found)
{
    (void)doctor;
    if (clock_tsc_usable())
        say(found, OK, "", "time stamp counter");
    else
        say(found, LIMITED, "",
            "CLOCK_MONOTONIC: the counter is not trusted here; an event costs "
            "a little more");
}

static void look_limits(const struct doctor *doctor, struct diagnosis *found)
{
    struct group_memory memory;
    struct group group;
    char text[4096];

    (void)doctor;
    group_open(&group, GROUP_ROOT,
               group_slurp(text, sizeof(text), "/proc/self/cgroup"));
    group_read_memory(&group, &memory);
    if (memory.limit_bytes == 0)
        say(found, OK, "", "no memory limit of a container is known");
    else
        say(found, OK, "", "the container's memory limit is %.1f GiB",
            (double)memory.limit_bytes / (1024 * MIB));
}

static void look_python(const struct doctor *doctor, struct diagnosis *found)
{
    char folder[PLACE_BYTES];

    if (doctor->interpreter[0] == '\0')
        say(found, LIMITED, "Install Python 3, or name it: --python FILE",
            "no interpreter answers; C programs are recorded all the same");
    else if (!place_find(PLACE_PYTHON, folder))
        say(found, LIMITED, "Build or install all of trainglass.",
            "the Python side of trainglass is not beside this program");
    else
        say(found, OK, "", "%.200s, Python %s", doctor->interpreter,
            doctor->python_version);
}

/* "2.10.0" is newer than "2.2": numbers, not texts. */
static bool torch_is_old(const char *version)
{
    unsigned major = 0, minor = 0;

    return sscanf(version, "%u.%u", &major, &minor) == 2 &&
           (major < 2 || (major == 2 && minor < 2));
}

static bool look_torch(const struct doctor *doctor, struct diagnosis *found)
{
    if (doctor->torch_version[0] == '\0')
        say(found, LIMITED, NO_TORCH, "PyTorch is not installed for %.150s",
            doctor->interpreter[0] ? doctor->interpreter : "any interpreter");
    else if (torch_is_old(doctor->torch_version))
        say(found, LIMITED, NO_TORCH, "PyTorch %s is too old", doctor->torch_version);
    else
        return true;
    return false;
}

static void look_steps(const struct doctor *doctor, struct diagnosis *found)
{
    if (look_torch(doctor, found))
        say(found, OK, "", "optimizer and data loader of PyTorch %s, no change of code",
            doctor->torch_version);
}

static void look_ops(const struct doctor *doctor, struct diagnosis *found)
{
    if (!look_torch(doctor, found))
        return;
    if (strcmp(doctor->machine, "x86_64") != 0 &&
        strcmp(doctor->machine, "aarch64") != 0)
        say(found, LIMITED, "",
            "the observer of PyTorch is used on x86_64 and aarch64 alone; this is "
            "%s",
            doctor->machine);
    else
        say(found, OK, "", "observer of PyTorch %s", doctor->torch_version);
}

static void look_nvtx(const struct doctor *doctor, struct diagnosis *found)
{
    const char *other = getenv("NVTX_INJECTION64_PATH");
    char library[PLACE_BYTES];

    (void)doctor;
    if (other != NULL &&
        (!place_find(PLACE_LIBRARY, library) || strcmp(other, library) != 0))
        say(found, LIMITED, "Unset NVTX_INJECTION64_PATH.", "held by %.200s", other);
    else
        say(found, OK, "", "ranges of libraries that use NVTX");
}

/* In one line for all that a GPU would have. */
static void look_driver(const struct doctor *doctor, struct diagnosis *found)
{
    if (!doctor->gpu_driver)
        say(found, LIMITED, "",
            "no NVIDIA driver on this machine, or none in this container");
}

static void look_gpu(const struct doctor *doctor, struct diagnosis *found)
{
    if (!doctor->gpu_driver)
        return;
    if (access("/proc/driver/nvidia/version", R_OK) != 0 &&
        access("/dev/nvidiactl", F_OK) != 0)
        say(found, LIMITED, "", "no NVIDIA driver on this machine");
    else if (doctor->torch_version[0] != '\0' && doctor->torch_cuda[0] == '\0')
        say(found, LIMITED, "Install a PyTorch built with CUDA.",
            "PyTorch %s is a build without CUDA", doctor->torch_version);
    else
        say(found, OK, "",
            "kernels, copies and waits, by the CUPTI that PyTorch brings");
}

/* The driver itself is asked, as the server would: it may be old, sick or shut out. */
static void look_meters(const struct doctor *doctor, struct diagnosis *found)
{
    static struct hardware_reading reading;
    uint32_t mig = 0, instances = 0;

    if (!doctor->gpu_driver)
        return;
    struct nvml *nvml = nvml_start();
    bool answered = nvml != NULL && nvml_wait(nvml, &reading, NVML_PATIENCE_MS);

    nvml_stop(nvml);
    if (!answered) {
        say(found, LIMITED, "Look for Xid in the kernel's log.",
            "the NVIDIA driver does not answer");
        return;
    }
    for (uint32_t i = 0; i < reading.device_count; i++) {
        mig += reading.devices[i].mig;
        instances += reading.devices[i].instance_count;
    }
    if (reading.state != WIRE_STATE_ACTIVE)
        say(found, LIMITED, "", "%s", reading.reason);
    else if (mig > 0)
        say(found, LIMITED, "",
            "%u x %s, driver %s; MIG is on on %u, with %u instances: an instance tells "
            "its memory, power and clocks are those of the whole GPU",
            reading.device_count, reading.devices[0].name, reading.driver, mig,
            instances);
    else
        say(found, OK, "", "%u x %s, driver %s", reading.device_count,
            reading.devices[0].name, reading.driver);
}

static void look_stacks(const struct doctor *doctor, struct diagnosis *found)
{
    if (doctor->interpreter[0] == '\0')
        say(found, LIMITED, "", "needs Python");
    else
        say(found, OK, "", "faulthandler, for a server in the job's PID namespace");
}

/* clang-format off: a table */
static const struct check {
    const char *source;
    bool needed; /* without it no job can be recorded and shown */
    void (*look)(const struct doctor *doctor, struct diagnosis *found);
} checks[] = {
    {"library", true, look_library},   {"shared memory", true, look_memory},
    {"page", false, look_port},        {"earlier runs", false, look_state},
    {"clock", false, look_clock},      {"limits", false, look_limits},
    {"python", false, look_python},    {"steps, phases", false, look_steps},
    {"cpu ops", false, look_ops},      {"cpu memory", false, look_ops},
    {"nvtx ranges", false, look_nvtx}, {"gpu", false, look_driver},
    {"gpu kernels", false, look_gpu},  {"gpu meters", false, look_meters},
    {"stacks", false, look_stacks},
};
/* clang-format on */

static void report(const struct check *check, const struct diagnosis *found,
                   cJSON *rows)
{
    static const char *const words[] = {"ok", "limited", "missing"};

    if (rows == NULL) {
        printf("%-7s  %-14s %s\n", words[found->state], check->source, found->reason);
        if (found->remedy[0] != '\0')
            printf("%25s-> %s\n", "", found->remedy);
        return;
    }
    cJSON *row = cJSON_CreateObject();

    cJSON_AddItemToArray(rows, row);
    cJSON_AddStringToObject(row, "source", check->source);
    cJSON_AddStringToObject(row, "state", words[found->state]);
    cJSON_AddBoolToObject(row, "needed", check->needed);
    cJSON_AddStringToObject(row, "reason", found->reason);
    cJSON_AddStringToObject(row, "remedy", found->remedy);
}

int command_doctor(const struct invocation *invocation)
{
    struct doctor doctor = {.options = &invocation->options,
                            .python = invocation->flags[0]};
    cJSON *document = invocation->json ? cJSON_CreateObject() : NULL;
    cJSON *rows = document ? cJSON_AddArrayToObject(document, "sources") : NULL;
    bool can_record = true;

    if (!place_directory(doctor.options, doctor.directory))
        doctor.directory[0] = '\0';
    doctor_ask_python(&doctor);
    doctor.gpu_driver = nvml_driver_is_here();
    for (size_t i = 0; i < sizeof(checks) / sizeof(checks[0]); i++) {
        struct diagnosis found = {.state = OK};

        checks[i].look(&doctor, &found);
        if (found.reason[0] == '\0')
            continue;
        can_record = can_record && !(checks[i].needed && found.state == MISSING);
        report(&checks[i], &found, rows);
    }
    if (document != NULL) {
        cJSON_AddBoolToObject(document, "can_record", can_record);
        command_print_json(document);
    } else {
        printf("\n%s\n", can_record ? "A job can be recorded and shown here."
                                    : "A job cannot be recorded or shown here.");
    }
    return can_record ? EXIT_DONE : EXIT_CANNOT_START;
}
