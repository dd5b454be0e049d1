/* Segments as files: read whole into private memory, so that a file that shrinks or
 * changes while we look cannot hurt us. */
#ifndef COMMAND_SEGMENT_FILE_H
#define COMMAND_SEGMENT_FILE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "wire/segment.h"

/* One *.seg of a folder, from its header alone. */
struct segment_entry {
    char file[64];           /* name in the folder */
    char session[WIRE_TEXT]; /* "" when the header is unreadable */
    char run_name[WIRE_TEXT];
    uint32_t pid, role;
    int32_t rank;
    uint64_t steps;
    uint64_t zero_realtime_ns;
    uint64_t bytes;
    bool alive; /* its process holds the lock */
    /* Its exit handlers ran, or the note of `run` says that it exited or was asked to end;
     * neither alive nor ended has crashed. */
    bool ended;
};

/* Lists the segments of `directory`, the newest session first; *entries is freed by the
 * caller. Returns how many, or -errno. */
MUST_CHECK int segment_list(const char *directory, struct segment_entry **entries);

struct segment_file {
    unsigned char *bytes; /* a copy, aligned to a page */
    struct wire_view view;
};

/* Reads one segment. 0, or -errno and a sentence in *reason as wire_view_open(). The
 * rings of the copy know what was overwritten while it was taken. */
MUST_CHECK int segment_file_open(struct segment_file *file, const char *directory,
                                 const char *name, const char **reason);
void segment_file_close(struct segment_file *file);

/* "<prefix>.<suffix>" of a file name: does it end so? */
bool segment_file_is(const char *name, const char *suffix);

/* A note or lock of a run: does nobody hold it any more? */
bool segment_note_is_abandoned(int folder, const char *name);

/* What the probe says that it cost a run, from the segment that the run left. */
struct own_figure {
    double measured_pct, low_pct, high_pct; /* as /api/overhead has them; NaN unknown */
    double budget_pct;
    uint64_t steps;
};

/* Of the process with the most steps, of all in the folder or of one session (NULL: all);
 * false where none says anything. */
bool own_figure_read(const char *folder, const char *session,
                     struct own_figure *figure);

#endif
