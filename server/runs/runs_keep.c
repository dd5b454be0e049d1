/* What is written down of a run for comparisons: the numbers that report/compare.c reads,
 * its ops of the most self time, and a row for each of its newest epochs. */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "document/analysis.h"
#include "document/document.h"
#include "document/json.h"
#include "query/ranks_query.h"
#include "query/steps_query.h"
#include "report/compare.h"
#include "runs/inside.h"

#define KEEP_OPS    200u /* of CPU and of devices each; a run has 50 to 150 */
#define KEEP_EPOCHS 64u
#define KEEP_BYTES  131072u /* 200 runs in 25 MB; longer names leave fewer ops */

/* The statistics of an epoch whose steps are all remembered one by one; of older ones
 * their mean alone is known. */
static void add_epoch(cJSON *list, struct store *store, const struct selection *run,
                      const struct epoch_row *row)
{
    struct steps_request request = {.points = 2};
    struct selection whose = *run;
    struct steps_answer answer;
    cJSON *epoch = cJSON_CreateObject();
    bool whole;

    whose.window = (struct window){.kind = WINDOW_EPOCH, .a = row->epoch};
    whole = steps_query(store, &whose, &request, &answer) == 0 &&
            answer.train.count >= row->steps;
    json_count(epoch, "epoch", row->epoch);
    json_count(epoch, "steps", whole ? answer.train.count : row->steps);
    if (whole)
        cJSON_AddItemToObject(epoch, "train", steps_summary_json(&answer.train));
    else
        json_ms(cJSON_AddObjectToObject(epoch, "train"), "mean_ms", row->mean_ns);
    cJSON_AddItemToArray(list, epoch);
    answer_free(&answer.head);
}

static void add_epochs(cJSON *document, struct store *store,
                       const struct selection *whose, const struct steps_answer *steps)
{
    cJSON *list = cJSON_AddArrayToObject(document, "epochs");
    uint32_t first =
        steps->epoch_count > KEEP_EPOCHS ? steps->epoch_count - KEEP_EPOCHS : 0;

    for (uint32_t i = first; i < steps->epoch_count; i++)
        add_epoch(list, store, whose, &steps->epochs[i]);
}

/* A comparison of the run must not be taken for one of all of its ranks. */
static void say_what_ranks(cJSON *document, struct store *store,
                           const struct selection *whose, int32_t kept)
{
    struct ranks_answer ranks;
    char text[96];

    if (ranks_query(store, whose, &ranks) == 0 && ranks.row_count > 1) {
        (void)snprintf(text, sizeof(text),
                       "of its %" PRIu32 " ranks what rank %" PRId32
                       " did is kept, and nothing of the others",
                       ranks.row_count, kept);
        cJSON_AddItemToArray(cJSON_AddArrayToObject(document, "lacks"),
                             cJSON_CreateString(text));
    }
    answer_free(&ranks.head);
}

/* The ops of the least self time go, half of them at a time. */
static bool has_fewer_ops(cJSON *document)
{
    cJSON *ops = cJSON_GetObjectItem(document, "ops"), *list;
    bool fewer = false;

    cJSON_ArrayForEach(list, ops)
    {
        int count = cJSON_IsArray(list) ? cJSON_GetArraySize(list) : 0;

        for (int i = count; i-- > count / 2;) {
            cJSON_DeleteItemFromArray(list, i);
            fewer = true;
        }
    }
    return fewer;
}

/* The document as text that fits; NULL when none does. */
static char *text_of(cJSON *document)
{
    char *text = cJSON_PrintUnformatted(document);

    while (text != NULL && strlen(text) > KEEP_BYTES) {
        cJSON_free(text);
        text = has_fewer_ops(document) ? cJSON_PrintUnformatted(document) : NULL;
    }
    return text;
}

static char *describe(struct store *store, const char *session, bool ended,
                      double *steps)
{
    const struct analysis_request request = {
        .k = KEEP_OPS, .sort = OPS_BY_SELF, .points = 2, .quick = !ended};
    struct selection whose = {.rank = SELECT_ANY, .window = {.kind = WINDOW_RUN}};
    struct analysis analysis;
    cJSON *whole = NULL, *document = NULL;
    char *text = NULL;

    (void)snprintf(whose.session, sizeof(whose.session), "%s", session);
    if (analysis_ask(store, &whose, &request, &analysis) == 0)
        whole = json_readable(analysis_json(&analysis));
    if (whole != NULL) {
        document = compare_extract(whole);
        say_what_ranks(document, store, &whose, analysis.summary.head.rank);
        add_epochs(document, store, &whose, &analysis.steps);
        text = text_of(document);
        *steps = (double)analysis.summary.head.steps;
    }
    cJSON_Delete(whole);
    cJSON_Delete(document);
    analysis_free(&analysis);
    return text;
}

/* What a restarted server finds in the rings is less than the one before it saw. */
bool runs_keep(struct runs *runs, struct store *store, const char *session, bool ended)
{
    double steps = 0;
    char *text = describe(store, session, ended, &steps);
    sqlite3_stmt *statement;

    if (text == NULL)
        return true;
    statement = runs_prepare(
        runs,
        "INSERT INTO documents VALUES(?,?,?,?) ON CONFLICT(session) DO UPDATE SET "
        "version=excluded.version, steps=excluded.steps, "
        "document=excluded.document WHERE excluded.steps >= documents.steps");
    if (statement != NULL) {
        runs_bind_text(statement, 1, session);
        sqlite3_bind_int(statement, 2, RUNS_DOCUMENT_VERSION);
        sqlite3_bind_double(statement, 3, steps);
        runs_bind_text(statement, 4, text);
    }
    cJSON_free(text);
    return statement != NULL && runs_finish(runs, statement);
}
