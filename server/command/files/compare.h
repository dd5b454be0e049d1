/* The parts of `trainglass compare`: its documents, its report. */
#ifndef COMMAND_COMPARE_H
#define COMMAND_COMPARE_H

#include <stdint.h>

#include "api/analysis.h"
#include "report/compare.h"

struct compare_options {
    struct analysis_request request; /* of each side */
    uint32_t top;                    /* ops that are listed of each other */
};

/* On the terminal. */
void compare_report(const cJSON *comparison, const struct compare_options *options);

#endif
