/* Rules over a training thread that is in no op: asleep of its own will, at work on other code
 * (query/bottlenecks_query.h), or kept from Python's lock by another thread. */
#include <math.h>
#include <string.h>

#include "findings/looks.h"
#include "findings/settings.h"

/* For the last rank it waits on purpose: that one is the finding. */
static double waits_for_rank(const struct rule_context *context, enum event_phase phase)
{
    const struct ranks_answer *ranks = &context->summary->ranks;
    bool here = ranks->slowest >= 0 && ranks->slowest != context->summary->head.rank &&
                ranks->waits_in == (uint32_t)phase;

    return here && ranks->slowest_price_ns > 0 ? ranks->slowest_price_ns : 0;
}

static bool is_in(const struct rhythm_extra *extra, enum event_phase phase)
{
    return extra->steps > 0 && extra->part == (uint32_t)phase;
}

static double told_by(const struct rule_context *context,
                      const struct rhythm_extra *extra, enum event_phase phase,
                      const char *rule)
{
    bool told =
        is_in(extra, phase) &&
        extra->ns_per_step >= rule_threshold(context, rule) * context->train->mean_ns;

    return told ? extra->ns_per_step : 0;
}

/* A finding that stands since a few seconds makes the later steps of a window longer: that
 * is no drift, and no unsteadiness beside it. */
static double told_elsewhere(const struct rule_context *context, enum event_phase phase)
{
    const struct rhythm *rhythm = &context->summary->rhythm;
    double ns = (is_in(&rhythm->gc, phase) ? rule_told_collections_ns(context) : 0) +
                told_by(context, &rhythm->warm_up, phase, "warm-up") +
                told_by(context, &rhythm->epoch, phase, "epoch-start") +
                told_by(context, &rhythm->period, phase, "periodic-steps");

    if (!context->by_price)
        ns += (is_in(&rhythm->drift, phase) ? rule_told_drift_ns(context) : 0) +
              (is_in(&rhythm->rest, phase) ? rule_told_unsteady_ns(context) : 0);
    return ns + waits_for_rank(context, phase);
}

struct asleep_part {
    enum event_phase phase;
    double ns, error_ns; /* per step */
    double before_ns;    /* of it, in no phase: before the forward pass */
    const char *place;
};

/* Most of what was seen in forward or before it lies there. */
static const char *forward_name(double ns, double before_ns)
{
    return 2 * before_ns > ns ? "the time before the forward pass" : "forward";
}

/* Claimed of both. */
static void claim_forward(struct finding *finding, enum claim_kind kind, double ns,
                          double before_ns)
{
    rule_claim(finding, PART_OTHER, kind, fmin(ns, before_ns));
    rule_claim(finding, PART_FORWARD, kind, ns - fmin(ns, before_ns));
}

static struct asleep_part look_at(const struct rule_context *context,
                                  enum event_phase phase)
{
    const struct between_ops *between = &context->summary->between_ops;
    const struct between_ops_share *nowhere = &between->asleep[EVENT_PHASES];
    const struct steps_summary *train = context->train;
    struct between_ops_share share = between->asleep[phase];
    double most = train->phase_ns[phase], unknown = 0, before = 0;
    uint32_t place = phase;

    if (phase == EVENT_PHASE_FORWARD) {
        before = rule_before_forward_ns(context);
        unknown = looks_forward_unknown(context, nowhere->share);
        if (unknown > share.share * train->mean_ns)
            place = EVENT_PHASES;
        share = looks_in_forward(context, &between->asleep[phase], nowhere);
        most += before;
    }
    double ns = share.share * train->mean_ns - told_elsewhere(context, phase) -
                looks_lock(context).ns[phase];

    return (struct asleep_part){
        .phase = phase,
        .ns = ns > most ? most : ns,
        .error_ns = share.error * train->mean_ns,
        .before_ns = fmin(unknown, before),
        .place = between->place[place],
    };
}

/* What it may sleep for, where ranks exchange something and the kernel says that it waits for
 * a thread: gloo's threads do the work of a collective. So do those of a queue theirs. */
static const struct op_row *exchange_of(const struct rule_context *context,
                                        const struct asleep_part *part)
{
    return strstr(part->place, "futex") != NULL ? looks_exchange(context) : NULL;
}

static void advise_wait(struct rule_context *context, struct finding *finding,
                        const struct asleep_part *part, const char *name)
{
    rule_advise_print(context, finding, "Look in %s for %s", name,
                      looks_wait(part->place)->advice);
    if (context->summary->head.live && context->summary->head.pid != 0)
        rule_advise_in(context, finding,
                       rule_print(context,
                                  "`py-spy dump --pid %u`, a few times, names the line",
                                  context->summary->head.pid),
                       NULL);
}

static void describe(struct rule_context *context, struct finding *finding,
                     const struct asleep_part *part, const char *name)
{
    const struct op_row *exchange = exchange_of(context, part);
    const char *what =
        exchange == NULL
            ? looks_wait(part->place)->what
            : "waiting for another thread, as in an exchange between ranks";
    double step = context->train->mean_ns;

    finding->title = rule_print(
        context,
        exchange == NULL ? "The training thread sleeps in %s"
                         : "Communication: in %s the ranks may wait for each other",
        name);
    finding->formula =
        rule_print(context, "%.3g %% of the looks, off the CPU in %s * %s = %s",
                   100 * part->ns / step, name, rule_ms(context, step),
                   rule_ms(context, part->ns));
    finding->sentence = rule_print(
        context,
        "For %s of each step, in %s, the training thread is off the CPU with no op "
        "open%s%s%s",
        rule_ms(context, part->ns), name, what[0] == '\0' ? "" : ", mostly ", what,
        exchange == NULL ? "" : rule_print(context, " (`%s`)", exchange->name));
    finding->wrong_if =
        exchange != NULL
            ? "It waits there for a lock, a queue or a future of its own process."
        : context->summary->ranks.row_count > 1
            ? "The ranks exchange something there, and none of them is late."
            : "Somebody else's result is really needed there, and no sooner.";
    rule_evidence_ms(finding, "asleep_ms", part->ns);
    rule_evidence_text(context, finding, "part", name);
    rule_evidence(finding, "looks", context->summary->between_ops.looks);
    rule_evidence_text(context, finding, "kernel_function", part->place);
    if (exchange == NULL) {
        advise_wait(context, finding, part, name);
        return;
    }
    rule_evidence_text(context, finding, "exchange", exchange->name);
    if (rule_is_sharded(context))
        rule_advise(
            finding,
            "Where memory allows, `fully_shard(..., reshard_after_forward=False)` "
            "gathers each parameter once a step instead of twice; fewer and larger "
            "modules to a `fully_shard` gather less often");
    else if (strstr(exchange->name, "recv") != NULL)
        rule_advise(finding,
                    "In a pipeline more and smaller micro-batches keep its stages "
                    "busy, and stages of like length do not wait for each other");
    rule_advise(finding, "Begin the exchange earlier and wait later: `async_op=True` "
                         "or `dist.irecv`, other work, then `work.wait()`");
}

static void find_in(struct rule_context *context, enum event_phase phase,
                    const char *name)
{
    struct asleep_part part = look_at(context, phase);
    double least = rule_least(context, part.ns, part.error_ns);
    bool forward = phase == EVENT_PHASE_FORWARD;

    if (!rule_reaches(context, least))
        return;
    bool outside = forward && 2 * part.before_ns > part.ns;
    struct finding *finding = rule_add(context, name, outside ? "other" : name);
    enum claim_kind kind =
        exchange_of(context, &part) == NULL ? CLAIM_PYTHON : CLAIM_PEERS;

    rule_price(context, finding, part.ns, part.error_ns);
    if (forward)
        claim_forward(finding, kind, part.ns, part.before_ns);
    else
        rule_claim(finding, (enum claim_part)phase, kind, part.ns);
    describe(context, finding, &part,
             forward ? forward_name(part.ns, part.before_ns) : name);
}

/* Data is the loader's rule's, and in backward others are waited for. Beside a device the
 * host waits for it. */
static void find_asleep(struct rule_context *context)
{
    if (context->summary->between_ops.looks == 0 || rule_has_device(context))
        return;
    find_in(context, EVENT_PHASE_FORWARD, "forward");
    find_in(context, EVENT_PHASE_OPTIMIZER, "optimizer");
}

/* ---- other code ----------------------------------------------------------------------- */

/* Looks fall into batches of validation too: all of theirs may have been other code. */
static double in_training(const struct rule_context *context, double share)
{
    const struct steps_summary *train = context->train;
    const struct steps_summary *validation = &context->summary->steps.validation;
    double beside = validation->count > 0
                        ? (double)validation->count * validation->mean_ns /
                              ((double)train->count * train->mean_ns)
                        : 0;

    return share * (1 + beside) - beside;
}

/* Times in ns per step. */
struct other_code {
    double seen, calling, elsewhere, price, error;
    double before; /* of the price, in no phase: before the forward pass */
};

/* What forward, and what comes before it, takes with no op open and is not asleep: less what
 * calling its ops takes the interpreter, and what other findings tell. */
static struct other_code look_at_code(const struct rule_context *context)
{
    const struct between_ops *between = &context->summary->between_ops;
    struct between_ops_share share =
        looks_in_forward(context, &between->busy_forward, &between->busy_nowhere);
    double step = context->train->mean_ns;
    double before = rule_before_forward_ns(context);
    double unknown = looks_forward_unknown(context, between->busy_nowhere.share);
    double most = context->train->phase_ns[EVENT_PHASE_FORWARD] + before;
    double seen = in_training(context, share.share) * step;
    struct other_code code = {.seen = seen > most ? most : seen,
                              .calling = rule_interpreter_ns(context) * most / step,
                              .elsewhere = told_elsewhere(context, EVENT_PHASE_FORWARD),
                              .error = share.error * step};

    code.price = code.seen - code.calling - code.elsewhere;
    code.before = seen > 0 ? code.price * fmin(fmin(unknown, before) / seen, 1) : 0;
    return code;
}

/* A device is waited for there, what was compiled has no ops, and a job in C calls few. */
static bool tells_other_code(const struct rule_context *context)
{
    return context->summary->between_ops.looks > 0 && !rule_has_device(context) &&
           !(rule_number(context, FACT_COMPILE_USED) > 0) && !context->summary->native;
}

static void find_other_code(struct rule_context *context)
{
    struct other_code code = look_at_code(context);
    double price = code.price, step = context->train->mean_ns;

    if (!tells_other_code(context) ||
        !rule_reaches(context, rule_least(context, price, code.error)))
        return;
    const char *loop = setting_text(context, SETTING_LOOP, NULL);
    const char *name = forward_name(price, code.before);
    bool outside = 2 * code.before > price;
    struct finding *finding =
        rule_add_price(context, NULL, outside ? "other" : "forward", price, code.error);

    claim_forward(finding, CLAIM_PYTHON, price, code.before);
    finding->title = outside ? "Code that is no op takes time before the forward pass"
                             : "Code that is no op takes much of forward";
    finding->formula = rule_print(
        context,
        "%.3g %% of the step, by looks with no op open * %s - %s of calling ops%s = %s",
        100 * code.seen / step, rule_ms(context, step), rule_ms(context, code.calling),
        code.elsewhere > 0 ? rule_print(context, " - %s that other findings tell",
                                        rule_ms(context, code.elsewhere))
                           : "",
        rule_ms(context, price));
    finding->sentence = rule_print(
        context,
        "For %s of each step, in %s, the training thread works on what is no op of "
        "torch: Python of yours, transforms of the batch, %s%snumpy, other libraries",
        rule_ms(context, price), name, loop, loop[0] == '\0' ? "" : ", ");
    rule_evidence_ms(finding, "other_code_ms", price);
    rule_evidence_text(context, finding, "part", name);
    rule_evidence(finding, "looks", context->summary->between_ops.looks);
}

static void find_lock(struct rule_context *context)
{
    struct looks_lock lock = looks_lock(context);
    static const char *const keys[EVENT_PHASES + 1] = {
        "data_ms", "forward_ms", "backward_ms", "optimizer_ms", "other_ms"};
    const struct between_ops *between = &context->summary->between_ops;
    double step = context->train->mean_ns;

    if (!rule_reaches(context, rule_least(context, lock.sum_ns, lock.error_ns)))
        return;
    struct finding *finding =
        rule_add_price(context, NULL, "other", lock.sum_ns, lock.error_ns);

    rule_claim(finding, PART_DATA, CLAIM_WAIT, lock.ns[EVENT_PHASE_DATA]);
    rule_claim(finding, PART_FORWARD, CLAIM_PYTHON, lock.ns[EVENT_PHASE_FORWARD]);
    rule_claim(finding, PART_BACKWARD, CLAIM_PYTHON, lock.ns[EVENT_PHASE_BACKWARD]);
    rule_claim(finding, PART_OPTIMIZER, CLAIM_PYTHON, lock.ns[EVENT_PHASE_OPTIMIZER]);
    rule_claim(finding, PART_OTHER, CLAIM_PYTHON, lock.ns[EVENT_PHASES]);
    finding->formula = rule_print(
        context, "%.3g %% of the looks, waiting while another thread ran * %s = %s",
        100 * lock.sum_ns / step, rule_ms(context, step),
        rule_ms(context, lock.sum_ns));
    finding->sentence = rule_print(
        context,
        "For %s of each step, in several of its phases, the training thread waits for "
        "a thread while another one of the process runs; thread %u (`%s`) was seen "
        "last",
        rule_ms(context, lock.sum_ns), between->runner, between->runner_name);
    for (uint32_t part = 0; part <= EVENT_PHASES; part++)
        if (lock.ns[part] > 0)
            rule_evidence_ms(finding, keys[part], lock.ns[part]);
    rule_evidence(finding, "looks", between->looks);
    rule_evidence(finding, "thread", between->runner);
    rule_evidence_text(context, finding, "thread_name", between->runner_name);
    if (context->summary->head.live && context->summary->head.pid != 0)
        rule_advise_print(context, finding,
                          "`py-spy dump --pid %u` names the lines of all threads: look "
                          "for the one that computes in Python",
                          context->summary->head.pid);
}

const struct rule rules_between_ops[] = {
    RULE("thread-asleep", find_asleep, OWNER_OPS - 10, RULE_EARLY_TREND | RULE_SAMPLED,
         "state of the training thread (/proc/PID/task/TID/stat), its open ops",
         "share of looks in which it is off the CPU, no op open * step",
         SHARE_OF_STEP(0.03, SMALLEST)),
    RULE("other-code", find_other_code, OWNER_OPS - 5, RULE_EARLY_TREND | RULE_SAMPLED,
         "open ops of the training thread in forward; small ops; validation",
         "share of looks with no op open, awake * step - calling ops - what is told "
         "elsewhere",
         SHARE_OF_STEP(0.03, SMALLEST),
         .wrong_if = "The work is the model's own, and no library does it faster.",
         .advice = {ADVICE(
                        "`trainglass window --steps 10 --stacks` names the lines: "
                        "loops over elements, texts, environments that are simulated"),
                    ADVICE("Work on whole tensors instead, or do it ahead: in the "
                           "workers of a `DataLoader`, or once before the training")}),
    RULE("interpreter-lock", find_lock, OWNER_OPS - 20, RULE_EARLY_TREND | RULE_SAMPLED,
         "states of the job's threads (/proc/PID/task/TID/stat), open ops",
         "share of looks in which the training thread waits for a thread, no op open, "
         "and another one runs; in two phases at least * step",
         SHARE_OF_STEP(0.03, SMALLEST),
         .title = "Another thread keeps Python's lock (the GIL) from the training",
         .wrong_if = "The training waits for that thread's results, wherever it does.",
         .advice = {ADVICE("Do its work in a process (`multiprocessing`, the workers "
                           "of a `DataLoader`), or before the training"),
                    ADVICE("`sys.setswitchinterval(0.0005)`: a thread that computes "
                           "gives the lock back after 0.5 ms instead of 5 ms")}),
    {.told = {.id = NULL}},
};
