/* A sorted file to the tables, step by step: what began before a step or between two,
 * then what began in it, then its phases and the step itself. */
#include <errno.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "aggregate/gpu_queue.h"
#include "aggregate/state.h"
#include "ingest/file/feeding.h"
#include "ingest/file/parts.h"

#define PHASES_MOST 192u /* of one step, but for one that is all of a file */
#define CHUNK       512u
#define PIECE_NS    INT64_C(1000000000) /* where no step ends, about a second at a time */

/* The text of an event in a group's table. */
static uint32_t group_text(struct feeding *feeding, enum group_by by,
                           const struct event *event)
{
    const struct file *file = feeding->file;
    bool has_key = EVENT_KIND(event->meta) == EVENT_CPU_OP ||
                   EVENT_KIND(event->meta) == EVENT_USER_RANGE;
    uint32_t key = has_key ? (uint32_t)event->aux : 0, name = EVENT_NAME(event->meta);
    uint32_t *known =
        key != 0 ? &feeding->of_key[by][key] : &feeding->of_name[by][name];
    char text[2 * TEXT_BYTES_MAX], detail[TEXT_BYTES_MAX] = "";

    if (*known != 0)
        return *known - 1;
    if (key != 0)
        file_details_text(file->details, key, by, detail);
    int length =
        snprintf(text, sizeof(text), "%s%s%s", trace_names_get(file->names, name, NULL),
                 detail[0] != '\0' ? GROUP_MARK : "", detail);

    *known =
        texts_intern(feeding->texts.process->groups[by]->texts, text, (size_t)length) +
        1;
    return *known - 1;
}

/* The same events under a group's texts. */
static void feed_group(struct feeding *feeding, enum group_by by, uint32_t thread,
                       const struct event *events, uint32_t count)
{
    struct ops_group *group = feeding->texts.process->groups[by];
    struct event named[CHUNK];

    for (uint32_t i = 0; i < count; i++) {
        named[i] = events[i];
        named[i].meta = (events[i].meta & ~(uint64_t)UINT32_MAX) |
                        group_text(feeding, by, &events[i]);
    }
    ops_group_fold(group, thread, named, count);
}

static void feed_events(struct feeding *feeding, uint32_t thread, struct event *events,
                        uint32_t count)
{
    struct process *process = feeding->texts.process;

    if (count == 0)
        return;
    for (uint32_t by = 0; by < GROUPS; by++)
        if (process->groups[by] != NULL)
            feed_group(feeding, by, thread, events, count);
    for (uint32_t i = 0; i < count; i++) {
        struct event *event = &events[i];

        event->meta = (event->meta & ~(uint64_t)UINT32_MAX) |
                      file_text(&feeding->texts, EVENT_NAME(event->meta));
        if (EVENT_KIND(event->meta) == EVENT_CPU_OP ||
            EVENT_KIND(event->meta) == EVENT_USER_RANGE)
            event->aux = 0; /* no sequence number */
    }
    process_fold(process, thread, events, count);
}

/* The next one of a thread, or of the works, that began before `before_ns`; NULL none. */
static const struct track_record *next_event(struct feeding *feeding, uint32_t thread,
                                             int64_t before_ns)
{
    const struct track_record *record = track_peek(&feeding->threads[thread]);

    return record != NULL && (int64_t)record->event.time < before_ns ? record : NULL;
}

static const struct track_record *next_work(struct feeding *feeding, int64_t before_ns)
{
    const struct file *file = feeding->file;
    const struct track_record *work;

    while ((work = track_peek(&feeding->works)) != NULL &&
           file_is_stray(file, &work->event))
        track_next(&feeding->works);
    return work != NULL &&
                   (int64_t)(work->event.time - (uint64_t)file->zero_ns) < before_ns
               ? work
               : NULL;
}

static void put_work(struct feeding *feeding, const struct track_record *work,
                     struct event *events)
{
    bool kernel = EVENT_KIND(work->event.meta) == EVENT_KERNEL;
    uint64_t stream = work->more[FILE_WORK_STREAM];

    events[0] = work->event;
    events[0].time -= (uint64_t)feeding->file->zero_ns;
    events[0].meta =
        EVENT_META(file_text(&feeding->texts, EVENT_NAME(work->event.meta)),
                   EVENT_KIND(work->event.meta), EVENT_FLAGS(work->event.meta),
                   file_device(feeding->file, EVENT_AUX16(work->event.meta)));
    events[1] =
        (struct event){.time = kernel ? stream : file_work_bytes(feeding->file, work),
                       .value = kernel ? 0 : stream,
                       .meta = EVENT_META(0, EVENT_MORE, 0, 1)};
}

/* What began before `before_ns`: thread by thread, then the devices' work. */
static void feed_until(struct feeding *feeding, int64_t before_ns)
{
    struct process *process = feeding->texts.process;
    uint32_t works = feeding->file->thread_count;
    const struct track_record *next;
    struct event events[CHUNK];

    for (uint32_t thread = 0, count; thread < works; thread++) {
        do {
            for (count = 0; count < CHUNK &&
                            (next = next_event(feeding, thread, before_ns)) != NULL;
                 track_next(&feeding->threads[thread]))
                events[count++] = next->event;
            feed_events(feeding, thread, events, count);
        } while (count == CHUNK);
    }
    for (uint32_t count = CHUNK; count == CHUNK;) {
        for (count = 0; count < CHUNK && (next = next_work(feeding, before_ns)) != NULL;
             track_next(&feeding->works), count += 2)
            put_work(feeding, next, events + count);
        if (count > 0)
            process_fold(process, works, events, count);
    }
}

static int64_t piece_end_ns(int64_t at, int64_t to_ns)
{
    int64_t part = (to_ns - at) / 1024 + PIECE_NS;

    return to_ns - at > part ? at + part : to_ns;
}

/* Outside of steps, up to `to_ns`. */
static void feed_apart(struct feeding *feeding, int64_t from_ns, int64_t to_ns)
{
    struct process *process = feeding->texts.process;

    for (int64_t at = from_ns; at < to_ns;) {
        int64_t until = piece_end_ns(at, to_ns);

        pthread_rwlock_wrlock(&feeding->store->lock);
        process_begin(process, at);
        feed_until(feeding, until);
        /* What was fed lies in no step. */
        process_end(process, &(struct step){.start_ns = at,
                                            .duration_ns = until - at,
                                            .flags = EVENT_STEP_VALIDATION,
                                            .whole = true});
        if (process->gpu.on)
            gpu_settle(&process->gpu, at);
        pthread_rwlock_unlock(&feeding->store->lock);
        at = until;
    }
}

/* Its phases, at most `most` events, then the step itself: how many these are together. */
static uint32_t tell_step(struct feeding *feeding, const struct file_step *step,
                          struct file_phases *phases, struct event *events,
                          uint32_t most)
{
    struct file *file = feeding->file;
    uint8_t flags = EVENT_STEP_MARKED | EVENT_STEP_OPS;
    uint32_t count, known = step->known;

    if (file->own) {
        count = file_phases_own(file, phases, step, events, most);
        flags = step->flags;
    } else {
        count = file_phases_step(file, phases, step, events, most);
        flags |= file->works.count > 0 ? EVENT_STEP_KERNELS : 0;
        for (uint32_t phase = 0; phase < EVENT_PHASES; phase++)
            known |= phases->known[phase] ? 1u << phase : 0;
    }
    events[count++] = (struct event){.time = (uint64_t)step->start_ns,
                                     .value = (uint64_t)(step->end_ns - step->start_ns),
                                     .meta = EVENT_META(0, EVENT_STEP, flags, known),
                                     .aux = EVENT_STEP_NUMBER(step->number) |
                                            (uint64_t)step->epoch << 48};
    return count;
}

static void feed_step(struct feeding *feeding, const struct file_step *step,
                      struct file_phases *phases)
{
    struct process *process = feeding->texts.process;
    struct event events[PHASES_MOST + 1];
    uint32_t count = tell_step(feeding, step, phases, events, PHASES_MOST);

    pthread_rwlock_wrlock(&feeding->store->lock);
    process_begin(process, step->start_ns);
    feed_until(feeding, step->end_ns);
    process_fold(process, feeding->file->trainer, events, count);
    pthread_rwlock_unlock(&feeding->store->lock);
}

/* A step that is all of a file, piece by piece: what came is settled on the way, and others
 * get the store in between. */
static int feed_whole(struct feeding *feeding, const struct file_step *step,
                      struct file_phases *phases)
{
    struct file *file = feeding->file;
    struct process *process = feeding->texts.process;
    uint32_t most = 2 * (file->marks.count + file->backwards.count) + 1;
    struct event *events = calloc(most + 1, sizeof(*events));

    if (events == NULL)
        return -ENOMEM;
    uint32_t count = tell_step(feeding, step, phases, events, most);

    for (int64_t at = step->start_ns; at < step->end_ns;) {
        int64_t until = piece_end_ns(at, step->end_ns);

        pthread_rwlock_wrlock(&feeding->store->lock);
        if (at == step->start_ns) {
            process_begin(process, at);
            gpu_fold_step(&process->gpu, &events[count - 1]);
        }
        feed_until(feeding, until);
        if (process->gpu.on)
            gpu_settle(&process->gpu, at);
        if (until == step->end_ns)
            process_fold(process, file->trainer, events, count);
        pthread_rwlock_unlock(&feeding->store->lock);
        at = until;
    }
    free(events);
    return 0;
}

/* Is there anything between the steps? Most files have none or little. */
static bool any_before(struct feeding *feeding, int64_t before_ns)
{
    bool any = next_work(feeding, before_ns) != NULL;

    for (uint32_t i = 0; i < feeding->file->thread_count && !any; i++)
        any = next_event(feeding, i, before_ns) != NULL;
    return any;
}

static int feed_steps(struct feeding *feeding)
{
    struct file *file = feeding->file;
    const struct file_step *steps = file->steps.items;
    struct file_phases phases;
    int64_t at = file->from_ns;

    file_phases_begin(file, &phases);
    if (file->result->whole_step) {
        if (feed_whole(feeding, steps, &phases) != 0)
            return -ENOMEM;
        feed_apart(feeding, file->to_ns, file->to_ns + 1);
        return 0;
    }
    for (uint32_t i = 0; i < file->steps.count; i++) {
        if (any_before(feeding, steps[i].start_ns))
            feed_apart(feeding, at, steps[i].start_ns);
        feed_step(feeding, &steps[i], &phases);
        at = steps[i].end_ns;
    }
    feed_apart(feeding, at, file->to_ns + 1);
    return 0;
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

static int open_groups(struct feeding *feeding, uint32_t groups)
{
    struct process *process = feeding->texts.process;

    for (uint32_t by = GROUP_NAME + 1; by < GROUPS; by++) {
        if (!(groups >> by & 1))
            continue;
        feeding->of_key[by] =
            calloc(feeding->file->details->key_count, sizeof(uint32_t));
        feeding->of_name[by] = calloc(feeding->texts.count + 1, sizeof(uint32_t));
        process->groups[by] = ops_group_new(0);
        if (feeding->of_key[by] == NULL || feeding->of_name[by] == NULL ||
            process->groups[by] == NULL)
            return -ENOMEM;
    }
    return 0;
}

static int begin(struct feeding *feeding)
{
    struct file *file = feeding->file;
    struct process *process = feeding->texts.process;
    const struct event *longs = file->longs.items;
    int error = track_drain(&feeding->works, &file->works);

    for (uint32_t i = 0; i < file->thread_count && error == 0; i++)
        error = track_drain(&feeding->threads[i], &file->threads[i].nested);
    pthread_rwlock_wrlock(&feeding->store->lock);
    if (error == 0)
        error = name_threads(feeding);
    if (error == 0)
        error = open_groups(feeding, file->groups);
    file_sort_sizes(file);
    for (uint32_t i = 0; i < file->stream_count; i++)
        process->gpu.stream_addresses[i] = file->streams[i];
    gpu_begin(&process->gpu, file->from_ns);
    for (uint32_t i = 0; i < file->device_count; i++)
        (void)gpu_device(&process->gpu, file->devices[i].device);
    for (uint32_t i = 0; i < file->longs.count; i++) {
        struct event event = longs[i];

        event.meta = (event.meta & ~(uint64_t)UINT32_MAX) |
                     file_text(&feeding->texts, EVENT_NAME(event.meta));
        gpu_fold_ahead(&process->gpu, process->texts, &event);
    }
    process->gpu.host_late_ns = FILE_LONG_NS;
    if (error == 0 &&
        !gpu_queue_lose(&process->gpu, file->lost.items, file->lost.count))
        error = -ENOMEM;
    process->lost += file->lost.count;
    pthread_rwlock_unlock(&feeding->store->lock);
    return error;
}

static int end(struct feeding *feeding)
{
    struct file *file = feeding->file;
    struct process *process = feeding->texts.process;

    pthread_rwlock_wrlock(&feeding->store->lock);
    int error = file_fold_memory(file, &feeding->texts);

    feeding_give_linked(feeding);
    process->gpu.ends_early = file->ends_early;
    if (process->gpu.on)
        gpu_finish(&process->gpu, file->to_ns);
    device_ops_known(&process->device, INT64_MAX);
    pthread_rwlock_unlock(&feeding->store->lock);
    return error;
}

int file_feed(struct file *file, struct store *store, struct process *process)
{
    struct feeding *feeding = calloc(1, sizeof(*feeding));
    int error = -ENOMEM;

    if (feeding == NULL)
        return -ENOMEM;
    feeding->file = file;
    feeding->store = store;
    feeding->texts = (struct file_texts){.process = process,
                                         .names = file->names,
                                         .count = trace_names_count(file->names)};
    feeding->texts.ids = calloc(feeding->texts.count + 1, sizeof(*feeding->texts.ids));
    if (feeding->texts.ids != NULL)
        error = begin(feeding);
    if (error == 0) {
        error = feed_steps(feeding);
        if (error == 0)
            error = end(feeding);
    }
    bool unread = feeding->works.failed;

    track_end(&feeding->works);
    for (uint32_t i = 0; i < file->thread_count; i++) {
        unread |= feeding->threads[i].failed;
        track_end(&feeding->threads[i]);
    }
    for (uint32_t by = 0; by < GROUPS; by++) {
        free(feeding->of_key[by]);
        free(feeding->of_name[by]);
    }
    free(feeding->texts.ids);
    free(feeding);
    return error == 0 && unread ? -ENOMEM : error;
}
