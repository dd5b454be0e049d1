#include "serve.h"

#include <errno.h>
#include <pthread.h>
#include <semaphore.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <time.h>
#include <unistd.h>

#include "aggregate/store.h"
#include "api/context.h"
#include "files/reading.h"
#include "files/trace_files.h"
#include "http/cache.h"
#include "ingest/collector.h"
#include "ingest/file/file.h"
#include "judge/judge.h"
#include "judge/keep.h"
#include "judge/replays.h"
#include "query/status_query.h"
#include "routes.h"
#include "runs/runs.h"
#include "stream/stream.h"
#include "windows/windows.h"
#include "wire/clock.h"

/* Connections that are not streams: a browser opens six. */
#define REST_THREADS 16u
#define KEEPER_MS    1000
/* 2,048 segments hold one each; connections, files and directories need few more. */
#define DESCRIPTORS 4096u

struct serve {
    struct serve_options options;
    struct server_context parts;
    struct http_server *http;
    pthread_t keeper; /* folds ended runs, weighs the server's own CPU time */
    bool kept;
    sem_t stop;                 /* posted for the keeper to end */
    _Atomic int64_t running_ms; /* when a session was last seen running */
};

static int64_t now_ms(void)
{
    return (int64_t)(clock_ns(CLOCK_MONOTONIC) / 1000000);
}

static bool any_running(struct store *store)
{
    struct selection whose = {.rank = SELECT_ANY};
    struct status_answer status;
    bool running = false, known = status_query(store, &whose, &status) == 0;

    for (uint32_t i = 0; known && !running && i < status.session_count; i++)
        running = status.sessions[i].state == PROCESS_RUNNING;
    answer_free(&status.head);
    return running;
}

/* Share of a core that this process took since the last look, smoothed over ~10 s. */
static void weigh_cpu(struct api *api, uint64_t *cpu_ns, uint64_t *wall_ns)
{
    uint64_t cpu = clock_ns(CLOCK_PROCESS_CPUTIME_ID), wall = clock_ns(CLOCK_MONOTONIC);
    uint32_t before = atomic_load_explicit(&api->server_cpu_ppm, memory_order_relaxed);
    double share;

    if (wall <= *wall_ns)
        return;
    share = (double)(cpu - *cpu_ns) / (double)(wall - *wall_ns) * 1e6;
    atomic_store_explicit(&api->server_cpu_ppm,
                          (uint32_t)(0.9 * (double)before + 0.1 * share),
                          memory_order_relaxed);
    *cpu_ns = cpu;
    *wall_ns = wall;
}

/* True when the server stops. */
static bool keeper_sleep(struct serve *serve)
{
    uint64_t at = clock_ns(CLOCK_MONOTONIC) + KEEPER_MS * UINT64_C(1000000);
    const struct timespec deadline = {.tv_sec = (time_t)(at / 1000000000),
                                      .tv_nsec = (long)(at % 1000000000)};
    int error;

    while ((error = sem_clockwait(&serve->stop, CLOCK_MONOTONIC, &deadline)) != 0 &&
           errno == EINTR)
        ;
    return error == 0;
}

static void *keeper_run(void *argument)
{
    struct serve *serve = argument;
    struct api *api = &serve->parts.api;
    uint64_t cpu_ns = clock_ns(CLOCK_PROCESS_CPUTIME_ID);
    uint64_t wall_ns = clock_ns(CLOCK_MONOTONIC), rev = 0;

    while (!keeper_sleep(serve)) {
        weigh_cpu(api, &cpu_ns, &wall_ns);
        if (any_running(api->store))
            atomic_store_explicit(&serve->running_ms, now_ms(), memory_order_relaxed);
        windows_look(api->windows);
        if (store_rev(api->store) == rev && !runs_wait_for_room(api->runs))
            continue;
        rev = store_rev(api->store);
        judge_feed(api->judge, api->store, api->runs);
        runs_fold(api->runs, api->store, false);
    }
    runs_fold(api->runs, api->store, true);
    judge_keep(api->judge, api->runs, true);
    return NULL;
}

static bool is_unwanted(void *options)
{
    return ((const struct serve_options *)options)->is_unwanted();
}

struct reading_files {
    struct serve *serve;
    const char *path;
    char *reason; /* of the first that cannot be read */
    bool any;     /* could be read */
};

static void take_file(void *user, const struct file_result *result, int error)
{
    struct reading_files *reading = user;
    const char *why = *result->error != '\0' ? result->error : strerror(-error);

    if (error == -ECANCELED)
        return;
    trace_files_serve(reading->serve->parts.api.files, reading->path, result, error);
    reading->any = reading->any || error == 0;
    if (error == 0)
        return;
    if (*reading->reason == '\0')
        (void)snprintf(reading->reason, SERVE_REASON_BYTES, "%.100s: %.140s",
                       result->name, why);
    reading->serve->options.on_unread(result->name, why);
}

/* Whole before anybody looks: a second or two for a large one, for a pipe as long as it
 * is open. One that cannot be read does not keep the others from being shown. */
static int load_files(struct serve *serve, char *reason)
{
    struct reading_files reading = {.serve = serve, .reason = reason};

    *reason = '\0';
    for (size_t i = 0; i < serve->options.file_count; i++) {
        const struct serve_file *file = &serve->options.files[i];
        struct file_request request = {.path = file->path,
                                       .groups = FILE_GROUPS_ALL,
                                       .twins_apart = true,
                                       .rank = file->rank,
                                       .session = *file->session != '\0' ? file->session
                                                                         : NULL};
        reading.path = file->path;
        int error = reading_run(serve->parts.api.store, &request, take_file, &reading,
                                &(struct reading_wish){is_unwanted, &serve->options});

        if (error == -ECANCELED)
            return error;
    }
    if (!reading.any)
        return -ENODATA;
    (void)snprintf(reason, SERVE_REASON_BYTES, "out of memory"); /* as before */
    return 0;
}

/* The usual limit of 1,024 would end in connections that nobody accepts. */
static void want_descriptors(void)
{
    struct rlimit limit;

    if (getrlimit(RLIMIT_NOFILE, &limit) != 0 || limit.rlim_cur >= DESCRIPTORS)
        return;
    limit.rlim_cur = limit.rlim_max < DESCRIPTORS ? limit.rlim_max : DESCRIPTORS;
    (void)setrlimit(RLIMIT_NOFILE, &limit); /* with fewer it sees fewer segments */
}

static int start_collector(struct serve *serve, char *reason)
{
    const struct serve_options *options = &serve->options;
    struct api *api = &serve->parts.api;
    const char *directories[1] = {options->directory};
    struct collector_options watch = {.directories = directories,
                                      .directory_count = options->directory != NULL,
                                      .all_users = options->directory == NULL};
    struct store_limits limits = {.history_bytes = options->history_bytes};
    const char *why = "";
    int error = 0;

    if ((api->store = store_new(&limits)) == NULL ||
        (api->files = trace_files_new(api->store, options->file_count,
                                      options->upload_bytes_max)) == NULL ||
        (api->windows = windows_new(api->store, api->files)) == NULL)
        return -ENOMEM;
    if (options->file_count > 0)
        error = load_files(serve, reason);
    if (error != 0 || (options->file_count > 0 && options->directory == NULL))
        return error;
    api->collector = collector_start(api->store, &watch, &why);
    if (api->collector != NULL)
        return 0;
    (void)snprintf(reason, SERVE_REASON_BYTES, "%s", why);
    return -EIO;
}

bool serve_is_loopback(const char *address)
{
    return strncmp(address, "127.", 4) == 0;
}

static int start_http(struct serve *serve, char *reason)
{
    const struct serve_options *options = &serve->options;
    struct http_options http = {
        .bind = options->bind,
        .port = options->port,
        .threads = REST_THREADS + options->stream_clients,
        .upload_bytes_max = options->upload_bytes_max,
        .any_group = options->share == SERVE_SHARE_GROUP,
        .routes = routes,
        .route_count = route_count,
        .context = &serve->parts,
        .policy = {
            .token = *options->token != '\0' ? options->token : NULL,
            .token_required = !serve_is_loopback(options->bind),
            .any_user = options->share == SERVE_SHARE_ALL,
            .owner = geteuid(),
            .base_path = options->base_path,
            .allow_hosts = options->allow_hosts,
            .allow_frame = options->allow_frame,
        }};

    return http_start(&serve->http, &http, reason, SERVE_REASON_BYTES);
}

static int start_parts(struct serve *serve, char *reason)
{
    struct api *api = &serve->parts.api;
    struct hub_source source = stream_source(api);
    int error;

    api->runs = runs_open(serve->options.state_dir, serve->options.runs_max);
    api->replays = replays_new(NULL);
    api->judge = judge_new(api->replays);
    serve->parts.cache = cache_new();
    if (api->runs == NULL || api->judge == NULL || api->replays == NULL ||
        serve->parts.cache == NULL)
        return -ENOMEM;
    error = start_collector(serve, reason);
    if (error != 0)
        return error;
    serve->parts.hub = hub_start(&source, serve->options.stream_clients);
    if (serve->parts.hub == NULL)
        return -ENOMEM;
    error = start_http(serve, reason);
    if (error != 0)
        return error;
    error = -pthread_create(&serve->keeper, NULL, keeper_run, serve);
    serve->kept = error == 0;
    return error;
}

int serve_start(struct serve **out, const struct serve_options *options, char *reason)
{
    struct serve *serve = calloc(1, sizeof(*serve));
    int error;

    *out = NULL;
    (void)snprintf(reason, SERVE_REASON_BYTES, "out of memory");
    if (serve == NULL)
        return -ENOMEM;
    serve->options = *options;
    serve->parts.api.directory = options->directory;
    serve->parts.api.state_dir = options->state_dir;
    want_descriptors();
    serve->parts.api.start_unix_ms = (int64_t)(clock_ns(CLOCK_REALTIME) / 1000000);
    atomic_init(&serve->running_ms, now_ms());
    (void)sem_init(&serve->stop, 0, 0);
    error = start_parts(serve, reason);
    if (error != 0) {
        serve_stop(serve);
        return error;
    }
    *out = serve;
    return 0;
}

void serve_stop(struct serve *serve)
{
    if (serve == NULL)
        return;
    struct api *api = &serve->parts.api;

    if (serve->parts.hub != NULL)
        hub_stop(serve->parts.hub); /* streams end, their threads become free */
    if (api->files != NULL)
        trace_files_end_reading(api->files);
    http_stop(serve->http);
    (void)sem_post(&serve->stop);
    if (serve->kept)
        pthread_join(serve->keeper, NULL);
    collector_stop(api->collector);
    hub_free(serve->parts.hub);
    cache_free(serve->parts.cache);
    runs_close(api->runs);
    windows_free(api->windows);
    judge_free(api->judge);
    replays_free(api->replays);
    trace_files_free(api->files);
    store_free(api->store);
    (void)sem_destroy(&serve->stop);
    free(serve);
}

uint16_t serve_port(const struct serve *serve)
{
    return http_port(serve->http);
}

int64_t serve_idle_ms(const struct serve *serve)
{
    int64_t viewed = http_idle_ms(serve->http);
    int64_t ran =
        now_ms() - atomic_load_explicit(&serve->running_ms, memory_order_relaxed);

    if (hub_clients(serve->parts.hub) > 0 || ran < 2 * KEEPER_MS)
        return 0;
    return viewed < ran ? viewed : ran;
}
