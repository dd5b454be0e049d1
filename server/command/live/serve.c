/* trainglass serve: the server in the foreground, or beside a run (--ready-fd). */
#include "serve.h"

#include <errno.h>
#include <fcntl.h>
#include <malloc.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/prctl.h>
#include <time.h>
#include <unistd.h>

#include "command/child.h"
#include "command/client.h"
#include "command/command.h"
#include "command/files/analyze.h"
#include "command/live/launch.h"
#include "command/places.h"
#include "wire/clock.h"

enum flag { FLAG_CHECK, FLAG_READY };

/* Is any `trainglass run` alive that wants this server? Where there was one, `*lock` keeps
 * the next from joining until it is closed. */
static bool runs_are_alive(const char *directory, uint16_t port, int *lock)
{
    char path[PLACE_BYTES];

    launch_lock_path(path, directory, port);
    *lock = open(path, O_RDONLY | O_CLOEXEC | O_NOFOLLOW);
    if (*lock < 0)
        return false;
    if (flock(*lock, LOCK_EX | LOCK_NB) == 0)
        return false;
    bool alive = errno == EWOULDBLOCK;

    close(*lock);
    *lock = -1;
    return alive;
}

/* Until a signal, or until nobody needed us for `linger_ms`: then the lock on the runs stays
 * with us to the end of the process, for one that joined now would lose its page. */
static void wait_for_end(const struct serve *serve, const char *directory,
                         int64_t linger_ms)
{
    /* A run that ends with its server (linger 0) is followed within a fifth of a
     * second; otherwise once a second is soon enough and costs nothing. */
    struct timespec tick = linger_ms == 0 ? (struct timespec){.tv_nsec = 200000000}
                                          : (struct timespec){.tv_sec = 1};
    uint64_t busy_ns = clock_ns(CLOCK_MONOTONIC);
    sigset_t mask;

    child_end_signals(&mask);
    if (linger_ms == OPTION_FOREVER) {
        while (sigwaitinfo(&mask, NULL) < 0)
            ;
        return;
    }
    while (sigtimedwait(&mask, NULL, &tick) < 0) {
        uint64_t now_ns = clock_ns(CLOCK_MONOTONIC);
        int64_t idle_ms = serve_idle_ms(serve);
        int lock;

        if (runs_are_alive(directory, serve_port(serve), &lock) ||
            (linger_ms > 0 && idle_ms == 0))
            busy_ns = now_ns;
        else if ((int64_t)(now_ns - busy_ns) / 1000000 >= linger_ms &&
                 (linger_ms == 0 || idle_ms >= linger_ms))
            return;
        if (lock >= 0)
            close(lock);
    }
}

/* They are blocked, for wait_for_end(): they wait. */
static bool is_unwanted(void)
{
    sigset_t pending, mask;

    child_end_signals(&mask);
    return sigpending(&pending) == 0 && sigandset(&pending, &pending, &mask) == 0 &&
           !sigisemptyset(&pending);
}

static void complain_unread(const char *name, const char *reason)
{
    command_complain("%.300s: %s", name, reason);
}

static void fill_options(struct serve_options *serve, const struct options *options,
                         const char *state, const char *windows)
{
    *serve = (struct serve_options){
        .bind = launch_address(options),
        .port = (uint16_t)options_number(options, OPTION_PORT),
        .stream_clients = (uint16_t)options_number(options, OPTION_STREAM_CLIENTS),
        .share = (enum serve_share)options_number(options, OPTION_SHARE),
        .state_dir = state,
        .window_dir = windows,
        .token = options_text(options, OPTION_TOKEN),
        .base_path = options_text(options, OPTION_BASE_PATH),
        .allow_hosts = options_text(options, OPTION_ALLOW_HOST),
        .allow_frame = options_text(options, OPTION_ALLOW_FRAME),
        .history_bytes = (uint64_t)options_number(options, OPTION_HISTORY),
        .upload_bytes_max = (uint64_t)options_number(options, OPTION_UPLOAD_MAX),
        .runs_max = (uint32_t)options_number(options, OPTION_RUNS),
        .on_unread = complain_unread,
        .is_unwanted = is_unwanted,
    };
}

static void tell_ready(const char *flag, const char *text)
{
    int fd = flag ? (int)strtol(flag, NULL, 10) : -1;

    if (fd < 3 || fcntl(fd, F_GETFD) < 0)
        return;
    if (write(fd, text, strlen(text)) < 0)
        command_complain("the run that started this server is gone");
    close(fd);
}

/* In the log of a run's server the token has no place: the run itself has said it. */
static void print_start(const struct serve_options *options, uint16_t port, bool logged)
{
    bool token = *options->token != '\0' && !logged;

    printf("trainglass: http://localhost:%u%s/%s%s\n", port, options->base_path,
           token ? "?token=" : "", token ? options->token : "");
    if (!serve_is_loopback(options->bind))
        printf(
            "trainglass: listens on %s: other machines reach it by this one's name\n",
            options->bind);
    fflush(stdout);
}

static int serve_until_end(const struct invocation *invocation,
                           struct serve_options *options, const char *directory)
{
    const struct option_value *linger = &invocation->options.values[OPTION_LINGER];
    char reason[SERVE_REASON_BYTES] = "", line[SERVE_REASON_BYTES + 16];
    struct serve *serve = NULL;
    int error;

    /* Each of some fifty threads would keep an arena of its own: 24 MiB more (bench). */
    (void)mallopt(M_ARENA_MAX, 2);
    error = serve_start(&serve, options, reason);

    if (error == -ECANCELED)
        return EXIT_DONE; /* as later */
    if (error != 0) {
        if (error != -ENODATA) /* else each file was complained of */
            command_complain("cannot serve at %s:%u: %s", options->bind, options->port,
                             reason);
        snprintf(line, sizeof(line), "%s%s\n", error == -EADDRINUSE ? "taken: " : "",
                 reason);
        tell_ready(invocation->flags[FLAG_READY], line);
        return error == -ENODATA ? EXIT_UNREADABLE : EXIT_CANNOT_START;
    }
    print_start(options, serve_port(serve), invocation->flags[FLAG_READY] != NULL);
    tell_ready(invocation->flags[FLAG_READY], "ready\n");
    wait_for_end(serve, directory,
                 linger->origin == OPTION_FROM_FLAG ? linger->number : OPTION_FOREVER);
    serve_stop(serve);
    return EXIT_DONE;
}

/* The files of the command line, if there are any, and then the server. */
static int serve_files(const struct invocation *invocation,
                       struct serve_options *options, const char *directory)
{
    struct analyze_files files;
    const char *what = "";
    int error = analyze_files_find(&files, invocation->argv, invocation->argc, &what);
    struct serve_file *list = calloc(files.count + 1, sizeof(*list));
    int code = EXIT_UNREADABLE;

    for (uint32_t i = 0; list != NULL && i < files.count; i++)
        list[i] = (struct serve_file){files.list[i].path, files.list[i].session,
                                      files.list[i].rank};
    options->files = list;
    options->file_count = files.count;
    if (error != 0)
        analyze_complain_of_files(what, error);
    else
        code = list == NULL ? EXIT_CANNOT_START
                            : serve_until_end(invocation, options, directory);
    free(list);
    analyze_files_free(&files);
    return code;
}

int command_serve(const struct invocation *invocation)
{
    const struct options *options = &invocation->options;
    char directory[PLACE_BYTES], state[PLACE_BYTES], windows[PLACE_BYTES + 8] = "";
    char token[OPTION_TEXT_BYTES];
    struct serve_options serve;
    struct findings_settings findings;
    sigset_t mask;

    prctl(PR_SET_NAME, "trainglass"); /* `run` executes /proc/self/exe: "exe" in top */
    options_findings(options, &findings);
    findings_configure(&findings);
    if (!place_directory(options, directory) || !place_state(options, state))
        state[0] = '\0';
    if (invocation->flags[FLAG_CHECK] != NULL) {
        uint16_t port = (uint16_t)options_number(options, OPTION_PORT);

        if (holder_ask(port, directory, HOLDER_PATIENCE_MS) == HOLDER_OURS)
            return EXIT_DONE;
        command_complain("no server of yours answers on port %u", port);
        return EXIT_CANNOT_START;
    }
    if (*options_text(options, OPTION_WINDOW_DIR) != '\0')
        (void)place_absolute(options_text(options, OPTION_WINDOW_DIR), windows);
    else if (state[0] != '\0')
        snprintf(windows, sizeof(windows), "%s/windows", state);
    fill_options(&serve, options, state, windows);
    if (invocation->flags[FLAG_READY] ==
        NULL) /* else the run that started us says it */
        place_warn_of_state(options);
    if (*options_text(options, OPTION_DIR) != '\0')
        serve.directory = directory;
    if (!serve_is_loopback(serve.bind) && *serve.token == '\0') {
        if (!launch_make_token(token, sizeof(token))) {
            command_complain(
                "no randomness for a token; set one with TRAINGLASS_TOKEN");
            return EXIT_CANNOT_START;
        }
        serve.token = token;
    }
    /* Before any thread starts, so that all inherit it and only we take them. */
    child_end_signals(&mask);
    sigprocmask(SIG_BLOCK, &mask, NULL);
    /* The limit of a job's files is its server's too: a log or a store that may grow no
     * more is an error of that file, not the end of the page. */
    signal(SIGXFSZ, SIG_IGN);
    return serve_files(invocation, &serve, directory);
}
