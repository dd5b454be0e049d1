/* trainglass analyze: trace files to a report on the terminal, or to JSON. */
#include "command/files/analyze.h"

#include <cjson/cJSON.h>
#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "aggregate/store.h"
#include "command/command.h"
#include "command/gate.h"
#include "command/terminal.h"
#include "document/document.h"
#include "document/json.h"
#include "query/ranks_query.h"

#define HTML_TOP 50u /* what report_write_html() shows */

#define HISTORIES 64u /* at most; of larger folders the first files have none */

static bool is_interrupted(int code)
{
    return code > 128;
}

static int complain(const char *path, const struct file_result *result, int error)
{
    if (error == -ECANCELED)
        return analyze_interrupted(path);
    command_complain("%.300s: %s",
                     analyze_name(*result->name != '\0' ? result->name : path),
                     result->error[0] != '\0' ? result->error : strerror(-error));
    return EXIT_UNREADABLE;
}

/* What --fail-on came to, on stderr and in the list: a line for each expression that
 * holds, or that nothing is known about. */
static int judge(const cJSON *report, const char *path,
                 const struct analyze_options *options, cJSON *verdicts)
{
    int code = EXIT_DONE;

    for (int i = 0; i < options->expression_count; i++) {
        const struct fail_on *expression = &options->expressions[i];
        char text[320];
        enum fail_on_verdict verdict =
            fail_on_judge(expression, report, text, sizeof(text));

        if (verdict != FAIL_ON_NOT_FOUND)
            command_complain("--fail-on '%s': %.200s: %s", expression->text,
                             analyze_name(path), text);
        if (verdict == FAIL_ON_HOLDS)
            code = EXIT_FOUND;
        else if (verdict == FAIL_ON_NO_DATA && code == EXIT_DONE)
            code = EXIT_UNREADABLE;
        cJSON_AddItemToArray(verdicts, fail_on_json(expression, verdict, text));
    }
    return code;
}

/* The report with the verdicts, to be kept where --html says; the verdicts, NULL without,
 * and the exit code that all comes to. */
static cJSON *pass_gate(struct store *store, const struct analysis *analysis,
                        const struct analyze_options *options, int *code)
{
    const char *name = analyze_last_part(analyze_name(analysis->path));
    struct analysis_request more = options->request;
    struct analysis larger = {0};
    cJSON *report, *verdicts = cJSON_CreateArray();

    if (options->expression_count == 0 && options->keep->html == NULL)
        return verdicts;
    more.k = more.k < HTML_TOP ? HTML_TOP : more.k;
    more.critical_path = false;
    more.quick = true; /* it is replayed already */
    if (analysis_make(store, analysis->file, &more, &larger) == 0)
        larger.path = analysis->path;
    larger.summary.replay = analysis->summary.replay;
    report = larger.path == NULL ? NULL : json_readable(analysis_report(&larger, name));
    *code = judge(report, analysis->path, options, verdicts);
    if (options->keep->html != NULL) {
        cJSON_AddItemToObject(report, "fail_on", cJSON_Duplicate(verdicts, true));
        analyze_keep_report(options->keep, report);
    }
    cJSON_Delete(report);
    analysis_free(&larger);
    return verdicts;
}

/* Nothing of the window is there: said, as tables of nothing would say nothing. */
static bool lacks_steps(struct store *store, const struct analysis *analysis,
                        const struct analysis_request *request)
{
    struct analysis_request whole = {.rank = request->rank, .k = 1, .quick = true};
    struct analysis all;
    char window[64], steps[80] = "it has none";

    if (request->window.kind != WINDOW_STEPS ||
        analysis->steps.train.count + analysis->steps.validation.count > 0)
        return false;
    if (analysis_make(store, analysis->file, &whole, &all) == 0 &&
        all.summary.head.steps > 0)
        (void)snprintf(steps, sizeof(steps), "its steps are %lld to %lld",
                       (long long)all.summary.head.window.first_step,
                       (long long)all.summary.head.window.last_step);
    analysis_free(&all);
    window_print(&request->window, window, sizeof(window));
    command_complain("%.300s: no step of %s is in it: %s", analyze_name(analysis->path),
                     window, steps);
    return true;
}

struct reading {
    const struct analyze_options *options;
    const struct analyze_files *files;
    cJSON *documents, *ranks; /* NULL: printed */
    struct store *store;      /* of one folder's ranks, or of one file */
    uint32_t rank_count;      /* in the store, side by side */
    uint32_t
        part_count; /* traces that there were; below: that could be read; of the rank */
    uint32_t read_count, wanted_count;
};

/* One file that was loaded: printed, or added to `documents`. */
static int show(struct reading *reading, const struct file_result *result)
{
    const struct analyze_options *options = reading->options;
    struct store *store = reading->store;
    struct analysis analysis;
    cJSON *verdicts = NULL, *document;
    int error = analysis_make(store, result, &options->request, &analysis);
    int code = error == 0 ? EXIT_DONE : EXIT_UNREADABLE;

    analysis.path = result->name;
    if (error == 0 && lacks_steps(store, &analysis, &options->request)) {
        analysis_free(&analysis);
        return EXIT_UNREADABLE;
    }
    if (error == 0)
        verdicts = pass_gate(store, &analysis, options, &code);
    if (error == 0 && reading->documents != NULL) {
        document = analysis_json(&analysis);
        if (options->expression_count > 0) {
            cJSON_AddItemToObject(document, "fail_on", verdicts);
            verdicts = NULL;
        }
        cJSON_AddItemToArray(reading->documents, document);
    } else if (error == 0) {
        analyze_report(&analysis, options, terminal_columns());
    } else {
        command_complain("%.300s: %s", analyze_name(result->name),
                         analysis.summary.head.reason != NULL &&
                                 *analysis.summary.head.reason != '\0'
                             ? analysis.summary.head.reason
                             : strerror(-error));
    }
    cJSON_Delete(verdicts);
    analysis_free(&analysis);
    return code;
}

/* Of several files' codes: what --fail-on found stands over what could not be read, and an
 * interrupt over both. */
static int worse(int code, int other)
{
    if (is_interrupted(other))
        return other;
    return other == EXIT_DONE || code == EXIT_FOUND ? code : other;
}

static bool is_wanted(const struct file_result *result,
                      const struct analyze_options *options)
{
    return options->request.rank == SELECT_ANY || result->rank == options->request.rank;
}

static struct store *new_store(uint32_t files)
{
    struct store_limits limits = {.history_bytes =
                                      ANALYZE_HISTORY_BYTES *
                                      (files < HISTORIES ? files : HISTORIES)};

    return store_new(&limits);
}

struct loaded {
    struct file_result result;
    bool wanted;
};

/* What the files of a folder, or of one file, turned out to be. */
struct loadeds {
    struct reading *reading;
    struct loaded *list;
    uint32_t count;
    const char *path; /* being read */
    int code;
};

static void take_part(void *user, const struct file_result *result, int error)
{
    struct loadeds *loadeds = user;
    struct reading *reading = loadeds->reading;
    struct loaded *list = realloc(loadeds->list, (loadeds->count + 1) * sizeof(*list));

    reading->part_count++;
    if (list == NULL)
        error = -ENOMEM;
    else
        loadeds->list = list;
    if (error != 0) {
        loadeds->code = worse(loadeds->code, complain(loadeds->path, result, error));
        return;
    }
    struct loaded *loaded = &list[loadeds->count++];

    *loaded = (struct loaded){*result, is_wanted(result, reading->options)};
    reading->rank_count += result->rank >= 0 && !result->is_apart;
    reading->read_count++;
    reading->wanted_count += loaded->wanted;
}

static bool share_session(const struct analyze_files *files, uint32_t a, uint32_t b)
{
    return b < files->count && *files->list[a].session != '\0' &&
           strcmp(files->list[a].session, files->list[b].session) == 0;
}

/* Takes `ranks`. */
static void add_folder(cJSON *folders, const char *file, cJSON *ranks)
{
    cJSON *folder = cJSON_CreateObject();
    const char *slash = strrchr(file, '/');
    char name[1024];

    (void)snprintf(name, sizeof(name), "%.*s", slash == NULL ? 0 : (int)(slash - file),
                   file);
    json_text(folder, "folder", name);
    cJSON_AddItemToObject(folder, "ranks", ranks);
    cJSON_AddItemToArray(folders, folder);
}

static bool is_last_of_session(const struct loadeds *loadeds, uint32_t at)
{
    for (uint32_t i = at + 1; i < loadeds->count; i++)
        if (strcmp(loadeds->list[i].result.session, loadeds->list[at].result.session) ==
            0)
            return false;
    return true;
}

/* After the last trace of a session: its ranks side by side. */
static void show_ranks(struct reading *reading, const struct file_result *last)
{
    struct selection whose = {.rank = SELECT_ANY};
    struct ranks_answer answer;

    (void)snprintf(whose.session, sizeof(whose.session), "%s", last->session);
    if (ranks_query(reading->store, &whose, &answer) == 0 && answer.row_count > 1) {
        if (reading->documents != NULL)
            add_folder(reading->ranks, last->name, ranks_json(&answer));
        else
            analyze_report_ranks(&answer);
        if (reading->options->keep->several != NULL)
            analyze_keep_ranks(reading->options->keep, ranks_json(&answer));
    }
    answer_free(&answer.head);
}

/* Of a folder's files, and of what one file holds, all are read before one is shown: what
 * holds a rank up is in another one's. */
static int analyze_folder(struct reading *reading, const struct analyze_file *files,
                          uint32_t count)
{
    struct loadeds loadeds = {.reading = reading, .code = EXIT_DONE};

    reading->store = new_store(count);
    reading->rank_count = 0;
    if (reading->store == NULL)
        return complain(files->path, &(struct file_result){0}, -ENOMEM);
    for (uint32_t i = 0; i < count && !is_interrupted(loadeds.code); i++) {
        loadeds.path = files[i].path;
        (void)analyze_files_load(reading->store, &files[i], reading->options, take_part,
                                 &loadeds);
    }
    int code = loadeds.code;

    for (uint32_t i = 0; i < loadeds.count && !is_interrupted(code); i++)
        if (loadeds.list[i].wanted)
            code = worse(code, show(reading, &loadeds.list[i].result));
    for (uint32_t i = 0;
         i < loadeds.count && reading->rank_count > 1 && !is_interrupted(code); i++)
        if (is_last_of_session(&loadeds, i))
            show_ranks(reading, &loadeds.list[i].result);
    store_free(reading->store);
    free(loadeds.list);
    return code;
}

static int analyze_all(struct reading *reading)
{
    const struct analyze_files *files = reading->files;
    int code = EXIT_DONE;

    for (uint32_t first = 0, end; first < files->count && !is_interrupted(code);
         first = end) {
        for (end = first + 1; share_session(files, end - 1, end);)
            end++;
        code = worse(code, analyze_folder(reading, &files->list[first], end - first));
    }
    return code;
}

/* A lone file stands for itself, several are a list; so are the ranks of several folders. */
static int print_documents(struct reading *reading)
{
    bool several = cJSON_GetArraySize(reading->ranks) > 1;
    cJSON *document, *folder = cJSON_GetArrayItem(reading->ranks, 0);
    cJSON *ranks = several ? cJSON_Duplicate(reading->ranks, true)
                           : cJSON_DetachItemFromObject(folder, "ranks");

    cJSON_Delete(reading->ranks);
    if (reading->files->count == 1 && reading->part_count <= 1) {
        document = cJSON_DetachItemFromArray(reading->documents, 0);
        cJSON_Delete(reading->documents);
    } else {
        document = cJSON_CreateObject();
        cJSON_AddItemToObject(document, "files", reading->documents);
        if (ranks != NULL)
            cJSON_AddItemToObject(document, several ? "folders" : "ranks", ranks);
    }
    return document == NULL ? EXIT_DONE : command_print_json(document);
}

int command_analyze(const struct invocation *invocation)
{
    struct analyze_options options;
    struct analyze_files files;
    struct analyze_keep keep;
    const char *what = "";
    int code, printed;

    if (!analyze_read_flags(invocation, &options) ||
        !analyze_read_keep(invocation, &keep))
        return EXIT_USAGE;
    options.keep = &keep;
    int error = analyze_files_find(&files, invocation->argv, invocation->argc, &what);

    if (error != 0) {
        analyze_complain_of_files(what, error);
        analyze_files_free(&files);
        return EXIT_UNREADABLE;
    }
    if (files.count != 1 && analyze_keep_wants_paths(&keep)) {
        command_complain(
            "--stacks and --flame are of one file, not of %u: the calls of "
            "several processes are no one program's; name one, such as "
            "%.200s",
            files.count, files.count > 0 ? files.list[0].path : "");
        analyze_files_free(&files);
        return EXIT_USAGE;
    }
    if (analyze_keep_wants_paths(
            &keep)) { /* before there is anything to leave behind */
        analyze_watch_signal(SIGTERM);
        analyze_watch_signal(SIGHUP);
    }
    if (keep.html != NULL) {
        keep.several = cJSON_CreateObject();
        cJSON_AddArrayToObject(keep.several, "reports");
        cJSON_AddArrayToObject(keep.several, "ranks");
    }
    keep.name = files.count > 0 ? analyze_name(files.list[0].path) : "";
    signal(SIGXFSZ, SIG_IGN); /* a file that may grow no more is an error, told so */
    struct reading reading = {
        .options = &options,
        .files = &files,
        .documents = invocation->json ? cJSON_CreateArray() : NULL,
        .ranks = invocation->json ? cJSON_CreateArray() : NULL,
    };

    code = analyze_all(&reading);
    if (code == EXIT_DONE && reading.read_count > 0 && reading.wanted_count == 0) {
        command_complain("%.300s: no trace of rank %d is in it", invocation->argv[0],
                         options.request.rank);
        code = EXIT_UNREADABLE;
    }
    analyze_keep_finish(&keep, !is_interrupted(code));
    printed = invocation->json ? print_documents(&reading) : command_end_output();
    analyze_files_free(&files);
    code = code != EXIT_DONE ? code : keep.code;
    return code != EXIT_DONE ? code : printed;
}
