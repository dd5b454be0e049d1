#include "ingest/group.h"

#include <fcntl.h>
#include <inttypes.h>
#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

const char *group_slurp(char *text, size_t size, const char *path, ...)
{
    char place[GROUP_PATH + 64];
    size_t length = 0;
    va_list arguments;

    va_start(arguments, path);
    vsnprintf(place, sizeof(place), path, arguments);
    va_end(arguments);
    int fd = open(place, O_RDONLY | O_CLOEXEC);

    while (fd >= 0 && length + 1 < size) {
        ssize_t got = read(fd, text + length, size - 1 - length);

        if (got <= 0)
            break;
        length += (size_t)got;
    }
    if (fd >= 0)
        close(fd);
    text[length] = '\0';
    return text;
}

const char *group_next_line(const char *at)
{
    const char *end = strchr(at, '\n');

    return end == NULL ? at + strlen(at) : end + 1;
}

uint64_t group_value(const char *text, const char *key, uint64_t missing)
{
    size_t length = strlen(key);

    for (const char *at = text; *at != '\0'; at = group_next_line(at))
        if (strncmp(at, key, length) == 0 && at[length] != '\0' && at[length] <= ':')
            return strtoull(at + length + 1, NULL, 10);
    return missing;
}

/* The group's directory. In a container the path is the host's: its root is mounted. */
static void place(char directory[GROUP_PATH], const char *tree, const char *path)
{
    int length = (int)strcspn(path, "\n");

    if (snprintf(directory, GROUP_PATH, "%s%.*s", tree, length, path) >= GROUP_PATH ||
        access(directory, R_OK) != 0)
        snprintf(directory, GROUP_PATH, "%s", tree);
    if (access(directory, R_OK) != 0)
        directory[0] = '\0';
}

/* A line "4:memory:/path" or "5:cpu,cpuacct:/path" of version 1. */
static void take_controllers(struct group *group, const char *root, const char *list)
{
    size_t length = strcspn(list, ":\n");
    char tree[200];

    if (length == 0 || length > 100 || list[length] != ':')
        return;
    snprintf(tree, sizeof(tree), "%.80s/%.*s", root, (int)length, list);
    for (const char *at = list; at < list + length; at += strcspn(at, ",:") + 1) {
        size_t one = strcspn(at, ",:");

        if (one == strlen("memory") && memcmp(at, "memory", one) == 0)
            place(group->memory, tree, list + length + 1);
        if (one == strlen("cpu") && memcmp(at, "cpu", one) == 0)
            place(group->cpu, tree, list + length + 1);
    }
}

void group_open(struct group *group, const char *root, const char *text)
{
    *group = (struct group){.version1 = true};
    for (const char *at = text; *at != '\0'; at = group_next_line(at)) {
        const char *list = at + strspn(at, "0123456789");

        if (*list == ':')
            take_controllers(group, root, list + 1);
    }
    for (const char *at = text; *at != '\0' && group->memory[0] == '\0';
         at = group_next_line(at)) {
        if (strncmp(at, "0::", 3) != 0)
            continue;
        group->version1 = false;
        place(group->memory, root, at + 3);
        place(group->cpu, root, at + 3);
    }
}

static const char *file_of(const char *directory, const char *name, char *text,
                           size_t size)
{
    text[0] = '\0';
    return directory[0] == '\0' ? text
                                : group_slurp(text, size, "%s/%s", directory, name);
}

/* A number alone in a file; 0 for "max" and for what is not there. */
static uint64_t number_of(const char *directory, const char *name)
{
    char text[64];

    file_of(directory, name, text, sizeof(text));
    return text[0] >= '0' && text[0] <= '9' ? strtoull(text, NULL, 10) : 0;
}

/* What the kernel takes back before it kills: pages of files, on both of its lists, and
 * caches of its own. Pages that are locked, and those of /dev/shm, stand on other lists.
 * The kernel's Documentation/admin-guide/cgroup-v2.rst, "memory.stat"; version 1, in
 * cgroup-v1/memory.rst 5.2, tells nothing of its caches. `docker stats` and the kubelet
 * keep active_file, so they warn of a data set that is read twice. */
static uint64_t reclaimable_of(const struct group *group)
{
    char text[8192];

    file_of(group->memory, "memory.stat", text, sizeof(text));
    if (group->version1)
        return group_value(text, "total_inactive_file", 0) +
               group_value(text, "total_active_file", 0);
    return group_value(text, "inactive_file", 0) + group_value(text, "active_file", 0) +
           group_value(text, "slab_reclaimable", 0);
}

void group_read_memory(const struct group *group, struct group_memory *memory)
{
    const char *limit = group->version1 ? "memory.limit_in_bytes" : "memory.max";
    const char *usage = group->version1 ? "memory.usage_in_bytes" : "memory.current";

    memory->limit_bytes = number_of(group->memory, limit);
    memory->used_bytes = number_of(group->memory, usage);
    /* Version 1 writes "none" as the largest number of whole pages. */
    if (memory->limit_bytes > UINT64_MAX / 4)
        memory->limit_bytes = 0;
    uint64_t given = reclaimable_of(group);

    memory->used_bytes -= given < memory->used_bytes ? given : memory->used_bytes;
}

void group_read_cpu(const struct group *group, struct group_cpu *cpu)
{
    char text[4096];
    uint64_t quota = 0, period = 0;

    if (group->version1) {
        quota = number_of(group->cpu, "cpu.cfs_quota_us"); /* -1: none */
        period = number_of(group->cpu, "cpu.cfs_period_us");
    } else if (sscanf(file_of(group->cpu, "cpu.max", text, sizeof(text)),
                      "%" SCNu64 " %" SCNu64, &quota, &period) != 2) {
        quota = 0; /* "max 100000" */
    }
    cpu->limit_cores =
        quota > 0 && period > 0 ? (double)quota / (double)period : (double)NAN;
    file_of(group->cpu, "cpu.stat", text, sizeof(text));
    cpu->periods = group_value(text, "nr_periods", 0);
    cpu->throttled = group_value(text, "nr_throttled", 0);
}
