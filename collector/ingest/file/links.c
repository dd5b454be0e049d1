/* What a call launched, by correlation: device time, and which way it copied. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "ingest/file/parts.h"

/* Linear probing among slots that need not be a power of two: a fifth is free. */
static struct file_link *link_of(struct file *file, uint64_t correlation)
{
    uint64_t hash = correlation * UINT64_C(0x9e3779b97f4a7c15) >> 32;
    uint32_t slot = (uint32_t)(hash * file->link_slots >> 32);

    for (;; slot = slot + 1 == file->link_slots ? 0 : slot + 1) {
        struct file_link *link = &file->links[slot];

        if (link->correlation == correlation || link->correlation == 0)
            return link;
    }
}

static void note_device(struct file *file, uint16_t device, int64_t start_ns)
{
    uint32_t at = 0;

    while (at < file->device_count && file->devices[at].device != device)
        at++;
    if (at == FILE_DEVICES_MAX)
        return;
    if (at == file->device_count)
        file->devices[file->device_count++] = (struct file_device){start_ns, device};
    else if (start_ns < file->devices[at].first_ns)
        file->devices[at].first_ns = start_ns;
}

/* One of the bits by link. */
static bool has_bit(const struct file *file, const uint64_t *bits,
                    const struct file_link *link)
{
    return (bits[(link - file->links) / 64] >> (link - file->links) % 64 & 1) != 0;
}

static void set_bit(const struct file *file, uint64_t *bits,
                    const struct file_link *link)
{
    bits[(link - file->links) / 64] |= UINT64_C(1) << (link - file->links) % 64;
}

static bool make_links(struct file *file)
{
    file->link_slots = file->works.count / 4 * 5 + 1024;
    uint32_t words = file->link_slots / 64 + 1;

    file->links = calloc(file->link_slots, sizeof(*file->links));
    file->launched = calloc(words, sizeof(*file->launched));
    file->from_host = calloc(words, sizeof(*file->from_host));
    file->to_host = calloc(words, sizeof(*file->to_host));
    return file->links != NULL && file->launched != NULL && file->from_host != NULL &&
           file->to_host != NULL;
}

static void link_work(struct file *file, const struct event *work)
{
    struct file_link *link = link_of(file, work->aux);
    uint8_t way = EVENT_KIND(work->meta) == EVENT_MEMCPY
                      ? EVENT_FLAGS(work->meta) & EVENT_COPY_WAY
                      : 0;

    link->correlation = work->aux;
    link->device_ns = file_sum(link->device_ns, (int64_t)work->value);
    if (way == EVENT_COPY_H2D)
        set_bit(file, file->from_host, link);
    if (way == EVENT_COPY_D2H)
        set_bit(file, file->to_host, link);
}

int file_link_works(struct file *file)
{
    const struct track_record *work;
    struct track_reader reader;
    int error = track_look(&reader, &file->works);

    file->linked_count = trace_names_count(file->names);
    file->linked = calloc(file->linked_count + 1, sizeof(*file->linked));
    file->needless_ops = calloc(file->linked_count + 1, sizeof(*file->needless_ops));
    if (error != 0 || !make_links(file) || file->linked == NULL ||
        file->needless_ops == NULL)
        return -ENOMEM;
    for (uint32_t name = 0; name < file->linked_count; name++)
        file->needless_ops[name] =
            (uint8_t)file_needless_op(trace_names_get(file->names, name, NULL));
    for (; (work = track_peek(&reader)) != NULL; track_next(&reader)) {
        const struct event *event = &work->event;

        if (file_is_stray(file, event))
            continue;
        note_device(file, file_device(file, EVENT_AUX16(event->meta)),
                    (int64_t)event->time);
        if (event->aux != 0)
            link_work(file, event);
        else
            file->unnamed_works++;
    }
    file->result->remarks[FILE_REMARK_UNLINKED] = file->unnamed_works;
    qsort(file->devices, file->device_count, sizeof(file->devices[0]), file_by_start);
    track_end(&reader);
    return reader.failed ? -ENOMEM : 0;
}

void file_note_launch(struct file *file, const struct event *call)
{
    const char *name = trace_names_get(file->names, EVENT_NAME(call->meta), NULL);

    /* Copies and sets of nothing leave no record; what the host runs is no device's. */
    if (call->aux != 0 && link_of(file, call->aux)->correlation == 0 &&
        strstr(name, "Launch") != NULL && strstr(name, "HostFunc") == NULL)
        (void)FILE_LIST_ADD(file, &file->lost, FILE_REMARK_MARKS, struct gpu_span,
                            {(int64_t)call->time, (int64_t)(call->time + call->value)});
}

void file_note_capture(struct file *file, const struct event *call, int64_t *since_ns)
{
    enum file_name name = file_name_kind(file, EVENT_NAME(call->meta));
    int64_t end_ns = (int64_t)(call->time + call->value);

    if (name == FILE_NAME_CAPTURES)
        *since_ns = (int64_t)call->time;
    if (name != FILE_NAME_CAPTURED || *since_ns > end_ns)
        return;
    (void)FILE_LIST_ADD(file, &file->captures, FILE_REMARK_MARKS, struct gpu_span,
                        {*since_ns, end_ns});
    *since_ns = INT64_MAX;
}

static int by_start(const void *left, const void *right)
{
    const struct gpu_span *a = left, *b = right;

    if (a->start_ns != b->start_ns)
        return a->start_ns < b->start_ns ? -1 : 1;
    return a->end_ns < b->end_ns ? -1 : a->end_ns > b->end_ns;
}

/* What any thread launched while a graph was captured is written down, and runs later. Where
 * work has no correlation, launches that have one tell nothing of it. */
static void count_lost(struct file *file)
{
    struct gpu_span *captures = file->captures.items, *lost = file->lost.items;
    uint32_t kept = 0;

    /* By start, and none within another: so by end as well. */
    file_list_sort(&file->captures, sizeof(*captures), by_start);
    for (uint32_t i = 0; i < file->captures.count; i++) {
        while (kept > 0 && captures[kept - 1].start_ns == captures[i].start_ns)
            kept--;
        if (kept == 0 || captures[kept - 1].end_ns < captures[i].end_ns)
            captures[kept++] = captures[i];
    }
    file->captures.count = kept;
    kept = 0;
    for (uint32_t i = 0; i < file->lost.count; i++) {
        uint32_t behind =
            file_list_from(&file->captures, sizeof(*captures), 0, lost[i].start_ns + 1);

        /* Of the captures that began before the call the last one ends last. */
        if (behind == 0 || lost[i].end_ns > captures[behind - 1].end_ns)
            lost[kept++] = lost[i];
    }
    file->lost.count = kept > file->unnamed_works ? kept : 0;
    file->result->remarks[FILE_REMARK_LOST] = file->lost.count;
}

void file_count_unlinked(struct file *file)
{
    count_lost(file);
    for (uint32_t i = 0; i < file->link_slots; i++)
        file->result->remarks[FILE_REMARK_UNLINKED] +=
            file->links[i].correlation != 0 &&
            !has_bit(file, file->launched, &file->links[i]);
}

int64_t file_launched_ns(struct file *file, uint64_t correlation)
{
    struct file_link *link = correlation == 0 ? NULL : link_of(file, correlation);

    /* Once for each link: a runtime call and the driver's in it have one correlation. */
    if (link == NULL || has_bit(file, file->launched, link))
        return 0;
    set_bit(file, file->launched, link);
    return link->device_ns;
}

bool file_copies(struct file *file, uint64_t correlation, enum event_copy way)
{
    return correlation != 0 &&
           has_bit(file, way == EVENT_COPY_H2D ? file->from_host : file->to_host,
                   link_of(file, correlation));
}
