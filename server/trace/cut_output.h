/* The file that a cut becomes: plain or gzip, whole or not there at all.
 *
 * A regular file is written beside its name and renamed in the end; "-" and what is no
 * regular file (a FIFO, /dev/null) is written as it is.
 */
#ifndef TRACE_CUT_OUTPUT_H
#define TRACE_CUT_OUTPUT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <zlib.h>

#include "wire/attributes.h"

#define CUT_OUTPUT_BYTES (256u * 1024)
#define CUT_PATH_BYTES   4096u /* the system's PATH_MAX */

struct cut_output {
    int descriptor;
    bool gzip, is_temporary;
    int error;          /* negative errno of the first write that failed */
    uint64_t bytes;     /* written, as they stand in the file */
    uint64_t max_bytes; /* error is -EFBIG beyond; 0 none */
    char path[CUT_PATH_BYTES], temporary[CUT_PATH_BYTES + 16];
    z_stream packer;
    size_t held; /* in `block` */
    char *block; /* CUT_OUTPUT_BYTES */
};

/* gzip when the path ends in ".gz". 0, or a negative errno and nothing is left behind. */
MUST_CHECK int cut_output_open(struct cut_output *output, const char *path);

/* Plain whatever the path. */
MUST_CHECK int cut_output_open_plain(struct cut_output *output, const char *path);

/* Nothing was written yet; -ESPIPE where that cannot be. */
MUST_CHECK int cut_output_restart(struct cut_output *output);

void cut_output_write(struct cut_output *output, const void *data, size_t size);

/* What is still held is written. 0 or the first error. */
MUST_CHECK int cut_output_finish(struct cut_output *output);

/* The file gets its name. */
MUST_CHECK int cut_output_keep(struct cut_output *output);

/* Releases everything; what was not kept is gone. After a failed open too. */
void cut_output_close(struct cut_output *output);

#endif
