/* The parts of `trainglass analyze`: its files, its loading, its report. */
#ifndef COMMAND_ANALYZE_H
#define COMMAND_ANALYZE_H

#include <stdbool.h>
#include <stdint.h>

#include "api/analysis.h"

struct analyze_options {
    struct analysis_request request;
    bool cpu, cuda; /* which ops are shown */
};

/* The files to be read: a folder stands for the traces in it, which share a session. */
struct analyze_file {
    char *path;
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

/* Loads with a line of progress on a terminal; Ctrl-C ends it with -ECANCELED. */
int analyze_files_load(struct store *store, const struct analyze_file *file,
                       struct file_result *result);

/* A whole number in [low, high]; false after a line on stderr that names the flag. */
bool analyze_read_number(const char *flag, const char *text, int64_t low, int64_t high,
                         int64_t *number);

void analyze_report(const struct analysis *analysis,
                    const struct analyze_options *options, uint32_t columns);

#endif
