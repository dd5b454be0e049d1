/* A sorted file on its way to the tables, between feed.c and feed_linked.c. */
#ifndef INGEST_FILE_FEEDING_H
#define INGEST_FILE_FEEDING_H

#include "aggregate/process.h"
#include "ingest/file/parts.h"

struct feeding {
    struct file *file;
    struct store *store;
    struct file_texts texts;
    struct track_reader threads[FILE_THREADS_MAX], works;
    /* Of each group, texts + 1 of keys, and of names for what has none. */
    uint32_t *of_key[GROUPS], *of_name[GROUPS];
};

/* After all events, with the store's lock: what the file tells of them together. */
void feeding_give_linked(struct feeding *feeding);

#endif
