/* Rules over a training thread that is off the CPU of its own will (query/asleep.h). */
#include <math.h>
#include <string.h>

#include "findings/rules.h"

struct asleep_part {
    enum event_phase phase;
    double ns, error_ns; /* per step */
    const char *place;
};

/* For the last rank it waits on purpose: that one is the finding. */
static double waits_for_rank(const struct rule_context *context, enum event_phase phase)
{
    const struct ranks_answer *ranks = &context->summary->ranks;
    bool here = ranks->slowest >= 0 && ranks->slowest != context->summary->head.rank &&
                ranks->waits_in == (uint32_t)phase;

    return here && ranks->slowest_price_ns > 0 ? ranks->slowest_price_ns : 0;
}

/* What other rules say of this phase: extra time of some steps, and late ranks. */
static double told_elsewhere(const struct rule_context *context, enum event_phase phase)
{
    const struct rhythm *rhythm = &context->summary->rhythm;
    const struct rhythm_extra *const extras[] = {&rhythm->gc,    &rhythm->warm_up,
                                                 &rhythm->epoch, &rhythm->period,
                                                 &rhythm->drift, &rhythm->rest};
    double ns = 0;

    for (size_t i = 0; i < sizeof(extras) / sizeof(extras[0]); i++)
        if (extras[i]->steps > 0 && extras[i]->part == (uint32_t)phase)
            ns += extras[i]->ns_per_step;
    return ns + waits_for_rank(context, phase);
}

/* Loops that fetch from no loader are known to be in forward only when it is over: what
 * was seen in no phase and does not fit beside the phases lay there. */
static double in_forward_unknown(const struct rule_context *context)
{
    const struct steps_summary *train = context->train;
    double seen = context->summary->asleep.share[EVENT_PHASES] * train->mean_ns;
    double beside = train->mean_ns;

    for (uint32_t phase = 0; phase < EVENT_PHASES; phase++)
        beside -= isnan(train->phase_ns[phase]) ? 0 : train->phase_ns[phase];
    return seen > beside ? seen - fmax(beside, 0) : 0;
}

static struct asleep_part look_at(const struct rule_context *context,
                                  enum event_phase phase)
{
    const struct asleep *asleep = &context->summary->asleep;
    const struct steps_summary *train = context->train;
    struct asleep_part part = {.phase = phase,
                               .ns = asleep->share[phase] * train->mean_ns,
                               .error_ns = asleep->error[phase] * train->mean_ns,
                               .place = asleep->place[phase]};
    double more = phase == EVENT_PHASE_FORWARD ? in_forward_unknown(context) : 0;

    if (more > part.ns) {
        part.place = asleep->place[EVENT_PHASES];
        part.error_ns = asleep->error[EVENT_PHASES] * train->mean_ns;
    }
    part.ns += more - told_elsewhere(context, phase);
    if (part.ns > train->phase_ns[phase])
        part.ns = train->phase_ns[phase];
    return part;
}

/* What the kernel's own function says of the wait: what it is, and what to look for. */
struct wait_kind {
    const char *place, *what, *advice;
};

static const struct wait_kind *kind_of(const char *place)
{
    static const struct wait_kind kinds[] = {
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
    static const struct wait_kind unknown = {
        "", "", "sleeps, locks, files, requests and child processes"};

    for (size_t i = 0; i < sizeof(kinds) / sizeof(kinds[0]); i++)
        if (strstr(place, kinds[i].place) != NULL)
            return &kinds[i];
    return &unknown;
}

static void describe(struct rule_context *context, struct finding *finding,
                     const struct asleep_part *part, const char *name)
{
    const struct wait_kind *kind = kind_of(part->place);
    double step = context->train->mean_ns;

    finding->title = rule_print(context, "The training thread sleeps in %s", name);
    finding->formula =
        rule_print(context, "%.3g %% of the looks, off the CPU in %s * %s = %s",
                   100 * part->ns / step, name, rule_ms(context, step),
                   rule_ms(context, part->ns));
    finding->sentence =
        rule_print(context,
                   "For %s of each step, in %s, the training thread is off the CPU "
                   "with no op open%s%s",
                   rule_ms(context, part->ns), name,
                   kind->what[0] == '\0' ? "" : ", mostly ", kind->what);
    finding->wrong_if =
        context->summary->ranks.row_count > 1
            ? "The ranks exchange something there, and none of them is late."
            : "Somebody else's result is really needed there, and no sooner.";
    rule_evidence(context, finding, "asleep_ms", part->ns / NS_PER_MS);
    rule_evidence_text(context, finding, "part", name);
    rule_evidence(context, finding, "looks", context->summary->asleep.looks);
    rule_evidence_text(context, finding, "kernel_function", part->place);
    rule_advise(finding, rule_print(context, "Look in %s for %s", name, kind->advice));
    if (context->summary->head.live && context->summary->head.pid != 0)
        rule_advise_in(context, finding,
                       rule_print(context,
                                  "`py-spy dump --pid %u`, a few times, names the line",
                                  context->summary->head.pid),
                       NULL);
}

static void find_in(struct rule_context *context, enum event_phase phase,
                    const char *name)
{
    struct asleep_part part = look_at(context, phase);
    double least = rule_least(context, part.ns, part.error_ns);

    if (!(least / context->train->mean_ns >= context->threshold))
        return;
    struct finding *finding = rule_add(context, name, name);

    if (finding == NULL)
        return;
    rule_price(context, finding, part.ns, part.error_ns);
    rule_claim(finding, (enum claim_part)phase, CLAIM_PYTHON, part.ns);
    describe(context, finding, &part, name);
}

/* Data is the loader's rule's, and in backward others are waited for. Beside a device the
 * host waits for it. */
static void find_asleep(struct rule_context *context)
{
    if (context->summary->asleep.looks == 0 || context->summary->gpu.device_count > 0 ||
        rule_number(context, FACT_DEVICE_COUNT) > 0)
        return;
    find_in(context, EVENT_PHASE_FORWARD, "forward");
    find_in(context, EVENT_PHASE_OPTIMIZER, "optimizer");
}

const struct rule rules_asleep[] = {
    {{.id = "thread-asleep",
      .reads = "state of the training thread (/proc/PID/task/TID/stat), its open ops",
      .formula = "share of looks in which it is off the CPU, no op open * step",
      .threshold = 0.05,
      .unit = "share of the step",
      .min = 0,
      .max = 1,
      .source = TWENTIETH,
      .owner = OWNER_OPS - 10,
      .trend = true,
      .sampled = true},
     find_asleep},
    {.find = NULL},
};
