/* Which cores this process may use, and moving a running job from one to another. */
#ifndef COMMAND_AFFINITY_H
#define COMMAND_AFFINITY_H

#include <sys/types.h>

#include "wire/attributes.h"

/* The first two cores that we may use; how many there are, or -errno. */
MUST_CHECK int affinity_cores(int cores[2]);

/* Of one thread, 0 the calling one. Best effort: it may be gone. */
void affinity_set(pid_t thread, int core);

/* Of all threads of a process and of its descendants. What they start inherits it. */
void affinity_set_tree(pid_t pid, int core);

#endif
