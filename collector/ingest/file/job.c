/* What a trace file says of its job: the facts that the job itself would have written,
 * where the file tells them, and what was recorded. */
#include <stdlib.h>
#include <string.h>

#include "ingest/file/parts.h"
#include "wire/facts.h"

static struct process_fact *add_fact(struct process *process, const char *key)
{
    if (process->fact_count == WIRE_FACTS)
        return NULL;
    struct process_fact *fact = &process->facts[process->fact_count++];

    *fact =
        (struct process_fact){.key = texts_intern(process->texts, key, strlen(key))};
    return fact;
}

static void say_number(struct process *process, const char *key, double number)
{
    struct process_fact *fact = add_fact(process, key);

    if (fact == NULL)
        return;
    fact->type = WIRE_FACT_NUMBER;
    fact->number = number;
}

static void say_bool(struct process *process, const char *key, bool value)
{
    struct process_fact *fact = add_fact(process, key);

    if (fact == NULL)
        return;
    fact->type = WIRE_FACT_BOOL;
    fact->number = value;
}

static void say_true(struct process *process, const char *key)
{
    say_bool(process, key, true);
}

static void say_text(struct process *process, const char *key, const char *text,
                     size_t length)
{
    struct process_fact *fact = add_fact(process, key);

    if (fact == NULL)
        return;
    fact->type = WIRE_FACT_TEXT;
    fact->text = texts_intern(process->texts, text, length);
}

/* The value behind `'key':` or `"key":` in one of the file's loose texts. */
static const char *find_value(const struct trace_span *span, const char *key)
{
    const char *at = span == NULL ? NULL : strstr(span->value, key);

    if (at == NULL)
        return NULL;
    at += strlen(key);
    return at + strspn(at, "'\"\\: ");
}

/* The iterator's name tells who loads, but not how many they are; torchdata's begin with
 * _Stateful. */
static void add_loader(struct process *process, const struct file *file)
{
    const struct file_mark *marks = file->marks.items;
    uint32_t length;

    for (uint32_t i = 0; i < file->marks.count; i++) {
        if (marks[i].kind != FILE_NAME_DATA)
            continue;
        const char *name = trace_names_get(file->names, marks[i].name, &length);

        if (strstr(name, "SingleProcessDataLoader") != NULL)
            say_number(process, FACT_DATALOADER_WORKERS, 0);
        if (strstr(name, "MultiProcessingDataLoader") != NULL)
            say_true(process, FACT_DATALOADER_UNCOUNTED);
        return;
    }
}

/* What names of a file tell of the job. */
enum said {
    SAID_COMPILE = 1,
    SAID_SHARDED = 2,
    SAID_REPLICATED = 4,
    SAID_DATA_PARALLEL = 8,
    SAID_GATHER = 16,
    SAID_SCATTER = 32,
    SAID_REDUCE = 64,
    SAID_DEVICE = 128,
    SAID_TRAINS = 256,
    SAID_OPS = 512,
};

/* Ranges of torch and its modules among Python's frames, and Inductor's kernels. */
static uint32_t said_by_begin(const char *name)
{
    static const struct {
        const char *begin;
        uint32_t said;
    } begins[] = {{"Torch-Compiled Region", SAID_COMPILE},
                  {"## Call Compiled", SAID_COMPILE},
                  {"CompiledFunction", SAID_COMPILE},
                  {"triton_poi_fused", SAID_COMPILE},
                  {"triton_red_fused", SAID_COMPILE},
                  {"triton_per_fused", SAID_COMPILE},
                  {"FSDP::", SAID_SHARDED},
                  {"FullyShardedDataParallel.", SAID_SHARDED},
                  {"nn.Module: FullyShardedDataParallel_", SAID_SHARDED},
                  {"DistributedDataParallel.", SAID_REPLICATED},
                  {"torch.distributed.ddp.reducer::", SAID_REPLICATED},
                  {"nn.Module: DistributedDataParallel_", SAID_REPLICATED},
                  {"DataParallel.", SAID_DATA_PARALLEL}};

    for (size_t i = 0; i < sizeof(begins) / sizeof(begins[0]); i++)
        if (strncmp(name, begins[i].begin, strlen(begins[i].begin)) == 0)
            return begins[i].said;
    return 0;
}

/* Kernels, calls and ops that exchange: "ncclDevKernel_AllGather_RING_LL",
 * "nccl:_reduce_scatter_base", "c10d::allreduce_". */
static uint32_t said_by_exchange(const char *name)
{
    static const struct {
        const char *part;
        uint32_t said;
    } parts[] = {{"AllGather", SAID_GATHER},      {"all_gather", SAID_GATHER},
                 {"ReduceScatter", SAID_SCATTER}, {"reduce_scatter", SAID_SCATTER},
                 {"AllReduce", SAID_REDUCE},      {"all_reduce", SAID_REDUCE}};

    if (strncmp(name, "nccl", 4) != 0 && strncmp(name, "c10d::", 6) != 0 &&
        strncmp(name, "_c10d_functional::", 18) != 0)
        return 0;
    for (size_t i = 0; i < sizeof(parts) / sizeof(parts[0]); i++)
        if (strcasestr(name, parts[i].part) != NULL)
            return parts[i].said;
    return 0;
}

/* Ops that there are on a device alone: its libraries are in their names. */
static uint32_t said_by_op(const char *name)
{
    static const char *const libraries[] = {"cudnn", "miopen", "_cuda", "cublas"};

    if (strncmp(name, "aten::", 6) != 0)
        return 0;
    for (size_t i = 0; i < sizeof(libraries) / sizeof(libraries[0]); i++)
        if (strstr(name, libraries[i]) != NULL)
            return SAID_DEVICE;
    return 0;
}

/* Ops, ranges and kernels of a backward pass or an update; and that there are ops at all,
 * for a job without torch tells nothing of either. */
static uint32_t said_by_training(const char *name)
{
    static const char *const parts[] = {
        "ackward", "autograd::engine", "Optimizer.", "_bwd", "bwd_", NULL};

    for (size_t i = 0; parts[i] != NULL; i++)
        if (strstr(name, parts[i]) != NULL)
            return SAID_TRAINS;
    return strncmp(name, "aten::", 6) == 0 ? SAID_OPS : 0;
}

static uint32_t said_by_names(const struct file *file)
{
    uint32_t count = trace_names_count(file->names), length, said = 0;

    for (uint32_t id = 0; id < count; id++) {
        const char *name = trace_names_get(file->names, id, &length);

        said |= said_by_begin(name) | said_by_exchange(name) | said_by_op(name) |
                said_by_training(name);
    }
    return said;
}

/* As a job's own wrapper says it. Who gathers and scatters and never reduces holds shards,
 * whatever has made them; DataParallel on one device only calls its module. */
static const char *wrapper_of(const struct file *file, uint32_t said)
{
    const uint32_t exchanges = SAID_GATHER | SAID_SCATTER | SAID_REDUCE;

    if (said & SAID_SHARDED)
        return "FSDP";
    if (said & SAID_REPLICATED)
        return "DDP";
    if (said & SAID_DATA_PARALLEL && file->device_count > 1)
        return "DataParallel";
    return (said & exchanges) == (SAID_GATHER | SAID_SCATTER) ? "FSDP" : NULL;
}

/* Of the one that updates first: "Optimizer.step#AdamW.step". */
static void add_optimizer(struct process *process, const struct file *file,
                          uint32_t said, bool device)
{
    const struct file_mark *marks = file->marks.items, *update = NULL;
    uint32_t length;

    for (uint32_t i = 0; i < file->marks.count && update == NULL; i++)
        if (marks[i].kind == FILE_NAME_OPTIMIZER)
            update = &marks[i];
    const char *class =
        update == NULL
            ? NULL
            : strchr(trace_names_get(file->names, update->name, &length), '#');

    if (class == NULL || said & SAID_COMPILE)
        return;
    bool together = (file->updates.ways & FILE_UPDATE_TOGETHER) != 0;
    bool alone =
        (file->updates.ways &
         (strncmp(class, "#SGD.", 5) == 0 ? FILE_UPDATE_ADDS : FILE_UPDATE_ADAM)) != 0;

    /* One with kernels of its own has neither: nothing is known of it. */
    if (!together && !alone)
        return;
    say_text(process, FACT_OPTIMIZER_CLASS, class + 1, strcspn(class + 1, "."));
    say_text(process, FACT_OPTIMIZER_DEVICE, device ? "cuda" : "cpu", device ? 4 : 3);
    say_bool(process, FACT_OPTIMIZER_FOREACH, together);
}

/* Those that deviceProperties lists: an object for each. */
static uint32_t devices_listed(const struct trace_span *span)
{
    uint32_t count = 0;

    for (const char *at = span == NULL ? "" : span->value; *at != '\0'; at++)
        count += *at == '{';
    return count;
}

static uint32_t devices_with_memory(const struct memory *memory)
{
    uint32_t count = 0;

    for (uint32_t i = 0; i < memory->count; i++)
        count += EVENT_DEVICE_TYPE(memory->tables[i].device) != 0;
    return count;
}

/* Also those whose work was not recorded, as where CUPTI is refused. A machine's devices
 * are listed for a job on its CPU too: that they are there does not say that it uses one. */
static uint32_t devices_of(const struct file *file, const struct process *process,
                           const struct trace_reader *reader, uint32_t said)
{
    uint32_t works = process->gpu.table_count;
    uint32_t holds = devices_with_memory(&process->memory);
    uint32_t seen = works > holds ? works : holds;
    uint32_t listed = devices_listed(trace_reader_span(reader, "deviceProperties"));

    if (seen == 0 && (file->launches || said & SAID_DEVICE))
        seen = 1;
    if (seen == 0)
        return 0;
    return listed > seen ? listed : seen;
}

static void add_device(struct process *process, const struct trace_span *devices)
{
    const char *name = find_value(devices, "name");
    const char *memory = find_value(devices, "totalGlobalMem");
    const char *multiprocessors = find_value(devices, "numSms");

    if (name != NULL) {
        size_t length = strcspn(name, "'\"\\,}");
        uint32_t text = texts_intern(process->texts, name, length);

        say_text(process, FACT_DEVICE_NAME, name, length);
        for (uint32_t i = 0; i < process->gpu.table_count; i++)
            process->gpu.tables[i]->name = text;
    }
    if (memory != NULL)
        say_number(process, FACT_DEVICE_MEMORY, strtod(memory, NULL));
    if (multiprocessors != NULL)
        say_text(process, FACT_DEVICE_MULTIPROCESSOR, multiprocessors,
                 strspn(multiprocessors, "0123456789"));
}

void file_say_capabilities(const struct file *file, struct process *process)
{
    static const char none[] = "the file has no device events";
    static const char lost[] = "the file has launches of kernels, but no device events";
    static const char no_memory[] = "the file was recorded without profile_memory=True";
    struct process_capability *device = &process->capabilities[WIRE_SOURCE_CUPTI];
    struct process_capability *memory = &process->capabilities[WIRE_SOURCE_CPU_MEMORY];
    struct process_capability *ops = &process->capabilities[WIRE_SOURCE_CPU_OPS];

    ops->state = WIRE_STATE_ACTIVE;
    device->state = file->works.count > 0 ? WIRE_STATE_ACTIVE : WIRE_STATE_UNAVAILABLE;
    if (file->works.count == 0)
        device->reason = file->lost.count > 0
                             ? texts_intern(process->texts, lost, strlen(lost))
                             : texts_intern(process->texts, none, strlen(none));
    memory->state =
        process->memory.count > 0 ? WIRE_STATE_ACTIVE : WIRE_STATE_UNAVAILABLE;
    if (process->memory.count == 0)
        memory->reason = texts_intern(process->texts, no_memory, strlen(no_memory));
}

void file_say_facts(const struct file *file, struct process *process,
                    const struct trace_reader *reader)
{
    const char *backend =
        find_value(trace_reader_span(reader, "distributedInfo"), "backend");
    uint32_t said = said_by_names(file);
    uint32_t devices = devices_of(file, process, reader, said);
    const char *wrapper = wrapper_of(file, said);

    add_device(process, trace_reader_span(reader, "deviceProperties"));
    add_loader(process, file);
    add_optimizer(process, file, said, devices > 0);
    if (devices > 0)
        say_number(process, FACT_DEVICE_COUNT, devices);
    if (backend != NULL)
        say_text(process, FACT_DISTRIBUTED_BACKEND, backend,
                 strcspn(backend, "'\"\\,}"));
    if (said & SAID_COMPILE)
        say_true(process, FACT_COMPILE_USED);
    if ((said & (SAID_TRAINS | SAID_OPS)) == SAID_OPS && !file->result->inferred_steps)
        say_true(process, FACT_INFERENCE);
    if (wrapper != NULL)
        say_text(process, FACT_DISTRIBUTED_WRAPPER, wrapper, strlen(wrapper));
}
