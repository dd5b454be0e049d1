/* Findings over time: what the user said about them, and which are active or fixed. */
#include <string.h>

#include "runs/inside.h"

#define RUNS_VERDICTS 1000 /* one of each finding */

static void remember(struct runs *runs, const struct runs_verdict *verdict)
{
    cJSON *one = cJSON_CreateObject();

    cJSON_AddBoolToObject(one, "dismissed", verdict->dismissed);
    cJSON_AddBoolToObject(one, "pinned", verdict->pinned);
    cJSON_AddStringToObject(one, "reason",
                            verdict->reason != NULL ? verdict->reason : "");
    pthread_mutex_lock(&runs->verdicts_lock);
    cJSON_DeleteItemFromObjectCaseSensitive(runs->verdicts, verdict->finding);
    cJSON_AddItemToObject(runs->verdicts, verdict->finding, one);
    pthread_mutex_unlock(&runs->verdicts_lock);
}

void runs_load_verdicts(struct runs *runs)
{
    sqlite3_stmt *statement =
        runs_prepare(runs, "SELECT finding,dismissed,pinned,reason FROM verdicts "
                           "ORDER BY unix_ms DESC LIMIT ?");

    if (statement != NULL)
        sqlite3_bind_int(statement, 1, RUNS_VERDICTS);
    while (statement != NULL && sqlite3_step(statement) == SQLITE_ROW) {
        struct runs_verdict verdict = {
            .finding = (const char *)sqlite3_column_text(statement, 0),
            .dismissed = sqlite3_column_int(statement, 1) != 0,
            .pinned = sqlite3_column_int(statement, 2) != 0,
            .reason = (const char *)sqlite3_column_text(statement, 3)};

        if (verdict.finding != NULL)
            remember(runs, &verdict);
    }
    sqlite3_finalize(statement);
}

/* Room for one more of that name. */
static bool has_room(const struct runs *runs, const char *finding)
{
    return cJSON_GetArraySize(runs->verdicts) < RUNS_VERDICTS ||
           cJSON_GetObjectItemCaseSensitive(runs->verdicts, finding) != NULL;
}

bool runs_judge(struct runs *runs, const struct runs_verdict *verdict, const char **why)
{
    sqlite3_stmt *statement = NULL;
    bool kept = false, room;

    pthread_mutex_lock(&runs->lock);
    room = has_room(runs, verdict->finding);
    if (runs->database != NULL && room)
        statement =
            runs_prepare(runs, "INSERT OR REPLACE INTO verdicts VALUES(?,?,?,?,?)");
    if (statement != NULL) {
        runs_bind_text(statement, 1, verdict->finding);
        sqlite3_bind_int(statement, 2, verdict->dismissed);
        sqlite3_bind_int(statement, 3, verdict->pinned);
        runs_bind_text(statement, 4, verdict->reason);
        sqlite3_bind_int64(statement, 5, runs_unix_ms());
        kept = runs_finish(runs, statement);
    }
    if (kept)
        remember(runs, verdict);
    *why = kept ? "" : room ? runs->reason : "the run store holds no more verdicts";
    pthread_mutex_unlock(&runs->lock);
    return kept;
}

cJSON *runs_verdicts(struct runs *runs)
{
    cJSON *verdicts;

    pthread_mutex_lock(&runs->verdicts_lock);
    verdicts = cJSON_Duplicate(runs->verdicts, 1);
    pthread_mutex_unlock(&runs->verdicts_lock);
    return verdicts;
}

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
        sqlite3_bind_int64(statement, 3, runs_unix_ms());
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
