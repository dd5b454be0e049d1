/* A thread's events by start, outer before inner: a merge of the runs that are there. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "ingest/file/parts.h"

#define RUN_MIN 32u

/* Which of two with equal stamps began first: ids are given out at the start. */
static bool precedes_equal(const struct event *a, const struct event *b)
{
    bool ops =
        EVENT_KIND(a->meta) == EVENT_CPU_OP && EVENT_KIND(b->meta) == EVENT_CPU_OP;

    uint64_t left = FILE_EXTERNAL_ID(a->aux), right = FILE_EXTERNAL_ID(b->aux);

    return !ops || left == 0 || right == 0 || left <= right;
}

/* May a stand before b? */
ALWAYS_INLINE bool in_order(const struct event *a, const struct event *b)
{
    int64_t left = (int64_t)a->time, right = (int64_t)b->time;

    if (LIKELY(left != right))
        return left < right;
    if (a->value != b->value)
        return a->value > b->value;
    return precedes_equal(a, b);
}

/* A run from `from` on, lengthened to RUN_MIN by insertion; where it ends. */
static uint32_t find_run(struct event *events, uint32_t from, uint32_t count)
{
    uint32_t to = from + 1;

    while (to < count && in_order(&events[to - 1], &events[to]))
        to++;
    for (; to < count && to < from + RUN_MIN; to++) {
        struct event moved = events[to];
        uint32_t at = to;

        for (; at > from && !in_order(&events[at - 1], &moved); at--)
            events[at] = events[at - 1];
        events[at] = moved;
    }
    return to;
}

/* [from, middle) and [middle, to) become one; `spare` has room for the first. */
static void merge(struct event *events, const uint32_t run[3], struct event *spare)
{
    uint32_t count = run[1] - run[0], left = 0, right = run[1], out = run[0];

    memcpy(spare, events + run[0], count * sizeof(*spare));
    while (left < count && right < run[2])
        events[out++] =
            in_order(&spare[left], &events[right]) ? spare[left++] : events[right++];
    memcpy(events + out, spare + left, (count - left) * sizeof(*spare));
}

/* Files are a few sorted sections behind one another, or locally out of order. */
int file_sort(struct event *events, uint32_t count)
{
    uint32_t runs = 0, *ends;
    struct event *spare;

    if (count < 2 || find_run(events, 0, count) == count)
        return 0;
    ends = malloc((count / RUN_MIN + 2) * sizeof(*ends));
    spare = malloc(count * sizeof(*spare));
    if (ends == NULL || spare == NULL) {
        free(ends);
        free(spare);
        return -ENOMEM;
    }
    for (uint32_t at = 0; at < count; at = ends[runs++])
        ends[runs] = find_run(events, at, count);
    for (; runs > 1; runs = (runs + 1) / 2) {
        for (uint32_t i = 0; i + 1 < runs; i += 2) {
            uint32_t run[3] = {i == 0 ? 0 : ends[i - 1], ends[i], ends[i + 1]};

            merge(events, run, spare);
        }
        for (uint32_t i = 0; i < runs; i += 2)
            ends[i / 2] = i + 1 < runs ? ends[i + 1] : ends[i];
    }
    free(ends);
    free(spare);
    return 0;
}
