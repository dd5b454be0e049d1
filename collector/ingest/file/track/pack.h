/* How a record is packed: how many bytes each of its five words takes, three bits each,
 * and whether three more follow; then these bytes, and the same of the three. Words are
 * differences from the record before in the same chunk where these are small: stamps,
 * names, correlation and External ids.
 */
#ifndef INGEST_FILE_TRACK_PACK_H
#define INGEST_FILE_TRACK_PACK_H

#include <stdint.h>
#include <string.h>

#include "ingest/file/track/track.h"

_Static_assert(__BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__,
               "a word's low bytes come first");

#define PACK_HEAD   2u      /* bytes that say how long the words are */
#define PACK_FOLLOW 0x8000u /* in the first of them: `more` stands behind */
/* At most; and as words are written and read whole, so much behind the last is touched. */
#define PACK_BYTES_MAX (2 * PACK_HEAD + (5 + TRACK_MORE) * 8)
#define PACK_SLACK     8u

struct track_chunk {
    int64_t first_ns;
    uint32_t index; /* in the order in which they came */
    uint32_t count;
    uint32_t length;
    unsigned char bytes[]; /* length and PACK_SLACK */
};

ALWAYS_INLINE uint64_t *pack_ids(struct track_before *state, uint64_t meta)
{
    uint8_t kind = EVENT_KIND(meta);

    if (kind == EVENT_CPU_OP || kind == EVENT_USER_RANGE)
        return &state->aux[0];
    return &state->aux[kind == EVENT_ALLOC ? 1 : 2];
}

/* One word, of 0 to 6 bytes, or of 8 as 7; adds its length to *sizes. */
ALWAYS_INLINE unsigned char *pack_word(unsigned char *to, uint64_t word,
                                       uint32_t *sizes, uint32_t shift)
{
    uint32_t bytes = (71 - (uint32_t)__builtin_clzll(word | 1)) / 8 - (word == 0);
    uint32_t size = bytes < 7 ? bytes : 7;

    memcpy(to, &word, sizeof(word));
    *sizes |= size << shift;
    return to + size + (size == 7);
}

ALWAYS_INLINE const unsigned char *unpack_word(const unsigned char *from,
                                               uint64_t *word, uint32_t size)
{
    static const uint64_t masks[] = {0,
                                     0xff,
                                     0xffff,
                                     0xffffff,
                                     0xffffffff,
                                     UINT64_C(0xffffffffff),
                                     UINT64_C(0xffffffffffff),
                                     UINT64_MAX};

    memcpy(word, from, sizeof(*word));
    *word &= masks[size];
    return from + size + (size == 7);
}

ALWAYS_INLINE unsigned char *pack_more(unsigned char *to, const uint64_t *more)
{
    unsigned char *head = to;
    uint32_t sizes = 0;

    to = pack_word(to + PACK_HEAD, more[0], &sizes, 0);
    to = pack_word(to, more[1], &sizes, 3);
    to = pack_word(to, more[2], &sizes, 6);
    memcpy(head, &sizes, PACK_HEAD);
    return to;
}

ALWAYS_INLINE const unsigned char *unpack_more(const unsigned char *from,
                                               uint64_t *more)
{
    uint32_t sizes = 0;

    memcpy(&sizes, from, PACK_HEAD);
    from = unpack_word(from + PACK_HEAD, &more[0], sizes & 7);
    from = unpack_word(from, &more[1], sizes >> 3 & 7);
    return unpack_word(from, &more[2], sizes >> 6 & 7);
}

ALWAYS_INLINE unsigned char *pack_record(unsigned char *to, struct track_before *state,
                                         const struct track_record *record)
{
    const struct event *event = &record->event;
    uint32_t name = (uint32_t)event->meta, high = (uint32_t)(event->meta >> 32);
    bool follow = (record->more[0] | record->more[1] | record->more[2]) != 0;
    uint64_t *ids = pack_ids(state, event->meta);
    uint32_t sizes = follow ? PACK_FOLLOW : 0;
    unsigned char *head = to;

    to = pack_word(to + PACK_HEAD,
                   track_signed((int64_t)(event->time - (uint64_t)state->time)), &sizes,
                   0);
    to = pack_word(to, event->value, &sizes, 3);
    to = pack_word(to, track_signed((int64_t)name - (int64_t)state->name), &sizes, 6);
    to = pack_word(to, high ^ state->high, &sizes, 9);
    to = pack_word(to, track_signed((int64_t)(event->aux - *ids)), &sizes, 12);
    memcpy(head, &sizes, PACK_HEAD);
    *ids = event->aux;
    state->time = (int64_t)event->time;
    state->name = name;
    state->high = high;
    return follow ? pack_more(to, record->more) : to;
}

ALWAYS_INLINE const unsigned char *unpack_record(const unsigned char *from,
                                                 struct track_before *state,
                                                 struct track_record *record)
{
    uint64_t time, name, high, id;
    uint32_t sizes = 0;

    memcpy(&sizes, from, PACK_HEAD);
    from = unpack_word(from + PACK_HEAD, &time, sizes & 7);
    from = unpack_word(from, &record->event.value, sizes >> 3 & 7);
    from = unpack_word(from, &name, sizes >> 6 & 7);
    from = unpack_word(from, &high, sizes >> 9 & 7);
    from = unpack_word(from, &id, sizes >> 12 & 7);
    state->time = (int64_t)((uint64_t)state->time + (uint64_t)track_unsigned(time));
    state->name = (uint32_t)((int64_t)state->name + track_unsigned(name));
    state->high ^= (uint32_t)high;
    record->event.time = (uint64_t)state->time;
    record->event.meta = (uint64_t)state->high << 32 | state->name;
    uint64_t *ids = pack_ids(state, record->event.meta);

    *ids += (uint64_t)track_unsigned(id);
    record->event.aux = *ids;
    if (sizes & PACK_FOLLOW)
        return unpack_more(from, record->more);
    memset(record->more, 0, sizeof(record->more));
    return from;
}

/* May a stand before b, which came later? */
bool track_in_order(enum track_order order, const struct track_record *a,
                    const struct track_record *b);

/* The open chunk becomes one of the others. -ENOMEM. */
MUST_CHECK int track_seal(struct track *track);

#endif
