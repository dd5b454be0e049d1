#include "aggregate/ops.h"

#include <stdlib.h>
#include <string.h>

/* Time outside of steps becomes a digest of its own about every second. */
#define APART_NS INT64_C(1000000000)
#define NO_STEP  INT64_MIN

bool ops_init(struct ops *ops, const struct texts *texts, size_t digest_bytes)
{
    *ops = (struct ops){.texts = texts,
                        .between = true,
                        .running_from_ns = INT64_MIN,
                        .known_ns = INT64_MIN};
    digests_init(&ops->digests, digest_bytes);
    ops->row_capacity = 64;
    ops->rows = calloc(ops->row_capacity, sizeof(*ops->rows));
    ops->row_count = 2;
    ops->open_capacity = OPS_OPEN;
    ops->open = calloc(ops->open_capacity, sizeof(*ops->open));
    if (ops->rows == NULL || ops->open == NULL ||
        !tally_reserve(&ops->running, ops->row_capacity)) {
        ops_free(ops);
        return false;
    }
    ops->rows[OPS_OTHER_ACCELERATOR].kind = OPS_KERNEL;
    return true;
}

void ops_free(struct ops *ops)
{
    for (uint32_t i = 0; i < ops->open_count; i++) {
        free(ops_open(ops, i)->late);
        free(ops_open(ops, i)->digest);
    }
    free(ops->open);
    tally_free(&ops->late);
    tally_free(&ops->running);
    digests_free(&ops->digests);
    free(ops->rows);
    free(ops->row_of);
    free(ops->held);
    *ops = (struct ops){0};
}

static bool reserve_texts(struct ops *ops, uint32_t text)
{
    uint32_t texts = ops->row_of_texts == 0 ? 256 : ops->row_of_texts;

    while (texts <= text)
        texts *= 2;
    if (texts == ops->row_of_texts)
        return true;
    size_t unit = OPS_KINDS * sizeof(uint32_t);
    uint32_t *row_of = realloc(ops->row_of, texts * unit);

    if (row_of == NULL)
        return false;
    memset(row_of + (size_t)ops->row_of_texts * OPS_KINDS, 0,
           (texts - ops->row_of_texts) * unit);
    ops->row_of = row_of;
    ops->row_of_texts = texts;
    return true;
}

static bool reserve_rows(struct ops *ops)
{
    if (ops->row_count < ops->row_capacity)
        return true;
    if (ops->row_capacity >= TALLY_ROWS_MAX)
        return false;
    uint32_t capacity = ops->row_capacity * 2;
    struct ops_row *rows = realloc(ops->rows, capacity * sizeof(*rows));

    if (rows == NULL)
        return false;
    ops->rows = rows;
    if (!tally_reserve(&ops->running, capacity))
        return false;
    ops->row_capacity = capacity;
    return true;
}

uint32_t ops_row_add(struct ops *ops, uint32_t text, enum ops_kind kind)
{
    bool accelerator = kind >= OPS_KERNEL;
    enum text_class class = texts_class(ops->texts, text);
    bool annotation = kind == OPS_OP && class == TEXT_ANNOTATION;
    bool range = annotation || kind == OPS_RANGE || kind == OPS_RANGE_SAMPLED;
    uint32_t flags = OPS_ROW_KNOWN | (range ? OPS_ROW_RANGE : 0);

    if (class == TEXT_STEP && !accelerator)
        return OPS_ROW_KNOWN | OPS_ROW_STEP;
    if (text == 0 || text >= TEXTS_MAX || !reserve_texts(ops, text) ||
        !reserve_rows(ops)) {
        ops->overflowed++;
        return flags | (accelerator ? OPS_OTHER_ACCELERATOR : OPS_OTHER_CPU);
    }
    uint32_t row = ops->row_count++;

    ops->rows[row] =
        (struct ops_row){.text = text, .kind = annotation ? OPS_RANGE_SAMPLED : kind};
    ops->row_of[text * OPS_KINDS + kind] = flags | row;
    const char *name = texts_get(ops->texts, text);

    if (kind == OPS_RANGE && strcmp(name, OPS_SAVING) == 0)
        ops->saving = (struct ops_saving){.row = row};
    if (kind == OPS_RANGE && strcmp(name, OPS_SAVING_PLAIN) == 0 && ops->saving.row == 0)
        ops->saving.row = row;
    return flags | row;
}

/* What a source told of a step that it did not see as a whole would enter sums without
 * counting among the steps that they are divided by. */
static void drop_accelerators(const struct ops *ops, struct digest *digest)
{
    uint32_t rows = 0, cells = 0, next = 0;

    for (uint32_t i = 0; i < digest->row_count; i++) {
        struct digest_row row = digest->rows[i];

        if (ops->rows[row.row].kind < OPS_KERNEL) {
            memmove(digest->cells + cells, digest->cells + next,
                    row.cell_count * sizeof(*digest->cells));
            cells += row.cell_count;
            digest->rows[rows++] = row;
        }
        next += row.cell_count;
    }
    digest->row_count = rows;
    digest->cell_count = cells;
}

static struct digest *seal(const struct ops *ops, struct tally *tally,
                           const struct digest_span *span, enum digest_class class)
{
    struct digest *digest = tally_seal(tally, span, class == DIGEST_DRAWN, UINT32_MAX);

    if (digest != NULL && span->steps > 0 && span->kernel_steps == 0)
        drop_accelerators(ops, digest);
    return digest;
}

static void add(struct tally *tally, const struct ops_held *event)
{
    tally_add(tally, event->row, event->duration_ns, event->self_ns);
}

/* The digest of a step again, with what came late. */
static void refresh(struct ops *ops, struct ops_step *step)
{
    if (step->late_count == 0)
        return;
    if (!tally_reserve(&ops->late, ops->row_capacity)) {
        ops->digests.refused++;
        return;
    }
    tally_add_digest(&ops->late, step->digest);
    for (uint32_t i = 0; i < step->late_count; i++)
        add(&ops->late, &step->late[i]);
    free(step->late);
    step->late = NULL;
    step->late_count = step->late_capacity = 0;
    struct digest *digest = seal(ops, &ops->late, &step->digest->span, step->class);

    if (digest == NULL) {
        ops->digests.refused++;
        return;
    }
    ops->open_bytes += digest->bytes - step->digest->bytes;
    free(step->digest);
    step->digest = digest;
}

void ops_refresh(struct ops *ops)
{
    for (uint32_t i = 0; i < ops->open_count && ops->any_late; i++)
        refresh(ops, ops_open(ops, i));
    ops->any_late = false;
}

static void close_oldest(struct ops *ops)
{
    struct ops_step *step = ops_open(ops, 0);

    refresh(ops, step);
    free(step->late); /* no memory to join it */
    ops->open_bytes -= step->digest->bytes;
    digests_push(&ops->digests, step->class, step->digest);
    *step = (struct ops_step){.digest = NULL};
    ops->open_first = (ops->open_first + 1) % ops->open_capacity;
    ops->open_count--;
}

/* Nothing of the oldest comes any more, or there is no room for so many. */
static bool is_oldest_done(const struct ops *ops)
{
    return ops->open_count >= OPS_OPEN &&
           (ops->known_ns == INT64_MIN || ops->open_count >= OPS_OPEN_MOST ||
            ops->open_bytes >= OPS_OPEN_BYTES ||
            ops_open(ops, 0)->digest->span.to_ns <= ops->known_ns);
}

void ops_known(struct ops *ops, int64_t until_ns)
{
    if (until_ns > ops->known_ns)
        ops->known_ns = until_ns;
}

/* Room for one more behind the newest. */
static void make_room(struct ops *ops)
{
    uint32_t capacity = ops->open_capacity * 2;

    while (is_oldest_done(ops))
        close_oldest(ops);
    if (ops->open_count < ops->open_capacity)
        return;
    struct ops_step *open = calloc(capacity, sizeof(*open));

    if (open == NULL) {
        close_oldest(ops);
        return;
    }
    for (uint32_t i = 0; i < ops->open_count; i++)
        open[i] = *ops_open(ops, i);
    free(ops->open);
    ops->open = open;
    ops->open_first = 0;
    ops->open_capacity = capacity;
}

/* The running tally stands for `span` and waits; the next one begins. */
static void close_running(struct ops *ops, enum digest_class class,
                          const struct digest_span *span)
{
    bool empty = ops->running.touched_count == 0 && span->steps == 0;
    struct digest *digest = empty ? NULL : seal(ops, &ops->running, span, class);

    ops->running_from_ns = span->to_ns;
    if (empty)
        return;
    if (digest == NULL) {
        ops->digests.refused++;
        return;
    }
    make_room(ops);
    ops->open_bytes += digest->bytes;
    *ops_open(ops, ops->open_count++) =
        (struct ops_step){.digest = digest, .class = class};
}

/* Gives held events to the time before `start_ns`, or to what begins there. */
static void release_held(struct ops *ops, int64_t start_ns)
{
    int64_t from = INT64_MAX, to = INT64_MIN;
    uint32_t kept = 0;

    for (uint32_t i = 0; i < ops->held_count; i++) {
        const struct ops_held *event = &ops->held[i];
        int64_t end = event->start_ns + event->duration_ns;

        if (event->start_ns >= start_ns) {
            ops->held[kept++] = *event;
            continue;
        }
        from = event->start_ns < from ? event->start_ns : from;
        to = end > to ? end : to;
        add(&ops->running, event);
    }
    ops->held_count = kept;
    if (from == INT64_MAX)
        return;
    to = to > start_ns ? start_ns : to;
    close_running(ops, DIGEST_APART,
                  &(struct digest_span){.from_ns = from,
                                        .to_ns = to > from ? to : from + 1,
                                        .first_step = NO_STEP,
                                        .last_step = NO_STEP});
}

void ops_begin(struct ops *ops, int64_t start_ns)
{
    if (!ops->between)
        return;
    release_held(ops, start_ns);
    ops->between = false;
    ops->running_from_ns = start_ns;
    for (uint32_t i = 0; i < ops->held_count; i++)
        add(&ops->running, &ops->held[i]);
    ops->held_count = 0;
}

/* A training step ends, and its tally is whole. */
static void count_saving(struct ops *ops)
{
    struct ops_saving *saving = &ops->saving;
    const struct tally_row *row = &ops->running.rows[saving->row];

    saving->steps += saving->times > 0 ? 1 : 0;
    if (saving->row == 0 || row->count == 0)
        return;
    saving->times++;
    saving->count += row->count;
    saving->total_ns += (double)row->total_ns;
    saving->reached = saving->steps;
}

void ops_end(struct ops *ops, const struct step *step)
{
    /* torch.profiler lengthens every operator of a deep window. */
    bool apart = (step->flags & (EVENT_STEP_VALIDATION | EVENT_STEP_WINDOW)) != 0;
    bool ops_whole = (step->flags & EVENT_STEP_OPS) && step->whole;
    bool kernels_whole = (step->flags & EVENT_STEP_KERNELS) && step->whole;
    enum digest_class class = step->flags & EVENT_STEP_WINDOW       ? DIGEST_APART
                              : step->flags & EVENT_STEP_VALIDATION ? DIGEST_VALIDATION
                              : step->flags & EVENT_STEP_TAGGED     ? DIGEST_TAGGED
                              : ops_whole || kernels_whole          ? DIGEST_DRAWN
                                                                    : DIGEST_BARE;
    int64_t number = apart ? NO_STEP : (int64_t)step->number;

    ops_begin(ops, step->start_ns);
    if (!apart)
        count_saving(ops);
    close_running(ops, class,
                  &(struct digest_span){.from_ns = step->start_ns,
                                        .to_ns = step->start_ns + step->duration_ns,
                                        .first_step = number,
                                        .last_step = number,
                                        .steps = !apart,
                                        .ops_steps = !apart && ops_whole,
                                        .kernel_steps = !apart && kernels_whole,
                                        .step_ns = apart ? 0 : step->duration_ns});
    ops->between = (step->flags & EVENT_STEP_VALIDATION) != 0;
}

void ops_settle(struct ops *ops)
{
    if (ops->between && ops->held_count > 0)
        release_held(ops, INT64_MAX);
}

static bool reserve_late(struct ops_step *step)
{
    uint32_t capacity = step->late_capacity == 0 ? 16 : step->late_capacity * 2;

    if (step->late_count < step->late_capacity)
        return true;
    struct ops_held *late = realloc(step->late, capacity * sizeof(*late));

    if (late == NULL)
        return false;
    step->late = late;
    step->late_capacity = capacity;
    return true;
}

/* Where a late event counts: the last of the closed steps that had begun; the oldest takes
 * what is older than all, the running one what comes before any. */
static void add_late(struct ops *ops, const struct ops_held *event)
{
    uint32_t low = 0, high = ops->open_count;

    while (low < high) {
        uint32_t middle = low + (high - low) / 2;

        if (ops_open(ops, middle)->digest->span.from_ns <= event->start_ns)
            low = middle + 1;
        else
            high = middle;
    }
    ops->late_events += low == 0;
    struct ops_step *step =
        ops->open_count > 0 ? ops_open(ops, low > 0 ? low - 1 : 0) : NULL;

    if (step == NULL || !reserve_late(step)) {
        add(&ops->running, event);
        return;
    }
    step->late[step->late_count++] = *event;
    ops->any_late = true;
}

void ops_add_apart(struct ops *ops, const struct ops_held *event)
{
    if (event->start_ns < ops->running_from_ns) {
        add_late(ops, event);
        return;
    }
    if (ops->held == NULL)
        ops->held = malloc(OPS_HELD * sizeof(*ops->held));
    if (ops->held == NULL) {
        ops->overflowed++;
        return;
    }
    if (ops->held_count == OPS_HELD) {
        int64_t oldest = ops->held[0].start_ns;
        bool long_ago = event->start_ns - oldest > APART_NS;

        /* The older half; with a long past, all but the last second. */
        release_held(ops, long_ago ? event->start_ns - APART_NS
                                   : ops->held[OPS_HELD / 2].start_ns);
    }
    if (ops->held_count == OPS_HELD)
        release_held(ops, INT64_MAX);
    ops->held[ops->held_count++] = *event;
}
