#include "api/side.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "api/api.h"
#include "document/analysis.h"
#include "document/json.h"
#include "query/status_query.h"
#include "report/members.h"

bool side_read(struct api_call *call, const char *key, const char *text,
               struct selection *side)
{
    const char *at = strrchr(text, '@'), *reason;
    size_t length = at != NULL ? (size_t)(at - text) : strlen(text);

    *side = call->selection;
    if (length >= sizeof(side->session)) {
        query_refuse(&call->query, key, "no session has a name that long");
        return false;
    }
    if (length > 0) {
        memset(side->session, 0, sizeof(side->session));
        memcpy(side->session, text, length);
    }
    if (at != NULL && window_parse(at + 1, &side->window, &reason) != 0) {
        query_refuse(&call->query, key, "%s", reason);
        return false;
    }
    return true;
}

/* Names steps, so that none found is not the same as all there are. */
static bool names_steps(const struct selection *side)
{
    return side->window.kind == WINDOW_STEPS || side->window.kind == WINDOW_EPOCH;
}

/* What the tables say; NULL and *error. *whole: nobody kept more of it. */
static cJSON *in_memory(struct api_call *call, const struct selection *side,
                        bool *whole, int *error)
{
    static const struct analysis_request all = {
        .k = OPS_K_MAX, .sort = OPS_BY_SELF, .points = 2};
    struct analysis analysis;
    cJSON *document = NULL;

    *error = analysis_ask(call->api->store, side, &all, &analysis);
    if (*error == 0) {
        document = json_readable(analysis_json(&analysis));
        *error = document == NULL ? -ENOMEM : 0;
        *whole = analysis.summary.head.live || analysis.summary.head.from_file;
    }
    analysis_free(&analysis);
    return document;
}

/* NULL and a sentence; also where another rank or process than the one kept is meant. */
static cJSON *in_store(struct api_call *call, const struct selection *side,
                       const struct runs_name *name, char why[RUNS_WHY_BYTES])
{
    cJSON *document = runs_document(call->api->runs, name, &side->window, why);
    double rank = NUMBER(document, "rank");

    if (document == NULL ||
        (side->pid == 0 && (side->rank == SELECT_ANY || (double)side->rank == rank)))
        return document;
    if (isnan(rank))
        (void)snprintf(why, RUNS_WHY_BYTES, "of this earlier run no ranks are kept");
    else
        (void)snprintf(why, RUNS_WHY_BYTES,
                       "of this earlier run rank %.0f alone is kept", rank);
    cJSON_Delete(document);
    return NULL;
}

/* Is there a session of that id? Its name, then. */
static bool is_in_memory(struct store *store, const char *session,
                         struct runs_name *found)
{
    const struct status_session *one = NULL;
    struct status_answer status;

    if (status_query(store, &(struct selection){.rank = SELECT_ANY}, &status) == 0)
        one = status_session_find(&status, session);
    if (one != NULL) {
        (void)snprintf(found->name, sizeof(found->name), "%s",
                       one->name != NULL ? one->name : "");
        (void)snprintf(found->session, sizeof(found->session), "%s", session);
    }
    answer_free(&status.head);
    return one != NULL;
}

/* Of what memory and the store have, what has more steps: after a restart of the server
 * the rings hold less than was written down. Takes both. */
static cJSON *richer(cJSON *memory, cJSON *kept, const char *name)
{
    cJSON *taken = memory, *other = kept;

    if (kept != NULL && !(NUMBER(memory, "steps") >= NUMBER(kept, "steps"))) {
        taken = kept;
        other = memory;
    }
    cJSON_Delete(other);
    if (taken != NULL && *name != '\0' && !cJSON_HasObjectItem(taken, "name"))
        cJSON_AddStringToObject(taken, "name", name);
    return taken;
}

static cJSON *refuse(cJSON *document, struct side_refusal *refusal, const char *why)
{
    cJSON_Delete(document);
    refusal->status = 404;
    if (refusal->text[0] == '\0')
        (void)snprintf(refusal->text, sizeof(refusal->text), "%s", why);
    return NULL;
}

cJSON *side_document(struct api_call *call, const struct selection *side,
                     struct side_refusal *refusal)
{
    struct selection whose = *side;
    struct runs_name found = {.session = ""};
    cJSON *memory, *kept = NULL, *document;
    bool whole = false;
    int error = 0;

    *refusal = (struct side_refusal){.text = ""};
    if (*side->session != '\0' &&
        !is_in_memory(call->api->store, side->session, &found)) {
        if (!runs_resolve(call->api->runs, side->session, &found, refusal->text))
            return refuse(NULL, refusal, "");
        memcpy(whose.session, found.session, sizeof(whose.session));
    }
    memory = in_memory(call, &whose, &whole, &error);
    if (memory == NULL && error != -ENOENT)
        return NULL;
    if (!whole && *found.session != '\0')
        kept = in_store(call, &whose, &found, refusal->text);
    document = richer(memory, kept, found.name);
    if (document == NULL)
        return refuse(NULL, refusal, "no such session or rank is in memory");
    if (names_steps(side) && !(NUMBER(document, "steps") > 0))
        return refuse(document, refusal,
                      "no step of this stretch is remembered, or there was none");
    return document;
}
