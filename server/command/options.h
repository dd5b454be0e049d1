/* Every setting of trainglass, in one table: flags, TRAINGLASS_* environment, files,
 * --help and config/trainglass.conf are all read from or checked against it.
 *
 * A setting keeps where its value came from; a stronger source replaces a weaker one:
 * flag > environment > --config FILE > config/trainglass.conf > default.
 * Values are foreign text: nothing is stored that is outside of the table's range.
 */
#ifndef COMMAND_OPTIONS_H
#define COMMAND_OPTIONS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include "findings/findings.h"
#include "wire/attributes.h"

#define OPTION_TEXT_BYTES  512u
#define OPTION_ERROR_BYTES 768u
#define OPTION_FOREVER     INT64_MAX

enum option_id {
    OPTION_DIR,
    OPTION_SHARE,
    OPTION_BUDGET,
    OPTION_LEVEL,
    OPTION_CUDA_GRAPHS,
    OPTION_LINGER,
    OPTION_PORT,
    OPTION_BIND,
    OPTION_TOKEN,
    OPTION_BASE_PATH,
    OPTION_ALLOW_HOST,
    OPTION_ALLOW_FRAME,
    OPTION_STREAM_CLIENTS,
    OPTION_HISTORY,
    OPTION_RUNS,
    OPTION_STATE_DIR,
    OPTION_WINDOW_DIR,
    OPTION_UPLOAD_MAX,
    OPTION_FINDING, /* from here on the threshold of each rule of findings, in order */
    OPTIONS = OPTION_FINDING + RULES_MAX, /* at most; options_count() are there */
};

enum option_type {
    OPTION_TYPE_TEXT,     /* min, max: length in bytes */
    OPTION_TYPE_ADDRESS,  /* an IPv4 address or "auto" */
    OPTION_TYPE_CHOICE,   /* values: the words, separated by '|' */
    OPTION_TYPE_INTEGER,  /* min, max */
    OPTION_TYPE_REAL,     /* min, max; stored as text and in `real` */
    OPTION_TYPE_BYTES,    /* min, max; KiB, MiB, GiB, or plain bytes */
    OPTION_TYPE_DURATION, /* min, max in ms; ms, s, min, h, 0 or forever */
};

enum option_origin {
    OPTION_FROM_DEFAULT,
    OPTION_FROM_CONFIG, /* config/trainglass.conf */
    OPTION_FROM_FILE,   /* --config FILE */
    OPTION_FROM_ENVIRONMENT,
    OPTION_FROM_FLAG,
};

struct option_key {
    const char *name; /* as in a file; --flag with '-' for '_', TRAINGLASS_NAME */
    enum option_type type;
    const char *initial; /* default, as it would be written */
    int64_t min, max;
    const char *unit;   /* for people: "%", "bytes"; "" none */
    const char *values; /* choices, or what an empty text means */
    const char *help;   /* one sentence */
};

struct option_value {
    char text[OPTION_TEXT_BYTES]; /* as given */
    int64_t number;               /* integer, bytes, ms, index of the choice */
    double real;
    enum option_origin origin;
};

struct options {
    struct option_value values[OPTIONS];
    char error[OPTION_ERROR_BYTES]; /* one line without newline, after a failure */
};

/* The settings that there are: those above, and one per rule. */
int options_count(void);
const struct option_key *option_key(int id); /* 0 <= id < options_count() */
const char *option_flag(int id);             /* "--base-path" */

/* The thresholds of the findings. */
void options_findings(const struct options *options,
                      struct findings_settings *settings);

/* Every setting at its default. */
void options_init(struct options *options);

/* The key called `name` in any spelling (port, --port, base-path); -1 unknown. */
int options_find(const char *name, size_t length);

/* Sets a value. `place` begins the error ("--port"); NULL: the caller says where.
 * Returns 0, also when a stronger origin holds the value already, or -EINVAL with
 * options->error. */
MUST_CHECK int options_set(struct options *options, enum option_id id, const char *text,
                           enum option_origin origin, const char *place);

/* Reads TRAINGLASS_<NAME> of every key from `environment` (as environ). */
MUST_CHECK int options_read_environment(struct options *options,
                                        char *const *environment);

/* What a value may be, for errors and help: "a whole number from 0 to 65535". */
void options_describe(const struct option_key *key, char *text, size_t size);

/* The whole default configuration, as config/trainglass.conf holds it. */
void options_print_defaults(FILE *out);

const char *options_text(const struct options *options, enum option_id id);
int64_t options_number(const struct options *options, enum option_id id);

#endif
