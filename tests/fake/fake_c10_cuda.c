/* A fake libc10_cuda.so, for tests alone: an allocator that keeps segments and cuts blocks
 * out of them, gives back what it keeps and asks again when the device has no more, and
 * reports each block that it gives and takes, as torch's DeviceCachingAllocator does.
 *
 * What reports nothing in torch 2.2 to 2.15 reports nothing here: cudaMallocAsync
 * (PYTORCH_CUDA_ALLOC_CONF=backend:cudaMallocAsync), another allocator
 * (change_current_allocator()), and blocks without a cache
 * (PYTORCH_NO_CUDA_MEMORY_CACHING). With expandable_segments:True memory comes by mapping,
 * of which no call of cudaMalloc tells. */
#include <stdatomic.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "fake_torch.h"

#define BLOCKS  256
#define SEGMENT ((size_t)2 << 20) /* a multiple of that */
#define ROUND   ((size_t)512)     /* of each block */

struct block {
    char *address;
    size_t bytes;
    bool used, first; /* of its segment */
};

/* In the order of the addresses within each segment. */
static struct cache {
    struct block blocks[BLOCKS];
    int count;
    struct fake_stats stats;
} caches[FAKE_TORCH_DEVICES];

/* ---- which allocator: an object of a C++ class that says its name ------------------- */

struct type {
    const void *table;
    const char *name;
};
struct table {
    ptrdiff_t top;
    const struct type *type;
    void (*methods[1])(void);
};
struct object {
    const void *methods;
};

enum { NATIVE, ASYNC, PLUGGABLE, ALLOCATORS };

static const struct type types[ALLOCATORS] = {
    {NULL, "N3c104cuda20CUDACachingAllocator6Native22NativeCachingAllocatorE"},
    {NULL, "N3c104cuda20CUDACachingAllocator15CudaMallocAsync24"
           "CudaMallocAsyncAllocatorE"},
    {NULL, "N5torch4cuda22CUDAPluggableAllocator22CUDAPluggableAllocatorE"},
};
static const struct table tables[ALLOCATORS] = {
    {0, &types[NATIVE], {NULL}},
    {0, &types[ASYNC], {NULL}},
    {0, &types[PLUGGABLE], {NULL}},
};
static const struct object objects[ALLOCATORS] = {
    {tables[NATIVE].methods},
    {tables[ASYNC].methods},
    {tables[PLUGGABLE].methods},
};
extern _Atomic(const struct object *)
    allocator __asm__("_ZN3c104cuda20CUDACachingAllocator9allocatorE");
_Atomic(const struct object *) allocator = &objects[NATIVE];

__attribute__((constructor)) static void choose(void)
{
    const char *settings = getenv("PYTORCH_CUDA_ALLOC_CONF");

    if (settings != NULL && strstr(settings, "backend:cudaMallocAsync") != NULL)
        allocator = &objects[ASYNC];
}

void fake_torch_change_allocator(void)
{
    allocator = &objects[PLUGGABLE];
}

static bool caches_and_reports(void)
{
    return allocator == &objects[NATIVE] &&
           getenv("PYTORCH_NO_CUDA_MEMORY_CACHING") == NULL;
}

/* ---- blocks and segments ------------------------------------------------------------- */

static void insert(struct cache *cache, int at, struct block block)
{
    if (cache->count == BLOCKS)
        abort();
    memmove(&cache->blocks[at + 1], &cache->blocks[at],
            (size_t)(cache->count++ - at) * sizeof(block));
    cache->blocks[at] = block;
}

static void take_out(struct cache *cache, int at)
{
    memmove(&cache->blocks[at], &cache->blocks[at + 1],
            (size_t)(--cache->count - at) * sizeof(cache->blocks[0]));
}

/* The smallest free block that fits; -1 without. */
static int find_free(const struct cache *cache, size_t bytes)
{
    int best = -1;

    for (int i = 0; i < cache->count; i++)
        if (!cache->blocks[i].used && cache->blocks[i].bytes >= bytes &&
            (best < 0 || cache->blocks[i].bytes < cache->blocks[best].bytes))
            best = i;
    return best;
}

static bool is_mapped(void)
{
    const char *settings = getenv("PYTORCH_CUDA_ALLOC_CONF");

    return settings != NULL && strstr(settings, "expandable_segments:True") != NULL;
}

/* As much as the fake cudaMalloc has; NULL beyond it. */
static void *map(const struct cache *cache, size_t bytes)
{
    const char *limit = getenv("FAKE_CUDA_BYTES");
    void *address;

    if (limit != NULL && cache->stats.reserved + bytes > strtoull(limit, NULL, 10))
        return NULL;
    address = mmap(NULL, bytes, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    return address == MAP_FAILED ? NULL : address;
}

static bool grow(int device, size_t bytes)
{
    struct cache *cache = &caches[device];
    size_t whole = (bytes + SEGMENT - 1) / SEGMENT * SEGMENT;
    void *address;

    cudaSetDevice(device);
    if (is_mapped())
        address = map(cache, whole);
    else if (cudaMalloc(&address, whole) != 0)
        address = NULL;
    if (address == NULL)
        return false;
    insert(cache, cache->count, (struct block){address, whole, false, true});
    cache->stats.reserved += whole;
    cache->stats.segments++;
    return true;
}

/* Segments in which nothing is used go back to the device. */
static void release_cached(struct cache *cache)
{
    for (int i = cache->count - 1; i >= 0; i--) {
        bool whole = i + 1 == cache->count || cache->blocks[i + 1].first;

        if (cache->blocks[i].used || !cache->blocks[i].first || !whole)
            continue;
        if (is_mapped())
            munmap(cache->blocks[i].address, cache->blocks[i].bytes);
        else
            cudaFree(cache->blocks[i].address);
        cache->stats.reserved -= cache->blocks[i].bytes;
        cache->stats.segments--;
        take_out(cache, i);
    }
}

static uint64_t reports;

static int grow_or_retry(int device, size_t bytes)
{
    struct cache *cache = &caches[device];

    if (!grow(device, bytes)) {
        release_cached(cache);
        cache->stats.retries++;
        if (!grow(device, bytes)) {
            cache->stats.ooms++;
            reports++;
            fake_report_out_of_memory((int64_t)bytes, cache->stats.allocated,
                                      cache->stats.reserved,
                                      (struct fake_device){1, (int8_t)device});
            return -1;
        }
    }
    return find_free(cache, bytes);
}

static void report(int device, void *address, int64_t bytes)
{
    const struct fake_stats *stats = &caches[device].stats;

    reports++;
    fake_report_usage(address, bytes, stats->allocated, stats->reserved,
                      (struct fake_device){1, (int8_t)device});
}

void *fake_torch_allocate(int device, size_t bytes)
{
    struct cache *cache = &caches[device];
    void *uncached = NULL;

    if (!caches_and_reports()) {
        cudaSetDevice(device);
        return cudaMalloc(&uncached, bytes) == 0 ? uncached : NULL;
    }
    bytes = (bytes + ROUND - 1) / ROUND * ROUND;
    int at = find_free(cache, bytes);

    if (at < 0)
        at = grow_or_retry(device, bytes);
    if (at < 0)
        return NULL;
    struct block *block = &cache->blocks[at];

    if (block->bytes > bytes) {
        struct block rest = {block->address + bytes, block->bytes - bytes, false,
                             false};

        block->bytes = bytes;
        insert(cache, at + 1, rest);
    }
    block->used = true;
    cache->stats.allocated += bytes;
    report(device, block->address, (int64_t)bytes);
    return block->address;
}

static void merge(struct cache *cache, int at)
{
    if (at < 0 || at + 1 >= cache->count)
        return;
    struct block *block = &cache->blocks[at];

    if (block->used || block[1].used || block[1].first)
        return;
    block->bytes += block[1].bytes;
    take_out(cache, at + 1);
}

void fake_torch_free(int device, void *address)
{
    struct cache *cache = &caches[device];

    if (!caches_and_reports()) {
        cudaFree(address);
        return;
    }
    for (int i = 0; i < cache->count; i++) {
        struct block *block = &cache->blocks[i];

        if (!block->used || block->address != address)
            continue;
        block->used = false;
        cache->stats.allocated -= block->bytes;
        report(device, address, -(int64_t)block->bytes);
        merge(cache, i);
        merge(cache, i - 1);
        return;
    }
    abort();
}

void fake_torch_empty_cache(void)
{
    for (int device = 0; device < FAKE_TORCH_DEVICES; device++)
        release_cached(&caches[device]);
}

struct fake_stats fake_torch_stats(int device)
{
    return caches[device].stats;
}

void fake_torch_report_host(void *block, size_t bytes)
{
    reports++;
    fake_report_usage(block, (int64_t)bytes, bytes, 0, (struct fake_device){0, -1});
}

uint64_t fake_torch_reports(void)
{
    return reports;
}
