#include "command/gate.h"

#include <cjson/cJSON.h>
#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "command/child.h"
#include "command/client.h"
#include "wire/clock.h"

#define ANSWER_MS        30000 /* a loaded machine; an idle one needs 20 */
#define ANSWER_BYTES_MAX (64u << 20)
/* The server looks once a second whether a process has gone, and reads what it left. */
#define END_MS    15000
#define APPEAR_MS 3000 /* a job that recorded is in the server's list by then */
#define LOOK_NS   100000000
#define LAST_MS   5000 /* for the report of somebody who asked us to end */

static volatile sig_atomic_t interrupted; /* the signal's number; 0 none */

static void note_interrupt(int number)
{
    interrupted = number;
}

bool gate_read(const struct invocation *invocation, enum fail_on_scale scale,
               struct fail_on expressions[COMMAND_REPEATS], int *count)
{
    const char *texts[COMMAND_REPEATS];
    struct fail_on_error error;

    *count = command_values(invocation, "--fail-on", texts);
    for (int i = 0; i < *count; i++) {
        const char *text = texts[i];

        if (fail_on_parse(text, scale, &expressions[i], &error) != 0) {
            command_complain("--fail-on '%.120s', at character %zu: %s", text,
                             error.at + 1, error.reason);
            return false;
        }
    }
    return true;
}

bool gate_open(struct gate *gate, const struct invocation *invocation)
{
    *gate = (struct gate){.count = 0};
    if (!gate_read(invocation, FAIL_ON_ONE_RUN, gate->expressions, &gate->count))
        return false;
    gate->path_count = command_values(invocation, "--report", gate->paths);
    for (int i = 0; i < gate->path_count; i++) {
        if (!report_format_of(gate->paths[i], &gate->formats[i])) {
            command_complain("--report '%.400s': the name ends in .html, .md or .json",
                             gate->paths[i]);
            return false;
        }
    }
    return true;
}

bool gate_is_asked(const struct gate *gate)
{
    return gate->count > 0 || gate->path_count > 0;
}

/* A document of the server; NULL with its refusal, or the reason why there is none. The
 * last one waits shortly, and nothing cuts it short. */
static cJSON *ask_once(const struct gate_run *run, const char *path, bool last,
                       char *why, size_t size)
{
    const struct client_question question = {.port = run->port,
                                             .path = path,
                                             .token = run->token,
                                             .patience_ms = last ? LAST_MS : ANSWER_MS,
                                             .bytes_max = ANSWER_BYTES_MAX,
                                             .stop = last ? NULL : &interrupted};
    struct client_answer answer;
    int error = client_ask(&question, &answer);
    cJSON *document;

    if (error != 0) {
        snprintf(why, size, "the server does not answer: %s", strerror(-error));
        return NULL;
    }
    document = cJSON_Parse(answer.body);
    if (document == NULL || answer.status != 200) {
        const char *refusal =
            cJSON_GetStringValue(cJSON_GetObjectItem(document, "error"));

        snprintf(why, size, "the server says %d: %s", answer.status,
                 refusal != NULL ? refusal : "no JSON");
        cJSON_Delete(document);
        document = NULL;
    }
    free(answer.head);
    return document;
}

/* Asked to end, we still ask for what is there. */
static cJSON *ask(const struct gate_run *run, const char *path, char *why, size_t size)
{
    bool last = interrupted != 0;
    cJSON *document = ask_once(run, path, last, why, size);

    return document != NULL || last || interrupted == 0
               ? document
               : ask_once(run, path, true, why, size);
}

/* The newest session of this run: after restarts it is <session>.<n>. */
static const cJSON *find_session(const cJSON *status, const char *session)
{
    const cJSON *one;
    size_t length = strlen(session);

    cJSON_ArrayForEach(one, cJSON_GetObjectItem(status, "sessions"))
    {
        const char *id = cJSON_GetStringValue(cJSON_GetObjectItem(one, "id"));

        if (id != NULL && strncmp(id, session, length) == 0 &&
            (id[length] == '\0' || id[length] == '.'))
            return one;
    }
    return NULL;
}

static bool is_running(const cJSON *session)
{
    const char *state = cJSON_GetStringValue(cJSON_GetObjectItem(session, "state"));

    return state != NULL && strcmp(state, "running") == 0;
}

/* Until the server knows that the session has ended, or we are asked to end. Its id, in
 * *id; false and why. */
static bool await_end(const struct gate_run *run, char id[64], char *why, size_t size)
{
    uint64_t start_ns = clock_ns(CLOCK_MONOTONIC), waited_ms = 0;
    const struct timespec pause = {.tv_nsec = LOOK_NS};

    *id = '\0';
    while (waited_ms < END_MS) {
        cJSON *status = ask(run, "/api/status", why, size);
        const cJSON *session = find_session(status, run->session);
        bool known = session != NULL, ended = known && !is_running(session);

        if (known)
            snprintf(id, 64, "%s",
                     cJSON_GetStringValue(cJSON_GetObjectItem(session, "id")));
        cJSON_Delete(status);
        if (interrupted != 0 && *id != '\0')
            return true;
        if (status == NULL)
            return false;
        waited_ms = (clock_ns(CLOCK_MONOTONIC) - start_ns) / 1000000;
        if (ended)
            return true;
        if (!known && waited_ms >= APPEAR_MS) {
            snprintf(why, size, "the command recorded nothing");
            return false;
        }
        nanosleep(&pause, NULL);
    }
    return true; /* what outlives the command is not waited for */
}

static cJSON *fetch_report(const struct gate_run *run, char *why, size_t size)
{
    char id[64], path[160];

    if (run->port == 0) {
        snprintf(why, size, "there is no server");
        return NULL;
    }
    if (!await_end(run, id, why, size))
        return NULL;
    snprintf(path, sizeof(path), "/api/report?session=%s&window=run", id);
    return ask(run, path, why, size);
}

/* One expression, said on stderr and kept in the report. True when it holds, or cannot
 * be known. */
static bool judge(const struct fail_on *expression, const cJSON *report,
                  const char *why, cJSON *verdicts)
{
    static const char *const words[] = {[FAIL_ON_NOT_FOUND] = "not found",
                                        [FAIL_ON_HOLDS] = "found",
                                        [FAIL_ON_NO_DATA] = "no data"};
    enum fail_on_verdict verdict = FAIL_ON_NO_DATA;
    char text[320];

    if (report == NULL)
        snprintf(text, sizeof(text), "%.300s", why);
    else
        verdict = fail_on_judge(expression, report, text, sizeof(text));
    command_complain("--fail-on '%s': %s, %s", expression->text, words[verdict], text);
    cJSON_AddItemToArray(verdicts, fail_on_json(expression, verdict, text));
    return verdict != FAIL_ON_NOT_FOUND;
}

static void keep(const struct gate *gate, const cJSON *report, const char *why)
{
    signal(SIGXFSZ, SIG_IGN); /* a file that may grow no more is an error, told so */
    for (int i = 0; i < gate->path_count; i++) {
        int error = -ENODATA;

        if (report != NULL)
            error = report_write_file(report, gate->formats[i], gate->paths[i]);
        if (error != 0)
            command_complain("no report in %s: %s", gate->paths[i],
                             report == NULL ? why : strerror(-error));
    }
}

int gate_close(const struct gate *gate, const struct gate_run *run)
{
    char why[256] = "";
    cJSON *report, *verdicts;
    bool found = false;

    if (!gate_is_asked(gate))
        return run->code;
    child_hear_signals(note_interrupt);
    report = fetch_report(run, why, sizeof(why));
    if (interrupted != 0)
        command_complain(
            "run: %s came after the command had ended; the report is of what "
            "was there",
            strsignal(interrupted));
    verdicts = cJSON_CreateArray();
    for (int i = 0; i < gate->count; i++)
        found = judge(&gate->expressions[i], report, why, verdicts) || found;
    if (report != NULL)
        cJSON_AddItemToObject(report, "fail_on", verdicts);
    else
        cJSON_Delete(verdicts);
    keep(gate, report, why);
    cJSON_Delete(report);
    if (run->code != EXIT_DONE)
        return run->code;
    return interrupted != 0 ? 128 + interrupted : found ? EXIT_FOUND : EXIT_DONE;
}
