/* A sorted file to the tables, step by step: what began before a step or between two,
 * then what began in it, then its phases and the step itself. */
#include <errno.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "aggregate/state.h"
#include "ingest/file/parts.h"

#define PHASES_MOST 192u /* of one step */
#define CHUNK       512u
#define NO_STEPS_NS INT64_C(1000000000) /* outside of steps: about a second at a time */

struct feeding {
    struct file *file;
    struct store *store;
    struct file_texts texts;
    uint32_t work; /* device work before it is folded */
};

uint32_t file_text(struct file_texts *texts, uint32_t name)
{
    uint32_t length;

    if (name == 0 || name >= texts->count)
        return 0;
    if (texts->ids[name] == 0) {
        const char *text = trace_names_get(texts->names, name, &length);

        texts->ids[name] = texts_intern(texts->process->texts, text, length) + 1;
    }
    return texts->ids[name] - 1;
}

/* Events of one thread that began before `before_ns`; how many there were. */
static uint64_t feed_thread(struct feeding *feeding, uint32_t index, int64_t before_ns)
{
    struct file_thread *thread = &feeding->file->threads[index];
    uint32_t from = thread->fed, to = from;

    for (; to < thread->count; to++) {
        struct event *event = &thread->events[to];

        if ((int64_t)event->time >= before_ns)
            break;
        event->meta = (event->meta & ~(uint64_t)UINT32_MAX) |
                      file_text(&feeding->texts, EVENT_NAME(event->meta));
        if (EVENT_KIND(event->meta) == EVENT_CPU_OP)
            event->aux = 0; /* no sequence number */
    }
    if (to > from)
        process_fold(feeding->texts.process, index, thread->events + from, to - from);
    thread->fed = to;
    return to - from;
}

static uint32_t put_work(struct feeding *feeding, const struct file_work *work,
                         struct event *events)
{
    bool kernel = work->kind == EVENT_KERNEL;
    uint32_t name = file_text(&feeding->texts, work->name);

    events[0] =
        (struct event){.time = (uint64_t)work->start_ns,
                       .value = (uint64_t)work->duration_ns,
                       .meta = EVENT_META(name, work->kind, work->flags, work->device),
                       .aux = work->correlation};
    events[1] = (struct event){.time = kernel ? work->stream : work->bytes,
                               .value = kernel ? 0 : work->stream,
                               .meta = EVENT_META(0, EVENT_MORE, 0, 1)};
    return 2;
}

static uint64_t feed_works(struct feeding *feeding, int64_t before_ns)
{
    struct file *file = feeding->file;
    const struct file_work *works = file->works.items;
    struct event events[CHUNK];
    uint32_t from = feeding->work, count = 0;

    while (feeding->work < file->works.count &&
           works[feeding->work].start_ns < before_ns) {
        count += put_work(feeding, &works[feeding->work++], events + count);
        if (count < CHUNK - 1)
            continue;
        process_fold(feeding->texts.process, file->thread_count, events, count);
        count = 0;
    }
    if (count > 0)
        process_fold(feeding->texts.process, file->thread_count, events, count);
    return feeding->work - from;
}

static uint64_t feed_until(struct feeding *feeding, int64_t before_ns)
{
    uint64_t fed = 0;

    for (uint32_t i = 0; i < feeding->file->thread_count; i++)
        fed += feed_thread(feeding, i, before_ns);
    return fed + feed_works(feeding, before_ns);
}

/* What was fed since `from_ns` lies in no step. */
static void end_apart(struct feeding *feeding, int64_t from_ns, int64_t to_ns)
{
    struct step apart = {.start_ns = from_ns,
                         .duration_ns = to_ns > from_ns ? to_ns - from_ns : 1,
                         .flags = EVENT_STEP_VALIDATION,
                         .whole = true};

    ops_end(&feeding->texts.process->ops, &apart);
}

/* Outside of steps, up to `to_ns`. */
static void feed_apart(struct feeding *feeding, int64_t from_ns, int64_t to_ns)
{
    struct process *process = feeding->texts.process;

    for (int64_t at = from_ns; at < to_ns;) {
        int64_t part = (to_ns - at) / 1024 + NO_STEPS_NS;
        int64_t until = to_ns - at > part ? at + part : to_ns;

        pthread_rwlock_wrlock(&feeding->store->lock);
        ops_begin(&process->ops, at);
        feed_until(feeding, until);
        end_apart(feeding, at, until);
        if (process->gpu.on)
            gpu_settle(&process->gpu, at);
        pthread_rwlock_unlock(&feeding->store->lock);
        at = until;
    }
}

static void feed_step(struct feeding *feeding, const struct file_step *step,
                      struct file_phases *phases)
{
    struct file *file = feeding->file;
    struct process *process = feeding->texts.process;
    struct event events[PHASES_MOST + 1];
    uint8_t flags = EVENT_STEP_MARKED | EVENT_STEP_OPS;
    uint32_t count, known = step->known;

    if (file->own) {
        count = file_phases_own(file, phases, step, events, PHASES_MOST);
        flags = step->flags;
    } else {
        count = file_phases_step(file, phases, step, events, PHASES_MOST);
        flags |= file->works.count > 0 ? EVENT_STEP_KERNELS : 0;
        for (uint32_t phase = 0; phase < EVENT_PHASES; phase++)
            known |= phases->known[phase] ? 1u << phase : 0;
    }
    events[count++] = (struct event){.time = (uint64_t)step->start_ns,
                                     .value = (uint64_t)(step->end_ns - step->start_ns),
                                     .meta = EVENT_META(0, EVENT_STEP, flags, known),
                                     .aux = step->number};
    pthread_rwlock_wrlock(&feeding->store->lock);
    ops_begin(&process->ops, step->start_ns);
    feed_until(feeding, step->end_ns);
    process_fold(process, file->trainer, events, count);
    pthread_rwlock_unlock(&feeding->store->lock);
}

/* Is there anything between the steps? Most files have none or little. */
static bool any_before(const struct feeding *feeding, int64_t before_ns)
{
    const struct file *file = feeding->file;
    const struct file_work *works = file->works.items;

    if (feeding->work < file->works.count && works[feeding->work].start_ns < before_ns)
        return true;
    for (uint32_t i = 0; i < file->thread_count; i++) {
        const struct file_thread *thread = &file->threads[i];

        if (thread->fed < thread->count &&
            (int64_t)thread->events[thread->fed].time < before_ns)
            return true;
    }
    return false;
}

static void feed_steps(struct feeding *feeding)
{
    struct file *file = feeding->file;
    const struct file_step *steps = file->steps.items;
    struct file_phases phases;
    int64_t at = file->from_ns;

    file_phases_begin(file, &phases);
    for (uint32_t i = 0; i < file->steps.count; i++) {
        if (any_before(feeding, steps[i].start_ns))
            feed_apart(feeding, at, steps[i].start_ns);
        feed_step(feeding, &steps[i], &phases);
        at = steps[i].end_ns;
    }
    feed_apart(feeding, at, file->to_ns + 1);
}

/* Threads are known under their own names and numbers. */
static int name_threads(struct feeding *feeding)
{
    struct file *file = feeding->file;

    for (uint32_t i = 0; i <= file->thread_count; i++) {
        struct process_thread *thread = process_thread(feeding->texts.process, i);
        int64_t tid = 0;

        if (thread == NULL)
            return -ENOMEM;
        if (i == file->thread_count) {
            thread->name = texts_intern(feeding->texts.process->texts, "device", 6);
            continue;
        }
        if (trace_names_number(file->names, file->threads[i].tid, &tid))
            thread->tid = (uint32_t)tid;
        thread->name = file_text(&feeding->texts, file->threads[i].name);
    }
    return 0;
}

static void add_linked(struct process_linked *to, const struct process_linked *from)
{
    to->device_total_ns = file_sum(to->device_total_ns, from->device_total_ns);
    to->device_self_ns = file_sum(to->device_self_ns, from->device_self_ns);
    to->outer_ns = file_sum(to->outer_ns, from->outer_ns);
    to->outer_count += from->outer_count;
    to->host_bytes = file_sum(to->host_bytes, from->host_bytes);
    to->device_bytes = file_sum(to->device_bytes, from->device_bytes);
}

static void give_linked(struct feeding *feeding)
{
    static const struct process_linked nothing;
    struct file *file = feeding->file;
    struct process *process = feeding->texts.process;
    uint32_t texts = texts_count(process->texts);
    struct process_linked *linked = calloc(texts, sizeof(*linked));

    if (linked == NULL)
        return;
    for (uint32_t name = 0; name < file->linked_count; name++) {
        const struct process_linked *from = &file->linked[name];
        uint32_t text = memcmp(from, &nothing, sizeof(nothing)) == 0
                            ? 0
                            : file_text(&feeding->texts, name);

        if (text == 0 || text >= texts)
            continue;
        add_linked(&linked[text], from);
    }
    process->linked = linked;
    process->linked_count = texts;
    process->linked_devices = file->works.count > 0;
    process->linked_memory = file->allocations.count > 0;
}

int file_feed(struct file *file, struct store *store, struct process *process)
{
    struct feeding feeding = {.file = file,
                              .store = store,
                              .texts = {.process = process,
                                        .names = file->names,
                                        .count = trace_names_count(file->names)}};
    const struct file_work *works = file->works.items;
    int error;

    feeding.texts.ids = calloc(feeding.texts.count + 1, sizeof(*feeding.texts.ids));
    if (feeding.texts.ids == NULL)
        return -ENOMEM;
    pthread_rwlock_wrlock(&store->lock);
    error = name_threads(&feeding);
    gpu_begin(&process->gpu, file->from_ns);
    for (uint32_t i = 0; i < file->works.count; i++)
        (void)gpu_device(&process->gpu, works[i].device);
    pthread_rwlock_unlock(&store->lock);
    if (error == 0) {
        feed_steps(&feeding);
        pthread_rwlock_wrlock(&store->lock);
        file_fold_memory(file, &feeding.texts);
        give_linked(&feeding);
        if (process->gpu.on)
            gpu_finish(&process->gpu, file->to_ns);
        pthread_rwlock_unlock(&store->lock);
    }
    free(feeding.texts.ids);
    return error;
}
