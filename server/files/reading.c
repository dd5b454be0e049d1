#include "files/reading.h"

#include <errno.h>
#include <pthread.h>
#include <stdatomic.h>

#include "http/monotonic.h"
#include "wire/clock.h"

#define LOOK_MS 200

struct reading {
    struct store *store;
    struct file_request request;
    file_on_part *on_part;
    void *part_user;
    int error;
    pthread_mutex_t lock; /* guards what follows */
    pthread_cond_t ended;
    struct trace_reader *reader; /* while it runs */
    bool done;
    atomic_bool unwanted; /* relaxed: nothing is handed over with it */
};

static bool is_cancelled(void *user)
{
    struct reading *reading = user;

    return atomic_load_explicit(&reading->unwanted, memory_order_relaxed);
}

static void on_start(void *user, struct trace_reader *reader)
{
    struct reading *reading = user;

    pthread_mutex_lock(&reading->lock);
    reading->reader = reader;
    if (is_cancelled(reading))
        trace_reader_cancel(reader);
    pthread_mutex_unlock(&reading->lock);
}

static void on_end(void *user)
{
    struct reading *reading = user;

    pthread_mutex_lock(&reading->lock);
    reading->reader = NULL;
    pthread_mutex_unlock(&reading->lock);
}

static void *read_file(void *argument)
{
    struct reading *reading = argument;

    reading->error = file_load_each(reading->store, &reading->request, reading->on_part,
                                    reading->part_user);
    pthread_mutex_lock(&reading->lock);
    reading->done = true;
    pthread_cond_signal(&reading->ended);
    pthread_mutex_unlock(&reading->lock);
    return NULL;
}

/* The lock is held, but while it waits and while it asks. */
static void wait_for_end(struct reading *reading, const struct reading_wish *wish)
{
    while (!reading->done) {
        struct timespec deadline =
            monotonic_deadline(clock_ns(CLOCK_MONOTONIC), LOOK_MS);

        if (pthread_cond_timedwait(&reading->ended, &reading->lock, &deadline) !=
                ETIMEDOUT ||
            is_cancelled(reading))
            continue;
        pthread_mutex_unlock(&reading->lock);
        bool gone = wish->is_gone(wish->user);

        pthread_mutex_lock(&reading->lock);
        atomic_store_explicit(&reading->unwanted, gone, memory_order_relaxed);
        if (gone && reading->reader != NULL)
            trace_reader_cancel(reading->reader);
    }
}

int reading_run(struct store *store, const struct file_request *request,
                file_on_part *on_part, void *user, const struct reading_wish *wish)
{
    struct reading reading = {
        .store = store, .request = *request, .on_part = on_part, .part_user = user};
    pthread_t thread;
    int error;

    if (wish->is_gone(wish->user))
        return -ECANCELED;
    reading.request.on_start = on_start;
    reading.request.on_end = on_end;
    reading.request.is_cancelled = is_cancelled;
    reading.request.user = &reading;
    pthread_mutex_init(&reading.lock, NULL);
    monotonic_cond_init(&reading.ended);
    /* The stack of a connection's thread is too small for a reader. */
    error = -pthread_create(&thread, NULL, read_file, &reading);
    if (error == 0) {
        pthread_mutex_lock(&reading.lock);
        wait_for_end(&reading, wish);
        pthread_mutex_unlock(&reading.lock);
        pthread_join(thread, NULL);
        error = reading.error;
    }
    pthread_cond_destroy(&reading.ended);
    pthread_mutex_destroy(&reading.lock);
    return error;
}
