#include "wire/segment.h"

#include <errno.h>
#include <stdbool.h>
#include <stddef.h>
#include <string.h>

#define PAGE 4096u

static uint64_t align_up(uint64_t offset, uint64_t unit)
{
    return (offset + unit - 1) / unit * unit;
}

static uint32_t clamp(uint64_t value, uint32_t low, uint32_t high)
{
    return value < low ? low : value > high ? high : (uint32_t)value;
}

int wire_layout_for(uint64_t segment_bytes, struct wire_layout *layout)
{
    if (segment_bytes < WIRE_BYTES_MIN || segment_bytes > (uint64_t)1 << 32)
        return -EINVAL;
    uint64_t kib = segment_bytes / 1024, offset = PAGE;

    *layout = (struct wire_layout){.segment_bytes = segment_bytes};
    layout->facts_offset = (uint32_t)offset;
    offset += WIRE_FACTS * sizeof(struct wire_fact);
    layout->sources_offset = (uint32_t)(offset = align_up(offset, 64));
    offset += WIRE_SOURCES * sizeof(struct wire_capability);
    layout->names_offset = (uint32_t)(offset = align_up(offset, 128));
    /* Of 32 MiB: 16,384 names of 128 bytes, 256 threads, and 29 MiB of rings. */
    layout->name_count = clamp(kib / 2, 128, 16384);
    layout->name_bytes = clamp(segment_bytes / 16, 8 * 1024, 2 * 1024 * 1024);
    offset += names_size(layout->name_count, layout->name_bytes);
    layout->threads_offset = (uint32_t)(offset = align_up(offset, 128));
    layout->thread_count = clamp(kib / 64, 8, 256);
    offset += layout->thread_count * sizeof(struct thread_slot);
    layout->rings_offset = offset = align_up(offset, PAGE);
    return offset + ring_size(RING_RECORDS_MAX) > segment_bytes ? -EINVAL : 0;
}

void wire_header_init(struct wire_header *header, const struct wire_layout *layout)
{
    header->major = WIRE_MAJOR;
    header->minor = WIRE_MINOR;
    header->header_bytes = sizeof(*header);
    header->segment_bytes = layout->segment_bytes;
    header->facts_offset = layout->facts_offset;
    header->sources_offset = layout->sources_offset;
    header->names_offset = layout->names_offset;
    header->name_count = layout->name_count;
    header->name_bytes = layout->name_bytes;
    header->threads_offset = layout->threads_offset;
    header->thread_count = layout->thread_count;
    header->rings_offset = layout->rings_offset;
    header->magic = WIRE_MAGIC;
}

static bool inside(uint64_t size, uint64_t offset, uint64_t length, uint64_t alignment)
{
    return length <= size && offset <= size - length && offset % alignment == 0 &&
           offset >= sizeof(struct wire_header);
}

static bool layout_fits(const struct wire_layout *layout, uint64_t size)
{
    return layout->name_count > 0 && layout->name_count <= 1u << 20 &&
           layout->name_bytes <= UINT32_MAX && layout->thread_count > 0 &&
           layout->thread_count <= 4096 &&
           inside(size, layout->facts_offset, WIRE_FACTS * sizeof(struct wire_fact),
                  8) &&
           inside(size, layout->sources_offset,
                  WIRE_SOURCES * sizeof(struct wire_capability), 8) &&
           inside(size, layout->names_offset,
                  names_size(layout->name_count, layout->name_bytes), 64) &&
           inside(size, layout->threads_offset,
                  layout->thread_count * sizeof(struct thread_slot), 128) &&
           inside(size, layout->rings_offset, ring_size(RING_RECORDS_MAX), 128);
}

static int refuse(int error, const char *why, const char **reason)
{
    *reason = why;
    return error;
}

int wire_view_open(struct wire_view *view, const void *base, uint64_t size,
                   const char **reason)
{
    struct wire_header copied;

    *reason = "";
    if (size < PAGE)
        return refuse(-ENODATA, "the file is shorter than a header", reason);
    /* One copy: the layout must not change between the check and its use. */
    memcpy(&copied, base, offsetof(struct wire_header, heartbeat_ticks));
    if (copied.magic != WIRE_MAGIC)
        return refuse(-EPROTO, "not a trainglass segment", reason);
    if (copied.major != WIRE_MAJOR)
        return refuse(-ENOTSUP, "written by another major version of trainglass",
                      reason);
    if (copied.segment_bytes > size)
        return refuse(-ENODATA, "the file is shorter than it says", reason);
    view->layout = (struct wire_layout){
        .segment_bytes = copied.segment_bytes,
        .facts_offset = copied.facts_offset,
        .sources_offset = copied.sources_offset,
        .names_offset = copied.names_offset,
        .name_count = copied.name_count,
        .name_bytes = copied.name_bytes,
        .threads_offset = copied.threads_offset,
        .thread_count = copied.thread_count,
        .rings_offset = copied.rings_offset,
    };
    if (!layout_fits(&view->layout, copied.segment_bytes))
        return refuse(-EPROTO, "its layout points outside of the file", reason);
    const unsigned char *bytes = base;

    view->base = bytes;
    view->header = base;
    view->facts = (const void *)(bytes + copied.facts_offset);
    view->sources = (const void *)(bytes + copied.sources_offset);
    view->threads = (const void *)(bytes + copied.threads_offset);
    /* names_open() takes a writable pointer for the producer's sake; a reader's view
     * has no index and never writes. */
    return names_open(&view->names, (void *)(uintptr_t)(bytes + copied.names_offset),
                      copied.segment_bytes - copied.names_offset, copied.name_count,
                      copied.name_bytes);
}

int wire_view_ring(const struct wire_view *view, uint32_t slot,
                   struct ring_reader *reader, int from_start)
{
    const struct wire_layout *layout = &view->layout;
    const struct thread_slot *thread = &view->threads[slot];
    /* Acquire: pairs with the release of ring_offset by the slot's first owner. */
    uint64_t offset = atomic_load_explicit(&thread->ring_offset, memory_order_acquire);
    uint64_t capacity =
        atomic_load_explicit(&thread->ring_capacity, memory_order_relaxed);

    if (offset == 0 || capacity == 0)
        return 0;
    if (offset < layout->rings_offset || offset >= layout->segment_bytes)
        return -EPROTO;
    if (ring_attach(reader, view->base + offset, layout->segment_bytes - offset,
                    capacity, from_start) != 0)
        return -EPROTO;
    return 1;
}
