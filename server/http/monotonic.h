/* Waiting by CLOCK_MONOTONIC: the wall clock can jump, a wait must not. */
#ifndef HTTP_MONOTONIC_H
#define HTTP_MONOTONIC_H

#include <pthread.h>
#include <stdint.h>
#include <time.h>

static inline void monotonic_cond_init(pthread_cond_t *cond)
{
    pthread_condattr_t attributes;

    pthread_condattr_init(&attributes);
    pthread_condattr_setclock(&attributes, CLOCK_MONOTONIC);
    pthread_cond_init(cond, &attributes);
    pthread_condattr_destroy(&attributes);
}

/* `timeout_ms` after a stamp of that clock, for pthread_cond_timedwait(). */
static inline struct timespec monotonic_deadline(uint64_t from_ns, int timeout_ms)
{
    uint64_t at = from_ns + (uint64_t)timeout_ms * 1000000;

    return (struct timespec){.tv_sec = (time_t)(at / 1000000000),
                             .tv_nsec = (long)(at % 1000000000)};
}

#endif
