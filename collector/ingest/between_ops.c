#include "ingest/between_ops.h"

#include <dirent.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "ingest/group.h"
#include "ingest/guard.h"

#define NS_PER_MS INT64_C(1000000)
#define LEAST_NS  (15 * NS_PER_MS) /* 15 to 47 ms apart: no step's rhythm */

/* But up to four times as often where of four moments three find nothing to ask: a hundred
 * looks in ten seconds where a tenth of the steps is recorded. Such a moment takes 5 us. */
#define LEAST_ASKED 0.25
#define MOMENTS     32 /* that the share is of, about */

/* 5 us each, in a look that finds the training thread asleep. */
#define THREADS_ASKED 130u

void between_ops_next(struct between_ops_clock *clock, int64_t now_ns, bool asked)
{
    uint64_t random = clock->random;

    random ^= random << 13 | 1;
    random ^= random >> 7;
    random ^= random << 17;
    clock->random = random;
    clock->asked += ((asked ? 1 : 0) - clock->asked) / MOMENTS;
    double part = clock->asked < LEAST_ASKED ? LEAST_ASKED : clock->asked;
    int64_t apart = LEAST_NS + (int64_t)(random % 32) * NS_PER_MS;

    clock->next_ns = now_ns + (int64_t)(part * (double)apart);
}

/* What the training thread says of itself. */
struct saying {
    const struct source *source;
    uint64_t step_start;
    uint32_t recording, phase, depth, tid;
    bool in_op;
};

/* Does the innermost op do work? What is too deep to be told may. */
static bool is_in_op(const struct source *source, const struct thread_slot *slot,
                     uint32_t depth)
{
    static const char engine[] = "autograd::engine::";
    const char *name;
    uint32_t length;

    if (depth > WIRE_OPEN_RANGES)
        return true;
    for (uint32_t i = depth; i-- > 0;) {
        uint64_t meta = RELAXED(slot->open[i].meta);

        if (EVENT_KIND(meta) != EVENT_CPU_OP)
            continue;
        length = names_lookup(&source->view.names, EVENT_NAME(meta), &name);
        /* Nodes of a graph and the engine that runs them are glue around ops. */
        return (EVENT_FLAGS(meta) & EVENT_OP_BACKWARD) == 0 &&
               (length < sizeof(engine) - 1 ||
                memcmp(name, engine, sizeof(engine) - 1) != 0);
    }
    return false;
}

static void read_saying(void *user)
{
    struct saying *saying = user;
    const struct wire_header *header = saying->source->view.header;
    const struct thread_slot *slot =
        &saying->source->view.threads[saying->source->main_thread];

    saying->step_start = RELAXED(header->step_start);
    saying->recording = RELAXED(header->recording);
    saying->phase = RELAXED(header->phase);
    saying->depth = RELAXED(slot->depth);
    saying->tid = RELAXED(slot->tid);
    saying->in_op = is_in_op(saying->source, slot, saying->depth);
}

/* The state of a thread, as ps(1) shows it, and its name; 0 unknown. */
static char state_of(uint32_t pid, uint32_t tid, char name[16])
{
    char text[512], state;
    const char *first =
        strchr(group_slurp(text, sizeof(text), "/proc/%u/task/%u/stat", pid, tid), '(');
    const char *last = first == NULL ? NULL : strrchr(first, ')');

    if (last == NULL || sscanf(last + 1, " %c", &state) != 1)
        return 0;
    snprintf(name, 16, "%.*s", (int)(last - first - 1), first + 1);
    return state;
}

/* Another thread of the process that runs or is about to; the one of before is asked
 * first. tid 0: none, or none among the first of very many. */
static struct process_runner other_runner(uint32_t pid, uint32_t trainer,
                                          struct process_runner before)
{
    char path[64];
    struct process_runner runner = {.tid = before.tid};

    if (before.tid != 0 && state_of(pid, before.tid, runner.name) == 'R')
        return runner;
    snprintf(path, sizeof(path), "/proc/%" PRIu32 "/task", pid);
    DIR *tasks = opendir(path);
    const struct dirent *entry;

    if (tasks == NULL)
        return (struct process_runner){.tid = 0};
    for (uint32_t i = 0; i < THREADS_ASKED && (entry = readdir(tasks)) != NULL; i++) {
        runner.tid = (uint32_t)strtoul(entry->d_name, NULL, 10);
        if (runner.tid != 0 && runner.tid != trainer &&
            state_of(pid, runner.tid, runner.name) == 'R')
            break;
        runner.tid = 0;
    }
    closedir(tasks);
    return runner;
}

/* The kernel's function that it waits in, where the kernel says it: a name, or "0". */
static void read_place(uint32_t pid, uint32_t tid, struct process_place *seen)
{
    char text[64];
    const char *name =
        group_slurp(text, sizeof(text), "/proc/%u/task/%u/wchan", pid, tid);
    size_t length = strspn(name, "abcdefghijklmnopqrstuvwxyz0123456789_");

    snprintf(seen->name, sizeof(seen->name), "%.*s", name[0] == '0' ? 0 : (int)length,
             name);
}

/* Places beyond the first few are not remembered. */
static void count_place(struct process_place *places, const struct process_place *seen)
{
    for (uint32_t i = 0; i < PROCESS_PLACES; i++) {
        if (places[i].count == 0)
            places[i] = *seen;
        if (strcmp(places[i].name, seen->name) == 0) {
            places[i].count++;
            return;
        }
    }
}

/* The process as it means something to us: pid 0 where it does not. */
static uint32_t pid_here(const struct source *source, struct store *store,
                         struct process_runner *runner)
{
    pthread_rwlock_rdlock(&store->lock);
    const struct process *process = source_process(source, store);
    bool here = process != NULL && process->identity.same_namespace;
    uint32_t pid = here ? process->identity.pid : 0;

    if (here)
        *runner = process->between_ops.runner;
    pthread_rwlock_unlock(&store->lock);
    return pid;
}

/* What a look found: that of the steps' time which it stands for. */
struct look {
    uint32_t part; /* enum event_phase; EVENT_PHASES: none that is known */
    bool between;  /* no op was open */
    bool asleep;   /* and it was off the CPU */
    bool behind;   /* and waited for a thread, while `runner` ran */
    struct process_place place;
    struct process_runner runner; /* seen last */
};

static void look_around(uint32_t pid, uint32_t tid, struct look *look)
{
    read_place(pid, tid, &look->place);
    /* A place that the kernel does not name may be one where it waits for a thread. */
    if (look->place.name[0] != '\0' && strstr(look->place.name, "futex") == NULL)
        return;
    struct process_runner runner = other_runner(pid, tid, look->runner);

    look->behind = runner.tid != 0;
    if (look->behind)
        look->runner = runner;
}

/* Each channel of the series holds 1 where the look found that, else 0. */
static void count_look(struct process_between_ops *table, int64_t at_ns,
                       const struct look *look)
{
    double shares[PROCESS_LOOKS] = {0}, behind[EVENT_PHASES + 1] = {0};

    if (look->asleep)
        shares[PROCESS_LOOK_ASLEEP + look->part] = 1;
    else if (look->between && look->part == EVENT_PHASE_FORWARD)
        shares[PROCESS_LOOK_BUSY_FORWARD] = 1;
    else if (look->between && look->part == EVENT_PHASES)
        shares[PROCESS_LOOK_BUSY_NOWHERE] = 1;
    behind[look->part] = look->behind;
    series_add(&table->shares, at_ns, 0, shares, PROCESS_LOOKS);
    series_add(&table->behind, at_ns, 0, behind, EVENT_PHASES + 1);
    if (look->asleep)
        count_place(table->places[look->part], &look->place);
    table->runner = look->runner;
}

bool between_ops_sample(const struct source *source, struct store *store,
                        int64_t now_ns)
{
    struct saying before = {.source = source}, after = {.source = source};

    if (source->main_thread >= source->view.layout.thread_count ||
        !guard_run(read_saying, &before) || before.step_start == 0 ||
        !(before.recording & EVENT_STEP_OPS) ||
        (before.recording & EVENT_STEP_TAGGED) != 0) /* slow steps are no sample */
        return false;
    struct look look = {.part = before.phase - 1 < EVENT_PHASES ? before.phase - 1
                                                                : EVENT_PHASES};
    uint32_t pid = pid_here(source, store, &look.runner);
    char name[16], state = pid == 0 ? 0 : state_of(pid, before.tid, name);

    if (state == 0 || !guard_run(read_saying, &after))
        return false;
    look.between = !before.in_op && !after.in_op && before.phase == after.phase &&
                   before.step_start == after.step_start;
    look.asleep = look.between && (state == 'S' || state == 'D');
    if (look.asleep)
        look_around(pid, before.tid, &look);
    pthread_rwlock_wrlock(&store->lock);
    struct session *session = NULL;
    struct process *process = state_find(store, source->serial, &session);

    if (process != NULL)
        count_look(&process->between_ops, now_ns - session->zero_monotonic_ns, &look);
    pthread_rwlock_unlock(&store->lock);
    return true;
}
