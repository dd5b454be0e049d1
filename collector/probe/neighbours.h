/* The other segments of the directory: which generation of the session is ours, how
 * much our job already takes, and which ended sessions may go.
 *
 * The one rule: files of others are foreign bytes. They are read with pread, never
 * mapped, and deleted only when their lock says that nobody lives in them.
 */
#ifndef PROBE_NEIGHBOURS_H
#define PROBE_NEIGHBOURS_H

#include <stdbool.h>
#include <stdint.h>

#include "probe/identity.h"
#include "wire/attributes.h"

#define NEIGHBOURS_MAX                                                                 \
    1024u /* looked at; a directory with more is cleaned in turns                      \
           */

struct neighbour {
    char file[40]; /* name in the directory */
    char session[WIRE_TEXT];
    uint64_t bytes;
    int64_t modified_s; /* of the file */
    int32_t rank;
    uint32_t role;
    bool alive;
    bool folded;  /* the server has put it into the run store */
    bool ours;    /* of our uid, with our magic */
    uint32_t age; /* 0 its session lives (or it is gone); n: the n-th newest ended */
};

struct neighbours {
    int directory; /* descriptor; -1 closed */
    uint32_t count;
    struct neighbour list[NEIGHBOURS_MAX];
};

/* Reads the directory; `neighbours` is large (150 KiB): the caller allocates it. */
MUST_CHECK int neighbours_open(struct neighbours *neighbours, const char *directory);
void neighbours_close(struct neighbours *neighbours);

/* The session that a process of `identity` opens or joins: its id, or "<id>.<n>" (n
 * from 2) when a predecessor of the same rank has ended. `session`: WIRE_TEXT bytes. */
void neighbours_session(const struct neighbours *neighbours,
                        const struct identity *identity, char *session);

/* Bytes that live processes of `session` take. */
uint64_t neighbours_job_bytes(const struct neighbours *neighbours, const char *session);

/* Deletes ended sessions: the newest ended one stays; of the others, those that are
 * folded go when they are beyond the 4 newest, beyond `bytes_max` together or older
 * than a day; then the oldest of what is left, folded or not, until `bytes_needed` are
 * won (0: none). Of a session that lives the workers go that ended a minute ago or
 * earlier, but for the 64 newest. With a session goes the note of how it ended. Returns how many
 * segments went that were not folded. */
uint32_t neighbours_clean(struct neighbours *neighbours, uint64_t bytes_max,
                          uint64_t bytes_needed);

#endif
