/* The words between the CUPTI thread and all others of the process: what is wished, and
 * who has CUPTI. Any thread; each word stands for itself. */
#ifndef PROBE_CUPTI_WORDS_H
#define PROBE_CUPTI_WORDS_H

#include <stdbool.h>
#include <stdint.h>

/* Relaxed unless said. */
struct cupti_words {
    _Atomic uint32_t owner;  /* pid of the process that has a thread; 0 none */
    _Atomic uint32_t wake;   /* futex: counts wishes */
    _Atomic uint32_t wanted; /* the running step records GPU work */
    _Atomic uint32_t
        yields; /* profilers that are at work; with let_go: words_begin() */
    _Atomic uint32_t yielded;  /* there ever was one */
    _Atomic uint32_t for_good; /* there is one that never gives it back */
    /* Our thread registers for buffers; sequentially consistent, with `yields`. Who began
     * before that would get none of his. */
    _Atomic uint32_t registering;
    _Atomic uint32_t in_vain; /* one waited for CUPTI as long as he may, and has begun */
    /* The pid of the process whose driver has called us in its cuInit, before which nothing
     * of CUDA's was, and when, in ns of CLOCK_MONOTONIC. The time is written first; the pid
     * is release by who writes, acquire by our thread. */
    _Atomic uint32_t injected;
    _Atomic uint64_t injected_ns;
    _Atomic uint32_t leaving; /* the process ends */
    _Atomic uint32_t hurry;   /* short rests that are left: cuInit is running */
    /* The thread has found a device: CUDA is up, and a child that is forked from now on
     * cannot use it. */
    _Atomic uint32_t arrived;
    /* Futex: nothing of CUPTI's is on, and no call of ours is in it. Release by our
     * thread, acquire by who waits for it. */
    _Atomic uint32_t let_go;
};
extern struct cupti_words cupti_words;

/* Waits until `word` is not `expected` any more, at most so long. */
void words_wait(_Atomic uint32_t *word, uint32_t expected, unsigned ms);

/* Wakes the CUPTI thread. */
void words_wish(void);

bool words_leaving(void);

/* A profiler is at work, or comes. */
bool words_yielding(void);
/* One that is at work never gives it back. */
bool words_for_good(void);
/* Our thread: one has begun while we were still in CUPTI. */
bool words_too_late(void);

/* Our thread goes into CUPTI; false where another profiler is at work, or comes. */
bool words_go_in(void);
void words_let_go(void);

/* Waits until CUPTI is let go, at most so long; false: it is not. */
bool words_wait_let_go(unsigned ms);

#endif
