/* Configuration files: lines `key = value`, comments after # or ;, no sections. The
 * text is foreign: bounded in size and in line length, every value checked. */
#ifndef COMMAND_CONFIG_H
#define COMMAND_CONFIG_H

#include <stddef.h>

#include "command/options.h"

#define CONFIG_BYTES_MAX (64u * 1024)
#define CONFIG_LINE_MAX  190u /* inih reads lines of at most 200 bytes in one piece */

/* Reads `path`. Returns 0; -ENOENT when there is no such file (options->error says so);
 * -EINVAL with options->error naming file, line and allowed range; -errno unreadable.
 */
MUST_CHECK int config_read(struct options *options, const char *path,
                           enum option_origin origin);

/* The same of `size` bytes at `text`, called `name` in errors. */
MUST_CHECK int config_read_text(struct options *options, const char *text, size_t size,
                                enum option_origin origin, const char *name);

#endif
