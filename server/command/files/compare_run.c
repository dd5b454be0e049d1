/* A run by its id or name, for `trainglass compare`: of the server that has it in memory,
 * else what the run store on disk kept. */
#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "command/client.h"
#include "command/files/compare.h"
#include "command/places.h"
#include "report/members.h"
#include "runs/runs.h"

#define PATIENCE_MS  10000
#define ANSWER_BYTES ((size_t)16 << 20) /* 2,000 ops take 2 MB */

/* As a server takes it in an address. */
static bool is_plain(const char *word)
{
    if (!isalnum((unsigned char)*word))
        return false;
    for (; *word != '\0'; word++)
        if (!isalnum((unsigned char)*word) && strchr("._-", *word) == NULL)
            return false;
    return true;
}

static void copy_text(char why[RUNS_WHY_BYTES], const cJSON *answer, const char *key)
{
    const char *text = TEXT(answer, key);

    if (*text != '\0')
        (void)snprintf(why, RUNS_WHY_BYTES, "%s", text);
}

/* NULL without a server of ours, or without the run; `why` when it says so. */
static cJSON *ask_server(const struct options *options, const char *word,
                         const struct analysis_request *request,
                         char why[RUNS_WHY_BYTES])
{
    char directory[PLACE_BYTES], path[512], window[80] = "run", rank[24] = "";
    struct client_question question = {
        .port = (uint16_t)options_number(options, OPTION_PORT),
        .path = path,
        .token = options_text(options, OPTION_TOKEN),
        .patience_ms = PATIENCE_MS,
        .bytes_max = ANSWER_BYTES};
    struct client_answer answer;
    cJSON *document = NULL;

    if (!is_plain(word) || !place_directory(options, directory) ||
        holder_ask(question.port, directory, HOLDER_PATIENCE_MS) != HOLDER_OURS)
        return NULL;
    if (request->window.kind != WINDOW_DEFAULT) /* else all of it, also where it runs */
        window_print(&request->window, window, sizeof(window));
    if (request->rank != SELECT_ANY)
        (void)snprintf(rank, sizeof(rank), "&rank=%d", request->rank);
    (void)snprintf(path, sizeof(path), "/api/runs/%.200s?window=%s%s", word, window,
                   rank);
    if (client_ask(&question, &answer) != 0)
        return NULL;
    document = cJSON_Parse(answer.body);
    if (answer.status != 200) {
        copy_text(why, document, "error");
        cJSON_Delete(document);
        document = NULL;
    }
    free(answer.head);
    return document;
}

/* *known: there is a run of that name, whatever is kept of it. */
static cJSON *ask_store(const struct options *options, const char *word,
                        const struct analysis_request *request, bool *known,
                        char why[RUNS_WHY_BYTES])
{
    char state[PLACE_BYTES];
    struct runs *runs = NULL;
    struct runs_name name;
    cJSON *document = NULL;

    if (!place_state(options, state) || (runs = runs_open_to_read(state)) == NULL) {
        (void)snprintf(why, RUNS_WHY_BYTES, "there is no state folder with runs");
        return NULL;
    }
    *known = runs_resolve(runs, word, &name, why);
    if (*known)
        document = runs_document(runs, &name, &request->window, why);
    runs_close(runs);
    if (document == NULL || request->rank == SELECT_ANY ||
        NUMBER(document, "rank") == request->rank)
        return document;
    (void)snprintf(why, RUNS_WHY_BYTES, "rank %d of this earlier run is not kept",
                   request->rank);
    cJSON_Delete(document);
    return NULL;
}

cJSON *compare_read_run(const struct options *options, const char *word,
                        const struct analysis_request *request,
                        char why[RUNS_WHY_BYTES])
{
    char told[RUNS_WHY_BYTES] = "";
    cJSON *document = ask_server(options, word, request, told);
    bool known = false;

    if (document == NULL)
        document = ask_store(options, word, request, &known, why);
    if (document == NULL && *told != '\0') /* it knows more: what is in memory too */
        memcpy(why, told, sizeof(told));
    if (document == NULL && !known) {
        (void)snprintf(
            told, sizeof(told), "%s, and %.480s",
            access(word, F_OK) == 0 ? "the file is no trace" : "no such file", why);
        memcpy(why, told, sizeof(told));
    }
    return document;
}
