/* The summary that findings and /api/bottlenecks start from. */
#ifndef QUERY_BOTTLENECKS_QUERY_H
#define QUERY_BOTTLENECKS_QUERY_H

#include "query/answer.h"
#include "query/gpu_query.h"
#include "query/memory_query.h"
#include "query/ops_query.h"
#include "query/ranks_query.h"
#include "query/replay_query.h"
#include "query/status_query.h"
#include "query/steps_query.h"

/* What the steps of a window have in common beyond their mean: extra time of some steps,
 * each instant of it under one cause.
 *
 * Steps that are slow at a fixed period are sought first: they are not the usual ones, and
 * no warm-up, which ends. Causes are asked in this order, and what one takes the later ones
 * do not see: garbage collections; the first steps of the run; those of each epoch; a fixed
 * period, also one of which the window shows few or none (rhythm_pauses.c); a trend; the size of
 * the batch, that forward and backward grow with alike. What is left is unsteadiness
 * without a name.
 *
 * What comes again and again is priced by its cycles, a mean extra time over a mean
 * distance, and is as sure as both are: a window's first and last cycle are not whole.
 */

/* Of longer windows the newest steps alone are looked at. */
#define RHYTHM_STEPS 2048u

/* All zero: there is none. */
struct rhythm_extra {
    double ns_per_step; /* of the window */
    double error_ns;    /* half of its 95 % interval; NaN unknown */
    double data_ns;     /* of ns_per_step, in data loading */
    double longer_ns;   /* likewise, that they are over the median (of `gc`); NaN where
                         * that is one of them */
    uint32_t steps;     /* that have it */
    uint32_t of;        /* so many; 0: of all that were looked at */
    uint32_t part;      /* enum event_phase that grew most; EVENT_PHASES: other */
    int64_t worst_step; /* meaningful where there are steps */
    double worst_ns;    /* how much longer it was */
};

struct rhythm {
    uint32_t steps;                    /* that were looked at; 0: nothing is known */
    double median_ns, median_other_ns; /* NaN unknown */
    double median_before_forward_ns, median_before_update_ns; /* parts of other */
    /* Mean of what steps take in no phase beside what comes at a period, with collections or
     * with first batches, and half of its 95 % interval; NaN unknown. */
    double other_left_ns, other_left_error_ns;
    struct rhythm_extra gc, warm_up, epoch, period, drift, rest;
    /* Of `rest`: the few steps that are still far longer than all others
     * (numbers_rare_from). Its error is theirs, as if they came at random. */
    struct rhythm_extra rare;
    /* Batches of different size; the shorter steps count against the longer. */
    struct rhythm_extra sizes;
    double steps_per_epoch; /* NaN without two starts in the window */
    double late_share; /* of the window: since when epochs begin late; 0: they do not */
    uint32_t period_steps; /* 0: none */
    bool period_is_rough;  /* it is one of time, and so many steps in the mean */
    double first_ns,
        last_ns; /* level at both ends of the drift's steps, the newest; NaN */
};

/* Which steps show best what is told of a window: its longest, as far as a trace of them can
 * still be had. */

/* Numbers of steps; NOT_KNOWN: none. */
struct shown_steps {
    int64_t first;    /* events of earlier ones are forgotten, or soon will be */
    int64_t longest;  /* of all */
    int64_t recorded; /* of those recorded as fully as any of them */
    int64_t waited;   /* for data */
};

/* What the trainer and its loader's workers took of the machine in a window. */

/* Means of samples of one second each, from the window's first step to its last one where
 * it has steps; NaN where none lies in it. A window that is shorter than two samples may
 * have all of what those beside it saw: `most` is so much, and all of the time where no
 * sample came yet. */
struct load {
    uint32_t samples;    /* of the trainer, in the window */
    double cpu_share;    /* of one core */
    double system_share; /* of the time its training thread was in the kernel */
    double delay_share;  /* of the time its first thread waited for a core */
    double delay_error;  /* half of the 95 % interval of delay_share */
    double delay_most;   /* what it may have been in the window itself, 0 to 1 */
    double delay_least; /* what it surely was there; NaN where too little tells of it */
    double asleep_share; /* of the time it neither had nor wanted one; NaN unknown */
    double made_per_s;   /* pages that the kernel made anew for all its threads */
    double faults_per_s; /* of those, for its training thread */
    double faults_least; /* a second: so many there surely were; NaN likewise */
    uint32_t workers; /* of the loader that training reads from, that were sampled and
                         live at once; of all, where it does not say how many it has */
    double worker_cpu_share;  /* mean of a worker, of one core */
    double worker_cpu_most;   /* of the busiest worker */
    double worker_cpu_others; /* mean of all others that were seen */
    double worker_delay;      /* mean of a worker: delay_most of its first thread */
    double job_cores;         /* used by all processes of the session */
    double core_limit;        /* cores that the container may use; NaN unlimited */
    double machine_share;     /* of all cores that are busy, 0 to 1 */
    double others_share;      /* of the busy cores' time: not of this job, 0 to 1 */
    double stolen_share;  /* of a busy core's time: the hypervisor took it, 0 to 1 */
    double machine_cores; /* that there are; NaN unknown */
};

/* What the training thread does while no op of it is open: it sleeps, or runs other code. */

/* Of the time of steps whose ops are recorded, from looks at random moments; NaN where
 * there were too few. */
struct between_ops_share {
    double share, error; /* half of its 95 % interval */
};

struct between_ops {
    uint32_t looks;
    /* Of training steps that are looked at, what is in no phase; NaN: none of them is left. */
    double other_share;
    /* Off the CPU. By phase; EVENT_PHASES: in none that was known then. */
    struct between_ops_share asleep[EVENT_PHASES + 1];
    /* Of those: it waited for a thread while another one of the process ran. */
    struct between_ops_share behind[EVENT_PHASES + 1];
    uint32_t runner;         /* that one's tid, the one seen last; 0 none */
    const char *runner_name; /* as the kernel has it; NULL none */
    /* On it or ready for it: in forward, and in no phase that was known then. */
    struct between_ops_share busy_forward, busy_nowhere;
    /* Where in the kernel it was seen asleep most often, of the whole run
     * (/proc/PID/wchan); "" unknown. */
    const char *place[EVENT_PHASES + 1];
};

struct memory_peak {
    const char *device;
    double bytes;
    int64_t time_ns;
    const char *op;
};

struct bottlenecks_request {
    uint32_t k; /* ops of each list, 0 = 10; rules see OPS_JUDGED of them in any case */
};

/* One look: all parts were taken under the same lock, over the same window. */
struct bottlenecks_answer {
    struct answer head;
    struct steps_answer steps;       /* rows empty; summary, slow, outside */
    struct ops_answer cpu, cuda;     /* by self time */
    struct memory_answer memory;     /* points empty */
    struct gpu_answer gpu;           /* points empty */
    struct hardware_answer hardware; /* points empty */
    struct ranks_answer ranks;       /* of the session, over the same window */
    struct rhythm rhythm;
    struct shown_steps shown;
    struct load load;
    struct between_ops between_ops;
    struct status_fact *facts; /* of the selected process */
    uint32_t fact_count;
    bool own_file; /* a file that we wrote of a live run */
    bool foreign;  /* a file of a producer other than PyTorch */
    bool native;   /* live, and no Python: advice in torch's words says nothing to it */
    double dataloader_share;   /* waiting for the next batch, of the summed step time */
    struct memory_peak *peaks; /* one per device, of the window */
    uint32_t peak_count;
    struct replay_table replay; /* filled by who replays; all zero: nothing replayed */
};

MUST_CHECK int bottlenecks_query(struct store *store, const struct selection *selection,
                                 const struct bottlenecks_request *request,
                                 struct bottlenecks_answer *answer);

/* Replays steps of that selection for the rules that ask what a device's work costs: up to
 * 0.2 s. Nothing where no device works. */
void bottlenecks_replay(struct store *store, const struct selection *selection,
                        struct bottlenecks_answer *answer);

void bottlenecks_free(struct bottlenecks_answer *answer);

#endif
