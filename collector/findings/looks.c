#include "findings/looks.h"

#include <math.h>
#include <string.h>

/* Of all waits, in a phase: fewer may be another wait. */
#define LOCK_SHARE 0.1

double looks_forward_unknown(const struct rule_context *context, double share)
{
    const struct steps_summary *train = context->train;
    double known = context->summary->between_ops.other_share;
    double seen = share * train->mean_ns, beside = train->mean_ns;

    for (uint32_t phase = 0; phase < EVENT_PHASES; phase++)
        beside -= isnan(train->phase_ns[phase]) ? 0 : train->phase_ns[phase];
    /* The steps that were looked at may be the later ones, which have more of it. */
    beside = fmax(beside, isnan(known) ? 0 : known * train->mean_ns);
    beside -= rule_before_forward_ns(context);
    return seen > beside ? seen - fmax(beside, 0) : 0;
}

struct between_ops_share looks_in_forward(const struct rule_context *context,
                                          const struct between_ops_share *forward,
                                          const struct between_ops_share *nowhere)
{
    double more =
        looks_forward_unknown(context, nowhere->share) / context->train->mean_ns;

    return (struct between_ops_share){
        forward->share + more, more > forward->share ? nowhere->error : forward->error};
}

/* Among ranks the end of backward is a wait for the others. */
static bool may_be_lock(const struct rule_context *context, uint32_t part)
{
    return part != EVENT_PHASE_BACKWARD || context->summary->ranks.row_count < 2;
}

struct looks_lock looks_lock(const struct rule_context *context)
{
    const struct between_ops *between = &context->summary->between_ops;
    double step = context->train->mean_ns, squares = 0;
    struct looks_lock lock = {.sum_ns = 0};
    uint32_t parts = 0;

    if (between->looks == 0 || isnan(between->behind[0].share) ||
        context->summary->native || rule_has_device(context))
        return lock;
    for (uint32_t part = 0; part <= EVENT_PHASES; part++) {
        if (!may_be_lock(context, part))
            continue;
        lock.ns[part] = between->behind[part].share * step;
        lock.sum_ns += lock.ns[part];
        squares += pow(between->behind[part].error * step, 2);
    }
    for (uint32_t part = 0; part <= EVENT_PHASES; part++)
        parts += lock.ns[part] > LOCK_SHARE * lock.sum_ns;
    if (parts < 2)
        return (struct looks_lock){.sum_ns = 0};
    double unknown =
        looks_forward_unknown(context, between->behind[EVENT_PHASES].share);

    lock.ns[EVENT_PHASE_FORWARD] += unknown;
    lock.ns[EVENT_PHASES] -= unknown;
    lock.error_ns = sqrt(squares);
    return lock;
}

const struct op_row *looks_exchange(const struct rule_context *context)
{
    const struct ops_answer *cpu = &context->summary->cpu;
    bool replicated = rule_is_replicated(context);
    const struct op_row *sends =
        NULL; /* who sends seldom waits: only where nothing else is */

    if (rule_text(context, FACT_DISTRIBUTED_BACKEND)[0] == '\0')
        return NULL;
    for (uint32_t i = 0; i < cpu->judged_count; i++) {
        const char *name = cpu->rows[i].name;

        if (strncmp(name, "c10d::", 6) != 0 || !(cpu->rows[i].per_step_count > 0) ||
            (replicated && strstr(name, "allreduce") != NULL))
            continue;
        if (strncmp(name, "c10d::send", 10) != 0)
            return &cpu->rows[i];
        sends = sends != NULL ? sends : &cpu->rows[i];
    }
    return sends;
}

const struct looks_wait *looks_wait(const char *place)
{
    static const struct looks_wait kinds[] = {
        {"nanosleep", "in a sleep", "`time.sleep`, a rate limit, a retry with a pause"},
        {"futex", "waiting for another thread",
         "a lock, a queue or a future that another thread is late with (`Queue.get`, "
         "`Future.result`)"},
        {"do_wait", "waiting for a child process",
         "a child process that is waited for (`subprocess.run`, `os.system`)"},
        {"pipe", "reading a pipe",
         "a pipe from another process (`subprocess`, `multiprocessing`)"},
        {"poll", "waiting for a pipe or the network",
         "a request or a pipe: ask ahead, in a thread"},
        {"select", "waiting for a pipe or the network",
         "a request or a pipe: ask ahead, in a thread"},
        {"tcp", "waiting for the network", "a request: ask ahead, in a thread"},
        {"sk_wait", "waiting for the network", "a request: ask ahead, in a thread"},
        {"unix_stream", "waiting for another process",
         "a socket of another process: ask ahead, in a thread"},
        {"folio", "reading a file",
         "files that are read there: load them before the loop"},
        {"io_schedule", "waiting for a disk", "files that are read or written there"},
        {"bit_wait", "waiting for a disk", "files that are read or written there"},
        {"rpc", "waiting for a network file system",
         "files on a network file system: copy them to the machine first"},
    };
    static const struct looks_wait unknown = {
        "", "", "sleeps, locks, files, requests and child processes"};

    for (size_t i = 0; i < sizeof(kinds) / sizeof(kinds[0]); i++)
        if (strstr(place, kinds[i].place) != NULL)
            return &kinds[i];
    return &unknown;
}
