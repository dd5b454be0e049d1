/* trainglass cut: a piece of a trace file as a trace of its own. */
#include "cut/cut.h"

#include <ctype.h>
#include <errno.h>
#include <math.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/stat.h>

#include "aggregate/store.h"
#include "command/command.h"
#include "command/files/analyze.h"
#include "ingest/trace/scan/words.h"
#include "query/steps_query.h"
#include "query/window.h"

/* 100 years; beyond, ns are no int64. */
#define MS_MAX 3.2e12

enum flag { FLAG_STEPS, FLAG_FROM, FLAG_TO, FLAG_CAT, FLAG_MAX, FLAG_OUT };

static bool read_time(const char *flag, const char *text, int64_t *ns)
{
    char *end;
    double ms = strtod(text, &end);

    if (end == text || *end != '\0' || !(ms >= 0 && ms <= MS_MAX))
        return analyze_refuse(flag, text, "a time in ms, such as 1500 or 0.25");
    *ns = (int64_t)llround(ms * 1e6);
    return true;
}

static bool read_range(const struct invocation *invocation, struct cut_request *request)
{
    const char *steps = invocation->flags[FLAG_STEPS];
    const char *from = invocation->flags[FLAG_FROM], *to = invocation->flags[FLAG_TO];
    struct window window;

    if (steps != NULL && (from != NULL || to != NULL)) {
        command_complain("--steps and --from or --to are two ways to say the same");
        return false;
    }
    if (steps != NULL) {
        if (!analyze_read_steps(steps, &window))
            return false;
        request->range = CUT_STEPS;
        request->a = window.a;
        request->b = window.b;
        return true;
    }
    if (from == NULL && to == NULL)
        return true;
    request->range = CUT_TIME;
    request->a = INT64_MIN;
    request->b = INT64_MAX;
    if ((from != NULL && !read_time("--from", from, &request->a)) ||
        (to != NULL && !read_time("--to", to, &request->b)))
        return false;
    return request->a < request->b || analyze_refuse("--to", to, "later than --from");
}

/* Any era's word for a category, as in the files; TRACE_NO_CATEGORY for others. */
static uint32_t category_of(const char *text, size_t length)
{
    static struct words words;
    static bool filled;
    char word[2 * WORD_BYTES_MAX] = "";

    if (!filled)
        words_add_categories(&words);
    filled = true;
    if (length > WORD_BYTES_MAX)
        return TRACE_NO_CATEGORY;
    for (size_t i = 0; i < length; i++)
        word[i] = (char)tolower((unsigned char)text[i]);
    return words_find(&words, word, (uint32_t)length);
}

static bool read_categories(const char *text, uint32_t *categories)
{
    for (const char *at = text; at != NULL; at = strchr(at, ',')) {
        at += *at == ',';
        uint32_t category = category_of(at, strcspn(at, ","));

        if (category == TRACE_NO_CATEGORY)
            return analyze_refuse(
                "--cat", text,
                "a list of categories such as kernel,cuda_runtime,cpu_op,"
                "user_annotation,ac2g");
        *categories |= UINT32_C(1) << category;
    }
    return true;
}

static bool read_size(const char *text, uint64_t *bytes)
{
    static const struct {
        const char *name;
        double bytes;
    } units[] = {{"", 1},       {"b", 1},         {"k", 1e3},         {"kb", 1e3},
                 {"m", 1e6},    {"mb", 1e6},      {"g", 1e9},         {"gb", 1e9},
                 {"kib", 1024}, {"mib", 1048576}, {"gib", 1073741824}};
    char *end;
    double number = strtod(text, &end), size = 0;

    while (*end == ' ')
        end++;
    for (size_t i = 0; i < sizeof(units) / sizeof(units[0]); i++)
        if (strcasecmp(end, units[i].name) == 0)
            size = number * units[i].bytes;
    if (end == text || !(size >= 1 && size <= 1e18))
        return analyze_refuse("--max", text, "a size such as 50MB or 2GiB");
    *bytes = (uint64_t)size;
    return true;
}

static bool is_rereadable(const char *path)
{
    struct stat status;

    return strcmp(path, "-") != 0 &&
           (stat(path, &status) != 0 || S_ISREG(status.st_mode) ||
            S_ISDIR(status.st_mode)); /* what is wrong there is said later */
}

static bool read_request(const struct invocation *invocation,
                         struct cut_request *request)
{
    const char *categories = invocation->flags[FLAG_CAT];
    const char *size = invocation->flags[FLAG_MAX];

    *request = (struct cut_request){.path = invocation->argv[0]};
    if (invocation->flags[FLAG_OUT] == NULL || *invocation->flags[FLAG_OUT] == '\0') {
        command_complain("-o OUT is missing: the file to be written, or - for standard "
                         "output");
        return false;
    }
    if (!read_range(invocation, request) ||
        (categories != NULL && !read_categories(categories, &request->categories)) ||
        (size != NULL && !read_size(size, &request->max_bytes)))
        return false;
    if (request->range == CUT_WHOLE && categories == NULL && size == NULL) {
        command_complain("what shall stay? --steps, --from and --to, --cat or --max");
        return false;
    }
    if (!cut_is_one_pass(request) && !is_rereadable(request->path)) {
        command_complain(
            "%.200s: is read twice for %s, which only a file can be; --cat "
            "alone takes it as it comes",
            analyze_name(request->path),
            request->range == CUT_STEPS  ? "--steps"
            : request->range == CUT_TIME ? "--from and --to"
                                         : "--max");
        return false;
    }
    return true;
}

static int complain_output(const char *path, int error)
{
    command_complain("%.300s: cannot be written: %s",
                     strcmp(path, "-") == 0 ? "standard output" : path,
                     strerror(-error));
    return EXIT_CANNOT_START;
}

static void tell(const struct cut_request *request, const struct output_file *output,
                 const struct cut_result *result)
{
    const char *path = analyze_name(request->path);

    if (result->error[0] != '\0')
        command_complain("%.300s: %s", path, result->error);
    if (result->skipped > 0)
        command_complain("%.300s: %llu events skipped: they are no valid JSON, or have "
                         "no time",
                         path, (unsigned long long)result->skipped);
    if (result->keys_left_out > 0)
        command_complain(
            "%.300s: %llu keys beside the events left out: too long, or no "
            "valid JSON",
            path, (unsigned long long)result->keys_left_out);
    if (result->until_ns >= 0 && result->steps_kept > 0)
        command_complain("%llu steps fit, from step %llu on %llu are left out",
                         (unsigned long long)result->steps_kept,
                         (unsigned long long)result->first_left_out,
                         (unsigned long long)result->steps_left_out);
    else if (result->until_ns >= 0)
        command_complain("%swhat began %.3f ms after the first event or later is left "
                         "out",
                         result->steps_left_out > 0 ? "not one whole step fits: " : "",
                         (double)result->until_ns / 1e6);
    command_complain("%llu of %llu events, %.3f MB", (unsigned long long)result->kept,
                     (unsigned long long)result->events, (double)output->bytes / 1e6);
}

/* The time of steps that a trace does not number itself: by an optimizer's updates, or all of
 * it as one, as analyze counts them. */
static int ask_steps(struct store *store, const struct file_result *result,
                     struct window *steps, char *error, size_t size)
{
    struct selection trace = {.rank = SELECT_ANY};
    struct steps_answer answer;
    int64_t first, last;

    (void)snprintf(trace.session, sizeof(trace.session), "%s", result->session);
    int failed = steps_query(store, &trace, &(struct steps_request){0}, &answer);

    first = answer.head.window.first_step;
    last = answer.head.window.last_step;
    answer_free(&answer.head);
    trace.window = *steps;
    if (failed == 0)
        failed = steps_query(store, &trace, &(struct steps_request){0}, &answer);
    if (failed == 0 && answer.train.count == 0) {
        (void)snprintf(error, size, "has the steps %lld-%lld, not %lld-%lld",
                       (long long)first, (long long)last, (long long)steps->a,
                       (long long)steps->b);
        failed = -ENODATA;
    }
    steps->a = answer.head.window.from_ns;
    steps->b = answer.head.window.to_ns;
    answer_free(&answer.head);
    return failed;
}

/* From the numbers of steps, as analyze prints them, to ns since the first event, both in a
 * and b of the window. 0, or a negative errno; -ENODATA with a sentence in `error` when there
 * are no such steps. */
static int find_steps(const char *path, struct window *steps, char *error, size_t size)
{
    struct store *store = store_new(NULL);
    struct analyze_file file = {.path = (char *)(uintptr_t)path};
    struct analyze_first first = {.rank = SELECT_ANY};
    int failed = store == NULL ? -ENOMEM
                               : analyze_files_load(store, &file, NULL,
                                                    analyze_take_first, &first);

    if (failed == 0)
        failed = ask_steps(store, &first.chosen, steps, error, size);
    store_free(store);
    return failed;
}

/* By numbers that the file does not write, but analyze prints. */
static int cut_found_steps(struct cut_request *request, struct output_file *output,
                           struct cut_result *result)
{
    struct window steps = {.kind = WINDOW_STEPS, .a = request->a, .b = request->b};
    int error = find_steps(request->path, &steps, result->error, sizeof(result->error));

    if (error != 0)
        return error;
    request->range = CUT_TIME;
    request->a = steps.a;
    request->b = steps.b;
    return cut_write(request, output, result);
}

/* The exit code, and a line where it is not 0. */
static int cut(struct cut_request *request, const char *path,
               struct output_file *output)
{
    struct cut_result result;
    int error = cut_write(request, output, &result);

    if (error == -ESRCH)
        error = cut_found_steps(request, output, &result);
    int interrupted = analyze_interrupted(request->path);

    if (interrupted != 0)
        return interrupted;
    if (error != 0 && result.output_failed)
        return complain_output(path, error);
    if (error != 0) {
        command_complain("%.300s: %s", analyze_name(request->path),
                         result.error[0] != '\0' ? result.error : strerror(-error));
        return error == -ENOMEM ? EXIT_CANNOT_START : EXIT_UNREADABLE;
    }
    error = output_file_keep(output);
    if (error != 0)
        return complain_output(path, error);
    tell(request, output, &result);
    return EXIT_DONE;
}

int command_cut(const struct invocation *invocation)
{
    const char *path = invocation->flags[FLAG_OUT];
    struct analyze_watch watch = {.path = invocation->argv[0]};
    struct cut_request request;
    struct output_file output;
    int code, error;

    if (!read_request(invocation, &request))
        return EXIT_USAGE;
    request.on_start = analyze_watch_begin;
    request.on_end = analyze_watch_end;
    request.user = &watch;
    /* Before there is anything to leave behind. */
    analyze_watch_signal(SIGINT);
    analyze_watch_signal(SIGTERM);
    analyze_watch_signal(SIGHUP);
    signal(SIGPIPE, SIG_IGN); /* a reader that goes away is an error, told so */
    signal(SIGXFSZ, SIG_IGN); /* and so is a file that may grow no more */
    error = output_file_open(&output, path);
    code = error != 0 ? complain_output(path, error) : cut(&request, path, &output);
    output_file_close(&output);
    return code;
}
