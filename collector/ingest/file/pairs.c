/* Ranges whose begin and end are two events (B, E), as other producers write them: on a
 * thread the newest begin ends first. */
#include <stdlib.h>

#include "ingest/file/parts.h"

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

static struct stack *stack_of(struct file_begins *begins, uint32_t pid, uint32_t tid)
{
    struct stack *stack = &begins->stacks[begins->newest];

    if (begins->count > 0 && stack->pid == pid && stack->tid == tid)
        return stack;
    for (uint32_t i = 0; i < begins->count; i++) {
        stack = &begins->stacks[i];
        if (stack->pid != pid || stack->tid != tid)
            continue;
        begins->newest = i;
        return stack;
    }
    if (begins->count == THREADS_MAX)
        return NULL;
    begins->newest = begins->count++;
    stack = &begins->stacks[begins->newest];
    *stack = (struct stack){.pid = pid, .tid = tid};
    return stack;
}

static bool push(struct stack *stack, const struct trace_event *event)
{
    if (stack->depth == stack->capacity) {
        uint32_t capacity = stack->capacity == 0 ? 16 : stack->capacity * 2;
        struct trace_event *begins =
            capacity > DEPTH_MAX ? NULL
                                 : realloc(stack->begins, capacity * sizeof(*begins));

        if (begins == NULL)
            return false;
        stack->begins = begins;
        stack->capacity = capacity;
    }
    stack->begins[stack->depth++] = *event;
    return true;
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
        if (stack->refused > 0 || !push(stack, event)) {
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
    int64_t end_ns = event->time_ns, duration_ns;

    /* Its own bytes are long gone; nothing of them is needed but the fields. */
    *event = stack->begins[--stack->depth];
    event->phase = 'X';
    event->text = NULL;
    event->length = event->args_at = event->args_length = 0;
    event->duration_ns =
        __builtin_sub_overflow(end_ns, event->time_ns, &duration_ns) ? -1 : duration_ns;
    return true;
}

void file_end_pairs(struct file *file)
{
    for (uint32_t i = 0; file->begins != NULL && i < file->begins->count; i++) {
        const struct stack *stack = &file->begins->stacks[i];

        for (uint32_t j = 0; j < stack->depth; j++)
            file_skip(file, stack->begins[j].offset, FILE_SKIP_PAIRS);
    }
}

void file_free_pairs(struct file *file)
{
    for (uint32_t i = 0; file->begins != NULL && i < file->begins->count; i++)
        free(file->begins->stacks[i].begins);
    free(file->begins);
}
