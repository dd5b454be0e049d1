/* Deep windows: asked for through the probes' control files, followed through the notes
 * that the jobs leave beside their segments (<random>.win), and their traces opened as
 * sessions.
 *
 *     windows_ask() ──▶ <random>.ctl ──▶ job ──▶ <random>.win ──▶ windows_look()
 *                                           └──▶ trace file   ──▶ trace_files_add()
 *
 * The rule: a note is foreign. It names a file, and the file is opened only if it is a
 * regular one of the user who owns the segment. Any thread.
 */
#ifndef SERVER_WINDOWS_H
#define SERVER_WINDOWS_H

#include <cjson/cJSON.h>
#include <stdbool.h>
#include <stdint.h>

#include "wire/attributes.h"

#define WINDOWS_MAX          64u /* the newest are remembered */
#define WINDOWS_REASON_BYTES 256u

struct selection;
struct store;
struct trace_files;
struct windows;

/* What one asks for. */
struct windows_wish {
    uint32_t steps, seconds;
    uint32_t flags; /* enum control_window_flags */
    uint64_t bytes;
    bool all_ranks; /* at the same step number; else the selected process alone */
};

/* NULL without memory. Both are borrowed. */
struct windows *windows_new(struct store *store, struct trace_files *files);
void windows_free(struct windows *windows); /* NULL is nothing */

/* Asks; how many processes, and the window's id ("w-%08x"). Else -ENOENT (no such
 * session), -EBUSY, -ESRCH, -EACCES, ... with a sentence in `reason`. */
MUST_CHECK int windows_ask(struct windows *windows, const struct selection *selection,
                           const struct windows_wish *wish, char id[16],
                           char reason[WINDOWS_REASON_BYTES]);

/* Reads the notes of all sessions and opens the traces that are new; may take as long as
 * a trace takes. About once a second, one thread. */
void windows_look(struct windows *windows);

/* Appends a row for each window of `session` ("" all), newest first. */
void windows_list(struct windows *windows, const char *session, cJSON *rows);

#endif
