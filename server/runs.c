#include "runs.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <math.h>
#include <pthread.h>
#include <sqlite3.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "aggregate/store.h"
#include "api/api.h"
#include "api/json.h"
#include "query/bottlenecks_query.h"
#include "query/status_query.h"
#include "wire/clock.h"

#define RUNS_BUSY_MS       2000
#define RUNS_REFRESH_MS    60000   /* of a running session's row */
#define RUNS_SUMMARY_BYTES 262144u /* longer summaries are left out */
#define RUNS_OPS           100u    /* per-op totals that are kept */
#define RUNS_VERDICTS      1000    /* what the user said: one of each finding */
#define RUNS_HOSTS         16      /* other hosts' files that are looked into */

static const char schema[] =
    "PRAGMA synchronous=NORMAL;"
    "CREATE TABLE IF NOT EXISTS runs(session TEXT PRIMARY KEY, name TEXT, state TEXT,"
    " start_unix_ms INTEGER, end_unix_ms INTEGER, steps INTEGER, step_ms REAL,"
    " ending TEXT, facts TEXT, summary TEXT);"
    "CREATE TABLE IF NOT EXISTS verdicts(finding TEXT PRIMARY KEY, dismissed INTEGER,"
    " pinned INTEGER, reason TEXT, unix_ms INTEGER);";

struct folded {
    char session[64];
    enum process_state state;
    uint64_t steps;
    int64_t at_ms;
    bool final; /* whole since a server saw it end: what is left of its rings is less */
};

struct runs {
    pthread_mutex_t lock; /* guards all below */
    sqlite3 *database;    /* NULL: switched off */
    char reason[160];     /* why it is off */
    char folder[PATH_MAX], host[HOST_NAME_MAX + 1];
    uint32_t runs_max;
    struct folded folded[STORE_SESSIONS_MAX];
    uint32_t folded_count;
    cJSON *verdicts; /* what stands in the file's table; an object */
};

static void switch_off(struct runs *runs, const char *why)
{
    (void)snprintf(runs->reason, sizeof(runs->reason), "the run store is off: %s", why);
    if (runs->database != NULL)
        sqlite3_close(runs->database);
    runs->database = NULL;
}

static bool execute(struct runs *runs, const char *sql)
{
    if (sqlite3_exec(runs->database, sql, NULL, NULL, NULL) == SQLITE_OK)
        return true;
    switch_off(runs, sqlite3_errmsg(runs->database));
    return false;
}

/* A host name as a folder name. */
static void read_host(char *host, size_t size)
{
    if (gethostname(host, size) != 0)
        (void)snprintf(host, size, "localhost");
    host[size - 1] = '\0';
    for (char *c = host; *c != '\0'; c++) {
        bool plain = (*c >= 'a' && *c <= 'z') || (*c >= 'A' && *c <= 'Z') ||
                     (*c >= '0' && *c <= '9') || (*c == '.' && c != host) || *c == '-';

        if (!plain)
            *c = '_';
    }
}

/* Makes the folder and those above it. */
static int make_folder(char *path)
{
    for (char *slash = strchr(path + 1, '/'); slash != NULL;
         slash = strchr(slash + 1, '/')) {
        *slash = '\0';
        (void)mkdir(path, 0700);
        *slash = '/';
    }
    return mkdir(path, 0700) == 0 || errno == EEXIST ? 0 : -errno;
}

static void open_database(struct runs *runs)
{
    char path[PATH_MAX + HOST_NAME_MAX + 32];
    int error, result;

    (void)snprintf(path, sizeof(path), "%s/%s", runs->folder, runs->host);
    error = make_folder(path);
    if (error != 0) {
        switch_off(runs, strerror(-error));
        return;
    }
    (void)snprintf(path, sizeof(path), "%s/%s/runs.sqlite", runs->folder, runs->host);
    result = sqlite3_open_v2(
        path, &runs->database,
        SQLITE_OPEN_READWRITE | SQLITE_OPEN_CREATE | SQLITE_OPEN_NOMUTEX, NULL);
    if (result != SQLITE_OK) {
        switch_off(runs, sqlite3_errstr(result));
        return;
    }
    (void)chmod(path, 0600);
    sqlite3_busy_timeout(runs->database, RUNS_BUSY_MS);
    (void)execute(runs, schema);
}

static char *printed(cJSON *document)
{
    char *text = document == NULL ? NULL : cJSON_PrintUnformatted(document);

    cJSON_Delete(document);
    if (text != NULL && strlen(text) > RUNS_SUMMARY_BYTES) {
        cJSON_free(text);
        text = NULL;
    }
    return text;
}

/* Runs a statement that returns no rows. */
static bool finish(struct runs *runs, sqlite3_stmt *statement)
{
    int result = sqlite3_step(statement);

    sqlite3_finalize(statement);
    if (result == SQLITE_DONE)
        return true;
    switch_off(runs, sqlite3_errmsg(runs->database));
    return false;
}

static sqlite3_stmt *prepare(struct runs *runs, const char *sql)
{
    sqlite3_stmt *statement = NULL;

    if (sqlite3_prepare_v2(runs->database, sql, -1, &statement, NULL) != SQLITE_OK)
        switch_off(runs, sqlite3_errmsg(runs->database));
    return statement;
}

static void bind_text(sqlite3_stmt *statement, int column, const char *text)
{
    (void)sqlite3_bind_text(statement, column, text, -1, SQLITE_TRANSIENT);
}

struct run_texts {
    char *ending, *facts, *summary; /* cJSON's; NULL unknown */
};

static bool write_row(struct runs *runs, const struct status_session *session,
                      const struct run_texts *texts)
{
    sqlite3_stmt *statement =
        prepare(runs, "INSERT OR REPLACE INTO runs VALUES(?,?,?,?,?,?,?,?,?,?)");
    int64_t now_ms = (int64_t)(clock_ns(CLOCK_REALTIME) / 1000000);

    if (statement == NULL)
        return false;
    bind_text(statement, 1, session->id);
    bind_text(statement, 2, session->name);
    bind_text(statement, 3, api_state_name((int)session->state));
    sqlite3_bind_int64(statement, 4, session->start_unix_ns / 1000000);
    if (!isnan(session->last_event_age_ns))
        sqlite3_bind_int64(statement, 5,
                           now_ms - (int64_t)(session->last_event_age_ns / 1e6));
    else if (session->state == PROCESS_RUNNING)
        sqlite3_bind_int64(statement, 5, now_ms);
    sqlite3_bind_int64(statement, 6, (sqlite3_int64)session->steps);
    sqlite3_bind_double(statement, 7, session->step_ns / 1e6); /* NaN becomes NULL */
    bind_text(statement, 8, texts->ending);
    bind_text(statement, 9, texts->facts);
    bind_text(statement, 10, texts->summary);
    return finish(runs, statement);
}

static void prune(struct runs *runs)
{
    sqlite3_stmt *statement =
        prepare(runs, "DELETE FROM runs WHERE session NOT IN (SELECT session FROM runs "
                      "ORDER BY start_unix_ms DESC LIMIT ?)");

    if (statement == NULL)
        return;
    sqlite3_bind_int64(statement, 1, runs->runs_max);
    (void)finish(runs, statement);
}

static char *summary_of(struct store *store, const char *session)
{
    struct bottlenecks_request request = {.k = RUNS_OPS};
    struct bottlenecks_answer answer;
    struct selection whose = {.rank = SELECT_ANY, .window = {.kind = WINDOW_RUN}};
    cJSON *document = NULL;

    (void)snprintf(whose.session, sizeof(whose.session), "%s", session);
    if (bottlenecks_query(store, &whose, &request, &answer) == 0)
        document = bottlenecks_json(&answer);
    bottlenecks_free(&answer);
    return printed(document);
}

/* Tells the probes of later runs that this segment's content is safe. */
static void mark_done(const struct status_session *session)
{
    for (uint32_t i = 0; i < session->process_count; i++) {
        const char *segment = session->processes[i].segment_path;
        size_t length = segment == NULL ? 0 : strlen(segment);
        char path[PATH_MAX];
        int file;

        if (length < 5 || length + 2 > sizeof(path) ||
            strcmp(segment + length - 4, ".seg") != 0)
            continue;
        memcpy(path, segment, length - 4);
        memcpy(path + length - 4, ".done", 6);
        file = open(path, O_WRONLY | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600);
        if (file >= 0)
            close(file);
    }
}

static struct folded *folded_of(struct runs *runs, const char *session)
{
    struct folded *oldest = &runs->folded[0];

    for (uint32_t i = 0; i < runs->folded_count; i++) {
        if (strcmp(runs->folded[i].session, session) == 0)
            return &runs->folded[i];
        if (runs->folded[i].at_ms < oldest->at_ms)
            oldest = &runs->folded[i];
    }
    if (runs->folded_count < STORE_SESSIONS_MAX)
        oldest = &runs->folded[runs->folded_count++];
    *oldest = (struct folded){.state = PROCESS_RUNNING};
    (void)snprintf(oldest->session, sizeof(oldest->session), "%s", session);
    return oldest;
}

/* Did a server before us write how it ended, with a mean of its steps? */
static bool is_kept(struct runs *runs, const struct status_session *session)
{
    sqlite3_stmt *row =
        prepare(runs, "SELECT 1 FROM runs WHERE session=? AND state IN "
                      "('ended','crashed') AND (step_ms IS NOT NULL OR steps=0)");
    bool kept;

    if (row == NULL)
        return false;
    bind_text(row, 1, session->id);
    kept = sqlite3_step(row) == SQLITE_ROW;
    sqlite3_finalize(row);
    return kept;
}

/* Has the collector read what a row needs? A query for it asks the collector to. */
static bool is_read(struct store *store, const struct status_session *session)
{
    struct selection whose = {.rank = SELECT_ANY};
    struct status_brief brief;

    if (!session->unread)
        return true;
    (void)snprintf(whose.session, sizeof(whose.session), "%s", session->id);
    if (status_brief_query(store, &whose, &brief) == 0)
        answer_free(&brief.head);
    return false;
}

static void fold_session(struct runs *runs, struct store *store,
                         const struct status_session *session, bool all)
{
    int64_t now_ms = (int64_t)(clock_ns(CLOCK_MONOTONIC) / 1000000);
    struct folded *folded = folded_of(runs, session->id);
    bool ended = session->state != PROCESS_RUNNING;
    bool changed = folded->state != session->state || folded->steps != session->steps;
    bool due = all || ended || now_ms - folded->at_ms >= RUNS_REFRESH_MS;
    struct run_texts texts;
    bool kept;

    if (session->from_file || !changed || !due || folded->final)
        return;
    if (ended && folded->at_ms == 0 && is_kept(runs, session)) {
        folded->final = true;
        mark_done(session);
        return;
    }
    if (!is_read(store, session))
        return;
    folded->state = session->state;
    folded->steps = session->steps;
    folded->at_ms = now_ms;
    texts.ending = printed(status_end_json(session));
    texts.facts = printed(status_facts_json(session));
    texts.summary = summary_of(store, session->id);
    kept = write_row(runs, session, &texts);
    cJSON_free(texts.ending);
    cJSON_free(texts.facts);
    cJSON_free(texts.summary);
    if (kept && (session->state == PROCESS_ENDED || session->state == PROCESS_CRASHED))
        mark_done(session);
}

void runs_fold(struct runs *runs, struct store *store, bool all)
{
    struct selection whose = {.rank = SELECT_ANY};
    struct status_answer status;

    pthread_mutex_lock(&runs->lock);
    if (runs->database != NULL) {
        if (status_query(store, &whose, &status) == 0) {
            for (uint32_t i = 0; i < status.session_count && runs->database != NULL;
                 i++)
                fold_session(runs, store, &status.sessions[i], all);
        }
        answer_free(&status.head);
        if (runs->database != NULL)
            prune(runs);
    }
    pthread_mutex_unlock(&runs->lock);
}

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
    static const char sql[] = "SELECT session,name,state,start_unix_ms,end_unix_ms,"
                              "steps,step_ms,ending,facts FROM runs "
                              "ORDER BY start_unix_ms DESC LIMIT ?";
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
    sqlite3_stmt *statement = NULL;
    cJSON *run = NULL;

    pthread_mutex_lock(&runs->lock);
    if (runs->database != NULL)
        statement = prepare(runs, "SELECT session,name,state,start_unix_ms,end_unix_ms,"
                                  "steps,step_ms,ending,facts,summary FROM runs "
                                  "WHERE session = ?");
    if (statement != NULL) {
        bind_text(statement, 1, session);
        if (sqlite3_step(statement) == SQLITE_ROW) {
            run = row_json(statement, runs->host);
            add_raw(run, "summary", sqlite3_column_text(statement, 9));
        }
        sqlite3_finalize(statement);
    }
    pthread_mutex_unlock(&runs->lock);
    return run;
}

/* Files of other hosts: read, never locked for long, never an error. */
static void list_other_hosts(const struct runs *runs, uint32_t k, cJSON *list)
{
    DIR *folder = opendir(runs->folder);
    const struct dirent *entry;
    int hosts = 0;

    while (folder != NULL && hosts < RUNS_HOSTS && (entry = readdir(folder)) != NULL) {
        char path[PATH_MAX + 300];
        sqlite3 *other = NULL;

        if (entry->d_name[0] == '.' || strcmp(entry->d_name, runs->host) == 0)
            continue;
        (void)snprintf(path, sizeof(path), "%s/%s/runs.sqlite", runs->folder,
                       entry->d_name);
        if (sqlite3_open_v2(path, &other, SQLITE_OPEN_READONLY, NULL) == SQLITE_OK) {
            (void)list_rows(other, entry->d_name, k, list);
            hosts++;
        }
        sqlite3_close(other);
    }
    if (folder != NULL)
        closedir(folder);
}

static int newest_first(const void *left, const void *right)
{
    cJSON *const *a = left, *const *b = right;
    double first = cJSON_GetNumberValue(cJSON_GetObjectItem(*a, "start_unix_ms"));
    double second = cJSON_GetNumberValue(cJSON_GetObjectItem(*b, "start_unix_ms"));

    return (first < second) - (first > second);
}

/* Detaches all, sorts, keeps the newest `k`. */
static void sort_list(cJSON *list, uint32_t k)
{
    int count = cJSON_GetArraySize(list);
    cJSON **rows = calloc((size_t)count + 1, sizeof(cJSON *));

    if (rows == NULL)
        return;
    for (int i = 0; i < count; i++)
        rows[i] = cJSON_DetachItemFromArray(list, 0);
    qsort(rows, (size_t)count, sizeof(cJSON *), newest_first);
    for (int i = 0; i < count; i++) {
        if ((uint32_t)i < k)
            cJSON_AddItemToArray(list, rows[i]);
        else
            cJSON_Delete(rows[i]);
    }
    free(rows);
}

cJSON *runs_list(struct runs *runs, uint32_t k)
{
    cJSON *body = cJSON_CreateObject();
    cJSON *list = cJSON_AddArrayToObject(body, "runs");

    pthread_mutex_lock(&runs->lock);
    if (runs->database != NULL && !list_rows(runs->database, runs->host, k, list))
        switch_off(runs, sqlite3_errmsg(runs->database));
    if (runs->folder[0] != '\0')
        list_other_hosts(runs, k, list);
    if (runs->database == NULL)
        json_text(body, "reason", runs->reason);
    pthread_mutex_unlock(&runs->lock);
    sort_list(list, k);
    json_count(body, "k", k);
    return body;
}

static void remember(struct runs *runs, const struct runs_verdict *verdict)
{
    cJSON *one = cJSON_CreateObject();

    cJSON_AddBoolToObject(one, "dismissed", verdict->dismissed);
    cJSON_AddBoolToObject(one, "pinned", verdict->pinned);
    cJSON_AddStringToObject(one, "reason",
                            verdict->reason != NULL ? verdict->reason : "");
    cJSON_DeleteItemFromObjectCaseSensitive(runs->verdicts, verdict->finding);
    cJSON_AddItemToObject(runs->verdicts, verdict->finding, one);
}

static void load_verdicts(struct runs *runs)
{
    sqlite3_stmt *statement =
        prepare(runs, "SELECT finding,dismissed,pinned,reason FROM verdicts "
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
        statement = prepare(runs, "INSERT OR REPLACE INTO verdicts VALUES(?,?,?,?,?)");
    if (statement != NULL) {
        bind_text(statement, 1, verdict->finding);
        sqlite3_bind_int(statement, 2, verdict->dismissed);
        sqlite3_bind_int(statement, 3, verdict->pinned);
        bind_text(statement, 4, verdict->reason);
        sqlite3_bind_int64(statement, 5,
                           (sqlite3_int64)(clock_ns(CLOCK_REALTIME) / 1000000));
        kept = finish(runs, statement);
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

    pthread_mutex_lock(&runs->lock);
    verdicts = cJSON_Duplicate(runs->verdicts, 1);
    pthread_mutex_unlock(&runs->lock);
    return verdicts;
}

struct runs *runs_open(const char *state_dir, uint32_t runs_max)
{
    struct runs *runs = calloc(1, sizeof(*runs));

    if (runs == NULL)
        return NULL;
    pthread_mutex_init(&runs->lock, NULL);
    runs->runs_max = runs_max;
    read_host(runs->host, sizeof(runs->host));
    if (*state_dir == '\0' || runs_max == 0)
        switch_off(runs, "no state folder, or no runs to remember");
    else if ((size_t)snprintf(runs->folder, sizeof(runs->folder), "%s", state_dir) >=
             sizeof(runs->folder))
        switch_off(runs, "the state folder's name is too long");
    else
        open_database(runs);
    runs->verdicts = cJSON_CreateObject();
    if (runs->database != NULL)
        load_verdicts(runs);
    return runs;
}

void runs_close(struct runs *runs)
{
    if (runs == NULL)
        return;
    if (runs->database != NULL)
        sqlite3_close(runs->database);
    cJSON_Delete(runs->verdicts);
    pthread_mutex_destroy(&runs->lock);
    free(runs);
}
