/* Scripts of marks in, what the state machine of steps says out.
 *
 * A script is words like fetch@10-20 (begin and end), +opt/7@70 ... -opt/7@80 (nested,
 * of optimizer 7), step@90. What comes out is one word each: step0@10-80+first,
 * data0@10-20, row@10-20 (a validation batch), epoch1, by:optimizer. Times are ticks;
 * fetches closer than 5 are one. What a backward follows is a forward pass from the
 * mark before on, unless graph@15 says where it begins. */
#ifndef TESTS_UNIT_STEP_SCRIPT_H
#define TESTS_UNIT_STEP_SCRIPT_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "probe/steps/steps.h"
#include "wire/attributes.h"

#define GAP 5u

struct log {
    char text[8192];
    size_t length;
    uint32_t steps;
};

static inline PRINTF(2, 3) void log_word(struct log *log, const char *format, ...)
{
    va_list arguments;
    int more;

    if (log->length > sizeof(log->text) / 2)
        log->length = 0; /* long runs look at the newest words and the counts */
    va_start(arguments, format);
    more = vsnprintf(log->text + log->length, sizeof(log->text) - log->length, format,
                     arguments);
    va_end(arguments);
    assert_true(more > 0 && (size_t)more < sizeof(log->text) - log->length);
    log->length += (size_t)more;
}

static inline void log_step(struct log *log, const struct steps_output *out)
{
    log->steps += out->number != STEPS_NO_NUMBER;
    if (out->number == STEPS_NO_NUMBER)
        log_word(log, "row");
    else
        log_word(log, "step%llu", (unsigned long long)out->number);
    log_word(log, "@%llu-%llu%s%s ", (unsigned long long)out->start,
             (unsigned long long)out->end,
             out->flags & EVENT_STEP_FIRST ? "+first" : "",
             out->flags & EVENT_STEP_MARKED ? "+marked" : "");
}

static inline void write_down(void *context, const struct steps_output *out)
{
    static const char *const phases[] = {"data", "forward", "backward", "optimizer"};
    static const char *const sources[] = {"nobody",    "batch",     "trained",
                                          "backward",  "optimizer", "profiler",
                                          "framework", "call"};
    struct log *log = context;

    switch (out->kind) {
    case STEPS_OUT_STEP:
        log_step(log, out);
        break;
    case STEPS_OUT_PHASE:
        log_word(log, "%s", phases[out->phase]);
        if (out->number != STEPS_NO_NUMBER)
            log_word(log, "%llu", (unsigned long long)out->number);
        log_word(log, "@%llu-%llu ", (unsigned long long)out->start,
                 (unsigned long long)out->end);
        break;
    case STEPS_OUT_EPOCH:
        log_word(log, "epoch%llu ", (unsigned long long)out->number);
        break;
    case STEPS_OUT_VALIDATION:
        log_word(log, "validation%llu ", (unsigned long long)out->number);
        break;
    case STEPS_OUT_SOURCE:
        log_word(log, "by:%s ", sources[out->number]);
        break;
    }
}

struct word {
    const char *name;
    enum steps_mark_kind begin, end; /* equal: an instant */
};

static const struct word words[] = {
    {"iter", STEPS_ITERATOR_BEGIN, STEPS_ITERATOR_END},
    {"fetch", STEPS_FETCH_BEGIN, STEPS_FETCH_END},
    {"nomore", STEPS_FETCH_BEGIN, STEPS_FETCH_EXHAUSTED},
    {"graph", STEPS_GRAPH_BEGIN, STEPS_GRAPH_BEGIN},
    {"back", STEPS_BACKWARD_BEGIN, STEPS_BACKWARD_END},
    {"again", STEPS_BACKWARD_BEGIN, STEPS_BACKWARD_END}, /* no graph since the last */
    {"opt", STEPS_OPTIMIZER_BEGIN, STEPS_OPTIMIZER_END},
    {"zero", STEPS_ZERO_GRAD_BEGIN, STEPS_ZERO_GRAD_END},
    {"forward", STEPS_FORWARD_BEGIN, STEPS_FORWARD_END},
    {"prof", STEPS_PROFILER_STEP_BEGIN, STEPS_PROFILER_STEP_END},
    {"valid", STEPS_VALIDATION_BEGIN, STEPS_VALIDATION_END},
    {"step", STEPS_STEP, STEPS_STEP},
    {"built", STEPS_OPTIMIZER_BUILT, STEPS_OPTIMIZER_BUILT},
    {"framework", STEPS_FRAMEWORK, STEPS_FRAMEWORK},
    {"batchend", STEPS_BATCH_END, STEPS_BATCH_END},
    {"epoch", STEPS_EPOCH, STEPS_EPOCH},
};

static inline void mark(struct steps *steps, enum steps_mark_kind kind, unsigned id,
                        unsigned long time)
{
    steps_mark(steps, &(struct steps_mark){kind, id, time});
}

/* Feeds one word, its times moved by `shift`. */
static inline void feed_word(struct steps *steps, const char *text, unsigned long shift)
{
    char sign = *text == '+' || *text == '-' ? *text++ : '\0';
    size_t length = strcspn(text, "/@ ");
    unsigned id = 0;
    const struct word *word = NULL;

    for (size_t i = 0; i < sizeof(words) / sizeof(words[0]); i++)
        if (strlen(words[i].name) == length &&
            strncmp(words[i].name, text, length) == 0)
            word = &words[i];
    assert_non_null(word);
    char *rest = NULL;

    text += length;
    if (*text == '/')
        id = (unsigned)strtoul(text + 1, &rest, 10), text = rest;
    unsigned long start = strtoul(text + 1, &rest, 10) + shift;

    if (strcmp(word->name, "back") == 0 && sign != '-' && steps_awaits_graph(steps))
        mark(steps, STEPS_GRAPH_BEGIN, 0, steps->piece_start);
    if (sign != '-')
        mark(steps, word->begin, id, start);
    if (sign == '-')
        mark(steps, word->end, id, start);
    if (*rest == '-')
        mark(steps, word->end, id, strtoul(rest + 1, NULL, 10) + shift);
}

static inline void feed(struct steps *steps, const char *script, unsigned long shift)
{
    for (; *script != '\0'; script += strspn(script, " ")) {
        feed_word(steps, script, shift);
        script += strcspn(script, " ");
    }
}

static inline void begin(struct steps *steps, struct log *log)
{
    log->length = 0;
    log->steps = 0;
    log->text[0] = '\0';
    steps_init(steps, GAP, 1, write_down, log);
}

static inline void expect(const char *script, const char *expected)
{
    static struct log log;
    struct steps steps;

    begin(&steps, &log);
    feed(&steps, script, 0);
    if (log.length > 0)
        log.text[log.length - 1] = '\0';
    assert_string_equal(log.text, expected);
}

/* Feeds `period` `times` times, `length` ticks apart; how many steps came out. */
static inline uint32_t steps_of(struct steps *steps, struct log *log,
                                const char *period, unsigned long length,
                                unsigned times)
{
    uint32_t before = log->steps;

    for (unsigned i = 1; i <= times; i++)
        feed(steps, period, steps->piece_start / length * length + length);
    return log->steps - before;
}

#endif
