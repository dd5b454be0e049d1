/* What the checks of `trainglass doctor` share. */
#ifndef COMMAND_DOCTOR_H
#define COMMAND_DOCTOR_H

#include <stdbool.h>

#include "command/command.h"
#include "command/places.h"

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

/* Fills the fields about Python; runs the interpreter for at most 20 s. */
void doctor_ask_python(struct doctor *doctor);

#endif
