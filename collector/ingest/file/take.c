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

void *file_list_add(struct file *file, struct file_list *list, size_t size,
                    enum file_remark full)
{
    if ((list->count + (uint64_t)1) * size > file->max_bytes / FILE_LIST_SHARE) {
        file->result->remarks[full]++;
        return NULL;
    }
    if (list->count == list->capacity) {
        uint32_t capacity = list->capacity == 0 ? 1024 : list->capacity * 2;
        void *items = realloc(list->items, capacity * size);

        if (items == NULL) {
            file->out_of_memory = true;
            return NULL;
        }
        list->items = items;
        list->capacity = capacity;
    }
    return (char *)list->items + list->count++ * size;
}

/* "AddmmBackward0", "torch::autograd::AccumulateGrad", the engine's own. */
static bool is_backward(const char *text)
{
    const char *at = strstr(text, "Backward");

    if (text_starts(text, "autograd::engine::") ||
        text_starts(text, "torch::autograd::"))
        return true;
    if (at == NULL)
        return false;
    at += strlen("Backward");
    return at[strspn(at, "0123456789")] == '\0';
}

static enum file_name classify(const char *text)
{
    if (text_starts(text, "ProfilerStep#"))
        return FILE_NAME_STEP;
    if (text_starts(text, "enumerate(DataLoader)"))
        return FILE_NAME_DATA;
    if (text_starts(text, "Optimizer.step#"))
        return FILE_NAME_OPTIMIZER;
    if (text_starts(text, "Optimizer.zero_grad#"))
        return FILE_NAME_ZERO_GRAD;
    if (texts_classify(text) == TEXT_ANNOTATION)
        return FILE_NAME_ANNOTATION;
    if (is_backward(text))
        return FILE_NAME_BACKWARD;
    if (strcmp(text, "[memory]") == 0)
        return FILE_NAME_MEMORY;
    if (strcmp(text, "ValidationStep") == 0)
        return FILE_NAME_VALIDATION;
    if (strcmp(text, "data") == 0 || strcmp(text, "forward") == 0 ||
        strcmp(text, "backward") == 0 || strcmp(text, "optimizer") == 0)
        return FILE_NAME_PHASE;
    if (strstr(text, "::") != NULL)
        return FILE_NAME_PLAIN;
    if (strstr(text, "Synchronize") != NULL)
        return FILE_NAME_SYNC;
    if (strcmp(text, "hipMemcpyWithStream") == 0)
        return FILE_NAME_COPY;
    if (strstr(text, "StreamBeginCapture") != NULL)
        return FILE_NAME_CAPTURES;
    if (strstr(text, "StreamEndCapture") != NULL)
        return FILE_NAME_CAPTURED;
    return strstr(text, "Launch") != NULL || strstr(text, "Memcpy") != NULL ||
                   strstr(text, "Memset") != NULL
               ? FILE_NAME_LAUNCH
               : FILE_NAME_PLAIN;
}

static bool grow_kinds(struct file *file, uint32_t name)
{
    uint32_t count = file->kind_count == 0 ? 1024 : file->kind_count;

    while (count <= name)
        count *= 2;
    uint8_t *kinds = realloc(file->kinds, count);

    if (kinds == NULL)
        return false;
    memset(kinds + file->kind_count, 0, count - file->kind_count);
    file->kinds = kinds;
    file->kind_count = count;
    return true;
}

enum file_name file_name_kind(struct file *file, uint32_t name)
{
    if (UNLIKELY(name >= file->kind_count) && !grow_kinds(file, name))
        return FILE_NAME_PLAIN;
    if (UNLIKELY(file->kinds[name] == FILE_NAME_NEW)) {
        uint32_t length;

        file->kinds[name] =
            (uint8_t)classify(trace_names_get(file->names, name, &length));
    }
    return file->kinds[name];
}

void file_skip(struct file *file, uint64_t offset, enum file_skip reason)
{
    struct file_result *result = file->result;

    if (result->skipped[reason]++ == 0)
        result->first_offset[reason] = offset;
}

static void skip(struct file *file, const struct trace_event *event,
                 enum file_skip reason)
{
    file_skip(file, event->offset, reason);
}

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

static void stretch_span(struct file *file, const struct trace_event *event,
                         int64_t length_ns)
{
    file_clusters_add(&file->clusters, event->time_ns, event->time_ns + length_ns,
                      event->offset);
}

/* A place in a track; NULL at the limit, or when out of memory (noted in the file). */
static struct track_record *hold(struct file *file, struct track *track)
{
    uint64_t before = track->bytes;
    struct track_record *record;

    if (UNLIKELY(file->held_bytes >= file->max_bytes || track->count == UINT32_MAX))
        return NULL;
    record = track_add(track);
    file->held_bytes += track->bytes - before;
    file->out_of_memory |= record == NULL;
    return record;
}

static bool is_range(enum file_name name)
{
    return name == FILE_NAME_STEP || name == FILE_NAME_DATA ||
           name == FILE_NAME_OPTIMIZER || name == FILE_NAME_ZERO_GRAD ||
           name == FILE_NAME_ANNOTATION;
}

static void take_cpu(struct file *file, const struct trace_event *event, uint8_t kind)
{
    struct file_thread *thread = find_thread(file, event->pid, event->tid);
    struct track_record *kept = thread == NULL ? NULL : hold(file, &thread->taken);
    enum file_name name = file_name_kind(file, event->name);
    int64_t length_ns =
        kind == EVENT_RUNTIME ? event->duration_ns : file_length_ns(file, name, event);
    uint8_t flags = 0;

    if (kept == NULL) {
        skip(file, event, FILE_SKIP_LIMIT);
        return;
    }
    uint64_t aux = (uint64_t)event->correlation;

    if (kind != EVENT_RUNTIME)
        aux =
            FILE_AUX(file->details == NULL ? 0 : file_details_add(file->details, event),
                     event->external_id);

    if (kind == EVENT_RUNTIME && name == FILE_NAME_SYNC)
        kind = EVENT_SYNC;
    else if (kind == EVENT_RUNTIME &&
             (name == FILE_NAME_LAUNCH || name == FILE_NAME_COPY))
        kind = EVENT_LAUNCH;
    else if (kind == EVENT_CPU_OP && is_range(name)) /* as files of 2021 have them */
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
    file->result->taken++;
    stretch_span(file, event, length_ns);
}

/* Only who asks for stacks needs them: they are no rows. */
static void take_frame(struct file *file, const struct trace_event *event)
{
    struct file_thread *thread =
        file->details == NULL ? NULL : find_thread(file, event->pid, event->tid);
    struct track_record *kept;

    if (thread == NULL)
        return;
    kept = hold(file, &thread->taken);
    if (kept == NULL) {
        skip(file, event, FILE_SKIP_LIMIT);
        return;
    }
    *kept = (struct track_record){
        .event = {.time = (uint64_t)event->time_ns,
                  .value = (uint64_t)event->duration_ns,
                  .meta = EVENT_META(event->name, FILE_EVENT_FRAME, 0, 0)}};
}

/* torch's number of the kind of device that a category is named after; of CUDA and ROCm,
 * which torch calls CUDA too, and of what every kind has, 1. */
static uint8_t device_type(const struct file *file, const struct trace_event *event)
{
    static const struct {
        const char *begin;
        uint8_t type;
    } types[] = {
        {"xpu", 12}, {"hpu", 15}, {"mtia", 19}, {"privateuse1", DEVICE_PRIVATE}};
    uint32_t length;
    const char *category = trace_names_get(file->names, event->category_name, &length);

    for (size_t i = 0; i < sizeof(types) / sizeof(types[0]); i++)
        if (text_starts(category, types[i].begin))
            return types[i].type;
    if (event->category_name == 0 && file_is_private(file, event->pid))
        return DEVICE_PRIVATE;
    return FILE_DEVICE_CUDA;
}

/* Of a runtime that we do not know the device is none that we know either: torch calls what
 * it has no name for PrivateUse1. */
static uint8_t runtime_type(const struct file *file, const struct trace_event *event)
{
    static const char *const of_cuda[] = {"cuda", "hip", "runtime", "Runtime"};
    uint32_t length;
    const char *category = trace_names_get(file->names, event->category_name, &length);
    uint8_t type = device_type(file, event);

    for (size_t i = 0; i < sizeof(of_cuda) / sizeof(of_cuda[0]); i++)
        if (type != FILE_DEVICE_CUDA || text_starts(category, of_cuda[i]))
            return type;
    return DEVICE_PRIVATE;
}

/* "musa_runtime", and whatever else is called so. */
static bool is_call(const struct file *file, const struct trace_event *event)
{
    static const char *const ends[] = {"_runtime", "_driver"};
    uint32_t length;
    const char *category = trace_names_get(file->names, event->category_name, &length);

    for (size_t i = 0; i < sizeof(ends) / sizeof(ends[0]); i++)
        if (length > strlen(ends[i]) &&
            strcmp(category + length - strlen(ends[i]), ends[i]) == 0)
            return true;
    return false;
}

/* Kernels and copies of XPUs have the categories of CUDA's: the calls tell. */
static void note_runtime(struct file *file, const struct trace_event *event)
{
    file->runtime = event->category_name;
    file->runtimes |= UINT32_C(1) << runtime_type(file, event);
}

static void take_call(struct file *file, const struct trace_event *event)
{
    if (UNLIKELY(event->category_name != file->runtime))
        note_runtime(file, event);
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
    uint8_t way = strstr(name, "HtoD") != NULL   ? EVENT_COPY_H2D
                  : strstr(name, "DtoH") != NULL ? EVENT_COPY_D2H
                  : strstr(name, "DtoD") != NULL ? EVENT_COPY_D2D
                  : strstr(name, "PtoP") != NULL ? EVENT_COPY_P2P
                                                 : 0;

    if (strstr(name, "Pageable") != NULL)
        return way | EVENT_COPY_PAGEABLE;
    return (way == EVENT_COPY_H2D || way == EVENT_COPY_D2H) &&
                   strstr(name, "Pinned") == NULL
               ? way | EVENT_COPY_UNKNOWN
               : way;
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
    struct track_record *work = hold(file, &file->works);
    uint32_t stream = (uint32_t)event->stream, length;
    uint16_t device =
        EVENT_DEVICE(device_type(file, event), file_work_device(file, event));
    int64_t number;
    uint8_t flags = 0;

    if (work == NULL) {
        skip(file, event, FILE_SKIP_LIMIT);
        return;
    }
    if (event->has & TRACE_HAS_STREAM_ADDRESS)
        stream = file_stream(file, event->address);
    else if (!(event->has & TRACE_HAS_STREAM))
        stream = trace_names_number(file->names, event->tid, &number) ? (uint32_t)number
                                                                      : event->tid;
    if (kind == EVENT_MEMCPY)
        flags = copy_flags(trace_names_get(file->names, event->name, &length));
    *work = (struct track_record){
        .event = {.time = (uint64_t)event->time_ns,
                  .value = (uint64_t)event->duration_ns,
                  .meta = EVENT_META(event->name, kind, flags, device),
                  .aux = (uint64_t)event->correlation},
        .more = {[FILE_WORK_BYTES] =
                     event->has & TRACE_HAS_BYTES ? (uint64_t)event->bytes + 1 : 0,
                 [FILE_WORK_STREAM] = stream}};
    file->result->taken++;
    stretch_span(file, event, event->duration_ns);
}

static void take_allocation(struct file *file, const struct trace_event *event)
{
    struct file_thread *thread = find_thread(file, event->pid, event->tid);
    struct track_record *kept = thread == NULL ? NULL : hold(file, &thread->taken);
    bool totals = event->has & TRACE_HAS_TOTAL_ALLOCATED;
    bool reserves = event->has & TRACE_HAS_TOTAL_RESERVED;
    int32_t id = event->device_id;

    if (kept == NULL) {
        skip(file, event, FILE_SKIP_LIMIT);
        return;
    }
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
    file->result->taken++;
    stretch_span(file, event, 0);
}

static void take_memory(struct file *file, const struct trace_event *event)
{
    if (file->held_bytes >= file->max_bytes || !file_take_sample(file, event)) {
        take_allocation(file, event);
        return;
    }
    file->result->taken++;
    stretch_span(file, event, 0);
}

/* "thread_name" and the like. */
static void take_metadata(struct file *file, const struct trace_event *event)
{
    char text[256];
    uint32_t length;

    const char *what = trace_names_get(file->names, event->name, &length);

    if (strcmp(what, "process_name") == 0)
        file_note_process(file, event);
    if (strcmp(what, "thread_name") != 0)
        return;
    struct file_thread *thread = find_thread(file, event->pid, event->tid);

    trace_args_text(event, "name", text, sizeof(text));
    if (thread != NULL && text[0] != '\0')
        thread->name = trace_names_intern(file->names, text, strlen(text));
}

/* The exporter of torch.autograd.profiler knows no categories. */
static bool is_legacy_op(const struct file *file, const struct trace_event *event)
{
    uint32_t length;

    return strcmp(trace_names_get(file->names, event->pid, &length), "CPU functions") ==
           0;
}

/* Without a category that we know: by what it is; false where it is nothing. */
static bool take_plain(struct file *file, struct trace_event *event)
{
    const struct file_thread *thread =
        file->role_count == 0 ? NULL : find_thread(file, event->pid, event->tid);

    switch (file_plain_kind(file, event, thread == NULL ? 0 : thread->name)) {
    case FILE_PLAIN_OP:
        take_cpu(file, event, EVENT_CPU_OP);
        return true;
    case FILE_PLAIN_CALL:
        take_cpu(file, event, EVENT_RUNTIME);
        return true;
    case FILE_PLAIN_WORK:
        take_work(file, event, EVENT_KERNEL);
        return true;
    case FILE_PLAIN_COPY:
        take_work(file, event, EVENT_MEMCPY);
        return true;
    case FILE_PLAIN_SET:
        take_work(file, event, EVENT_MEMSET);
        return true;
    case FILE_PLAIN_PASSED_OVER:
        return true;
    default:
        return false;
    }
}

static void take_range(struct file *file, struct trace_event *event)
{
    switch (event->category) {
    case TRACE_CPU_OP:
        take_cpu(file, event, EVENT_CPU_OP);
        return;
    case TRACE_RUNTIME:
    case TRACE_DRIVER:
        take_call(file, event);
        return;
    case TRACE_USER_ANNOTATION:
        if (file->held_bytes >= file->max_bytes || !file_take_own(file, event))
            take_cpu(file, event, EVENT_USER_RANGE);
        return;
    case TRACE_KERNEL:
        take_work(file, event, EVENT_KERNEL);
        file_take_kernel(file, event);
        return;
    case TRACE_MEMCPY:
        take_work(file, event, EVENT_MEMCPY);
        return;
    case TRACE_MEMSET:
        take_work(file, event, EVENT_MEMSET);
        return;
    case TRACE_PYTHON_FUNCTION:
        take_frame(file, event);
        return;
    case TRACE_NO_CATEGORY:
        if (is_legacy_op(file, event))
            take_cpu(file, event, EVENT_CPU_OP);
        else if (!take_plain(file, event))
            skip(file, event, FILE_SKIP_CATEGORY);
        return;
    case TRACE_OTHER:
        if (is_call(file, event)) {
            take_call(file, event);
            return;
        }
        file->stranger = file->stranger == 0 ? event->category_name : file->stranger;
        if (!file->foreign || !take_plain(file, event))
            skip(file, event, FILE_SKIP_CATEGORY);
        return;
    default: /* copies of ranges, spans: known, and no rows */
        return;
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
        skip(file, event, FILE_SKIP_DURATION);
    } else if (LIKELY(event->phase == 'X')) {
        if (UNLIKELY(event->duration_ns < 0 || event->duration_ns > DURATION_MAX_NS))
            skip(file, event, FILE_SKIP_DURATION);
        else if (UNLIKELY(event->has & TRACE_UNFINISHED))
            skip(file, event, FILE_SKIP_UNFINISHED);
        else
            take_range(file, event);
    } else if (event->phase == 'i' || event->phase == 'I') {
        if (file_name_kind(file, event->name) == FILE_NAME_MEMORY &&
            (event->has & TRACE_HAS_BYTES))
            take_memory(file, event);
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
