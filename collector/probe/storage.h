/* The file behind a segment: where it goes, how large it may be, how it is made.
 *
 * The one rule: /dev/shm also carries the job's own tensors. We take a share of what is
 * free, allocate before we write, and give up rather than be the reason of a
 * "Bus error" in somebody else's code.
 */
#ifndef PROBE_STORAGE_H
#define PROBE_STORAGE_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "wire/attributes.h"
#include "wire/segment.h"


enum storage_share { STORAGE_OWNER, STORAGE_GROUP, STORAGE_ALL };

struct storage {
    char directory[WIRE_DIRECTORY_BYTES];
    char path[WIRE_PATH_BYTES];      /* <random>.seg */
    char temporary[WIRE_PATH_BYTES]; /* <random>.tmp until storage_publish() */
    unsigned char *base;              /* mapping of `bytes`, NULL when closed */
    uint64_t bytes;
    int lock_fd; /* LOCK_EX while we live; never mapped; -1 closed */
    dev_t lock_device;
    ino_t lock_inode;
};

/* Finds or makes the directory ($TRAINGLASS_DIR, else /dev/shm/trainglass-<uid>) and
 * checks that it is ours and nobody else may write there. 0, or negative errno and a
 * sentence. */
MUST_CHECK int storage_open_directory(struct storage *storage, enum storage_share share,
                                      const char **reason);

/* Bytes that a segment may take: `wanted` or less, given what the file system has and
 * what the job's other processes took; one of several `ranks` leaves as much to each of the
 * others. 0 when even WIRE_BYTES_MIN is too much. */
uint64_t storage_room(const struct storage *storage, uint64_t wanted,
                      uint64_t job_bytes, int32_t ranks);

/* `room`, or what this process's files may have (`ulimit -f`): for one byte more the
 * kernel ends the process with SIGXFSZ. 0 when WIRE_BYTES_MIN is too much. */
uint64_t storage_limited(uint64_t room);

/* Bytes of the whole file system; 0 unknown. */
uint64_t storage_capacity(const struct storage *storage);

/* Makes and maps a zeroed file of `bytes` under a temporary name, locked. The first
 * `allocated` bytes may be written; the rest after storage_allocate(). */
MUST_CHECK int storage_create(struct storage *storage, uint64_t bytes,
                              uint64_t allocated, enum storage_share share,
                              const char **reason);

/* Allocates and prefaults a part of the mapping: afterwards no write to it can fail, and
 * none waits for a page. False when the file system is full. Any thread. */
MUST_CHECK bool storage_allocate(const struct storage *storage, uint64_t offset,
                                 uint64_t bytes);

/* Gives it its name: from now on readers find it. */
MUST_CHECK int storage_publish(struct storage *storage, const char **reason);

/* Takes the lock again when the job has closed all descriptors, ours among them. */
void storage_hold(struct storage *storage);

/* Undoes storage_create(); idempotent. */
void storage_discard(struct storage *storage);

/* In a forked child: closes the inherited lock, which would keep the parent alive in
 * readers' eyes. Only if the descriptor still is the one we opened. */
void storage_forget(struct storage *storage);

/* TRAINGLASS_SHARE: owner (default), group, all. */
enum storage_share storage_share_parse(const char *text);

#endif
