#include "ingest/loaders.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "ingest/group.h"
#include "ingest/proc_counters.h"
#include "wire/facts.h"

#define NS_PER_S      1e9
#define CHILDREN_MOST LOADERS_MOST
#define NAME          "pt_data_worker" /* torch 2.6 on; the kernel keeps 15 bytes */

uint32_t loaders_workers(const struct process *trainer)
{
    for (uint32_t i = 0; i < trainer->fact_count; i++) {
        const struct process_fact *fact = &trainer->facts[i];

        if (fact->type == WIRE_FACT_NUMBER &&
            strcmp(texts_get(trainer->texts, fact->key), FACT_DATALOADER_WORKERS) ==
                0 &&
            fact->number >= 1 && fact->number <= PROCESS_LOADERS)
            return (uint32_t)fact->number;
    }
    return 0;
}

static uint32_t children_of(uint32_t pid, uint32_t *children)
{
    char text[1024], *end;
    uint32_t count = 0;

    group_slurp(text, sizeof(text), "/proc/%u/task/%u/children", pid, pid);
    for (const char *at = text; count < CHILDREN_MOST; at = end) {
        unsigned long child = strtoul(at, &end, 10);

        if (end == at || child == 0 || child > UINT32_MAX)
            break;
        children[count++] = (uint32_t)child;
    }
    return count;
}

/* "" where it may not be read. */
static void program_of(uint32_t pid, char *program, size_t size)
{
    char path[64];

    snprintf(path, sizeof(path), "/proc/%" PRIu32 "/exe", pid);
    ssize_t length = readlink(path, program, size - 1);

    program[length > 0 ? length : 0] = '\0';
}

/* Keeps of the children those that are workers; 0 where that is not sure. By their name they
 * are, also those of another loader beside the one that training reads from. */
static uint32_t keep_workers(uint32_t trainer, uint32_t workers, uint32_t *children,
                             uint32_t count)
{
    uint32_t named[CHILDREN_MOST], alike[CHILDREN_MOST], names = 0, likes = 0;
    char program[1024], own[1024], name[64];

    program_of(trainer, program, sizeof(program));
    for (uint32_t i = 0; i < count; i++) {
        group_slurp(name, sizeof(name), "/proc/%u/comm", children[i]);
        if (strncmp(name, NAME, strlen(NAME)) == 0)
            named[names++] = children[i];
        program_of(children[i], own, sizeof(own));
        if (program[0] != '\0' && strcmp(own, program) == 0)
            alike[likes++] = children[i];
    }
    bool by_name = names >= workers && names <= PROCESS_LOADERS;

    if (!by_name && (names > 0 || likes != workers))
        return 0;
    memcpy(children, by_name ? named : alike,
           (by_name ? names : workers) * sizeof(*children));
    return by_name ? names : workers;
}

static struct process_loader *place_of(struct process *trainer, uint32_t pid,
                                       int64_t time_ns)
{
    struct process_loader *oldest = &trainer->loaders[0];

    for (uint32_t i = 0; i < PROCESS_LOADERS; i++) {
        struct process_loader *loader = &trainer->loaders[i];

        if (loader->pid == pid)
            return loader;
        if (loader->seen_ns < oldest->seen_ns || loader->pid == 0)
            oldest = oldest->pid == 0 ? oldest : loader;
    }
    *oldest = (struct process_loader){.pid = pid, .seen_ns = time_ns};
    return oldest;
}

static void take(struct process *trainer, const struct loader_reading *reading,
                 int64_t time_ns)
{
    struct process_loader *loader = place_of(trainer, reading->pid, time_ns);
    const struct proc_counters *now = &reading->now;
    uint64_t ticks = now->user + now->kernel, delay_ns = now->delay_ns;

    if (loader->known && time_ns > loader->seen_ns && ticks >= loader->ticks &&
        delay_ns >= loader->delay_ns) {
        double seconds = (double)(time_ns - loader->seen_ns) / NS_PER_S;
        double cpu = (double)(ticks - loader->ticks) / (double)sysconf(_SC_CLK_TCK);
        double delay = (double)(delay_ns - loader->delay_ns) / NS_PER_S;

        loader->points[loader->count++ % PROCESS_LOADER_POINTS] =
            (struct process_loader_point){
                .time_ns = time_ns,
                .cpu = (float)(cpu / seconds),
                .delay = delay_ns != 0 ? (float)(delay / seconds) : NAN};
    }
    loader->known = true;
    loader->ticks = ticks;
    loader->delay_ns = delay_ns;
    loader->seen_ns = time_ns;
}

void loaders_read(uint32_t trainer, uint32_t workers, struct loaders_reading *reading)
{
    uint32_t children[CHILDREN_MOST], count = children_of(trainer, children);

    count = keep_workers(trainer, workers, children, count);
    reading->count = 0;
    for (uint32_t i = 0; i < count; i++) {
        struct loader_reading *one = &reading->loaders[reading->count];

        one->pid = children[i];
        if (proc_counters_read(one->pid, &one->now))
            reading->count++;
    }
}

void loaders_take(struct process *trainer, const struct loaders_reading *reading,
                  int64_t time_ns)
{
    if (reading->count > 0 && trainer->loaders == NULL)
        trainer->loaders = calloc(PROCESS_LOADERS, sizeof(*trainer->loaders));
    for (uint32_t i = 0; trainer->loaders != NULL && i < reading->count; i++)
        take(trainer, &reading->loaders[i], time_ns);
}
