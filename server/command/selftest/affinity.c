#include "command/selftest/affinity.h"

#include <dirent.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>

#define PROCESSES_MAX 256 /* of a job; those beyond stay where they are */

void affinity_pin_thread(pid_t thread, int core)
{
    cpu_set_t set;

    CPU_ZERO(&set);
    CPU_SET((unsigned)core, &set);
    (void)sched_setaffinity(thread, sizeof(set), &set);
}

/* Appends the children that a thread has started. */
static int add_children(pid_t pid, const char *thread, pid_t *pids, int count)
{
    char path[64];
    int child;

    (void)snprintf(path, sizeof(path), "/proc/%d/task/%.20s/children", pid, thread);
    FILE *file = fopen(path, "re");

    while (file != NULL && count < PROCESSES_MAX && fscanf(file, "%d", &child) == 1)
        pids[count++] = child;
    if (file != NULL)
        (void)fclose(file);
    return count;
}

void affinity_pin_tree(pid_t pid, int core)
{
    pid_t pids[PROCESSES_MAX] = {pid};

    for (int i = 0, count = 1; i < count; i++) {
        char path[32];
        struct dirent *thread;

        (void)snprintf(path, sizeof(path), "/proc/%d/task", pids[i]);
        DIR *threads = opendir(path);

        /* NOLINTNEXTLINE(concurrency-mt-unsafe): a stream of our own */
        while (threads != NULL && (thread = readdir(threads)) != NULL) {
            if (thread->d_name[0] == '.')
                continue;
            affinity_pin_thread((pid_t)strtol(thread->d_name, NULL, 10), core);
            count = add_children(pids[i], thread->d_name, pids, count);
        }
        if (threads != NULL)
            closedir(threads);
    }
}
