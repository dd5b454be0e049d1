/* What remains of earlier runs: one SQLite file per host in the state folder.
 *
 * Homes are on NFS: no WAL, a file per host name, other hosts' files are only read. A
 * lock that cannot be had or a file that is damaged switches the store off with the
 * reason; so does a full disk, until there is room again. Nothing else stops for it.
 */
#ifndef SERVER_RUNS_H
#define SERVER_RUNS_H

#include <cjson/cJSON.h>
#include <stdbool.h>
#include <stdint.h>

#include "query/window.h"
#include "wire/attributes.h"

struct runs;
struct store;

/* Never NULL but without memory. state_dir "" or runs_max 0: switched off, and says so.
 * Any thread may call the functions below. */
struct runs *runs_open(const char *state_dir, uint32_t runs_max);
/* The same for a command: nothing is made or written, runs_fold() and runs_judge() are
 * not for it. */
struct runs *runs_open_to_read(const char *state_dir);
void runs_close(struct runs *runs);

/* Writes a row for every session that ended since the last call, and for every session
 * whose row is older than a minute; `all`: for every session that changed. A store that is
 * off for want of room is tried again now and then, with `all` at once. */
void runs_fold(struct runs *runs, struct store *store, bool all);

/* Is it off for a while, so that runs_fold() has something to do though nothing changed? */
bool runs_wait_for_room(struct runs *runs);

/* {"runs": [...newest first...], "reason"}: at most `k`. */
cJSON *runs_list(struct runs *runs, uint32_t k);

/* What was kept of a session of this host: its row, as in the list, and "summary", its
 * /api/bottlenecks at the end. NULL when nothing was. */
cJSON *runs_find(struct runs *runs, const char *session);

#define RUNS_PREFIX    4u
#define RUNS_WHY_BYTES 600u

struct runs_name {
    char session[64], name[64], host[65];
};

/* The one run that `word` means: its id, the beginning of one (RUNS_PREFIX characters or
 * more), or a name that it alone has; among this host's runs, then among those of others.
 * False with a sentence, which lists what may be meant. */
MUST_CHECK bool runs_resolve(struct runs *runs, const char *word,
                             struct runs_name *found, char why[RUNS_WHY_BYTES]);

/* A run as comparisons read it (report/compare.h); `window` is all of it or an epoch. What
 * was not kept is not in it, and "lacks" says so in sentences. NULL with a sentence. */
cJSON *runs_document(struct runs *runs, const struct runs_name *name,
                     const struct window *window, char why[RUNS_WHY_BYTES]);

/* What the user said about a finding. NULL and a reason when it cannot be kept. */
struct runs_verdict {
    const char *finding; /* [a-z0-9_-] */
    bool dismissed, pinned;
    const char *reason;
};
MUST_CHECK bool runs_judge(struct runs *runs, const struct runs_verdict *verdict,
                           const char **why);

/* {finding: {"dismissed", "pinned", "reason"}}; at most 1,000. */
cJSON *runs_verdicts(struct runs *runs);

/* What was said of the findings of a process over time (judge/said.h); it goes with its
 * run. False when it cannot be kept. free() is owed; NULL when nothing was. */
bool runs_keep_said(struct runs *runs, const char *session, uint32_t pid,
                    const char *said);
char *runs_said(struct runs *runs, const char *session, uint32_t pid);

#endif
