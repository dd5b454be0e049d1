/* What a whole file tells of names and of groups of them, beyond the counts of their rows. */
#include <stdlib.h>
#include <string.h>

#include "ingest/file/feeding.h"

static void add_linked(struct process_linked *to, const struct process_linked *from)
{
    to->device_total_ns = file_sum(to->device_total_ns, from->device_total_ns);
    to->device_self_ns = file_sum(to->device_self_ns, from->device_self_ns);
    to->waited_device_ns = file_sum(to->waited_device_ns, from->waited_device_ns);
    to->outer_ns = file_sum(to->outer_ns, from->outer_ns);
    to->outer_count += from->outer_count;
    to->host_bytes = file_sum(to->host_bytes, from->host_bytes);
    to->device_bytes = file_sum(to->device_bytes, from->device_bytes);
    to->host_total_bytes = file_sum(to->host_total_bytes, from->host_total_bytes);
    to->device_total_bytes = file_sum(to->device_total_bytes, from->device_total_bytes);
}

static void give_linked(struct feeding *feeding)
{
    static const struct process_linked nothing;
    struct file *file = feeding->file;
    struct process *process = feeding->texts.process;
    uint32_t texts = texts_count(process->texts);

    process->linked = calloc(texts, sizeof(*process->linked));
    for (uint32_t name = 0; process->linked != NULL && name < file->linked_count;
         name++) {
        const struct process_linked *from = &file->linked[name];
        uint32_t text = memcmp(from, &nothing, sizeof(nothing)) == 0
                            ? 0
                            : file_text(&feeding->texts, name);

        if (text != 0 && text < texts)
            add_linked(&process->linked[text], from);
    }
    if (process->linked == NULL)
        return;
    process->linked_count = texts;
    process->linked_devices = file->works.count > 0;
    process->linked_memory = file->allocations.count > 0;
}

static void give_kernels(struct feeding *feeding)
{
    struct file *file = feeding->file;
    struct process *process = feeding->texts.process;
    uint32_t texts = texts_count(process->texts);

    if (file->kernel_count > 0)
        process->kernels = calloc(texts, sizeof(*process->kernels));
    if (process->kernels == NULL)
        return;
    process->kernel_count = texts;
    for (uint32_t name = 1; name < file->kernel_count; name++) {
        uint32_t text =
            file->kernels[name].count == 0 ? 0 : file_text(&feeding->texts, name);

        if (text != 0 && text < texts)
            process->kernels[text] = file->kernels[name];
    }
}

/* Keys to texts: several may be one. Calls have no keys: these are one row for each name. */
static void give_group(struct feeding *feeding, enum group_by by)
{
    const struct file_details *details = feeding->file->details;
    struct ops_group *group = feeding->texts.process->groups[by];
    uint32_t keys = details->key_count, names = feeding->file->linked_count;
    uint32_t texts = texts_count(group->texts);

    group->linked = calloc(texts, sizeof(*group->linked));
    if (group->linked == NULL)
        return;
    group->linked_count = texts;
    for (uint32_t i = 1; i < keys || i < names; i++) {
        uint32_t of_key = i < keys ? feeding->of_key[by][i] : 0;
        uint32_t of_name = i < names ? feeding->of_name[by][i] : 0;

        if (of_key > 1 && of_key - 1 < texts)
            add_linked(&group->linked[of_key - 1], &details->keys[i].linked);
        if (of_name > 1 && of_name - 1 < texts)
            add_linked(&group->linked[of_name - 1], &feeding->file->linked[i]);
    }
}

void feeding_give_linked(struct feeding *feeding)
{
    const struct file *file = feeding->file;
    struct process *process = feeding->texts.process;

    give_linked(feeding);
    file_needless_sum(file, process->needless);
    if (file->updates.range_ns > 0)
        process->update_inside =
            (double)file->updates.calls_ns / (double)file->updates.range_ns;
    give_kernels(feeding);
    for (uint32_t by = 0; by < GROUPS; by++)
        if (process->groups[by] != NULL)
            give_group(feeding, by);
}
