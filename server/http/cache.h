/* Answers that many ask for: the bytes of one are given to all until something changed.
 *
 * An answer is fresh while the tables did not change and for at most a second (ages tick
 * on), or for a twentieth of a second whatever happened: a thousand readers cost as much
 * as twenty a second.
 */
#ifndef HTTP_CACHE_H
#define HTTP_CACHE_H

#include <stddef.h>
#include <stdint.h>

#include "http/bytes.h"

#define CACHE_ENTRIES     32u
#define CACHE_KEY_BYTES   256u
#define CACHE_ANSWER_MAX  (1u << 20) /* larger answers are not kept */
#define CACHE_FRESH_MS    1000
#define CACHE_FRESHEST_MS 50

struct cache;

struct cache *cache_new(void); /* NULL without memory */
void cache_free(struct cache *cache);

/* What was put for `key` if it is fresh at `now_ms` with the tables at `rev`; the
 * caller releases it. NULL when there is none. Any thread. */
struct shared_bytes *cache_get(struct cache *cache, const char *key, uint64_t rev,
                               int64_t now_ms);

/* Nothing that was put is fresh any more: somebody changed what the tables do not hold. */
void cache_forget(struct cache *cache);

/* Keeps a hold of its own. */
void cache_put(struct cache *cache, const char *key, uint64_t rev, int64_t now_ms,
               struct shared_bytes *answer);

#endif
