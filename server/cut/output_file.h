/* An output file: plain or gzip, whole or not there at all.
 *
 * A regular file is written beside its name and renamed in the end; "-" and what is no
 * regular file (a FIFO, /dev/null) is written as it is.
 */
#ifndef CUT_OUTPUT_FILE_H
#define CUT_OUTPUT_FILE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <zlib.h>

#include "wire/attributes.h"

#define OUTPUT_FILE_BYTES (256u * 1024)
#define OUTPUT_PATH_BYTES 4096u /* the system's PATH_MAX */

struct output_file {
    int descriptor;
    bool gzip, is_temporary;
    int error;          /* negative errno of the first write that failed */
    uint64_t bytes;     /* written, as they stand in the file */
    uint64_t max_bytes; /* error is -EFBIG beyond; 0 none */
    char path[OUTPUT_PATH_BYTES], temporary[OUTPUT_PATH_BYTES + 16];
    z_stream packer;
    size_t held; /* in `block` */
    char *block; /* OUTPUT_FILE_BYTES */
};

/* gzip when the path ends in ".gz". 0, or a negative errno and nothing is left behind. */
MUST_CHECK int output_file_open(struct output_file *output, const char *path);

/* Plain whatever the path. */
MUST_CHECK int output_file_open_plain(struct output_file *output, const char *path);

/* Nothing was written yet; -ESPIPE where that cannot be. */
MUST_CHECK int output_file_restart(struct output_file *output);

void output_file_write(struct output_file *output, const void *data, size_t size);

/* What is still held is written. 0 or the first error. */
MUST_CHECK int output_file_finish(struct output_file *output);

/* The file gets its name. */
MUST_CHECK int output_file_keep(struct output_file *output);

/* Releases everything; what was not kept is gone. After a failed open too. */
void output_file_close(struct output_file *output);

#endif
