#include "query/ops_query.h"

#include <errno.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "aggregate/sum.h"
#include "query/ops_inside.h"
#include "wire/facts.h"

#define K_DEFAULT 10u

static void use(void *user, const struct digest *digest)
{
    struct ops_asking *asking = user;

    if (asking->use_count == asking->use_capacity) {
        uint32_t capacity = asking->use_capacity == 0 ? 256 : asking->use_capacity * 2;
        struct ops_use *uses = realloc(asking->uses, capacity * sizeof(*uses));

        if (uses == NULL) {
            asking->failed = true;
            return;
        }
        asking->uses = uses;
        asking->use_capacity = capacity;
    }
    asking->uses[asking->use_count++] =
        (struct ops_use){.digest = digest, .class = asking->class};
}

/* Where there are training steps, of validation its ranges are told beside them. */
static bool is_asked_for(const struct ops_asking *asking, enum digest_class class)
{
    return asking->apart ||
           (asking->steps > 0 ? class != DIGEST_APART : class >= DIGEST_VALIDATION);
}

/* Digests that touch the window, and steps that still wait for late events. */
static void collect(struct ops_asking *asking)
{
    const struct answer_window *window = &asking->pick->head->window;
    int64_t range[2] = {window->from_ns, window->to_ns};

    for (uint32_t class = 0; class < DIGEST_CLASSES; class ++) {
        if (!is_asked_for(asking, class))
            continue;
        asking->class = class;
        digests_visit(&asking->ops->digests, class, range, use, asking);
    }
    for (uint32_t i = 0; i < asking->ops->open_count; i++) {
        const struct ops_step *step = ops_open(asking->ops, i);

        if (!is_asked_for(asking, step->class) ||
            step->digest->span.to_ns <= range[0] ||
            step->digest->span.from_ns >= range[1])
            continue;
        asking->class = step->class;
        use(asking, step->digest);
    }
}

static void add_up(struct ops_asking *asking)
{
    for (uint32_t i = 0; i < asking->ops->row_count; i++)
        asking->rows[i].min_ns = INT64_MAX;
    for (uint32_t u = 0; u < asking->use_count; u++) {
        const struct digest *digest = asking->uses[u].digest;
        enum digest_class class = asking->uses[u].class;

        asking->recorded[class] +=
            asking->by_kernels ? digest->span.kernel_steps : digest->span.ops_steps;
        asking->all_steps += digest->span.steps;
        for (uint32_t i = 0; i < digest->row_count; i++) {
            const struct digest_row *from = &digest->rows[i];
            struct ops_row_sum *to = &asking->rows[from->row];

            ops_class_add(&to->by_class[class], from);
            if (!ops_tells(asking, asking->ops->rows[from->row].kind, class))
                continue;
            to->min_ns = from->min_ns < to->min_ns ? from->min_ns : to->min_ns;
            to->max_ns = from->max_ns > to->max_ns ? from->max_ns : to->max_ns;
        }
    }
}

/* Whoever reads a kernel's short name looks for that. */
static bool is_named(const char *query, const char *name, enum ops_kind kind)
{
    char text[KERNEL_SHORT_BYTES];

    if (query == NULL || query[0] == '\0' || strcasestr(name, query) != NULL)
        return true;
    return kind == OPS_KERNEL && kernel_short_name(name, text, sizeof(text)) &&
           strcasestr(text, query) != NULL;
}

/* Rows with something in them, of the device and with the text asked for. */
static void compact(struct ops_asking *asking, struct ops_answer *answer)
{
    const struct ops *ops = asking->ops;
    bool accelerator = asking->request->device == OPS_ACCELERATOR;

    for (uint32_t i = 0; i < ops->row_count; i++) {
        struct ops_row_sum *sum = &asking->rows[i];
        const char *name = texts_get(asking->texts, ops->rows[i].text);

        sum->row = i;
        ops_scale(asking, sum);
        if (sum->answer.recorded_count == 0 ||
            (ops->rows[i].kind >= OPS_KERNEL) != accelerator)
            continue;
        if (!is_named(asking->request->query, name, ops->rows[i].kind))
            continue;
        ops_describe(asking, sum, answer);
        if (i == OPS_OTHER_CPU || i == OPS_OTHER_ACCELERATOR) {
            answer->other = sum->answer;
            continue;
        }
        ops_sums_add(&sum->answer, answer);
        asking->rows[asking->row_count++] = *sum;
    }
    if (!accelerator && asking->request->by == GROUP_NAME)
        ops_add_workers(asking, answer);
    answer->total_ops = asking->row_count;
}

static double key_of(const struct op_row *row, enum ops_sort sort)
{
    static const size_t columns[OPS_SORTS] = {
        [OPS_BY_TOTAL] = offsetof(struct op_row, total_ns),
        [OPS_BY_COUNT] = offsetof(struct op_row, count),
        [OPS_BY_MEAN] = offsetof(struct op_row, mean_ns),
        [OPS_BY_MIN] = offsetof(struct op_row, min_ns),
        [OPS_BY_MAX] = offsetof(struct op_row, max_ns),
        [OPS_BY_P50] = offsetof(struct op_row, p50_ns),
        [OPS_BY_P95] = offsetof(struct op_row, p95_ns),
        [OPS_BY_P99] = offsetof(struct op_row, p99_ns),
        [OPS_BY_PER_STEP] = offsetof(struct op_row, share),
        [OPS_BY_SHARE] = offsetof(struct op_row, share),
        [OPS_BY_DEVICE_TOTAL] = offsetof(struct op_row, device_total_ns),
        [OPS_BY_DEVICE_SELF] = offsetof(struct op_row, device_self_ns),
        [OPS_BY_HOST_BYTES] = offsetof(struct op_row, host_bytes),
        [OPS_BY_DEVICE_BYTES] = offsetof(struct op_row, device_bytes),
        [OPS_BY_HOST_TOTAL_BYTES] = offsetof(struct op_row, host_total_bytes),
        [OPS_BY_DEVICE_TOTAL_BYTES] = offsetof(struct op_row, device_total_bytes)};
    double key;

    if (sort == OPS_BY_NAME)
        return 0;
    if (sort == OPS_BY_SELF || sort >= OPS_SORTS)
        return row->watched ? row->total_ns : row->self_ns;
    memcpy(&key, (const char *)row + columns[sort], sizeof(key));
    return key;
}

static int larger_first(const void *left, const void *right)
{
    const struct ops_row_sum *a = left, *b = right;

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

/* What is told of a row, which stays in its place. */
static int give_rows(struct ops_asking *asking, uint32_t count,
                     struct ops_answer *answer)
{
    char text[KERNEL_SHORT_BYTES];

    if (!ARENA_LIST(&answer->head.arena, answer->rows, count))
        return -ENOMEM;
    for (uint32_t i = 0; i < count; i++) {
        answer->rows[i] = asking->rows[i].answer;
        split_name(&answer->head.arena, &answer->rows[i]);
        if (strcmp(answer->rows[i].kind, "kernel") == 0 &&
            kernel_short_name(answer->rows[i].name, text, sizeof(text)))
            answer->rows[i].short_name = arena_text(&answer->head.arena, text);
    }
    return 0;
}

static int give(struct ops_asking *asking, struct ops_answer *answer)
{
    uint32_t k = asking->request->k == 0 ? K_DEFAULT : asking->request->k;
    enum ops_sort sort = asking->request->sort;
    bool by_quantile = sort == OPS_BY_P50 || sort == OPS_BY_P95 || sort == OPS_BY_P99;
    int error = by_quantile ? ops_measure(asking, asking->row_count) : 0;
    double errors = 0, self = 0;

    for (uint32_t i = 0; i < asking->row_count; i++) {
        struct ops_row_sum *sum = &asking->rows[i];

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
    answer->judged_count = asking->request->judged < asking->row_count
                               ? asking->request->judged
                               : asking->row_count;
    uint32_t held = ops_held(answer);

    if (error == 0 && !by_quantile)
        error = ops_measure(asking, held);
    if (error != 0 || give_rows(asking, held, answer) != 0)
        return -ENOMEM;
    for (uint32_t i = answer->row_count; i < asking->row_count; i++)
        add_other(&answer->other, &asking->rows[i].answer);
    answer->other_ops = asking->row_count - answer->row_count;
    answer->other.name = "other";
    answer->other.kind = "";
    answer->other.min_ns = answer->other.max_ns = UNKNOWN;
    answer->other.error_pct = answer->scale_error_pct;
    ops_derive(asking, &answer->other);
    return 0;
}

static void explain(const struct ops_asking *asking, struct ops_answer *answer)
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
    else if (accelerator && gpu_why_unknown(process)[0] != '\0')
        answer->head.reason = gpu_why_unknown(process);
    else if (asking->steps > 0 && asking->use_count > 0)
        answer->head.reason = accelerator
                                  ? "no step of this window was recorded with GPU work"
                                  : "no step of this window was recorded with CPU ops";
    else
        answer->head.reason = "nothing was recorded in this window";
}

/* The table of device time by op over the same window. Its rows are not known where it has
 * no step; the lists are the caller's in any case. */
static void ask_launched(const struct ops_asking *asking, struct ops_asking *launched)
{
    static const struct ops_request request = {.device = OPS_ACCELERATOR};
    const struct ops *ops = &asking->pick->process->links.table.ops;

    *launched = (struct ops_asking){.pick = asking->pick,
                                    .request = &request,
                                    .ops = ops,
                                    .texts = asking->texts,
                                    .by_kernels = true,
                                    .by_both = true,
                                    .steps = asking->steps,
                                    .step_ns = asking->step_ns,
                                    .share_ns = asking->share_ns};
    launched->rows = calloc(ops->row_count, sizeof(*launched->rows));
    if (launched->rows == NULL)
        return;
    collect(launched);
    add_up(launched);
    if (launched->failed || ops_add_drawn(launched) != 0)
        return;
    for (uint32_t i = 0; i < ops->row_count; i++) {
        launched->rows[i].row = i;
        ops_scale(launched, &launched->rows[i]);
    }
    launched->row_count = ops->row_count;
}

static void add_needless(const struct ops_asking *asking, struct ops_answer *answer)
{
    const struct process_needless *sums = asking->pick->process->needless;
    double steps = (double)asking->steps;

    answer->update_inside = asking->pick->process->update_inside;
    for (uint32_t i = 0; i < NEEDLESS_WORKS; i++)
        answer->needless[i] =
            (struct op_needless){.count = (double)sums[i].count / steps,
                                 .host_ns = (double)sums[i].host_ns / steps,
                                 .device_ns = (double)sums[i].device_ns / steps};
}

/* After collect(): rows of the names that take most, and what is said of all of them. */
static int answer_rows(struct ops_asking *asking, struct ops_answer *answer)
{
    bool cpu = asking->request->device == OPS_CPU;
    struct ops_asking launched = {0};
    int error;

    if (cpu && asking->steps > 0 && !asking->pick->session->from_file)
        ask_launched(asking, &launched);
    if (launched.row_count > 0 &&
        launched.recorded[DIGEST_DRAWN] + launched.recorded[DIGEST_TAGGED] > 0)
        asking->launched = &launched;
    compact(asking, answer);
    if (cpu && pick_goes_on(asking->pick))
        ops_sums_saving(&asking->ops->saving, (double)asking->steps, answer);
    if (cpu && asking->whole && asking->steps > 0)
        add_needless(asking, answer);
    answer->head.steps = asking->steps;
    answer->head.recorded_steps =
        asking->recorded[DIGEST_DRAWN] + asking->recorded[DIGEST_TAGGED];
    error = asking->failed ? -ENOMEM : give(asking, answer);
    if (error == 0)
        explain(asking, answer);
    free(launched.uses);
    free(launched.rows);
    return error;
}

int parts_ops(const struct pick *pick, const struct ops_request *request,
              const struct steps_answer *steps, struct ops_answer *answer)
{
    struct ops_asking asking = {.pick = pick, .request = request};
    int error;

    asking.multiprocessors = parts_fact_text(pick->process, FACT_DEVICE_MULTIPROCESSOR);
    answer->multiprocessors = kernels_multiprocessors(asking.multiprocessors);
    if (!ops_choose_table(&asking, answer))
        return 0;
    answer->overflowed = asking.ops->overflowed;
    ops_measure_window(&asking, steps, answer);
    asking.watched = parts_fact_text(pick->process, FACT_WATCH_FUNCTIONS);
    asking.rows =
        calloc(asking.ops->row_count + PARTS_WORKER_RANGES, sizeof(*asking.rows));
    if (asking.rows == NULL)
        return -ENOMEM;
    collect(&asking);
    add_up(&asking);
    if (asking.steps > 0 && ops_add_drawn(&asking) != 0)
        asking.failed = true;
    error = answer_rows(&asking, answer);
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
    int error = pick_open(&pick, store, selection, &answer->head);

    if (error != 0)
        return error;
    bool run = pick_is_run(&pick, &selection->window);

    error = parts_steps_summary(&pick, run, &steps);
    if (error == 0)
        error = parts_ops(&pick, request, &steps, answer);
    pick_end(&pick);
    return error;
}
