/* Who this process is: session, rank, role, host, as far as the environment says.
 *
 * The one rule: a session is one training of one job, so its id comes from what all
 * processes of the job share: `trainglass run`, else the launcher, else the process.
 */
#ifndef PROBE_IDENTITY_H
#define PROBE_IDENTITY_H

#include <stdint.h>

#include "wire/segment.h"

struct identity {
    char session[WIRE_TEXT]; /* without the ".n" of a later generation */
    char run_name[WIRE_TEXT];
    char host[WIRE_TEXT];
    uint64_t boot_hash, pid_namespace, start_ticks;
    uint32_t pid, parent_pid, uid;
    uint32_t role; /* enum wire_role */
    int32_t rank, local_rank, world_size;
    int32_t local_world_size; /* ranks on this machine; of all, where only that is told */
    uint32_t restart_count;
    uint64_t zero_monotonic_ns, zero_realtime_ns;
};

/* Fills everything; what cannot be found is -1, 0 or "". `role` 0: decide. */
void identity_read(struct identity *identity, uint32_t role);

/* Tells a later training of the same command apart by its name: "sweep.sh (2)" where `session`
 * is <id>.2. */
void identity_number(struct identity *identity, const char *session);

/* Copies `text` as a session id: other characters than [A-Za-z0-9._-] become '-'. */
void identity_clean(char *id, size_t size, const char *text);

/* Field 22 of /proc/<pid>/stat: clock ticks after boot; 0 unknown. */
uint64_t identity_start_ticks(uint32_t pid);

#endif
