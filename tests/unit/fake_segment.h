/* A producer for tests: writes a whole segment as the probe does, without the probe.
 * Raw clock: CLOCK_MONOTONIC ns, zero at 1 s, so that tests choose every stamp. */
#ifndef TESTS_FAKE_SEGMENT_H
#define TESTS_FAKE_SEGMENT_H

#include <fcntl.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/mman.h>
#include <unistd.h>

#include "wire/names.h"
#include "wire/ring.h"
#include "wire/segment.h"

#define FAKE_ZERO_NS UINT64_C(1000000000)
#define FAKE_THREADS 4u

struct fake {
    char directory[128], path[192];
    int lock; /* held open while the process "lives" */
    unsigned char *base;
    struct wire_header *header;
    struct wire_layout layout;
    struct names names;
    _Atomic uint32_t index[1u << 16];
    struct thread_slot *slots;
    struct ring rings[FAKE_THREADS];
    uint64_t rings_used;
};

static inline uint64_t fake_time(int64_t ns)
{
    return FAKE_ZERO_NS + (uint64_t)ns;
}

/* A directory of its own; the caller removes it with fake_remove(). */
static inline void fake_directory(char *directory, size_t size)
{
    snprintf(directory, size, "/tmp/trainglass-test-XXXXXX");
    if (mkdtemp(directory) == NULL)
        abort();
}

static inline void fake_pair(struct fake *fake, uint64_t ticks, uint64_t ns)
{
    uint64_t count = atomic_load(&fake->header->clock_pairs_count);
    struct wire_clock_pair *pair = &fake->header->clock_pairs[count % WIRE_CLOCK_PAIRS];

    atomic_store(&pair->ticks, ticks);
    atomic_store(&pair->monotonic_ns, ns);
    atomic_store_explicit(&fake->header->clock_pairs_count, count + 1,
                          memory_order_release);
}

/* What the next segments say they are. */
static uint16_t fake_major = WIRE_MAJOR;
static uint32_t fake_pid = 4242;
static uint64_t fake_pid_namespace; /* 0: another one than ours */

/* Opens a segment named `name`.seg of session `session`; alive until fake_die(). */
static inline void fake_open(struct fake *fake, const char *directory, const char *name,
                             const char *session, uint64_t bytes)
{
    char hidden[192];

    memset(fake, 0, sizeof(*fake));
    snprintf(fake->directory, sizeof(fake->directory), "%s", directory);
    snprintf(fake->path, sizeof(fake->path), "%s/%s.seg", directory, name);
    snprintf(hidden, sizeof(hidden), "%s/.%s", directory, name);
    int fd = open(hidden, O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0600);

    if (fd < 0 || posix_fallocate(fd, 0, (off_t)bytes) != 0 ||
        wire_layout_for(bytes, &fake->layout) != 0)
        abort();
    fake->base = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    close(fd);
    fake->lock = open(hidden, O_RDWR | O_CLOEXEC);
    if (fake->base == MAP_FAILED || flock(fake->lock, LOCK_EX | LOCK_NB) != 0)
        abort();
    fake->header = (struct wire_header *)(void *)fake->base;
    snprintf(fake->header->session, WIRE_TEXT, "%s", session);
    snprintf(fake->header->run_name, WIRE_TEXT, "run of %s", session);
    snprintf(fake->header->host, WIRE_TEXT, "here");
    fake->header->pid = fake_pid;
    fake->header->pid_namespace = fake_pid_namespace;
    fake->header->rank = fake->header->local_rank = fake->header->world_size = -1;
    fake->header->role = WIRE_ROLE_TRAINER;
    fake->header->clock = WIRE_CLOCK_MONOTONIC;
    fake->header->zero_monotonic_ns = FAKE_ZERO_NS;
    fake->header->zero_realtime_ns = UINT64_C(1700000000000000000);
    fake->header->created_ticks = fake_time(0);
    fake_pair(fake, FAKE_ZERO_NS, FAKE_ZERO_NS);
    fake_pair(fake, FAKE_ZERO_NS + 1000000, FAKE_ZERO_NS + 1000000);
    if (names_open(&fake->names, fake->base + fake->layout.names_offset,
                   fake->layout.segment_bytes - fake->layout.names_offset,
                   fake->layout.name_count, fake->layout.name_bytes) != 0 ||
        names_index(&fake->names, fake->index,
                    fake->layout.name_count > (1u << 14) ? 1u << 16 : 1u << 15) != 0)
        abort();
    fake->slots =
        (struct thread_slot *)(void *)(fake->base + fake->layout.threads_offset);
    wire_header_init(fake->header, &fake->layout);
    fake->header->major = fake_major;
    if (rename(hidden, fake->path) != 0)
        abort();
}

/* Gives thread `slot` a ring of `capacity` events. */
static inline void fake_thread(struct fake *fake, uint32_t slot, uint64_t capacity)
{
    uint64_t offset = fake->layout.rings_offset + fake->rings_used;
    size_t size = ring_size(capacity);

    if (offset + size > fake->layout.segment_bytes ||
        ring_open(&fake->rings[slot], fake->base + offset, size, capacity) != 0)
        abort();
    fake->rings_used += (size + 127) / 128 * 128;
    atomic_store(&fake->slots[slot].tid, 100 + slot);
    atomic_store(&fake->slots[slot].ring_capacity, capacity);
    atomic_store_explicit(&fake->slots[slot].ring_offset, offset, memory_order_release);
    atomic_store(&fake->slots[slot].state, THREAD_LIVE);
}

static inline uint32_t fake_name(struct fake *fake, const char *name)
{
    return names_intern(&fake->names, name, strlen(name));
}

/* A range of `kind` from `start` to `end`, ns since zero. */
static inline void fake_range(struct fake *fake, uint32_t slot, uint64_t meta,
                              const int64_t start_end[2])
{
    ring_push(&fake->rings[slot],
              (struct event){.time = fake_time(start_end[0]),
                             .value = (uint64_t)(start_end[1] - start_end[0]),
                             .meta = meta});
}

static inline void fake_op(struct fake *fake, uint32_t slot, const char *name,
                           int64_t start, int64_t end)
{
    fake_range(fake, slot, EVENT_META(fake_name(fake, name), EVENT_CPU_OP, 0, 0),
               (int64_t[2]){start, end});
}

static inline void fake_phase(struct fake *fake, uint32_t slot, uint16_t phase,
                              int64_t start, int64_t end)
{
    fake_range(fake, slot, EVENT_META(0, EVENT_PHASE, 0, phase),
               (int64_t[2]){start, end});
}

/* `flags_known`: EVENT_STEP_* | phases known << 8. */
static inline void fake_step(struct fake *fake, uint64_t number, uint32_t flags_known,
                             int64_t start, int64_t end)
{
    ring_push(&fake->rings[0],
              (struct event){.time = fake_time(start),
                             .value = (uint64_t)(end - start),
                             .meta = EVENT_META(0, EVENT_STEP, flags_known & 0xff,
                                                flags_known >> 8),
                             .aux = number | (uint64_t)1 << 48});
    if (!(flags_known & EVENT_STEP_VALIDATION))
        atomic_store(&fake->header->steps, number + 1);
    atomic_store(&fake->header->heartbeat_ticks, fake_time(end));
}

/* The process is gone, as the kernel would show it. */
static inline void fake_die(struct fake *fake)
{
    if (fake->lock >= 0)
        close(fake->lock);
    fake->lock = -1;
}

static inline void fake_close(struct fake *fake)
{
    fake_die(fake);
    munmap(fake->base, fake->layout.segment_bytes);
    unlink(fake->path);
}

#endif
