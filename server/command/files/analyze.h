/* The parts of `trainglass analyze`: its files, its loading, its report. */
#ifndef COMMAND_ANALYZE_H
#define COMMAND_ANALYZE_H

#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>

#include "analyze_keep.h"
#include "api/analysis.h"
#include "command/command.h"
#include "report/fail_on.h"

/* The newest quarter of a million events of each file, for the steps that are replayed: under
 * 0.1 s. The tables need none. */
#define ANALYZE_HISTORY_BYTES ((uint64_t)8 << 20)

struct analyze_options {
    struct analysis_request request;
    bool cpu, cuda;        /* which ops are shown */
    uint32_t stack_frames; /* of --group stack:N */
    bool link_backward;    /* stacks of the backward are those of its forward */
    struct fail_on expressions[COMMAND_REPEATS];
    int expression_count;
    struct analyze_keep *keep; /* what is written beside the report */
};

/* The files to be read: a folder stands for the traces in it, which share a session. */
struct analyze_file {
    char *path;
    int32_t rank;     /* by its name among those of its folder: file_request.rank */
    char session[64]; /* "" = its own */
};

struct analyze_files {
    struct analyze_file *list;
    uint32_t count, capacity;
};

/* 0, or a negative errno with *what the word that was wrong. */
int analyze_files_find(struct analyze_files *files, char **words, int count,
                       const char **what);
void analyze_files_free(struct analyze_files *files);

/* While a reader runs: a line of progress on a terminal after a second, and Ctrl-C ends
 * the reading. `user` is a struct analyze_watch, zero but for the path before
 * the first begin. */
struct analyze_watch {
    const char *path;
    pthread_t thread;
    pthread_mutex_t lock; /* guards `done` */
    pthread_cond_t ended;
    bool done, started;
};

void analyze_watch_begin(void *user, struct trace_reader *reader);
void analyze_watch_end(void *user);

/* From now on the signal interrupts readers instead of ending the program; one that is
 * ignored stays so. */
void analyze_watch_signal(int number);
/* The exit code of one that came, 128 + its number, and a line that says of `path`'s
 * reading that it was interrupted; else 0. */
int analyze_interrupted(const char *path);

/* Loads all that the file holds (file_load_each()) with a line of progress on a terminal;
 * Ctrl-C ends it with -ECANCELED. Without `options` the tables by name alone. */
int analyze_files_load(struct store *store, const struct analyze_file *file,
                       const struct analyze_options *options, file_on_part *on_part,
                       void *user);

/* A whole number in [low, high]; false after a line on stderr that names the flag. */
bool analyze_read_number(const char *flag, const char *text, int64_t low, int64_t high,
                         int64_t *number);

/* "5-10" or "7"; false after a line on stderr. */
bool analyze_read_steps(const char *text, struct window *window);

void analyze_report(const struct analysis *analysis,
                    const struct analyze_options *options, uint32_t columns);
struct ranks_answer;
void analyze_report_ranks(const struct ranks_answer *answer);

#endif
