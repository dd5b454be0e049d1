#include "findings/syncs.h"

#include <math.h>
#include <string.h>

struct sync_kind {
    const char *op;
    const char *code;    /* how people write it */
    const char *instead; /* NULL: as for all of them */
};

#define MASKS                                                                          \
    "`torch.where(mask, a, b)` or `tensor * mask` instead of `tensor[mask]` and "      \
    "`nonzero`: a shape that depends on values is waited for"

/* The outer ones first: what is written in the loop is named, not the call in it. */
static const struct sync_kind kinds[] = {
    {"aten::is_nonzero", "`if tensor:`", NULL},
    {"aten::item", "`.item()`, `float(tensor)`, `if tensor:`", NULL},
    {"aten::_local_scalar_dense", "`.item()`, `float(tensor)`, `if tensor:`", NULL},
    {"aten::nonzero", "`nonzero`, `tensor[mask]`", MASKS},
    {"aten::masked_select", "`masked_select`", MASKS},
    {"aten::equal", "`torch.equal`", NULL},
    {"aten::_unique2", "`unique`", NULL},
    {"aten::unique_dim", "`unique`", NULL},
    {"aten::unique_consecutive", "`unique_consecutive`", NULL},
    {"aten::repeat_interleave", "`repeat_interleave`",
     "`repeat_interleave(..., output_size=n)`: then nobody has to ask how long the "
     "result is"},
    {"aten::_to_copy", "`.cpu()`, `.to()`", NULL},
    {"cudaStreamSynchronize", "`.cpu()`, `.item()`, `stream.synchronize()`", NULL},
    {"hipStreamSynchronize", "`.cpu()`, `.item()`, `stream.synchronize()`", NULL},
    {"hipMemcpyWithStream", "`.cpu()`, `.item()`, `.to()`", NULL},
    {"cudaDeviceSynchronize", "`torch.cuda.synchronize()`", NULL},
    {"hipDeviceSynchronize", "`torch.cuda.synchronize()`", NULL},
    {"cudaEventSynchronize", "`event.synchronize()`", NULL},
    {"hipEventSynchronize", "`event.synchronize()`", NULL},
};

static const struct sync_kind *kind_of(const char *name)
{
    for (size_t i = 0; i < sizeof(kinds) / sizeof(kinds[0]); i++)
        if (strcmp(name, kinds[i].op) == 0)
            return &kinds[i];
    return NULL;
}

static void tell(struct rule_context *context, struct finding *finding,
                 const struct op_row *row, const struct sync_kind *kind)
{
    rule_evidence_text(context, finding, "op", row->name);
    rule_evidence(context, finding, "op_calls_per_step", row->per_step_count);
    finding->sentence = rule_print(
        context, "%s; %s%s waits %s a step%s", finding->sentence, row->name,
        context->summary->native ? "" : rule_print(context, " (%s)", kind->code),
        rule_times(context, row->per_step_count), rule_caller(context, finding, row));
    if (kind->instead != NULL)
        rule_advise(finding, kind->instead);
}

void syncs_name(struct rule_context *context, struct finding *finding)
{
    const struct ops_answer *cpu = &context->summary->cpu;
    const struct sync_kind *first = NULL;
    const struct op_row *named = NULL;

    for (uint32_t i = 0; i < cpu->judged_count; i++) {
        const struct op_row *row = &cpu->rows[i];
        const struct sync_kind *kind = kind_of(row->name);

        /* An optimizer's own `.item()` of tensors on the host waits for nothing. What
         * waits does so in a call of the runtime within it where those are seen. */
        if (kind == NULL ||
            !(row->mean_ns * row->per_step_count >= finding->ns_per_step / 2))
            continue;
        rule_pin(context, finding, row->name);
        if (first != NULL && kind > first)
            continue;
        first = kind;
        named = row;
    }
    if (named != NULL)
        tell(context, finding, named, first);
}
