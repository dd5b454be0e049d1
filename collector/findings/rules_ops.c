/* Rules over ops: too many small ones, an optimizer that loops. */
#include <math.h>
#include <string.h>

#include "findings/rules.h"

/* What calling an op costs before it works: dispatch, autograd, allocation. */
#define CALL_NS 2000.0

/* Fewer in a step cannot matter. */
#define CALLS_NEEDED 100.0

static void pin_short_ops(const struct rule_context *context, struct finding *finding)
{
    const struct ops_answer *cpu = &context->summary->cpu;

    for (uint32_t i = 0; i < cpu->row_count && finding->op_count < FINDING_OPS; i++) {
        const struct op_row *row = &cpu->rows[i];

        if (strcmp(row->kind, "op") == 0 && row->count > 0 &&
            row->self_ns / row->count < OPS_SHORT_NS)
            finding->ops[finding->op_count++] =
                arena_text(&context->findings->arena, row->name);
    }
}

static void find_tiny(struct rule_context *context)
{
    const struct ops_answer *cpu = &context->summary->cpu;
    double calls = cpu->short_count, self = cpu->short_self_ns;

    /* Beside a device calls cost only what the device waits for them: launch-bound. */
    if (!(calls >= CALLS_NEEDED) || rule_number(context, FACT_COMPILE_USED) > 0 ||
        context->summary->gpu.device_count > 0)
        return;
    double each = self / calls < CALL_NS ? self / calls : CALL_NS;
    double price = calls * each, step = context->train->mean_ns;

    if (!(price / step >= context->threshold))
        return;
    struct finding *finding = rule_add(context, NULL, "forward");

    if (finding == NULL)
        return;
    rule_price(context, finding, price,
               rule_error_of_recorded(context, price, cpu->head.recorded_steps));
    /* Half of what a call costs stays with the larger op; all of it may be overhead. */
    rule_price_between(finding, price / 2, self);
    rule_claim_model(context, finding, CLAIM_CALLS, price);
    finding->title = "Many ops are too small to be worth their call";
    finding->formula =
        rule_print(context, "%.0f calls * min(%.3g us, %.3g us) = %s", calls,
                   self / calls / 1000, CALL_NS / 1000, rule_ms(context, price));
    finding->sentence =
        rule_print(context, "%.0f ops per step run for %.3g us on average, %s together",
                   calls, self / calls / 1000, rule_ms(context, self));
    finding->wrong_if =
        "The GPU is busy all the time: then calls are hidden behind it.";
    rule_evidence(context, finding, "calls_per_step", calls);
    rule_evidence(context, finding, "mean_us", self / calls / 1000);
    rule_evidence(context, finding, "together_ms", self / NS_PER_MS);
    rule_advise(finding, "`model = torch.compile(model)` makes few large ops of them");
    rule_advise(finding, "Work on whole tensors instead of loops over their parts; "
                         "larger batches make each call worth more");
    pin_short_ops(context, finding);
}

static void find_loop(struct rule_context *context)
{
    double optimizer = context->train->phase_ns[EVENT_PHASE_OPTIMIZER];
    double step = context->train->mean_ns;
    double foreach = rule_number(context, FACT_OPTIMIZER_FOREACH);
    double fused = rule_number(context, FACT_OPTIMIZER_FUSED);
    double tensors = rule_number(context, FACT_OPTIMIZER_PARAMETERS);
    const char *class = rule_text(context, FACT_OPTIMIZER_CLASS);
    bool host = strncmp(rule_text(context, FACT_OPTIMIZER_DEVICE), "cpu", 3) == 0;
    /* Left to torch, accelerators get foreach and the CPU gets the loop. */
    bool loops = fused != 1 && (foreach == 0 || (isnan(foreach) && host));

    if (!(optimizer / step >= context->threshold) || class[0] == '\0' || !loops)
        return;
    struct finding *finding = rule_add(context, NULL, "optimizer");

    if (finding == NULL)
        return;
    rule_price_half(context, finding, optimizer,
                    rule_error_of_phase(context, EVENT_PHASE_OPTIMIZER));
    rule_claim(finding, PART_OPTIMIZER, CLAIM_CALLS, optimizer / 2);
    finding->title = "The optimizer updates one tensor after the other";
    finding->formula =
        rule_print(context, "%s optimizer / 2 = %s", rule_ms(context, optimizer),
                   rule_ms(context, optimizer / 2));
    finding->sentence =
        isnan(tensors)
            ? rule_print(context, "%s takes %s of a step, neither fused nor foreach",
                         class, rule_ms(context, optimizer))
            : rule_print(context,
                         "%s takes %s of a step for %.0f tensors, neither fused "
                         "nor foreach",
                         class, rule_ms(context, optimizer), tensors);
    finding->wrong_if = "A few large tensors hold nearly all parameters, or the class "
                        "has no fused form in your version of torch.";
    rule_evidence(context, finding, "optimizer_ms", optimizer / NS_PER_MS);
    rule_evidence(context, finding, "tensors", tensors);
    rule_evidence_text(context, finding, "class", class);
    rule_advise(finding, rule_print(context, "`%s(..., fused=True)`%s", class,
                                    host ? " (on the CPU from torch 2.4 on)" : ""));
    rule_advise(finding, rule_print(context,
                                    "`%s(..., foreach=True)` where there is no "
                                    "fused form",
                                    class));
}

const struct rule rules_ops[] = {
    {{.id = "tiny-ops",
      .reads = "CPU ops below 10 us of self time; compile.used",
      .formula = "calls * min(self time of a call, 2 us)",
      .threshold = 0.10,
      .unit = "share of the step",
      .min = 0,
      .max = 1,
      .source =
          "the cost of a call is an estimate, so twice as much as of what is measured",
      .owner = OWNER_OPS + 1,
      .sampled = true},
     find_tiny},
    {{.id = "optimizer-loop",
      .reads = "phase optimizer; optimizer.foreach, optimizer.fused",
      .formula = "optimizer / 2",
      .threshold = 0.05,
      .unit = "share of the step",
      .min = 0,
      .max = 1,
      .source = TWENTIETH,
      .owner = OWNER_OPS},
     find_loop},
    {.find = NULL},
};
