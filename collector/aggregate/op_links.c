#include "aggregate/op_links.h"

#include <stdlib.h>
#include <string.h>

#include "aggregate/gpu_host.h"
#include "aggregate/process.h"

/* What lies deeper in each other is no program's. */
#define DEPTH_MAX 512u

/* ---- ops of a thread ------------------------------------------------------------------- */

struct span {
    int64_t start_ns, end_ns;
    uint32_t text : 30;
    uint32_t is_op : 1;  /* no range */
    uint32_t nested : 1; /* `link` is what it lies in */
    uint32_t link;       /* else the one before it that lies in nothing either */
};

/* The newest, by their ends, numbered as they came. */
struct op_spans {
    struct span *list; /* ring */
    uint32_t count, capacity;
    uint32_t next,
        last_open;    /* numbers: of the next; of the last that lies in nothing */
    int64_t since_ns; /* what ended before is not remembered */
};

void op_spans_free(struct op_spans *spans)
{
    if (spans != NULL)
        free(spans->list);
    free(spans);
}

static struct span *span_at(const struct op_spans *spans, uint32_t number)
{
    return &spans->list[number % spans->capacity];
}

static bool is_kept(const struct op_spans *spans, uint32_t number)
{
    return spans->next - number - 1 < spans->count;
}

static void make_room(struct op_spans *spans)
{
    uint32_t capacity = spans->capacity == 0 ? 1024 : spans->capacity * 2;
    uint32_t first = spans->next - spans->count;

    if (spans->count < spans->capacity)
        return;
    struct span *list =
        capacity > OP_LINKS_SPANS ? NULL : malloc(capacity * sizeof(*list));

    if (list == NULL) {
        if (spans->capacity > 0) {
            spans->since_ns = span_at(spans, first)->end_ns;
            spans->count--;
        }
        return;
    }
    for (uint32_t i = 0; i < spans->capacity; i++) /* it is full */
        list[(first + i) % capacity] = *span_at(spans, first + i);
    free(spans->list);
    spans->list = list;
    spans->capacity = capacity;
}

static void add_span(struct op_spans *spans, const struct event *event)
{
    int64_t start_ns = (int64_t)event->time;
    int64_t end_ns = start_ns + (int64_t)event->value;
    uint32_t number = spans->next, open = spans->last_open;

    make_room(spans);
    if (spans->capacity == 0) {
        spans->since_ns = end_ns;
        return;
    }
    if (spans->count == 0 && spans->since_ns == INT64_MIN)
        spans->since_ns = end_ns;
    if (spans->count > 0 && span_at(spans, number - 1)->end_ns > end_ns)
        end_ns = span_at(spans, number - 1)->end_ns;
    while (is_kept(spans, open) && span_at(spans, open)->start_ns >= start_ns) {
        struct span *child = span_at(spans, open);

        open = child->link;
        child->link = number;
        child->nested = true;
    }
    *span_at(spans, number) =
        (struct span){.start_ns = start_ns,
                      .end_ns = end_ns,
                      .text = EVENT_NAME(event->meta) & 0x3fffffffu,
                      .is_op = EVENT_KIND(event->meta) == EVENT_CPU_OP,
                      .link = open};
    spans->last_open = number;
    spans->next++;
    spans->count++;
}

/* What it lies in; NULL in nothing. */
static const struct span *around(const struct op_spans *spans, const struct span *span)
{
    return span->nested ? span_at(spans, span->link) : NULL;
}

/* The innermost at that time; NULL: none was open. */
static const struct span *find_span(const struct op_spans *spans, int64_t at_ns)
{
    uint32_t first = spans->next - spans->count, low = 0, high = spans->count;

    while (low < high) {
        uint32_t middle = low + (high - low) / 2;

        if (span_at(spans, first + middle)->end_ns > at_ns)
            high = middle;
        else
            low = middle + 1;
    }
    const struct span *span = low < spans->count ? span_at(spans, first + low) : NULL;

    for (uint32_t depth = 0; span != NULL && span->start_ns > at_ns; depth++)
        span = depth < DEPTH_MAX ? around(spans, span) : NULL;
    return span;
}

/* ---- what comes in ----------------------------------------------------------------- */

bool op_links_init(struct op_links *links, const struct texts *texts,
                   size_t digest_bytes)
{
    *links = (struct op_links){.told_ns = INT64_MIN,
                               .host_ns = INT64_MIN,
                               .lost_ns = INT64_MIN,
                               .first_ns = INT64_MAX,
                               .looked = {.from_ns = INT64_MAX}};
    return device_ops_init(&links->table, texts, digest_bytes);
}

void op_links_free(struct op_links *links)
{
    device_ops_free(&links->table);
    free(links->works);
    free(links->late);
    *links = (struct op_links){0};
}

static void note_late(struct op_links *links, const struct event *event)
{
    uint32_t text = EVENT_NAME(event->meta);

    if (text >= TEXTS_MAX)
        return;
    if (text >= links->late_count) {
        uint32_t count = links->late_count == 0 ? 256 : links->late_count;

        while (count <= text)
            count *= 2;
        int64_t *late = realloc(links->late, count * sizeof(*late));

        if (late == NULL)
            return;
        memset(late + links->late_count, 0,
               (count - links->late_count) * sizeof(*late));
        links->late = late;
        links->late_count = count;
    }
    links->late[text] = (int64_t)(event->time + event->value);
}

bool op_links_knows(const struct op_links *links, uint32_t text, int64_t since_ns)
{
    return text >= links->late_count || links->late[text] == 0 ||
           links->late[text] <= since_ns;
}

static void fold_span(struct process *process, struct process_thread *thread,
                      const struct event *event)
{
    struct op_links *links = &process->links;

    if (texts_class(process->texts, EVENT_NAME(event->meta)) == TEXT_STEP)
        return;
    if (thread->tells_steps)
        links->host_ns = (int64_t)(event->time + event->value);
    if (thread->spans == NULL &&
        (thread->spans = calloc(1, sizeof(*thread->spans))) != NULL)
        *thread->spans = (struct op_spans){.next = 1, .since_ns = INT64_MIN};
    if (thread->spans == NULL)
        return;
    if ((int64_t)event->time < links->table.told_ns)
        note_late(links, event);
    add_span(thread->spans, event);
}

/* Nothing of what waits is known then, nor of the steps that it began in. */
static void forget_works(struct op_links *links)
{
    int64_t from_ns = INT64_MAX;

    for (uint32_t i = 0; i < links->work_count; i++) {
        const struct op_links_work *work = &links->works[i];

        from_ns = work->start_ns < from_ns ? work->start_ns : from_ns;
        links->lost_ns =
            work->start_ns > links->lost_ns ? work->start_ns : links->lost_ns;
    }
    links->work_count = 0;
    links->first_ns = INT64_MAX;
    (void)device_ops_lose(&links->table, from_ns, INT64_MAX);
}

static void fold_work(struct op_links *links, const struct event *event)
{
    if (links->work_count == links->work_capacity) {
        uint32_t capacity = links->work_capacity == 0 ? 1024 : links->work_capacity * 2;
        struct op_links_work *works =
            capacity > OP_LINKS_WORKS
                ? NULL
                : realloc(links->works, capacity * sizeof(*works));

        if (works != NULL) {
            links->works = works;
            links->work_capacity = capacity;
        } else {
            forget_works(links);
        }
    }
    if (links->work_capacity == 0)
        return;
    if ((int64_t)event->time < links->first_ns)
        links->first_ns = (int64_t)event->time;
    links->works[links->work_count++] =
        (struct op_links_work){.start_ns = (int64_t)event->time,
                               .duration_ns = (int64_t)event->value,
                               .correlation = event->aux,
                               .device = EVENT_AUX16(event->meta)};
}

void op_links_end(struct op_links *links, const struct step *step)
{
    struct step linked = *step;

    if (!(step->flags & EVENT_STEP_OPS) || links->table.told_ns == INT64_MIN ||
        step->start_ns <= links->lost_ns)
        linked.flags &= (uint8_t)~EVENT_STEP_KERNELS;
    device_ops_end(&links->table, &linked);
}

/* ---- who launched it ------------------------------------------------------------------- */

/* The step in which it was launched tells, where that has ended. */
static bool knows_ops(struct process *process, int64_t at_ns)
{
    struct op_links *links = &process->links;
    const struct steps *steps = &process->steps;

    if (at_ns >= links->looked.from_ns && at_ns < links->looked.to_ns)
        return links->looked.known;
    uint32_t i = steps_after(steps, at_ns);
    const struct step *step = i < steps_remembered(steps) ? steps_at(steps, i) : NULL;

    if (step == NULL || step->start_ns > at_ns)
        return true;
    links->looked.from_ns = step->start_ns;
    links->looked.to_ns = step->start_ns + step->duration_ns;
    links->looked.known = (step->flags & EVENT_STEP_OPS) && step->whole;
    return links->looked.known;
}

static void add_to(struct op_links *links, const struct op_links_work *work,
                   const struct op_spans *spans, const struct span *span)
{
    bool alone = true;

    for (uint32_t depth = 0; span != NULL && depth < DEPTH_MAX;
         span = around(spans, span), depth++) {
        bool own = alone && span->is_op;

        device_ops_add(
            &links->table, work->device,
            &(struct ops_held){
                .start_ns = work->start_ns,
                .duration_ns = work->duration_ns,
                .self_ns = own ? work->duration_ns : 0,
                .row = OPS_ROW(ops_row(&links->table.ops, span->text, OPS_KERNEL))});
        alone = alone && !own;
    }
}

/* False: it may belong to an op that is not known. */
static bool join(struct process *process, const struct op_links_work *work)
{
    const struct gpu_launch *launch = gpu_launch_find(&process->gpu, work->correlation);

    if (launch == NULL || launch->thread == UINT32_MAX)
        return false;
    int64_t at_ns = launch->start_ns + (launch->end_ns - launch->start_ns) / 2;
    const struct process_thread *thread = launch->thread < process->thread_count
                                              ? process->threads[launch->thread]
                                              : NULL;

    if (!knows_ops(process, at_ns))
        return false;
    if (thread == NULL || thread->spans == NULL) /* it has no ops */
        return true;
    if (at_ns < thread->spans->since_ns)
        return false;
    add_to(&process->links, work, thread->spans, find_span(thread->spans, at_ns));
    return true;
}

static int by_start(const void *left, const void *right)
{
    const struct op_links_work *a = left, *b = right;

    return a->start_ns < b->start_ns ? -1 : a->start_ns > b->start_ns;
}

static void sort_works(struct op_links *links)
{
    for (uint32_t i = 1; i < links->work_count; i++) {
        if (by_start(&links->works[i - 1], &links->works[i]) <= 0)
            continue;
        qsort(links->works, links->work_count, sizeof(*links->works), by_start);
        return;
    }
}

/* In the order in which it began, so that steps are closed when theirs is in. */
static void join_until(struct process *process, int64_t until_ns)
{
    struct op_links *links = &process->links;
    uint32_t i = 0;

    if (links->first_ns < until_ns)
        sort_works(links);
    for (; links->first_ns < until_ns && i < links->work_count &&
           links->works[i].start_ns < until_ns;
         i++) {
        const struct op_links_work *work = &links->works[i];

        device_ops_told(&links->table, work->start_ns);
        if (join(process, work))
            continue;
        device_ops_lose_first(&links->table, work->start_ns);
        if (work->start_ns > links->lost_ns)
            links->lost_ns = work->start_ns;
    }
    links->work_count -= i;
    if (links->work_count > 0 && i > 0)
        memmove(links->works, links->works + i,
                links->work_count * sizeof(*links->works));
    if (i > 0)
        links->first_ns = links->work_count > 0 ? links->works[0].start_ns : INT64_MAX;
    device_ops_told(&links->table, until_ns);
}

/* All work that began before came. */
static void told(struct process *process, int64_t until_ns)
{
    struct op_links *links = &process->links;
    int64_t before_ns = links->told_ns;

    if (until_ns <= before_ns)
        return;
    links->told_ns = until_ns;
    if (before_ns == INT64_MIN)
        links->lost_ns = until_ns; /* what came till now was not looked at */
    else
        join_until(process, before_ns < links->host_ns ? before_ns : links->host_ns);
}

void op_links_fold(struct process *process, struct process_thread *thread,
                   const struct event *events, uint32_t count)
{
    for (uint32_t i = 0; i < count; i++) {
        const struct event *event = &events[i];
        uint8_t flags = EVENT_FLAGS(event->meta);

        switch (EVENT_KIND(event->meta)) {
        case EVENT_STEP:
            process->links.host_ns = (int64_t)(event->time + event->value);
            break;
        case EVENT_CPU_OP:
            if (!(flags & EVENT_OP_ASYNC))
                fold_span(process, thread, event);
            break;
        case EVENT_USER_RANGE:
            if (!(flags & EVENT_RANGE_ASYNC) && event->aux == 0)
                fold_span(process, thread, event);
            break;
        case EVENT_KERNEL:
        case EVENT_MEMCPY:
        case EVENT_MEMSET:
            fold_work(&process->links, event);
            break;
        case EVENT_KNOWN:
            told(process, (int64_t)event->time);
            break;
        default:
            break;
        }
    }
}

void op_links_finish(struct process *process)
{
    struct op_links *links = &process->links;

    if (links->told_ns == INT64_MIN)
        return;
    join_until(process, links->told_ns);
    device_ops_known(&links->table, INT64_MAX);
}
