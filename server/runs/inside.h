/* The run store between its own files. */
#ifndef SERVER_RUNS_INSIDE_H
#define SERVER_RUNS_INSIDE_H

#include <cjson/cJSON.h>
#include <limits.h>
#include <pthread.h>
#include <sqlite3.h>

#include "aggregate/store.h"
#include "query/status_query.h"
#include "runs/runs.h"

struct folded {
    char session[64];
    enum process_state state;
    uint64_t steps;
    int64_t at_ms;
    bool final; /* whole since a server saw it end: what is left of its rings is less */
};

struct runs {
    pthread_mutex_t lock; /* guards all below but `verdicts` */
    sqlite3 *database;    /* NULL: switched off */
    char reason[160];     /* why it is off */
    int64_t retry_ms;     /* off for want of room: when to try again; 0: it stays off */
    char folder[PATH_MAX], host[HOST_NAME_MAX + 1];
    uint32_t runs_max;
    bool reads_only;
    int64_t asked_unix_ms; /* when the sessions to be folded told their ages */
    struct folded folded[STORE_SESSIONS_MAX];
    uint32_t folded_count;
    /* What stands in the file's table; an object. Every answer reads it: whoever changes it
     * holds both locks, whoever reads it this one, for the other is held for long. */
    cJSON *verdicts;
    pthread_mutex_t verdicts_lock;
};

/* What a document has in it (runs_keep.c); a reader knows its own and none before it. */
#define RUNS_DOCUMENT_VERSION 1

/* All with the lock held. */
/* Switches the store off after an error of the database; for want of room for a while. */
void runs_fail(struct runs *runs);
/* NULL, and the store is off, when it is not understood. */
sqlite3_stmt *runs_prepare(struct runs *runs, const char *sql);
/* The one row of a statement whose first parameter is `text`: sqlite3_finalize() is owed.
 * NULL without one. */
sqlite3_stmt *runs_select(struct runs *runs, const char *sql, const char *text);
int64_t runs_unix_ms(void);
void runs_bind_text(sqlite3_stmt *statement, int column, const char *text);
/* Runs a statement that returns no rows. */
MUST_CHECK bool runs_finish(struct runs *runs, sqlite3_stmt *statement);

void runs_load_verdicts(struct runs *runs);

/* Calls `look` with the files of other hosts until it returns true; whether one did. */
typedef bool runs_look(void *user, sqlite3 *database, const char *host);
bool runs_each_other(const struct runs *runs, runs_look *look, void *user);

/* Writes down what a comparison needs of the session (runs_document()). */
MUST_CHECK bool runs_keep(struct runs *runs, struct store *store, const char *session,
                          bool ended);

#endif
