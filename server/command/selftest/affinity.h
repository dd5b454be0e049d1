/* Moves what runs to one core. Best effort: threads come and go meanwhile. */
#ifndef COMMAND_AFFINITY_H
#define COMMAND_AFFINITY_H

#include <sys/types.h>

/* One thread, 0 the calling one. */
void affinity_pin_thread(pid_t thread, int core);

/* All threads of a process and of its descendants; what they start inherits it. */
void affinity_pin_tree(pid_t pid, int core);

#endif
