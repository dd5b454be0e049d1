/* Steps, launches and starts of flows of a file, and which of its events are a range. */
#include "cut/cut_plan.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define STARTS_FIRST 4096u
/* Some 20 million launches and flows: a trace of 10 GB and more. */
#define PLAN_BYTES_MAX (UINT64_C(1) << 30)
#define ROUNDING_NS    1000
/* As in the tables, whose times a cut is asked for by: eleven days, the year 2043. */
#define DURATION_MAX  INT64_C(1000000000000000)
#define TIME_MAX_NS   (INT64_C(1) << 61)
#define BIT(category) (UINT32_C(1) << (category))
#define DEVICE_WORK                                                                    \
    (BIT(TRACE_KERNEL) | BIT(TRACE_MEMCPY) | BIT(TRACE_MEMSET) | BIT(TRACE_SYNC) |     \
     BIT(TRACE_COLLECTIVE))
#define CALLS (BIT(TRACE_RUNTIME) | BIT(TRACE_DRIVER))
#define COUNTS                                                                         \
    (BIT(TRACE_CPU_OP) | BIT(TRACE_USER_ANNOTATION) | CALLS | BIT(TRACE_KERNEL) |      \
     BIT(TRACE_MEMCPY) | BIT(TRACE_MEMSET))

static bool is_one_of(const struct trace_event *event, uint32_t categories)
{
    return BIT(event->category) & categories;
}

static int64_t sum(int64_t a, int64_t b)
{
    int64_t result;

    if (__builtin_add_overflow(a, b, &result))
        return b > 0 ? INT64_MAX : INT64_MIN;
    return result;
}

void cut_plan_open(struct cut_plan *plan, const struct cut_request *request)
{
    *plan = (struct cut_plan){.request = request,
                              .first_ns = INT64_MAX,
                              .last_ns = INT64_MIN,
                              .from_ns = INT64_MIN,
                              .to_ns = INT64_MAX};
}

void cut_plan_close(struct cut_plan *plan)
{
    free(plan->steps);
    free(plan->starts);
    cut_blocks_close(&plan->blocks);
}

/* ---- when things began -------------------------------------------------------------- */

static uint64_t mix(uint64_t number)
{
    number = (number ^ number >> 32) * UINT64_C(0x9e3779b97f4a7c15);
    number = (number ^ number >> 29) * UINT64_C(0xbf58476d1ce4e5b9);
    return (number ^ number >> 32) | 1; /* never 0 */
}

static uint64_t launch_key(const struct trace_event *event)
{
    return mix((uint64_t)event->correlation * 4);
}

/* Flows of different categories may have the same ids. */
static uint64_t flow_key(const struct trace_event *event)
{
    return mix(event->flow * 4 + 1) ^ (uint64_t)event->category << 40;
}

static struct cut_start *slot_of(struct cut_start *starts, uint64_t mask, uint64_t key)
{
    uint64_t at = key >> 1 & mask;

    while (starts[at].key != 0 && starts[at].key != key)
        at = (at + 1) & mask;
    return &starts[at];
}

/* `bytes` more, while it grows beside what there is. */
static bool has_room(struct cut_plan *plan, uint64_t bytes)
{
    uint64_t most =
        plan->request->plan_bytes != 0 ? plan->request->plan_bytes : PLAN_BYTES_MAX;
    uint64_t starts = plan->starts == NULL ? 0 : plan->start_mask + 1;

    plan->too_large |= starts * sizeof(*plan->starts) +
                           plan->step_capacity * sizeof(*plan->steps) + bytes >
                       most;
    return !plan->too_large;
}

static bool grow_starts(struct cut_plan *plan)
{
    uint64_t size = plan->starts == NULL ? STARTS_FIRST : (plan->start_mask + 1) * 2;
    struct cut_start *starts;

    if (!has_room(plan, size * sizeof(*starts)))
        return false;
    starts = calloc(size, sizeof(*starts));
    if (starts == NULL) {
        plan->out_of_memory = true;
        return false;
    }
    for (uint64_t i = 0; plan->starts != NULL && i <= plan->start_mask; i++)
        if (plan->starts[i].key != 0)
            *slot_of(starts, size - 1, plan->starts[i].key) = plan->starts[i];
    free(plan->starts);
    plan->starts = starts;
    plan->start_mask = size - 1;
    return true;
}

/* The first of several with one key counts. */
static void add_start(struct cut_plan *plan, uint64_t key, int64_t time_ns)
{
    if ((plan->starts == NULL || plan->start_count * 2 > plan->start_mask) &&
        !grow_starts(plan))
        return;
    struct cut_start *slot = slot_of(plan->starts, plan->start_mask, key);

    if (slot->key == 0) {
        *slot = (struct cut_start){.key = key, .time_ns = time_ns};
        plan->start_count++;
    }
}

static const struct cut_start *find_start(const struct cut_plan *plan, uint64_t key)
{
    const struct cut_start *slot =
        plan->starts == NULL ? NULL : slot_of(plan->starts, plan->start_mask, key);

    return slot != NULL && slot->key != 0 ? slot : NULL;
}

static bool ends_flow(const struct trace_event *event)
{
    return event->phase == 'f' || event->phase == 't';
}

/* Is it kept for when something else began? */
static bool has_start(const struct trace_event *event)
{
    return ends_flow(event) ||
           (is_one_of(event, DEVICE_WORK) && event->has & TRACE_HAS_CORRELATION);
}

static uint64_t start_key(const struct trace_event *event)
{
    return ends_flow(event) ? flow_key(event) : launch_key(event);
}

/* ---- steps -------------------------------------------------------------------------- */

static void add_step(struct cut_plan *plan, const struct trace_event *event,
                     const char *name)
{
    if (plan->step_count == plan->step_capacity) {
        uint32_t capacity = plan->step_capacity == 0 ? 64 : plan->step_capacity * 2;

        if (!has_room(plan, capacity * sizeof(*plan->steps)))
            return;
        struct cut_step *steps = realloc(plan->steps, capacity * sizeof(*steps));

        if (steps == NULL) {
            plan->out_of_memory = true;
            return;
        }
        plan->steps = steps;
        plan->step_capacity = capacity;
    }
    plan->steps[plan->step_count++] =
        (struct cut_step){.start_ns = event->time_ns,
                          .written_ns = event->time_ns,
                          .end_ns = event->time_ns + event->duration_ns,
                          .number = strtoull(name + strlen("ProfilerStep#"), NULL, 10),
                          .pid = event->pid,
                          .tid = event->tid};
}

static int by_time(const void *left, const void *right)
{
    const struct cut_step *a = left, *b = right;

    if (a->start_ns != b->start_ns)
        return a->start_ns < b->start_ns ? -1 : 1;
    return a->end_ns > b->end_ns ? -1 : a->end_ns < b->end_ns;
}

/* Of the thread of the first, each once, as analyze takes them. */
static void settle_steps(struct cut_plan *plan)
{
    struct cut_step *steps = plan->steps;
    uint32_t kept = 0;
    int64_t end = INT64_MIN;

    if (plan->step_count == 0)
        return;
    uint32_t pid = steps[0].pid, tid = steps[0].tid;

    qsort(steps, plan->step_count, sizeof(*steps), by_time);
    for (uint32_t i = 0; i < plan->step_count; i++) {
        struct cut_step step = steps[i];

        if (step.start_ns < end && step.start_ns + 2 * ROUNDING_NS >= end)
            step.start_ns = end;
        if (step.pid != pid || step.tid != tid || step.start_ns < end ||
            step.end_ns < step.start_ns)
            continue;
        end = step.end_ns;
        steps[kept++] = step;
    }
    plan->step_count = kept;
}

/* ---- the first reading -------------------------------------------------------------- */

static void take(struct cut_plan *plan, const struct trace_names *names,
                 const struct trace_event *event)
{
    uint32_t length;

    if (event->phase == 's') {
        add_start(plan, flow_key(event), event->time_ns);
        return;
    }
    if (event->phase == 'X' && is_one_of(event, CALLS) &&
        event->has & TRACE_HAS_CORRELATION)
        add_start(plan, launch_key(event), event->time_ns);
    bool memory = event->has & TRACE_HAS_BYTES && event->phase == 'i';

    if (event->has & TRACE_UNFINISHED && !memory)
        return;
    if (!memory && (event->phase != 'X' || !is_one_of(event, COUNTS) ||
                    event->duration_ns < 0 || event->duration_ns > DURATION_MAX))
        return;
    if (event->time_ns > TIME_MAX_NS || event->time_ns < -TIME_MAX_NS)
        return;
    file_clusters_add(&plan->clusters, event->time_ns,
                      event->time_ns + event->duration_ns, event->offset);
    if (!is_one_of(event, BIT(TRACE_CPU_OP) | BIT(TRACE_USER_ANNOTATION)))
        return;
    const char *name = trace_names_get(names, event->name, &length);

    if (strncmp(name, "ProfilerStep#", strlen("ProfilerStep#")) == 0)
        add_step(plan, event, name);
}

/* The times by which cut_plan_keeps() may judge it. */
static struct cut_reach reach_of(const struct cut_plan *plan,
                                 const struct trace_event *event)
{
    const struct cut_start *start;
    int64_t duration_ns =
        event->phase == 'X' && event->duration_ns > 0 ? event->duration_ns : 0;
    struct cut_reach reach = {event->time_ns, sum(event->time_ns, duration_ns)};

    if (event->phase == 'M')
        return cut_reach_always;
    if (!(event->has & TRACE_HAS_TIME))
        return cut_reach_never;
    if (!has_start(event))
        return reach;
    start = find_start(plan, start_key(event));
    if (start == NULL)
        return cut_reach_always; /* it may be to come */
    reach.from_ns = start->time_ns < reach.from_ns ? start->time_ns : reach.from_ns;
    reach.to_ns = start->time_ns > reach.to_ns ? start->time_ns : reach.to_ns;
    return reach;
}

bool cut_plan_take(void *user, struct trace_event *events, uint32_t count)
{
    struct cut_plan *plan = user;

    for (uint32_t i = 0; i < count; i++) {
        plan->events += events[i].phase != 'M';
        take(plan, plan->names, &events[i]);
        cut_blocks_take(&plan->blocks, plan->head, events[i].offset,
                        reach_of(plan, &events[i]));
    }
    return !plan->out_of_memory && !plan->blocks.out_of_memory && !plan->too_large;
}

static int choose_steps(struct cut_plan *plan, char *error, size_t size)
{
    const struct cut_request *request = plan->request;
    uint32_t first = plan->step_count, last = 0;

    if (plan->step_count == 0) {
        (void)snprintf(error, size,
                       "has no steps by number (ProfilerStep#): --from and --to cut by "
                       "time");
        return -ESRCH;
    }
    for (uint32_t i = 0; i < plan->step_count; i++) {
        if (plan->steps[i].number < (uint64_t)request->a ||
            plan->steps[i].number > (uint64_t)request->b)
            continue;
        first = first == plan->step_count ? i : first;
        last = i;
    }
    if (first == plan->step_count) {
        (void)snprintf(error, size,
                       "has the steps %" PRIu64 "-%" PRIu64 ", not %" PRId64
                       "-%" PRId64,
                       plan->steps[0].number, plan->steps[plan->step_count - 1].number,
                       request->a, request->b);
        return -ENODATA;
    }
    plan->first_step = first;
    plan->last_step = last;
    plan->from_ns = plan->steps[first].start_ns;
    plan->to_ns = plan->steps[last].end_ns;
    return 0;
}

int cut_plan_choose(struct cut_plan *plan, char *error, size_t size)
{
    struct file_span span;

    settle_steps(plan);
    file_clusters_settle(&plan->clusters, &span);
    plan->first_ns = span.from_ns;
    plan->last_ns = span.to_ns;
    if (plan->request->range == CUT_STEPS)
        return choose_steps(plan, error, size);
    plan->last_step = plan->step_count > 0 ? plan->step_count - 1 : 0;
    if (plan->request->range == CUT_WHOLE)
        return 0;
    if (plan->first_ns > plan->last_ns) {
        (void)snprintf(error, size, "has no op, call or device work to count from");
        return -ENODATA;
    }
    plan->from_ns = sum(plan->first_ns, plan->request->a);
    plan->to_ns = sum(plan->first_ns, plan->request->b);
    return 0;
}

/* ---- which events ------------------------------------------------------------------- */

static bool lies_inside(const struct cut_plan *plan, int64_t time_ns)
{
    return time_ns >= plan->from_ns && time_ns < plan->to_ns;
}

static bool is_wanted(const struct cut_plan *plan, const struct trace_event *event)
{
    uint32_t categories = plan->request->categories;

    if (categories == 0 || is_one_of(event, categories))
        return true;
    /* A flow stays when both of its ends do. */
    if (event->category == TRACE_LAUNCH_FLOW)
        return categories & CALLS && categories & DEVICE_WORK;
    return event->category == TRACE_FORWARD_FLOW && categories & BIT(TRACE_CPU_OP);
}

/* What reaches from before into the range: frames that stand around it, and its first
 * step where this was rounded to begin before the end of the one before. */
static bool reaches_in(const struct cut_plan *plan, const struct trace_event *event)
{
    if (event->phase != 'X' || event->time_ns >= plan->from_ns)
        return false;
    if (event->category == TRACE_PYTHON_FUNCTION)
        return sum(event->time_ns, event->duration_ns) > plan->from_ns;
    const struct cut_step *step =
        plan->request->range == CUT_STEPS ? &plan->steps[plan->first_step] : NULL;

    return step != NULL && event->time_ns == step->written_ns &&
           is_one_of(event, BIT(TRACE_CPU_OP) | BIT(TRACE_USER_ANNOTATION)) &&
           sum(event->time_ns, event->duration_ns) == step->end_ns;
}

bool cut_plan_keeps(const struct cut_plan *plan, const struct trace_event *event,
                    int64_t *reference_ns)
{
    bool flow = ends_flow(event);
    const struct cut_start *start = NULL;

    if (!(event->has & TRACE_HAS_TIME) || !is_wanted(plan, event))
        return false;
    *reference_ns = event->time_ns;
    if (has_start(event))
        start = find_start(plan, start_key(event));
    if (start != NULL && lies_inside(plan, start->time_ns)) {
        *reference_ns = start->time_ns;
        return true;
    }
    /* Half a flow is none; one whose start is nowhere in the file was half before. */
    if (flow && start != NULL)
        return false;
    if (lies_inside(plan, event->time_ns))
        return true;
    if (!reaches_in(plan, event))
        return false;
    *reference_ns = plan->from_ns;
    return true;
}
