/* The ring of blocks, and the thread that fills it. */
#include "ingest/trace/feed/feed.h"

#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>

/* Where the kernel copies to the middle of a page it takes twice as long. */
#define PAGE_BYTES   4096u
#define MEMORY_BYTES (FEED_HEADROOM + FEED_BLOCK_BYTES + PAGE_BYTES)

#define WINDOWS (FEED_BLOCK_BYTES / FEED_WINDOW)

/* What a block lives in. */
struct room {
    char *bytes;
    uint32_t *index;
    struct feed_mark marks[WINDOWS + 1];
};

struct feed {
    struct fill fill; /* the thread's alone while it runs, as the next two */
    trace_scan *scan;
    struct trace_scan_state scan_state;
    struct feed_block blocks[FEED_BLOCKS];
    struct room rooms[FEED_BLOCKS];
    uint64_t given; /* blocks that feed_next() gave out */
    bool one_thread, started;
    feed_look_ahead *look; /* NULL: never */
    void *look_user;
    bool look_always;

    pthread_t thread;
    pthread_mutex_t lock;
    pthread_cond_t changed;
    uint64_t filled; /* under lock, as the rest */
    bool ended, stop;
    int error;
};

static bool make_rooms(struct feed *feed)
{
    for (uint32_t i = 0; i < (feed->one_thread ? 2 : FEED_BLOCKS); i++) {
        struct room *room = &feed->rooms[i];

        room->bytes = aligned_alloc(PAGE_BYTES, MEMORY_BYTES);
        if (room->bytes == NULL)
            return false;
        feed->blocks[i].bytes = room->bytes + FEED_HEADROOM;
        if (feed->one_thread)
            continue;
        room->index =
            malloc((FEED_BLOCK_BYTES + TRACE_SCAN_SLACK) * sizeof(*room->index));
        if (room->index == NULL)
            return false;
        feed->blocks[i].index = room->index;
        feed->blocks[i].marks = room->marks;
    }
    return true;
}

struct feed *feed_new(bool one_thread, trace_scan *scan)
{
    struct feed *feed = calloc(1, sizeof(*feed));

    if (feed == NULL)
        return NULL;
    feed->one_thread = one_thread;
    feed->scan = scan;
    pthread_mutex_init(&feed->lock, NULL);
    pthread_cond_init(&feed->changed, NULL);
    if (!make_rooms(feed)) {
        feed_free(feed);
        return NULL;
    }
    if (fill_open(&feed->fill) != 0) {
        feed_free(feed);
        return NULL;
    }
    return feed;
}

void feed_free(struct feed *feed)
{
    if (feed == NULL)
        return;
    feed_stop(feed);
    fill_close(&feed->fill);
    for (uint32_t i = 0; i < FEED_BLOCKS; i++) {
        free(feed->rooms[i].bytes);
        free(feed->rooms[i].index);
    }
    pthread_cond_destroy(&feed->changed);
    pthread_mutex_destroy(&feed->lock);
    free(feed);
}

void feed_set_ahead(struct feed *feed, feed_look_ahead *look, void *user, bool always)
{
    feed->look = look;
    feed->look_user = user;
    feed->look_always = always;
}

struct fill *feed_fill(struct feed *feed)
{
    return &feed->fill;
}

void feed_stop(struct feed *feed)
{
    if (!feed->started || feed->one_thread)
        return;
    pthread_mutex_lock(&feed->lock);
    feed->stop = true;
    bool ended = feed->ended;

    pthread_cond_broadcast(&feed->changed);
    pthread_mutex_unlock(&feed->lock);
    if (!ended)
        fill_cancel(&feed->fill); /* it may wait for the other end of a pipe */
    pthread_join(feed->thread, NULL);
    feed->started = false;
}

/* One block; 1, 0 at the end, or a negative errno. */
static int fill_next(struct feed *feed, struct feed_block *block)
{
    int result = fill_block(&feed->fill, block->bytes, &block->length);

    memset(block->bytes + block->length, 0, FEED_ZEROS);
    return result;
}

static void scan_block(struct feed *feed, struct feed_block *block, struct room *room)
{
    uint32_t at = FEED_HEADROOM, end = FEED_HEADROOM + block->length, count = 0;
    struct feed_mark *mark = room->marks;

    for (; at < end; at += FEED_WINDOW) {
        *mark++ = (struct feed_mark){count, feed->scan_state};
        count +=
            feed->scan(room->bytes, at, end - at < FEED_WINDOW ? end : at + FEED_WINDOW,
                       &feed->scan_state, room->index + count);
    }
    *mark = (struct feed_mark){count, feed->scan_state};
    block->entries = count;
    for (uint32_t i = 0; i < 4; i++)
        room->index[count + i] = end;
}

/* Is there a block that the reader has not come to? */
static bool is_behind(struct feed *feed)
{
    pthread_mutex_lock(&feed->lock);
    bool is_behind = feed->filled > feed->given;

    pthread_mutex_unlock(&feed->lock);
    return is_behind;
}

static void prepare(struct feed *feed, struct feed_block *block)
{
    uint32_t room = (uint32_t)(block - feed->blocks);

    scan_block(feed, block, &feed->rooms[room]);
    block->run = NULL;
    if (feed->look != NULL && (feed->look_always || is_behind(feed)))
        block->run = feed->look(feed->look_user, block, room);
}

static void *run(void *user)
{
    struct feed *feed = user;
    int result = 1;

    pthread_mutex_lock(&feed->lock);
    while (result > 0) {
        /* The two that were given out last are the reader's. */
        while (feed->filled + 2 >= feed->given + FEED_BLOCKS && !feed->stop)
            pthread_cond_wait(&feed->changed, &feed->lock);
        if (feed->stop)
            break;
        struct feed_block *block = &feed->blocks[feed->filled % FEED_BLOCKS];

        pthread_mutex_unlock(&feed->lock);
        result = fill_next(feed, block);
        if (result > 0)
            prepare(feed, block);
        pthread_mutex_lock(&feed->lock);
        feed->filled += result > 0;
        pthread_cond_broadcast(&feed->changed);
    }
    feed->ended = true;
    feed->error = result < 0 ? result : 0;
    pthread_cond_broadcast(&feed->changed);
    pthread_mutex_unlock(&feed->lock);
    return NULL;
}

/* Signals are for the threads that know of them. */
static bool start(struct feed *feed)
{
    sigset_t all, before;

    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    int failed = pthread_create(&feed->thread, NULL, run, feed);

    pthread_sigmask(SIG_SETMASK, &before, NULL);
    return failed == 0;
}

int feed_next(struct feed *feed, struct feed_block *block)
{
    if (!feed->started) {
        feed->started = true;
        if (!feed->one_thread && !start(feed))
            feed->one_thread = true;
    }
    if (feed->one_thread) {
        struct feed_block *next = &feed->blocks[feed->given % 2];
        int result = feed->ended ? feed->error : fill_next(feed, next);

        feed->ended = result <= 0;
        feed->error = result < 0 ? result : 0;
        feed->given += result > 0;
        *block = *next;
        return result;
    }
    pthread_mutex_lock(&feed->lock);
    while (feed->given == feed->filled && !feed->ended)
        pthread_cond_wait(&feed->changed, &feed->lock);
    int result = feed->given < feed->filled ? 1 : feed->error;

    if (result > 0)
        *block = feed->blocks[feed->given++ % FEED_BLOCKS];
    pthread_cond_broadcast(&feed->changed);
    pthread_mutex_unlock(&feed->lock);
    return result;
}
