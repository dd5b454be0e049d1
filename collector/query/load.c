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

/* The most that a share of time may have been in the window itself. Of many samples that
 * is the end of their interval; few of them may have seen all of it in this window, and
 * what no sample reaches yet may be all. NaN where the process was never sampled. */
static double most_of(const struct pick *pick, const struct process *process,
                      const struct mean *mean, enum process_load load)
{
    const struct answer_window *window = &pick->head->window;
    const struct series_ring *ring =
        series_pick(&process->rss, window->from_ns, window->to_ns, 3600);
    int64_t width = series_width_ns(&process->rss, ring), seen = 0;
    double span = (double)(window->to_ns - window->from_ns), ns = 0;

    if (mean->count >= 3)
        return fmin(mean_of(mean) + mean_error(mean), 1);
    if (ring->count == 0 || !(span > 0))
        return (double)NAN;
    for (uint32_t i = 0; i < ring->count; i++) {
        const struct series_bucket *bucket = series_at(ring, i);
        double count = bucket->counts[load];

        seen = bucket->start_ns + width;
        if (seen > window->from_ns && bucket->start_ns < window->to_ns + NS_PER_S &&
            count > 0)
            ns += (double)bucket->sum[load] / count * (double)NS_PER_S;
    }
    double unseen = (double)(window->to_ns - seen);

    return fmin((ns + fmax(unseen, 0)) / span, 1);
}

static void add_workers(const struct pick *pick, struct load *load)
{
    struct mean workers = {0}, delays = {0}, job = {0};
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
        if (process->identity.role != WIRE_ROLE_WORKER ||
            process->identity.parent_pid != pick->process->identity.pid)
            continue;
        mean_add(&workers, share);
        load->worker_cpu_most =
            workers.count == 1 ? share : fmax(share, load->worker_cpu_most);
        mean_add(&delays, most_of(pick, process, &means[PROCESS_LOAD_DELAY],
                                  PROCESS_LOAD_DELAY));
    }
    load->workers = workers.count;
    load->worker_cpu_share = mean_of(&workers);
    load->worker_delay = mean_of(&delays);
    load->job_cores = job.count > 0 ? cores : (double)NAN;
}

/* What the machine's samples say of the window; a job's own part of it is known. */
static void add_machine(const struct pick *pick, struct load *load)
{
    const struct host_state *state = &pick->store->host;
    const struct answer_window *window = &pick->head->window;
    uint64_t count =
        state->count < STATE_HOST_POINTS ? state->count : STATE_HOST_POINTS;
    int64_t from = window->from_ns + pick->head->start_unix_ns;
    int64_t to = window->to_ns + pick->head->start_unix_ns + NS_PER_S;
    struct mean busy = {0}, stolen = {0};

    for (uint64_t i = state->count - count; i < state->count; i++) {
        const struct host_sample *sample = &state->points[i % STATE_HOST_POINTS];
        double steal = (double)sample->steal_share;
        double used = (double)sample->cpu_share + steal;

        if (sample->unix_ns < from || sample->unix_ns >= to)
            continue;
        mean_add(&busy, used);
        mean_add(&stolen, used > 0 ? steal / used : 0);
    }
    load->core_limit = state->cpu_limit;
    load->machine_share = mean_of(&busy);
    load->stolen_share = mean_of(&stolen);
    double cores = load->machine_share * state->core_count;

    if (cores > 0 && !isnan(load->job_cores))
        load->others_share = fmax(1 - load->job_cores / cores, 0);
}

void parts_load(const struct pick *pick, struct load *load)
{
    struct mean means[PROCESS_LOADS] = {{0}};
    double unknown = (double)NAN;

    *load = (struct load){.delay_most = unknown,
                          .worker_cpu_share = unknown,
                          .worker_cpu_most = unknown,
                          .worker_delay = unknown,
                          .job_cores = unknown,
                          .core_limit = unknown,
                          .machine_share = unknown,
                          .others_share = unknown,
                          .stolen_share = unknown,
                          .machine_cores = unknown};
    if (!pick->head->from_file) {
        add_process(pick, pick->process, means);
        add_workers(pick, load);
        add_machine(pick, load);
        load->delay_most = most_of(pick, pick->process, &means[PROCESS_LOAD_DELAY],
                                   PROCESS_LOAD_DELAY);
        if (pick->store->host.core_count > 0)
            load->machine_cores = pick->store->host.core_count;
    }
    load->samples = means[PROCESS_LOAD_CPU].count;
    load->cpu_share = mean_of(&means[PROCESS_LOAD_CPU]);
    load->system_share = mean_of(&means[PROCESS_LOAD_SYSTEM]);
    load->delay_share = mean_of(&means[PROCESS_LOAD_DELAY]);
    load->delay_error = mean_error(&means[PROCESS_LOAD_DELAY]);
    load->faults_per_s = mean_of(&means[PROCESS_LOAD_FAULTS]);
}
