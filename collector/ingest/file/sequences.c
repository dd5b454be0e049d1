/* Which forward op made a node of autograd's graph, so that the backward of it can stand
 * under the code that wrote it: the backward runs on a thread without Python, or below
 * loss.backward() alone.
 *
 * A node and the op that makes it have one sequence number. Other ops before it may carry
 * the number too, for it says which node comes next: the newest of them is the one, as in
 * torch's own fwdbwd flows. Each thread counts for itself; a number that ops of two
 * threads have tells nothing.
 */
#include <errno.h>
#include <stdlib.h>

#include "ingest/file/parts.h"

#define NO_THREAD UINT16_MAX /* of a number that two threads have */

struct sequence { /* one event's */
    int64_t start_ns, number;
    uint32_t name;
    uint16_t thread;
    bool backward;
};

struct forward { /* by number */
    int64_t number;
    uint32_t path; /* 0 free */
    uint16_t thread;
};

struct file_sequences {
    struct file_list list; /* struct sequence */
    uint32_t *slots, mask; /* index + 1 by thread, start and name */
    struct forward *forwards;
    bool forward[FILE_THREADS_MAX], backward[FILE_THREADS_MAX]; /* it has such ops */
};

struct file_sequences *file_sequences_new(void)
{
    return calloc(1, sizeof(struct file_sequences));
}

void file_sequences_free(struct file_sequences *sequences)
{
    if (sequences == NULL)
        return;
    free(sequences->list.items);
    free(sequences->slots);
    free(sequences->forwards);
    free(sequences);
}

void file_sequences_take(struct file *file, const struct trace_event *event,
                         uint32_t thread)
{
    struct file_sequences *sequences = file->sequences;
    const struct sequence *added;

    if (!(event->has & TRACE_HAS_SEQUENCE) || event->sequence < 0 ||
        event->sequence == INT64_MAX)
        return;
    added =
        FILE_LIST_ADD(file, &sequences->list, FILE_REMARK_SEQUENCES, struct sequence,
                      {.start_ns = event->time_ns,
                       .number = event->sequence,
                       .name = event->name,
                       .thread = (uint16_t)thread,
                       .backward = (event->has & TRACE_HAS_FORWARD_THREAD) != 0 &&
                                   event->forward_thread != 0});
    if (added == NULL)
        return;
    file->held_bytes += sizeof(*added);
    sequences->forward[thread] = sequences->forward[thread] || !added->backward;
    sequences->backward[thread] = sequences->backward[thread] || added->backward;
}

static uint32_t mix(uint64_t a, uint64_t b)
{
    return (uint32_t)((a * UINT64_C(0x9e3779b97f4a7c15) ^ b) *
                          UINT64_C(0xbf58476d1ce4e5b9) >>
                      32);
}

static uint32_t *place_of(const struct file_sequences *sequences,
                          const struct sequence *of)
{
    const struct sequence *list = sequences->list.items;
    uint32_t slot = mix((uint64_t)of->start_ns, (uint64_t)of->name << 16 | of->thread);

    for (;; slot++) {
        uint32_t *at = &sequences->slots[slot & sequences->mask];

        if (*at == 0 ||
            (list[*at - 1].start_ns == of->start_ns && list[*at - 1].name == of->name &&
             list[*at - 1].thread == of->thread))
            return at;
    }
}

int file_sequences_index(struct file_sequences *sequences, int64_t zero_ns)
{
    struct sequence *list = sequences->list.items;
    uint32_t size = 1024;

    while (size < 2 * sequences->list.count)
        size *= 2;
    sequences->slots = calloc(size, sizeof(*sequences->slots));
    sequences->forwards = calloc(size, sizeof(*sequences->forwards));
    if (sequences->slots == NULL || sequences->forwards == NULL)
        return -ENOMEM;
    sequences->mask = size - 1;
    for (uint32_t i = 0; i < sequences->list.count; i++) {
        list[i].start_ns -= zero_ns;
        uint32_t *at = place_of(sequences, &list[i]);

        if (*at == 0)
            *at = i + 1;
    }
    return 0;
}

uint32_t file_sequences_turn(const struct file *file, uint32_t thread)
{
    const struct file_sequences *sequences = file->sequences;

    if (sequences->forward[thread] && !sequences->backward[thread])
        return 0;
    if (thread == file->trainer)
        return 1;
    return sequences->forward[thread] ? 2 : 3;
}

/* Its place, or the free one where it would stand. */
static struct forward *forward_of(const struct file_sequences *sequences,
                                  int64_t number)
{
    for (uint32_t slot = mix((uint64_t)number, 0);; slot++) {
        struct forward *at = &sequences->forwards[slot & sequences->mask];

        if (at->path == 0 || at->number == number)
            return at;
    }
}

/* What the event says; NULL nothing. */
static const struct sequence *sequence_of(const struct file_sequences *sequences,
                                          const struct event *event, uint32_t thread)
{
    const struct sequence wanted = {.start_ns = (int64_t)event->time,
                                    .name = EVENT_NAME(event->meta),
                                    .thread = (uint16_t)thread};
    uint32_t at = *place_of(sequences, &wanted);

    return at == 0 ? NULL : (const struct sequence *)sequences->list.items + at - 1;
}

uint32_t file_sequences_origin(const struct file_sequences *sequences,
                               const struct event *event, uint32_t thread)
{
    const struct sequence *sequence = sequence_of(sequences, event, thread);
    const struct forward *forward;

    if (sequence == NULL || !sequence->backward)
        return 0;
    forward = forward_of(sequences, sequence->number);
    return forward->thread == NO_THREAD ? 0 : forward->path;
}

void file_sequences_note(struct file_sequences *sequences, const struct event *event,
                         uint32_t thread, uint32_t path)
{
    const struct sequence *sequence = sequence_of(sequences, event, thread);
    struct forward *forward;

    if (sequence == NULL || sequence->backward || path == 0)
        return;
    forward = forward_of(sequences, sequence->number);
    if (forward->path != 0 && forward->thread != thread)
        thread = NO_THREAD;
    *forward = (struct forward){
        .number = sequence->number, .path = path, .thread = (uint16_t)thread};
}
