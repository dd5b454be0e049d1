/* The trace files that are sessions: those of the command line and those that were
 * uploaded. Any thread.
 *
 * An uploaded file has no name on disk: whatever ends the server ends the file. The rule:
 * all uploads together hold at most `upload_bytes_max` of disk and are at most
 * TRACE_FILES_UPLOADS; for a new one the oldest go, with their sessions.
 */
#ifndef FILES_TRACE_FILES_H
#define FILES_TRACE_FILES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "ingest/file/file.h"
#include "wire/attributes.h"

#define TRACE_FILES_UPLOADS 16u
#define TRACE_FILES_AT_ONCE 2u /* uploads on their way: each holds a thread */
#define TRACE_FILES_NAME    64u
/* What names of files are made of; anything else becomes '_'. */
#define TRACE_FILES_PLAIN                                                              \
    "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789._-"

struct reading_wish;
struct store;
struct trace_files;

struct trace_file {
    char id
        [80]; /* of the file; that of its session, with a number where it has several */
    char session[FILE_SESSION_BYTES]; /* the first of those that it was read into */
    char name[TRACE_FILES_NAME];      /* [A-Za-z0-9._-] */
    struct file_result result;        /* of its reading */
    uint64_t bytes, events, skipped;
    bool is_gzip;
    bool uploaded;  /* or read for a deep window: held by its descriptor */
    bool is_window; /* of a job's deep window */
    bool is_unread; /* there is no session of it: result.error says why */
};

/* Room for `served` files of the command line, and more where they hold several traces
 * each. NULL without memory. */
struct trace_files *trace_files_new(struct store *store, size_t served,
                                    uint64_t upload_bytes_max);
void trace_files_free(struct trace_files *files); /* NULL is nothing */
uint64_t trace_files_upload_max(const struct trace_files *files);

/* Adds what was read from `path`, borrowed for as long as the list lives; with an error a
 * file of which nothing could be read. Before anybody asks. */
void trace_files_serve(struct trace_files *files, const char *path,
                       const struct file_result *result, int error);

/* May one more upload begin? Then trace_files_end() is owed. */
MUST_CHECK bool trace_files_begin(struct trace_files *files);
void trace_files_end(struct trace_files *files);

/* Reads what was uploaded to `descriptor`, on a thread of its own, into a new session,
 * one file after the other. added->is_window is the caller's to say; `asker` may be NULL.
 * 0 with *added, and the descriptor is the list's; or -errno, the descriptor stays the
 * caller's, and added->result.error says why: -ECANCELED when nobody waits any more. */
MUST_CHECK int trace_files_add(struct trace_files *files, const char *name,
                               int descriptor, const struct reading_wish *asker,
                               struct trace_file *added);

/* The server ends: what is being read is given up, and what comes is refused. */
void trace_files_end_reading(struct trace_files *files);

/* Copies of all, newest last, at most `max`; how many. */
size_t trace_files_list(struct trace_files *files, struct trace_file *list, size_t max);
size_t trace_files_most(const struct trace_files *files);

/* A descriptor of the file, to be read by pread(), with what is known of it in *file;
 * -ENOENT when there is none, or none any more. Then trace_files_close() is owed. */
MUST_CHECK int trace_files_open(struct trace_files *files, const char *id,
                                struct trace_file *file);
void trace_files_close(struct trace_files *files, const char *id, int descriptor);

/* An upload goes, with its sessions: 0 and what it was in *file. -ENOENT when there is
 * none; with *file: -EBUSY while it is being read by its descriptor, -EPERM when it is
 * of the command line or of a deep window. */
MUST_CHECK int trace_files_remove(struct trace_files *files, const char *id,
                                  struct trace_file *file);

/* `text` reduced to a file's name of [A-Za-z0-9._-]: no folder, no dot in front. */
void trace_files_name(const char *text, char name[TRACE_FILES_NAME]);

#endif
