#include "ingest/nvml/nvml.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <time.h>

#include "ingest/nvml/read.h"
#include "wire/clock.h"

/* A look takes 40 ms a device, most of it PCIe counters: 32 of them are done in time. */
#define SILENT_NS INT64_C(5000000000)
#define STOP_MS   1000

struct nvml {
    pthread_t thread;
    pthread_mutex_t lock; /* guards what follows; never held over a call of NVML */
    pthread_cond_t asked, answered;
    bool wanted, stopping, fresh, ended;
    int64_t asked_ns; /* when the look that is going on began; 0: none is */
    struct hardware_reading done;
    /* The thread's own. */
    struct nvml_reader reader;
    struct hardware_reading reading;
};

static int64_t now_ns(void)
{
    return (int64_t)clock_ns(CLOCK_MONOTONIC);
}

static void *run(void *user)
{
    struct nvml *nvml = user;

    pthread_mutex_lock(&nvml->lock);
    while (!nvml->stopping) {
        if (!nvml->wanted) {
            pthread_cond_wait(&nvml->asked, &nvml->lock);
            continue;
        }
        nvml->wanted = false;
        nvml->asked_ns = now_ns();
        pthread_mutex_unlock(&nvml->lock);
        nvml_read(&nvml->reader, &nvml->reading);
        pthread_mutex_lock(&nvml->lock);
        nvml->done = nvml->reading;
        nvml->fresh = true;
        nvml->asked_ns = 0;
        pthread_cond_broadcast(&nvml->answered);
    }
    pthread_mutex_unlock(&nvml->lock);
    nvml_library_close(&nvml->reader.nvml);
    pthread_mutex_lock(&nvml->lock);
    nvml->ended = true;
    pthread_cond_broadcast(&nvml->answered);
    pthread_mutex_unlock(&nvml->lock);
    return NULL;
}

struct nvml *nvml_start(void)
{
    struct nvml *nvml = calloc(1, sizeof(*nvml));
    pthread_condattr_t attributes;

    if (nvml == NULL)
        return NULL;
    pthread_mutex_init(&nvml->lock, NULL);
    pthread_condattr_init(&attributes);
    pthread_condattr_setclock(&attributes, CLOCK_MONOTONIC);
    pthread_cond_init(&nvml->asked, &attributes);
    pthread_cond_init(&nvml->answered, &attributes);
    pthread_condattr_destroy(&attributes);
    if (pthread_create(&nvml->thread, NULL, run, nvml) != 0) {
        free(nvml);
        return NULL;
    }
    return nvml;
}

static bool take(struct nvml *nvml, struct hardware_reading *reading)
{
    if (!nvml->fresh)
        return false;
    *reading = nvml->done;
    nvml->fresh = false;
    return true;
}

enum nvml_answer nvml_ask(struct nvml *nvml, struct hardware_reading *reading)
{
    enum nvml_answer answer = NVML_NO_NEWS;

    pthread_mutex_lock(&nvml->lock);
    if (take(nvml, reading))
        answer = NVML_NEWS;
    else if (nvml->asked_ns != 0 && now_ns() - nvml->asked_ns > SILENT_NS)
        answer = NVML_SILENT;
    nvml->wanted = true;
    pthread_cond_signal(&nvml->asked);
    pthread_mutex_unlock(&nvml->lock);
    return answer;
}

static struct timespec deadline_in(int timeout_ms)
{
    uint64_t end = clock_ns(CLOCK_MONOTONIC) + (uint64_t)timeout_ms * 1000000;

    return (struct timespec){(time_t)(end / 1000000000), (long)(end % 1000000000)};
}

bool nvml_wait(struct nvml *nvml, struct hardware_reading *reading, int timeout_ms)
{
    struct timespec deadline = deadline_in(timeout_ms);
    int error = 0;

    pthread_mutex_lock(&nvml->lock);
    nvml->wanted = true;
    pthread_cond_signal(&nvml->asked);
    while (!nvml->fresh && error == 0)
        error = pthread_cond_timedwait(&nvml->answered, &nvml->lock, &deadline);
    bool taken = take(nvml, reading);

    pthread_mutex_unlock(&nvml->lock);
    return taken;
}

void nvml_stop(struct nvml *nvml)
{
    static struct nvml *_Atomic left_behind; /* relaxed: a leak checker finds it here */
    struct timespec deadline = deadline_in(STOP_MS);
    int error = 0;

    if (nvml == NULL)
        return;
    pthread_mutex_lock(&nvml->lock);
    nvml->stopping = true;
    pthread_cond_signal(&nvml->asked);
    while (!nvml->ended && error == 0)
        error = pthread_cond_timedwait(&nvml->answered, &nvml->lock, &deadline);
    bool ended = nvml->ended;

    pthread_mutex_unlock(&nvml->lock);
    if (!ended) {
        atomic_store_explicit(&left_behind, nvml, memory_order_relaxed);
        pthread_detach(nvml->thread);
        return;
    }
    pthread_join(nvml->thread, NULL);
    pthread_cond_destroy(&nvml->asked);
    pthread_cond_destroy(&nvml->answered);
    pthread_mutex_destroy(&nvml->lock);
    free(nvml);
}
