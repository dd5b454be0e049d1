/* The segments in the watched folders: each a source, from the scan that finds its file until
 * it is read to its end and its file is gone. The collector's thread. */
#ifndef INGEST_SOURCES_H
#define INGEST_SOURCES_H

#include <stdbool.h>
#include <stdint.h>

#include "ingest/watch.h"
#include "wire/attributes.h"

struct source;
struct store;

struct sources {
    struct store *store; /* borrowed */
    struct watch watch;
    struct source **list; /* in the order they came */
    uint32_t count;
    int64_t scanned_ns; /* CLOCK_MONOTONIC of the newest scan; 0 none */
};

/* The watch is to be opened by the caller. False without memory; sources_close() is owed in any
 * case. */
MUST_CHECK bool sources_open(struct sources *sources, struct store *store);
void sources_close(struct sources *sources);

/* Looks for new segments and the notes beside them, says in the store what the folders hold, and
 * drops what is gone. */
void sources_scan(struct sources *sources, int64_t now_ns);

#endif
