/* Ops: count, total, self and the spread of durations, per name. */
#ifndef QUERY_OPS_QUERY_H
#define QUERY_OPS_QUERY_H

#include "aggregate/ops_group.h"
#include "aggregate/process.h"
#include "query/answer.h"
#include "query/kernel_name.h"

#define OPS_K_MAX 1000u

/* Rows that rules look at: of one thread, all that take a hundredth of the step are among
 * them. */
#define OPS_JUDGED 100u

enum ops_device { OPS_CPU, OPS_ACCELERATOR };

/* By which column, descending; name ascending. */
enum ops_sort {
    OPS_BY_SELF,
    OPS_BY_TOTAL,
    OPS_BY_COUNT,
    OPS_BY_MEAN,
    OPS_BY_MIN,
    OPS_BY_MAX,
    OPS_BY_P50,
    OPS_BY_P95,
    OPS_BY_P99,
    OPS_BY_PER_STEP,
    OPS_BY_SHARE,
    OPS_BY_NAME,
    OPS_BY_DEVICE_TOTAL,
    OPS_BY_DEVICE_SELF,
    OPS_BY_HOST_BYTES,
    OPS_BY_DEVICE_BYTES,
    OPS_BY_HOST_TOTAL_BYTES,
    OPS_BY_DEVICE_TOTAL_BYTES,
    OPS_SORTS,
};

/* Of a kernel: how it is launched. Not known is 0, occupancy_pct NaN. */
struct op_launch {
    bool known, varies; /* grid and block are those of the longest launch */
    uint32_t grid[3], block[3], registers, shared_bytes;
    double occupancy_pct;
};

struct op_row {
    const char *name; /* clean UTF-8, at most 4,096 bytes */
    const char
        *short_name; /* of a kernel (query/kernel_name.h); "" or NULL as the name */
    /* Shapes, stack (frames between ;, innermost first) or module; "" none. */
    const char *detail;
    /* In bottlenecks: the job's own function from which most of it is called, "main
     * (train.py:31)"; "" or NULL unknown. */
    const char *caller;
    const char
        *kind; /* op, range, runtime, sync | kernel, memcpy, memset, collective */
    double count, total_ns, self_ns; /* for all steps of the window (scaled) */
    /* Of self time, of a range's total; NaN without steps. */
    double per_step_ns, per_step_count;
    double mean_ns, min_ns, max_ns, p50_ns, p95_ns, p99_ns; /* of one call */
    /* The same time, of the summed step time; of the span without steps and of a trace file,
     * whose ops outside of steps count too. */
    double share;
    /* Of the device, for what was launched in it and what is nested in it, and in it
     * alone; NaN where launches are not known. */
    double device_total_ns, device_self_ns;
    /* Taken less given back while nothing nested in it ran; NaN where not known. */
    double host_bytes, device_bytes;
    double host_total_bytes, device_total_bytes; /* with what is nested in it */
    double
        error_pct; /* half the 95 % interval of self_ns, 0 where exact; NaN unknown */
    /* Half the 95 % interval of per_step_ns as a mean of steps that vary: what another
     * stretch of the same training would give. NaN for ranges and single steps. */
    double per_step_half_ns;
    uint64_t recorded_count;
    int64_t recorded_total_ns; /* exact */
    struct op_launch launch;
    /* As far as a kernel's name tells. */
    enum kernel_family family;
    bool tensor_cores;
    /* Of ranges: in how many workers of the loader, 0 = in this process; one that the
     * user watches, as all in workers: its total time is what it is sorted by. */
    uint32_t workers;
    bool watched;
    /* Of ranges, in validation: a batch, and of the summed time of its batches; NaN
     * without one. */
    double validation_batch_ns, validation_share;
};

struct ops_request {
    enum ops_device device;
    enum ops_sort sort;
    uint32_t k;        /* 0 = 10, at most OPS_K_MAX */
    uint32_t judged;   /* so many rows are there for rules, however few are listed */
    const char *query; /* in the name or the short one, no case; NULL or "" = all */
    enum group_by by;  /* of CPU ops of trace files; devices are grouped by name */
};

/* Calls of an accelerator's runtime that the host should make rarely, or in another way. */
enum ops_call {
    OPS_CALL_PIN, /* host memory that devices reach by themselves is made or given back */
    OPS_CALL_FILL, /* memory is set, and the call may wait until it is */
    OPS_CALLS,
};

/* An op below this on average costs about as much to call as to run. */
#define OPS_SHORT_NS 10000.0

#define OPS_WATCHED 8u

/* The module whose own ops take most of the device's time, or where none works for any of
 * them of the host's. */
struct op_module {
    const char
        *name;      /* with those that it lies in, "Net_0.Linear_1"; "" or NULL none */
    double host_ns; /* of its ops, per step */
    double device_share; /* of all device time that ops launched; 0 without a device */
    uint32_t count;      /* modules that have ops of their own, among the dearest ops */
};

/* Per step: work that its neighbour makes needless. */
struct op_needless {
    double count, host_ns, device_ns;
};

struct ops_answer {
    struct answer head;    /* window: what the digests reach, may be wider than asked */
    struct op_row *rows;   /* as many as the larger of both counts */
    uint32_t row_count;    /* to be listed */
    uint32_t judged_count; /* that rules look at: OPS_JUDGED where there are as many */
    uint32_t total_ops;    /* names that match */
    struct op_row other;   /* matching names that are not in rows, together */
    uint32_t other_ops;
    enum group_by by;       /* GROUP_NAME for devices */
    uint64_t overflowed;    /* events whose name found no row: counted in `other` */
    double step_ns;         /* summed step time of the window, NaN without steps */
    bool of_file;           /* rows and shares are of all of a trace file */
    double scale_error_pct; /* of all self time together */
    /* Ops (no ranges) with less than OPS_SHORT_NS of self time a call, per step; of a
     * device its kernels of no family. */
    double short_count, short_self_ns;
    /* Watched ranges, the longest of them. */
    struct op_row watched[OPS_WATCHED];
    uint32_t watched_count;
    /* Per step: tensors that are filled with zeros, infinite where an op fills a list of
     * them; time of an optimizer's zero_grad. 0 where there is none. */
    double zeroed, zero_grad_ns;
    /* Kernels, per step, and how many of them; 0 where there are none. In bottlenecks these
     * and those below as far as they fit into what one device computes in a step. */
    double family_ns[KERNEL_FAMILIES], family_count[KERNEL_FAMILIES];
    double convolution_ns;
    /* Of kernels with fewer blocks than the device has multiprocessors, per step: their
     * time, and of it that of the multiprocessors that have none. `multiprocessors`: how
     * many there are, 0 unknown, NaN of unlike devices; of it that of short_self_ns. */
    double multiprocessors, unfilled_ns, unused_ns, short_unused_ns;
    /* Likewise: ops that only move data; ranges in which a checkpoint is saved, those of
     * the run where a running job saves less often than four times in the window. */
    double moved_ns, moved_count, saving_ns, saving_count;
    double call_ns[OPS_CALLS], call_count[OPS_CALLS];
    /* Of a whole trace file, likewise; 0 elsewhere. */
    struct op_needless needless[NEEDLESS_WORKS];
    double update_inside; /* of its optimizer's time, that inside of calls; 0 unknown */
    struct op_module module; /* in bottlenecks, likewise */
};

/* How many rows there are. */
static inline uint32_t ops_held(const struct ops_answer *answer)
{
    return answer->row_count > answer->judged_count ? answer->row_count
                                                    : answer->judged_count;
}

/* Of a kernel of fewer blocks than the device has multiprocessors the share of them that
 * has none; 0 of others, where that is not known, and of collectives: they have few, to
 * leave room beside them. */
double op_row_unused_share(const struct op_row *row, double multiprocessors);

struct outer_row {
    const char *name;
    uint64_t count;
    int64_t total_ns;
};

struct outer_answer {
    struct answer head;
    struct outer_row *rows; /* by total time; waits for data together as "DataLoader" */
    uint32_t row_count;
};

/* Of a file, all of it: what nothing else called, as people know it from their code.
 * Nothing nested is counted again, and autograd's wrappers are looked through. */
MUST_CHECK int outer_query(struct store *store, const struct selection *selection,
                           uint32_t k, struct outer_answer *answer);

MUST_CHECK int ops_query(struct store *store, const struct selection *selection,
                         const struct ops_request *request, struct ops_answer *answer);

/* Their names in requests and options; NULL-terminated. */
extern const char *const ops_sort_words[];  /* of enum ops_sort */
extern const char *const ops_group_words[]; /* of enum group_by */

/* The number of such a name; -1 if there is none. */
int ops_sort_of(const char *word);
int ops_group_of(const char *word);

#endif
