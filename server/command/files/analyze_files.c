/* Which files there are, and reading one while somebody waits. */
#include <dirent.h>
#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "command/files/analyze.h"
#include "command/terminal.h"
#include "wire/clock.h"
#include "wire/text.h"

#define FILES_MAX   4096u
#define PATIENCE_MS 1000 /* then a line says how far it is */
#define TICK_MS     200

static int add_file(struct analyze_files *files, const char *path, const char *session)
{
    if (files->count == FILES_MAX)
        return -E2BIG;
    if (files->count == files->capacity) {
        uint32_t capacity = files->capacity == 0 ? 8 : files->capacity * 2;
        struct analyze_file *list = realloc(files->list, capacity * sizeof(*list));

        if (list == NULL)
            return -ENOMEM;
        files->list = list;
        files->capacity = capacity;
    }
    struct analyze_file *file = &files->list[files->count];

    *file = (struct analyze_file){.path = strdup(path)};
    if (file->path == NULL)
        return -ENOMEM;
    snprintf(file->session, sizeof(file->session), "%s", session);
    files->count++;
    return 0;
}

static int is_trace(const struct dirent *entry)
{
    return entry->d_name[0] != '.' &&
           (text_ends(entry->d_name, ".json") || text_ends(entry->d_name, ".json.gz"));
}

/* Folders and pipes in a folder are not its traces, whatever they are called: a pipe that
 * nobody fills would hold us for ever. */
static bool is_apart(const char *path)
{
    struct stat status;

    return stat(path, &status) == 0 && !S_ISREG(status.st_mode);
}

/* Of a folder's files, the newest of the list. */
static int rank_by_names(struct analyze_files *files, uint32_t first)
{
    uint32_t count = files->count - first;
    const char **names = calloc(count + 1, sizeof(*names));
    int32_t *ranks = calloc(count + 1, sizeof(*ranks));
    bool known = names != NULL && ranks != NULL;

    for (uint32_t i = 0; known && i < count; i++)
        names[i] = files->list[first + i].path;
    if (known)
        file_ranks_of_names(names, count, ranks);
    for (uint32_t i = 0; known && i < count; i++)
        files->list[first + i].rank = ranks[i] + 1;
    free(names);
    free(ranks);
    return known ? 0 : -ENOMEM;
}

static int add_folder(struct analyze_files *files, const char *folder, int number)
{
    struct dirent **entries;
    int count = scandir(folder, &entries, is_trace, versionsort);
    char path[4096], session[64];
    uint32_t before = files->count;
    int error = count < 0 ? -errno : 0;

    snprintf(session, sizeof(session), "t-folder-%d", number);
    for (int i = 0; i < count; i++) {
        snprintf(path, sizeof(path), "%s/%s", folder, entries[i]->d_name);
        if (error == 0 && !is_apart(path))
            error = add_file(files, path, session);
        free(entries[i]);
    }
    if (count >= 0)
        free(entries);
    if (error == 0 && files->count == before)
        return -ENODATA;
    return error == 0 ? rank_by_names(files, before) : error;
}

int analyze_files_find(struct analyze_files *files, char **words, int count,
                       const char **what)
{
    struct stat status = {0};
    int error = 0;

    *files = (struct analyze_files){0};
    for (int i = 0; i < count && error == 0; i++) {
        *what = words[i];
        if (strcmp(words[i], "-") != 0 && stat(words[i], &status) != 0)
            error = -errno;
        else if (strcmp(words[i], "-") != 0 && S_ISDIR(status.st_mode))
            error = add_folder(files, words[i], i);
        else
            error = add_file(files, words[i], "");
    }
    return error;
}

void analyze_files_free(struct analyze_files *files)
{
    for (uint32_t i = 0; i < files->count; i++)
        free(files->list[i].path);
    free(files->list);
}

void analyze_complain_of_files(const char *what, int error)
{
    command_complain("%.300s: %s", what,
                     error == -ENOENT    ? "no such file or folder"
                     : error == -ENODATA ? "no traces (*.json, *.json.gz) are in this "
                                           "folder; folders in it are not searched"
                                         : strerror(-error));
}

void analyze_take_first(void *user, const struct file_result *result, int error)
{
    struct analyze_first *first = user;

    if (error != 0)
        first->refused = *result;
    if (error != 0 || first->found ||
        (first->rank != SELECT_ANY && result->rank != first->rank))
        return;
    first->chosen = *result;
    first->found = true;
}

const char *analyze_name(const char *path)
{
    return strcmp(path, "-") == 0 ? "standard input" : path;
}

const char *analyze_last_part(const char *path)
{
    const char *slash = strrchr(path, '/');

    return slash != NULL && slash[1] != '\0' ? slash + 1 : path;
}

/* ---- reading with patience ------------------------------------------------------------ */

/* What a signal stops; written around the run of a reader. */
static _Atomic(struct trace_reader *) running;
static volatile sig_atomic_t interrupted;

static void on_interrupt(int number)
{
    struct trace_reader *reader = atomic_load(&running);

    interrupted = number;
    if (reader != NULL)
        trace_reader_cancel(reader);
}

static void print_progress(const char *path, bool *shown)
{
    struct trace_reader *reader = atomic_load(&running);
    uint64_t at = 0, of = 0;
    char name[41];

    if (reader == NULL)
        return;
    snprintf(name, sizeof(name), "%s", path);
    terminal_clean(name);
    trace_reader_position(reader, &at, &of);
    if (of > 0)
        fprintf(stderr, "\r\033[Ktrainglass: %s: %3.0f %% of %.0f MB", name,
                100 * (double)at / (double)of, (double)of / 1e6);
    else
        fprintf(stderr, "\r\033[Ktrainglass: %s: %.0f MB", name, (double)at / 1e6);
    *shown = true;
}

static void *watch(void *argument)
{
    struct analyze_watch *watching = argument;
    uint64_t at = clock_ns(CLOCK_MONOTONIC) + PATIENCE_MS * UINT64_C(1000000);
    bool shown = false;

    pthread_mutex_lock(&watching->lock);
    while (!watching->done) {
        struct timespec deadline = {.tv_sec = (time_t)(at / 1000000000),
                                    .tv_nsec = (long)(at % 1000000000)};

        if (pthread_cond_timedwait(&watching->ended, &watching->lock, &deadline) !=
            ETIMEDOUT)
            continue;
        print_progress(watching->path, &shown);
        at += TICK_MS * UINT64_C(1000000);
    }
    pthread_mutex_unlock(&watching->lock);
    if (shown)
        fputs("\r\033[K", stderr);
    return NULL;
}

void analyze_watch_begin(void *user, struct trace_reader *reader)
{
    struct analyze_watch *watching = user;
    pthread_condattr_t attributes;

    atomic_store(&running, reader);
    if (interrupted)
        trace_reader_cancel(reader);
    if (!isatty(STDERR_FILENO))
        return;
    pthread_mutex_init(&watching->lock, NULL);
    pthread_condattr_init(&attributes);
    pthread_condattr_setclock(&attributes, CLOCK_MONOTONIC);
    pthread_cond_init(&watching->ended, &attributes);
    pthread_condattr_destroy(&attributes);
    watching->started = pthread_create(&watching->thread, NULL, watch, watching) == 0;
}

void analyze_watch_end(void *user)
{
    struct analyze_watch *watching = user;

    if (watching->started) {
        pthread_mutex_lock(&watching->lock);
        watching->done = true;
        pthread_cond_signal(&watching->ended);
        pthread_mutex_unlock(&watching->lock);
        pthread_join(watching->thread, NULL);
    }
    atomic_store(&running, NULL);
    watching->started = watching->done = false;
}

void analyze_watch_signal(int number)
{
    struct sigaction action = {.sa_handler = on_interrupt}, before;

    if (sigaction(number, NULL, &before) == 0 && before.sa_handler == SIG_IGN)
        return; /* nohup and shells want it so of what runs beside them */
    sigaction(number, &action, NULL);
}

int analyze_interrupted(const char *path)
{
    int number = interrupted;

    if (number == 0)
        return 0;
    command_complain("%.300s: interrupted", analyze_name(path));
    return 128 + number;
}

static bool is_interrupted(void *user)
{
    (void)user;
    return interrupted != 0;
}

int analyze_files_load(struct store *store, const struct analyze_file *file,
                       const struct analyze_options *options, file_on_part *on_part,
                       void *user)
{
    struct analyze_watch watching = {.path = file->path};
    struct file_request request = {.path = file->path,
                                   .twins_apart = true,
                                   .rank = file->rank,
                                   .session =
                                       file->session[0] == '\0' ? NULL : file->session,
                                   .on_start = analyze_watch_begin,
                                   .on_end = analyze_watch_end,
                                   .is_cancelled = is_interrupted,
                                   .user = &watching};
    int error;

    bool grouped = options != NULL && options->request.by != GROUP_NAME;

    /* Findings name modules and callers. */
    request.groups = 1u << GROUP_MODULE | 1u << GROUP_STACK;
    if (grouped) {
        request.groups |= 1u << options->request.by;
        request.stack_frames = options->stack_frames;
    }
    if (options != NULL && analyze_keep_wants_paths(options->keep)) {
        request.on_paths = analyze_keep_paths;
        request.paths_user = options->keep;
    }
    /* Only of paths or groups is anything told that is linked. */
    request.origins = options != NULL && options->keep->stacks != NULL;
    request.link_backward = options != NULL && options->link_backward &&
                            (request.on_paths != NULL || grouped);
    analyze_watch_signal(SIGINT);
    error = file_load_each(store, &request, on_part, user);
    return interrupted ? -ECANCELED : error;
}
