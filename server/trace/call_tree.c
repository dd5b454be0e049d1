#include "trace/call_tree.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "aggregate/sum.h"
#include "trace/trace_event.h"

#define DEPTH_MAX 1024u /* deeper calls are left out: their time is their callers' */

struct call { /* of the device's runtime */
    int64_t start_ns, end_ns;
    uint64_t correlation;
    uint32_t name, thread;
    uint32_t path; /* once it is nested */
    uint8_t kind;  /* enum event_kind */
};

struct open_call {
    int64_t start_ns, end_ns;
    uint32_t path;
};

struct building {
    struct call_tree *tree;
    const struct trace_limits *limits;
    const struct trace_process *process;
    uint32_t first_root; /* path of the process's thread 0 */
    uint32_t recorded;   /* EVENT_STEP_OPS, _KERNELS that a step of the process has */
    uint32_t step_name;  /* of the first ProfilerStep#N; 0 none yet */
    struct call *calls;
    uint32_t call_count, capacity;
    struct open_call open[DEPTH_MAX]; /* of the thread that is walked */
    uint32_t depth, root;
};

/* ---- calls of the device's runtime ------------------------------------------------------ */

static int by_thread_and_end(const void *left, const void *right)
{
    const struct call *a = left, *b = right;

    if (a->thread != b->thread)
        return a->thread < b->thread ? -1 : 1;
    if (a->end_ns != b->end_ns)
        return a->end_ns < b->end_ns ? -1 : 1;
    return a->start_ns > b->start_ns ? -1 : a->start_ns < b->start_ns;
}

/* The runtime's call before the driver's in it. */
static int by_correlation(const void *left, const void *right)
{
    const struct call *a = left, *b = right;
    int order = a->correlation < b->correlation ? -1 : a->correlation > b->correlation;

    if (order == 0)
        order = a->start_ns < b->start_ns ? -1 : a->start_ns > b->start_ns;
    return order != 0 ? order : a->end_ns > b->end_ns ? -1 : a->end_ns < b->end_ns;
}

static int add_call(struct building *building, const struct event *event,
                    uint32_t thread)
{
    uint32_t caller = EVENT_CALLER(event->meta, thread);

    if (building->call_count == CALL_TREE_CALLS_MAX) {
        building->tree->left_out++;
        return 0;
    }
    if (building->call_count == building->capacity) {
        uint32_t capacity = building->capacity == 0 ? 4096 : building->capacity * 2;
        struct call *calls = realloc(building->calls, capacity * sizeof(*calls));

        if (calls == NULL)
            return -ENOMEM;
        building->calls = calls;
        building->capacity = capacity;
    }
    building->calls[building->call_count++] = (struct call){
        .start_ns = (int64_t)event->time,
        .end_ns = trace_event_end_ns(event),
        .correlation = event->aux,
        .name = EVENT_NAME(event->meta),
        .kind = EVENT_KIND(event->meta),
        .thread = caller < building->process->thread_count ? caller : thread};
    return 0;
}

static int gather_calls(struct building *building)
{
    const struct trace_process *process = building->process;
    int error = 0;

    building->call_count = 0;
    for (uint32_t i = 0; i < process->block_count; i++) {
        const struct trace_block *block = &process->blocks[i];

        for (uint32_t j = 0; j < block->count && error == 0; j++)
            if (trace_event_is_call(EVENT_KIND(block->events[j].meta)) &&
                trace_event_touches(&block->events[j], building->limits))
                error = add_call(building, &block->events[j], block->thread);
    }
    if (building->call_count > 0)
        qsort(building->calls, building->call_count, sizeof(*building->calls),
              by_thread_and_end);
    return error;
}

/* ---- nesting ------------------------------------------------------------------------- */

static void clip(int64_t *start_ns, int64_t *end_ns, int64_t from_ns, int64_t to_ns)
{
    *start_ns = *start_ns > from_ns ? *start_ns : from_ns;
    *end_ns = *end_ns < to_ns ? *end_ns : to_ns;
}

/* Of what is cut at the window's ends; 0 of what ends before it begins. */
static int64_t length_ns(int64_t start_ns, int64_t end_ns)
{
    int64_t ns;

    if (end_ns <= start_ns)
        return 0;
    return __builtin_sub_overflow(end_ns, start_ns, &ns) ? SUM_MAX_NS : ns;
}

static enum file_path_kind path_kind(uint8_t kind)
{
    if (kind == EVENT_CPU_OP)
        return FILE_PATH_OP;
    if (kind == EVENT_USER_RANGE)
        return FILE_PATH_RANGE;
    return trace_event_is_work(kind) ? FILE_PATH_WORK : FILE_PATH_CALL;
}

/* The child of that name, for events of that kind. */
static uint32_t child_of(struct call_tree *tree, uint32_t parent, uint32_t name,
                         uint8_t kind)
{
    uint32_t path = file_paths_child(&tree->paths, parent, name, path_kind(kind));

    if (path != parent) /* there was room */
        tree->kinds[path] = kind;
    return path;
}

/* One call of the thread, the last ends first: whoever is open and began before its end
 * called it. Its path. */
static uint32_t nest(struct building *building, int64_t start_ns, int64_t end_ns,
                     uint32_t name, uint8_t kind)
{
    struct call_tree *tree = building->tree;
    uint32_t parent = building->root;

    clip(&start_ns, &end_ns, building->limits->from_ns, building->limits->to_ns);
    while (building->depth > 0 &&
           end_ns <= building->open[building->depth - 1].start_ns)
        building->depth--;
    if (building->depth > 0) {
        const struct open_call *caller = &building->open[building->depth - 1];

        parent = caller->path;
        clip(&start_ns, &end_ns, caller->start_ns, caller->end_ns);
    }

    if (building->depth == DEPTH_MAX) { /* its time stays its caller's */
        tree->left_out++;
        return parent;
    }

    int64_t ns = length_ns(start_ns, end_ns);
    uint32_t path = child_of(tree, parent, name, kind);

    tree->paths.list[path].self_ns = sum_ns(tree->paths.list[path].self_ns, ns);
    if (building->depth > 0)
        tree->paths.list[parent].self_ns =
            sum_ns(tree->paths.list[parent].self_ns, -ns);
    tree->counts[path]++;
    tree->events++;
    building->open[building->depth++] = (struct open_call){start_ns, end_ns, path};
    return path;
}

/* In a step of which this was not recorded (EVENT_STEP_OPS, EVENT_STEP_KERNELS), though of
 * others it was? What is there of it is divided by those others. */
static bool is_alone(const struct building *building, const struct event *event,
                     uint32_t what)
{
    const struct trace_process *process = building->process;
    uint32_t low = 0, high = process->step_count;

    if ((building->recorded & what) == 0)
        return false;
    while (low < high) {
        uint32_t middle = low + (high - low) / 2;

        if (process->steps[middle].start_ns <= (int64_t)event->time)
            low = middle + 1;
        else
            high = middle;
    }
    const struct step_row *step = low > 0 ? &process->steps[low - 1] : NULL;

    return step != NULL && (step->flags & what) == 0 &&
           (double)event->time < (double)step->start_ns + step->duration_ns;
}

/* Of all ProfilerStep#N the same: they are one path. */
static uint32_t name_of(struct building *building, const struct event *event)
{
    static const char step[] = CALL_TREE_STEP "#";
    uint32_t name = EVENT_NAME(event->meta);

    if (EVENT_KIND(event->meta) != EVENT_USER_RANGE ||
        strncmp(trace_name(building->process, name), step, sizeof(step) - 1) != 0)
        return name;
    if (building->step_name == 0)
        building->step_name = name;
    return building->step_name;
}

static void nest_event(struct building *building, const struct event *event)
{
    uint8_t kind = EVENT_KIND(event->meta), flags = EVENT_FLAGS(event->meta);
    bool op = kind == EVENT_CPU_OP;

    if ((!op && kind != EVENT_USER_RANGE) ||
        !trace_event_touches(event, building->limits) ||
        (!op && is_alone(building, event, EVENT_STEP_OPS)))
        return;
    if ((flags & (op ? EVENT_OP_ASYNC : EVENT_RANGE_ASYNC)) != 0) {
        building->tree->left_out++;
        return;
    }
    (void)nest(building, (int64_t)event->time, trace_event_end_ns(event),
               name_of(building, event), kind);
}

static void nest_call(struct building *building, struct call *call)
{
    call->path = nest(building, call->start_ns, call->end_ns, call->name, call->kind);
}

/* Blocks before `*block_end` and calls before `*call_end`, from the last to the first;
 * both end before the thread's own then. */
static void walk_thread(struct building *building, uint32_t thread, uint32_t *block_end,
                        uint32_t *call_end)
{
    const struct trace_block *blocks = building->process->blocks;
    struct call *calls = building->calls;

    building->depth = 0;
    building->root = building->first_root + thread;
    for (; *block_end > 0 && blocks[*block_end - 1].thread == thread; --*block_end) {
        const struct trace_block *block = &blocks[*block_end - 1];

        for (uint32_t i = block->count; i-- > 0;) {
            const struct event *event = &block->events[i];
            int64_t end_ns = trace_event_end_ns(event);

            if (EVENT_KIND(event->meta) != EVENT_CPU_OP &&
                EVENT_KIND(event->meta) != EVENT_USER_RANGE)
                continue;
            while (*call_end > 0 && calls[*call_end - 1].thread == thread &&
                   calls[*call_end - 1].end_ns > end_ns)
                nest_call(building, &calls[--*call_end]);
            nest_event(building, event);
        }
    }
    while (*call_end > 0 && calls[*call_end - 1].thread == thread)
        nest_call(building, &calls[--*call_end]);
}

/* ---- work on the device --------------------------------------------------------------- */

/* The first of those with this correlation; NULL without. */
static const struct call *call_of(const struct building *building, uint64_t correlation)
{
    uint32_t low = 0, high = building->call_count;

    while (low < high) {
        uint32_t middle = low + (high - low) / 2;

        if (building->calls[middle].correlation < correlation)
            low = middle + 1;
        else
            high = middle;
    }
    return low < building->call_count && building->calls[low].correlation == correlation
               ? &building->calls[low]
               : NULL;
}

static void link_work(struct building *building, const struct event *event)
{
    struct call_tree *tree = building->tree;
    const struct call *call = NULL;
    int64_t start_ns = (int64_t)event->time;
    int64_t end_ns = trace_event_end_ns(event);
    uint32_t path = building->first_root + building->process->thread_count;

    if (event->aux != 0)
        call = call_of(building, event->aux);
    if (call != NULL)
        path = call->path;
    path = child_of(tree, path, EVENT_NAME(event->meta), EVENT_KIND(event->meta));
    clip(&start_ns, &end_ns, building->limits->from_ns, building->limits->to_ns);
    tree->paths.list[path].device_ns =
        sum_ns(tree->paths.list[path].device_ns, length_ns(start_ns, end_ns));
    tree->counts[path]++;
    tree->events++;
}

static void link_works(struct building *building)
{
    const struct trace_process *process = building->process;

    if (building->call_count > 0)
        qsort(building->calls, building->call_count, sizeof(*building->calls),
              by_correlation);
    for (uint32_t i = 0; i < process->block_count; i++) {
        const struct trace_block *block = &process->blocks[i];

        for (uint32_t j = 0; j < block->count; j++)
            if (trace_event_is_work(EVENT_KIND(block->events[j].meta)) &&
                trace_event_touches(&block->events[j], building->limits) &&
                !is_alone(building, &block->events[j], EVENT_STEP_KERNELS))
                link_work(building, &block->events[j]);
    }
}

/* ---- all of it ------------------------------------------------------------------------- */

static void count_steps(struct building *building)
{
    const struct trace_process *process = building->process;

    building->recorded = 0;
    for (uint32_t i = 0; i < process->step_count; i++) {
        uint32_t flags = process->steps[i].flags;

        bool is_training = (flags & EVENT_STEP_VALIDATION) == 0;

        building->tree->validation_batches += !is_training;
        building->tree->steps_with_ops += is_training && (flags & EVENT_STEP_OPS) != 0;
        building->tree->steps_with_work +=
            is_training && (flags & EVENT_STEP_KERNELS) != 0;
        building->recorded |= flags & (EVENT_STEP_OPS | EVENT_STEP_KERNELS);
    }
}

static int build_process(struct building *building)
{
    const struct trace_process *process = building->process;
    int error = gather_calls(building);

    if (error != 0)
        return error;
    count_steps(building);

    uint32_t block_end = process->block_count, call_end = building->call_count;

    for (uint32_t thread = process->thread_count; thread-- > 0;)
        walk_thread(building, thread, &block_end, &call_end);
    link_works(building);
    return 0;
}

/* Every thread's root, and one for what no thread is known to have launched. */
static int make_roots(struct call_tree *tree, const struct trace_answer *answer)
{
    uint32_t count = 0;

    for (uint32_t i = 0; i < answer->process_count; i++)
        count += answer->processes[i].thread_count + 1;
    tree->roots = calloc((size_t)count + 1, sizeof(*tree->roots));
    if (tree->roots == NULL)
        return -ENOMEM;
    for (uint32_t i = 0; i < answer->process_count; i++) {
        const struct trace_process *process = &answer->processes[i];

        for (uint32_t thread = 0; thread <= process->thread_count; thread++) {
            if (file_paths_thread(&tree->paths, tree->root_count) == 0)
                return -E2BIG;
            tree->roots[tree->root_count++] = (struct call_tree_root){
                process, thread < process->thread_count ? thread : CALL_TREE_UNKNOWN};
        }
    }
    return 0;
}

int call_tree_build(struct call_tree *tree, const struct trace_answer *answer,
                    const struct trace_limits *limits)
{
    struct building *building = calloc(1, sizeof(*building));
    bool opened = file_paths_open(&tree->paths, NULL);
    uint32_t root = 1;

    tree->roots = NULL;
    tree->root_count = 0;
    tree->steps_with_ops = tree->steps_with_work = tree->validation_batches = 0;
    tree->events = tree->left_out = 0;
    /* Pages that no path needs are never touched. */
    tree->counts = calloc(FILE_PATHS_MAX, sizeof(*tree->counts));
    tree->kinds = calloc(FILE_PATHS_MAX, sizeof(*tree->kinds));

    int error =
        building != NULL && opened && tree->counts != NULL && tree->kinds != NULL
            ? make_roots(tree, answer)
            : -ENOMEM;

    for (uint32_t i = 0; i < answer->process_count && error == 0; i++) {
        building->tree = tree;
        building->limits = limits;
        building->process = &answer->processes[i];
        building->step_name = 0;
        building->first_root = root;
        error = build_process(building);
        root += building->process->thread_count + 1;
    }
    if (building != NULL)
        free(building->calls);
    free(building);
    return error;
}

void call_tree_close(struct call_tree *tree)
{
    file_paths_close(&tree->paths);
    free(tree->counts);
    free(tree->kinds);
    free(tree->roots);
}
