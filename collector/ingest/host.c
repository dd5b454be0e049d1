#include "ingest/host.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include "ingest/loaders.h"
#include "ingest/nvml/nvml.h"
#include "ingest/proc_counters.h"
#include "wire/clock.h"

#define NS_PER_S 1e9
#define SECTOR   512u

void host_open(struct host *host)
{
    char text[4096];

    *host = (struct host){0};
    group_open(&host->group, GROUP_ROOT,
               group_slurp(text, sizeof(text), "/proc/self/cgroup"));
}

void host_close(struct host *host)
{
    nvml_stop(host->nvml);
    host->nvml = NULL;
}

static double difference(uint64_t now, uint64_t before)
{
    return now >= before ? (double)(now - before) : 0;
}

static void read_cores(struct host *host, struct host_counters *now,
                       struct host_state *state)
{
    static char text[64 * 1024]; /* the collector's thread alone */

    state->core_count = 0;
    for (const char *at = group_slurp(text, sizeof(text), "/proc/stat");
         strncmp(at, "cpu", 3) == 0; at = group_next_line(at)) {
        uint64_t t[8] = {0};
        char *end = NULL;
        const char *field = at + strcspn(at, " ");

        for (uint32_t i = 0; i < 8; i++) {
            t[i] = strtoull(field, &end, 10);
            field = end;
        }
        uint64_t idle = t[3] + t[4], busy = t[0] + t[1] + t[2] + t[5] + t[6];

        if (at[3] == ' ') {
            now->busy = busy;
            now->idle = t[3];
            now->iowait = t[4];
            now->steal = t[7];
            continue;
        }
        uint32_t core = state->core_count;

        if (core >= STATE_CORES)
            break;
        double used = difference(busy, host->core_busy[core]);
        double all = used + difference(idle, host->core_idle[core]);

        state->core_share[core] = all > 0 ? (float)(used / all) : 0;
        host->core_busy[core] = busy;
        host->core_idle[core] = idle;
        state->core_count++;
    }
}

/* Whole disks only: partitions and stacked devices would count twice. Where the kernel does not
 * list devices, as in some sandboxes, none is known to be a partition. */
static bool is_disk(const char *name)
{
    char path[128];

    (void)snprintf(path, sizeof(path), "/sys/class/block/%s/partition", name);
    return access(path, F_OK) != 0 && strncmp(name, "loop", 4) != 0 &&
           strncmp(name, "dm-", 3) != 0;
}

static void read_disks(struct host_counters *now)
{
    static char text[64 * 1024];

    for (const char *at = group_slurp(text, sizeof(text), "/proc/diskstats");
         *at != '\0'; at = group_next_line(at)) {
        char name[64];
        uint64_t read_sectors, written_sectors;

        if (sscanf(at, "%*u %*u %63s %*u %*u %" SCNu64 " %*u %*u %*u %" SCNu64, name,
                   &read_sectors, &written_sectors) != 3 ||
            !is_disk(name))
            continue;
        now->disk_read += read_sectors * SECTOR;
        now->disk_written += written_sectors * SECTOR;
    }
}

static void read_network(struct host_counters *now)
{
    static char text[64 * 1024];

    for (const char *at = group_slurp(text, sizeof(text), "/proc/net/dev"); *at != '\0';
         at = group_next_line(at)) {
        const char *colon = strchr(at, ':');
        uint64_t received, sent;

        if (colon == NULL || colon > group_next_line(at))
            continue;
        at += strspn(at, " ");
        if (strncmp(at, "lo:", 3) == 0 ||
            sscanf(colon + 1, "%" SCNu64 " %*u %*u %*u %*u %*u %*u %*u %" SCNu64,
                   &received, &sent) != 2)
            continue;
        now->received += received;
        now->sent += sent;
    }
}

/* The tighter of the container's and the machine's memory. */
static void read_memory(const struct host *host, struct host_state *state,
                        struct host_sample *sample)
{
    char text[8192];
    uint64_t total = 0, available = 0;

    group_slurp(text, sizeof(text), "/proc/meminfo");
    total = group_value(text, "MemTotal", 0) * 1024;
    available = group_value(text, "MemAvailable", 0) * 1024;
    state->memory_limit_bytes = total > 0 ? (double)total : (double)NAN;
    state->memory_limited_by_container = false;
    sample->memory_used_bytes = difference(total, available);
    struct group_memory group;

    group_read_memory(&host->group, &group);
    if (group.limit_bytes == 0 || (total > 0 && group.limit_bytes >= total))
        return;
    state->memory_limit_bytes = (double)group.limit_bytes;
    state->memory_limited_by_container = true;
    sample->memory_used_bytes = (double)group.used_bytes;
}

static void rates(const struct host *host, const struct host_counters *now,
                  double seconds, struct host_sample *sample)
{
    const struct host_counters *before = &host->before;
    double busy = difference(now->busy, before->busy);
    double steal = difference(now->steal, before->steal);
    double iowait = difference(now->iowait, before->iowait);
    double all = busy + steal + iowait + difference(now->idle, before->idle);
    double periods = difference(now->periods, before->periods);

    all = all > 0 ? all : 1;
    sample->cpu_share = (float)(busy / all);
    sample->steal_share = (float)(steal / all);
    sample->iowait_share = (float)(iowait / all);
    sample->disk_read =
        (float)(difference(now->disk_read, before->disk_read) / seconds);
    sample->disk_write =
        (float)(difference(now->disk_written, before->disk_written) / seconds);
    sample->net_receive =
        (float)(difference(now->received, before->received) / seconds);
    sample->net_send = (float)(difference(now->sent, before->sent) / seconds);
    sample->throttled_share =
        periods > 0 ? (float)(difference(now->throttled, before->throttled) / periods)
                    : NAN;
}

static struct host_process_counters *counters_of(struct host *host, uint32_t serial)
{
    uint32_t limit = sizeof(host->processes) / sizeof(host->processes[0]), at = 0;

    while (at < host->process_count && host->processes[at].serial != serial)
        at++;
    if (at < host->process_count)
        return &host->processes[at];
    at = host->process_count < limit ? host->process_count++ : serial % limit;
    host->processes[at] = (struct host_process_counters){.serial = serial};
    return &host->processes[at];
}

/* The file system that its segment shares with its loader's batches; a segment that lies
 * elsewhere says nothing of it. */
static void sample_shared(struct process *process)
{
    static const char shared[] = "/dev/shm/";
    struct statvfs space;

    if (strncmp(process->identity.path, shared, sizeof(shared) - 1) != 0 ||
        statvfs(process->identity.path, &space) != 0 || space.f_blocks == 0)
        return;
    double block = (double)space.f_frsize;

    process->shared_bytes = (double)space.f_blocks * block;
    process->shared_used_bytes = difference(space.f_blocks, space.f_bavail) * block;
}

/* What is read of a process while nobody holds the lock. */
struct reading {
    uint32_t serial, pid, tid; /* of the training thread, or the first */
    uint64_t start_ticks;
    uint32_t
        workers; /* of its loader, as the job says; 0 it is no trainer, or unknown */
    bool trainer;
    struct host_process_counters now;
    struct proc_counters seen;
};

#define READINGS 2048u /* as many as the collector has files */

/* Counters and pages of a process, if the pid is still its own. The kernel may take its
 * time: the stamp is of when it had answered. */
static bool read_process(struct reading *reading)
{
    struct proc_counters *seen = &reading->seen;
    struct proc_thread_counters thread = {0};

    if (!proc_counters_read(reading->pid, seen))
        return false;
    bool found = proc_counters_read_thread(reading->pid, reading->tid, &thread);

    reading->now =
        (struct host_process_counters){.serial = reading->serial,
                                       .ticks = seen->user + seen->kernel,
                                       .made = seen->faults,
                                       .tid = found ? reading->tid : 0,
                                       .system = thread.kernel,
                                       .faults = thread.faults,
                                       .run_ns = seen->run_ns,
                                       .delay_ns = seen->delay_ns,
                                       .seen_ns = (int64_t)clock_ns(CLOCK_MONOTONIC)};
    /* Dead, and not seen dead yet: its memory did not shrink to nothing. */
    return seen->pages != 0 &&
           (reading->start_ticks == 0 || seen->start == reading->start_ticks);
}

/* Of those that told a step the one that came last. */
static uint32_t training_thread(const struct process *process)
{
    for (uint32_t i = process->thread_count; i-- > 0;)
        if (process->threads[i] != NULL && process->threads[i]->tells_steps)
            return process->threads[i]->tid;
    return process->identity.pid;
}

/* Whose pid means something here. */
static uint32_t list_processes(struct store *store, struct reading *readings)
{
    uint32_t count = 0;

    pthread_rwlock_rdlock(&store->lock);
    for (uint32_t i = 0; i < store->session_count; i++)
        for (struct process *process = store->sessions[i]->processes;
             process != NULL && count < READINGS; process = process->next) {
            const struct process_identity *who = &process->identity;
            bool trainer = who->role == WIRE_ROLE_TRAINER;

            if (process->state == PROCESS_RUNNING && who->same_namespace)
                readings[count++] =
                    (struct reading){.serial = process->serial,
                                     .pid = who->pid,
                                     .tid = training_thread(process),
                                     .start_ticks = who->start_ticks,
                                     .trainer = trainer,
                                     .workers = trainer ? loaders_workers(process) : 0};
        }
    pthread_rwlock_unlock(&store->lock);
    return count;
}

static void loads_of(const struct reading *reading,
                     const struct host_process_counters *before,
                     double values[PROCESS_LOADS])
{
    const struct host_process_counters *now = &reading->now;
    double page = (double)sysconf(_SC_PAGESIZE);

    for (uint32_t load = 0; load < PROCESS_LOADS; load++)
        values[load] = (double)NAN;
    values[PROCESS_LOAD_RSS] = (double)reading->seen.pages * page;
    if (reading->seen.own_pages > 0)
        values[PROCESS_LOAD_OWN] = (double)reading->seen.own_pages * page;
    if (before->seen_ns == 0 || now->seen_ns <= before->seen_ns)
        return;
    double seconds = (double)(now->seen_ns - before->seen_ns) / NS_PER_S;
    double ticks = (double)sysconf(_SC_CLK_TCK) * seconds;

    values[PROCESS_LOAD_CPU] = difference(now->ticks, before->ticks) / ticks;
    values[PROCESS_LOAD_MADE] = difference(now->made, before->made) / seconds;
    if (now->tid != 0 && now->tid == before->tid) {
        values[PROCESS_LOAD_SYSTEM] = difference(now->system, before->system) / ticks;
        values[PROCESS_LOAD_FAULTS] = difference(now->faults, before->faults) / seconds;
    }
    if (now->delay_ns != 0)
        values[PROCESS_LOAD_DELAY] =
            difference(now->delay_ns, before->delay_ns) / NS_PER_S / seconds;
    if (now->run_ns != 0)
        values[PROCESS_LOAD_RUN] =
            difference(now->run_ns, before->run_ns) / NS_PER_S / seconds;
}

/* Under the lock, with what was read before it was taken. */
static void take_process(struct host *host, struct store *store,
                         const struct reading *reading,
                         const struct loaders_reading *loaders)
{
    struct host_process_counters *before = counters_of(host, reading->serial);
    struct session *session = NULL;
    struct process *process = state_find(store, reading->serial, &session);
    double values[PROCESS_LOADS];

    if (process == NULL)
        return;
    int64_t time_ns = reading->now.seen_ns - session->zero_monotonic_ns;

    loads_of(reading, before, values);
    *before = reading->now;
    process->rss_bytes = values[PROCESS_LOAD_RSS];
    process->cpu_share = values[PROCESS_LOAD_CPU];
    series_add(&process->rss, time_ns, 0, values, PROCESS_LOADS);
    if (!reading->trainer)
        return;
    loaders_take(process, loaders, time_ns);
    sample_shared(process);
}

/* One at a time, and the lock for what was read alone: the kernel may take its time over
 * a process, and who asks for the page's numbers must not wait for it. */
static void sample_processes(struct host *host, struct store *store)
{
    static struct reading readings[READINGS]; /* the collector's thread alone */
    struct loaders_reading loaders;
    uint32_t count = list_processes(store, readings);

    for (uint32_t i = 0; i < count; i++) {
        struct reading *reading = &readings[i];

        if (!read_process(reading))
            continue;
        loaders.count = 0;
        if (reading->workers > 0)
            loaders_read(reading->pid, reading->workers, &loaders);
        pthread_rwlock_wrlock(&store->lock);
        take_process(host, store, reading, &loaders);
        pthread_rwlock_unlock(&store->lock);
    }
}

/* The GPUs' meters are read while a job runs, so that no idle driver is kept awake. */
static void sample_gpus(struct host *host, struct store *store)
{
    static struct hardware_reading reading; /* the collector's thread alone */

    if (host->nvml == NULL)
        host->nvml = nvml_start();
    enum nvml_answer answer =
        host->nvml != NULL ? nvml_ask(host->nvml, &reading) : NVML_NO_NEWS;

    if (answer == NVML_NO_NEWS)
        return;
    pthread_rwlock_wrlock(&store->lock);
    if (answer == NVML_NEWS)
        hardware_take(&store->hardware, &reading);
    else
        hardware_silent(&store->hardware,
                        "the NVIDIA driver has not answered for 5 s and more");
    pthread_rwlock_unlock(&store->lock);
}

void host_sample(struct host *host, struct store *store, int64_t now_ns)
{
    static struct host_state state; /* the collector's thread alone */
    struct host_counters now = {0};
    struct host_sample sample = {.unix_ns = (int64_t)clock_ns(CLOCK_REALTIME)};
    double seconds = (double)(now_ns - host->sampled_ns) / NS_PER_S;
    bool first = host->sampled_ns == 0;
    struct group_cpu quota;

    sample_gpus(host, store);
    read_cores(host, &now, &state);
    read_disks(&now);
    read_network(&now);
    group_read_cpu(&host->group, &quota);
    state.cpu_limit = quota.limit_cores;
    now.periods = quota.periods;
    now.throttled = quota.throttled;
    read_memory(host, &state, &sample);
    rates(host, &now, seconds > 0 ? seconds : 1, &sample);
    host->before = now;
    host->sampled_ns = now_ns;
    sample_processes(host, store);
    pthread_rwlock_wrlock(&store->lock);
    struct host_state *to = &store->host;

    to->core_count = state.core_count;
    memcpy(to->core_share, state.core_share, sizeof(to->core_share));
    to->cpu_limit = state.cpu_limit;
    to->memory_limit_bytes = state.memory_limit_bytes;
    to->memory_limited_by_container = state.memory_limited_by_container;
    /* The first sample has nothing to be compared with. */
    if (!first)
        to->points[to->count++ % STATE_HOST_POINTS] = sample;
    state_changed(store);
    pthread_rwlock_unlock(&store->lock);
}
