/* The server that `run` leaves beside a job: detached from it, joined when there. */
#ifndef COMMAND_LAUNCH_H
#define COMMAND_LAUNCH_H

#include <stdbool.h>
#include <stdint.h>

#include "command/options.h"

struct launched {
    uint16_t port;    /* 0: there is no server */
    bool joined;      /* one of ours was there already */
    int runs_lock;    /* keeps the server while we run; -1 none */
    char token[132];  /* "" none is needed on this machine */
    char reason[256]; /* why there is none, or why not on the port that was asked for */
};

/* Finds or starts a server for sessions in `directory`. Never fails: without a server
 * there is a reason. Takes at most some seconds. */
void launch_server(struct launched *launched, const struct options *options,
                   const char *directory);

/* The lock file of the runs that want the server at `port`: each holds LOCK_SH. Writes
 * its path. */
void launch_lock_path(char *path, const char *directory, uint16_t port);

/* A random password for the page; false when the system has no randomness yet. */
bool launch_make_token(char *token, size_t size);

/* The address that `bind` stands for: itself, or what "auto" comes to here. */
const char *launch_address(const struct options *options);

#endif
