#include <errno.h>
#include <fcntl.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "document/document.h"
#include "query/bottlenecks_query.h"
#include "runs/inside.h"
#include "wire/clock.h"

#define RUNS_BUSY_MS       2000
#define RUNS_REFRESH_MS    60000   /* of a running session's row */
#define RUNS_RETRY_MS      10000   /* between two looks for room */
#define RUNS_SUMMARY_BYTES 262144u /* longer summaries are left out */
#define RUNS_OPS           100u    /* per-op totals that are kept */

static const char schema[] =
    "PRAGMA synchronous=NORMAL;"
    "CREATE TABLE IF NOT EXISTS runs(session TEXT PRIMARY KEY, name TEXT, state TEXT,"
    " start_unix_ms INTEGER, end_unix_ms INTEGER, steps INTEGER, step_ms REAL,"
    " ending TEXT, facts TEXT, summary TEXT);"
    "CREATE TABLE IF NOT EXISTS verdicts(finding TEXT PRIMARY KEY, dismissed INTEGER,"
    " pinned INTEGER, reason TEXT, unix_ms INTEGER);"
    "CREATE TABLE IF NOT EXISTS documents(session TEXT PRIMARY KEY, version INTEGER,"
    " steps INTEGER, document TEXT);"
    "CREATE TABLE IF NOT EXISTS said(session TEXT, pid INTEGER, unix_ms INTEGER,"
    " said TEXT, PRIMARY KEY(session, pid));";

static int64_t now_ms(void)
{
    return (int64_t)(clock_ns(CLOCK_MONOTONIC) / 1000000);
}

/* Until there is room, or for good. */
static void switch_off(struct runs *runs, const char *why, bool for_room)
{
    (void)snprintf(runs->reason, sizeof(runs->reason), "the run store is off%s: %s",
                   for_room ? " until there is room" : "", why);
    if (runs->database != NULL)
        sqlite3_close(runs->database);
    runs->database = NULL;
    runs->retry_ms = for_room ? now_ms() + RUNS_RETRY_MS : 0;
}

/* A quota tells itself as an error of writing. */
static bool is_for_room(int result, int error)
{
    return result == SQLITE_FULL || (result & 0xff) == SQLITE_IOERR ||
           error == ENOSPC || error == EDQUOT;
}

void runs_fail(struct runs *runs)
{
    switch_off(runs, sqlite3_errmsg(runs->database),
               is_for_room(sqlite3_extended_errcode(runs->database),
                           sqlite3_system_errno(runs->database)));
}

static bool execute(struct runs *runs, const char *sql)
{
    if (sqlite3_exec(runs->database, sql, NULL, NULL, NULL) == SQLITE_OK)
        return true;
    runs_fail(runs);
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
    error = runs->reads_only ? 0 : make_folder(path);
    if (error != 0) {
        switch_off(runs, strerror(-error), is_for_room(SQLITE_OK, -error));
        return;
    }
    (void)snprintf(path, sizeof(path), "%s/%s/runs.sqlite", runs->folder, runs->host);
    result = sqlite3_open_v2(path, &runs->database,
                             SQLITE_OPEN_NOMUTEX |
                                 (runs->reads_only
                                      ? SQLITE_OPEN_READONLY
                                      : SQLITE_OPEN_READWRITE | SQLITE_OPEN_CREATE),
                             NULL);
    if (result != SQLITE_OK && runs->reads_only && access(path, F_OK) != 0) {
        switch_off(runs, "no run was ever kept here", false);
        return;
    }
    if (result != SQLITE_OK) {
        runs_fail(runs);
        return;
    }
    sqlite3_busy_timeout(runs->database, RUNS_BUSY_MS);
    if (runs->reads_only)
        return;
    (void)chmod(path, 0600);
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

bool runs_finish(struct runs *runs, sqlite3_stmt *statement)
{
    int result = sqlite3_step(statement);

    sqlite3_finalize(statement);
    if (result == SQLITE_DONE)
        return true;
    runs_fail(runs);
    return false;
}

sqlite3_stmt *runs_prepare(struct runs *runs, const char *sql)
{
    sqlite3_stmt *statement = NULL;

    if (sqlite3_prepare_v2(runs->database, sql, -1, &statement, NULL) != SQLITE_OK)
        runs_fail(runs);
    return statement;
}

sqlite3_stmt *runs_select(struct runs *runs, const char *sql, const char *text)
{
    sqlite3_stmt *row = runs_prepare(runs, sql);

    if (row == NULL)
        return NULL;
    runs_bind_text(row, 1, text);
    if (sqlite3_step(row) == SQLITE_ROW)
        return row;
    sqlite3_finalize(row);
    return NULL;
}

int64_t runs_unix_ms(void)
{
    return (int64_t)(clock_ns(CLOCK_REALTIME) / 1000000);
}

void runs_bind_text(sqlite3_stmt *statement, int column, const char *text)
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
        runs_prepare(runs, "INSERT OR REPLACE INTO runs VALUES(?,?,?,?,?,?,?,?,?,?)");
    int64_t asked_ms = runs->asked_unix_ms;

    if (statement == NULL)
        return false;
    runs_bind_text(statement, 1, session->id);
    runs_bind_text(statement, 2, session->name);
    runs_bind_text(statement, 3, status_state_word(session->state));
    sqlite3_bind_int64(statement, 4, session->start_unix_ns / 1000000);
    if (!isnan(session->last_event_age_ns))
        sqlite3_bind_int64(statement, 5,
                           asked_ms - (int64_t)(session->last_event_age_ns / 1e6));
    else if (session->state == PROCESS_RUNNING)
        sqlite3_bind_int64(statement, 5, asked_ms);
    sqlite3_bind_int64(statement, 6, (sqlite3_int64)session->steps);
    sqlite3_bind_double(statement, 7, session->step_ns / 1e6); /* NaN becomes NULL */
    runs_bind_text(statement, 8, texts->ending);
    runs_bind_text(statement, 9, texts->facts);
    runs_bind_text(statement, 10, texts->summary);
    return runs_finish(runs, statement);
}

static void prune(struct runs *runs)
{
    sqlite3_stmt *statement = runs_prepare(
        runs, "DELETE FROM runs WHERE session NOT IN (SELECT session FROM runs "
              "ORDER BY start_unix_ms DESC LIMIT ?)");

    if (statement == NULL)
        return;
    sqlite3_bind_int64(statement, 1, runs->runs_max);
    if (runs_finish(runs, statement))
        (void)execute(runs, "DELETE FROM documents WHERE session NOT IN "
                            "(SELECT session FROM runs);"
                            "DELETE FROM said WHERE session NOT IN "
                            "(SELECT session FROM runs)");
}

/* Of one that has ended with what its replayed steps tell, which takes its time. */
static char *summary_of(struct store *store, const char *session, bool ended)
{
    struct bottlenecks_request request = {.k = RUNS_OPS};
    struct bottlenecks_answer answer;
    struct selection whose = {.rank = SELECT_ANY, .window = {.kind = WINDOW_RUN}};
    cJSON *document = NULL;

    (void)snprintf(whose.session, sizeof(whose.session), "%s", session);
    if (bottlenecks_query(store, &whose, &request, &answer) == 0) {
        if (ended)
            bottlenecks_replay(store, &whose, &answer);
        document = bottlenecks_json(&answer);
    }
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
            strcmp(segment + length - 4, ".seg") != 0 || access(segment, F_OK) != 0)
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
    sqlite3_stmt *row = runs_select(
        runs,
        "SELECT 1 FROM runs WHERE session=? AND state IN ('ended','crashed') AND "
        "(step_ms IS NOT NULL OR steps=0)",
        session->id);
    bool kept = row != NULL;

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
    int64_t asked_ms = now_ms();
    struct folded *folded = folded_of(runs, session->id), before = *folded;
    bool ended = session->state != PROCESS_RUNNING;
    bool changed = folded->state != session->state || folded->steps != session->steps;
    bool due = all || ended || asked_ms - folded->at_ms >= RUNS_REFRESH_MS;
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
    folded->at_ms = asked_ms;
    texts.ending = printed(status_end_json(session));
    texts.facts = printed(status_facts_json(session));
    texts.summary = summary_of(store, session->id, ended);
    /* Both or none: what has a row is not looked at again. */
    kept = execute(runs, "BEGIN") && write_row(runs, session, &texts) &&
           runs_keep(runs, store, session->id, ended) && execute(runs, "COMMIT");
    cJSON_free(texts.ending);
    cJSON_free(texts.facts);
    cJSON_free(texts.summary);
    if (!kept) /* again when there is room */
        *folded = before;
    if (kept && (session->state == PROCESS_ENDED || session->state == PROCESS_CRASHED))
        mark_done(session);
}

/* Off for want of room, and time to look whether there is some. */
static void try_again(struct runs *runs, bool now)
{
    if (runs->database != NULL || runs->retry_ms == 0 ||
        (!now && now_ms() < runs->retry_ms))
        return;
    runs->retry_ms = 0;
    runs->reason[0] = '\0';
    open_database(runs);
    if (runs->database != NULL)
        runs_load_verdicts(runs);
}

bool runs_wait_for_room(struct runs *runs)
{
    pthread_mutex_lock(&runs->lock);
    bool waits = runs->database == NULL && runs->retry_ms != 0;

    pthread_mutex_unlock(&runs->lock);
    return waits;
}

void runs_fold(struct runs *runs, struct store *store, bool all)
{
    struct selection whose = {.rank = SELECT_ANY};
    struct status_answer status;

    pthread_mutex_lock(&runs->lock);
    try_again(runs, all);
    if (runs->database != NULL) {
        runs->asked_unix_ms = runs_unix_ms();
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

static struct runs *open_runs(const char *state_dir, uint32_t runs_max, bool reads_only)
{
    struct runs *runs = calloc(1, sizeof(*runs));

    if (runs == NULL)
        return NULL;
    pthread_mutex_init(&runs->lock, NULL);
    pthread_mutex_init(&runs->verdicts_lock, NULL);
    runs->runs_max = runs_max;
    runs->reads_only = reads_only;
    read_host(runs->host, sizeof(runs->host));
    if (*state_dir == '\0' || runs_max == 0)
        switch_off(runs, "no state folder, or no runs to remember", false);
    else if ((size_t)snprintf(runs->folder, sizeof(runs->folder), "%s", state_dir) >=
             sizeof(runs->folder))
        switch_off(runs, "the state folder's name is too long", false);
    else
        open_database(runs);
    runs->verdicts = cJSON_CreateObject();
    if (runs->database != NULL && !reads_only)
        runs_load_verdicts(runs);
    return runs;
}

struct runs *runs_open(const char *state_dir, uint32_t runs_max)
{
    return open_runs(state_dir, runs_max, false);
}

struct runs *runs_open_to_read(const char *state_dir)
{
    return open_runs(state_dir, 1, true);
}

void runs_close(struct runs *runs)
{
    if (runs == NULL)
        return;
    if (runs->database != NULL)
        sqlite3_close(runs->database);
    cJSON_Delete(runs->verdicts);
    pthread_mutex_destroy(&runs->verdicts_lock);
    pthread_mutex_destroy(&runs->lock);
    free(runs);
}
