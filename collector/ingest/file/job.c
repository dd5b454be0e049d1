/* What a trace file says of its job: the facts that the job itself would have written,
 * where the file tells them, and what was recorded. */
#include <stdlib.h>
#include <string.h>

#include "ingest/file/parts.h"
#include "wire/facts.h"
#include "wire/text.h"

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

    if (fact != NULL)
        *fact = (struct process_fact){
            .key = fact->key, .type = WIRE_FACT_NUMBER, .number = number};
}

static void say_bool(struct process *process, const char *key, bool value)
{
    struct process_fact *fact = add_fact(process, key);

    if (fact != NULL)
        *fact = (struct process_fact){
            .key = fact->key, .type = WIRE_FACT_BOOL, .number = value};
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

    for (uint32_t i = 0; i < file->marks.count; i++) {
        if (marks[i].kind != FILE_NAME_DATA)
            continue;
        const char *name = trace_names_get(file->names, marks[i].name, NULL);

        if (strstr(name, "SingleProcessDataLoader") != NULL)
            say_number(process, FACT_DATALOADER_WORKERS, 0);
        if (strstr(name, "MultiProcessingDataLoader") != NULL)
            say_bool(process, FACT_DATALOADER_UNCOUNTED, true);
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

/* Kernels, calls and ops that exchange: "ncclDevKernel_AllGather_RING_LL",
 * "nccl:_reduce_scatter_base", "c10d::allreduce_". */
static uint32_t said_by_exchange(const char *name)
{
    static const struct file_word exchanges[] = {
        {FILE_STARTS, "nccl", 1},
        {FILE_STARTS, "c10d::", 1},
        {FILE_STARTS, "_c10d_functional::", 1}};
    static const struct file_word parts[] = {
        {FILE_HAS_IN_ANY_CASE, "AllGather", SAID_GATHER},
        {FILE_HAS_IN_ANY_CASE, "all_gather", SAID_GATHER},
        {FILE_HAS_IN_ANY_CASE, "ReduceScatter", SAID_SCATTER},
        {FILE_HAS_IN_ANY_CASE, "reduce_scatter", SAID_SCATTER},
        {FILE_HAS_IN_ANY_CASE, "AllReduce", SAID_REDUCE},
        {FILE_HAS_IN_ANY_CASE, "all_reduce", SAID_REDUCE}};

    return FILE_WORD_OF(exchanges, name) != 0 ? FILE_WORD_OF(parts, name) : 0;
}

static uint32_t said_by_names(const struct file *file)
{
    /* Ranges of torch and its modules among Python's frames, and Inductor's kernels. */
    static const struct file_word begins[] = {
        {FILE_STARTS, "Torch-Compiled Region", SAID_COMPILE},
        {FILE_STARTS, "## Call Compiled", SAID_COMPILE},
        {FILE_STARTS, "CompiledFunction", SAID_COMPILE},
        {FILE_STARTS, "triton_poi_fused", SAID_COMPILE},
        {FILE_STARTS, "triton_red_fused", SAID_COMPILE},
        {FILE_STARTS, "triton_per_fused", SAID_COMPILE},
        {FILE_STARTS, "FSDP::", SAID_SHARDED},
        {FILE_STARTS, "FullyShardedDataParallel.", SAID_SHARDED},
        {FILE_STARTS, "nn.Module: FullyShardedDataParallel_", SAID_SHARDED},
        {FILE_STARTS, "DistributedDataParallel.", SAID_REPLICATED},
        {FILE_STARTS, "torch.distributed.ddp.reducer::", SAID_REPLICATED},
        {FILE_STARTS, "nn.Module: DistributedDataParallel_", SAID_REPLICATED},
        {FILE_STARTS, "DataParallel.", SAID_DATA_PARALLEL}};
    /* Ops that there are on a device alone: its libraries are in their names. */
    static const struct file_word libraries[] = {{FILE_HAS, "cudnn", SAID_DEVICE},
                                                 {FILE_HAS, "miopen", SAID_DEVICE},
                                                 {FILE_HAS, "_cuda", SAID_DEVICE},
                                                 {FILE_HAS, "cublas", SAID_DEVICE}};
    /* Ops, ranges and kernels of a backward pass or an update; and that there are ops at
     * all, for a job without torch tells nothing of either. */
    static const struct file_word training[] = {
        {FILE_HAS, "ackward", SAID_TRAINS},
        {FILE_HAS, "autograd::engine", SAID_TRAINS},
        {FILE_HAS, "Optimizer.", SAID_TRAINS},
        {FILE_HAS, "_bwd", SAID_TRAINS},
        {FILE_HAS, "bwd_", SAID_TRAINS},
        {FILE_STARTS, "aten::", SAID_OPS}};
    uint32_t said = 0;

    for (uint32_t id = 0; id < trace_names_count(file->names); id++) {
        const char *name = trace_names_get(file->names, id, NULL);

        said |= FILE_WORD_OF(begins, name) | FILE_WORD_OF(training, name) |
                said_by_exchange(name);
        if (text_starts(name, "aten::"))
            said |= FILE_WORD_OF(libraries, name);
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

    for (uint32_t i = 0; i < file->marks.count && update == NULL; i++)
        if (marks[i].kind == FILE_NAME_OPTIMIZER)
            update = &marks[i];
    const char *class =
        update == NULL ? NULL
                       : strchr(trace_names_get(file->names, update->name, NULL), '#');

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

/* Also those whose work was not recorded, as where CUPTI is refused. A machine's devices
 * are listed for a job on its CPU too: that they are there does not say that it uses one. */
static uint32_t devices_of(const struct file *file, const struct process *process,
                           const struct trace_reader *reader, uint32_t said)
{
    const struct trace_span *span = trace_reader_span(reader, "deviceProperties");
    uint32_t seen = process->gpu.table_count, holds = 0, listed = 0;

    for (uint32_t i = 0; i < process->memory.count; i++)
        holds += EVENT_DEVICE_TYPE(process->memory.tables[i].device) != 0;
    seen = holds > seen ? holds : seen;
    for (const char *at = span == NULL ? "" : span->value; *at != '\0'; at++)
        listed += *at == '{'; /* an object for each */
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
        say_bool(process, FACT_COMPILE_USED, true);
    if ((said & (SAID_TRAINS | SAID_OPS)) == SAID_OPS && !file->result->inferred_steps)
        say_bool(process, FACT_INFERENCE, true);
    if (wrapper != NULL)
        say_text(process, FACT_DISTRIBUTED_WRAPPER, wrapper, strlen(wrapper));
}
