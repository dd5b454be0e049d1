/* For tests: run a scenario in a child, then read the segments it left behind. */
#ifndef TESTS_SEGMENTS_H
#define TESTS_SEGMENTS_H

#include <stdint.h>

#include "wire/attributes.h"
#include "wire/segment.h"

struct segment_file {
    int fd;
    const void *base; /* read-only mapping */
    uint64_t bytes;
    char path[320];
    struct wire_view view;
};

/* Runs `scenario` in a forked child that leaves through exit(); its exit code, or
 * 128 + signal. */
int segments_run(int (*scenario)(void));

/* Opens the first (and only) segment of a directory, or the `index`-th by name; 0 or
 * negative errno. */
MUST_CHECK int segments_open_only(const char *directory, struct segment_file *file);
MUST_CHECK int segments_open_at(const char *directory, int index,
                                struct segment_file *file);
MUST_CHECK int segments_open_path(const char *path, struct segment_file *file);
void segments_close(struct segment_file *file);

/* Files of the directory that end in `suffix`. */
int segments_count(const char *directory, const char *suffix);

/* True when a living process holds the segment's lock. */
int segments_alive(const struct segment_file *file);

/* Reads a thread's ring from its oldest event on; what ring_read() returns. */
int64_t segments_events(const struct segment_file *file, uint32_t slot,
                        struct event *events, uint64_t max);

/* The name of an event's meta, cut to 63 bytes, in `text` (64 bytes). */
const char *segments_name(const struct segment_file *file, uint64_t meta, char *text);

/* Deletes every file of the directory. */
int segments_remove_all(const char *directory);

/* A new directory, $TRAINGLASS_DIR of this program and its children: fixtures of
 * CMocka for the group (set_up, tear_down) and for each test (clear). */
extern char segments_directory[];
int segments_set_up(void **state);
int segments_clear(void **state);
int segments_tear_down(void **state);

#endif
