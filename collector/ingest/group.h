/* The control group that this process lives in: what its container may use, and what it
 * uses. Version 2 has one tree, version 1 one per controller; the answers are the same.
 */
#ifndef INGEST_GROUP_H
#define INGEST_GROUP_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "wire/attributes.h"

#define GROUP_ROOT "/sys/fs/cgroup"
#define GROUP_PATH 1024 /* nested containers have some 300 bytes */

struct group {
    bool version1;
    char memory[GROUP_PATH], cpu[GROUP_PATH]; /* directories; "" unknown */
};

struct group_memory {
    uint64_t limit_bytes; /* 0: none */
    uint64_t used_bytes;  /* that the kernel cannot take back */
};

struct group_cpu {
    double limit_cores;          /* NaN: none */
    uint64_t periods, throttled; /* so far */
};

/* `text`: /proc/self/cgroup. `root`: where the trees are mounted. */
void group_open(struct group *group, const char *root, const char *text);

void group_read_memory(const struct group *group, struct group_memory *memory);
void group_read_cpu(const struct group *group, struct group_cpu *cpu);

/* A whole small file, NUL-terminated; "" when it cannot be read. The path is a format, of at
 * most GROUP_PATH + 63 bytes. */
PRINTF(3, 4) const char *group_slurp(char *text, size_t size, const char *path, ...);

/* Behind the end of the line. */
const char *group_next_line(const char *at);

/* The number behind `key` at the start of a line; `missing` when there is none. */
uint64_t group_value(const char *text, const char *key, uint64_t missing);

#endif
