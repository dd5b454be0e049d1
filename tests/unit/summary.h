/* A summary that a test makes by hand, with its facts, and what is found in it. */
#ifndef TESTS_UNIT_SUMMARY_H
#define TESTS_UNIT_SUMMARY_H

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "findings/findings.h"
#include "wire/facts.h"

#define MS 1e6

static struct bottlenecks_answer summary;
static struct status_fact facts[16];
static struct findings findings;

static inline int end(void **state)
{
    (void)state;
    findings_free(&findings);
    return 0;
}

/* The first whose id begins so; one of nothing when there is none. */
static inline const struct finding *finding_of(const char *id)
{
    static const struct finding none = {.id = "none", .advice = {""}};

    for (uint32_t i = 0; i < findings.count; i++)
        if (strncmp(findings.list[i].id, id, strlen(id)) == 0)
            return &findings.list[i];
    return &none;
}

static inline void number(const char *key, double value)
{
    facts[summary.fact_count++] =
        (struct status_fact){.key = key, .type = WIRE_FACT_NUMBER, .number = value};
}

static inline void text(const char *key, const char *value)
{
    facts[summary.fact_count++] =
        (struct status_fact){.key = key, .type = WIRE_FACT_TEXT, .text = value};
}

#endif
