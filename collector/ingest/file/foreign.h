/* Events of producers other than PyTorch, which have categories of their own or none. */
#ifndef INGEST_FILE_FOREIGN_H
#define INGEST_FILE_FOREIGN_H

#include "ingest/file/parts.h"

/* What an event is that has no category we know. */
enum file_plain {
    FILE_PLAIN_NONE,        /* not known */
    FILE_PLAIN_PASSED_OVER, /* known, and no row */
    FILE_PLAIN_OP,
    FILE_PLAIN_CALL,
    FILE_PLAIN_WORK,
    FILE_PLAIN_COPY,
    FILE_PLAIN_SET,
};

/* "process_name": what its events are. */
void file_note_process(struct file *file, const struct trace_event *event);
/* Of a kind of device that torch has no name of its own for. */
bool file_is_private(const struct file *file, uint32_t pid);

/* `thread_name` as metadata says, 0 without. Fills the event's device and stream where they
 * stand elsewhere. */
enum file_plain file_plain_kind(struct file *file, struct trace_event *event,
                                uint32_t thread_name);

/* "viztracer" and the like; NULL unknown. */
const char *file_producer(const struct file *file, const struct trace_head *head);

#endif
