/* What a command is told through its environment, and what it leaves when it ends.
 *
 *     TRAINGLASS_DIR       folder of the segments, absolute
 *     TRAINGLASS_SESSION   random id, the same for all processes of the job
 *     TRAINGLASS_RUN_NAME  what people call it
 *     TRAINGLASS_ZERO      CLOCK_MONOTONIC ns at the start of `run`: time zero
 *     TRAINGLASS_URL       the page, without its token; as it was where there is none
 *     TRAINGLASS_LIBRARY   libtrainglass.so, absolute
 *     TRAINGLASS_BUDGET, _LEVEL, _CUDA_GRAPHS, _SHARE   as the settings of these names
 *     NVTX_INJECTION64_PATH, CUDA_INJECTION64_PATH   the library, unless set already; the
 *                          second not for a command that injects itself, such as ncu
 *     PYTHONPATH           our folder first: its sitecustomize attaches
 */
#ifndef COMMAND_CONTRACT_H
#define COMMAND_CONTRACT_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "command/child.h"
#include "command/places.h"
#include "wire/segment.h"

struct contract {
    char session[WIRE_TEXT];
    char run_name[WIRE_TEXT];
    char directory[PLACE_BYTES];
    uint16_t port; /* of the page, 0 none: set by whoever started its server */
    uint64_t zero_ns;
    uint32_t oom_kills; /* counted in our cgroup before the command started */
    mode_t note_mode;   /* of a note: whom the setting `share` lets read the segments */
    int note_lock;      /* held while the command runs; -1 none */
};

/* Makes up the session of `argv`; `name` NULL: the name of its script. */
void contract_open(struct contract *contract, const struct options *options,
                   const char *name, char *const *argv);

/* Writes the environment above into our own, for the command `argv` to inherit. A sentence
 * per thing that is missing goes to stderr; nothing stops. */
void contract_export(const struct contract *contract, const struct options *options,
                     char *const *argv);

/* Writes <session>.run (wire/run_note.h), the note of `argv`, which runs as `pid`, and
 * removes those of runs that were killed. Best effort: without a folder there is none. */
void contract_announce(struct contract *contract, char *const *argv, pid_t pid);

/* Removes that note and writes <session>.end (wire/end_note.h): how the command, which ran as
 * `pid`, ended. Best effort: the folder may be gone or full. False, and no note, where nothing
 * of the command was recorded. */
bool contract_close(const struct contract *contract, pid_t pid,
                    const struct child_end *end);

#endif
