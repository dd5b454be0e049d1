/* One segment as a JSON document. */
#ifndef COMMAND_DUMP_SEGMENT_H
#define COMMAND_DUMP_SEGMENT_H

#include <stdbool.h>
#include <stdint.h>

#include "command/segments/segment_file.h"

struct cJSON;

/* Appends the process of `entry` to the array: header, facts, capabilities, threads,
 * counts of events, and of each thread the newest `events`. False when the segment is
 * unreadable; the document then has its `error`. */
bool dump_segment(struct cJSON *processes, const char *directory,
                  const struct segment_entry *entry, uint64_t events);

#endif
