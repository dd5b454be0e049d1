#include "command/live/launch.h"

#include <errno.h>
#include <fcntl.h>
#include <glob.h>
#include <inttypes.h>
#include <netinet/in.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/random.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "command/child.h"
#include "command/client.h"
#include "command/places.h"
#include "serve.h"
#include "wire/clock.h"

#define PORTS_TRIED 20 /* the next free one; beyond that something is odd */
/* All ports together: the first silent one gets most of it, those after what is left, and
 * none less than an idle server of ours needs several times over. */
#define SEARCH_MS     2000
#define FIRST_MS      1500
#define LEAST_MS      25
#define READY_MS      5000 /* an idle machine needs 20 */
#define LEAVING_MS    5    /* between two looks whether it has left; it takes some 20 */
#define READY_FD      3
#define LOG_BYTES_MAX (1 << 20) /* then the log starts anew, the old one kept once */

static int stop_at_error(const char *path, int error)
{
    (void)path, (void)error;
    return 1;
}

/* A container's own network has no hardware behind any interface; where we share the
 * host's, some have. A host without any is reached by nobody. */
static bool network_is_virtual(void)
{
    glob_t devices = {0};
    bool hardware = access("/sys/class/net", R_OK) != 0 ||
                    glob("/sys/class/net/*/device", GLOB_NOSORT, stop_at_error,
                         &devices) != GLOB_NOMATCH;

    globfree(&devices);
    return !hardware;
}

const char *launch_address(const struct options *options)
{
    const char *bind = options_text(options, OPTION_BIND);

    if (strcmp(bind, "auto") != 0)
        return bind;
    return network_is_virtual() ? "0.0.0.0" : "127.0.0.1";
}

bool launch_make_token(char *token, size_t size)
{
    uint64_t random[2];

    return getrandom(random, sizeof(random), 0) == (ssize_t)sizeof(random) &&
           snprintf(token, size, "%016" PRIx64 "%016" PRIx64, random[0], random[1]) <
               (int)size;
}

void launch_lock_path(char *path, const char *directory, uint16_t port)
{
    snprintf(path, PLACE_BYTES, "%.900s/port-%u.lock", directory, port);
}

static int open_log(const struct options *options, uint16_t port)
{
    char state[PLACE_BYTES], path[PLACE_BYTES], old[PLACE_BYTES + 8];
    struct stat status;
    int fd = -1;

    if (place_state(options, state) && place_make(state) == 0) {
        snprintf(path, sizeof(path), "%.900s/server-%u.log", state, port);
        snprintf(old, sizeof(old), "%s.old", path);
        if (stat(path, &status) == 0 && status.st_size > LOG_BYTES_MAX)
            rename(path, old);
        fd = open(path, O_WRONLY | O_CREAT | O_APPEND | O_NOFOLLOW, 0600);
    }
    return fd >= 0 ? fd : open("/dev/null", O_WRONLY);
}

/* The value of a setting for the server, NULL where it finds the same one itself, or must
 * not get it: other users read the process list, and so no token. */
static const char *server_value(const struct options *options, int id,
                                const char *directory, char path[PLACE_BYTES])
{
    const struct option_value *value = &options->values[id];

    switch (id) {
    case OPTION_LINGER:
        return value->text;
    case OPTION_DIR:
        return *value->text != '\0' ? directory : NULL;
    case OPTION_PORT: /* the one that is tried */
    case OPTION_TOKEN:
    case OPTION_BUDGET:
    case OPTION_LEVEL:
    case OPTION_CUDA_GRAPHS:
        return NULL;
    default:
        if (value->origin <= OPTION_FROM_CONFIG)
            return NULL;
        if (id != OPTION_STATE_DIR && id != OPTION_WINDOW_DIR)
            return value->text;
        return *value->text != '\0' && place_absolute(value->text, path) ? path : NULL;
    }
}

/* argv of the server, freed by the caller; false when out of memory. */
#define SERVER_WORDS (OPTIONS + 8)
static bool server_arguments(char *words[SERVER_WORDS], const struct options *options,
                             const char *directory, uint16_t port)
{
    char path[PLACE_BYTES];
    int count = 0;
    bool made = (words[count++] = strdup("trainglass")) != NULL &&
                (words[count++] = strdup("serve")) != NULL &&
                asprintf(&words[count++], "--port=%u", port) >= 0 &&
                asprintf(&words[count++], "--ready-fd=%d", READY_FD) >= 0;

    for (int id = 0; made && id < options_count(); id++) {
        const char *value = server_value(options, id, directory, path);

        if (value != NULL)
            made = asprintf(&words[count++], "%s=%s", option_flag(id), value) >= 0;
    }
    if (!made)
        words[count - 1] = NULL; /* asprintf() leaves anything there */
    return made;
}

/* In the grandchild: nothing of ours but the descriptor that says "ready". */
static void become_server(char *const *words, int ready, int log)
{
    int null = open("/dev/null", O_RDONLY);

    /* The three may have taken low numbers when our own stdio was closed. */
    ready = fcntl(ready, F_DUPFD, 10);
    log = fcntl(log, F_DUPFD, 10);
    null = fcntl(null, F_DUPFD, 10);
    if (ready < 0 || log < 0 || null < 0) /* a limit of a few descriptors */
        _exit(126);
    dup2(null, STDIN_FILENO);
    dup2(log, STDOUT_FILENO);
    dup2(log, STDERR_FILENO);
    dup2(ready, READY_FD);
    close_range(READY_FD + 1, ~0U, 0);
    if (chdir("/") != 0)
        _exit(126);
    umask(077);
    child_restore_signals();
    execv("/proc/self/exe", words);
    _exit(126);
}

/* Starts it twice removed, in a session of its own; `ready` is written by it. */
static int spawn(char *const *words, int ready, int log)
{
    pid_t middle = fork();
    int status;

    if (middle < 0)
        return -errno;
    if (middle == 0) {
        setsid();
        pid_t server = fork();

        if (server == 0)
            become_server(words, ready, log);
        _exit(server < 0);
    }
    while (waitpid(middle, &status, 0) < 0)
        if (errno != EINTR)
            return -errno;
    return WIFEXITED(status) && WEXITSTATUS(status) == 0 ? 0 : -EAGAIN;
}

/* Waits for "ready\n" or a sentence; 0, or -errno with the sentence. */
static int await_ready(int fd, char *reason, size_t size)
{
    struct pollfd poll_fd = {.fd = fd, .events = POLLIN};
    ssize_t got = 0;

    if (poll(&poll_fd, 1, READY_MS) > 0)
        got = read(fd, reason, size - 1);
    else
        snprintf(reason, size, "the server did not answer within 5 s");
    if (got <= 0) {
        if (poll_fd.revents != 0)
            snprintf(reason, size, "the server ended before it was ready");
        return -EIO;
    }
    reason[got] = '\0';
    reason[strcspn(reason, "\n")] = '\0';
    if (strcmp(reason, "ready") == 0)
        return 0;
    return strncmp(reason, "taken", 5) == 0 ? -EADDRINUSE : -EIO;
}

static int start_server(struct launched *launched, const struct options *options,
                        const char *directory, uint16_t port)
{
    char *words[SERVER_WORDS] = {NULL};
    int ready[2], log, error;

    if (pipe2(ready, O_CLOEXEC) != 0) {
        error = -errno;
        snprintf(launched->reason, sizeof(launched->reason), "%s", strerror(-error));
        return error;
    }
    log = open_log(options, port);
    error = server_arguments(words, options, directory, port) && log >= 0
                ? spawn(words, ready[1], log)
                : -ENOMEM;
    close(ready[1]);
    if (error == 0)
        error = await_ready(ready[0], launched->reason, sizeof(launched->reason));
    else
        snprintf(launched->reason, sizeof(launched->reason), "%s", strerror(-error));
    close(ready[0]);
    if (log >= 0)
        close(log);
    for (int i = 0; i < SERVER_WORDS && words[i] != NULL; i++)
        free(words[i]);
    return error;
}

/* Held from before the server starts until we end: it will not leave under our feet. -1
 * where there can be none, -EWOULDBLOCK when one that is leaving (serve.c) does not end
 * within HOLDER_PATIENCE_MS. */
static int lock_runs(const char *directory, uint16_t port)
{
    char path[PLACE_BYTES];
    int fd;

    if (place_make(directory) != 0)
        return -1;
    launch_lock_path(path, directory, port);
    fd = open(path, O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600);
    if (fd < 0)
        return -1;
    for (int waited_ms = 0; flock(fd, LOCK_SH | LOCK_NB) != 0;
         waited_ms += LEAVING_MS) {
        if (errno != EWOULDBLOCK || waited_ms >= HOLDER_PATIENCE_MS) {
            int error = errno == EWOULDBLOCK ? -EWOULDBLOCK : -1;

            close(fd);
            return error;
        }
        nanosleep(&(struct timespec){.tv_nsec = LEAVING_MS * 1000000L}, NULL);
    }
    return fd;
}

static void prepare_token(struct launched *launched, const struct options *options)
{
    const char *token = options_text(options, OPTION_TOKEN);

    if (serve_is_loopback(launch_address(options)))
        return;
    if (*token != '\0')
        snprintf(launched->token, sizeof(launched->token), "%s", token);
    else if (!launch_make_token(launched->token, sizeof(launched->token)))
        return;
    /* The environment is private, the process list is not; the command does not get
     * it. One thread. NOLINTNEXTLINE(concurrency-mt-unsafe) */
    setenv("TRAINGLASS_TOKEN", launched->token, 1);
}

/* For the next port of a search that began at `begun_ns`. */
static int patience_of(uint64_t begun_ns)
{
    uint64_t spent_ms = (clock_ns(CLOCK_MONOTONIC) - begun_ns) / 1000000;
    int left = spent_ms < SEARCH_MS ? SEARCH_MS - (int)spent_ms : 0;

    return left > FIRST_MS ? FIRST_MS : left > LEAST_MS ? left : LEAST_MS;
}

/* One port: true when that settled the matter. */
static bool try_port(struct launched *launched, const struct options *options,
                     const char *directory, uint16_t port, int patience_ms)
{
    enum holder holder = holder_ask(port, directory, patience_ms);
    int error;

    if (holder == HOLDER_OTHER)
        return false;
    launched->runs_lock = lock_runs(directory, port);
    if (launched->runs_lock == -EWOULDBLOCK) {
        launched->runs_lock = -1;
        return false;
    }
    if (holder == HOLDER_OURS &&
        holder_ask(port, directory, patience_ms) == HOLDER_NONE)
        holder = HOLDER_NONE; /* it left before it was locked */
    if (holder == HOLDER_OURS) {
        launched->port = port;
        launched->joined = true;
        /* Made up for a server of our own; this one has another. */
        if (launched->token[0] != '\0' &&
            *options_text(options, OPTION_TOKEN) == '\0' &&
            !holder_token(port, launched->token, sizeof(launched->token)))
            launched->token[0] = '\0';
        return true;
    }
    error = start_server(launched, options, directory, port);
    if (error == 0) {
        launched->port = port;
        launched->reason[0] = '\0';
        return true;
    }
    if (launched->runs_lock >= 0)
        close(launched->runs_lock);
    launched->runs_lock = -1;
    if (error != -EADDRINUSE)
        return true;
    /* Another run was faster: theirs may be one to join. */
    return holder_ask(port, directory, patience_ms) == HOLDER_OURS &&
           try_port(launched, options, directory, port, patience_ms);
}

/* One that nobody holds at this moment; 0 when there is none. */
static uint16_t free_port(void)
{
    struct sockaddr_in any = {.sin_family = AF_INET,
                              .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t size = sizeof(any);
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);

    if (fd < 0 || bind(fd, (struct sockaddr *)&any, size) != 0 ||
        getsockname(fd, (struct sockaddr *)&any, &size) != 0)
        any.sin_port = 0;
    if (fd >= 0)
        close(fd);
    return ntohs(any.sin_port);
}

void launch_server(struct launched *launched, const struct options *options,
                   const char *directory)
{
    int64_t first = options_number(options, OPTION_PORT);
    uint64_t begun_ns = clock_ns(CLOCK_MONOTONIC);

    memset(launched, 0, sizeof(*launched));
    launched->runs_lock = -1;
    prepare_token(launched, options);
    if (first == 0)
        first = free_port();
    for (int64_t port = first; port < first + PORTS_TRIED && port <= 65535; port++) {
        if (!try_port(launched, options, directory, (uint16_t)port,
                      patience_of(begun_ns)))
            continue;
        if (launched->port != 0 && port != first)
            snprintf(
                launched->reason, sizeof(launched->reason),
                "port %u is taken by another program, or a server for another folder",
                (unsigned)first);
        return;
    }
    snprintf(launched->reason, sizeof(launched->reason),
             "ports %u to %u are taken by other programs", (unsigned)first,
             (unsigned)first + PORTS_TRIED - 1);
}
