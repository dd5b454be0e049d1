#include "ingest/file/totals.h"

static void add(int64_t *to, int64_t value)
{
    *to = file_sum(*to, value);
}

void totals_pass(const struct open *ended, struct open *parent)
{
    add(&parent->device_ns, ended->device_ns);
    add(&parent->host_bytes, ended->host_bytes);
    add(&parent->device_bytes, ended->device_bytes);
    parent->from_host |= ended->device_ns != 0 && ended->from_host;
    parent->children++;
}

void totals_take_self(struct open *to, const struct open *from)
{
    add(&to->device_self_ns, from->device_self_ns);
    add(&to->host_self_bytes, from->host_self_bytes);
    add(&to->device_self_bytes, from->device_self_bytes);
}

static void add_to(struct process_linked *linked, const struct open *ended)
{
    add(&linked->device_total_ns, ended->device_ns);
    add(&linked->device_self_ns, ended->device_self_ns);
    add(&linked->host_total_bytes, ended->host_bytes);
    add(&linked->device_total_bytes, ended->device_bytes);
    add(&linked->host_bytes, ended->host_self_bytes);
    add(&linked->device_bytes, ended->device_self_bytes);
}

void totals_add(struct file *file, const struct open *ended)
{
    uint32_t name = EVENT_NAME(ended->event.meta);

    if (ended->device_ns == 0 && ended->host_bytes == 0 && ended->device_bytes == 0 &&
        ended->host_self_bytes == 0 && ended->device_self_bytes == 0)
        return;
    if (name < file->linked_count && EVENT_KIND(ended->event.meta) == EVENT_SYNC)
        add(&file->linked[name].waited_device_ns, ended->device_ns);
    else if (name < file->linked_count &&
             EVENT_KIND(ended->event.meta) != FILE_EVENT_FRAME)
        add_to(&file->linked[name], ended);
    if (ended->key != 0)
        add_to(&file->details->keys[ended->key].linked, ended);
}

void totals_take_bytes(struct file *file, const struct track_record *allocation,
                       struct open *op, struct open *innermost)
{
    int64_t bytes = track_unsigned(allocation->more[FILE_ALLOCATION_BYTES]);
    bool host = EVENT_DEVICE_TYPE(EVENT_AUX16(allocation->event.meta)) == 0;

    if (op != NULL)
        add(host ? &op->host_self_bytes : &op->device_self_bytes, bytes);
    else
        add(host ? &file->linked[0].host_bytes : &file->linked[0].device_bytes, bytes);
    if (innermost != NULL)
        add(host ? &innermost->host_bytes : &innermost->device_bytes, bytes);
}
