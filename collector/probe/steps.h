/* What a step is: marks of the training thread in, steps, phases and epochs out.
 *
 *     fetch, backward, optimizer, step(), callbacks --> steps_mark() --> emit()
 *
 * Pure: no clock, no memory of its own, no output but the caller's emit(). The one
 * rule: a step is decided here, online, and nobody decides it again. One thread at a
 * time; times are raw ticks and never go back.
 */
#ifndef PROBE_STEPS_H
#define PROBE_STEPS_H

#include <stdbool.h>
#include <stdint.h>

#include "wire/event.h"

enum steps_mark_kind {
    /* A DataLoader builds or resets its iterator; id: the loader, 0 unknown. */
    STEPS_ITERATOR_BEGIN,
    STEPS_ITERATOR_END,
    /* It is asked for a batch; EXHAUSTED in place of END when there was none left. */
    STEPS_FETCH_BEGIN,
    STEPS_FETCH_END,
    STEPS_FETCH_EXHAUSTED,
    /* torch.autograd.backward or grad, the outer marks. */
    STEPS_BACKWARD_BEGIN,
    STEPS_BACKWARD_END,
    /* Optimizer.step; id: the instance, else its name; 0 unknown. */
    STEPS_OPTIMIZER_BEGIN,
    STEPS_OPTIMIZER_END,
    STEPS_ZERO_GRAD_BEGIN,
    STEPS_ZERO_GRAD_END,
    /* An optimizer was constructed: this job trains, batches are not its steps. */
    STEPS_OPTIMIZER_BUILT,
    /* Somebody says phase("forward"). The other explicit phases are FETCH, BACKWARD
     * and OPTIMIZER with id 0. */
    STEPS_FORWARD_BEGIN,
    STEPS_FORWARD_END,
    STEPS_STEP,                /* trainglass.step(): ends one, begins the next */
    STEPS_PROFILER_STEP_BEGIN, /* ProfilerStep#N of torch.profiler */
    STEPS_PROFILER_STEP_END,
    /* A framework's callbacks; id of BATCH_END: 1 when an update happened. */
    STEPS_FRAMEWORK,
    STEPS_BATCH_BEGIN,
    STEPS_BATCH_END,
    STEPS_EPOCH, /* id: as the user counts; whoever begins with 0 is shifted to 1 */
    STEPS_VALIDATION_BEGIN,
    STEPS_VALIDATION_END,
    STEPS_MARKS,
};

struct steps_mark {
    enum steps_mark_kind kind;
    uint32_t id;
    uint64_t time; /* raw ticks */
};

enum steps_source {
    STEPS_BY_NOBODY = 0,
    STEPS_BY_BATCH,     /* nothing trains: every batch is a step */
    STEPS_BY_OPTIMIZER, /* inferred from updates */
    STEPS_BY_PROFILER,  /* ProfilerStep# */
    STEPS_BY_FRAMEWORK,
    STEPS_BY_CALL, /* trainglass.step() */
};

enum steps_output_kind {
    STEPS_OUT_STEP,       /* a step or validation batch ended */
    STEPS_OUT_PHASE,      /* a stretch of a phase, before its step */
    STEPS_OUT_EPOCH,      /* number: the epoch that begins */
    STEPS_OUT_VALIDATION, /* number: 1 begins, 0 ends; said by somebody */
    STEPS_OUT_SOURCE,     /* number: enum steps_source that took over */
};

#define STEPS_NO_NUMBER EVENT_STEP_NONE

struct steps_output {
    enum steps_output_kind kind;
    uint64_t start, end;    /* raw ticks */
    uint64_t number;        /* of the step; STEPS_NO_NUMBER in validation */
    uint32_t epoch;         /* from 1; 0 unknown */
    uint8_t flags;          /* of EVENT_STEP_*: VALIDATION, MARKED, FIRST */
    uint8_t known;          /* 1 << phase: phases of which we can say something */
    enum event_phase phase; /* of STEPS_OUT_PHASE */
};

typedef void steps_emit(void *context, const struct steps_output *output);

#define STEPS_PIECES 8u /* stretches that wait for their meaning */

struct steps_piece {
    uint64_t start, end;
    bool optimizer; /* inside Optimizer.step: the update, or a closure's forward */
};

struct steps {
    steps_emit *emit;
    void *context;
    uint64_t gap_ticks; /* fetches closer than this are one batch (zip of loaders) */
    /* The running step. */
    uint64_t step_start; /* 0: none yet */
    uint64_t number;     /* of the running step */
    uint64_t now;        /* time of the newest mark */
    bool updated;        /* an optimizer ran in it */
    uint8_t known;
    enum steps_source source;
    /* What the thread is in: depths. */
    uint32_t in_fetch, in_backward, in_optimizer, in_zero_grad, in_forward;
    uint64_t piece_start;
    struct steps_piece pieces[STEPS_PIECES];
    uint32_t piece_count;
    uint32_t epoch;
};

/* `gap_ticks`: 20 us in raw ticks. */
void steps_init(struct steps *steps, uint64_t gap_ticks, steps_emit *emit,
                void *context);

/* Feeds one mark; emits what it decides, in the order of time. */
void steps_mark(struct steps *steps, const struct steps_mark *mark);

/* What the thread is in: enum event_phase + 1, 0 none known. A guess for forward, which
 * is only known when it is over. */
uint32_t steps_phase(const struct steps *steps);

#endif
