#include "probe/probe.h"

#include <errno.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "probe/core.h"
#include "probe/identity.h"
#include "probe/neighbours.h"
#include "probe/storage.h"

#ifndef TRAINGLASS_VERSION
#define TRAINGLASS_VERSION "0.1.0"
#endif

enum start_state {
    START_NONE = 0,
    START_RUNNING = 1,
    START_DONE = 2,
    START_FAILED = 3
};

static struct probe_private
    closed; /* never open: what everybody sees before the start */
struct probe_private *probe = &closed;

static _Atomic uint32_t start_state;
static bool forked; /* written by the one thread of a forked child */
static bool handlers_set;
static const char *reason = "not started";
static struct storage storage = {.lock_fd = -1};
static struct identity identity;
static uint32_t told_parent; /* of the next segment's process; 0: who forked it */
static char session[WIRE_TEXT];
static size_t private_bytes; /* of the mapping behind `probe`; 0 before the first */

const char *probe_reason(void)
{
    return reason;
}

bool probe_is_open(void)
{
    /* Acquire: pairs with the release at the end of open_segment(). */
    return atomic_load_explicit(&probe->open, memory_order_acquire) != 0;
}

const char *probe_session(void)
{
    return probe_is_open() ? session : "";
}

const char *probe_path(void)
{
    return probe_is_open() ? storage.path : "";
}

const char *probe_core_path(void)
{
    return storage.path;
}

bool probe_core_allocate(uint64_t offset, uint64_t bytes)
{
    return storage_allocate(&storage, offset, bytes);
}

void probe_core_hold(void)
{
    storage_hold(&storage);
}

uint64_t probe_ticks(void)
{
    return probe_is_open() ? clock_ticks(probe->tsc) : 0;
}

uint64_t probe_ticks_per_us(void)
{
    return probe->ticks_per_us;
}

void probe_role(uint32_t role)
{
    if (probe_is_open())
        atomic_store_explicit(&probe->header->live_role, role, memory_order_relaxed);
}

void probe_parent(uint32_t pid)
{
    told_parent = pid;
}

static void say_number(_Atomic uint32_t *word, int32_t number)
{
    if (number >= 0)
        atomic_store_explicit(word, (uint32_t)number + 1, memory_order_relaxed);
}

void probe_rank(int32_t rank, int32_t local_rank, int32_t world_size)
{
    if (!probe_is_open())
        return;
    say_number(&probe->header->live_rank, rank);
    say_number(&probe->header->live_local_rank, local_rank);
    say_number(&probe->header->live_world_size, world_size);
}

void probe_end(int code)
{
    if (!probe_is_open())
        return;
    probe_boundary_thread_ends();
    if (code >= 0)
        atomic_store_explicit(&probe->header->exit_code, (uint32_t)code,
                              memory_order_relaxed);
    atomic_store_explicit(&probe->header->heartbeat_ticks, clock_ticks(probe->tsc),
                          memory_order_relaxed);
    /* Release: pairs with readers' acquire; the code is there with the word. */
    atomic_store_explicit(&probe->header->ended, 1, memory_order_release);
}

/* ---- fork and exit ----------------------------------------------------------------
 */

/* In the child, before any code of the application: the private memory is zero by now
 * (MADV_WIPEONFORK) and the segment is not mapped (MADV_DONTFORK). */
static void after_fork_in_child(void)
{
    int saved_errno = errno;

    storage_forget(&storage);
    probe_threads_forget();
    probe_boundary_close();
    forked = true;
    reason = "a forked process that has recorded nothing";
    atomic_store_explicit(&start_state, START_NONE, memory_order_relaxed);
    errno = saved_errno;
}

#if defined(__GLIBC__)
static void at_exit(int code, void *unused)
{
    (void)unused;
    probe_end(code);
}
#else
static void at_exit(void)
{
    probe_end(-1);
}
#endif

static void set_handlers(void)
{
    if (handlers_set)
        return;
    handlers_set = true;
    probe_threads_prepare();
    (void)pthread_atfork(NULL, NULL, after_fork_in_child);
#if defined(__GLIBC__)
    (void)on_exit(at_exit, NULL);
#else
    (void)atexit(at_exit);
#endif
}

/* ---- start ------------------------------------------------------------------------
 */

static const char *environment(const char *name)
{
    /* NOLINTNEXTLINE(concurrency-mt-unsafe): the environment is read, never written */
    return getenv(name);
}

/* Private memory: threads, their caches and the index of names. Zero in a child. */
static int map_private(const struct wire_layout *layout)
{
    size_t index_count = 2, threads_bytes, index_bytes;

    while (index_count < 2 * (size_t)layout->name_count)
        index_count *= 2;
    threads_bytes = layout->thread_count * sizeof(struct probe_thread);
    index_bytes = index_count * sizeof(uint32_t);
    size_t bytes = sizeof(struct probe_private) + 64 + threads_bytes + index_bytes;
    struct probe_private *fresh = probe;

    /* The zeroed memory of our parent serves again, if it is large enough. */
    if (bytes > private_bytes) {
        fresh = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS,
                     -1, 0);
        if (fresh == MAP_FAILED)
            return -ENOMEM;
        if (madvise(fresh, bytes, MADV_WIPEONFORK) != 0) {
            munmap(fresh, bytes);
            return -ENOTSUP;
        }
        private_bytes = bytes;
    }
    unsigned char *threads = (unsigned char *)(fresh + 1);

    threads += -(uintptr_t)threads % 64;
    fresh->threads = (void *)threads;
    fresh->thread_count = layout->thread_count;
    fresh->name_index = (void *)(threads + threads_bytes);
    fresh->layout = *layout;
    probe = fresh;
    return names_open(&fresh->names, storage.base + layout->names_offset,
                      layout->segment_bytes - layout->names_offset, layout->name_count,
                      layout->name_bytes) != 0
               ? -EINVAL
               : names_index(&fresh->names, fresh->name_index, (uint32_t)index_count);
}

static void write_identity(struct wire_header *header)
{
    memcpy(header->session, session, sizeof(header->session));
    memcpy(header->run_name, identity.run_name, sizeof(header->run_name));
    memcpy(header->host, identity.host, sizeof(header->host));
    memcpy(header->version, TRAINGLASS_VERSION, sizeof(TRAINGLASS_VERSION));
    header->boot_hash = identity.boot_hash;
    header->pid_namespace = identity.pid_namespace;
    header->start_ticks = identity.start_ticks;
    header->pid = identity.pid;
    header->parent_pid = told_parent != 0 ? told_parent : identity.parent_pid;
    header->uid = identity.uid;
    header->role = identity.role;
    header->rank = identity.rank;
    header->local_rank = identity.local_rank;
    header->world_size = identity.world_size;
    header->restart_count = identity.restart_count;
    header->clock = probe->tsc ? WIRE_CLOCK_TSC : WIRE_CLOCK_MONOTONIC;
    header->zero_monotonic_ns = identity.zero_monotonic_ns;
    header->zero_realtime_ns = identity.zero_realtime_ns;
    header->created_ticks = clock_ticks(probe->tsc);
    atomic_store_explicit(&header->live_role, identity.role, memory_order_relaxed);
    atomic_store_explicit(&header->heartbeat_ticks, header->created_ticks,
                          memory_order_relaxed);
}

/* Points the private side at the new segment and writes what never changes. */
static int fill_segment(void)
{
    struct wire_layout layout;
    int error = wire_layout_for(storage.bytes, &layout);

    if (error == 0)
        error = map_private(&layout);
    if (error != 0) {
        reason = "no private memory, or the kernel is older than 4.14";
        return error;
    }
    unsigned char *base = storage.base;

    probe->base = base;
    probe->header = (void *)base;
    probe->facts = (void *)(base + layout.facts_offset);
    probe->sources = (void *)(base + layout.sources_offset);
    probe->slots = (void *)(base + layout.threads_offset);
    probe->tsc = clock_tsc_usable();
    probe->pid = identity.pid;
    probe->main_ring_offset = layout.rings_offset;
    probe->main_ring_capacity =
        probe_main_ring_capacity(layout.segment_bytes - layout.rings_offset);
    uint64_t used = layout.rings_offset;

    if (probe->main_ring_capacity != 0)
        used += (ring_size(probe->main_ring_capacity) + 127) / 128 * 128;
    atomic_store_explicit(&probe->pool_used, used, memory_order_relaxed);
    write_identity(probe->header);
    wire_header_init(probe->header, &layout);
    return 0;
}

/* Looks at the neighbours: which session is ours, what may go, how much is left. */
static uint64_t settle_in(void)
{
    struct neighbours *neighbours = calloc(1, sizeof(*neighbours));
    bool worker = identity.role == WIRE_ROLE_WORKER;
    /* A launcher trains nothing: it starts those who do. */
    bool small = worker || identity.role == WIRE_ROLE_LAUNCHER;
    uint64_t wanted = small ? WIRE_BYTES_SMALL : WIRE_BYTES_MAX, room;
    int32_t ranks = worker ? 0 : identity.local_world_size;

    memcpy(session, identity.session, sizeof(session));
    if (neighbours == NULL || neighbours_open(neighbours, storage.directory) != 0) {
        free(neighbours);
        return storage_room(&storage, wanted, 0, ranks);
    }
    neighbours_session(neighbours, &identity, session);
    identity_number(&identity, session);
    uint64_t job_bytes = neighbours_job_bytes(neighbours, session);

    room = storage_room(&storage, wanted, job_bytes, ranks);
    if (!small) {
        uint64_t tight = room < UINT64_C(1024) * 1024 ? WIRE_BYTES_MAX : 0;

        (void)neighbours_clean(neighbours, storage_capacity(&storage) / 8, tight);
        room = storage_room(&storage, wanted, job_bytes, ranks);
    }
    neighbours_close(neighbours);
    free(neighbours);
    return room;
}

static int open_segment(uint32_t role)
{
    enum storage_share share = storage_share_parse(environment("TRAINGLASS_SHARE"));
    const char *level = environment("TRAINGLASS_LEVEL");
    int error = -ECANCELED;

    if (level != NULL && strcmp(level, "off") == 0) {
        reason = "switched off (level off)";
        return error;
    }
    identity_read(&identity, role != 0 ? role : forked ? WIRE_ROLE_WORKER : 0);
    error = storage_open_directory(&storage, share, &reason);
    if (error != 0)
        return error;
    uint64_t settled = settle_in(), room = storage_limited(settled);

    reason = room < settled
                 ? "files of this process may not be large enough (ulimit -f)"
                 : "too little shared memory is free";
    error = -ENOSPC;
    /* Somebody else may take what was free a moment ago: try with less. */
    for (; room >= WIRE_BYTES_MIN && error == -ENOSPC;
         room = room / 2 / 65536 * 65536) {
        struct wire_layout layout;

        error = wire_layout_for(room, &layout);
        if (error == 0)
            error = storage_create(&storage, room, layout.rings_offset, share, &reason);
    }
    if (error != 0)
        return error;
    error = fill_segment();
    if (error != 0)
        goto fail;
    probe_boundary_open();
    error = storage_publish(&storage, &reason);
    if (error != 0)
        goto fail;
    reason = "";
    /* Release: pairs with the acquire in probe_is_open() and probe_enter_slow(). */
    atomic_store_explicit(&probe->open, 1, memory_order_release);
    return 0;
fail:
    storage_discard(&storage);
    return error;
}

int probe_start(uint32_t role)
{
    uint32_t state = START_NONE;

    if (probe_is_open())
        return 0;
    /* Whoever cannot start asks again at every event: keep that cheap. */
    if (atomic_load_explicit(&start_state, memory_order_relaxed) == START_FAILED)
        return -ECANCELED;
    if (!atomic_compare_exchange_strong_explicit(&start_state, &state, START_RUNNING,
                                                 memory_order_acquire,
                                                 memory_order_acquire))
        return state == START_RUNNING ? -EAGAIN : state == START_DONE ? 0 : -ECANCELED;
    int saved_errno = errno;

    set_handlers();
    int error = open_segment(role);

    if (error == 0) {
        struct probe_thread *self = probe_enter(); /* the first event costs no pages */

        if (self != NULL)
            probe_leave(self);
        probe_boundary_begin();
    }
    atomic_store_explicit(&start_state, error == 0 ? START_DONE : START_FAILED,
                          memory_order_release);
    errno = saved_errno;
    return error;
}
