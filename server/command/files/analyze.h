/* The parts of `trainglass analyze`: its files, its loading, its report. */
#ifndef COMMAND_ANALYZE_H
#define COMMAND_ANALYZE_H

#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>

#include "command/command.h"
#include "cut/flame.h"
#include "document/analysis.h"
#include "ingest/file/paths.h"
#include "report/fail_on.h"

/* The newest quarter of a million events of each file, for the steps that are replayed: under
 * 0.1 s. The tables need none. */
#define ANALYZE_HISTORY_BYTES ((uint64_t)8 << 20)

/* What is written next to the report: stacks, a flame graph, a page. Each is whole or not
 * there. */
struct analyze_keep {
    const char *stacks, *flame, *html; /* paths; NULL not wanted */
    enum flame_metric metric;          /* of the stacks */
    const char *name;                  /* of the trace */
    int code;                          /* exit code of what was written so far */
    cJSON *several; /* of more files than one: their reports; NULL of one */
};

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
/* A line on stderr of what analyze_files_find() failed with. */
void analyze_complain_of_files(const char *what, int error);

/* The first trace of a file, of several the rank that is asked for; for
 * analyze_files_load(). */
struct analyze_first {
    int32_t rank; /* SELECT_ANY */
    struct file_result chosen, refused;
    bool found;
};
void analyze_take_first(void *user, const struct file_result *result, int error);

/* What a path is called: "-" is standard input. */
const char *analyze_name(const char *path);
/* What stands behind its last slash. */
const char *analyze_last_part(const char *path);

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

/* What the words ask for; false after a line on stderr. */
bool analyze_read_flags(const struct invocation *invocation,
                        struct analyze_options *options);
bool analyze_read_keep(const struct invocation *invocation, struct analyze_keep *keep);

/* False, after a line that says of the flag what it takes. */
bool analyze_refuse(const char *flag, const char *value, const char *wanted);

/* A whole number in [low, high]; false after a line on stderr that names the flag. */
bool analyze_read_number(const char *flag, const char *text, int64_t low, int64_t high,
                         int64_t *number);

/* "5-10" or "7"; false after a line on stderr. */
bool analyze_read_steps(const char *text, struct window *window);

bool analyze_keep_wants_paths(const struct analyze_keep *keep);

/* Of one file: written at once. Of several: kept for the page of all. NULL is no memory
 * for it. */
void analyze_keep_report(struct analyze_keep *keep, const cJSON *report);

/* Ranks that were compared, as /api/ranks says it; takes `ranks`. */
void analyze_keep_ranks(struct analyze_keep *keep, cJSON *ranks);

/* After the last of several files; what was interrupted is not `whole`, and not written. */
void analyze_keep_finish(struct analyze_keep *keep, bool whole);

/* For file_request.on_paths; `user` is a struct analyze_keep. */
void analyze_keep_paths(void *user, const struct file_paths *paths);

void analyze_report(const struct analysis *analysis,
                    const struct analyze_options *options, uint32_t columns);
void analyze_report_cpu_ops(const struct ops_answer *ops, enum ops_sort sort,
                            uint32_t columns);
void analyze_report_device_ops(const struct ops_answer *ops, uint32_t columns);
void analyze_report_findings(const struct analysis *analysis, uint32_t columns);
void analyze_report_what_ifs(const struct bottlenecks_answer *summary,
                             uint32_t columns);

/* Three of them, and no power of ten. */
#define ANALYZE_DIGITS_BYTES 16
const char *analyze_digits(char text[ANALYZE_DIGITS_BYTES], double value);
#define DIGITS(value) analyze_digits((char[ANALYZE_DIGITS_BYTES]){0}, value)

struct ranks_answer;
void analyze_report_ranks(const struct ranks_answer *answer);

#endif
