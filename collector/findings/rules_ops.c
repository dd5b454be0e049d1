/* Rules over ops: too many small ones, an optimizer that loops, one that takes most. */
#include <math.h>
#include <string.h>

#include "aggregate/collectives.h"
#include "findings/loading_wait.h"
#include "findings/rules.h"
#include "findings/settings.h"

/* What calling an op costs before it works: dispatch, autograd, allocation. */
#define CALL_NS 2000.0

/* The interpreter between two small ops takes as much again as half of their own time:
 * tests/diseases measures loops over rows against one op on all of them. */
#define PYTHON_SHARE 0.5
#define PYTHON_MOST  0.8 /* with slices, indexes and numbers between them */

/* A small network and its optimizer call about two hundred in a step. */
#define CALLS_NEEDED 300.0

/* Of the call itself, per op: what is less than its own time. */
static double call_ns(const struct ops_answer *cpu)
{
    return fmin(cpu->short_self_ns / cpu->short_count, CALL_NS);
}

double rule_interpreter_ns(const struct rule_context *context)
{
    const struct ops_answer *cpu = &context->summary->cpu;

    return cpu->short_count > 0 ? cpu->short_count * call_ns(cpu) * PYTHON_SHARE : 0;
}

static void pin_short_ops(struct rule_context *context, struct finding *finding)
{
    const struct ops_answer *cpu = &context->summary->cpu;

    for (uint32_t i = 0; i < cpu->judged_count; i++) {
        const struct op_row *row = &cpu->rows[i];

        if (strcmp(row->kind, "op") == 0 && row->count > 0 &&
            row->self_ns / row->count < OPS_SHORT_NS)
            rule_pin(context, finding, row->name);
    }
}

/* Where the dearest of them is called from. */
static void tell_caller(struct rule_context *context, struct finding *finding)
{
    const struct ops_answer *cpu = &context->summary->cpu;

    for (uint32_t i = 0; i < cpu->judged_count; i++) {
        const struct op_row *row = &cpu->rows[i];

        if (finding->op_count == 0 || strcmp(row->name, finding->ops[0]) != 0 ||
            row->caller == NULL || row->caller[0] == '\0')
            continue;
        rule_evidence_text(context, finding, "caller", row->caller);
        finding->sentence = rule_print(context, "%s; %s is mostly called from `%s`",
                                       finding->sentence, row->name, row->caller);
        return;
    }
}

/* What stays of an update that is fused: a fifth, for reading and calling, and on the CPU
 * the time of its numbers in memory; both measured with Adam by tests/diseases. A device
 * moves them a hundred times as fast, and the host does not wait for it. */
#define FUSED_SHARE      0.2
#define FUSED_ELEMENT_NS 1.0

/* The optimizer's time where nothing says that it updates its tensors together, and it could:
 * several tensors, op by op. Else 0. Only torch's optimizers with a fused form are known to be
 * better off. */
static double loop_ns(const struct rule_context *context)
{
    static const char *const fused[] = {"Adagrad", "Adam", "AdamW", "SGD"};
    const char *class = rule_text(context, FACT_OPTIMIZER_CLASS);
    double optimizer = rule_phase_ns(context, EVENT_PHASE_OPTIMIZER);
    double foreach = rule_number(context, FACT_OPTIMIZER_FOREACH);
    bool host = strncmp(rule_text(context, FACT_OPTIMIZER_DEVICE), "cpu", 3) == 0;
    /* Left to torch, accelerators get foreach and the CPU gets the loop. */
    bool loops =
        foreach == 0 || (isnan(foreach) && host && !context->summary->head.from_file);
    bool known = false;

    for (size_t i = 0; i < sizeof(fused) / sizeof(fused[0]); i++)
        known = known || strcmp(class, fused[i]) == 0;
    return known && loops && optimizer > 0 &&
                   rule_number(context, FACT_OPTIMIZER_FUSED) != 1 &&
                   !(rule_number(context, FACT_OPTIMIZER_COMPILED) > 0) &&
                   rule_number(context, FACT_OPTIMIZER_PARAMETERS) != 1
               ? optimizer
               : 0;
}

/* Batches differ in size so much that their steps do: compiled code is made anew for some. */
#define SIZES_DIFFER 0.03 /* of the step */

/* What was tried: BERT of a few layers of 128 in transformers' Trainer took 17.3 ms a step, and
 * 21.4 compiled; GPT-2 with LoRA came out between 7 % faster and 10 % slower. */
static void advise_tiny(struct rule_context *context, struct finding *finding)
{
    const struct rhythm_extra *sizes = &context->summary->rhythm.sizes;
    bool vary = sizes->steps > 0 &&
                sizes->ns_per_step >= SIZES_DIFFER * context->train->mean_ns;

    rule_advise(finding, "Work on whole tensors instead of loops over their parts; "
                         "larger batches make each call worth more");
    if (vary)
        rule_advise(finding, "Pad batches to few shapes before you try "
                             "`torch.compile`: each new shape may compile anew");
    else
        setting_advise(
            context, finding, SETTING_COMPILE, NULL,
            " makes few large ops of them; compare steps with and without it");
    finding->wrong_if =
        "A device that this page does not see is busy all the time: then calls are "
        "hidden behind it. `torch.compile` can also lose: with batches of many shapes, "
        "and with small models on the CPU, where a tiny BERT in transformers' "
        "`Trainer` became 20 to 23 % slower.";
    /* Whether the advice brings the price is less sure than that it is spent. */
    if (vary)
        finding->low_ns = 0;
    if (finding->severity > (vary ? FINDING_LOW : FINDING_MEDIUM))
        finding->severity = vary ? FINDING_LOW : FINDING_MEDIUM;
}

static void find_tiny(struct rule_context *context)
{
    const struct ops_answer *cpu = &context->summary->cpu;
    double calls = cpu->short_count, self = cpu->short_self_ns;

    /* Beside a device calls cost only what the device waits for them: launch-bound. */
    if (!(calls >= CALLS_NEEDED) || rule_number(context, FACT_COMPILE_USED) > 0 ||
        rule_has_device(context))
        return;
    double all = calls * call_ns(cpu) + rule_interpreter_ns(context);
    double loop = loop_ns(context);
    /* Where the trainer makes samples of ops, calls are taken to lie evenly in its phases. */
    double other = context->train->other_ns > 0 ? context->train->other_ns : 0;
    double loading =
        all * rule_own_loading_ns(context) / (context->train->mean_ns - other);
    double price = all - loop - loading;

    /* Those that are left must be many, too. */
    if (!rule_reaches(context, price) || !(calls * price / all >= CALLS_NEEDED))
        return;
    struct finding *finding = rule_add_price(
        context, NULL, "forward", price,
        rule_error_of_recorded(context, price, cpu->head.recorded_steps));

    /* Half of what a call costs stays with the larger op; all of it may be overhead. */
    rule_price_between(
        finding, price / 2,
        fmax(price * (1 + PYTHON_MOST) / (1 + PYTHON_SHARE), self * price / all));
    /* What the interpreter takes between ops goes with a loop over rows, as it may stand
     * before the forward pass. That of a model stays: its modules are called all the same. */
    double loops =
        fmin(rule_interpreter_ns(context),
             rule_before_forward_ns(context) * PYTHON_SHARE / (1 + PYTHON_SHARE));

    finding->takes_ns = (self + loops) * price / all;
    rule_claim_model(context, finding, CLAIM_CALLS, price);
    finding->formula = rule_print(
        context, "%.0f calls * min(%.3g us, %.3g us) * %.2g%s%s = %s", calls,
        self / calls / 1000, CALL_NS / 1000, 1 + PYTHON_SHARE,
        loop > 0 ? rule_print(context, " - %s of the optimizer's loop",
                              rule_ms(context, loop))
                 : "",
        loading > 0 ? rule_print(context, " - %s of loading", rule_ms(context, loading))
                    : "",
        rule_ms(context, price));
    finding->sentence = rule_print(
        context, "%.0f ops per step run for %.3g us on average, %s together%s", calls,
        self / calls / 1000, rule_ms(context, self),
        all > self && loops > 0 ? rule_print(context, ", and Python between them %s",
                                             rule_ms(context, loops))
                                : "");
    rule_evidence(finding, "calls_per_step", calls);
    rule_evidence(finding, "mean_us", self / calls / 1000);
    rule_evidence_ms(finding, "together_ms", self);
    advise_tiny(context, finding);
    pin_short_ops(context, finding);
    tell_caller(context, finding);
}

static void find_loop(struct rule_context *context)
{
    double optimizer = loop_ns(context);
    double tensors = rule_number(context, FACT_OPTIMIZER_PARAMETERS);
    double elements = rule_number(context, FACT_OPTIMIZER_ELEMENTS);
    const char *class = rule_text(context, FACT_OPTIMIZER_CLASS);
    bool host = strncmp(rule_text(context, FACT_OPTIMIZER_DEVICE), "cpu", 3) == 0;
    double stays = FUSED_SHARE * optimizer, moved = elements * FUSED_ELEMENT_NS;

    stays = host && moved > stays ? moved : stays;
    /* On the CPU what is inside of the calls is work, as far as a file tells it. */
    if (host)
        stays = fmax(stays, optimizer * context->summary->cpu.update_inside);
    double saved = optimizer - stays, price = rule_host_saves(context, saved);

    if (!rule_reaches(context, price))
        return;
    struct finding *finding =
        rule_add_price(context, NULL, "optimizer", price,
                       rule_error_of_phase(context, EVENT_PHASE_OPTIMIZER));

    rule_price_between(finding, price < saved ? price / 2 : fmin(optimizer / 2, price),
                       price);
    finding->takes_ns = optimizer;
    rule_claim(finding, PART_OPTIMIZER, CLAIM_CALLS, price);
    finding->formula =
        rule_print(context, "%s optimizer - %s when fused%s = %s",
                   rule_ms(context, optimizer), rule_ms(context, stays),
                   rule_host_limit(context, saved), rule_ms(context, price));
    finding->sentence =
        isnan(tensors)
            ? rule_print(context, "%s takes %s of a step, neither fused nor foreach",
                         class, rule_ms(context, optimizer))
            : rule_print(
                  context,
                  "%s takes %s of a step for %.0f tensors, neither fused nor foreach",
                  class, rule_ms(context, optimizer), tensors);
    rule_evidence_ms(finding, "optimizer_ms", optimizer);
    rule_evidence(finding, "tensors", tensors);
    rule_evidence_text(context, finding, "class", class);
    setting_advise(context, finding, SETTING_FUSED, class,
                   host ? " (on the CPU from torch 2.4 on)" : "");
    rule_advise_print(context, finding,
                      "`%s(..., foreach=True)` where your torch has no fused form",
                      class);
}

/* Of fewer one has much of the step as a matter of course. */
#define MODULES_NEEDED 3u

static void find_module(struct rule_context *context)
{
    const struct op_module *module = &context->summary->cpu.module;
    const struct gpu_device *device = rule_busiest(context);
    double step = context->train->mean_ns;
    double ns = device != NULL ? module->device_share * rule_busy_ns(context, device)
                : rule_device(context) == NULL ? module->host_ns
                                               : 0; /* which waits for something else */

    if (module->count < MODULES_NEEDED || !rule_reaches(context, ns))
        return;
    struct finding *finding =
        rule_add_open(context, module->name, "forward", FINDING_LOW);

    const char *dot = strrchr(module->name, '.'); /* "Linear_1" is its name alone */

    finding->title =
        rule_print(context, "One module, `%s`, takes much of the step in forward alone",
                   dot == NULL ? module->name : dot + 1);
    finding->formula = rule_print(
        context, "%s of %s = %.0f %%; what another form of it saves is not known",
        rule_ms(context, ns), rule_ms(context, step), 100 * ns / step);
    finding->sentence =
        rule_print(context,
                   "Of the modules `%s` has the most: the ops that it calls itself "
                   "take %s of a step%s%s",
                   module->name, rule_ms(context, ns), device == NULL ? "" : " on ",
                   device == NULL ? "" : device->device);
    rule_evidence_text(context, finding, "module", module->name);
    rule_evidence_ms(finding, "module_ms", ns);
    rule_evidence(finding, "share_pct", 100 * ns / step);
    rule_advise(finding, "`trainglass analyze --group module TRACE` lists its ops with "
                         "their time: begin with the first");
    rule_advise_compile(context, finding,
                        "`module.compile()` of this one alone fuses its small ops",
                        "`mode=\"max-autotune\"` in the `torch.compile` of it takes "
                        "the fastest of several forms");
}

/* What another form of these ops is. */
static const struct form {
    const char *op, *instead;
} forms[] = {
    {"aten::sort", "`torch.topk(x, k)` where only the largest or smallest are needed"},
    {"aten::embedding_dense_backward",
     "`nn.Embedding(..., sparse=True)` with `torch.optim.SparseAdam`: the gradient "
     "then has the batch's rows alone"},
    {"aten::_cdist_forward",
     "`torch.cdist(..., compute_mode=\"use_mm_for_euclid_dist\")`: as a matrix "
     "product"},
    {"aten::cumsum", "Keep running sums where only a new part is added to them"},
};

/* Ops take so much more than a step has: some run in threads beside the training. */
#define RUN_BESIDE 1.1

static bool run_beside(const struct rule_context *context)
{
    const struct ops_answer *cpu = &context->summary->cpu;
    double ns = 0;

    for (uint32_t i = 0; i < cpu->judged_count; i++)
        ns += strcmp(cpu->rows[i].kind, "op") == 0 ? cpu->rows[i].per_step_ns : 0;
    return ns > RUN_BESIDE * context->train->mean_ns;
}

/* Takes most of a step of a job on the CPU, and is not what its model is there for; NULL:
 * none does, or what does waits for other ranks, or may run beside the training. */
static const struct op_row *dominant_op(const struct rule_context *context)
{
    const struct ops_answer *cpu = &context->summary->cpu;

    if (run_beside(context))
        return NULL;
    for (uint32_t i = 0; i < cpu->judged_count; i++) {
        const struct op_row *row = &cpu->rows[i];
        double share = row->per_step_ns / context->train->mean_ns;

        if (strcmp(row->kind, "op") == 0 && strstr(row->name, "::") != NULL &&
            strstr(row->name, "c10d") == NULL && !collectives_has_kernel(row->name) &&
            share >= context->threshold && !rule_is_compute(row))
            return row;
    }
    return NULL;
}

static void find_op(struct rule_context *context)
{
    const struct bottlenecks_answer *summary = context->summary;
    const struct op_row *row = dominant_op(context);
    double step = context->train->mean_ns;

    /* A trace without devices may be of a job that has one. */
    if (row == NULL || rule_has_device(context) || summary->head.from_file ||
        summary->cpu.head.recorded_steps < STEPS_KNOWN)
        return;
    struct finding *finding = rule_add_open(context, row->name, "forward", FINDING_LOW);

    finding->title =
        rule_print(context, "One op, `%s`, takes most of the step", row->name);
    finding->formula = rule_print(
        context, "%s of %s = %.0f %%; what another form of it saves is not known",
        rule_ms(context, row->per_step_ns), rule_ms(context, step),
        100 * row->per_step_ns / step);
    finding->sentence = rule_print(context, "%s computes for %s of a step in %s",
                                   row->name, rule_ms(context, row->per_step_ns),
                                   rule_count(context, row->per_step_count, "call"));
    rule_evidence_text(context, finding, "op", row->name);
    rule_evidence_ms(finding, "op_ms", row->per_step_ns);
    rule_evidence(finding, "share_pct", 100 * row->per_step_ns / step);
    rule_evidence(finding, "op_calls_per_step", row->per_step_count);
    for (size_t i = 0; i < sizeof(forms) / sizeof(forms[0]); i++)
        if (strcmp(row->name, forms[i].op) == 0)
            rule_advise(finding, forms[i].instead);
    rule_pin(context, finding, row->name);
}

const struct rule rules_ops[] = {
    RULE("tiny-ops", find_tiny, OWNER_OPS + 1, RULE_SAMPLED,
         "CPU ops below 10 us of self time; compile.used; phase data, "
         "dataloader.workers",
         "calls * min(self time of a call, 2 us) * 1.5 - optimizer's loop - the share "
         "of loading by the trainer, at most what these ops take",
         SHARE_OF_STEP(0.10, "the cost of a call is an estimate, so twice as much as "
                             "of what is measured"),
         .title = "Many ops are too small to be worth their call"),
    RULE("optimizer-loop", find_loop, OWNER_OPS, 0, "phase optimizer; optimizer.*",
         "optimizer - max(optimizer / 5, on the CPU numbers * 1 ns), at most what a "
         "device waits for the host",
         SHARE_OF_STEP(0.03, SMALLEST),
         .title = "The optimizer updates one tensor after the other",
         .wrong_if = "A few large tensors hold nearly all parameters, or the class has "
                     "no fused form in your version of torch."),
    RULE("dominant-module", find_module, OWNER_RISK, RULE_SAMPLED,
         "of trace files with Python: ops by module", "0: not known before it is tried",
         SHARE_OF_STEP(0.3,
                       "with a third of the step in one place the others matter less"),
         .wrong_if = "It is as large as the model needs it."),
    RULE("dominant-op", find_op, OWNER_RISK, RULE_SAMPLED,
         "of jobs on the CPU: ops by their own time", "0: not known before it is tried",
         SHARE_OF_STEP(0.5, "more than all others together"),
         .wrong_if = "It is what the model is there for, or runs in a thread beside "
                     "the training.",
         .advice = {ADVICE("Another form of it, fewer and larger calls, or a result "
                           "that is kept from step to step")}),
    {.told = {.id = NULL}},
};
