/* What stands of each trainer, in the run store: written down so that a server that comes
 * after says the same (judge_keep), and recalled by it. The keeper's thread. */
#ifndef JUDGE_KEEP_H
#define JUDGE_KEEP_H

#include <stdbool.h>

struct answer;
struct judge;
struct runs;

/* Writes down what stands; `all`: also what changed in numbers alone. */
void judge_keep(struct judge *judge, struct runs *runs, bool all);

/* What a server before this one said of it, where this one never looked. `runs` may be
 * NULL. */
void judge_recall(struct judge *judge, struct runs *runs, const struct answer *head);

#endif
