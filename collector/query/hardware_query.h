/* What the GPUs of this machine say of themselves: power, clocks, memory, links, faults;
 * and what a step costs in energy. */
#ifndef QUERY_HARDWARE_QUERY_H
#define QUERY_HARDWARE_QUERY_H

#include "aggregate/hardware.h"
#include "query/answer.h"

#define HARDWARE_POINTS_MAX 600u /* of one device in an answer: means beyond */
#define HARDWARE_CURRENT_NS INT64_C(5000000000) /* an older sample is not "now" */

/* Of HARDWARE_COLUMNS: what a point has beside its time, in this order. */
enum hardware_column {
    HARDWARE_BUSY,
    HARDWARE_MEMORY_BUSY,
    HARDWARE_USED_BYTES,
    HARDWARE_POWER_W,
    HARDWARE_TEMPERATURE_C,
    HARDWARE_SM_MHZ,
    HARDWARE_MEMORY_MHZ,
    HARDWARE_PCIE_SENT,
    HARDWARE_PCIE_RECEIVED,
    HARDWARE_NVLINK_SENT,
    HARDWARE_NVLINK_RECEIVED,
    HARDWARE_SLOWED, /* share of the samples with a reason that costs speed */
    HARDWARE_COLUMNS,
};

struct hardware_point {
    int64_t time_ns; /* on the session's axis; the first of those that it stands for */
    double values[HARDWARE_COLUMNS];
};

/* What holds the clocks of a device back while it works; of several the first. */
enum hardware_holder {
    HARDWARE_HELD_BY_HEAT,
    HARDWARE_HELD_BY_POWER,
    HARDWARE_HELD_BY_BOARD,   /* for one of these reasons or both: it does not tell */
    HARDWARE_HELD_BY_SETTING, /* somebody chose the clocks */
    HARDWARE_HOLDERS,
};

struct hardware_row {
    const char
        *device; /* "cuda:0" in the selected process; NULL: not its, or unknown */
    bool works, works_known; /* does the process work on it? */
    const char *name, *uuid, *pci;
    uint32_t index;     /* as nvidia-smi counts */
    bool mig;           /* the figures are of the whole GPU, not of an instance */
    const char *reason; /* why it tells nothing; "" it does */
    double total_bytes, power_limit_w, sm_max_mhz, memory_max_mhz;
    double pcie_generation; /* now */
    double pcie_most; /* the highest generation in the window; without one as now */
    double pcie_width, ecc_corrected, ecc_uncorrected, xids;
    int64_t last_xid, last_xid_ns; /* NOT_KNOWN none */
    double now[HARDWARE_COLUMNS];  /* NaN where the newest sample is old */
    double mean[HARDWARE_COLUMNS]; /* of the window; NaN unknown */
    /* Shares of the window's samples in which it worked: held back by each; and the mean
     * clock of these, and of those that nothing held back. NaN unknown. */
    double held_share[HARDWARE_HOLDERS], held_mhz[HARDWARE_HOLDERS], free_mhz;
    uint32_t slowed; /* HARDWARE_SLOWED_* of that sample */
    bool slowed_known;
    double energy_total_j; /* since the driver was loaded */
    /* Of device memory: the selected session's, and that of other processes. */
    double job_bytes, other_bytes;
    const char *processes_reason; /* why these are not known; "" they are */
    /* In the window, validation and pauses too, over the time in which it is told: the
     * span. By step only where the process is known to work on it, and not under MIG:
     * others may have a part of the same GPU. */
    double energy_j, energy_span_ns, joules_per_step, samples_per_joule;
    double idle_w; /* the least that it ever took while it did nothing; NaN unknown */
    struct hardware_point *points;
    uint32_t point_count;
    struct hardware_instance *instances; /* under MIG */
    uint32_t instance_count;
};

struct hardware_answer {
    enum wire_source_state state; /* UNKNOWN: nobody has looked yet */
    const char *reason, *driver;
    struct hardware_row *rows;
    uint32_t row_count, unseen;
    /* Over the devices that the process works on; NaN when one of them is not known. */
    double joules_per_step, samples_per_joule;
};

/* The machine alone: rows without points, devices and energy. Everything is in `arena`. */
MUST_CHECK int hardware_query(struct store *store, struct arena *arena,
                              struct hardware_answer *answer);

#endif
