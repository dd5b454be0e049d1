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

static const struct sync_kind kinds[] = {
    {"aten::_local_scalar_dense", "`.item()`, `float(tensor)`, `if tensor:`", NULL},
    {"aten::item", "`.item()`, `float(tensor)`, `if tensor:`", NULL},
    {"aten::is_nonzero", "`if tensor:`", NULL},
    {"aten::nonzero", "`nonzero`, `tensor[mask]`", MASKS},
    {"aten::masked_select", "`masked_select`", MASKS},
    {"aten::equal", "`torch.equal`", NULL},
    {"aten::_unique2", "`unique`", NULL},
    {"aten::unique_dim", "`unique`", NULL},
    {"aten::unique_consecutive", "`unique_consecutive`", NULL},
    {"aten::repeat_interleave", "`repeat_interleave`",
     "`repeat_interleave(..., output_size=n)`: then nobody has to ask how long the "
     "result is"},
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
    finding->sentence =
        rule_print(context, "%s; %s (%s) waits %s a step%s", finding->sentence,
                   row->name, kind->code, rule_times(context, row->per_step_count),
                   rule_caller(context, finding, row));
    if (kind->instead != NULL)
        rule_advise(finding, kind->instead);
}

void syncs_name(struct rule_context *context, struct finding *finding)
{
    const struct ops_answer *cpu = &context->summary->cpu;
    bool told = false;

    for (uint32_t i = 0; i < cpu->row_count; i++) {
        const struct op_row *row = &cpu->rows[i];
        const struct sync_kind *kind = kind_of(row->name);

        if (kind == NULL || !(row->per_step_count > 0))
            continue;
        rule_pin(context, finding, row->name);
        if (!told)
            tell(context, finding, row, kind);
        told = true;
    }
}
