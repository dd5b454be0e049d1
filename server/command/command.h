/* Commands: one row of a table each, a function that gets a checked invocation and
 * returns the exit code. Only main.c and commands write to stdout and stderr. */
#ifndef COMMAND_COMMAND_H
#define COMMAND_COMMAND_H

#include <stdbool.h>
#include <stdint.h>

#include "command/options.h"

enum exit_code {
    EXIT_DONE = 0,
    EXIT_FOUND = 1,        /* what --fail-on names */
    EXIT_USAGE = 2,        /* the command line or a setting is wrong */
    EXIT_UNREADABLE = 3,   /* the input cannot be read */
    EXIT_CANNOT_START = 4, /* something that the command needs is missing or taken */
};

#define COMMAND_FLAGS   14
#define COMMAND_REPEATS 16

/* A flag of one command alone; settings are flags of the table in options.h. */
struct command_flag {
    const char *name;     /* "--name"; NULL ends the list */
    const char *argument; /* what it takes, for help; NULL: nothing */
    const char *help;     /* NULL: not shown */
};

struct invocation {
    const struct command *command;
    struct options options;
    const char *flags[COMMAND_FLAGS]; /* as command->flags; NULL absent, "" set */
    /* Values of the flags that repeat, in their order: read with command_values(). */
    struct {
        int flag; /* index in command->flags */
        const char *value;
    } repeated[COMMAND_REPEATS];
    int repeated_count;
    bool json;
    int argc;    /* what is no flag */
    char **argv; /* borrowed from main, NULL-terminated */
};

struct command {
    const char *name;
    const char *arguments; /* "-- CMD [ARG...]" */
    const char *summary;   /* half a line */
    const char *help;      /* what a newcomer wants to know */
    uint32_t settings;     /* bits of enum option_id that it heeds */
    struct command_flag flags[COMMAND_FLAGS];
    unsigned repeats; /* bits of flags: every value is kept, in invocation.repeated */
    int min_arguments, max_arguments;
    int stops_at_argument; /* what follows that argument belongs to it, from 1; 0 none */
    bool hides_json;       /* help does not offer --json: it answers nothing */
    int (*run)(const struct invocation *invocation);
};

int command_run(const struct invocation *invocation);
int command_serve(const struct invocation *invocation);
int command_demo(const struct invocation *invocation);
int command_doctor(const struct invocation *invocation);
int command_dump(const struct invocation *invocation);
int command_cut(const struct invocation *invocation);
int command_compare(const struct invocation *invocation);
int command_clean(const struct invocation *invocation);
int command_analyze(const struct invocation *invocation);
int command_window(const struct invocation *invocation);
int command_selftest(const struct invocation *invocation);

/* The number that a flag has; without the flag (NULL) *number stays. False after a line on
 * stderr that begins with `flag` when it is none from low to high. */
MUST_CHECK bool command_number(const char *flag, const char *text, int64_t low,
                               int64_t high, int64_t *number);

/* The values of the flag of that name, which repeats; how many. */
int command_values(const struct invocation *invocation, const char *name,
                   const char *values[COMMAND_REPEATS]);

/* "trainglass: " and a line on stderr, in one write. */
PRINTF(1, 2) void command_complain(const char *format, ...);

/* Prints a cJSON document and frees it; EXIT_DONE, or EXIT_CANNOT_START with a line on
 * stderr when out of memory or stdout takes no more. */
struct cJSON;
int command_print_json(struct cJSON *document);
/* The same for what was printed so far. */
int command_end_output(void);

#endif
