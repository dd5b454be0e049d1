#include "ingest/sources.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "aggregate/state.h"
#include "ingest/notes.h"
#include "ingest/source.h"
#include "wire/clock.h"

#define SOURCES_MAX 2048u

bool sources_open(struct sources *sources, struct store *store)
{
    *sources = (struct sources){.store = store, .watch = {.inotify = -1}};
    sources->list = calloc(SOURCES_MAX, sizeof(*sources->list));
    return sources->list != NULL;
}

/* `looked_at`: how many files are; 0 where it is the store that has no more place. */
static void leave_out(struct sources *sources, const struct watch_file *file,
                      uint32_t looked_at)
{
    struct watch *watch = &sources->watch;

    for (uint32_t i = 0; i < watch->count; i++) {
        if (strcmp(watch->directories[i].path, file->directory) != 0)
            continue;
        watch->directories[i].looked_at = looked_at;
        watch->directories[i].crowded = looked_at == 0;
    }
}

static void add_file(void *user, const struct watch_file *file)
{
    struct sources *sources = user;
    struct store *store = sources->store;

    for (uint32_t i = 0; i < sources->count; i++) {
        struct source *known = sources->list[i];

        /* An inode comes again after its file is gone, its random name does not. */
        if (known->inode != file->inode || known->device != file->device ||
            strcmp(known->path, file->path) != 0)
            continue;
        known->seen_ns = sources->scanned_ns;
        return;
    }
    if (sources->count == SOURCES_MAX) {
        leave_out(sources, file, SOURCES_MAX);
        return;
    }
    struct source *source = malloc(sizeof(*source));

    if (source == NULL)
        return;
    int error = source_open(source, store, file->path);

    /* Not whole yet, gone again, or no room for it now: the next scan tries again. */
    if (error == -EAGAIN || error == -ENOENT || error == -EMFILE || error == -ENFILE ||
        error == -ENOMEM || error == -ENOSPC) {
        if (error == -ENOSPC)
            leave_out(sources, file, 0);
        free(source);
        return;
    }
    source->seen_ns = sources->scanned_ns;
    source->device = file->device;
    source->inode = file->inode;
    source->state = error != 0 ? SOURCE_LOST : SOURCE_LIVE;
    if (error == 0 && source_died(source)) {
        /* Once more: it may have gone on between being opened and its death. */
        source_look(source, store, (int64_t)clock_ns(CLOCK_MONOTONIC));
        if (source->state != SOURCE_LOST)
            source_put_off(source, store);
    }
    sources->list[sources->count++] = source;
}

static void tell_watches(struct sources *sources)
{
    struct store *store = sources->store;

    pthread_rwlock_wrlock(&store->lock);
    store->watch_count = sources->watch.count;
    for (uint32_t i = 0; i < sources->watch.count; i++) {
        struct watch_directory *from = &sources->watch.directories[i];
        struct watch_state *to = &store->watches[i];

        snprintf(to->path, sizeof(to->path), "%s", from->path);
        snprintf(to->reason, sizeof(to->reason), "%s", from->reason);
        to->readable = from->readable;
        to->segments = from->segments;
        /* What is left out is said where the folder is. */
        if (from->looked_at != 0)
            snprintf(
                to->reason, sizeof(to->reason),
                "holds more files than the %u that are looked at: `trainglass clean` "
                "removes what ended jobs left",
                from->looked_at);
        else if (from->crowded)
            snprintf(
                to->reason, sizeof(to->reason),
                "more processes run than are shown: %u sessions, and %u processes of a "
                "session; those beyond are recorded and left out here",
                STORE_SESSIONS_MAX, STATE_PROCESSES);
        from->looked_at = 0;
        from->crowded = false;
    }
    pthread_rwlock_unlock(&store->lock);
}

/* What is read to its end and has no file any more is known well enough. */
static void forget_gone(struct sources *sources)
{
    uint32_t kept = 0;

    for (uint32_t i = 0; i < sources->count; i++) {
        struct source *source = sources->list[i];

        if (source->state >= SOURCE_DONE && source->seen_ns < sources->scanned_ns) {
            source_close(source);
            free(source);
            continue;
        }
        sources->list[kept++] = source;
    }
    sources->count = kept;
}

void sources_scan(struct sources *sources, int64_t now_ns)
{
    struct watch *watch = &sources->watch;
    struct store *store = sources->store;

    sources->scanned_ns = now_ns;
    notes_tell_commands(watch, store);
    watch_scan(watch, ".end", notes_add_end, store);
    watch_scan(watch, ".seg", add_file, sources);
    /* Again: a note's session may have come with this scan. */
    watch_scan(watch, ".end", notes_add_end, store);
    watch_scan(watch, ".seg", add_file, sources);
    tell_watches(sources);
    forget_gone(sources);
}

void sources_close(struct sources *sources)
{
    for (uint32_t i = 0; i < sources->count; i++) {
        source_close(sources->list[i]);
        free(sources->list[i]);
    }
    free(sources->list);
    watch_close(&sources->watch);
}
