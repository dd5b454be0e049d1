/* Growing text, and text that many readers share.
 *
 * `struct bytes` belongs to one thread. After a failed allocation it keeps what it has
 * and `failed` stays set: writers append without asking, whoever sends asks once.
 * `struct shared_bytes` never changes after it was made and goes with its last holder.
 */
#ifndef HTTP_BYTES_H
#define HTTP_BYTES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "wire/attributes.h"

struct bytes {
    char *data; /* owned; NULL while capacity is 0 */
    size_t size, capacity;
    bool failed; /* an append found no memory */
};

void bytes_append(struct bytes *bytes, const void *data, size_t size);
void bytes_text(struct bytes *bytes, const char *text);
void bytes_format(struct bytes *bytes, const char *format, ...) PRINTF(2, 3);

/* Room for `size` more bytes at the end, to be filled by the caller who then adds to
 * `size`; NULL without memory. */
char *bytes_reserve(struct bytes *bytes, size_t size);

/* `text` as a JSON string, quotes included: control characters, quotes, U+2028 and '<'
 * are escaped, broken UTF-8 becomes U+FFFD, and beyond `max` bytes it is cut at a whole
 * character with "..." behind it. */
void bytes_json(struct bytes *bytes, const char *text, size_t size, size_t max);

void bytes_close(struct bytes *bytes);

struct shared_bytes;

/* A copy with one holder; NULL without memory. Any thread may hold and release. */
struct shared_bytes *shared_bytes_new(const void *data, size_t size);
struct shared_bytes *shared_bytes_hold(struct shared_bytes *shared);
void shared_bytes_release(struct shared_bytes *shared); /* NULL is nothing */
const char *shared_bytes_data(const struct shared_bytes *shared, size_t *size);

/* `size` bytes at `data` as a gzip member, appended to *out. False without memory. */
MUST_CHECK bool bytes_gzip(struct bytes *out, const void *data, size_t size);

#endif
