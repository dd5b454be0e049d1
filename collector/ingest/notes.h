/* What `trainglass run` notes beside the segments: how a command ended (wire/end_note.h)
 * and which one runs (wire/run_note.h), told to the store. */
#ifndef INGEST_NOTES_H
#define INGEST_NOTES_H

#include "ingest/watch.h"

/* A watch_found of <session>.end; `user`: the store. A note of no known session waits for
 * the next scan. */
void notes_add_end(void *user, const struct watch_file *file);

/* The commands that run now, then those of before of which nothing was recorded. */
void notes_tell_commands(struct watch *watch, struct store *store);

#endif
