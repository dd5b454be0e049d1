/* The rule over another thread of the job that keeps Python's lock from the training
 * thread. */
#include "findings/looks.h"

static void find_lock(struct rule_context *context)
{
    struct looks_lock lock = looks_lock(context);
    static const char *const keys[EVENT_PHASES + 1] = {
        "data_ms", "forward_ms", "backward_ms", "optimizer_ms", "other_ms"};
    const struct between_ops *between = &context->summary->between_ops;
    double step = context->train->mean_ns;

    if (!(rule_least(context, lock.sum_ns, lock.error_ns) / step >= context->threshold))
        return;
    struct finding *finding = rule_add(context, NULL, "other");

    rule_price(context, finding, lock.sum_ns, lock.error_ns);
    rule_claim(finding, PART_DATA, CLAIM_WAIT, lock.ns[EVENT_PHASE_DATA]);
    rule_claim(finding, PART_FORWARD, CLAIM_PYTHON, lock.ns[EVENT_PHASE_FORWARD]);
    rule_claim(finding, PART_BACKWARD, CLAIM_PYTHON, lock.ns[EVENT_PHASE_BACKWARD]);
    rule_claim(finding, PART_OPTIMIZER, CLAIM_PYTHON, lock.ns[EVENT_PHASE_OPTIMIZER]);
    rule_claim(finding, PART_OTHER, CLAIM_PYTHON, lock.ns[EVENT_PHASES]);
    finding->title = "Another thread keeps Python's lock (the GIL) from the training";
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
    finding->wrong_if =
        "The training waits for that thread's results, wherever it does.";
    for (uint32_t part = 0; part <= EVENT_PHASES; part++)
        if (lock.ns[part] > 0)
            rule_evidence(finding, keys[part], lock.ns[part] / NS_PER_MS);
    rule_evidence(finding, "looks", between->looks);
    rule_evidence(finding, "thread", between->runner);
    rule_evidence_text(context, finding, "thread_name", between->runner_name);
    if (context->summary->head.live && context->summary->head.pid != 0)
        rule_advise_print(context, finding,
                          "`py-spy dump --pid %u` names the lines of all threads: "
                          "look for the one that computes in Python",
                          context->summary->head.pid);
    rule_advise(finding,
                "Do its work in a process (`multiprocessing`, the workers of a "
                "`DataLoader`), or before the training");
    rule_advise(finding,
                "`sys.setswitchinterval(0.0005)`: a thread that computes gives "
                "the lock back after 0.5 ms instead of 5 ms");
}

const struct rule rules_interpreter[] = {
    {{.id = "interpreter-lock",
      .reads = "states of the job's threads (/proc/PID/task/TID/stat), open ops",
      .formula =
          "share of looks in which the training thread waits for a thread, no op "
          "open, and another one runs; in two phases at least * step",
      SHARE_OF_STEP(0.03, SMALLEST),
      .owner = OWNER_OPS - 20,
      EARLY_TREND,
      .sampled = true},
     .find = find_lock},
    {.find = NULL},
};
