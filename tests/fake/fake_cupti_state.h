/* What the two halves of the fake libcupti share: fake_cupti.c, which a guest calls, and
 * fake_work.c, what the job does. Not exported: a process may have two of these libraries. */
#ifndef TESTS_FAKE_CUPTI_STATE_H
#define TESTS_FAKE_CUPTI_STATE_H

#include <pthread.h>
#include <stdbool.h>
#include <time.h>

#include "fake_cupti.h"

#define BUFFERS 1024
#define CALLS   900
#define THREADS 64
#define KINDS   64

enum kind {
    MEMCPY = 1,
    MEMSET = 2,
    DRIVER = 4,
    RUNTIME = 5,
    KERNEL = 10,
    OVERHEAD = 17,
    PEER_COPY = 22,
    GRAPH = 51
};
enum {
    GET_DEVICE = 17,
    MEMCPY_ASYNC = 41,
    MEMSET_ASYNC = 51,
    PEER_ASYNC = 161,
    SYNCHRONIZE = 165,
    LAUNCH_KERNEL = 211,
    LAUNCH_GRAPH = 311
};
enum { GET_CONTEXT = 304, DRIVER_LAUNCH = 307, DRIVER_LAUNCH_EX = 652 };

struct filled {
    uint8_t *bytes;
    size_t size, used;
    uint64_t ready_ns; /* CLOCK_MONOTONIC: its last record is complete then */
};

#pragma GCC visibility push(hidden)

/* The lock holds for what has no _Atomic. */
extern pthread_mutex_t lock;
/* What is filled: by all threads, or by each its own. */
extern struct filled currents[THREADS], full[BUFFERS];
extern unsigned full_count;
extern bool kinds[KINDS];
extern bool calls_off[2][CALLS]; /* of the driver, of the runtime */
extern bool delivered, stopped;
extern request_function *request;
extern size_t dropped;
extern uint32_t context_now; /* of the device */
extern _Atomic bool zeroed, system_threads;
extern _Atomic bool one_for_all; /* threads */
extern _Atomic uint64_t last_end_ns;
extern _Atomic int clock_now; /* 0: CLOCK_REALTIME, 1: the counter */
extern _Atomic int broken;    /* the error that every call of the job's returns; 0 */
extern _Atomic unsigned his_waits; /* the job's, since another profiler came */
extern _Thread_local bool kineto;  /* the calls of this thread are not the guest's */

/* Ends the job: a guest did what he must not. */
void complain(const char *what);
/* The value of a fault. */
_Atomic uint64_t *fault(const char *name);
/* Another profiler registers itself; CUPTI is ended for everybody. Under the lock. */
void steal(void);
void finalize(void);

uint64_t ns_of(clockid_t id);
/* A stamp of what is `offset_ns` from now, by the clock of this moment. */
uint64_t stamp(uint64_t offset_ns);
/* The buffers that are being filled are full. Under the lock. */
void seal(struct filled *current);
void seal_all(void);

#pragma GCC visibility pop

#endif
