/* What the GPUs of this machine say of themselves, about once a second: how busy, how
 * hot, how fast, how hungry. Read by ingest/nvml, kept for an hour, joined with a
 * process's devices by their places on the PCI bus.
 *
 * What a device does not tell is NaN, never 0. Filled by the collector's thread under the
 * store's lock.
 */
#ifndef AGGREGATE_HARDWARE_H
#define AGGREGATE_HARDWARE_H

#include <stdbool.h>
#include <stdint.h>

#include "wire/segment.h"

#define HARDWARE_DEVICES   32u   /* more are counted */
#define HARDWARE_POINTS    3600u /* an hour: 350 KB a device */
#define HARDWARE_INSTANCES 8u    /* of one device; NVML has 7 at most */
#define HARDWARE_PROCESSES 64u   /* of one device; with more none is told apart */

/* Why the clocks are not higher: the bits are NVML's own, nvmlClocksEventReason* in nvml.h
 * of CUDA 13.5. */
#define HARDWARE_SLOWED_IDLE         0x001u
#define HARDWARE_SLOWED_SETTING      0x002u /* somebody chose these clocks */
#define HARDWARE_SLOWED_POWER_CAP    0x004u
#define HARDWARE_SLOWED_HARDWARE     0x008u /* heat, a power brake, too much at once */
#define HARDWARE_SLOWED_SYNC_BOOST   0x010u /* the slowest of a group decides */
#define HARDWARE_SLOWED_THERMAL      0x020u /* by software */
#define HARDWARE_SLOWED_THERMAL_HARD 0x040u
#define HARDWARE_SLOWED_POWER_BRAKE  0x080u /* by the power supply */
#define HARDWARE_SLOWED_DISPLAY      0x100u

struct hardware_sample {
    int64_t monotonic_ns;
    double energy_j;   /* since the driver was loaded */
    double used_bytes; /* of device memory, by everybody and the driver */
    float busy_share, memory_busy_share; /* of the driver's last sampling period */
    float power_w, temperature_c;        /* of the board, of the die */
    float sm_mhz, memory_mhz;            /* clocks */
    float pcie_sent, pcie_received;      /* bytes/s, over 20 ms of the second */
    float nvlink_sent, nvlink_received;  /* bytes/s, payload of all links */
    float pcie_generation;               /* as the link runs: lower while it idles */
    uint32_t slowed;                     /* HARDWARE_SLOWED_* */
    bool slowed_known;
};

struct hardware_place { /* on the PCI bus */
    uint32_t domain, bus, device;
};

struct hardware_process {
    uint32_t pid; /* as the driver counts: perhaps of another PID namespace */
    double bytes; /* NaN unknown */
};

/* A part of a GPU under MIG: a device of its own for who computes, but not for who asks for
 * power, clocks and use, which only the whole has. */
struct hardware_instance {
    char name[96], uuid[96];
    double total_bytes, used_bytes; /* NaN unknown */
};

struct hardware_device {
    struct hardware_place place;
    bool place_known, mig;
    uint32_t index; /* NVML's, as nvidia-smi shows it */
    char name[96], uuid[96];
    char reason[120]; /* why it tells nothing any more; "" it does */
    double total_bytes, power_limit_w, sm_max_mhz, memory_max_mhz, pcie_width;
    double ecc_corrected, ecc_uncorrected; /* since the driver was loaded */
    double xids;                           /* seen by us; NaN: not told here */
    uint32_t last_xid;
    int64_t last_xid_monotonic_ns; /* 0 none */
    struct hardware_process processes[HARDWARE_PROCESSES];
    uint32_t process_count;
    bool processes_known;
    struct hardware_instance instances[HARDWARE_INSTANCES];
    uint32_t instance_count;       /* 0 without MIG */
    struct hardware_sample sample; /* the newest */
};

/* One look at all devices. */
struct hardware_reading {
    enum wire_source_state state;
    char reason[200]; /* where not active */
    char driver[80];  /* its version; "" unknown */
    struct hardware_device devices[HARDWARE_DEVICES];
    uint32_t device_count, devices_unseen; /* unseen: beyond our limit */
};

struct hardware {
    struct hardware_reading now;
    struct hardware_sample *points[HARDWARE_DEVICES]; /* rings of HARDWARE_POINTS */
    uint64_t counts[HARDWARE_DEVICES];
    struct hardware_place places[HARDWARE_DEVICES]; /* whose ring it is */
    float idle_w[HARDWARE_DEVICES]; /* the least that it took while idle; NaN unknown */
    uint32_t ring_count;
};

void hardware_free(struct hardware *hardware);

/* Takes a new reading; devices that tell something get a point. */
void hardware_take(struct hardware *hardware, const struct hardware_reading *reading);

/* The reading stays as it is known, but nothing new comes. */
void hardware_silent(struct hardware *hardware, const char *reason);

/* The least power of all samples in which the device did nothing, W; NaN without one. */
double hardware_idle_w(const struct hardware *hardware,
                       const struct hardware_device *device);

/* Points of a device: how many are remembered, and the i-th from the oldest. */
uint32_t hardware_points(const struct hardware *hardware,
                         const struct hardware_device *device);
const struct hardware_sample *hardware_point(const struct hardware *hardware,
                                             const struct hardware_device *device,
                                             uint32_t i);

bool hardware_same_place(const struct hardware_place *a,
                         const struct hardware_place *b);

#endif
