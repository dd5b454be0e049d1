/* Reads a trace file on a thread of its own, for as long as somebody waits for it. */
#ifndef FILES_READING_H
#define FILES_READING_H

#include <stdbool.h>

#include "ingest/file/file.h"

/* Asked five times a second while the file is read, on the thread that waits. */
struct reading_wish {
    bool (*is_gone)(void *user); /* true: nobody wants it any more */
    void *user;
};

/* As file_load_each(), whose `on_start`, `on_end` and `user` are taken here; -ECANCELED when it
 * was no longer wanted. Tables that are being made already are made to their end. `on_part` is
 * called from the thread that reads. */
MUST_CHECK int reading_run(struct store *store, const struct file_request *request,
                           file_on_part *on_part, void *user,
                           const struct reading_wish *wish);

#endif
