/* The buffers that CUPTI fills: a fixed number, zeroed before they are lent.
 *
 *     request (application thread) ── free ─▶ lent ─ complete (any thread) ─▶ full
 *        ▲                                                                     │
 *        └──────────── zeroed by our thread, after it was read ◀───────────────┘
 *
 * The one rule: both callbacks run in somebody's CUDA call. They take no lock, allocate
 * nothing and answer at once. A request never gets NULL, which crashes CUPTI before
 * 12.9: when all are lent it gets a scrap buffer, whose content is counted and dropped;
 * from its request until it is back all work may be missing.
 *
 * CUPTI gives a buffer to who is registered when it is complete: what it holds when
 * another profiler registers goes to him, and he drops what he does not know. So what was
 * lent before is taken back by ourselves, a while after we have registered again. CUPTI
 * may hold it all the same: its place is then left alone, and the buffer gets a new one.
 *
 * They come back when all of their work is done, which is not the order in which they were
 * lent: behind a kernel that waits for another rank, later ones overtake it. What is in a
 * buffer began after it was requested. So up to the earliest request among those that are
 * not back, all is known.
 */
#ifndef PROBE_CUPTI_BUFFERS_H
#define PROBE_CUPTI_BUFFERS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "wire/attributes.h"

#define BUFFERS_COUNT 64u
/* One running kernel holds a whole buffer back, so they are small: 600 kernels. */
#define BUFFER_BYTES  ((size_t)128 * 1024)
#define BUFFER_PLACES 4u /* of one buffer, in turn */

struct buffer_lent {
    uint32_t index;
    uint8_t *bytes;
    size_t valid_bytes;
    uint64_t order;   /* buffers_completed() before it came back */
    bool is_reclaimed; /* nobody told its end, and it has no order */
};

struct buffer_passed {
    uint64_t requested_ticks;
    uint64_t followed_ticks; /* what began since then is in others; 0 it is the newest */
};

/* Maps the memory, once; 8 MiB of it at a time are touched, as they are used. */
MUST_CHECK int buffers_open(void);

/* For cuptiActivityRegisterCallbacks. */
void buffers_request(uint8_t **buffer, size_t *bytes, size_t *records_max);
void buffers_complete(void *context, uint32_t stream, uint8_t *buffer, size_t bytes,
                      size_t valid_bytes);

/* Our thread: the full buffer that was completed first; false when there is none. */
bool buffers_take(struct buffer_lent *lent);
void buffers_give_back(const struct buffer_lent *lent);

/* Our thread: what is lent so far was lent before we registered (again). */
void buffers_registered(void);
/* Our thread: a buffer that was lent before buffers_registered() and never came back, to
 * be read as a full one whose end nobody told; false when there is none. */
bool buffers_reclaim(struct buffer_lent *lent);

/* Our thread: up to when all work that has begun is in buffers that were read; `now_ticks`
 * when none is held. */
uint64_t buffers_known(uint64_t now_ticks);
/* Our thread: one that buffers_known() shall not wait for any longer, because it was lent
 * before buffers_registered(), or was requested before `before_ticks` and is full. Each is
 * told once; false when there is none. */
bool buffers_pass(uint64_t before_ticks, struct buffer_passed *passed);

/* Our thread: was the scrap out at any time since the last call? */
bool buffers_scrap_was_out(void);

/* Buffers that came back since the start: a sign of life. */
uint64_t buffers_completed(void);
/* Number of the step that ran when the last of those came. */
uint64_t buffers_completed_step(void);
/* How many CUPTI holds. */
uint32_t buffers_lent(void);
/* How many are lent, or are full and were not read yet. */
uint32_t buffers_held(void);
/* Bytes of records that fell into the scrap buffer, since the last call. */
uint64_t buffers_scrapped(void);

#endif
