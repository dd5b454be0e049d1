/* Ranges whose begin and end are two events of one id (b and e; S and F in older files): they
 * may overlap others of their thread, and are ranges of a thread of their own. */
#include <stdlib.h>

#include "ingest/file/parts.h"

#define PENDING_MAX 16384u /* 256 bytes each */
#define SLOTS       4096u

struct pending {
    struct trace_event event;
    uint64_t key;
    uint32_t next; /* index + 1 in its slot, or among the free ones */
};

struct file_asyncs {
    struct pending list[PENDING_MAX];
    uint32_t count, free, slots[SLOTS];
};

/* Of one process, category and id; without an id of one name. */
static uint64_t key_of(const struct trace_event *event)
{
    uint64_t id = event->has & TRACE_HAS_FLOW ? event->flow : event->name;

    return (id ^ (uint64_t)event->pid << 40 ^ (uint64_t)event->category_name << 20) *
           UINT64_C(0x9e3779b97f4a7c15);
}

static void begin(struct file *file, const struct trace_event *event)
{
    struct file_asyncs *asyncs = file->asyncs;
    uint64_t key = key_of(event);
    uint32_t *slot = &asyncs->slots[key >> 52], at = asyncs->free;

    if (at != 0)
        asyncs->free = asyncs->list[at - 1].next;
    else if (asyncs->count < PENDING_MAX)
        at = ++asyncs->count;
    else {
        file_skip(file, event->offset, FILE_SKIP_LIMIT);
        return;
    }
    asyncs->list[at - 1] = (struct pending){*event, key, *slot};
    *slot = at;
}

bool file_take_async(struct file *file, struct trace_event *event)
{
    if (file->asyncs == NULL)
        file->asyncs = calloc(1, sizeof(*file->asyncs));
    if (file->asyncs == NULL) {
        file_skip(file, event->offset, FILE_SKIP_LIMIT);
        return false;
    }
    if (event->phase == 'b' || event->phase == 'S') {
        begin(file, event);
        return false;
    }
    uint64_t key = key_of(event);
    uint32_t *link = &file->asyncs->slots[key >> 52];

    while (*link != 0 && file->asyncs->list[*link - 1].key != key)
        link = &file->asyncs->list[*link - 1].next;
    if (*link == 0) {
        file_skip(file, event->offset, FILE_SKIP_PAIRS);
        return false;
    }
    uint32_t at = *link;
    struct pending *found = &file->asyncs->list[at - 1];
    int64_t end_ns = event->time_ns, duration_ns;

    *link = found->next;
    *event = found->event;
    found->next = file->asyncs->free;
    file->asyncs->free = at;
    event->phase = 'X';
    event->text = NULL;
    event->length = event->args_at = event->args_length = 0;
    event->duration_ns =
        __builtin_sub_overflow(end_ns, event->time_ns, &duration_ns) ? -1 : duration_ns;
    event->tid = TRACE_NAMES_OTHER;
    return true;
}

void file_end_asyncs(struct file *file)
{
    for (uint32_t slot = 0; file->asyncs != NULL && slot < SLOTS; slot++)
        for (uint32_t at = file->asyncs->slots[slot]; at != 0;
             at = file->asyncs->list[at - 1].next)
            file_skip(file, file->asyncs->list[at - 1].event.offset, FILE_SKIP_PAIRS);
}
