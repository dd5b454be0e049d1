/* Tables to findings: what costs time, how much of it, and what to do about it.
 *
 * One rule is one row of a table and one pure function over a summary: no clock, no
 * store, no memory of earlier answers. A price is in ns per step and comes with its
 * formula and the numbers in it.
 *
 * The interval of a price is the 95 % interval of the means that its formula reads:
 * t(0.975, n - 1) * s / sqrt(n), with s the spread of n steps, n made smaller where
 * neighbouring steps are alike (query/numbers.h), and carried through the formula to
 * first order (JCGM 100:2008, 5.1.2). Where a rule does not know which part of a time
 * can be won back it says half of it, and the interval reaches from a quarter to three
 * quarters: such a price is estimated, not measured. No price is more than what its evidence
 * takes, and neither it nor its interval reaches beyond the step.
 *
 * What is avoidable: each rule has its place in the order of owners. An instant that
 * several findings claim belongs to the first owner; the others own what is left. What
 * cannot be told apart (the same part of the step, the same kind of wait) is taken for
 * the same instants, but for claims that were reckoned without each other, such as the
 * wait for first batches of epochs and that for all others. Nobody owns more than the
 * part has, all waits of a kind together no more than the device idles for that cause,
 * all waits no more than it is idle, all work no more than it is busy.
 */
#ifndef FINDINGS_FINDINGS_H
#define FINDINGS_FINDINGS_H

#include <stdbool.h>
#include <stdint.h>

#include "query/bottlenecks_query.h"
#include "query/what_if.h"

/* Of one summary: of a rule of devices one for each of eight, and half of the others. */
#define FINDINGS_MAX   80u
#define RULES_MAX      96u
#define FINDING_OPS    4u
#define FINDING_ADVICE 4u
#define FINDING_CLAIMS 5u

enum finding_severity { FINDING_LOW, FINDING_MEDIUM, FINDING_HIGH };

/* One thing that was measured; the key carries its unit (data_ms, workers). */
struct finding_evidence {
    const char *key;
    const char *text; /* NULL: it is a number */
    double number;
};

/* The part of a step that a fix would make shorter. */
enum claim_part {
    PART_DATA,
    PART_FORWARD,
    PART_BACKWARD,
    PART_OPTIMIZER,
    PART_OTHER,
    CLAIM_PARTS,
};

/* What happens there meanwhile. Two kinds share no instant; two findings of one kind in
 * one part may be about the same. */
enum claim_kind {
    CLAIM_WAIT,   /* for the next batch */
    CLAIM_CALLS,  /* ops are called and launched */
    CLAIM_PYTHON, /* code between the ops */
    CLAIM_SYNC,   /* the host waits for the device */
    CLAIM_COPY,   /* the host is in calls that copy */
    CLAIM_ALLOC,  /* or that take memory or give it back */
    CLAIM_SETUP,  /* what is done once: contexts, loading of kernels, captures */
    CLAIM_PEERS,  /* other ranks are late */
    CLAIM_WORK,   /* the device's own work, that a fix makes less of */
    CLAIM_ANY,    /* a wait for whatever; it may be the same as for calls */
    CLAIM_KINDS,
};

struct finding_claim {
    enum claim_part part;
    enum claim_kind kind;
    double ns;  /* per step */
    bool apart; /* reckoned without what other such claims of its place hold */
};

struct finding {
    const char *id; /* the rule, or the rule and 8 hex digits of its subject */
    const struct finding_rule *rule;
    const char *title; /* what happens, in the user's terms */
    enum finding_severity severity;
    /* A risk that ends the run within the hour: it stands before all others. */
    bool urgent;
    bool open; /* it costs time now, and nobody knows how much: its price is 0 */
    bool from_elsewhere; /* another look found it: it owns nothing of this one */
    double ns_per_step;  /* recoverable; 0 where it is a risk and costs no time yet */
    double low_ns, high_ns; /* its interval; NaN where too few steps say nothing */
    double error_ns; /* half of the part of it that more steps make narrower; NaN */
    double takes_ns; /* what its evidence takes, per step; NaN: no more than the step */
    bool estimated;  /* the price rests on a guess beside the measurement */
    double share;    /* of the mean step */
    struct finding_claim claims[FINDING_CLAIMS];
    uint32_t claim_count;
    double owned_ns;        /* its part of the avoidable time */
    bool dismissed, pinned; /* by the user; dismissed: it owns nothing */
    const char *reason;     /* of the user, "" none */
    int64_t since_step;     /* live: the first step that showed it; else NOT_KNOWN */
    const char *formula;    /* with its numbers */
    const char *sentence;   /* the evidence in one sentence */
    struct finding_evidence *evidence;
    uint32_t evidence_count;
    const char *advice[FINDING_ADVICE]; /* first the best; code between backticks */
    uint32_t advice_count;
    const char *wrong_if; /* what would make this wrong */
    const char *colour;   /* of its cause: data, forward, ..., allocated, host */
    int64_t first_step, last_step; /* to be shown; NOT_KNOWN: no stretch */
    /* Whose trace shows it; NOT_KNOWN none. A rule sets it where not any long step does. */
    int64_t worst_step;
    const char *ops[FINDING_OPS]; /* to be pinned */
    uint32_t op_count;
};

struct findings {
    struct arena arena;
    struct finding *list; /* dearest first, risks before what is cheap; NULL of none */
    uint32_t count;
    double avoidable_ns; /* per step, no instant twice: the sum of owned_ns */
    const char
        *verdict; /* a sentence where there is nothing to gain, else "" or NULL */
};

/* A rule as it is documented and configured. */
struct finding_rule {
    const char *id;
    const char *reads;   /* which numbers */
    const char *formula; /* how the price comes about */
    double threshold; /* from here on there is a finding (memory-growth: a high one) */
    const char *unit; /* of the threshold */
    int64_t min, max; /* of the threshold, as it may be configured */
    const char *source; /* why this threshold */
    uint32_t owner;     /* place among the owners of an instant: the least owns it */
    double
        stays; /* share of the threshold below which a finding goes; 0: FINDING_STAYS */
    bool trend;   /* a few steps say nothing: judged over the usual window alone */
    bool early;   /* a trend of which a few steps may be sure: then they are believed */
    bool sampled; /* reads what only steps hold that were recorded in full */
    bool records; /* reads ranges or GPU work of each step, but for what was lost */
    /* Its price lies in no phase, and what comes at a period there has no part in it. */
    bool left_of_other;
    bool outside; /* its price lies in no step: it may be more than one takes */
    /* Of its findings, where the rule says nothing else: as theirs. Advice comes behind what
     * the rule gives; in torch's words, and for a job without Python; NULL: none. */
    const char *title, *wrong_if;
    struct {
        const char *torch, *native;
    } advice[FINDING_ADVICE];
};

/* Noise of a tenth on either side of a threshold neither brings nor takes a finding. */
#define FINDING_STAYS 0.8

/* The tables' rows: a pointer for each, then NULL. */
const struct finding_rule *findings_rule(uint32_t index);

/* The rule of a finding's id: its own, or followed by - and 8 hex digits of a subject.
 * NULL: no rule has findings of that id. */
const struct finding_rule *findings_rule_of(const char *id);

/* Thresholds in the table's order; NaN keeps the table's own. */
struct findings_settings {
    double thresholds[RULES_MAX];
    bool relaxed; /* also what only stays: below the threshold, but not below `stays` */
    bool by_price; /* as for what stands: the lower end of an interval may lie below */
    /* By rule: what stands of it does so as a risk. A lower threshold makes no price of a
     * device's work then. */
    bool risks[RULES_MAX];
};

void findings_settings_init(struct findings_settings *settings);

/* False when there is no such rule. */
MUST_CHECK bool findings_settings_set(struct findings_settings *settings,
                                      const char *rule, double threshold);

/* The thresholds of this process, from its configuration. Before any thread looks. */
void findings_configure(const struct findings_settings *settings);

/* Those, else the tables' own. */
struct findings_settings findings_configured(void);

/* The share of a step from which on a finding of this id is told, as configured; NaN: no rule
 * has such ones, or something else decides. */
double findings_begin_at(const char *id);

/* Of fewer steps nothing is found. */
uint64_t findings_steps_needed(bool from_file);

/* The verdict on a trace of another producer: the rules and their advice are PyTorch's. */
#define FINDINGS_FOREIGN "This is not a PyTorch trace: there are no findings for it."

/* Enough steps of PyTorch for findings_find() to look. */
bool findings_are_sought(const struct bottlenecks_answer *summary);

/* `settings` NULL = those of findings_configured(). Nothing points into `summary`
 * afterwards; findings_free() is owed. Without enough steps there are no findings. */
void findings_find(const struct bottlenecks_answer *summary,
                   const struct findings_settings *settings, struct findings *findings);
void findings_free(struct findings *findings);

/* A copy that shares nothing with `finding`, at its place among those of `to`; nothing where
 * these are FINDINGS_MAX, or without memory. Who owns what is settled anew by its caller. */
void findings_add_copy(struct findings *to, const struct finding *finding);

/* Who owns what, anew, and the verdict: after a finding was dismissed. findings_find()
 * did it once. */
void findings_settle(const struct bottlenecks_answer *summary,
                     struct findings *findings);

/* Of the data loader as it is configured, or as it is advised where it loads in the trainer. */
struct loading_saves findings_loading_saves(const struct bottlenecks_answer *summary);

/* What happens while a device idles for the cause. */
enum claim_kind findings_kind_of(enum gpu_idle cause);

/* The sentence for what was settled: that the device computes nearly all the time and no
 * finding gives much back; "" where that is not so. */
const char *findings_verdict(const struct bottlenecks_answer *summary,
                             struct findings *findings);

#endif
