/* trainglass compare: two or more traces, results of `analyze --json` or runs, side by side. */
#include "command/files/compare.h"

#include <cjson/cJSON.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "aggregate/store.h"
#include "command/command.h"
#include "command/files/analyze.h"
#include "command/gate.h"
#include "command/terminal.h"
#include "document/json.h"
#include "report/members.h"
#include "wire/text.h"

#define RESULT_BYTES_MAX ((size_t)64 << 20)
#define FIRST_BYTES      64u

enum flag { FLAG_TOP, FLAG_RANK, FLAG_STEPS, FLAG_FAIL_ON };

/* How a file begins; false for what is none, such as a pipe. */
static bool read_first(const char *path, char first[FIRST_BYTES + 1])
{
    struct stat status;
    FILE *file =
        stat(path, &status) == 0 && S_ISREG(status.st_mode) ? fopen(path, "re") : NULL;

    if (file == NULL)
        return false;
    first[fread(first, 1, FIRST_BYTES, file)] = '\0';
    fclose(file);
    return true;
}

/* A result of `analyze --json` names its session first, a trace never does. What can be
 * read only once, as a pipe, is a trace. */
static bool is_result(const char *path)
{
    char first[FIRST_BYTES + 1];
    const char *key;

    if (!read_first(path, first))
        return false;
    key = first + strspn(first, " \t\r\n{");
    return first[0] == '{' && strncmp(key, "\"session\"", 9) == 0;
}

/* Whoever wrote the result may have put anything into a name; as deep as the parser
 * allows: 1,000. */
static void clean(cJSON *document)
{
    cJSON *item;

    cJSON_ArrayForEach(item, document)
    {
        terminal_clean(item->string);
        terminal_clean(item->valuestring);
        clean(item);
    }
}

static cJSON *read_result(const char *path)
{
    FILE *file = fopen(path, "re");
    struct stat status;
    cJSON *document = NULL;
    char *text = NULL;
    size_t size;

    if (file == NULL || fstat(fileno(file), &status) != 0 || status.st_size < 0 ||
        (size_t)status.st_size > RESULT_BYTES_MAX)
        goto end;
    size = (size_t)status.st_size;
    text = malloc(size + 1);
    if (text == NULL || fread(text, 1, size, file) != size)
        goto end;
    document = cJSON_ParseWithLength(text, size);
    if (!cJSON_IsObject(MEMBER(document, "ops")) ||
        !cJSON_IsObject(MEMBER(document, "summary"))) {
        cJSON_Delete(document);
        document = NULL;
    }
    clean(document);
end:
    free(text);
    if (file != NULL)
        fclose(file);
    return document;
}

/* NULL after a line; with *interrupted the caller's to say, as that there is no such rank. */
static cJSON *read_trace(const struct analyze_file *file,
                         const struct analysis_request *request, int *interrupted)
{
    struct store_limits limits = {.history_bytes = ANALYZE_HISTORY_BYTES};
    struct store *store = store_new(&limits);
    struct analyze_first first = {.rank = request->rank};
    struct analysis analysis;
    cJSON *document = NULL;
    int error = store == NULL
                    ? -ENOMEM
                    : analyze_files_load(store, file, NULL, analyze_take_first, &first);

    if (error == 0 && first.found) {
        error = analysis_make(store, &first.chosen, request, &analysis);
        analysis.path = first.chosen.name;
        if (error == 0)
            document = json_readable(analysis_json(&analysis));
        analysis_free(&analysis);
    }
    if (error != 0 && error != -ECANCELED) /* else the caller says it */
        command_complain("%.300s: %s", file->path,
                         first.refused.error[0] != '\0' ? first.refused.error
                                                        : strerror(-error));
    *interrupted = error == -ECANCELED ? error : 0;
    store_free(store);
    return document;
}

/* Of a folder of ranks the rank that was asked for, else the first file. */
static cJSON *read_files(char *word, const struct analysis_request *request)
{
    struct analyze_files files;
    cJSON *document = NULL;
    const char *what;
    char window[80];
    int error = analyze_files_find(&files, &word, 1, &what);

    if (error != 0)
        analyze_complain_of_files(word, error);
    for (uint32_t i = 0; error == 0 && i < files.count && document == NULL; i++)
        document = read_trace(&files.list[i], request, &error);
    if (error == 0 && request->rank != SELECT_ANY && document == NULL)
        command_complain("%.300s: no trace of rank %d in it", word, request->rank);
    analyze_files_free(&files);
    if (document == NULL || request->window.kind == WINDOW_DEFAULT ||
        request->window.kind == WINDOW_RUN || NUMBER(document, "steps") > 0)
        return document;
    /* Nothing would be compared, and look like no change. */
    window_print(&request->window, window, sizeof(window));
    command_complain("%.300s: no step of %s is in it", word, window);
    cJSON_Delete(document);
    return NULL;
}

static cJSON *read_kept(const char *word, const struct analysis_request *request)
{
    cJSON *document = NULL;

    if (request->window.kind != WINDOW_DEFAULT)
        command_complain("%.300s: a result of `trainglass analyze --json` is compared "
                         "as it is, not a stretch of it",
                         word);
    else if ((document = read_result(word)) == NULL)
        command_complain("%.300s: no result of `trainglass analyze --json`", word);
    return document;
}

static bool is_there(const char *path)
{
    struct stat status;

    return strcmp(path, "-") == 0 || stat(path, &status) == 0;
}

/* Nobody gives a run such a name. */
static bool looks_like_a_file(const char *word)
{
    static const char *const ends[] = {".json", ".gz", ".tgz", ".tar", ".zip"};
    bool ends_so = false;

    for (size_t i = 0; i < sizeof(ends) / sizeof(ends[0]); i++)
        ends_so = ends_so || text_ends(word, ends[i]);
    return ends_so || strchr(word, '/') != NULL;
}

/* A run is called after its script, which lies beside whoever asks: no trace, by its first
 * byte that says something. A folder or a pipe may be all. */
static bool may_be_trace(const char *path)
{
    char first[FIRST_BYTES + 1], byte;

    if (!read_first(path, first))
        return is_there(path);
    byte = first[strspn(first, " \t\r\n\xef\xbb\xbf")];
    return byte != '\0' && strchr("{[\x1f", byte) != NULL;
}

static cJSON *read_run(const struct invocation *invocation, const char *word,
                       const struct analysis_request *request)
{
    char why[RUNS_WHY_BYTES] = "";
    cJSON *document = compare_read_run(&invocation->options, word, request, why);

    terminal_clean(why);
    if (document == NULL)
        command_complain("%.100s: %s", word, why);
    clean(document);
    return document;
}

/* "WORD@WINDOW" to its two parts, where nothing has the whole for its name; false when the
 * second is none, after a line. */
static bool split_window(char *word, struct analysis_request *request,
                         const char **window)
{
    char *at = strrchr(word, '@');
    const char *reason;

    *window = NULL;
    if (at == NULL || is_there(word))
        return true;
    if (request->window.kind != WINDOW_DEFAULT) {
        command_complain("%.300s: --steps and @ are two ways to say the same", word);
        return false;
    }
    if (window_parse(at + 1, &request->window, &reason) != 0) {
        command_complain("%.300s: %s", word, reason);
        return false;
    }
    *at = '\0';
    *window = at + 1;
    return true;
}

/* What it is called in the answer: as it says, else as it was called here. */
static void name_document(cJSON *document, const char *word, const char *window)
{
    const char *own = TEXT(document, "name");
    char name[300];

    (void)snprintf(name, sizeof(name), "%.200s%s%.60s",
                   *own != '\0' ? own : analyze_last_part(word),
                   window != NULL ? "@" : "", window != NULL ? window : "");
    terminal_clean(name);
    cJSON_DeleteItemFromObject(document, "name");
    cJSON_AddStringToObject(document, "name", name);
}

/* One word of the command line to the document that stands for it. */
static cJSON *read_one(const struct invocation *invocation, char *word,
                       const struct analysis_request *shared)
{
    struct analysis_request request = *shared;
    cJSON *document = NULL;
    const char *window;

    if (!split_window(word, &request, &window))
        return NULL;
    if (is_result(word))
        document = read_kept(word, &request);
    else if (may_be_trace(word) || looks_like_a_file(word))
        document = read_files(word, &request);
    else
        document = read_run(invocation, word, &request);
    if (document != NULL)
        name_document(document, word, window);
    return document;
}

/* What each expression came to, on stderr and in "failed". */
static int judge(cJSON *comparison, const struct fail_on *expressions, int count)
{
    cJSON *failed = cJSON_GetObjectItem(comparison, "failed");
    const cJSON *other;
    int code = EXIT_DONE;

    cJSON_ArrayForEach(other, MEMBER(comparison, "others"))
    {
        for (int i = 0; i < count; i++) {
            struct fail_on_measure measure;
            char text[200];

            if (compare_look_up(&expressions[i], other, &measure, text, sizeof(text)) !=
                0) {
                command_complain("--fail-on '%s': %.60s: %s", expressions[i].text,
                                 TEXT(other, "name"), text);
                code = code == EXIT_DONE ? EXIT_UNREADABLE : code;
                continue;
            }
            if (!fail_on_found(&expressions[i], &measure))
                continue;
            fail_on_describe(&expressions[i], &measure, text, sizeof(text));
            command_complain(
                "--fail-on '%s': %.60s: %s%s", expressions[i].text, TEXT(other, "name"),
                expressions[i].unit == FAIL_ON_PERCENT ? "changed by " : "", text);
            cJSON_AddItemToArray(failed, cJSON_CreateString(expressions[i].text));
            code = EXIT_FOUND;
        }
    }
    return code;
}

static bool read_request(const struct invocation *invocation,
                         struct compare_options *to)
{
    const char *top = invocation->flags[FLAG_TOP], *rank = invocation->flags[FLAG_RANK];
    const char *steps = invocation->flags[FLAG_STEPS];
    int64_t number;

    *to = (struct compare_options){
        .top = 10,
        .request = {.k = OPS_K_MAX, .rank = SELECT_ANY, .sort = OPS_BY_SELF}};
    if (top != NULL) {
        if (!analyze_read_number("--top", top, 1, OPS_K_MAX, &number))
            return false;
        to->top = (uint32_t)number;
    }
    if (rank != NULL) {
        if (!analyze_read_number("--rank", rank, 0, INT32_MAX, &number))
            return false;
        to->request.rank = (int32_t)number;
    }
    return steps == NULL || analyze_read_steps(steps, &to->request.window);
}

int command_compare(const struct invocation *invocation)
{
    struct fail_on expressions[COMMAND_REPEATS];
    struct compare_options options;
    cJSON *documents[1 + COMPARE_MAX] = {NULL}, *comparison;
    int count = invocation->argc, code = EXIT_DONE, expression_count;

    if (!gate_read(invocation, FAIL_ON_CHANGE, expressions, &expression_count) ||
        !read_request(invocation, &options))
        return EXIT_USAGE;
    if (count > 1 + (int)COMPARE_MAX) {
        command_complain("compare takes a base and at most %u others", COMPARE_MAX);
        return EXIT_USAGE;
    }
    for (int i = 0; i < count && code == EXIT_DONE; i++) {
        documents[i] = read_one(invocation, invocation->argv[i], &options.request);
        code = analyze_interrupted(invocation->argv[i]);
        if (code == EXIT_DONE && documents[i] == NULL)
            code = EXIT_UNREADABLE;
    }
    if (code == EXIT_DONE) {
        comparison = compare_documents(
            documents[0], (const cJSON *const *)&documents[1], (unsigned)count - 1);
        code = judge(comparison, expressions, expression_count);
        if (invocation->json) {
            int printed = command_print_json(comparison);

            code = printed != EXIT_DONE ? printed : code;
        } else {
            compare_report(comparison, &options);
            cJSON_Delete(comparison);
            int printed = command_end_output();

            code = printed != EXIT_DONE ? printed : code;
        }
    }
    for (int i = 0; i < count; i++)
        cJSON_Delete(documents[i]);
    return code;
}
