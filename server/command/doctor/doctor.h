/* What the checks of `trainglass doctor` share. */
#ifndef COMMAND_DOCTOR_H
#define COMMAND_DOCTOR_H

#include <stdbool.h>

#include "command/command.h"
#include "command/places.h"

enum doctor_state { DOCTOR_OK, DOCTOR_LIMITED, DOCTOR_MISSING };

struct diagnosis {
    enum doctor_state state;
    char reason[300]; /* what was found */
    char remedy[300]; /* what to do; "" nothing */
};

/* What several checks look at. */
struct doctor {
    const struct options *options;
    const char *python; /* the interpreter that was asked for; NULL: search */
    char directory[PLACE_BYTES];
    char interpreter[PLACE_BYTES]; /* "" there is none */
    char python_version[32];
    char torch_version[64]; /* "" not installed */
    char torch_cuda[32];    /* "" a build without CUDA */
    char machine[32];
    bool gpu_driver; /* something of one is here */
};

struct doctor_check {
    const char *source;
    bool needed; /* without it no job can be recorded and shown */
    /* What says nothing has no line. */
    void (*look)(const struct doctor *doctor, struct diagnosis *diagnosis);
};

extern const struct doctor_check doctor_checks[]; /* ends with a NULL source */

/* Fills the fields about Python; runs the interpreter for at most 20 s. */
void doctor_ask_python(struct doctor *doctor);

PRINTF(4, 5)
void doctor_say(struct diagnosis *diagnosis, enum doctor_state state,
                const char *remedy, const char *format, ...);

#endif
