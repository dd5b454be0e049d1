/* What a rule sees and what it can say. */
#ifndef FINDINGS_RULES_H
#define FINDINGS_RULES_H

#include "findings/findings.h"
#include "wire/facts.h"

#define NS_PER_MS 1e6
#define MIB       (1024.0 * 1024)
#define GIB       (1024.0 * 1024 * 1024)

/* Whose time a finding would give back: claims on the same part count once. */
enum claim {
    CLAIM_DATA,
    CLAIM_FORWARD,
    CLAIM_BACKWARD,
    CLAIM_OPTIMIZER,
    CLAIM_OTHER,
    CLAIMS,
};

struct rule_context {
    const struct bottlenecks_answer *summary;
    const struct steps_summary *train;
    double threshold;
    struct findings *findings;
    double claims[CLAIMS]; /* ns per step: the largest of all findings so far */
};

typedef void rule_function(struct rule_context *context);

rule_function rule_data_loading, rule_unsteady_steps, rule_validation_share;
rule_function rule_launch_bound, rule_device_sync, rule_host_copies, rule_device_alloc,
    rule_collective_wait, rule_python_between_ops;
rule_function rule_memory_full, rule_memory_growth, rule_tiny_ops, rule_optimizer_loop;

/* A number of the facts; NaN when it is not known. A bool is 0 or 1. */
double rule_number(const struct rule_context *context, const char *key);
const char *rule_text(const struct rule_context *context, const char *key); /* "" */

/* A new finding with its id and colour, the window as its stretch; NULL when there are
 * too many. `subject` NULL: the rule itself. */
struct finding *rule_add(struct rule_context *context, const char *rule,
                         const char *subject, const char *colour);

/* Price, share and severity by it. */
void rule_price(struct rule_context *context, struct finding *finding, double ns);

/* `ns` per step of that part would be given back. */
void rule_claim(struct rule_context *context, enum claim claim, double ns);

void rule_evidence(struct rule_context *context, struct finding *finding,
                   const char *key, double number);
void rule_evidence_text(struct rule_context *context, struct finding *finding,
                        const char *key, const char *text);
void rule_advise(struct finding *finding, const char *advice);

/* ns as people read it: "631 us", "14.3 ms", "1.32 s". */
const char *rule_ms(struct rule_context *context, double ns);

/* Text of the findings' arena. */
const char *rule_print(struct rule_context *context, const char *format, ...)
    PRINTF(2, 3);

#endif
