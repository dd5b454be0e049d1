/* Ranges whose begin and end are two events, as other producers write them. Of B and E the
 * newest begin of a thread ends first; those of one id (b and e; S and F in older files) may
 * overlap others of their thread, and are ranges of a thread of their own. */
#include <stdlib.h>

#include "ingest/file/parts.h"
#include "ingest/trace/grow.h"

#define THREADS_MAX 256u
#define DEPTH_MAX   128u /* 256 bytes each: at most 8 MB */

struct stack {
    uint32_t pid, tid;
    uint32_t depth, capacity;
    uint64_t refused; /* begins for which there was no room; they end first */
    struct trace_event *begins;
};

struct file_begins {
    struct stack stacks[THREADS_MAX];
    uint32_t count, newest;
};

/* NULL when there are too many. */
static struct stack *stack_of(struct file_begins *begins, uint32_t pid, uint32_t tid)
{
    uint32_t at = begins->newest;

    if (at >= begins->count || begins->stacks[at].pid != pid ||
        begins->stacks[at].tid != tid)
        for (at = 0; at < begins->count &&
                     (begins->stacks[at].pid != pid || begins->stacks[at].tid != tid);)
            at++;
    if (at == THREADS_MAX)
        return NULL;
    if (at == begins->count)
        begins->stacks[begins->count++] = (struct stack){.pid = pid, .tid = tid};
    begins->newest = at;
    return &begins->stacks[at];
}

/* From its begin and when it ended to the whole range. The begin's own bytes are long gone;
 * nothing of them is needed but the fields. */
static void make_whole(struct trace_event *event, const struct trace_event *begin)
{
    int64_t end_ns = event->time_ns, duration_ns;

    *event = *begin;
    event->phase = 'X';
    event->text = NULL;
    event->length = event->args_at = event->args_length = 0;
    event->duration_ns =
        __builtin_sub_overflow(end_ns, event->time_ns, &duration_ns) ? -1 : duration_ns;
}

bool file_take_pair(struct file *file, struct trace_event *event)
{
    if (file->begins == NULL)
        file->begins = calloc(1, sizeof(*file->begins));
    struct stack *stack =
        file->begins == NULL ? NULL : stack_of(file->begins, event->pid, event->tid);

    if (stack == NULL) {
        file_skip(file, event->offset, FILE_SKIP_LIMIT);
        return false;
    }
    if (event->phase == 'B') {
        if (stack->refused == 0 && stack->depth < DEPTH_MAX &&
            grow_array(&stack->begins, stack->depth, &stack->capacity, 16,
                       sizeof(*stack->begins))) {
            stack->begins[stack->depth++] = *event;
        } else {
            stack->refused++;
            file_skip(file, event->offset, FILE_SKIP_LIMIT);
        }
        return false;
    }
    if (stack->refused > 0) {
        stack->refused--;
        return false;
    }
    if (stack->depth == 0) {
        file_skip(file, event->offset, FILE_SKIP_PAIRS);
        return false;
    }
    make_whole(event, &stack->begins[--stack->depth]);
    return true;
}

/* ---- by id ------------------------------------------------------------------------------- */

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

static void begin_async(struct file *file, const struct trace_event *event)
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
        begin_async(file, event);
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

    *link = found->next;
    make_whole(event, &found->event);
    found->next = file->asyncs->free;
    file->asyncs->free = at;
    event->tid = TRACE_NAMES_OTHER;
    return true;
}

void file_end_pairs(struct file *file)
{
    for (uint32_t i = 0; file->begins != NULL && i < file->begins->count; i++) {
        const struct stack *stack = &file->begins->stacks[i];

        for (uint32_t j = 0; j < stack->depth; j++)
            file_skip(file, stack->begins[j].offset, FILE_SKIP_PAIRS);
    }
    for (uint32_t slot = 0; file->asyncs != NULL && slot < SLOTS; slot++)
        for (uint32_t at = file->asyncs->slots[slot]; at != 0;
             at = file->asyncs->list[at - 1].next)
            file_skip(file, file->asyncs->list[at - 1].event.offset, FILE_SKIP_PAIRS);
}

void file_free_pairs(struct file *file)
{
    for (uint32_t i = 0; file->begins != NULL && i < file->begins->count; i++)
        free(file->begins->stacks[i].begins);
    free(file->begins);
    free(file->asyncs);
}
