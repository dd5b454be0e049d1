#include "findings/loading_wait.h"

#include <math.h>

#include "findings/loading.h"

/* Workers that use less of a core than this wait for their storage. */
#define STORAGE_BOUND 0.5

/* More than this of the cores beside the trainer: they are what is short. */
#define CORES_TAKEN 0.8

bool loading_is_uncounted(const struct rule_context *context)
{
    return rule_number(context, FACT_DATALOADER_UNCOUNTED) >= 1;
}

/* A job that only evaluates does not describe its loader, but tells of its waits. */
static double workers_now(const struct rule_context *context)
{
    double workers = rule_number(context, FACT_DATALOADER_WORKERS);
    bool told = !isnan(context->train->waited_ns) || loading_is_uncounted(context);

    return !isnan(workers) ? workers
           : told          ? fmax(context->summary->load.workers, 1)
                           : 0;
}

bool loading_takes_all_cores(const struct rule_context *context)
{
    const struct load *load = &context->summary->load;
    double cores = rule_cores(context); /* NaN: nobody knows */

    return cores > 0 &&
           load->workers * load->worker_cpu_share >= CORES_TAKEN * fmax(cores - 1, 1);
}

bool loading_waits_for_storage(const struct rule_context *context)
{
    return !(rule_number(context, FACT_DATALOADER_WORKERS) < 1) &&
           context->summary->load.workers > 0 && !loading_keeps_up(context) &&
           loading_worker_share(context) < STORAGE_BOUND &&
           !loading_takes_all_cores(context);
}

/* Does a trainer that loads by itself sleep for more than half of that time? By samples of its
 * thread; without any, by its sleep less all of the step that is not loading. */
static bool sleeps_while_loading(const struct rule_context *context)
{
    const struct steps_summary *train = context->train;
    const struct between_ops *between = &context->summary->between_ops;
    double data = train->phase_ns[EVENT_PHASE_DATA];
    double seen = between->asleep[EVENT_PHASE_DATA].share * train->mean_ns;
    double left =
        context->summary->load.asleep_share * train->mean_ns - (train->mean_ns - data);

    return workers_now(context) < 1 &&
           (between->looks > 0 && !isnan(seen) ? seen : left) >
               (1 - STORAGE_BOUND) * data;
}

double loading_taking_over_ns(const struct rule_context *context)
{
    return rule_has_device(context) || context->summary->native
               ? 0
               : loading_taking_ns(loading_tensors(context));
}

double loading_workers_possible(const struct rule_context *context)
{
    double cores = rule_cores(context);

    if (loading_waits_for_storage(context) || sleeps_while_loading(context))
        return LOADING_WORKERS_MAX;
    return isnan(cores) ? 4 : fmin(fmax(floor(cores) - 1, 0), LOADING_WORKERS_MAX);
}

double loading_most_to_win(const struct rule_context *context, double savings_ns)
{
    const struct gpu_device *device = rule_device(context);
    double idle = device == NULL ? savings_ns : device->idle_ns[GPU_IDLE_DATA];

    return idle < savings_ns ? idle : savings_ns;
}

/* What faster workers would end: the wait until a batch was there. Where nobody tells of it
 * no more than the trainer sleeps, for to take a batch over needs a core too. */
static double waits_for_workers(const struct rule_context *context, double waited)
{
    double told = fmax(context->train->waited_ns - loading_told_apart_ns(context), 0);
    double asleep = context->summary->load.asleep_share * context->train->mean_ns;

    if (isnan(context->train->waited_ns))
        told = fmin(waited - TAKING_LEAST * loading_taking_over_ns(context),
                    isnan(asleep) ? (double)INFINITY : asleep);
    else
        told += loading_unanswered_ns(context);
    /* Where nobody knows of a wait for data, what it sleeps is none. */
    return isnan(waited) ? waited
                         : fmin(told, waited) - loading_kept_from_cores_ns(context);
}

/* As many as now: more are no use, they keep up, or nobody knows how many there are. */
static double workers_wanted(const struct rule_context *context, double now)
{
    double possible = loading_workers_possible(context);

    if (context->summary->native)
        possible = fmin(possible, 1); /* a thread beside the trainer's */
    return loading_is_uncounted(context) || loading_keeps_up(context)
               ? now
               : fmax(fmin(now < 1 ? 4 : 2 * now, possible), now);
}

struct loading_wait loading_wait(const struct rule_context *context)
{
    const struct steps_summary *train = context->train;
    double workers = rule_number(context, FACT_DATALOADER_WORKERS);
    struct loading_wait loading = {.waited_ns = train->phase_ns[EVENT_PHASE_DATA] -
                                                loading_told_apart_ns(context),
                                   .workers = workers_now(context)};

    loading.workers_wanted = workers_wanted(context, loading.workers);
    /* Also what no worker loads yet will cost its way between processes. */
    if (workers < 1 && loading.workers_wanted > loading.workers)
        loading.taking_over_ns = loading_taking_over_ns(context) *
                                 (context->summary->head.from_file ? TAKING_LEAST : 1);
    loading.avoidable_ns = loading.workers >= 1
                               ? waits_for_workers(context, loading.waited_ns)
                               : loading.waited_ns - loading.taking_over_ns;
    /* While some batch is far later than the others, the workers load on. */
    loading.compute_ns = train->mean_ns - loading.avoidable_ns -
                         (train->phase_ns[EVENT_PHASE_DATA] - loading.waited_ns);
    /* What a batch takes those who load it: workers that are waited for, all of their time;
     * one that takes over from the trainer all of its loading, and its half of handing over.
     * They load while the step computes. */
    double batch = loading.workers < 1
                       ? loading.waited_ns + loading.taking_over_ns / 2
                       : loading.workers * (loading.avoidable_ns + loading.compute_ns);
    double left = batch / loading.workers_wanted - loading.compute_ns;

    if (loading.workers_wanted > loading.workers)
        loading.remaining_ns = left > 0 ? left : 0;
    return loading;
}

double rule_own_loading_ns(const struct rule_context *context)
{
    double data = context->train->phase_ns[EVENT_PHASE_DATA];

    return rule_number(context, FACT_DATALOADER_WORKERS) < 1 && data > 0 ? data : 0;
}

double rule_loading_ns(const struct rule_context *context)
{
    double ns = loading_most_to_win(context, loading_wait(context).avoidable_ns);

    return ns > 0 ? ns : 0;
}
