/* A window's means of what is sampled of processes once a second. */

#include <stdlib.h>

#include "aggregate/sum.h"
#include "query/parts.h"
#include "wire/facts.h"

#define NS_PER_S INT64_C(1000000000)

struct mean {
    double sum, squares;
    uint32_t count;
    double least; /* of those that tell of nothing else */
    uint32_t inside;
};

/* `inside`: it tells of nothing else. */
static void mean_add(struct mean *mean, double value, bool inside)
{
    if (isnan(value))
        return;
    mean->sum += value;
    mean->squares += value * value;
    mean->count++;
    if (inside) {
        mean->least = mean->inside == 0 ? value : fmin(value, mean->least);
        mean->inside++;
    }
}

static double mean_of(const struct mean *mean)
{
    return mean->count > 0 ? mean->sum / mean->count : UNKNOWN;
}

static double mean_error(const struct mean *mean)
{
    double n = mean->count, at = n > 0 ? mean->sum / n : 0;

    if (mean->count < 2)
        return UNKNOWN;
    double variance = (mean->squares - n * at * at) / (n - 1);

    return numbers_t95(mean->count) * sqrt(variance > 0 ? variance : 0) / sqrt(n);
}

/* A sample tells of the second before it: those that began in the window count, and
 * where it is shorter than two seconds also the first one after it. */
static void add_stretch(const struct process *process, int64_t from, int64_t to,
                        struct mean means[PROCESS_LOADS])
{
    bool is_short = to < time_after(from, 2 * NS_PER_S);
    const struct series_ring *ring = series_pick(&process->rss, from, to, 3600);
    int64_t width = series_width_ns(&process->rss, ring);
    int64_t first = time_after(from, is_short ? 0 : NS_PER_S);
    int64_t end = time_after(to, is_short ? NS_PER_S : 0);

    for (uint32_t i = ring->count; i-- > 0;) {
        const struct series_bucket *bucket = series_at(ring, i);
        bool inside = bucket->start_ns >= time_after(from, NS_PER_S) &&
                      time_after(bucket->start_ns, width) <= to;

        if (time_after(bucket->start_ns, width) <= first)
            break; /* so are those before it, and mostly the newest are asked for */
        if (bucket->start_ns >= end)
            continue;
        for (uint32_t load = 0; load < PROCESS_LOADS; load++) {
            if (bucket->counts[load] > 0)
                mean_add(&means[load], (double)bucket->sum[load] / bucket->counts[load],
                         inside);
        }
    }
}

/* The most that the share of its delay may have been in the window itself. Of many samples that
 * is the end of their interval; few of them may have seen all of it in this window, and
 * what no sample reaches yet may be all. NaN where the process was never sampled. */
static double most_delay(const struct answer_window *window,
                         const struct process *process, const struct mean *mean)
{
    const struct series_ring *ring =
        series_pick(&process->rss, window->from_ns, window->to_ns, 3600);
    int64_t width = series_width_ns(&process->rss, ring), seen = 0;
    double span = (double)(window->to_ns - window->from_ns), ns = 0;

    if (mean->count >= 3)
        return fmin(mean_of(mean) + mean_error(mean), 1);
    if (ring->count == 0 || !(span > 0))
        return UNKNOWN;
    for (uint32_t i = 0; i < ring->count; i++) {
        const struct series_bucket *bucket = series_at(ring, i);
        double count = bucket->counts[PROCESS_LOAD_DELAY];

        seen = bucket->start_ns + width;
        if (seen > window->from_ns && bucket->start_ns < window->to_ns + NS_PER_S &&
            count > 0)
            ns += (double)bucket->sum[PROCESS_LOAD_DELAY] / count * (double)NS_PER_S;
    }
    double unseen = (double)(window->to_ns - seen);

    return fmin((ns + fmax(unseen, 0)) / span, 1);
}

double parts_delay(const struct process *process, int64_t from_ns, int64_t to_ns)
{
    struct mean means[PROCESS_LOADS] = {{0}};

    add_stretch(process, from_ns, to_ns, means);
    return mean_of(&means[PROCESS_LOAD_DELAY]);
}

/* The least that it surely was: every sample that tells of the window alone saw so much, or
 * the interval of all begins there. One that also tells of what was before may have seen all
 * of it there. */
static double least_of(const struct mean *mean)
{
    double low = mean_of(mean) - mean_error(mean);

    return mean->inside == 0 ? low : fmax(mean->least, low); /* NaN of one alone */
}

/* One of them; of a window that is longer than its samples, what they tell. */
static void add_loader(const struct answer_window *window,
                       const struct process_loader *loader, struct mean *cpu,
                       struct mean *delay)
{
    uint64_t kept =
        loader->count < PROCESS_LOADER_POINTS ? loader->count : PROCESS_LOADER_POINTS;

    for (uint64_t i = loader->count - kept; i < loader->count; i++) {
        const struct process_loader_point *point =
            &loader->points[i % PROCESS_LOADER_POINTS];

        if (point->time_ns <= window->from_ns ||
            point->time_ns - NS_PER_S >= window->to_ns)
            continue;
        mean_add(cpu, (double)point->cpu, false);
        mean_add(delay, (double)point->delay, false);
    }
}

/* Beyond so many in one window the others are like these. */
#define WORKERS_MOST 256u

struct worker_seen {
    double cpu, delay;      /* of a worker; delay NaN unknown */
    int64_t from_ns, to_ns; /* it lived, to its newest sample */
};

struct workers_seen {
    uint32_t count;
    struct worker_seen list[WORKERS_MOST];
};

static void see_worker(struct workers_seen *seen, const struct worker_seen *worker)
{
    if (seen->count < WORKERS_MOST)
        seen->list[seen->count++] = *worker;
}

/* Workers that are started anew for each epoch take the place of others. */
static uint32_t most_at_once(const struct workers_seen *seen)
{
    uint32_t most = 0;

    for (uint32_t i = 0; i < seen->count; i++) {
        uint32_t live = 1;

        for (uint32_t j = 0; j < seen->count; j++)
            live += j != i && seen->list[j].from_ns <= seen->list[i].from_ns &&
                    seen->list[i].from_ns <= seen->list[j].to_ns;
        most = live > most ? live : most;
    }
    return most;
}

static int compare_busiest_first(const void *one, const void *other)
{
    double a = ((const struct worker_seen *)one)->cpu;
    double b = ((const struct worker_seen *)other)->cpu;

    return (a < b) - (a > b);
}

/* Where more live at once than the loader has that training reads from, the others are of
 * another one, or of the compiler, and rest while it trains: the busiest are its own. */
static void take_workers(const struct pick *pick, struct workers_seen *seen,
                         struct load *load)
{
    double told = parts_fact_count(pick->process, FACT_DATALOADER_WORKERS);
    uint32_t at_once = most_at_once(seen), count = seen->count;
    struct mean cpu = {0}, delay = {0}, others = {0};

    qsort(seen->list, seen->count, sizeof(seen->list[0]), compare_busiest_first);
    if (told < at_once) {
        count = (uint32_t)(count * told / at_once + 0.5);
        at_once = (uint32_t)told;
    }
    for (uint32_t i = 0; i < count; i++) {
        mean_add(&cpu, seen->list[i].cpu, false);
        mean_add(&delay, seen->list[i].delay, false);
        mean_add(&others, i > 0 ? seen->list[i].cpu : UNKNOWN, false);
    }
    load->workers = at_once;
    load->worker_cpu_share = mean_of(&cpu);
    load->worker_delay = mean_of(&delay);
    if (count > 0)
        load->worker_cpu_most = seen->list[0].cpu;
    load->worker_cpu_others = mean_of(&others);
}

/* Workers without a segment, which all live; and what they use of the cores. Of an epoch that
 * is over others may have been sampled: the newest are the loader's. */
static double see_loaders(const struct pick *pick, struct workers_seen *seen)
{
    const struct process_loader *loaders = pick->process->loaders;
    int64_t newest_ns = 0;
    double cores = 0;

    for (uint32_t i = 0; loaders != NULL && i < PROCESS_LOADERS; i++)
        newest_ns = loaders[i].seen_ns > newest_ns ? loaders[i].seen_ns : newest_ns;
    for (uint32_t i = 0; loaders != NULL && i < PROCESS_LOADERS; i++) {
        struct mean cpu = {0}, delay = {0};

        if (loaders[i].pid != 0 && loaders[i].seen_ns == newest_ns)
            add_loader(&pick->head->window, &loaders[i], &cpu, &delay);
        if (cpu.count == 0)
            continue;
        struct worker_seen worker = {
            .cpu = mean_of(&cpu),
            .delay = delay.count >= 3 ? fmin(mean_of(&delay) + mean_error(&delay), 1)
                                      : mean_of(&delay)};

        see_worker(seen, &worker);
        cores += worker.cpu;
    }
    return cores;
}

static void add_workers(const struct pick *pick, struct load *load)
{
    const struct answer_window *window = &pick->head->window;
    struct workers_seen seen = {.count = 0};
    uint32_t processes = 0, workers = 0;
    double cores = 0;

    for (const struct process *process = pick->session->processes; process != NULL;
         process = process->next) {
        const struct series_ring *newest = &process->rss.rings[0];
        struct mean means[PROCESS_LOADS] = {{0}};

        add_stretch(process, window->from_ns, window->to_ns, means);
        double share = mean_of(&means[PROCESS_LOAD_CPU]);

        if (isnan(share))
            continue;
        processes++;
        cores += share;
        if (process->identity.role != WIRE_ROLE_WORKER ||
            process->identity.parent_pid != pick->process->identity.pid)
            continue;
        workers++;
        struct worker_seen worker = {
            .cpu = share,
            .delay = most_delay(window, process, &means[PROCESS_LOAD_DELAY]),
            .from_ns = process->start_ns,
            .to_ns = newest->count > 0 ? series_at(newest, newest->count - 1)->start_ns
                                       : INT64_MIN};

        if (!parts_feeds_no_training(process))
            see_worker(&seen, &worker);
    }
    if (workers == 0)
        cores += see_loaders(pick, &seen);
    take_workers(pick, &seen, load);
    load->job_cores = processes > 0 ? cores : UNKNOWN;
}

/* What the machine's samples say of the window; a job's own part of it is known. */
static void add_machine(const struct pick *pick, struct load *load)
{
    const struct host_state *state = &pick->store->host;
    const struct answer_window *window = &pick->head->window;
    uint64_t count =
        state->count < STATE_HOST_POINTS ? state->count : STATE_HOST_POINTS;
    int64_t from = time_after(window->from_ns, pick->head->start_unix_ns);
    int64_t to =
        time_after(time_after(window->to_ns, pick->head->start_unix_ns), NS_PER_S);
    struct mean busy = {0}, stolen = {0};

    for (uint64_t i = state->count - count; i < state->count; i++) {
        const struct host_sample *sample = &state->points[i % STATE_HOST_POINTS];
        double steal = (double)sample->steal_share;
        double used = (double)sample->cpu_share + steal;

        if (sample->unix_ns < from || sample->unix_ns >= to)
            continue;
        mean_add(&busy, used, false);
        mean_add(&stolen, used > 0 ? steal / used : 0, false);
    }
    load->core_limit = state->cpu_limit;
    load->machine_share = mean_of(&busy);
    load->stolen_share = mean_of(&stolen);
    double cores = load->machine_share * state->core_count;

    if (cores > 0 && !isnan(load->job_cores))
        load->others_share = fmax(1 - load->job_cores / cores, 0);
}

/* The window from its first step to its last one: what a process took while it imported
 * its packages, or after training, is no share of a step. */
static void narrow_to_steps(const struct pick *pick, struct answer_window *window)
{
    const struct steps *steps = &pick->process->steps;
    uint32_t count, first = pick_steps(pick, &count);

    if (count == 0)
        return;
    const struct step *begin = steps_at(steps, first);
    const struct step *end = steps_at(steps, first + count - 1);
    bool forgot = first == 0 && steps_remembered(steps) < steps->count;

    if (!forgot && begin->start_ns > window->from_ns)
        window->from_ns = begin->start_ns;
    window->to_ns = end->start_ns + end->duration_ns;
}

void parts_load(const struct pick *whole, struct load *load)
{
    struct answer head = *whole->head;
    struct pick trained = *whole, *pick = &trained;
    struct mean means[PROCESS_LOADS] = {{0}};

    narrow_to_steps(whole, &head.window);
    trained.head = &head;

    *load = (struct load){.delay_most = UNKNOWN,
                          .asleep_share = UNKNOWN,
                          .worker_cpu_share = UNKNOWN,
                          .worker_cpu_most = UNKNOWN,
                          .worker_cpu_others = UNKNOWN,
                          .worker_delay = UNKNOWN,
                          .job_cores = UNKNOWN,
                          .core_limit = UNKNOWN,
                          .machine_share = UNKNOWN,
                          .others_share = UNKNOWN,
                          .stolen_share = UNKNOWN,
                          .machine_cores = UNKNOWN};
    if (!pick->head->from_file) {
        add_stretch(pick->process, head.window.from_ns, head.window.to_ns, means);
        add_workers(pick, load);
        add_machine(pick, load);
        load->delay_most =
            most_delay(&head.window, pick->process, &means[PROCESS_LOAD_DELAY]);
        if (pick->store->host.core_count > 0)
            load->machine_cores = pick->store->host.core_count;
    }
    load->samples = means[PROCESS_LOAD_CPU].count;
    load->cpu_share = mean_of(&means[PROCESS_LOAD_CPU]);
    load->system_share = mean_of(&means[PROCESS_LOAD_SYSTEM]);
    load->delay_share = mean_of(&means[PROCESS_LOAD_DELAY]);
    load->delay_error = mean_error(&means[PROCESS_LOAD_DELAY]);
    load->delay_least = least_of(&means[PROCESS_LOAD_DELAY]);
    /* Of a window that is shorter than a few samples they tell too little. */
    if (means[PROCESS_LOAD_RUN].count >= 3)
        load->asleep_share =
            fmax(1 - load->delay_share - mean_of(&means[PROCESS_LOAD_RUN]), 0);
    load->made_per_s = mean_of(&means[PROCESS_LOAD_MADE]);
    load->faults_per_s = mean_of(&means[PROCESS_LOAD_FAULTS]);
    load->faults_least = least_of(&means[PROCESS_LOAD_FAULTS]);
}
