/* A run of the store as a comparison reads it. What the file holds may have been written by
 * anybody: each text is parsed again, and what is no document counts as not kept. */
#include <math.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

#include "document/json.h"
#include "report/members.h"
#include "runs/inside.h"

#define HITS_MAX 4u /* that a sentence names */

struct hit {
    struct runs_name name;
    long long start_unix_ms, steps;
};

struct search {
    const char *word;
    struct hit hits[HITS_MAX];
    unsigned count; /* more than HITS_MAX are not counted */
    bool exact;     /* hits[0] is the run of that id */
};

static void copy_column(sqlite3_stmt *row, int column, char *to, size_t size)
{
    const char *text = (const char *)sqlite3_column_text(row, column);

    (void)snprintf(to, size, "%s", text != NULL ? text : "");
}

static void add_hit(struct search *search, sqlite3_stmt *row, const char *host)
{
    struct hit *hit;

    if (search->count == HITS_MAX)
        return;
    hit = &search->hits[search->count++];
    copy_column(row, 0, hit->name.session, sizeof(hit->name.session));
    copy_column(row, 1, hit->name.name, sizeof(hit->name.name));
    (void)snprintf(hit->name.host, sizeof(hit->name.host), "%s", host);
    hit->start_unix_ms = sqlite3_column_int64(row, 2);
    hit->steps = sqlite3_column_int64(row, 3);
    if (strcmp(hit->name.session, search->word) == 0) {
        search->hits[0] = *hit;
        search->count = 1;
        search->exact = true;
    }
}

/* Runs whose id, name or beginning of the id it is; without a word the newest. */
static bool search_host(void *user, sqlite3 *database, const char *host)
{
    static const char sql[] =
        "SELECT session,name,start_unix_ms,steps FROM runs WHERE ?1='' OR session=?1 "
        "OR name=?1 OR (length(?1)>=?2 AND substr(session,1,length(?1))=?1) "
        "ORDER BY session=?1 DESC, start_unix_ms DESC LIMIT ?3";
    struct search *search = user;
    sqlite3_stmt *row = NULL;

    if (sqlite3_prepare_v2(database, sql, -1, &row, NULL) != SQLITE_OK)
        return false;
    runs_bind_text(row, 1, search->word);
    sqlite3_bind_int(row, 2, (int)RUNS_PREFIX);
    sqlite3_bind_int(row, 3, (int)HITS_MAX);
    while (!search->exact && sqlite3_step(row) == SQLITE_ROW)
        add_hit(search, row, host);
    sqlite3_finalize(row);
    return search->exact;
}

static void search_all(struct runs *runs, struct search *search)
{
    if (runs->database != NULL)
        (void)search_host(search, runs->database, runs->host);
    if (!search->exact)
        (void)runs_each_other(runs, search_host, search);
}

/* "a1b2c3d4 (train.py, 300 steps, 21 Nov 14:02), ..." */
static void list_hits(const struct search *search, char *text, size_t size)
{
    size_t length = 0;

    *text = '\0';
    for (unsigned i = 0; i < search->count && length + 1 < size; i++) {
        const struct hit *hit = &search->hits[i];
        time_t start = (time_t)(hit->start_unix_ms / 1000);
        char when[32] = "";
        struct tm local;

        if (localtime_r(&start, &local) != NULL)
            (void)strftime(when, sizeof(when), ", %e %b %H:%M", &local);
        length += (size_t)snprintf(text + length, size - length,
                                   "%s%.40s (%.24s, %lld steps%s)", i > 0 ? ", " : "",
                                   hit->name.session, hit->name.name, hit->steps, when);
    }
}

/* Why `search` has not found one run. */
static void explain(struct runs *runs, const struct search *search,
                    char why[RUNS_WHY_BYTES])
{
    struct search newest = {.word = ""};
    char list[RUNS_WHY_BYTES - 80];

    if (search->count > 1) {
        list_hits(search, list, sizeof(list));
        (void)snprintf(why, RUNS_WHY_BYTES, "several runs are called so: %s", list);
        return;
    }
    search_all(runs, &newest);
    list_hits(&newest, list, sizeof(list));
    if (newest.count > 0)
        (void)snprintf(why, RUNS_WHY_BYTES,
                       "no run of that id or name is kept; the newest are %s", list);
    else
        (void)snprintf(why, RUNS_WHY_BYTES, "%s",
                       runs->database != NULL ? "no earlier run is kept"
                                              : runs->reason);
}

bool runs_resolve(struct runs *runs, const char *word, struct runs_name *found,
                  char why[RUNS_WHY_BYTES])
{
    struct search search = {.word = word};

    pthread_mutex_lock(&runs->lock);
    if (*word != '\0')
        search_all(runs, &search);
    if (search.count == 1)
        *found = search.hits[0].name;
    else
        explain(runs, &search, why);
    pthread_mutex_unlock(&runs->lock);
    return search.count == 1;
}

/* ---- a row as a document ---------------------------------------------------------------- */

struct reading {
    const struct runs_name *name;
    cJSON *document;
    int version;         /* of the document; 0 none */
    double step_ms;      /* of the row */
    long long row_steps; /* likewise */
    char state[16];
};

static cJSON *parse_column(sqlite3_stmt *row, int column)
{
    const char *text = (const char *)sqlite3_column_text(row, column);
    cJSON *document = text != NULL ? cJSON_Parse(text) : NULL;

    if (cJSON_IsObject(document))
        return document;
    cJSON_Delete(document);
    return NULL;
}

static sqlite3_stmt *select_run(sqlite3 *database, const char *sql, const char *session)
{
    sqlite3_stmt *row = NULL;

    if (sqlite3_prepare_v2(database, sql, -1, &row, NULL) != SQLITE_OK)
        return NULL;
    runs_bind_text(row, 1, session);
    if (sqlite3_step(row) == SQLITE_ROW)
        return row;
    sqlite3_finalize(row);
    return NULL;
}

static void lack(cJSON *document, const char *sentence)
{
    cJSON *list = cJSON_GetObjectItem(document, "lacks");

    if (list == NULL)
        list = cJSON_AddArrayToObject(document, "lacks");
    cJSON_AddItemToArray(list, cJSON_CreateString(sentence));
}

/* How many more there were is not known: one, so that what is not listed is not called
 * gone. */
static double total_of(const cJSON *list)
{
    return cJSON_GetArraySize(list) + 1;
}

static void move(cJSON *to, const char *key, cJSON *from, const char *of)
{
    cJSON *item = cJSON_DetachItemFromObject(from, of);

    if (item != NULL)
        cJSON_AddItemToObject(to, key, item);
}

/* Of a row without a document: its summary is what /api/bottlenecks said at the end. */
static cJSON *from_summary(cJSON *summary, const struct reading *reading)
{
    cJSON *document = cJSON_CreateObject(), *train, *ops, *total, *ends;
    double mean = NUMBER(summary, "step_ms", "mean");
    double half = mean * NUMBER(summary, "step_ms", "error_pct") / 100;

    move(document, "rank", summary, "rank");
    move(document, "recorded_steps", summary, "recorded_steps");
    move(document, "lost_events", summary, "lost_events");
    train =
        cJSON_AddObjectToObject(cJSON_AddObjectToObject(document, "summary"), "train");
    json_number(train, "mean_ms", isfinite(mean) ? mean : reading->step_ms);
    if (isfinite(half)) {
        ends =
            cJSON_AddArrayToObject(cJSON_AddObjectToObject(train, "ci95_ms"), "step");
        cJSON_AddItemToArray(ends, cJSON_CreateNumber(mean - half));
        cJSON_AddItemToArray(ends, cJSON_CreateNumber(mean + half));
    }
    if (summary == NULL) {
        lack(document, "of this run its mean step alone was kept");
        return document;
    }
    move(document, "memory_peaks", summary, "memory_peaks");
    ops = cJSON_AddObjectToObject(document, "ops");
    move(ops, "cpu", summary, "top_cpu_ops");
    move(ops, "cuda", summary, "top_cuda_ops");
    total = cJSON_AddObjectToObject(ops, "total");
    json_number(total, "cpu", total_of(MEMBER(ops, "cpu")));
    json_number(total, "cuda", total_of(MEMBER(ops, "cuda")));
    lack(document, "an older trainglass kept this run: without the times of its phases "
                   "and of its devices");
    return document;
}

/* Some: without, nobody knows whether there were steps enough to look. */
static bool has_findings(const cJSON *summary)
{
    return cJSON_GetArraySize(MEMBER(summary, "findings")) > 0;
}

static bool read_host(void *user, sqlite3 *database, const char *host)
{
    struct reading *reading = user;
    const char *session = reading->name->session;
    cJSON *summary;
    sqlite3_stmt *row;

    if (strcmp(host, reading->name->host) != 0)
        return false;
    row = select_run(database, "SELECT version,document FROM documents WHERE session=?",
                     session);
    if (row != NULL) {
        reading->version = sqlite3_column_int(row, 0);
        if (reading->version == RUNS_DOCUMENT_VERSION)
            reading->document = parse_column(row, 1);
    }
    sqlite3_finalize(row);
    row = select_run(database,
                     "SELECT state,steps,step_ms,summary FROM runs WHERE "
                     "session=?",
                     session);
    if (row == NULL)
        return true;
    copy_column(row, 0, reading->state, sizeof(reading->state));
    reading->row_steps = sqlite3_column_int64(row, 1);
    reading->step_ms = sqlite3_column_type(row, 2) == SQLITE_NULL
                           ? (double)NAN
                           : sqlite3_column_double(row, 2);
    summary = parse_column(row, 3);
    if (reading->document == NULL)
        reading->document = from_summary(summary, reading);
    if (!cJSON_HasObjectItem(reading->document, "findings") && has_findings(summary))
        move(reading->document, "findings", summary, "findings");
    cJSON_Delete(summary);
    sqlite3_finalize(row);
    if (!cJSON_IsNumber(MEMBER(reading->document, "steps"))) {
        cJSON_DeleteItemFromObject(reading->document, "steps");
        json_number(reading->document, "steps", (double)reading->row_steps);
    }
    if (reading->version > RUNS_DOCUMENT_VERSION)
        lack(reading->document,
             "a newer trainglass kept more of it than this one reads");
    return true;
}

/* ---- what was asked for ----------------------------------------------------------------- */

/* The epoch's own numbers in the place of the run's; NULL when it was not kept. */
static cJSON *take_epoch(cJSON *document, int64_t number)
{
    cJSON *epoch, *train = NULL;
    double steps = (double)NAN;

    cJSON_ArrayForEach(epoch, MEMBER(document, "epochs"))
    {
        if (NUMBER(epoch, "epoch") != (double)number)
            continue;
        steps = NUMBER(epoch, "steps");
        train = cJSON_DetachItemFromObject(epoch, "train");
        break;
    }
    if (!cJSON_IsObject(train)) {
        cJSON_Delete(train);
        cJSON_Delete(document);
        return NULL;
    }
    for (size_t i = 0; i < 8; i++) {
        static const char *const whole[8] = {"summary",        "ops",
                                             "memory_peaks",   "gpu",
                                             "findings",       "findings_reason",
                                             "recorded_steps", "steps"};

        cJSON_DeleteItemFromObject(document, whole[i]);
    }
    json_number(document, "steps", steps);
    if (!cJSON_IsObject(MEMBER(train, "ci95_ms")))
        lack(document, "of this epoch its mean step alone was kept");
    else
        lack(document,
             "of an epoch of an earlier run its steps and phases are kept: no "
             "ops, memory or devices");
    cJSON_AddItemToObject(cJSON_AddObjectToObject(document, "summary"), "train", train);
    return document;
}

static cJSON *take_window(cJSON *document, const struct window *window,
                          char why[RUNS_WHY_BYTES])
{
    if (window->kind == WINDOW_EPOCH) {
        document = take_epoch(document, window->a);
        if (document == NULL)
            (void)snprintf(why, RUNS_WHY_BYTES,
                           "epoch %lld of this run is not kept, or there was none",
                           (long long)window->a);
    } else if (window->kind != WINDOW_RUN && window->kind != WINDOW_DEFAULT) {
        (void)snprintf(why, RUNS_WHY_BYTES,
                       "of an earlier run all of it and its epochs are kept, no other "
                       "stretch");
        cJSON_Delete(document);
        document = NULL;
    }
    return document;
}

/* The session first: by that commands tell it from a trace. */
static cJSON *introduce(cJSON *document, const struct reading *reading)
{
    cJSON *whole = cJSON_CreateObject(), *item;

    cJSON_AddStringToObject(whole, "session", reading->name->session);
    cJSON_AddStringToObject(whole, "name", reading->name->name);
    cJSON_AddStringToObject(whole, "host", reading->name->host);
    cJSON_AddStringToObject(whole, "state", reading->state);
    cJSON_AddStringToObject(whole, "from", "run store");
    while ((item = cJSON_DetachItemFromArray(document, 0)) != NULL) {
        if (cJSON_HasObjectItem(whole, item->string))
            cJSON_Delete(item);
        else
            cJSON_AddItemToObject(whole, item->string, item);
    }
    cJSON_Delete(document);
    return whole;
}

cJSON *runs_document(struct runs *runs, const struct runs_name *name,
                     const struct window *window, char why[RUNS_WHY_BYTES])
{
    struct reading reading = {.name = name};

    pthread_mutex_lock(&runs->lock);
    if (runs->database != NULL)
        (void)read_host(&reading, runs->database, runs->host);
    if (reading.document == NULL)
        (void)runs_each_other(runs, read_host, &reading);
    pthread_mutex_unlock(&runs->lock);
    if (reading.document != NULL)
        reading.document = take_window(reading.document, window, why);
    else
        (void)snprintf(why, RUNS_WHY_BYTES, "nothing is kept of this run");
    return reading.document == NULL ? NULL : introduce(reading.document, &reading);
}
