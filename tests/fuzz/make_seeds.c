/* Writes the seeds that no text editor can: make_seeds DIRECTORY makes
 * DIRECTORY/{segment,control,trace_writer,cupti_write}/... with one well-formed example of
 * each. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "wire/control.h"
#include "wire/segment.h"

static void write_seed(const char *folder, const char *kind, const void *bytes,
                       size_t size)
{
    char path[4096];

    (void)snprintf(path, sizeof(path), "%s/%s", folder, kind);
    (void)mkdir(path, 0755);
    (void)snprintf(path, sizeof(path), "%s/%s/whole", folder, kind);
    FILE *file = fopen(path, "wb");

    if (file == NULL || fwrite(bytes, 1, size, file) != size || fclose(file) != 0) {
        perror(path);
        exit(1);
    }
}

static _Atomic uint32_t name_hash[1024];

static void fill_segment(unsigned char *memory, const struct wire_layout *layout)
{
    struct thread_slot *slot = (void *)(memory + layout->threads_offset);
    struct names names;
    struct ring ring;

    wire_header_init((void *)memory, layout);
    if (names_open(&names, memory + layout->names_offset,
                   layout->segment_bytes - layout->names_offset, layout->name_count,
                   layout->name_bytes) != 0 ||
        names_index(&names, name_hash, 1024) != 0 ||
        ring_open(&ring, memory + layout->rings_offset,
                  layout->segment_bytes - layout->rings_offset, 64) != 0)
        exit(1);
    uint32_t op = names_intern(&names, "aten::add", 9);

    for (uint64_t i = 0; i < 100; i++)
        ring_push(&ring, (struct event){.time = i * 10,
                                        .value = 5,
                                        .meta = EVENT_META(op, EVENT_CPU_OP, 0, 0)});
    atomic_store(&slot->state, THREAD_LIVE);
    atomic_store(&slot->ring_capacity, 64);
    atomic_store(&slot->ring_offset, layout->rings_offset);
}

/* Three of each kind, with the records that may follow one. */
static void write_events(const char *folder)
{
    static struct event events[4 * 22 * 3];
    size_t count = 0;

    for (uint64_t i = 0; i < 22 * 3; i++) {
        events[count++] =
            (struct event){.time = i * 1001,
                           .value = 7 + i,
                           .meta = EVENT_META(1 + i % 5, i % 22, 0, i % 4),
                           .aux = i};
        for (uint64_t more = 1; more <= i % 4; more++)
            events[count++] = (struct event){.time = 4096 + i,
                                             .value = more,
                                             .meta = EVENT_META(0, EVENT_MORE, 0, more),
                                             .aux = i << 32 | 1};
    }
    write_seed(folder, "trace_writer", events, count * sizeof(events[0]));
}

struct activity {
    uint8_t kind, words, start, end; /* bytes from the record's begin */
};

/* Strides, three looks at CUPTI's clock, and of each kind that is written one record with
 * times between them and one without. */
static void write_activities(const char *folder)
{
    static const struct activity kinds[] = {
        {10, 27, 16, 24}, {1, 12, 16, 24}, {2, 11, 16, 24}, {22, 12, 16, 24},
        {5, 5, 8, 16},    {17, 7, 24, 32}, {51, 7, 8, 16}};
    static uint8_t bytes[64 + 1 + 3 * 13 + 2 * 7 * 27 * 8];
    size_t at = 64;

    bytes[at++] = 3;
    for (uint64_t i = 0; i < 3; i++, at += 13) {
        uint64_t stamp = (i + 1) * 1000000;
        uint32_t ticks = 2500000;

        bytes[at] = 1;
        memcpy(bytes + at + 1, &stamp, sizeof(stamp));
        memcpy(bytes + at + 9, &ticks, sizeof(ticks));
    }
    for (size_t i = 0; i < 2 * sizeof(kinds) / sizeof(kinds[0]); i++) {
        const struct activity *one = &kinds[i / 2];
        uint64_t start = 1000000 + i * 50000, end = i % 2 == 0 ? start + 40000 : 0;

        bytes[one->kind] = one->words;
        bytes[at] = one->kind;
        memcpy(bytes + at + one->start, &start, sizeof(start));
        memcpy(bytes + at + one->end, &end, sizeof(end));
        at += 8u * one->words;
    }
    write_seed(folder, "cupti_write", bytes, at);
}

int main(int count, char **arguments)
{
    struct control control = {.sequence = 1, .budget_ppm = 10000};
    struct wire_layout layout;
    unsigned char *memory = aligned_alloc(4096, WIRE_BYTES_MIN);

    if (count != 2 || memory == NULL || wire_layout_for(WIRE_BYTES_MIN, &layout) != 0)
        return 2;
    memset(memory, 0, WIRE_BYTES_MIN);
    fill_segment(memory, &layout);
    write_seed(arguments[1], "segment", memory, WIRE_BYTES_MIN);
    control_seal(&control);
    write_seed(arguments[1], "control", &control, sizeof(control));
    write_events(arguments[1]);
    write_activities(arguments[1]);
    free(memory);
    return 0;
}
