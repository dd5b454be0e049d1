/* Ranks on the CPU: the training thread in collectives, where it waits for its peers. Beside a
 * device the device's own waits tell (collective-wait, exposed-communication). */
#include <math.h>
#include <string.h>

#include "findings/rules.h"

static bool begins(const char *name, const char *const *with)
{
    for (; *with != NULL; with++)
        if (strncmp(name, *with, strlen(*with)) == 0)
            return true;
    return false;
}

/* Of a step: in calls that return when the exchange is over, or at once and wait elsewhere; in
 * the exchanges themselves, which other threads may do beside the training; and in all else. */
struct exchange {
    double called_ns, done_ns, computed_ns;
    const struct op_row *dearest;
};

static void add(struct exchange *exchange, const struct op_row *row)
{
    static const char *const calls[] = {"c10d::", "_c10d_functional::", NULL};
    static const char *const done[] = {"gloo:", "mpi:", "ucc:", NULL};
    double total = row->mean_ns * row->per_step_count;

    if (begins(row->name, calls))
        exchange->called_ns += total;
    else if (begins(row->name, done))
        exchange->done_ns += total;
    else if (strcmp(row->kind, "op") == 0 &&
             strncmp(row->name, "record_param_comms", 18) != 0)
        exchange->computed_ns += row->per_step_ns;
    else
        return;
    if ((begins(row->name, calls) || begins(row->name, done)) &&
        (exchange->dearest == NULL ||
         total > exchange->dearest->mean_ns * exchange->dearest->per_step_count))
        exchange->dearest = row;
}

/* What may run beside no op: no more than the step has beside these. A call may lie in an op
 * of its own, or beside one in another thread. */
static double exposed_ns(const struct exchange *exchange, double step_ns)
{
    double beside = fmin(exchange->done_ns, step_ns - exchange->computed_ns);

    return fmin(fmax(exchange->called_ns, beside), step_ns);
}

static void find_wait(struct rule_context *context)
{
    const struct ops_answer *cpu = &context->summary->cpu;
    double step = context->train->mean_ns;
    struct exchange exchange = {0};

    for (uint32_t i = 0; i < cpu->judged_count; i++)
        add(&exchange, &cpu->rows[i]);
    double waits = exchange.dearest == NULL ? 0 : exposed_ns(&exchange, step);

    if (rule_device(context) != NULL || !rule_reaches(context, waits))
        return;
    struct finding *finding = rule_add_price_half(
        context, NULL, "other", waits,
        rule_error_of_recorded(context, waits, cpu->head.recorded_steps));

    rule_claim_model(context, finding, CLAIM_PEERS, waits / 2);
    finding->title = "The ranks wait for each other";
    finding->formula = rule_print(
        context,
        "%s in collectives / 2 = %s; how much of it is the peers' is not known",
        rule_ms(context, waits), rule_ms(context, waits / 2));
    finding->sentence = rule_print(
        context,
        exchange.called_ns >= waits
            ? "%s of %s of a step are spent in calls of collectives, most in %s"
            : "Up to %s of %s of a step are exchanges while no op runs, most in %s",
        rule_ms(context, waits), rule_ms(context, step), exchange.dearest->name);
    finding->wrong_if = "The exchange itself takes that long: then the network is the "
                        "limit, not the peers.";
    rule_evidence_ms(finding, "wait_ms", waits);
    rule_evidence(finding, "share_pct", 100 * waits / step);
    rule_evidence_text(context, finding, "op", exchange.dearest->name);
    rule_evidence(finding, "op_calls_per_step", exchange.dearest->per_step_count);
    rule_pin(context, finding, exchange.dearest->name);
    rule_advise(finding,
                "Give all ranks the same work: equal batches, lengths and data speed");
    rule_advise(finding, "No `torch.distributed.barrier()` in the loop");
    rule_advise(
        finding,
        rule_is_replicated(context)
            ? "Communicate less often: `no_sync()` with gradient accumulation"
            : "Communicate less often: larger batches, or exchanges that are joined");
}

const struct rule rules_communication[] = {
    RULE("communication-wait", find_wait, OWNER_OPS - 1, RULE_SAMPLED,
         "of jobs on the CPU: ops and ranges of collectives",
         "max(time in c10d calls, time of exchanges beside no op) / 2",
         SHARE_OF_STEP(0.1, "less of it is the exchange itself")),
    {.told = {.id = NULL}},
};
