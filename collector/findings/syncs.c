/* Ops for which the host waits until the device has come so far, as people write them. */
#include <math.h>
#include <string.h>

#include "findings/rules.h"

struct sync_kind {
    const char *op;
    const char *code;    /* how people write it */
    const char *instead; /* NULL: as for all of them */
    const char *calls;   /* another of these, in which it waits; NULL */
    bool within;         /* waits in another of these, where that is seen */
};

#define MASKS                                                                          \
    "`torch.where(mask, a, b)` or `tensor * mask` instead of `tensor[mask]` and "      \
    "`nonzero`: a shape that depends on values is waited for"

static const struct sync_kind kinds[] = {
    {.op = "aten::is_nonzero", .code = "`if tensor:`", .calls = "aten::item"},
    {.op = "aten::equal", .code = "`torch.equal`", .calls = "aten::item"},
    {.op = "aten::_unique2", .code = "`unique`", .calls = "aten::item"},
    {.op = "aten::unique_dim", .code = "`unique`"},
    {.op = "aten::unique_consecutive",
     .code = "`unique_consecutive`",
     .calls = "aten::item"},
    {.op = "aten::repeat_interleave",
     .code = "`repeat_interleave`",
     .instead = "`repeat_interleave(..., output_size=n)`: then nobody has to ask how "
                "long the result is",
     .calls = "aten::item"},
    {.op = "aten::item", .code = "`.item()`, `float(tensor)`, `if tensor:`"},
    {.op = "aten::masked_select",
     .code = "`masked_select`",
     .instead = MASKS,
     .calls = "aten::nonzero"},
    {.op = "aten::nonzero", .code = "`nonzero`, `tensor[mask]`", .instead = MASKS},
    {.op = "aten::_to_copy", .code = "`.cpu()`, `.to()`"},
    {.op = "aten::_local_scalar_dense",
     .code = "`.item()`, `float(tensor)`, `if tensor:`",
     .within = true},
    {.op = "cudaStreamSynchronize",
     .code = "`.cpu()`, `.item()`, `stream.synchronize()`",
     .within = true},
    {.op = "hipStreamSynchronize",
     .code = "`.cpu()`, `.item()`, `stream.synchronize()`",
     .within = true},
    {.op = "hipMemcpyWithStream",
     .code = "`.cpu()`, `.item()`, `.to()`",
     .within = true},
    {.op = "cudaDeviceSynchronize",
     .code = "`torch.cuda.synchronize()`",
     .within = true},
    {.op = "hipDeviceSynchronize",
     .code = "`torch.cuda.synchronize()`",
     .within = true},
    {.op = "cudaEventSynchronize", .code = "`event.synchronize()`", .within = true},
    {.op = "hipEventSynchronize", .code = "`event.synchronize()`", .within = true},
    {.op = "urQueueFinish",
     .code = "`.cpu()`, `.item()`, `torch.xpu.synchronize()`",
     .within = true},
    {.op = "urEventWait", .code = "`.cpu()`, `event.synchronize()`", .within = true},
};

/* An optimizer's own `.item()` of tensors on the host waits for nothing: what is named has
 * this part of the wait, so that all of them may be told. */
#define PART_NAMED 0.25

/* A call in another takes no more than that, and comes as often, but for the noise. */
#define ALIKE 1.2

static const struct sync_kind *kind_of(const char *name)
{
    for (size_t i = 0; i < sizeof(kinds) / sizeof(kinds[0]); i++)
        if (strcmp(name, kinds[i].op) == 0)
            return &kinds[i];
    return NULL;
}

/* A kind of wait, and what is seen of it. */
struct sync {
    const struct sync_kind *kind;
    const struct op_row *row;
};

static double takes(const struct op_row *row)
{
    return row->mean_ns * row->per_step_count;
}

/* None of the others is seen to wait in it, as far as times and counts tell. */
static bool is_outermost(const struct sync *seen, size_t count, const struct sync *one)
{
    for (size_t i = 0; i < count; i++)
        if (seen[i].kind->calls != NULL &&
            strcmp(one->row->name, seen[i].kind->calls) == 0 &&
            takes(one->row) <= takes(seen[i].row) * ALIKE &&
            one->row->per_step_count * ALIKE >= seen[i].row->per_step_count)
            return false;
    return true;
}

/* Of those that wait within others, or of these others, the dearest, and in `all_ns` what
 * they take together. NULL: none. */
static const struct sync *dearest(const struct sync *seen, size_t count, bool within,
                                  double *all_ns)
{
    const struct sync *first = NULL;

    *all_ns = 0;
    for (size_t i = 0; i < count; i++) {
        if (seen[i].kind->within != within || !is_outermost(seen, count, &seen[i]))
            continue;
        *all_ns += takes(seen[i].row);
        if (first == NULL || takes(seen[i].row) > takes(first->row))
            first = &seen[i];
    }
    return first;
}

/* "aten::item (`.item()`) waits 3 times a step" */
static const char *waits_text(struct rule_context *context, const struct sync *sync)
{
    return rule_print(
        context, "%s%s waits %s a step", sync->row->name,
        context->summary->native ? "" : rule_print(context, " (%s)", sync->kind->code),
        rule_times(context, sync->row->per_step_count));
}

/* Calls of the runtime that wait, per step; NaN where none is seen. */
static double waiting_calls(const struct ops_answer *cpu)
{
    double calls = 0;

    for (uint32_t i = 0; i < cpu->judged_count; i++) {
        const struct sync_kind *kind = kind_of(cpu->rows[i].name);

        if (kind != NULL && kind->within && strstr(kind->op, "::") == NULL)
            calls += cpu->rows[i].per_step_count;
    }
    return calls > 0 ? calls : (double)NAN;
}

/* Does it wait at all? Each wait is one of the runtime: of more calls than these most only
 * compute, as casts under autocast and an optimizer's `.item()` on the host. */
static bool may_wait(const struct rule_context *context, const struct sync *sync,
                     double waits)
{
    if (isnan(waits))
        return strcmp(sync->row->name, "aten::_to_copy") != 0 ||
               rule_text(context, FACT_AMP_DTYPE)[0] == '\0';
    return sync->kind->within || sync->row->per_step_count <= ALIKE * waits;
}

void syncs_name(struct rule_context *context, struct finding *finding)
{
    const struct ops_answer *cpu = &context->summary->cpu;
    struct sync seen[sizeof(kinds) / sizeof(kinds[0])] = {{NULL, NULL}};
    double waits = waiting_calls(cpu);
    size_t count = 0;

    for (uint32_t i = 0; i < cpu->judged_count && count < sizeof(seen) / sizeof(*seen);
         i++) {
        struct sync sync = {kind_of(cpu->rows[i].name), &cpu->rows[i]};

        /* What waits does so in a call of the runtime within it where those are seen. */
        if (sync.kind == NULL || !may_wait(context, &sync, waits) ||
            !(takes(sync.row) >= PART_NAMED * finding->ns_per_step))
            continue;
        rule_pin(context, finding, sync.row->name);
        seen[count++] = sync;
    }
    double inner_ns, outer_ns;
    const struct sync *inner = dearest(seen, count, true, &inner_ns);
    const struct sync *outer = dearest(seen, count, false, &outer_ns);
    /* What is written in the code, where that explains at least half of the calls that
     * wait. */
    bool within = outer == NULL || (inner != NULL && outer_ns < takes(inner->row) / 2);
    const struct sync *first = within ? inner : outer;

    if (first == NULL)
        return;
    rule_evidence_text(context, finding, "op", first->row->name);
    rule_evidence(finding, "op_calls_per_step", first->row->per_step_count);
    finding->sentence =
        rule_print(context, "%s; %s%s", finding->sentence, waits_text(context, first),
                   rule_caller(context, finding, first->row));
    if (first->kind->instead != NULL)
        rule_advise(finding, first->kind->instead);
    for (size_t i = 0; i < count; i++) {
        if (&seen[i] == first || seen[i].kind->within != within ||
            !is_outermost(seen, count, &seen[i]))
            continue;
        finding->sentence = rule_print(context, "%s; %s", finding->sentence,
                                       waits_text(context, &seen[i]));
        if (seen[i].kind->instead != NULL &&
            seen[i].kind->instead != first->kind->instead)
            rule_advise(finding, seen[i].kind->instead);
    }
}
