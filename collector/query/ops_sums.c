#include <stdbool.h>
#include <stddef.h>
#include <string.h>

#include "query/ops_inside.h"

/* Is one of `names` the name, or its beginning? They end with NULL. */
static bool is_one_of(const char *name, bool by_beginning, const char *const *names)
{
    for (; *names != NULL; names++)
        if (by_beginning ? strncmp(name, *names, strlen(*names)) == 0
                         : strcmp(name, *names) == 0)
            return true;
    return false;
}

/* Returns how much of it came to the short ones. */
static double add_short(const struct op_row *row, struct ops_answer *answer)
{
    if (!(row->count > 0) || !(row->self_ns / row->count < OPS_SHORT_NS))
        return 0;
    answer->short_count += row->per_step_count;
    answer->short_self_ns += row->per_step_ns;
    return row->per_step_ns;
}

static void add_op(const struct op_row *row, struct ops_answer *answer)
{
    /* They compute nothing: they copy, cast, join or lay out anew. */
    static const char *const moves[] = {
        "aten::copy_", "aten::cat",          "aten::stack",          "aten::clone",
        "aten::roll",  "aten::index_select", "aten::_foreach_copy_", NULL};

    (void)add_short(row, answer);
    if (strcmp(row->name, "aten::zero_") == 0)
        answer->zeroed += row->per_step_count;
    if (strcmp(row->name, "aten::_foreach_zero_") == 0)
        answer->zeroed = (double)INFINITY; /* of any number */
    if (is_one_of(row->name, false, moves)) {
        answer->moved_ns += row->per_step_ns;
        answer->moved_count += row->per_step_count;
    }
}

static void add_range(const struct op_row *row, struct ops_answer *answer)
{
    static const char *const saving[] = {OPS_SAVING, OPS_SAVING_PLAIN, NULL};

    if (strncmp(row->name, "Optimizer.zero_grad#", 20) == 0)
        answer->zero_grad_ns += row->per_step_ns;
    if (is_one_of(row->name, false, saving) && row->per_step_ns > answer->saving_ns) {
        answer->saving_ns = row->per_step_ns;
        answer->saving_count = row->per_step_count;
    }
}

/* So many in a window say themselves how often they come. */
#define SAVING_ENOUGH 4.0

void ops_sums_saving(const struct ops_saving *saving, double steps,
                     struct ops_answer *answer)
{
    double times = (double)saving->times, reached = (double)saving->reached;

    if (saving->times < 2 || answer->saving_count * steps >= SAVING_ENOUGH)
        return;
    /* One that is overdue counts with the steps for which it is. */
    double usual = reached / (times - 1);
    double more = (double)saving->steps - reached - usual;
    double each_step = (times - 1) / (reached + (more > 0 ? more : 0));

    answer->saving_ns = saving->total_ns / times * each_step;
    answer->saving_count = (double)saving->count / times * each_step;
}

/* By the beginning of their names, for the driver adds versions to some. */
static void add_call(const struct op_row *row, struct ops_answer *answer)
{
    static const char *const pinning[] = {
        "cudaHostAlloc",   "cudaMallocHost",  "cudaFreeHost",   "cudaHostRegister",
        "cudaHostUnregis", "cuMemHostAlloc",  "cuMemAllocHost", "cuMemFreeHost",
        "hipHostMalloc",   "hipHostRegister", "hipHostFree",    NULL};
    static const char *const filling[] = {"cudaMemset", "cuMemset", "hipMemset", NULL};
    enum ops_call call = OPS_CALLS;

    if (is_one_of(row->name, true, pinning))
        call = OPS_CALL_PIN;
    else if (is_one_of(row->name, true, filling) && strstr(row->name, "Async") == NULL)
        call = OPS_CALL_FILL;
    if (call == OPS_CALLS)
        return;
    answer->call_ns[call] += row->per_step_ns;
    answer->call_count[call] += row->per_step_count;
}

double op_row_unused_share(const struct op_row *row, double multiprocessors)
{
    double blocks = 1;

    for (uint32_t i = 0; i < 3; i++)
        blocks *= row->launch.grid[i];
    return row->launch.known && row->family != KERNEL_COLLECTIVE && blocks > 0 &&
                   blocks < multiprocessors
               ? 1 - blocks / multiprocessors
               : 0;
}

static void add_kernel(const struct op_row *row, struct ops_answer *answer)
{
    double unused = op_row_unused_share(row, answer->multiprocessors);

    answer->family_ns[row->family] += row->per_step_ns;
    answer->family_count[row->family] += row->per_step_count;
    if (kernel_is_convolution(row->name))
        answer->convolution_ns += row->per_step_ns;
    if (unused > 0)
        answer->unfilled_ns += row->per_step_ns;
    answer->unused_ns += unused * row->per_step_ns;
    if (row->family == KERNEL_OTHER || row->family == KERNEL_SOFTMAX)
        answer->short_unused_ns += unused * add_short(row, answer);
}

void ops_sums_fit(double compute_ns, struct ops_answer *answer)
{
    double all = 0;

    for (uint32_t family = 0; family < KERNEL_FAMILIES; family++)
        all += family == KERNEL_COLLECTIVE ? 0 : answer->family_ns[family];
    if (!(compute_ns < all))
        return;
    double fits = compute_ns / all;

    for (uint32_t family = 0; family < KERNEL_FAMILIES; family++) {
        answer->family_ns[family] *= family == KERNEL_COLLECTIVE ? 1 : fits;
        answer->family_count[family] *= family == KERNEL_COLLECTIVE ? 1 : fits;
    }
    answer->short_count *= fits;
    answer->short_self_ns *= fits;
    answer->convolution_ns *= fits;
    answer->unfilled_ns *= fits;
    answer->unused_ns *= fits;
    answer->short_unused_ns *= fits;
}

void ops_sums_add(const struct op_row *row, struct ops_answer *answer)
{
    if (isnan(row->per_step_ns) || isnan(row->per_step_count))
        return;
    if (strcmp(row->kind, "op") == 0)
        add_op(row, answer);
    else if (strcmp(row->kind, "range") == 0)
        add_range(row, answer);
    else if (strcmp(row->kind, "runtime") == 0)
        add_call(row, answer);
    else if (strcmp(row->kind, "kernel") == 0)
        add_kernel(row, answer);
}
