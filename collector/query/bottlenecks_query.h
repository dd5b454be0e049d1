/* The summary that findings and /api/bottlenecks start from. */
#ifndef QUERY_BOTTLENECKS_QUERY_H
#define QUERY_BOTTLENECKS_QUERY_H

#include "query/answer.h"
#include "query/between_ops.h"
#include "query/gpu_query.h"
#include "query/load.h"
#include "query/memory_query.h"
#include "query/ops_query.h"
#include "query/ranks_query.h"
#include "query/replay_query.h"
#include "query/rhythm.h"
#include "query/shown_steps.h"
#include "query/status_query.h"
#include "query/steps_query.h"

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
    bool native; /* live, and no Python: advice in torch's words says nothing to it */
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
