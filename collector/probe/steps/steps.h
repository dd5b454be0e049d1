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

#include "probe/steps/cadence.h"
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
    /* A framework's callbacks; id of FRAMEWORK: 1 takes charge, 0 lets go; of
     * BATCH_END: 1 when an update happened. */
    STEPS_FRAMEWORK,
    STEPS_BATCH_END,
    STEPS_EPOCH, /* id: as the user counts; whoever begins with 0 is shifted to 1 */
    STEPS_VALIDATION_BEGIN,
    STEPS_VALIDATION_END,
    /* The first operation that a backward will have to follow: a graph is built. Only
     * where steps_awaits_graph(); id of BACKWARD_BEGIN: nodes built since, 0 unknown. */
    STEPS_GRAPH_BEGIN,
    STEPS_MARKS,
};

struct steps_mark {
    enum steps_mark_kind kind;
    uint32_t id;
    uint64_t time; /* raw ticks */
};

enum steps_source {
    STEPS_BY_NOBODY = 0,
    STEPS_BY_BATCH,         /* nothing trains: every batch is a step */
    STEPS_BY_TRAINED_BATCH, /* no update is known: every batch with a backward is one */
    STEPS_BY_BACKWARD,      /* nor a batch: every group of backwards is one */
    STEPS_BY_OPTIMIZER,     /* inferred from updates */
    STEPS_BY_PROFILER,      /* ProfilerStep# */
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
    bool late;              /* the end is known only now: the next step already runs */
};

/* Called from inside steps_mark(), on its thread; must not call back. */
typedef void steps_emit(void *context, const struct steps_output *output);

#define STEPS_PIECES 8u   /* stretches that wait for their meaning */
#define STEPS_HELD   128u /* batches fetched ahead, or the first ones of a validation */
#define STEPS_QUEUE  32u  /* phases after an update that may have been the end */

struct steps_piece {
    uint64_t start, end;
    enum event_phase phase;
};

/* From the request for a batch to the next one. */
struct steps_batch {
    uint64_t start, end;
    uint64_t fetched; /* when it was there; 0 not yet */
    uint32_t loader;
    uint32_t count;                          /* of pieces */
    struct steps_piece pieces[STEPS_PIECES]; /* data, and forward where it was said */
};

struct steps {
    steps_emit *emit;
    void *context;
    uint64_t gap_ticks; /* fetches closer than this are one batch (zip of loaders) */
    uint64_t born;      /* raw ticks of steps_init() */
    enum steps_source source;

    /* The running step. */
    uint64_t step_start; /* 0: none yet */
    uint64_t number;     /* of the running step */
    bool trained;        /* it holds a backward or an update */
    bool updated;        /* an update ended in it */
    bool first;          /* of a stretch */
    bool profiler_open;  /* inside a ProfilerStep# */
    bool profiler_gone;  /* it was left: never again by it */
    uint32_t updates_in_profiler_step;
    uint64_t held_end; /* an update that may have been the end; 0 none */
    struct steps_piece queue[STEPS_QUEUE]; /* phases after it */
    uint32_t queued;
    struct cadence cadence;

    /* What the thread is in: depths of nested marks. */
    uint32_t in_fetch, in_backward, in_optimizer, in_zero_grad, in_forward;
    uint32_t updates_in_backward;
    uint32_t optimizer_id;   /* of the innermost that said one */
    bool in_graph;           /* a forward pass: its first operation was seen */
    bool graph_seen;         /* one ever was */
    uint32_t backward_nodes; /* of the graph that the running one follows; 0 unknown */
    uint64_t silent_ticks;   /* between the newest mark and the one before */

    /* Backwards without an update that is known: see fallback.c. */
    uint32_t unanswered;       /* since the newest update */
    uint32_t unanswered_most;  /* before an update */
    uint32_t batch_backwards;  /* since a batch was asked for */
    bool updates_known;        /* an optimizer was built, or an update was seen */
    bool backwards_irregular;  /* no two of them have as many nodes */
    uint64_t step_usual_ticks; /* how long steps are: a mean that forgets */

    /* Time since the last mark gets its meaning from what follows. */
    uint64_t piece_start;
    struct steps_piece pieces[STEPS_PIECES];
    uint32_t piece_count;
    bool forward_said; /* phase("forward") is used: no guess */
    uint8_t known;     /* phases that training steps have, 1 << phase */

    /* Batches. */
    struct steps_batch batch; /* the running one; start 0: none */
    struct steps_batch held[STEPS_HELD];
    uint32_t held_count;
    bool batch_trains;        /* a backward or update followed its fetch */
    bool evaluating;          /* batches come and go without an update */
    bool will_train;          /* an optimizer exists, or something trained */
    bool peeked;              /* a batch was fetched before all, for its shape */
    uint32_t rows;            /* validation batches so far */
    uint32_t validation;      /* somebody said so: depth */
    uint64_t validation_from; /* end of its last row, or its begin */

    /* Epochs. */
    uint32_t epoch; /* from 1; 0 unknown */
    bool epoch_said;
    uint32_t epoch_shift;      /* 1 for users who count from 0 */
    uint32_t training_loader;  /* 0 none known */
    uint32_t training_batches; /* of its running iterator */
    bool training_exhausted;
    uint32_t other_loader, other_batches; /* that trained since that one last did */
    bool
        training_renewed; /* its iterator was built anew: its next step is an epoch's */
};

/* `gap_ticks`: 20 us in raw ticks; `now`: raw ticks, where a step() without anything
 * before it begins step 0. */
void steps_init(struct steps *steps, uint64_t gap_ticks, uint64_t now, steps_emit *emit,
                void *context);

/* Feeds one mark; emits what it decides, in the order of time. */
void steps_mark(struct steps *steps, const struct steps_mark *mark);

/* The training thread or the process ends: what waited for what follows comes out. */
void steps_finish(struct steps *steps, uint64_t now);

/* Another thread trains from now on: what the one before was in is forgotten, numbers
 * and epochs go on. */
void steps_abandon(struct steps *steps);

/* One sentence, static. */
const char *steps_source_text(enum steps_source source);

/* When the running step began, as far as it is known now: the first fetch may turn out
 * to be a validation's. 0: nothing runs. */
uint64_t steps_begun(const struct steps *steps);

/* Would STEPS_GRAPH_BEGIN tell something now? */
bool steps_awaits_graph(const struct steps *steps);

/* What the thread is in: enum event_phase + 1, 0 none known. A guess for forward where
 * nobody sees graphs. */
uint32_t steps_phase(const struct steps *steps);

#endif
