/* What the trainer and its loader's workers took of the machine in a window. */
#ifndef QUERY_LOAD_H
#define QUERY_LOAD_H

#include <stdint.h>

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
    double worker_cpu_share; /* mean of a worker, of one core */
    double worker_cpu_most;  /* of the busiest worker */
    double worker_cpu_others; /* mean of all others that were seen */
    double worker_delay;     /* mean of a worker: delay_most of its first thread */
    double job_cores;        /* used by all processes of the session */
    double core_limit;       /* cores that the container may use; NaN unlimited */
    double machine_share;    /* of all cores that are busy, 0 to 1 */
    double others_share;     /* of the busy cores' time: not of this job, 0 to 1 */
    double stolen_share;     /* of a busy core's time: the hypervisor took it, 0 to 1 */
    double machine_cores;    /* that there are; NaN unknown */
};

#endif
