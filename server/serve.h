/* The server as a whole: what the command line starts, waits for and stops. Options are
 * checked by whoever fills them in (server/command/options.c); strings are borrowed and must
 * outlive serve_stop().
 *
 * GET /healthz answers without a token, so that another `trainglass run` can tell whose
 * server holds a port:
 *     {"name":"trainglass","version":"0.1.0","uid":1000,"pid":41207,
 *      "directory":"/dev/shm/trainglass-1000","layout_major":1}
 * `directory` is the one directory it was started with, "" when it watches all of
 * /dev/shm; a `run` whose own directory is among those it watches joins it.
 */
#ifndef SERVER_SERVE_H
#define SERVER_SERVE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "wire/attributes.h"

enum serve_share { SERVE_SHARE_OWNER, SERVE_SHARE_GROUP, SERVE_SHARE_ALL };

struct serve_file {
    const char *path;
    const char *session; /* that the files of a folder share; "" its own */
    int32_t rank;        /* file_request.rank */
};

struct serve_options {
    const char *bind;        /* IPv4 address, "127.0.0.1" */
    uint16_t port;           /* 0 = any free one: serve_port() says which */
    uint16_t stream_clients; /* SSE clients at once; one more gets 503 */
    enum serve_share share;  /* who besides the owner may see the page without token */
    const char *directory;   /* sessions are here; NULL: /dev/shm/trainglass-<n> */
    const char *state_dir;   /* run store, windows and logs; "" switches them off */
    const char *window_dir;  /* trace files of deep windows */
    const char *token;       /* "" none; made up by the caller beyond loopback */
    const char *base_path;   /* "" or "/name" behind a proxy */
    const char *allow_hosts; /* host names besides localhost and IP literals: "a,b" */
    const char *allow_frame; /* origin that may show the page in a frame; "" none */
    uint64_t history_bytes;  /* raw events remembered of jobs; as much again of files */
    uint32_t runs_max;       /* rows of the run store */
    uint64_t upload_bytes_max; /* of one uploaded file, and of all that are kept */
    /* Trace files to show as sessions; then no directory is watched unless named. */
    const struct serve_file *files;
    size_t file_count;
    /* Told of each that cannot be read while others can. */
    void (*on_unread)(const char *name, const char *reason);
    bool (*is_unwanted)(void); /* asked while files are read: true ends that */
};

struct serve;

#define SERVE_REASON_BYTES 256

/* Starts every thread of the server and returns when the port listens. On failure NULL
 * in *serve, one sentence in `reason` (SERVE_REASON_BYTES) and
 *   -EADDRINUSE  the port is taken
 *   -ENODATA     there are files, and none can be read
 *   -ECANCELED   it was no longer wanted
 *   -errno       what else stands in the way */
MUST_CHECK int serve_start(struct serve **serve, const struct serve_options *options,
                           char *reason);

/* Does only this machine reach an IPv4 address? */
bool serve_is_loopback(const char *address);

/* The port that listens. */
uint16_t serve_port(const struct serve *serve);

/* Milliseconds since a viewer asked for anything or a session was seen running; 0 while
 * a stream is open or a session runs. The command line decides when that is enough. */
int64_t serve_idle_ms(const struct serve *serve);

/* Stops accepting, ends streams, joins every thread, frees. NULL is fine. */
void serve_stop(struct serve *serve);

#endif
