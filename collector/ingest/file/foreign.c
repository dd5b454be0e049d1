/* What names say; what events without a category that we know are by their process, their
 * arguments and their name; and who writes such files. */
#include "ingest/file/foreign.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "ingest/trace/args.h"
#include "ingest/trace/grow.h"
#include "wire/text.h"

/* "AddmmBackward0", "torch::autograd::AccumulateGrad", the engine's own. */
static bool is_backward(const char *text)
{
    const char *at = strstr(text, "Backward");

    return text_starts(text, "autograd::engine::") ||
           text_starts(text, "torch::autograd::") ||
           (at != NULL &&
            at[strlen("Backward") + strspn(at + strlen("Backward"), "0123456789")] ==
                '\0');
}

static enum file_name classify(const char *text)
{
    static const struct file_word ranges[] = {
        {FILE_STARTS, "ProfilerStep#", FILE_NAME_STEP},
        {FILE_STARTS, "enumerate(DataLoader)", FILE_NAME_DATA},
        {FILE_STARTS, "Optimizer.step#", FILE_NAME_OPTIMIZER},
        {FILE_STARTS, "Optimizer.zero_grad#", FILE_NAME_ZERO_GRAD}};
    static const struct file_word others[] = {
        {FILE_IS, "[memory]", FILE_NAME_MEMORY},
        {FILE_IS, "ValidationStep", FILE_NAME_VALIDATION},
        {FILE_IS, "data", FILE_NAME_PHASE},
        {FILE_IS, "forward", FILE_NAME_PHASE},
        {FILE_IS, "backward", FILE_NAME_PHASE},
        {FILE_IS, "optimizer", FILE_NAME_PHASE},
        {FILE_HAS, "::", FILE_NAME_PLAIN},
        {FILE_HAS, "Synchronize", FILE_NAME_SYNC},
        {FILE_IS, "urQueueFinish", FILE_NAME_SYNC},
        {FILE_IS, "urEventWait", FILE_NAME_SYNC},
        {FILE_IS, "hipMemcpyWithStream", FILE_NAME_COPY},
        {FILE_HAS, "StreamBeginCapture", FILE_NAME_CAPTURES},
        {FILE_HAS, "StreamEndCapture", FILE_NAME_CAPTURED},
        {FILE_HAS, "Launch", FILE_NAME_LAUNCH},
        {FILE_HAS, "Memcpy", FILE_NAME_LAUNCH},
        {FILE_HAS, "Memset", FILE_NAME_LAUNCH},
        {FILE_STARTS, "", FILE_NAME_PLAIN}};
    uint32_t name = FILE_WORD_OF(ranges, text);

    if (name == 0 && texts_classify(text) == TEXT_ANNOTATION)
        name = FILE_NAME_ANNOTATION;
    if (name == 0 && is_backward(text))
        name = FILE_NAME_BACKWARD;
    return (enum file_name)(name != 0 ? name : FILE_WORD_OF(others, text));
}

enum file_name file_name_kind(struct file *file, uint32_t name)
{
    if (UNLIKELY(name >= file->kind_count) &&
        !grow_table(&file->kinds, name, &file->kind_count, 1024, sizeof(uint8_t)))
        return FILE_NAME_PLAIN;
    if (UNLIKELY(file->kinds[name] == FILE_NAME_NEW))
        file->kinds[name] = (uint8_t)classify(trace_names_get(file->names, name, NULL));
    return file->kinds[name];
}

static const char *text_of(const struct file *file, uint32_t name)
{
    return trace_names_get(file->names, name, NULL);
}

/* ---- processes --------------------------------------------------------------------------- */

void file_note_process(struct file *file, const struct trace_event *event)
{
    static const struct file_word roles[] = {
        {FILE_STARTS, "Ascend Hardware", FILE_ROLE_ASCEND},
        {FILE_IS, "CANN", FILE_ROLE_CALLS},
        {FILE_STARTS, "/device:GPU", FILE_ROLE_XPROF},
        {FILE_STARTS, "/device:TPU", FILE_ROLE_XPROF},
        /* Sums of what the others show one by one. */
        {FILE_STARTS, "Overlap Analysis", FILE_ROLE_COPIES},
        {FILE_STARTS, "AI Core Freq", FILE_ROLE_COPIES},
        {FILE_IS, "Communication", FILE_ROLE_COPIES}};
    char name[64];

    trace_args_text(event, "name", name, sizeof(name));
    enum file_role role = (enum file_role)FILE_WORD_OF(roles, name);
    const char *number = strrchr(name, ':');

    if (role == FILE_ROLE_NONE || file->role_count == FILE_ROLES_MAX)
        return;
    struct file_process_role *added = &file->roles[file->role_count++];

    *added = (struct file_process_role){.pid = event->pid, .role = role};
    if (role == FILE_ROLE_XPROF && number != NULL)
        added->device = (int32_t)strtol(number + 1, NULL, 10);
    added->is_private = role == FILE_ROLE_ASCEND || text_starts(name, "/device:TPU");
}

/* NULL where it is none that is known. */
static const struct file_process_role *role_of(const struct file *file, uint32_t pid)
{
    for (uint32_t i = 0; i < file->role_count; i++)
        if (file->roles[i].pid == pid)
            return &file->roles[i];
    return NULL;
}

bool file_is_private(const struct file *file, uint32_t pid)
{
    const struct file_process_role *role = role_of(file, pid);

    return role != NULL && role->is_private;
}

/* ---- events -------------------------------------------------------------------------- */

/* A task of an Ascend NPU; those that only wait or record an event are no work. */
static enum file_plain plain_task(struct trace_event *event)
{
    static const struct file_word types[] = {
        {FILE_HAS_IN_ANY_CASE, "WAIT", FILE_PLAIN_PASSED_OVER},
        {FILE_HAS_IN_ANY_CASE, "EVENT", FILE_PLAIN_PASSED_OVER},
        {FILE_HAS_IN_ANY_CASE, "NOTIFY", FILE_PLAIN_PASSED_OVER},
        {FILE_HAS_IN_ANY_CASE, "RECORD", FILE_PLAIN_PASSED_OVER},
        {FILE_HAS_IN_ANY_CASE, "MEMCPY", FILE_PLAIN_COPY},
        {FILE_STARTS, "", FILE_PLAIN_WORK}};
    char type[64];
    int64_t stream;

    trace_args_text(event, "Task Type", type, sizeof(type));
    if (trace_args_integer(event, "Stream Id", &stream) && stream >= 0 &&
        stream <= INT32_MAX) {
        event->stream = (int32_t)stream;
        event->has |= TRACE_HAS_STREAM;
    }
    return (enum file_plain)FILE_WORD_OF(types, type);
}

static enum file_plain plain_work(const char *name)
{
    return text_starts(name, "Memcpy")   ? FILE_PLAIN_COPY
           : text_starts(name, "Memset") ? FILE_PLAIN_SET
                                         : FILE_PLAIN_WORK;
}

enum file_plain file_plain_kind(struct file *file, struct trace_event *event,
                                uint32_t thread_name)
{
    const char *name = text_of(file, event->name);
    enum file_name kind = file_name_kind(file, event->name);
    const uint64_t device = TRACE_HAS_DEVICE | TRACE_HAS_STREAM | TRACE_HAS_CORRELATION;
    const struct file_process_role *role = role_of(file, event->pid);

    if (role != NULL && role->role == FILE_ROLE_COPIES)
        return FILE_PLAIN_PASSED_OVER;
    if (role != NULL && role->role == FILE_ROLE_CALLS)
        return FILE_PLAIN_CALL;
    if (role != NULL && (role->role == FILE_ROLE_ASCEND || file->foreign)) {
        event->device = role->device;
        event->has |= TRACE_HAS_DEVICE;
        if (role->role == FILE_ROLE_ASCEND)
            return plain_task(event);
        /* Its other rows are sums of these. */
        return text_starts(text_of(file, thread_name), "Stream") ||
                       strcmp(text_of(file, thread_name), "XLA Ops") == 0
                   ? plain_work(name)
                   : FILE_PLAIN_PASSED_OVER;
    }
    if ((event->has & device) == device)
        return plain_work(name);
    if (event->has & TRACE_HAS_CORRELATION &&
        (text_starts(name, "cuda") || text_starts(name, "hip")))
        return FILE_PLAIN_CALL;
    bool torch = strstr(name, "::") != NULL || kind == FILE_NAME_BACKWARD ||
                 (kind >= FILE_NAME_STEP && kind <= FILE_NAME_ZERO_GRAD);

    return torch || file->foreign ? FILE_PLAIN_OP : FILE_PLAIN_NONE;
}

/* ---- who writes such files --------------------------------------------------------------- */

struct mark {
    const char *begin, *producer;
};

/* By a category or a key of the top level, then by the names of events and processes. */
static const struct mark categories[] = {
    {"devtools.timeline", "Chrome's DevTools"},
    {"disabled-by-default-", "Chrome's DevTools"},
    {"blink", "Chrome's DevTools"},
    {"v8", "Chrome's DevTools"},
    {"toplevel", "Chrome's DevTools"},
    {"FEE", "viztracer"},
    {"Node", "ONNX Runtime"},
    {"Session", "ONNX Runtime"},
    {"Op", "TensorFlow"},
    {"DataFlow", "TensorFlow"},
    {"task", "Ray"},
    {"worker_", "Ray"},
};
static const struct mark keys[] = {{"viztracer_metadata", "viztracer"}};
static const struct mark names[] = {
    {"NEGOTIATE_", "Horovod"},
    {"MEMCPY_IN_FUSION_BUFFER", "Horovod"},
    {"model_loading_", "ONNX Runtime"},
    {"PjitFunction", "XProf (JAX)"},
    {"XlaModule", "XProf (JAX, TensorFlow)"},
    {"TfrtCpu", "XProf (JAX, TensorFlow)"},
    {"ThreadpoolListener", "XProf (JAX, TensorFlow)"},
    {"AscendCL@", "Ascend's profiler"},
    {"ray::", "Ray"},
};

static const char *producer_in(const struct mark *marks, size_t count, const char *text)
{
    for (size_t i = 0; i < count; i++)
        if (text_starts(text, marks[i].begin))
            return marks[i].producer;
    return NULL;
}

#define PRODUCER_IN(marks, text)                                                       \
    producer_in(marks, sizeof(marks) / sizeof((marks)[0]), text)

const char *file_producer(const struct file *file, const struct trace_head *head)
{
    const char *producer = NULL;
    char key[32];

    for (uint32_t i = 0; i < head->span_count && producer == NULL; i++) {
        (void)snprintf(key, sizeof(key), "%.*s", (int)head->spans[i].key_length,
                       head->spans[i].key);
        producer = PRODUCER_IN(keys, key);
    }
    for (uint32_t i = 0; i < file->role_count && producer == NULL; i++)
        producer =
            file->roles[i].role == FILE_ROLE_XPROF ? "XProf (JAX, TensorFlow)" : NULL;
    if (producer == NULL && file->stranger != 0)
        producer = PRODUCER_IN(categories, text_of(file, file->stranger));
    for (uint32_t id = 0; id < trace_names_count(file->names) && producer == NULL; id++)
        producer = PRODUCER_IN(names, text_of(file, id));
    return producer;
}
