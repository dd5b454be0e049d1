#include "query/ops_query.h"

#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "aggregate/kernels.h"
#include "aggregate/sum.h"
#include "query/numbers.h"
#include "query/parts.h"
#include "query/pick.h"
#include "wire/facts.h"

#define K_DEFAULT 10u

/* Sums of one row over the digests of one class. */
struct class_sum {
    uint64_t count;
    double total_ns, self_ns, squares;
};

struct row_sum {
    struct class_sum by_class[DIGEST_CLASSES];
    int64_t min_ns, max_ns;
    uint32_t row;
    double key, key2; /* by which it is sorted, larger first */
    struct op_row answer;
};

struct digest_use {
    const struct digest *digest;
    enum digest_class class;
};

struct cell_count {
    uint32_t cell;
    uint64_t count;
};

/* One question while it is answered. */
struct asking {
    const struct pick *pick;
    const struct ops_request *request;
    const struct ops *ops;
    const struct texts *texts;
    const struct ops_group *group; /* NULL: by name */
    struct digest_use *uses;
    uint32_t use_count, use_capacity;
    enum digest_class class; /* while collecting */
    bool failed;
    struct row_sum *rows; /* by row id, then compacted to those that match */
    uint32_t row_count;
    struct kernels_device device;      /* 0 where the process does not tell */
    uint64_t steps;                    /* of the window */
    uint64_t recorded[DIGEST_CLASSES]; /* steps with the device's detail */
    uint64_t all_steps;                /* of the digests, for user ranges */
    bool whole;                        /* a file, all of it */
    bool apart; /* what lies outside of steps counts too: not in a file of a live run */
    double step_ns;
};

static void use(void *user, const struct digest *digest)
{
    struct asking *asking = user;

    if (asking->use_count == asking->use_capacity) {
        uint32_t capacity = asking->use_capacity == 0 ? 256 : asking->use_capacity * 2;
        struct digest_use *uses = realloc(asking->uses, capacity * sizeof(*uses));

        if (uses == NULL) {
            asking->failed = true;
            return;
        }
        asking->uses = uses;
        asking->use_capacity = capacity;
    }
    asking->uses[asking->use_count++] =
        (struct digest_use){.digest = digest, .class = asking->class};
}

/* Digests that touch the window, and steps that still wait for late events. */
static void collect(struct asking *asking)
{
    const struct answer_window *window = &asking->pick->head->window;
    int64_t range[2] = {window->from_ns, window->to_ns};
    bool steps = asking->steps > 0;

    for (uint32_t class = 0; class < DIGEST_CLASSES; class ++) {
        if ((class == DIGEST_APART) == steps && !asking->apart)
            continue;
        asking->class = class;
        digests_visit(&asking->ops->digests, class, range, use, asking);
    }
    for (uint32_t i = 0; i < OPS_OPEN; i++) {
        const struct ops_step *step = &asking->ops->open[i];

        if (step->digest == NULL ||
            ((step->class == DIGEST_APART) == steps && !asking->apart) ||
            step->digest->span.to_ns <= range[0] ||
            step->digest->span.from_ns >= range[1])
            continue;
        asking->class = step->class;
        use(asking, step->digest);
    }
}

static void add_up(struct asking *asking)
{
    bool accelerator = asking->request->device == OPS_ACCELERATOR;

    for (uint32_t i = 0; i < asking->ops->row_count; i++)
        asking->rows[i].min_ns = INT64_MAX;
    for (uint32_t u = 0; u < asking->use_count; u++) {
        const struct digest *digest = asking->uses[u].digest;
        enum digest_class class = asking->uses[u].class;

        asking->recorded[class] +=
            accelerator ? digest->span.kernel_steps : digest->span.ops_steps;
        asking->all_steps += digest->span.steps;
        for (uint32_t i = 0; i < digest->row_count; i++) {
            const struct digest_row *from = &digest->rows[i];
            struct row_sum *to = &asking->rows[from->row];
            struct class_sum *sum = &to->by_class[class];

            sum->count += from->count;
            sum->total_ns += (double)from->total_ns;
            sum->self_ns += (double)from->self_ns;
            sum->squares += from->self_squares;
            to->min_ns = from->min_ns < to->min_ns ? from->min_ns : to->min_ns;
            to->max_ns = from->max_ns > to->max_ns ? from->max_ns : to->max_ns;
        }
    }
}

/* Which classes tell of a row: detail is complete in recorded steps alone. */
static bool tells(const struct asking *asking, enum ops_kind kind,
                  enum digest_class class)
{
    if (asking->steps == 0)
        return class == DIGEST_APART;
    if (asking->apart)
        return true;
    return class != DIGEST_APART && (class != DIGEST_BARE || kind == OPS_RANGE);
}

/* From sums of recorded steps to all steps of the window. What was recorded on demand
 * stands for itself; what was drawn stands for the rest too. */
static void scale(const struct asking *asking, const struct row_sum *sum,
                  struct op_row *row)
{
    const struct class_sum *drawn = &sum->by_class[DIGEST_DRAWN];
    enum ops_kind kind = asking->ops->rows[sum->row].kind;
    double all = (double)asking->steps,
           tagged = (double)asking->recorded[DIGEST_TAGGED];
    double n = (double)asking->recorded[DIGEST_DRAWN], self_variance = 0;

    row->per_step_half_ns = (double)NAN;
    double factor[DIGEST_CLASSES] = {1, 1, 1, 1};

    if (asking->steps > 0 && kind == OPS_RANGE) {
        double ratio = asking->all_steps > 0 ? all / (double)asking->all_steps : 1;

        factor[DIGEST_DRAWN] = factor[DIGEST_TAGGED] = factor[DIGEST_BARE] = ratio;
    } else if (asking->steps > 0) {
        double rest = all > tagged ? all - tagged : 0;

        factor[DIGEST_DRAWN] = n > 0 ? rest / n : 0;
        if (n == 0 || tagged > all)
            factor[DIGEST_TAGGED] = tagged > 0 ? all / tagged : 0;
        if (n > 1) {
            double mean = drawn->self_ns / n;
            double spread = (drawn->squares - n * mean * mean) / (n - 1);

            spread = spread > 0 ? spread : 0;
            row->per_step_half_ns = numbers_t95((uint64_t)n) * sqrt(spread / n);
            if (rest > n)
                self_variance = rest * rest * (1 - n / rest) * spread / n;
        } else if (n == 1 && rest > 1) {
            self_variance = (double)NAN;
        }
    }
    for (uint32_t class = 0; class < DIGEST_CLASSES; class ++) {
        const struct class_sum *part = &sum->by_class[class];

        if (!tells(asking, kind, class))
            continue;
        row->count += factor[class] * (double)part->count;
        row->total_ns += factor[class] * part->total_ns;
        row->self_ns += factor[class] * part->self_ns;
        row->recorded_count += part->count;
        row->recorded_total_ns = sum_ns(
            row->recorded_total_ns,
            part->total_ns < (double)SUM_MAX_NS ? (int64_t)part->total_ns : SUM_MAX_NS);
    }
    row->error_pct = row->self_ns > 0 ? 100 * numbers_t95((uint64_t)n) *
                                            sqrt(self_variance) / row->self_ns
                                      : 0;
}

static void derive(const struct asking *asking, struct op_row *row)
{
    double n = (double)asking->steps;

    /* A range has no time of its own: what it encloses says how much it matters. */
    double time = row->kind != NULL && strcmp(row->kind, "range") == 0 ? row->total_ns
                                                                       : row->self_ns;

    row->per_step_ns = n > 0 ? time / n : (double)NAN;
    row->per_step_count = n > 0 ? row->count / n : (double)NAN;
    row->mean_ns = row->recorded_count > 0
                       ? (double)row->recorded_total_ns / (double)row->recorded_count
                       : (double)NAN;
    row->share = asking->step_ns > 0 ? time / asking->step_ns : (double)NAN;
    row->p50_ns = row->p95_ns = row->p99_ns = (double)NAN;
    row->device_total_ns = row->device_self_ns = (double)NAN;
    row->host_bytes = row->device_bytes = (double)NAN;
    row->launch.occupancy_pct = (double)NAN;
}

/* Of the whole file: it is not kept step by step. */
static void add_linked(const struct asking *asking, uint32_t text, struct op_row *row)
{
    const struct process *process = asking->pick->process;

    const struct ops_group *group = asking->group;

    if (!asking->whole ||
        text >= (group != NULL ? group->linked_count : process->linked_count))
        return;
    const struct process_linked *linked =
        group != NULL ? &group->linked[text] : &process->linked[text];

    if (process->linked_devices) {
        row->device_total_ns = (double)linked->device_total_ns;
        row->device_self_ns = (double)linked->device_self_ns;
    }
    if (process->linked_memory) {
        row->host_bytes = (double)linked->host_bytes;
        row->device_bytes = (double)linked->device_bytes;
    }
}

/* What NVIDIA's libraries call kernels that run on tensor cores. */
static bool uses_tensor_cores(const char *name)
{
    static const char *const marks[] = {"h884",        "s884",
                                        "h1688",       "s1688",
                                        "c1688",       "i8816",
                                        "i16832",      "16816",
                                        "16832",       "hmma",
                                        "imma",        "wgmma",
                                        "gmma",        "warpgroup",
                                        "tensorop",    "_tcgen",
                                        "xmma_gemm",   "xmma_implicit_gemm",
                                        "xmma_sparse", "xmma_warp_specialized",
                                        "flash_fwd",   "flash_bwd",
                                        "fmha_"};

    for (size_t i = 0; i < sizeof(marks) / sizeof(marks[0]); i++)
        if (strcasestr(name, marks[i]) != NULL)
            return true;
    return false;
}

static void add_launch(const struct asking *asking, uint32_t text, struct op_row *row)
{
    const struct process *process = asking->pick->process;
    const struct process_kernel *kernel =
        text < process->kernel_count ? &process->kernels[text] : NULL;

    if (strcmp(row->kind, "kernel") != 0)
        return;
    row->tensor_cores = uses_tensor_cores(row->name);
    if (kernel == NULL || kernel->count == 0)
        return;
    row->launch.known = true;
    row->launch.varies = kernel->varies;
    memcpy(row->launch.grid, kernel->grid, sizeof(kernel->grid));
    memcpy(row->launch.block, kernel->block, sizeof(kernel->block));
    row->launch.registers = kernel->registers;
    row->launch.shared_bytes = kernel->shared_bytes;
    if (kernel->occupied_ns > 0)
        row->launch.occupancy_pct = kernel->occupancy_sum / (double)kernel->occupied_ns;
    else
        row->launch.occupancy_pct = 100 * kernels_occupancy(kernel, &asking->device);
}

static const char *kind_name(enum ops_kind kind)
{
    static const char *const names[OPS_KINDS] = {"op",   "range",  "range",  "runtime",
                                                 "sync", "kernel", "memcpy", "memset"};

    return names[kind];
}

static void add_short(const struct op_row *row, struct ops_answer *answer)
{
    bool op = strcmp(row->kind, "op") == 0;

    if (!op || row->count <= 0 || row->self_ns / row->count >= OPS_SHORT_NS ||
        isnan(row->per_step_ns))
        return;
    answer->short_count += row->per_step_count;
    answer->short_self_ns += row->per_step_ns;
}

static void add_family(const struct op_row *row, struct ops_answer *answer)
{
    if (strcmp(row->kind, "kernel") != 0 || isnan(row->per_step_ns))
        return;
    enum kernel_family family = kernel_family(row->name);

    answer->family_ns[family] += row->per_step_ns;
    answer->family_count[family] += row->per_step_count;
}

/* Rows with something in them, of the device and with the text asked for. */
static void compact(struct asking *asking, struct ops_answer *answer)
{
    const struct ops *ops = asking->ops;
    const char *query = asking->request->query;
    bool accelerator = asking->request->device == OPS_ACCELERATOR;

    for (uint32_t i = 0; i < ops->row_count; i++) {
        struct row_sum *sum = &asking->rows[i];
        const char *name = texts_get(asking->texts, ops->rows[i].text);
        bool overflow = i == OPS_OTHER_CPU || i == OPS_OTHER_ACCELERATOR;

        sum->row = i;
        scale(asking, sum, &sum->answer);
        if (sum->answer.recorded_count == 0 ||
            (ops->rows[i].kind >= OPS_KERNEL) != accelerator)
            continue;
        if (query != NULL && query[0] != '\0' && strcasestr(name, query) == NULL)
            continue;
        sum->answer.name = name;
        sum->answer.kind = kind_name(ops->rows[i].kind);
        derive(asking, &sum->answer);
        if (!accelerator)
            add_linked(asking, ops->rows[i].text, &sum->answer);
        else
            add_launch(asking, ops->rows[i].text, &sum->answer);
        sum->answer.min_ns = (double)sum->min_ns;
        sum->answer.max_ns = (double)sum->max_ns;
        if (overflow) {
            answer->other = sum->answer;
            continue;
        }
        add_short(&sum->answer, answer);
        add_family(&sum->answer, answer);
        asking->rows[asking->row_count++] = *sum;
    }
    answer->total_ops = asking->row_count;
}

static int ascending_cell(const void *left, const void *right)
{
    const struct cell_count *a = left, *b = right;

    return a->cell < b->cell ? -1 : a->cell > b->cell;
}

static double quantile(const struct cell_count *cells, uint32_t count, uint64_t total,
                       double share)
{
    uint64_t seen = 0;

    for (uint32_t i = 0; i < count; i++) {
        seen += cells[i].count;
        if ((double)seen >= share * (double)total)
            return histogram_value(cells[i].cell);
    }
    return (double)NAN;
}

static void measure(struct op_row *row, struct cell_count *cells, uint32_t count)
{
    uint64_t total = 0;

    qsort(cells, count, sizeof(*cells), ascending_cell);
    for (uint32_t i = 0; i < count; i++)
        total += cells[i].count;
    row->p50_ns = quantile(cells, count, total, 0.50);
    row->p95_ns = quantile(cells, count, total, 0.95);
    row->p99_ns = quantile(cells, count, total, 0.99);
}

/* Walks the cells of wanted rows: `place` says where each row's begin (or how many, when
 * `cells` is NULL). */
static void walk_cells(const struct asking *asking, uint32_t *place,
                       struct cell_count *cells)
{
    for (uint32_t u = 0; u < asking->use_count; u++) {
        const struct digest *digest = asking->uses[u].digest;
        const uint32_t *from = digest->cells;

        for (uint32_t i = 0; i < digest->row_count; i++) {
            const struct digest_row *row = &digest->rows[i];
            uint32_t *at = &place[row->row];
            enum ops_kind kind = asking->ops->rows[row->row].kind;

            if (*at != UINT32_MAX && tells(asking, kind, asking->uses[u].class)) {
                for (uint32_t c = 0; cells != NULL && c < row->cell_count; c++)
                    cells[*at + c] = (struct cell_count){DIGEST_CELL(from[c]),
                                                         DIGEST_COUNT(from[c])};
                *at += row->cell_count;
            }
            from += row->cell_count;
        }
    }
}

/* Percentiles of rows[0..count). */
static int measure_rows(struct asking *asking, uint32_t count)
{
    uint32_t *place = malloc((asking->ops->row_count + 1) * sizeof(*place));
    uint32_t total = 0;
    int error = place == NULL ? -ENOMEM : 0;
    struct cell_count *cells = NULL;

    if (error == 0) {
        memset(place, 0xff, (asking->ops->row_count + 1) * sizeof(*place));
        for (uint32_t i = 0; i < count; i++)
            place[asking->rows[i].row] = 0;
        walk_cells(asking, place, NULL);
        for (uint32_t i = 0; i < count; i++) {
            uint32_t *at = &place[asking->rows[i].row], length = *at;

            *at = total;
            total += length;
        }
        cells = malloc((total + 1) * sizeof(*cells));
        error = cells == NULL ? -ENOMEM : 0;
    }
    if (error == 0) {
        walk_cells(asking, place, cells);
        /* Each place is now where its row's cells end. */
        for (uint32_t i = 0, from = 0; i < count; i++) {
            uint32_t to = place[asking->rows[i].row];

            measure(&asking->rows[i].answer, cells + from, to - from);
            from = to;
        }
    }
    free(cells);
    free(place);
    return error;
}

static double key_of(const struct op_row *row, enum ops_sort sort)
{
    switch (sort) {
    case OPS_BY_TOTAL:
        return row->total_ns;
    case OPS_BY_COUNT:
        return row->count;
    case OPS_BY_MEAN:
        return row->mean_ns;
    case OPS_BY_MIN:
        return row->min_ns;
    case OPS_BY_MAX:
        return row->max_ns;
    case OPS_BY_P50:
        return row->p50_ns;
    case OPS_BY_P95:
        return row->p95_ns;
    case OPS_BY_P99:
        return row->p99_ns;
    case OPS_BY_NAME:
        return 0;
    case OPS_BY_DEVICE_TOTAL:
        return row->device_total_ns;
    case OPS_BY_DEVICE_SELF:
        return row->device_self_ns;
    case OPS_BY_HOST_BYTES:
        return row->host_bytes;
    case OPS_BY_DEVICE_BYTES:
        return row->device_bytes;
    case OPS_BY_PER_STEP:
    case OPS_BY_SHARE:
        return row->share;
    case OPS_BY_SELF:
    case OPS_SORTS:
    default:
        return row->self_ns;
    }
}

static int larger_first(const void *left, const void *right)
{
    const struct row_sum *a = left, *b = right;

    if (a->key != b->key)
        return a->key > b->key ? -1 : 1;
    if (a->key2 != b->key2)
        return a->key2 > b->key2 ? -1 : 1;
    return strcmp(a->answer.name, b->answer.name);
}

static void add_other(struct op_row *other, const struct op_row *row)
{
    other->count += row->count;
    other->total_ns += row->total_ns;
    other->self_ns += row->self_ns;
    other->recorded_count += row->recorded_count;
    other->recorded_total_ns = sum_ns(other->recorded_total_ns, row->recorded_total_ns);
}

/* A group's text is two. */
static void split_name(struct arena *arena, struct op_row *row)
{
    const char *mark = strstr(row->name, GROUP_MARK);
    char name[TEXT_BYTES_MAX + 1];

    row->detail = mark == NULL ? "" : arena_text(arena, mark + GROUP_MARK_BYTES);
    (void)snprintf(name, sizeof(name), "%.*s",
                   mark == NULL ? (int)TEXT_BYTES_MAX : (int)(mark - row->name),
                   row->name);
    row->name = arena_text(arena, name);
}

static int give(struct asking *asking, struct ops_answer *answer)
{
    uint32_t k = asking->request->k == 0 ? K_DEFAULT : asking->request->k;
    enum ops_sort sort = asking->request->sort;
    bool by_quantile = sort == OPS_BY_P50 || sort == OPS_BY_P95 || sort == OPS_BY_P99;
    int error = by_quantile ? measure_rows(asking, asking->row_count) : 0;
    double errors = 0, self = 0;

    for (uint32_t i = 0; i < asking->row_count; i++) {
        struct row_sum *sum = &asking->rows[i];

        sum->key = key_of(&sum->answer, sort);
        sum->key = isnan(sum->key) ? -1 : sum->key;
        sum->key2 = sort == OPS_BY_NAME ? 0 : sum->answer.total_ns;
        self += sum->answer.self_ns;
        errors +=
            sum->answer.self_ns > 0 ? sum->answer.error_pct * sum->answer.self_ns : 0;
    }
    answer->scale_error_pct = self > 0 ? errors / self : 0;
    qsort(asking->rows, asking->row_count, sizeof(*asking->rows), larger_first);
    answer->row_count = k < asking->row_count ? k : asking->row_count;
    if (error == 0 && !by_quantile)
        error = measure_rows(asking, answer->row_count);
    answer->rows =
        arena_new(&answer->head.arena, answer->row_count, sizeof(*answer->rows));
    if (answer->rows == NULL || error != 0)
        return -ENOMEM;
    for (uint32_t i = 0; i < answer->row_count; i++) {
        answer->rows[i] = asking->rows[i].answer;
        split_name(&answer->head.arena, &answer->rows[i]);
    }
    for (uint32_t i = answer->row_count; i < asking->row_count; i++)
        add_other(&answer->other, &asking->rows[i].answer);
    answer->other_ops = asking->row_count - answer->row_count;
    answer->other.name = "other";
    answer->other.kind = "";
    answer->other.min_ns = answer->other.max_ns = (double)NAN;
    answer->other.error_pct = answer->scale_error_pct;
    derive(asking, &answer->other);
    return 0;
}

static void explain(const struct asking *asking, struct ops_answer *answer)
{
    bool accelerator = asking->request->device == OPS_ACCELERATOR;
    const struct process *process = asking->pick->process;
    const struct process_capability *source =
        &process->capabilities[accelerator ? WIRE_SOURCE_CUPTI : WIRE_SOURCE_CPU_OPS];
    const char *told = texts_get(process->texts, source->reason);

    if (answer->row_count > 0 || answer->head.reason[0] != '\0')
        return;
    if (asking->request->query != NULL && asking->request->query[0] != '\0')
        answer->head.reason = "no op of this window contains the text";
    else if (source->state != WIRE_STATE_ACTIVE && told[0] != '\0')
        answer->head.reason = arena_text(&answer->head.arena, told);
    else if (asking->steps > 0 && asking->use_count > 0)
        answer->head.reason = accelerator
                                  ? "no step of this window was recorded with GPU work"
                                  : "no step of this window was recorded with CPU ops";
    else
        answer->head.reason = "nothing was recorded in this window";
}

static int clear_other(struct ops_answer *answer)
{
    answer->other = (struct op_row){.name = "other", .kind = ""};
    answer->step_ns = (double)NAN;
    return 0;
}

int parts_ops(const struct pick *pick, const struct ops_request *request,
              const struct steps_summary *summary, struct ops_answer *answer)
{
    struct asking asking = {.pick = pick,
                            .request = request,
                            .ops = &pick->process->ops,
                            .steps = summary->count};
    int error = 0;

    asking.texts = pick->process->texts;
    asking.device = kernels_device_parse(
        parts_fact_text(pick->process, FACT_DEVICE_MULTIPROCESSOR));
    if (request->by != GROUP_NAME && request->device == OPS_CPU) {
        asking.group = pick->process->groups[request->by];
        if (asking.group == NULL) {
            answer->head.reason = "shapes, stacks and modules are known of trace files "
                                  "alone, and of deep windows";
            return clear_other(answer);
        }
        answer->by = request->by;
        asking.ops = &asking.group->ops;
        asking.texts = asking.group->texts;
    }
    asking.whole = pick->session->from_file &&
                   pick->head->window.from_ns <= pick->process->gpu.from_ns &&
                   pick->head->window.to_ns > pick->process->newest_ns;
    asking.apart = asking.whole && !pick->session->own_file;
    asking.step_ns = summary->count > 0 ? summary->mean_ns * (double)summary->count
                                        : answer->head.window.span_ns;
    answer->step_ns = summary->count > 0 ? asking.step_ns : (double)NAN;
    answer->overflowed = asking.ops->overflowed;
    asking.rows = calloc(asking.ops->row_count, sizeof(*asking.rows));
    if (asking.rows == NULL)
        return -ENOMEM;
    collect(&asking);
    add_up(&asking);
    compact(&asking, answer);
    answer->head.steps = asking.steps;
    answer->head.recorded_steps =
        asking.recorded[DIGEST_DRAWN] + asking.recorded[DIGEST_TAGGED];
    error = asking.failed ? -ENOMEM : give(&asking, answer);
    if (error == 0)
        explain(&asking, answer);
    free(asking.uses);
    free(asking.rows);
    return error;
}

int ops_query(struct store *store, const struct selection *selection,
              const struct ops_request *request, struct ops_answer *answer)
{
    struct pick pick;
    struct steps_answer steps = {0};

    *answer = (struct ops_answer){0};
    if (request->k > OPS_K_MAX || request->sort >= OPS_SORTS)
        return -EINVAL;
    int error = pick_begin(&pick, store, selection, &answer->head);

    if (error != 0)
        return error;
    pick_window(&pick, &selection->window);
    bool run = selection->window.kind == WINDOW_RUN ||
               (selection->window.kind == WINDOW_DEFAULT && !answer->head.live);

    error = parts_steps_summary(&pick, run, &steps);
    if (error == 0)
        error = parts_ops(&pick, request, &steps.train, answer);
    pick_end(&pick);
    return error;
}
