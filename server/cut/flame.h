/* The tree of calls of a file (ingest/file/paths.h) as other tools read it.
 *
 *     folded      "outer;inner 123": torch's export_stacks, for flamegraph.pl and the like
 *     speedscope  a profile of each thread, and one of the device's time by launch
 */
#ifndef CUT_FLAME_H
#define CUT_FLAME_H

#include "cut/flame_order.h"
#include "cut/output_file.h"

/* speedscope takes some seconds for more. */
#define FLAME_PATHS_MAX 25000u

/* Stacks of Python frames with the time of the ops below, in whole us, as torch counts
 * them: a node of the backward in the stack of the op that made it, where the paths know
 * their origins. -ENODATA when the file has no frames, -ENOMEM; else what went wrong with the
 * output is in it. */
MUST_CHECK int flame_write_folded(const struct file_paths *paths,
                                  enum flame_metric metric, struct output_file *output);

/* All calls and frames, those of the least time left out beyond FLAME_PATHS_MAX: their
 * time is then in who called them; *left_out of them. */
MUST_CHECK int flame_write_speedscope(const struct file_paths *paths, const char *name,
                                      struct output_file *output, uint32_t *left_out);

#endif
