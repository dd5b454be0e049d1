#include "ingest/between_ops.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "ingest/group.h"
#include "ingest/guard.h"

#define NS_PER_MS INT64_C(1000000)
#define LEAST_NS  (15 * NS_PER_MS) /* 15 to 47 ms apart: no step's rhythm */

#define RELAXED(word) atomic_load_explicit(&(word), memory_order_relaxed)

int64_t between_ops_next(int64_t now_ns, uint64_t *random)
{
    *random ^= *random << 13 | 1;
    *random ^= *random >> 7;
    *random ^= *random << 17;
    return now_ns + LEAST_NS + (int64_t)(*random % 32) * NS_PER_MS;
}

/* What the training thread says of itself. */
struct saying {
    const struct source *source;
    uint64_t step_start;
    uint32_t recording, phase, depth, tid;
    bool in_op;
};

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
    saying->in_op = false;
    for (uint32_t i = 0; i < WIRE_OPEN_RANGES && i < saying->depth; i++)
        saying->in_op |= EVENT_KIND(RELAXED(slot->open[i].meta)) == EVENT_CPU_OP;
}

/* The state of a thread, as ps(1) shows it; 0 unknown. */
static char state_of(uint32_t pid, uint32_t tid)
{
    char path[64], text[512], state;

    snprintf(path, sizeof(path), "/proc/%" PRIu32 "/task/%" PRIu32 "/stat", pid, tid);
    const char *fields = strrchr(group_slurp(path, text, sizeof(text)), ')');

    return fields != NULL && sscanf(fields + 1, " %c", &state) == 1 ? state : 0;
}

/* The kernel's function that it waits in, where the kernel says it: a name, or "0". */
static void read_place(uint32_t pid, uint32_t tid, struct process_place *seen)
{
    char path[64], text[64];

    snprintf(path, sizeof(path), "/proc/%" PRIu32 "/task/%" PRIu32 "/wchan", pid, tid);
    const char *name = group_slurp(path, text, sizeof(text));
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

/* Its pid where it means something to us; else 0. */
static uint32_t pid_here(const struct source *source, struct store *store)
{
    pthread_rwlock_rdlock(&store->lock);
    const struct process *process = source_process(source, store);
    bool here = process != NULL && process->identity.same_namespace;
    uint32_t pid = here ? process->identity.pid : 0;

    pthread_rwlock_unlock(&store->lock);
    return pid;
}

static uint32_t part_of(const struct saying *saying)
{
    return saying->phase - 1 < EVENT_PHASES ? saying->phase - 1 : EVENT_PHASES;
}

/* In a series' channels: at what it was found between its ops. */
static void count_look(const struct saying *saying, bool asleep,
                       double values[PROCESS_LOOKS])
{
    uint32_t part = part_of(saying);

    if (asleep)
        values[PROCESS_LOOK_ASLEEP + part] = 1;
    else if (part == EVENT_PHASE_FORWARD)
        values[PROCESS_LOOK_BUSY_FORWARD] = 1;
    else if (part == EVENT_PHASES)
        values[PROCESS_LOOK_BUSY_NOWHERE] = 1;
}

void between_ops_sample(const struct source *source, struct store *store,
                        int64_t now_ns)
{
    struct saying before = {.source = source}, after = {.source = source};

    if (source->main_thread >= source->view.layout.thread_count ||
        !guard_run(read_saying, &before) || before.step_start == 0 ||
        !(before.recording & EVENT_STEP_OPS) ||
        (before.recording & EVENT_STEP_TAGGED) != 0) /* slow steps are no sample */
        return;
    uint32_t pid = pid_here(source, store);
    char state = pid == 0 ? 0 : state_of(pid, before.tid);
    double values[PROCESS_LOOKS] = {0};
    struct process_place seen = {.count = 0};

    if (state == 0 || !guard_run(read_saying, &after))
        return;
    bool between = !before.in_op && !after.in_op && before.phase == after.phase &&
                   before.step_start == after.step_start;
    bool asleep = between && (state == 'S' || state == 'D');

    if (between)
        count_look(&before, asleep, values);
    if (asleep)
        read_place(pid, before.tid, &seen);
    pthread_rwlock_wrlock(&store->lock);
    struct session *session = NULL;
    struct process *process = state_find(store, source->serial, &session);

    if (process != NULL) {
        series_add(&process->between_ops.shares, now_ns - session->zero_monotonic_ns, 0,
                   values, PROCESS_LOOKS);
        if (asleep)
            count_place(process->between_ops.places[part_of(&before)], &seen);
    }
    pthread_rwlock_unlock(&store->lock);
}
