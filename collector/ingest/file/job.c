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

/* The value behind `'key':` or `"key":` in one of the file's loose texts. */
static const char *find_value(const struct trace_span *span, const char *key)
{
    const char *at = span == NULL ? NULL : strstr(span->value, key);

    if (at == NULL)
        return NULL;
    at += strlen(key);
    return at + strspn(at, "'\"\\: ");
}

/* The iterator's name tells who loads, but not how many they are. */
static void add_loader(struct process *process, const struct file *file)
{
    const struct file_mark *marks = file->marks.items;
    struct process_fact *fact;
    uint32_t length;

    for (uint32_t i = 0; i < file->marks.count; i++) {
        if (marks[i].kind != FILE_NAME_DATA)
            continue;
        const char *name = trace_names_get(file->names, marks[i].name, &length);

        if (strstr(name, "_SingleProcess") != NULL &&
            (fact = add_fact(process, FACT_DATALOADER_WORKERS)) != NULL)
            fact->type = WIRE_FACT_NUMBER;
        if (strstr(name, "_MultiProcessing") != NULL &&
            (fact = add_fact(process, FACT_DATALOADER_UNCOUNTED)) != NULL) {
            fact->type = WIRE_FACT_BOOL;
            fact->number = 1;
        }
        return;
    }
}

/* What torch.compile leaves in a trace: its ranges, and the names of Inductor's kernels. */
static bool is_of_compile(const char *name)
{
    static const char *const begins[] = {"Torch-Compiled Region", "## Call Compiled",
                                         "CompiledFunction",      "triton_poi_fused",
                                         "triton_red_fused",      "triton_per_fused"};

    for (size_t i = 0; i < sizeof(begins) / sizeof(begins[0]); i++)
        if (strncmp(name, begins[i], strlen(begins[i])) == 0)
            return true;
    return false;
}

static void add_compile(struct process *process, const struct file *file)
{
    uint32_t count = trace_names_count(file->names), length, id = 0;

    while (id < count && !is_of_compile(trace_names_get(file->names, id, &length)))
        id++;
    struct process_fact *fact =
        id < count ? add_fact(process, FACT_COMPILE_USED) : NULL;

    if (fact != NULL) {
        fact->type = WIRE_FACT_BOOL;
        fact->number = 1;
    }
}

static void add_facts(struct process *process, const struct trace_reader *reader)
{
    const struct trace_span *devices = trace_reader_span(reader, "deviceProperties");
    const char *name = find_value(devices, "name");
    const char *memory = find_value(devices, "totalGlobalMem");
    const char *multiprocessors = find_value(devices, "numSms");
    struct process_fact *fact;

    if (name != NULL && (fact = add_fact(process, FACT_DEVICE_NAME)) != NULL) {
        fact->type = WIRE_FACT_TEXT;
        fact->text = texts_intern(process->texts, name, strcspn(name, "'\"\\,}"));
        for (uint32_t i = 0; i < process->gpu.table_count; i++)
            process->gpu.tables[i]->name = fact->text;
    }
    if (memory != NULL && (fact = add_fact(process, FACT_DEVICE_MEMORY)) != NULL) {
        fact->type = WIRE_FACT_NUMBER;
        fact->number = strtod(memory, NULL);
    }
    if (multiprocessors != NULL &&
        (fact = add_fact(process, FACT_DEVICE_MULTIPROCESSOR)) != NULL) {
        fact->type = WIRE_FACT_TEXT;
        fact->text = texts_intern(process->texts, multiprocessors,
                                  strspn(multiprocessors, "0123456789"));
    }
    const char *backend =
        find_value(trace_reader_span(reader, "distributedInfo"), "backend");

    if (backend != NULL &&
        (fact = add_fact(process, FACT_DISTRIBUTED_BACKEND)) != NULL) {
        fact->type = WIRE_FACT_TEXT;
        fact->text = texts_intern(process->texts, backend, strcspn(backend, "'\"\\,}"));
    }
}

void file_say_capabilities(const struct file *file, struct process *process)
{
    static const char none[] = "the file has no device events";
    static const char no_memory[] = "the file was recorded without profile_memory=True";
    struct process_capability *device = &process->capabilities[WIRE_SOURCE_CUPTI];
    struct process_capability *memory = &process->capabilities[WIRE_SOURCE_CPU_MEMORY];
    struct process_capability *ops = &process->capabilities[WIRE_SOURCE_CPU_OPS];

    ops->state = WIRE_STATE_ACTIVE;
    device->state = file->works.count > 0 ? WIRE_STATE_ACTIVE : WIRE_STATE_UNAVAILABLE;
    if (file->works.count == 0)
        device->reason = texts_intern(process->texts, none, strlen(none));
    memory->state =
        process->memory.count > 0 ? WIRE_STATE_ACTIVE : WIRE_STATE_UNAVAILABLE;
    if (process->memory.count == 0)
        memory->reason = texts_intern(process->texts, no_memory, strlen(no_memory));
}

void file_say_facts(const struct file *file, struct process *process,
                    const struct trace_reader *reader)
{
    add_facts(process, reader);
    add_loader(process, file);
    add_compile(process, file);
}
