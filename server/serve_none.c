/* serve.h of a build without the server: says so. */
#include <errno.h>
#include <stdio.h>

#include "serve.h"

int serve_start(struct serve **serve, const struct serve_options *options, char *reason)
{
    (void)options;
    *serve = NULL;
    snprintf(reason, SERVE_REASON_BYTES, "this build has no server");
    return -ENOSYS;
}

uint16_t serve_port(const struct serve *serve)
{
    (void)serve;
    return 0;
}

int64_t serve_idle_ms(const struct serve *serve)
{
    (void)serve;
    return 0;
}

void serve_stop(struct serve *serve)
{
    (void)serve;
}
