/* Ranges in the workers of a trainer's loaders, by name: what the user watches there.
 *
 * A worker has no steps. Its time counts for the window, and where its loader feeds
 * validation, as the worker says, for validation. */
#include <stdlib.h>
#include <string.h>

#include "query/parts.h"
#include "wire/facts.h"

/* Calls of one name in all workers. */
struct range {
    const char *name;
    struct parts_worker_range sum;
    uint32_t last_worker; /* serial of the process that was counted last */
    uint64_t *cells;      /* [HISTOGRAM_CELLS], of the training's calls */
};

struct looking {
    const struct answer_window *window;
    const struct process *worker; /* that is looked at */
    const char *query;
    bool validation; /* whose loader feeds it */
    struct range ranges[PARTS_WORKER_RANGES];
    uint32_t count;
    uint64_t overflowed;
};

static struct range *range_of(struct looking *looking, const char *name)
{
    for (uint32_t i = 0; i < looking->count; i++)
        if (strcmp(looking->ranges[i].name, name) == 0)
            return &looking->ranges[i];
    if (looking->count == PARTS_WORKER_RANGES)
        return NULL;
    struct range *range = &looking->ranges[looking->count];

    range->cells = calloc(HISTOGRAM_CELLS, sizeof(*range->cells));
    if (range->cells == NULL)
        return NULL;
    looking->count++;
    range->name = range->sum.name = name;
    range->sum.min_ns = INT64_MAX;
    return range;
}

static void count(struct looking *looking, struct range *range,
                  const struct digest_row *row, double part)
{
    struct parts_worker_range *sum = &range->sum;

    if (sum->workers == 0 || range->last_worker != looking->worker->serial)
        sum->workers++;
    range->last_worker = looking->worker->serial;
    if (looking->validation) {
        sum->validation_ns += part * (double)row->total_ns;
        return;
    }
    sum->count += part * (double)row->count;
    sum->total_ns += part * (double)row->total_ns;
    sum->recorded_count += row->count;
    sum->recorded_total_ns += (double)row->total_ns;
    sum->min_ns = row->min_ns < sum->min_ns ? row->min_ns : sum->min_ns;
    sum->max_ns = row->max_ns > sum->max_ns ? row->max_ns : sum->max_ns;
}

/* A digest that reaches beyond the window counts with its part in it: of the oldest, one
 * stands for a long time. */
static double part_in(const struct answer_window *window, const struct digest *digest)
{
    int64_t from = digest->span.from_ns, to = digest->span.to_ns;
    double length = (double)to - (double)from;

    from = from > window->from_ns ? from : window->from_ns;
    to = to < window->to_ns ? to : window->to_ns;
    return length > 0 && to > from ? ((double)to - (double)from) / length : 0;
}

static void look(void *user, const struct digest *digest)
{
    struct looking *looking = user;
    const struct ops *ops = &looking->worker->ops;
    double part = part_in(looking->window, digest);
    const uint32_t *cells = digest->cells;

    for (uint32_t i = 0; part > 0 && i < digest->row_count; i++) {
        const struct digest_row *row = &digest->rows[i];
        const struct ops_row *what = &ops->rows[row->row];
        const char *name = texts_get(looking->worker->texts, what->text);
        bool wanted = what->kind == OPS_RANGE && row->row != OPS_OTHER_CPU &&
                      (looking->query == NULL || looking->query[0] == '\0' ||
                       strcasestr(name, looking->query) != NULL);
        struct range *range = wanted ? range_of(looking, name) : NULL;

        looking->overflowed += wanted && range == NULL ? row->count : 0;
        if (range != NULL)
            count(looking, range, row, part);
        for (uint32_t c = 0; c < row->cell_count; c++)
            if (range != NULL && !looking->validation)
                range->cells[DIGEST_CELL(cells[c]) % HISTOGRAM_CELLS] +=
                    DIGEST_COUNT(cells[c]);
        cells += row->cell_count;
    }
}

bool parts_feeds_no_training(const struct process *worker)
{
    const char *stage = parts_fact_text(worker, FACT_LOADER_STAGE);

    return stage[0] != '\0' && strcmp(stage, "train") != 0;
}

static void look_at(struct looking *looking, const struct process *worker)
{
    int64_t range[2] = {looking->window->from_ns, looking->window->to_ns};

    looking->worker = worker;
    looking->validation = parts_feeds_no_training(worker);
    digests_visit(&worker->ops.digests, DIGEST_APART, range, look, looking);
    for (uint32_t i = 0; i < worker->ops.open_count; i++)
        look(looking, ops_open(&worker->ops, i)->digest);
}

uint64_t parts_worker_ranges(const struct pick *pick, const char *query,
                             struct parts_worker_range *ranges, uint32_t *found)
{
    struct looking looking = {.window = &pick->head->window, .query = query};
    const struct process_identity *trainer = &pick->process->identity;

    for (const struct process *worker = pick->session->processes; worker != NULL;
         worker = worker->next)
        if (worker->identity.role == WIRE_ROLE_WORKER &&
            worker->identity.parent_pid == trainer->pid &&
            strcmp(worker->identity.host, trainer->host) == 0)
            look_at(&looking, worker);
    for (uint32_t i = 0; i < looking.count; i++) {
        struct range *range = &looking.ranges[i];
        uint64_t total = 0;

        for (uint32_t cell = 0; cell < HISTOGRAM_CELLS; cell++)
            total += range->cells[cell];
        range->sum.p50_ns = histogram_quantile(range->cells, total, 0.50);
        range->sum.p95_ns = histogram_quantile(range->cells, total, 0.95);
        range->sum.p99_ns = histogram_quantile(range->cells, total, 0.99);
        ranges[i] = range->sum;
        free(range->cells);
    }
    *found = looking.count;
    return looking.overflowed;
}
