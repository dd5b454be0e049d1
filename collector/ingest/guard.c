#include "ingest/guard.h"

#include <errno.h>
#include <setjmp.h>
#include <signal.h>
#include <string.h>

/* Where a fault of this thread goes; NULL: it is nobody's expected one. */
static _Thread_local sigjmp_buf *volatile landing;
static struct sigaction before;

static void on_bus_error(int number, siginfo_t *info, void *context)
{
    (void)context;
    if (landing != NULL)
        siglongjmp(*landing, 1);
    /* A real fault: whoever was there before us decides, at the same instruction. */
    (void)info;
    sigaction(number, &before, NULL);
}

bool guard_install(void)
{
    struct sigaction now;

    if (sigaction(SIGBUS, NULL, &now) != 0)
        return false;
    if ((now.sa_flags & SA_SIGINFO) && now.sa_sigaction == on_bus_error)
        return true;
    before = now;
    memset(&now, 0, sizeof(now));
    now.sa_sigaction = on_bus_error;
    /* Not blocked while it runs: it is left by a jump. */
    now.sa_flags = SA_SIGINFO | SA_NODEFER | SA_ONSTACK;
    sigemptyset(&now.sa_mask);
    return sigaction(SIGBUS, &now, NULL) == 0;
}

/* TSan calls handlers with every signal blocked, whatever SA_NODEFER says: left by a jump,
 * the next fault would find this one blocked, and the kernel kills for that. */
static void unblock(void)
{
    sigset_t set;

    sigemptyset(&set);
    sigaddset(&set, SIGBUS);
    (void)pthread_sigmask(SIG_UNBLOCK, &set, NULL);
}

bool guard_run(guard_reader *read, void *user)
{
    sigjmp_buf here;

    if (sigsetjmp(here, 0) != 0) {
        landing = NULL;
        unblock();
        return false;
    }
    landing = &here;
    read(user);
    landing = NULL;
    return true;
}

struct ring_call {
    struct ring_reader *reader;
    struct event *events;
    uint64_t max;
    int64_t result;
};

static void call_ring_read(void *user)
{
    struct ring_call *call = user;

    call->result = ring_read(call->reader, call->events, call->max);
}

int64_t guard_ring_read(struct ring_reader *reader, struct event *events, uint64_t max)
{
    struct ring_call call = {reader, events, max, 0};

    return guard_run(call_ring_read, &call) ? call.result : -EFAULT;
}
