/* The table that a query for ops reads, and the time that it covers. */
#include <math.h>

#include "query/ops_inside.h"

/* Of a job without torch the host's rows are calls of CUDA, which come with the work that
 * they launch, and ranges. */
static bool is_by_kernels(const struct ops *ops, const struct ops_request *request)
{
    bool calls = false;

    for (uint32_t i = OPS_OTHER_ACCELERATOR + 1; i < ops->row_count; i++) {
        if (ops->rows[i].kind == OPS_OP)
            return false;
        calls |= ops->rows[i].kind == OPS_RUNTIME || ops->rows[i].kind == OPS_SYNC;
    }
    return calls || request->device == OPS_ACCELERATOR;
}

bool ops_choose_table(struct ops_asking *asking, struct ops_answer *answer)
{
    const struct process *process = asking->pick->process;
    const struct ops_request *request = asking->request;

    asking->ops =
        request->device == OPS_ACCELERATOR ? &process->device.ops : &process->ops;
    asking->texts = process->texts;
    asking->by_kernels = is_by_kernels(asking->ops, request);
    if (request->by == GROUP_NAME || request->device != OPS_CPU)
        return true;
    asking->group = process->groups[request->by];
    if (asking->group == NULL) {
        answer->head.reason = "shapes, stacks and modules are known of trace files "
                              "alone, and of deep windows";
        answer->other = (struct op_row){.name = "other", .kind = ""};
        answer->step_ns = UNKNOWN;
        return false;
    }
    answer->by = request->by;
    asking->ops = &asking->group->ops;
    asking->texts = asking->group->texts;
    return true;
}

void ops_measure_window(struct ops_asking *asking, const struct steps_answer *steps,
                        struct ops_answer *answer)
{
    const struct pick *pick = asking->pick;
    const struct steps_summary *summary = &steps->train;

    asking->steps = summary->count;
    asking->whole = pick->session->from_file &&
                    pick->head->window.from_ns <= pick->process->gpu.from_ns &&
                    pick->head->window.to_ns > pick->process->newest_ns;
    asking->apart = asking->whole && !pick->session->own_file;
    asking->step_ns = summary->count > 0 ? summary->mean_ns * (double)summary->count
                                         : answer->head.window.span_ns;
    asking->share_ns = asking->step_ns;
    if (asking->apart)
        asking->share_ns =
            fmax(asking->step_ns,
                 (double)pick->process->newest_ns - (double)pick->process->gpu.from_ns);
    answer->step_ns = summary->count > 0 ? asking->step_ns : UNKNOWN;
    answer->of_file = asking->apart;
    if (steps->validation.count > 0) {
        asking->validations = (double)steps->validation.count;
        asking->validation_ns = steps->validation.mean_ns * asking->validations;
    }
}
