/* trainglass window: asks a running job for a deep window, through its server.
 *
 * The rule: nothing is decided here; the server's answers are printed as they are. */
#include <cjson/cJSON.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "command/client.h"
#include "command/command.h"
#include "command/places.h"
#include "command/terminal.h"
#include "wire/clock.h"

#define PATIENCE_MS  10000
#define ANSWER_BYTES ((size_t)4 << 20)
#define POLL_NS      200000000
#define WRITING_S    300 /* for the trace, after the window's own time */

/* As in the table of commands. */
enum flag {
    FLAG_STEPS,
    FLAG_SHAPES,
    FLAG_STACKS,
    FLAG_MODULES,
    FLAG_MEMORY,
    FLAG_SESSION,
    FLAG_RANK,
    FLAG_SECONDS,
    FLAG_MAX,
    FLAG_NO_WAIT
};

struct asking {
    const struct invocation *invocation;
    uint16_t port;
    int64_t seconds;
    char id[16];
};

/* The body of the request; NULL when a flag is wrong. */
static cJSON *wish_of(struct asking *asking)
{
    static const struct {
        enum flag flag;
        const char *name;
    } switches[] = {{FLAG_SHAPES, "shapes"},
                    {FLAG_STACKS, "stacks"},
                    {FLAG_MODULES, "modules"},
                    {FLAG_MEMORY, "memory"}};
    const char *const *flags = asking->invocation->flags;
    int64_t steps = 10, rank = -1, max_mb = 512;
    bool all = flags[FLAG_RANK] != NULL && strcmp(flags[FLAG_RANK], "all") == 0;
    cJSON *wish;

    if (!command_number("--steps", flags[FLAG_STEPS], 0, 1000, &steps) ||
        !command_number("--seconds", flags[FLAG_SECONDS], 0, 3600, &asking->seconds) ||
        !command_number("--max-mb", flags[FLAG_MAX], 0, 65536, &max_mb) ||
        (!all && !command_number("--rank", flags[FLAG_RANK], 0, INT32_MAX, &rank)))
        return NULL;
    wish = cJSON_CreateObject();
    cJSON_AddNumberToObject(wish, "steps", (double)steps);
    cJSON_AddNumberToObject(wish, "max_seconds", (double)asking->seconds);
    cJSON_AddNumberToObject(wish, "max_bytes", (double)max_mb * 1048576);
    if (flags[FLAG_SESSION] != NULL)
        cJSON_AddStringToObject(wish, "session", flags[FLAG_SESSION]);
    if (all)
        cJSON_AddStringToObject(wish, "ranks", "all");
    else if (rank >= 0)
        cJSON_AddNumberToObject(wish, "rank", (double)rank);
    for (size_t i = 0; i < sizeof(switches) / sizeof(switches[0]); i++)
        if (flags[switches[i].flag] != NULL)
            cJSON_AddTrueToObject(wish, switches[i].name);
    return wish;
}

/* The server's document; NULL with a line when there is none. */
static cJSON *talk(const struct asking *asking, const char *body, int *status)
{
    struct client_question question = {
        .port = asking->port,
        .path = "/api/windows",
        .body = body,
        .token = options_text(&asking->invocation->options, OPTION_TOKEN),
        .patience_ms = PATIENCE_MS,
        .bytes_max = ANSWER_BYTES};
    struct client_answer answer;
    cJSON *document = NULL;
    int error = client_ask(&question, &answer);

    if (error == 0) {
        document = cJSON_Parse(answer.body);
        *status = answer.status;
        free(answer.head);
    }
    if (document == NULL)
        command_complain("the server at port %u gave no answer: %s",
                         (unsigned)asking->port,
                         error != 0 ? strerror(-error) : "not JSON");
    return document;
}

static const char *text_of(const cJSON *row, const char *key)
{
    const char *text = cJSON_GetStringValue(cJSON_GetObjectItemCaseSensitive(row, key));

    return text != NULL ? text : "";
}

/* For a terminal: cleans it where it is. */
static const char *clean_text(cJSON *row, const char *key)
{
    terminal_clean(cJSON_GetStringValue(cJSON_GetObjectItemCaseSensitive(row, key)));
    return text_of(row, key);
}

static double number_of(const cJSON *row, const char *key)
{
    const cJSON *item = cJSON_GetObjectItemCaseSensitive(row, key);

    return cJSON_IsNumber(item) ? item->valuedouble : 0;
}

/* Takes what is not of this window out; whether all of the rest has settled. */
static bool keep_ours(cJSON *document, const char *id)
{
    cJSON *rows = cJSON_GetObjectItemCaseSensitive(document, "windows");
    bool settled = cJSON_GetArraySize(rows) > 0;

    for (int i = cJSON_GetArraySize(rows); i-- > 0;) {
        const cJSON *row = cJSON_GetArrayItem(rows, i);

        if (strcmp(text_of(row, "id"), id) != 0)
            cJSON_DeleteItemFromArray(rows, i);
        else
            settled &= cJSON_IsTrue(cJSON_GetObjectItemCaseSensitive(row, "settled"));
    }
    return settled && cJSON_GetArraySize(rows) > 0;
}

static void print_row(cJSON *row)
{
    const char *reason = clean_text(row, "reason");

    if (cJSON_IsNumber(cJSON_GetObjectItemCaseSensitive(row, "rank")))
        printf("rank %.0f: ", number_of(row, "rank"));
    if (strcmp(text_of(row, "state"), "done") != 0) {
        printf("%s: %.299s\n", text_of(row, "state"), reason);
        return;
    }
    printf("%.0f of %.0f steps from step %.0f on, ended by %.79s, %.1f MB\n  %.1099s\n",
           number_of(row, "steps"), number_of(row, "asked_steps"),
           number_of(row, "first_step"), clean_text(row, "ended_by"),
           number_of(row, "bytes") / 1e6, clean_text(row, "path"));
    printf("  cost: %.0f ms to start, %.0f ms to stop, %.0f ms to write beside the "
           "training\n",
           number_of(row, "start_ms"), number_of(row, "stop_ms"),
           number_of(row, "export_ms"));
    if (*text_of(row, "trace") != '\0')
        printf("  on the page as session %s\n", text_of(row, "trace"));
    if (*reason != '\0')
        printf("  %.299s\n", reason);
}

/* Prints what became of it and frees it. */
static int tell(const struct asking *asking, cJSON *document)
{
    cJSON *rows = cJSON_GetObjectItemCaseSensitive(document, "windows"), *row;
    int code = EXIT_DONE;

    cJSON_ArrayForEach(row, rows)
    {
        if (strcmp(text_of(row, "state"), "done") != 0)
            code = EXIT_UNREADABLE;
    }
    if (asking->invocation->json) {
        int printed = command_print_json(document);

        return printed != EXIT_DONE ? printed : code;
    }
    cJSON_ArrayForEach(row, rows)
    {
        print_row(row);
    }
    cJSON_Delete(document);
    return command_end_output() != EXIT_DONE ? EXIT_CANNOT_START : code;
}

static int wait_for(const struct asking *asking)
{
    uint64_t end_ns = clock_ns(CLOCK_MONOTONIC) +
                      (uint64_t)(asking->seconds + WRITING_S) * 1000000000;
    struct timespec pause = {.tv_nsec = POLL_NS};

    for (;;) {
        int status = 0;
        cJSON *document = talk(asking, NULL, &status);

        if (document == NULL)
            return EXIT_CANNOT_START;
        if (keep_ours(document, asking->id) || clock_ns(CLOCK_MONOTONIC) > end_ns)
            return tell(asking, document);
        cJSON_Delete(document);
        nanosleep(&pause, NULL);
    }
}

static int ask(struct asking *asking, cJSON *wish)
{
    char *body = cJSON_PrintUnformatted(wish);
    int status = 0;
    cJSON *answer = body != NULL ? talk(asking, body, &status) : NULL;

    cJSON_free(body);
    if (answer == NULL)
        return EXIT_CANNOT_START;
    if (status != 202) {
        command_complain("no window: %.299s", clean_text(answer, "error"));
        cJSON_Delete(answer);
        return status == 400 ? EXIT_USAGE : EXIT_CANNOT_START;
    }
    snprintf(asking->id, sizeof(asking->id), "%s", text_of(answer, "id"));
    if (asking->invocation->flags[FLAG_NO_WAIT] == NULL) {
        cJSON_Delete(answer);
        return wait_for(asking);
    }
    if (asking->invocation->json)
        return command_print_json(answer);
    printf("%s\n", asking->id);
    cJSON_Delete(answer);
    return command_end_output();
}

int command_window(const struct invocation *invocation)
{
    struct asking asking = {.invocation = invocation, .seconds = 60};
    char directory[PLACE_BYTES];
    cJSON *wish = wish_of(&asking);
    int code;

    if (wish == NULL)
        return EXIT_USAGE;
    asking.port = (uint16_t)options_number(&invocation->options, OPTION_PORT);
    if (!place_directory(&invocation->options, directory) ||
        holder_ask(asking.port, directory, HOLDER_PATIENCE_MS) != HOLDER_OURS) {
        command_complain("no server of yours answers at port %u; `trainglass serve` "
                         "starts one, --port names another",
                         (unsigned)asking.port);
        cJSON_Delete(wish);
        return EXIT_CANNOT_START;
    }
    code = ask(&asking, wish);
    cJSON_Delete(wish);
    return code;
}
