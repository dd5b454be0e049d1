/* The note of the command that runs (wire/run_note.h), for a page that sees nothing of it
 * yet. Best effort: without a folder there is none. */
#ifndef COMMAND_ANNOUNCE_H
#define COMMAND_ANNOUNCE_H

#include <sys/types.h>

#include "command/live/contract.h"

/* Writes the note of `argv`, which runs as `pid`, and removes those of runs that were
 * killed. `share` as enum serve_share. Returns the descriptor that holds its lock, -1 none.
 */
int announce_command(const struct contract *contract, char *const *argv, pid_t pid,
                     int share);

/* Removes it. */
void announce_end(const struct contract *contract, int lock);

#endif
