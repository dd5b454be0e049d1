/* What the reader tells, put where it belongs: threads, device work, allocations. */
#include <stdlib.h>
#include <string.h>

#include "ingest/file/foreign.h"
#include "ingest/file/parts.h"
#include "ingest/trace/args.h"
#include "wire/text.h"

#define DEVICE_HIP      6 /* torch's numbers, as DEVICE_PRIVATE of PrivateUse1 */
#define DEVICE_PRIVATE  20
#define DURATION_MAX_NS (INT64_C(1000000) * 1000000000) /* eleven days */

/* NULL when there are too many. */
static struct file_thread *find_thread(struct file *file, uint32_t pid, uint32_t tid)
{
    struct file_thread *thread = &file->threads[file->newest];

    if (LIKELY(thread->pid == pid && thread->tid == tid && file->thread_count > 0))
        return thread;
    uint32_t slot = (pid * 2654435761u ^ tid * 2246822519u) >> 10;

    for (;; slot++) {
        uint16_t *at = &file->slots[slot % 1024];

        if (*at == 0) {
            if (file->thread_count == FILE_THREADS_MAX)
                return NULL;
            thread = &file->threads[file->thread_count++];
            *at = (uint16_t)file->thread_count;
            thread->pid = pid;
            thread->tid = tid;
            thread->nested.order = TRACK_GIVEN;
            break;
        }
        thread = &file->threads[*at - 1];
        if (thread->pid == pid && thread->tid == tid)
            break;
    }
    file->newest = (uint32_t)(thread - file->threads);
    return thread;
}

/* The event counts among the tables' from its start on. */
static void count_taken(struct file *file, const struct trace_event *event,
                        int64_t length_ns)
{
    file->result->taken++;
    file_clusters_add(&file->clusters, event->time_ns, event->time_ns + length_ns,
                      event->offset);
}

/* A place in a track, which may be NULL; without one, at the limit, or when out of memory
 * (noted in the file) the event is skipped. */
static struct track_record *hold(struct file *file, struct track *track,
                                 const struct trace_event *event)
{
    struct track_record *record = NULL;

    if (LIKELY(track != NULL && file->held_bytes < file->max_bytes &&
               track->count < UINT32_MAX)) {
        uint64_t before = track->bytes;

        record = track_add(track);
        file->held_bytes += track->bytes - before;
        file->out_of_memory |= record == NULL;
    }
    if (UNLIKELY(record == NULL))
        file_skip(file, event->offset, FILE_SKIP_LIMIT);
    return record;
}

static void take_cpu(struct file *file, const struct trace_event *event, uint8_t kind)
{
    struct file_thread *thread = find_thread(file, event->pid, event->tid);
    struct track_record *kept =
        hold(file, thread == NULL ? NULL : &thread->taken, event);
    enum file_name name = file_name_kind(file, event->name);
    int64_t length_ns =
        kind == EVENT_RUNTIME ? event->duration_ns : file_length_ns(file, name, event);
    uint8_t flags = 0;

    if (kept == NULL)
        return;
    uint64_t aux =
        kind == EVENT_RUNTIME
            ? (uint64_t)event->correlation
            : FILE_AUX(file->details == NULL ? 0
                                             : file_details_add(file->details, event),
                       event->external_id);

    if (kind == EVENT_RUNTIME && name == FILE_NAME_SYNC)
        kind = EVENT_SYNC;
    else if (kind == EVENT_RUNTIME &&
             (name == FILE_NAME_LAUNCH || name == FILE_NAME_COPY))
        kind = EVENT_LAUNCH;
    else if (kind == EVENT_CPU_OP && name >= FILE_NAME_STEP &&
             name <= FILE_NAME_ANNOTATION) /* as files of 2021 have them */
        kind = EVENT_USER_RANGE;
    if (kind == EVENT_CPU_OP)
        flags = name == FILE_NAME_BACKWARD ? EVENT_OP_BACKWARD : 0;
    else if (kind == EVENT_USER_RANGE)
        flags = EVENT_RANGE_TORCH;
    file->launches |= kind == EVENT_LAUNCH;
    if (kind == EVENT_LAUNCH)
        file_take_size(file, event);
    thread->steps += name == FILE_NAME_STEP;
    thread->updates += name == FILE_NAME_OPTIMIZER;
    thread->loads += name == FILE_NAME_DATA;
    thread->ops += kind == EVENT_CPU_OP;
    if (event->has & TRACE_HAS_SEQUENCE && kind == EVENT_CPU_OP)
        file_graph_take(file, event, (uint32_t)(thread - file->threads));
    if (file->sequences != NULL && (kind == EVENT_CPU_OP || kind == EVENT_USER_RANGE))
        file_sequences_take(file, event, (uint32_t)(thread - file->threads));
    *kept =
        (struct track_record){.event = {.time = (uint64_t)event->time_ns,
                                        .value = (uint64_t)length_ns,
                                        .meta = EVENT_META(event->name, kind, flags, 0),
                                        .aux = aux}};
    count_taken(file, event, length_ns);
}

/* Only who asks for stacks needs them: they are no rows. */
static void take_frame(struct file *file, const struct trace_event *event)
{
    struct file_thread *thread =
        file->details == NULL ? NULL : find_thread(file, event->pid, event->tid);
    struct track_record *kept =
        thread == NULL ? NULL : hold(file, &thread->taken, event);

    if (kept != NULL)
        *kept = (struct track_record){
            .event = {.time = (uint64_t)event->time_ns,
                      .value = (uint64_t)event->duration_ns,
                      .meta = EVENT_META(event->name, FILE_EVENT_FRAME, 0, 0)}};
}

static const char *category_of(const struct file *file, const struct trace_event *event)
{
    return trace_names_get(file->names, event->category_name, NULL);
}

/* torch's number of the kind of device that a category is named after; of CUDA and ROCm,
 * which torch calls CUDA too, and of what every kind has, 1. */
static uint8_t device_type(const struct file *file, const struct trace_event *event)
{
    static const struct file_word types[] = {
        {FILE_STARTS, "xpu", 12},
        {FILE_STARTS, "hpu", 15},
        {FILE_STARTS, "mtia", 19},
        {FILE_STARTS, "privateuse1", DEVICE_PRIVATE}};
    uint32_t type = FILE_WORD_OF(types, category_of(file, event));

    if (type == 0 && event->category_name == 0 && file_is_private(file, event->pid))
        type = DEVICE_PRIVATE;
    return type != 0 ? (uint8_t)type : FILE_DEVICE_CUDA;
}

/* "musa_runtime", and whatever else is called so. */
static bool is_call(const struct file *file, const struct trace_event *event)
{
    const char *category = category_of(file, event);

    return (text_ends(category, "_runtime") && strlen(category) > strlen("_runtime")) ||
           (text_ends(category, "_driver") && strlen(category) > strlen("_driver"));
}

/* Kernels and copies of XPUs have the categories of CUDA's: the calls tell. Of a runtime that
 * we do not know the device is none that we know either: torch calls what it has no name for
 * PrivateUse1. */
static void take_call(struct file *file, const struct trace_event *event)
{
    static const struct file_word of_cuda[] = {{FILE_STARTS, "cuda", 1},
                                               {FILE_STARTS, "hip", 1},
                                               {FILE_STARTS, "runtime", 1},
                                               {FILE_STARTS, "Runtime", 1}};

    if (UNLIKELY(event->category_name != file->runtime)) {
        uint8_t type = device_type(file, event);

        if (type == FILE_DEVICE_CUDA &&
            FILE_WORD_OF(of_cuda, category_of(file, event)) == 0)
            type = DEVICE_PRIVATE;
        file->runtime = event->category_name;
        file->runtimes |= UINT32_C(1) << type;
    }
    take_cpu(file, event, EVENT_RUNTIME);
}

uint16_t file_device(const struct file *file, uint16_t device)
{
    bool one = (file->runtimes & (file->runtimes - 1)) == 0; /* kind alone */

    if (EVENT_DEVICE_TYPE(device) != FILE_DEVICE_CUDA || file->runtimes == 0 || !one)
        return device;
    return EVENT_DEVICE((uint8_t)__builtin_ctz(file->runtimes),
                        EVENT_DEVICE_INDEX(device));
}

/* CUDA's names say "Pinned" or "Pageable", ROCm's "Host" alone. */
static uint8_t copy_flags(const char *name)
{
    static const struct file_word ways[] = {{FILE_HAS, "HtoD", EVENT_COPY_H2D},
                                            {FILE_HAS, "DtoH", EVENT_COPY_D2H},
                                            {FILE_HAS, "DtoD", EVENT_COPY_D2D},
                                            {FILE_HAS, "PtoP", EVENT_COPY_P2P}};
    uint8_t way = (uint8_t)FILE_WORD_OF(ways, name);

    if (strstr(name, "Pageable") != NULL)
        return way | EVENT_COPY_PAGEABLE;
    bool known = way == EVENT_COPY_D2D || way == EVENT_COPY_P2P ||
                 strstr(name, "Pinned") != NULL;

    return known ? way : way | EVENT_COPY_UNKNOWN;
}

uint8_t file_work_device(const struct file *file, const struct trace_event *event)
{
    int64_t number = 0;

    if (event->has & TRACE_HAS_DEVICE)
        number = event->device;
    else if (!trace_names_number(file->names, event->pid, &number))
        number = 0;
    return number >= 0 && number < 256 ? (uint8_t)number : 255;
}

static void take_work(struct file *file, const struct trace_event *event, uint8_t kind)
{
    struct track_record *work = hold(file, &file->works, event);
    uint32_t stream = (uint32_t)event->stream;
    uint16_t device =
        EVENT_DEVICE(device_type(file, event), file_work_device(file, event));
    int64_t number;
    uint8_t flags = 0;

    if (work == NULL)
        return;
    if (event->has & TRACE_HAS_STREAM_ADDRESS)
        stream = file_stream(file, event->address);
    else if (!(event->has & TRACE_HAS_STREAM))
        stream = trace_names_number(file->names, event->tid, &number) ? (uint32_t)number
                                                                      : event->tid;
    if (kind == EVENT_MEMCPY)
        flags = copy_flags(trace_names_get(file->names, event->name, NULL));
    *work = (struct track_record){
        .event = {.time = (uint64_t)event->time_ns,
                  .value = (uint64_t)event->duration_ns,
                  .meta = EVENT_META(event->name, kind, flags, device),
                  .aux = (uint64_t)event->correlation},
        .more = {[FILE_WORK_BYTES] = event->has & TRACE_HAS_BYTES && event->bytes >= 0
                                         ? (uint64_t)event->bytes + 1
                                         : 0,
                 [FILE_WORK_STREAM] = stream}};
    count_taken(file, event, event->duration_ns);
}

static void take_allocation(struct file *file, const struct trace_event *event)
{
    struct file_thread *thread = find_thread(file, event->pid, event->tid);
    struct track_record *kept =
        hold(file, thread == NULL ? NULL : &thread->taken, event);
    bool totals = event->has & TRACE_HAS_TOTAL_ALLOCATED;
    bool reserves = event->has & TRACE_HAS_TOTAL_RESERVED;
    int32_t id = event->device_id;

    if (kept == NULL)
        return;
    uint8_t type = (uint8_t)event->device_type;
    /* The allocator of ROCm's torch calls HIP by its number what all else calls cuda. */
    uint16_t device = EVENT_DEVICE(type == DEVICE_HIP ? FILE_DEVICE_CUDA : type,
                                   type == 0 || id < 0 ? 0 : (uint8_t)id);

    *kept = (struct track_record){
        .event = {.time = (uint64_t)event->time_ns,
                  .meta = EVENT_META(event->name, EVENT_ALLOC,
                                     totals ? FILE_HAS_TOTAL : 0, device),
                  .aux = file->allocation_count++},
        .more = {[FILE_ALLOCATION_BYTES] = track_signed(event->bytes),
                 [FILE_ALLOCATED] = track_signed(event->total_allocated_bytes),
                 [FILE_RESERVED] =
                     track_signed(reserves ? event->total_reserved_bytes : -1)}};
    file->has_totals |= totals;
    count_taken(file, event, 0);
}

/* "thread_name" and the like. */
static void take_metadata(struct file *file, const struct trace_event *event)
{
    const char *what = trace_names_get(file->names, event->name, NULL);
    char text[256];

    if (strcmp(what, "process_name") == 0)
        file_note_process(file, event);
    if (strcmp(what, "thread_name") != 0)
        return;
    struct file_thread *thread = find_thread(file, event->pid, event->tid);

    trace_args_text(event, "name", text, sizeof(text));
    if (thread != NULL && text[0] != '\0')
        thread->name = trace_names_intern(file->names, text, strlen(text));
}

/* Without a category that we know: by what it is. */
static void take_plain(struct file *file, struct trace_event *event)
{
    const struct file_thread *thread =
        file->role_count == 0 ? NULL : find_thread(file, event->pid, event->tid);
    enum file_plain plain =
        file_plain_kind(file, event, thread == NULL ? 0 : thread->name);

    if (plain == FILE_PLAIN_NONE)
        file_skip(file, event->offset, FILE_SKIP_CATEGORY);
    else if (plain == FILE_PLAIN_OP || plain == FILE_PLAIN_CALL)
        take_cpu(file, event, plain == FILE_PLAIN_OP ? EVENT_CPU_OP : EVENT_RUNTIME);
    else if (plain != FILE_PLAIN_PASSED_OVER)
        take_work(file, event,
                  plain == FILE_PLAIN_WORK   ? EVENT_KERNEL
                  : plain == FILE_PLAIN_COPY ? EVENT_MEMCPY
                                             : EVENT_MEMSET);
}

static void take_range(struct file *file, struct trace_event *event)
{
    switch (event->category) {
    case TRACE_CPU_OP:
        take_cpu(file, event, EVENT_CPU_OP);
        break;
    case TRACE_RUNTIME:
    case TRACE_DRIVER:
        take_call(file, event);
        break;
    case TRACE_USER_ANNOTATION:
        if (file->held_bytes >= file->max_bytes || !file_take_own(file, event))
            take_cpu(file, event, EVENT_USER_RANGE);
        break;
    case TRACE_KERNEL:
        take_work(file, event, EVENT_KERNEL);
        file_take_kernel(file, event);
        break;
    case TRACE_MEMCPY:
        take_work(file, event, EVENT_MEMCPY);
        break;
    case TRACE_MEMSET:
        take_work(file, event, EVENT_MEMSET);
        break;
    case TRACE_PYTHON_FUNCTION:
        take_frame(file, event);
        break;
    case TRACE_NO_CATEGORY:
        /* The exporter of torch.autograd.profiler knows no categories. */
        if (strcmp(trace_names_get(file->names, event->pid, NULL), "CPU functions") ==
            0)
            take_cpu(file, event, EVENT_CPU_OP);
        else
            take_plain(file, event);
        break;
    case TRACE_OTHER:
        if (is_call(file, event)) {
            take_call(file, event);
            break;
        }
        file->stranger = file->stranger == 0 ? event->category_name : file->stranger;
        if (file->foreign)
            take_plain(file, event);
        else
            file_skip(file, event->offset, FILE_SKIP_CATEGORY);
        break;
    default: /* copies of ranges, spans: known, and no rows */
        break;
    }
}

static void take(struct file *file, struct trace_event *event)
{
    if (UNLIKELY(file->processes != NULL) && !file_is_of_process(file, event))
        return;
    if (UNLIKELY(event->phase == 'B' || event->phase == 'E') &&
        !file_take_pair(file, event))
        return;
    if (UNLIKELY(event->phase == 'b' || event->phase == 'e' || event->phase == 'S' ||
                 event->phase == 'F')) {
        if (file_take_async(file, event) && event->category == TRACE_CPU_OP)
            event->category = TRACE_USER_ANNOTATION;
        else if (event->phase != 'X')
            return;
    }
    if (UNLIKELY(event->time_ns > FILE_TIME_MAX_NS ||
                 event->time_ns < -FILE_TIME_MAX_NS)) {
        file_skip(file, event->offset, FILE_SKIP_DURATION);
    } else if (LIKELY(event->phase == 'X')) {
        if (UNLIKELY(event->duration_ns < 0 || event->duration_ns > DURATION_MAX_NS))
            file_skip(file, event->offset, FILE_SKIP_DURATION);
        else if (UNLIKELY(event->has & TRACE_UNFINISHED))
            file_skip(file, event->offset, FILE_SKIP_UNFINISHED);
        else
            take_range(file, event);
    } else if (event->phase == 'i' || event->phase == 'I') {
        if (file_name_kind(file, event->name) == FILE_NAME_MEMORY &&
            (event->has & TRACE_HAS_BYTES)) {
            if (file->held_bytes < file->max_bytes && file_take_sample(file, event))
                count_taken(file, event, 0);
            else
                take_allocation(file, event);
        }
    } else if (event->phase == 'M') {
        take_metadata(file, event);
    }
}

bool file_take(void *user, struct trace_event *events, uint32_t count)
{
    struct file *file = user;

    for (uint32_t i = 0; i < count; i++)
        take(file, &events[i]);
    return !file->out_of_memory;
}

void file_choose_trainer(struct file *file)
{
    uint64_t best = 0;

    for (uint32_t i = 0; i < file->thread_count; i++) {
        const struct file_thread *thread = &file->threads[i];
        /* Steps speak loudest, then updates, then batches, then mere ops. */
        uint64_t weight = (uint64_t)(thread->steps > 0) << 62 |
                          (uint64_t)(thread->updates > 0) << 61 |
                          (uint64_t)(thread->loads > 0) << 60 | thread->ops;

        if (weight <= best)
            continue;
        best = weight;
        file->trainer = i;
    }
}
