/* A row of the answer, made of its sums. */
#include <string.h>

#include "aggregate/sum.h"
#include "query/ops_inside.h"

/* Half the 95 % interval of a sum over that many recorded steps. */
static double half_of(const struct ops_asking *asking, double variance)
{
    return numbers_t95(asking->recorded[DIGEST_DRAWN]) * sqrt(variance);
}

/* Detail: what was drawn is weighed already, the rest of the steps stands for itself. */
static void scale_detail(const struct ops_asking *asking, struct ops_row_sum *sum,
                         double *factor)
{
    struct op_row *row = &sum->answer;
    double all = (double)asking->steps,
           tagged = (double)asking->recorded[DIGEST_TAGGED];
    double drawn = (double)asking->recorded[DIGEST_DRAWN], rest = all - tagged;
    double variance = sum->drawn.variance;

    factor[DIGEST_DRAWN] = 0;
    if (drawn == 0 || tagged > all)
        factor[DIGEST_TAGGED] = tagged > 0 ? all / tagged : 0;
    if (drawn == 0 && rest > 0) /* what was not drawn says nothing of the rest */
        variance = UNKNOWN;
    if (drawn > 1 && rest > 0)
        row->per_step_half_ns = half_of(asking, sum->drawn.process_variance) / rest;
    row->count = sum->drawn.count;
    row->total_ns = sum->drawn.total_ns;
    row->self_ns = sum->drawn.self_ns;
    row->error_pct = half_of(asking, variance);
}

void ops_scale(const struct ops_asking *asking, struct ops_row_sum *sum)
{
    struct op_row *row = &sum->answer;
    enum ops_kind kind = asking->ops->rows[sum->row].kind;
    double factor[DIGEST_CLASSES] = {1, 1, 1, 1, 1};

    row->per_step_half_ns = UNKNOWN;
    if (asking->steps > 0 && kind == OPS_RANGE) {
        double ratio = asking->all_steps > 0
                           ? (double)asking->steps / (double)asking->all_steps
                           : 1;

        factor[DIGEST_DRAWN] = factor[DIGEST_TAGGED] = factor[DIGEST_BARE] = ratio;
    } else if (asking->steps > 0) {
        scale_detail(asking, sum, factor);
    }
    for (uint32_t class = 0; class < DIGEST_CLASSES; class ++) {
        const struct ops_class_sum *part = &sum->by_class[class];

        if (!ops_tells(asking, kind, class))
            continue;
        row->count += factor[class] * (double)part->count;
        row->total_ns += factor[class] * part->total_ns;
        row->self_ns += factor[class] * part->self_ns;
        row->recorded_count += part->count;
        row->recorded_total_ns = sum_ns(
            row->recorded_total_ns,
            part->total_ns < (double)SUM_MAX_NS ? (int64_t)part->total_ns : SUM_MAX_NS);
    }
    row->error_pct = row->self_ns > 0 ? 100 * row->error_pct / row->self_ns : 0;
}

void ops_derive(const struct ops_asking *asking, struct op_row *row)
{
    double n = (double)asking->steps;
    /* A range has no time of its own: what it encloses says how much it matters. */
    double time = row->kind != NULL && strcmp(row->kind, "range") == 0 ? row->total_ns
                                                                       : row->self_ns;

    row->validation_batch_ns = row->validation_share = UNKNOWN;
    row->per_step_ns = n > 0 ? time / n : UNKNOWN;
    row->per_step_count = n > 0 ? row->count / n : UNKNOWN;
    row->mean_ns = row->count > 0 ? row->total_ns / row->count : UNKNOWN;
    row->share = asking->share_ns > 0 ? time / asking->share_ns : UNKNOWN;
    row->p50_ns = row->p95_ns = row->p99_ns = UNKNOWN;
    row->device_total_ns = row->device_self_ns = UNKNOWN;
    row->host_bytes = row->device_bytes = UNKNOWN;
    row->host_total_bytes = row->device_total_bytes = UNKNOWN;
    row->launch.occupancy_pct = UNKNOWN;
}

/* Of a live run, in the window; where ops of that name may have launched more, nothing. */
static void add_launched(const struct ops_asking *asking, uint32_t text,
                         struct op_row *row)
{
    const struct ops_asking *launched = asking->launched;
    const struct pick *pick = asking->pick;
    bool is_call = strcmp(row->kind, "op") != 0 && strcmp(row->kind, "range") != 0;
    uint32_t at = 0;

    if (launched == NULL || is_call ||
        !op_links_knows(&pick->process->links, text, pick->head->window.from_ns))
        return;
    if (text < launched->ops->row_of_texts)
        at = OPS_ROW(launched->ops->row_of[text * OPS_KINDS + OPS_KERNEL]);
    if (at <= OPS_OTHER_ACCELERATOR && launched->ops->overflowed > 0)
        return; /* it may be one of those that found no row */
    row->device_total_ns = row->device_self_ns = 0;
    if (at > OPS_OTHER_ACCELERATOR) {
        row->device_total_ns = launched->rows[at].answer.total_ns;
        row->device_self_ns = launched->rows[at].answer.self_ns;
    }
}

/* Of the whole file: it is not kept step by step. */
static void add_linked(const struct ops_asking *asking, const struct ops_row *named,
                       struct op_row *row)
{
    uint32_t text = named->text;
    const struct process *process = asking->pick->process;
    const struct ops_group *group = asking->group;

    if (!asking->whole ||
        text >= (group != NULL ? group->linked_count : process->linked_count))
        return;
    const struct process_linked *linked =
        group != NULL ? &group->linked[text] : &process->linked[text];

    if (process->linked_devices) {
        row->device_total_ns = named->kind == OPS_SYNC
                                   ? (double)linked->waited_device_ns
                                   : (double)linked->device_total_ns;
        row->device_self_ns = (double)linked->device_self_ns;
    }
    if (process->linked_memory) {
        row->host_bytes = (double)linked->host_bytes;
        row->device_bytes = (double)linked->device_bytes;
        row->host_total_bytes = (double)linked->host_total_bytes;
        row->device_total_bytes = (double)linked->device_total_bytes;
    }
}

static void add_launch(const struct ops_asking *asking, uint32_t text,
                       struct op_row *row)
{
    const struct process *process = asking->pick->process;
    const struct process_kernel *kernel =
        text < process->kernel_count ? &process->kernels[text] : NULL;

    if (strcmp(row->kind, "kernel") != 0)
        return;
    row->family = kernel_family(row->name);
    row->tensor_cores = kernel_uses_tensor_cores(row->name);
    if (kernel == NULL || kernel->count == 0)
        return;
    row->launch.known = true;
    row->launch.varies = kernel->varies;
    memcpy(row->launch.grid, kernel->grid, sizeof(kernel->grid));
    memcpy(row->launch.block, kernel->block, sizeof(kernel->block));
    row->launch.registers = kernel->registers;
    row->launch.shared_bytes = kernel->shared_bytes;
    if (kernel->occupied_ns > 0) {
        row->launch.occupancy_pct = kernel->occupancy_sum / (double)kernel->occupied_ns;
        return;
    }
    struct kernels_device device =
        kernels_device_parse(asking->multiprocessors, kernel->device);

    row->launch.occupancy_pct = 100 * kernels_occupancy(kernel, &device);
}

static const char *const kind_names[OPS_KINDS] = {"op",   "range",  "range",  "runtime",
                                                  "sync", "kernel", "memcpy", "memset"};

/* So much of the time of validation's batches was spent in it. */
static void tell_validation(const struct ops_asking *asking, double ns,
                            struct op_row *row)
{
    if (!(asking->validation_ns > 0))
        return;
    row->validation_batch_ns = ns / asking->validations;
    row->validation_share = ns / asking->validation_ns;
}

static bool is_watched(const struct ops_asking *asking, const char *name)
{
    size_t length = strlen(name);

    for (const char *at = asking->watched; *at != '\0';) {
        size_t word = strcspn(at, ",");

        if (word == length && memcmp(at, name, length) == 0)
            return true;
        at += word + (at[word] == ',' ? 1 : 0);
    }
    return false;
}

static void keep_watched(struct ops_answer *answer, const struct op_row *row)
{
    uint32_t at = answer->watched_count;

    while (at > 0 && answer->watched[at - 1].total_ns < row->total_ns)
        at--;
    if (at == OPS_WATCHED)
        return;
    answer->watched_count += answer->watched_count < OPS_WATCHED ? 1 : 0;
    memmove(&answer->watched[at + 1], &answer->watched[at],
            (answer->watched_count - at - 1) * sizeof(*row));
    answer->watched[at] = *row;
    answer->watched[at].name = arena_text(&answer->head.arena, row->name);
}

static void add_range(const struct ops_asking *asking, const struct ops_row_sum *sum,
                      struct op_row *row, struct ops_answer *answer)
{
    if (asking->ops->rows[sum->row].kind != OPS_RANGE)
        return;
    tell_validation(asking, sum->by_class[DIGEST_VALIDATION].total_ns, row);
    row->watched = is_watched(asking, row->name);
    if (row->watched)
        keep_watched(answer, row);
}

void ops_describe(const struct ops_asking *asking, struct ops_row_sum *sum,
                  struct ops_answer *answer)
{
    const struct ops_row *named = &asking->ops->rows[sum->row];
    struct op_row *row = &sum->answer;

    row->name = texts_get(asking->texts, named->text);
    row->kind = kind_names[named->kind];
    ops_derive(asking, row);
    if (asking->request->device == OPS_ACCELERATOR)
        add_launch(asking, named->text, row);
    else if (asking->pick->session->from_file)
        add_linked(asking, named, row);
    else
        add_launched(asking, named->text, row);
    row->min_ns = (double)sum->min_ns;
    row->max_ns = (double)sum->max_ns;
    add_range(asking, sum, row, answer);
}

void ops_add_workers(struct ops_asking *asking, struct ops_answer *answer)
{
    struct parts_worker_range ranges[PARTS_WORKER_RANGES];
    uint32_t count = 0;

    answer->overflowed +=
        parts_worker_ranges(asking->pick, asking->request->query, ranges, &count);
    for (uint32_t i = 0; i < count; i++) {
        const struct parts_worker_range *range = &ranges[i];
        struct ops_row_sum *sum = &asking->rows[asking->row_count++];
        struct op_row *row = &sum->answer;

        *sum = (struct ops_row_sum){.row = OPS_NO_ROW};
        *row = (struct op_row){.name = range->name,
                               .kind = "range",
                               .count = range->count,
                               .total_ns = range->total_ns,
                               .recorded_count = range->recorded_count,
                               .recorded_total_ns = (int64_t)fmin(
                                   range->recorded_total_ns, (double)SUM_MAX_NS),
                               .per_step_half_ns = UNKNOWN,
                               .workers = range->workers,
                               .watched = true};
        ops_derive(asking, row);
        tell_validation(asking, range->validation_ns, row);
        row->min_ns = range->recorded_count > 0 ? (double)range->min_ns : UNKNOWN;
        row->max_ns = range->recorded_count > 0 ? (double)range->max_ns : UNKNOWN;
        row->p50_ns = range->p50_ns;
        row->p95_ns = range->p95_ns;
        row->p99_ns = range->p99_ns;
        keep_watched(answer, row);
    }
}
