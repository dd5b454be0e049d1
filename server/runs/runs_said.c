/* What was said of findings over time: which stand, which were fixed. */
#include <string.h>

#include "runs/inside.h"
#include "wire/clock.h"

bool runs_keep_said(struct runs *runs, const char *session, uint32_t pid,
                    const char *said)
{
    sqlite3_stmt *statement = NULL;
    bool kept = false;

    pthread_mutex_lock(&runs->lock);
    if (runs->database != NULL && !runs->reads_only)
        statement = runs_prepare(runs, "INSERT OR REPLACE INTO said VALUES(?,?,?,?)");
    if (statement != NULL) {
        runs_bind_text(statement, 1, session);
        sqlite3_bind_int64(statement, 2, pid);
        sqlite3_bind_int64(statement, 3,
                           (sqlite3_int64)(clock_ns(CLOCK_REALTIME) / 1000000));
        runs_bind_text(statement, 4, said);
        kept = runs_finish(runs, statement);
    }
    pthread_mutex_unlock(&runs->lock);
    return kept;
}

char *runs_said(struct runs *runs, const char *session, uint32_t pid)
{
    sqlite3_stmt *statement = NULL;
    char *said = NULL;

    pthread_mutex_lock(&runs->lock);
    if (runs->database != NULL)
        statement =
            runs_prepare(runs, "SELECT said FROM said WHERE session=? AND pid=?");
    if (statement != NULL) {
        runs_bind_text(statement, 1, session);
        sqlite3_bind_int64(statement, 2, pid);
        if (sqlite3_step(statement) == SQLITE_ROW &&
            sqlite3_column_type(statement, 0) == SQLITE_TEXT)
            said = strdup((const char *)sqlite3_column_text(statement, 0));
        sqlite3_finalize(statement);
    }
    pthread_mutex_unlock(&runs->lock);
    return said;
}
