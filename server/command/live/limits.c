#include "command/live/limits.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define PATH_BYTES 1400u

/* "0::/path" of version 2, "5:memory:/path" of version 1. */
static int memory_folder(char *folder, size_t size)
{
    char line[1024], *path;
    FILE *file = fopen("/proc/self/cgroup", "re");
    int found = 0;

    if (file == NULL)
        return 0;
    while (found != 1 && fgets(line, sizeof(line), file) != NULL) {
        char *controllers = strchr(line, ':');

        if (controllers == NULL || (path = strchr(controllers + 1, ':')) == NULL)
            continue;
        *path++ = '\0';
        path[strcspn(path, "\n")] = '\0';
        if (strstr(controllers + 1, "memory") != NULL) {
            snprintf(folder, size, "/sys/fs/cgroup/memory%s", path);
            found = 1;
        } else if (controllers[1] == '\0') {
            snprintf(folder, size, "/sys/fs/cgroup%s", path);
            found = 2;
        }
    }
    fclose(file);
    return found;
}

/* The number after `key` in a file of the folder, or of the mount's root: inside of a
 * container the path is often the host's, and the root is ours. */
static int read_number(const char *folder, const char *name, const char *key,
                       uint64_t *number)
{
    char path[PATH_BYTES], line[256];
    int version1 = strncmp(folder, "/sys/fs/cgroup/memory", 21) == 0, found = 0;
    FILE *file;

    snprintf(path, sizeof(path), "%.1200s/%s", folder, name);
    file = fopen(path, "re");
    if (file == NULL) {
        snprintf(path, sizeof(path), "/sys/fs/cgroup%s/%s", version1 ? "/memory" : "",
                 name);
        file = fopen(path, "re");
    }
    if (file == NULL)
        return 0;
    while (!found && fgets(line, sizeof(line), file) != NULL) {
        size_t skip = strlen(key);

        found = strncmp(line, key, skip) == 0 && line[skip] >= '0' && line[skip] <= '9';
        if (found)
            *number = strtoull(line + skip, NULL, 10);
    }
    fclose(file);
    return found;
}

uint32_t limits_oom_kills(void)
{
    char folder[PATH_BYTES] = "";
    uint64_t kills = 0;
    int version = memory_folder(folder, sizeof(folder));

    if (version == 0 ||
        !read_number(folder, version == 1 ? "memory.oom_control" : "memory.events",
                     "oom_kill ", &kills))
        return 0;
    return kills > UINT32_MAX ? UINT32_MAX : (uint32_t)kills;
}

uint64_t limits_memory_bytes(void)
{
    char folder[PATH_BYTES] = "";
    uint64_t bytes = 0;
    int version = memory_folder(folder, sizeof(folder));

    if (version == 0 ||
        !read_number(folder, version == 1 ? "memory.limit_in_bytes" : "memory.max", "",
                     &bytes))
        return 0;
    /* Version 1 writes "no limit" as the largest page-aligned number. */
    return bytes > UINT64_MAX / 4 ? 0 : bytes;
}
