/* A window's means of what is sampled of processes once a second. */
#include "query/load.h"

#include <math.h>

#include "query/numbers.h"
#include "query/parts.h"

#define NS_PER_S INT64_C(1000000000)

struct mean {
    double sum, squares;
    uint32_t count;
};

static void mean_add(struct mean *mean, double value)
{
    if (isnan(value))
        return;
    mean->sum += value;
    mean->squares += value * value;
    mean->count++;
}

static double mean_of(const struct mean *mean)
{
    return mean->count > 0 ? mean->sum / mean->count : (double)NAN;
}

static double mean_error(const struct mean *mean)
{
    double n = mean->count, at = n > 0 ? mean->sum / n : 0;

    if (mean->count < 2)
        return (double)NAN;
    double variance = (mean->squares - n * at * at) / (n - 1);

    return numbers_t95(mean->count) * sqrt(variance > 0 ? variance : 0) / sqrt(n);
}

/* A sample tells of the second before it: those that began in the window count, and
 * where it is shorter than two seconds also the first one after it. */
static void add_process(const struct pick *pick, const struct process *process,
                        struct mean means[PROCESS_LOADS])
{
    const struct answer_window *window = &pick->head->window;
    int64_t to = window->to_ns;
    bool is_short = to - window->from_ns < 2 * NS_PER_S;
    const struct series_ring *ring =
        series_pick(&process->rss, window->from_ns, to, 3600);
    int64_t width = series_width_ns(&process->rss, ring);
    int64_t from = is_short ? window->from_ns : window->from_ns + NS_PER_S;

    to += is_short ? NS_PER_S : 0;
    for (uint32_t i = 0; i < ring->count; i++) {
        const struct series_bucket *bucket = series_at(ring, i);

        if (bucket->start_ns + width <= from || bucket->start_ns >= to)
            continue;
        for (uint32_t load = 0; load < PROCESS_LOADS; load++)
            if (bucket->counts[load] > 0)
                mean_add(&means[load],
                         (double)bucket->sum[load] / bucket->counts[load]);
    }
}

static void add_workers(const struct pick *pick, struct load *load)
{
    struct mean workers = {0}, job = {0};
    double cores = 0;

    for (const struct process *process = pick->session->processes; process != NULL;
         process = process->next) {
        struct mean means[PROCESS_LOADS] = {{0}};

        add_process(pick, process, means);
        double share = mean_of(&means[PROCESS_LOAD_CPU]);

        if (isnan(share))
            continue;
        mean_add(&job, share);
        cores += share;
        if (process->identity.role == WIRE_ROLE_WORKER &&
            process->identity.parent_pid == pick->process->identity.pid)
            mean_add(&workers, share);
    }
    load->workers = workers.count;
    load->worker_cpu_share = mean_of(&workers);
    load->job_cores = job.count > 0 ? cores : (double)NAN;
}

/* Busy share of the machine, of the samples of the window. */
static double machine_share(const struct pick *pick)
{
    const struct host_state *state = &pick->store->host;
    const struct answer_window *window = &pick->head->window;
    uint64_t count =
        state->count < STATE_HOST_POINTS ? state->count : STATE_HOST_POINTS;
    int64_t from = window->from_ns + pick->head->start_unix_ns;
    int64_t to = window->to_ns + pick->head->start_unix_ns + NS_PER_S;
    struct mean busy = {0};

    for (uint64_t i = state->count - count; i < state->count; i++) {
        const struct host_sample *sample = &state->points[i % STATE_HOST_POINTS];

        if (sample->unix_ns >= from && sample->unix_ns < to)
            mean_add(&busy, (double)sample->cpu_share + (double)sample->steal_share);
    }
    return mean_of(&busy);
}

void parts_load(const struct pick *pick, struct load *load)
{
    struct mean means[PROCESS_LOADS] = {{0}};
    double unknown = (double)NAN;

    *load = (struct load){.worker_cpu_share = unknown,
                          .job_cores = unknown,
                          .core_limit = unknown,
                          .machine_share = unknown};
    if (!pick->head->from_file) {
        add_process(pick, pick->process, means);
        add_workers(pick, load);
        load->core_limit = pick->store->host.cpu_limit;
        load->machine_share = machine_share(pick);
    }
    load->samples = means[PROCESS_LOAD_CPU].count;
    load->cpu_share = mean_of(&means[PROCESS_LOAD_CPU]);
    load->system_share = mean_of(&means[PROCESS_LOAD_SYSTEM]);
    load->delay_share = mean_of(&means[PROCESS_LOAD_DELAY]);
    load->delay_error = mean_error(&means[PROCESS_LOAD_DELAY]);
    load->faults_per_s = mean_of(&means[PROCESS_LOAD_FAULTS]);
}
