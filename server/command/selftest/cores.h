/* Moves what runs to one core. Best effort: threads come and go meanwhile. */
#ifndef SELFTEST_CORES_H
#define SELFTEST_CORES_H

#include <sys/types.h>

/* One thread, 0 the calling one. */
void cores_move_thread(pid_t thread, int core);

/* All threads of a process and of its descendants; what they start inherits it. */
void cores_move_tree(pid_t pid, int core);

#endif
