/* The parts of `trainglass compare`: its documents, its report. */
#ifndef COMMAND_COMPARE_H
#define COMMAND_COMPARE_H

#include <stdint.h>

#include "command/options.h"
#include "document/analysis.h"
#include "report/compare.h"
#include "runs/runs.h"

struct compare_options {
    struct analysis_request request; /* of each side */
    uint32_t top;                    /* ops that are listed of each other */
};

/* A run as a document; NULL with a sentence. */
cJSON *compare_read_run(const struct options *options, const char *word,
                        const struct analysis_request *request,
                        char why[RUNS_WHY_BYTES]);

/* On the terminal. */
void compare_report(const cJSON *comparison, const struct compare_options *options);

#endif
