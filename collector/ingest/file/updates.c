/* What the optimizer's updates call: whether tensors are updated one after the other, and how
 * much of an update is inside of its calls. Ops elsewhere tell nothing of it: a residual
 * connection adds too. */
#include <string.h>

#include "ingest/file/parts.h"

/* (Gradients that are clipped together are multiplied.) */
static uint32_t way_of(const char *name)
{
    static const struct {
        const char *begin;
        uint32_t ways;
    } begins[] = {{"aten::_foreach_add", FILE_UPDATE_TOGETHER}, /* and addcdiv */
                  {"aten::_fused_ad", FILE_UPDATE_TOGETHER}, /* adam, adamw, adagrad */
                  {"aten::_fused_sgd", FILE_UPDATE_TOGETHER},
                  {"aten::addcdiv_", FILE_UPDATE_ADAM},
                  {"aten::add_", FILE_UPDATE_ADDS}};

    for (size_t i = 0; i < sizeof(begins) / sizeof(begins[0]); i++)
        if (strncmp(name, begins[i].begin, strlen(begins[i].begin)) == 0)
            return begins[i].ways;
    return 0;
}

void file_update_begin(struct file *file, const struct event *range)
{
    file->updates.range_ns = file_sum(file->updates.range_ns, (int64_t)range->value);
}

void file_update_op(struct file *file, const struct event *op)
{
    file->updates.calls++;
    file->updates.calls_ns = file_sum(file->updates.calls_ns, (int64_t)op->value);
    file->updates.ways |=
        way_of(trace_names_get(file->names, EVENT_NAME(op->meta), NULL));
}
