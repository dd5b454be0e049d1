/* What the run store tells of runs: rows, newest first. */
#include <dirent.h>
#include <stdio.h>
#include <string.h>

#include "document/json.h"
#include "report/members.h"
#include "runs/inside.h"

#define RUNS_HOSTS 16 /* other hosts' files that are looked into */
#define ROW        "session,name,state,start_unix_ms,end_unix_ms,steps,step_ms,ending,facts"

static void add_raw(cJSON *object, const char *key, const unsigned char *json)
{
    if (json == NULL)
        cJSON_AddNullToObject(object, key);
    else
        cJSON_AddRawToObject(object, key, (const char *)json);
}

static cJSON *row_json(sqlite3_stmt *row, const char *host)
{
    cJSON *run = cJSON_CreateObject();

    json_text(run, "session", (const char *)sqlite3_column_text(row, 0));
    json_text(run, "name", (const char *)sqlite3_column_text(row, 1));
    json_text(run, "host", host);
    json_text(run, "state", (const char *)sqlite3_column_text(row, 2));
    json_integer(run, "start_unix_ms", sqlite3_column_int64(row, 3));
    if (sqlite3_column_type(row, 4) == SQLITE_NULL) /* no event said when it ended */
        cJSON_AddNullToObject(run, "duration_ms");
    else
        json_integer(run, "duration_ms",
                     sqlite3_column_int64(row, 4) - sqlite3_column_int64(row, 3));
    json_integer(run, "steps", sqlite3_column_int64(row, 5));
    if (sqlite3_column_type(row, 6) == SQLITE_NULL)
        cJSON_AddNullToObject(run, "step_ms");
    else
        json_share(run, "step_ms", sqlite3_column_double(row, 6));
    add_raw(run, "end", sqlite3_column_text(row, 7));
    add_raw(run, "facts", sqlite3_column_text(row, 8));
    return run;
}

/* Appends the newest `k` rows; false with an error of this file. */
static bool list_rows(sqlite3 *database, const char *host, uint32_t k, cJSON *list)
{
    static const char sql[] =
        "SELECT " ROW " FROM runs ORDER BY start_unix_ms DESC LIMIT ?";
    sqlite3_stmt *statement = NULL;
    int result;

    if (sqlite3_prepare_v2(database, sql, -1, &statement, NULL) != SQLITE_OK)
        return false;
    sqlite3_bind_int64(statement, 1, k);
    while ((result = sqlite3_step(statement)) == SQLITE_ROW)
        cJSON_AddItemToArray(list, row_json(statement, host));
    sqlite3_finalize(statement);
    return result == SQLITE_DONE;
}

cJSON *runs_find(struct runs *runs, const char *session)
{
    sqlite3_stmt *row = NULL;
    cJSON *run = NULL;

    pthread_mutex_lock(&runs->lock);
    if (runs->database != NULL)
        row = runs_select(runs, "SELECT " ROW ",summary FROM runs WHERE session = ?",
                          session);
    if (row != NULL) {
        run = row_json(row, runs->host);
        add_raw(run, "summary", sqlite3_column_text(row, 9));
    }
    sqlite3_finalize(row);
    pthread_mutex_unlock(&runs->lock);
    return run;
}

/* Files of other hosts: read, never locked for long, never an error. */
bool runs_each_other(const struct runs *runs, runs_look *look, void *user)
{
    DIR *folder = runs->folder[0] != '\0' ? opendir(runs->folder) : NULL;
    const struct dirent *entry;
    bool done = false;
    int hosts = 0;

    while (folder != NULL && !done && hosts < RUNS_HOSTS &&
           (entry = readdir(folder)) != NULL) {
        char path[PATH_MAX + 300];
        sqlite3 *other = NULL;

        if (entry->d_name[0] == '.' || strcmp(entry->d_name, runs->host) == 0)
            continue;
        (void)snprintf(path, sizeof(path), "%s/%s/runs.sqlite", runs->folder,
                       entry->d_name);
        if (sqlite3_open_v2(path, &other, SQLITE_OPEN_READONLY, NULL) == SQLITE_OK) {
            done = look(user, other, entry->d_name);
            hosts++;
        }
        sqlite3_close(other);
    }
    if (folder != NULL)
        closedir(folder);
    return done;
}

struct listing {
    cJSON *list;
    uint32_t k;
};

static bool list_host(void *user, sqlite3 *database, const char *host)
{
    const struct listing *listing = user;

    (void)list_rows(database, host, listing->k, listing->list);
    return false;
}

static int newest_first(const void *left, const void *right)
{
    cJSON *const *a = left, *const *b = right;
    double first = cJSON_GetNumberValue(cJSON_GetObjectItem(*a, "start_unix_ms"));
    double second = cJSON_GetNumberValue(cJSON_GetObjectItem(*b, "start_unix_ms"));

    return (first < second) - (first > second);
}

cJSON *runs_list(struct runs *runs, uint32_t k)
{
    cJSON *body = cJSON_CreateObject();
    cJSON *list = cJSON_CreateArray();

    pthread_mutex_lock(&runs->lock);
    if (runs->database != NULL && !list_rows(runs->database, runs->host, k, list))
        runs_fail(runs);
    (void)runs_each_other(runs, list_host, &(struct listing){list, k});
    list = members_sorted(list, newest_first);
    for (int more = cJSON_GetArraySize(list) - (int)k; more > 0; more--)
        cJSON_DeleteItemFromArray(list, (int)k);
    cJSON_AddItemToObject(body, "runs", list);
    if (runs->database == NULL)
        json_text(body, "reason", runs->reason);
    pthread_mutex_unlock(&runs->lock);
    json_count(body, "k", k);
    return body;
}
