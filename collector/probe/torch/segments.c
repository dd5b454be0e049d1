#include "probe/torch/segments.h"

#include <dlfcn.h>
#include <stddef.h>
#include <string.h>

#include "probe/probe.h"
#include "probe/torch/library.h"

/* The index fits in the low bits of an address: segments are aligned to 512. */
#define DEVICES 32u

/* Live segments; a job has some hundreds. Of more it is not known whose they are. */
#define PLACES   4096u
#define ATTEMPTS 64u

#define OUT_OF_MEMORY 2 /* cudaErrorMemoryAllocation */

static struct torch_segments devices[DEVICES];
static _Atomic bool watched, asked;

static int (*cuda_malloc)(void **block, size_t bytes);
static int (*cuda_free)(void *block);
static int (*cuda_get_device)(int *device);

/* `key`: address with its device's index; 0 free, 1 being filled. */
static struct place {
    _Atomic uintptr_t key;
    _Atomic uint64_t bytes;
} places[PLACES];

/* What the calling thread's allocation has come to. */
enum asking { ASKING_FIRST, ASKING_REFUSED, ASKING_AGAIN };
static _Thread_local enum asking asking __attribute__((tls_model("initial-exec")));

/* ---- who has which segment ------------------------------------------------------- */

static struct place *place_at(uintptr_t address, uint32_t attempt)
{
    /* Segments are multiples of 2 MiB. */
    uint64_t hash = (uint64_t)(address >> 21) * UINT64_C(0x9E3779B97F4A7C15);

    return &places[(uint32_t)((hash >> 52) + attempt) % PLACES];
}

static void remember(uintptr_t address, uint32_t device, uint64_t bytes)
{
    for (uint32_t i = 0; i < ATTEMPTS; i++) {
        struct place *place = place_at(address, i);
        uintptr_t none = 0;

        if (!atomic_compare_exchange_strong_explicit(
                &place->key, &none, 1, memory_order_relaxed, memory_order_relaxed))
            continue;
        atomic_store_explicit(&place->bytes, bytes, memory_order_relaxed);
        /* Release: pairs with forget(); the bytes are there with the key. */
        atomic_store_explicit(&place->key, address | device, memory_order_release);
        atomic_fetch_add_explicit(&devices[device].held, 1, memory_order_relaxed);
        atomic_fetch_add_explicit(&devices[device].held_bytes, bytes,
                                  memory_order_relaxed);
        return;
    }
}

/* The device that had it; DEVICES: one from before, or that found no place. */
static uint32_t forget(uintptr_t address)
{
    for (uint32_t i = 0; i < ATTEMPTS; i++) {
        struct place *place = place_at(address, i);
        /* Acquire: pairs with remember(). */
        uintptr_t key = atomic_load_explicit(&place->key, memory_order_acquire);
        uint32_t device = (uint32_t)(key & (DEVICES - 1));
        uint64_t bytes = atomic_load_explicit(&place->bytes, memory_order_relaxed);

        if ((key & ~(uintptr_t)(DEVICES - 1)) != address ||
            !atomic_compare_exchange_strong_explicit(
                &place->key, &key, 0, memory_order_relaxed, memory_order_relaxed))
            continue;
        atomic_fetch_sub_explicit(&devices[device].held, 1, memory_order_relaxed);
        atomic_fetch_sub_explicit(&devices[device].held_bytes, bytes,
                                  memory_order_relaxed);
        atomic_fetch_add_explicit(&devices[device].given_back_bytes, bytes,
                                  memory_order_relaxed);
        return device;
    }
    return DEVICES;
}

/* ---- the calls ------------------------------------------------------------------- */

static void count(_Atomic uint32_t *calls, struct torch_segments *segments,
                  uint64_t since)
{
    if (calls != NULL)
        atomic_fetch_add_explicit(calls, 1, memory_order_relaxed);
    atomic_fetch_add_explicit(&segments->ticks, probe_ticks() - since,
                              memory_order_relaxed);
}

/* Of the current device, which is where cudaMalloc allocates. */
static int counted_malloc(void **block, size_t bytes)
{
    uint64_t since = probe_ticks();
    int error = cuda_malloc(block, bytes), device;

    atomic_store_explicit(&asked, true, memory_order_relaxed);
    if (cuda_get_device(&device) != 0 || device < 0 || device >= (int)DEVICES)
        return error;
    struct torch_segments *segments = &devices[device];

    atomic_store_explicit(&segments->asked, true, memory_order_relaxed);
    if (asking == ASKING_REFUSED) {
        atomic_fetch_add_explicit(&segments->retries, 1, memory_order_relaxed);
        asking = ASKING_AGAIN;
    }
    if (error == OUT_OF_MEMORY && asking == ASKING_FIRST)
        asking = ASKING_REFUSED;
    if (error == 0) {
        asking = ASKING_FIRST;
        remember((uintptr_t)*block, (uint32_t)device, bytes);
    }
    count(error == 0 ? &segments->got : NULL, segments, since);
    return error;
}

static int counted_free(void *block)
{
    uint64_t since = probe_ticks();
    /* Before it is anybody's again. */
    uint32_t device = block != NULL ? forget((uintptr_t)block) : DEVICES;
    int error = cuda_free(block);

    if (device < DEVICES)
        count(&devices[device].given, &devices[device], since);
    return error;
}

void torch_segments_give_up(void)
{
    asking = ASKING_FIRST;
}

bool torch_segments_asked(void)
{
    return atomic_load_explicit(&asked, memory_order_relaxed);
}

struct torch_segments *torch_segments_of(uint32_t index)
{
    return index < DEVICES && atomic_load_explicit(&watched, memory_order_relaxed)
               ? &devices[index]
               : NULL;
}

/* What `library` reaches by that name; NULL where somebody stands between: then its calls
 * are not ours to chain. */
static void *reached(void *library, const char *symbol)
{
    void *own = torch_symbol(library, symbol);
    void *everybodys = torch_symbol(RTLD_DEFAULT, symbol);

    return everybodys == NULL || everybodys == own ? own : NULL;
}

/* What a parent's torch has asked for is not a forked child's. */
static void forget_all(void)
{
    atomic_store_explicit(&asked, false, memory_order_relaxed);
    for (uint32_t i = 0; i < PLACES; i++)
        atomic_store_explicit(&places[i].key, 0, memory_order_relaxed);
    for (uint32_t i = 0; i < DEVICES; i++) {
        struct torch_segments *one = &devices[i];

        atomic_store_explicit(&one->asked, false, memory_order_relaxed);
        atomic_store_explicit(&one->got, 0, memory_order_relaxed);
        atomic_store_explicit(&one->given, 0, memory_order_relaxed);
        atomic_store_explicit(&one->retries, 0, memory_order_relaxed);
        atomic_store_explicit(&one->ticks, 0, memory_order_relaxed);
        atomic_store_explicit(&one->held, 0, memory_order_relaxed);
        atomic_store_explicit(&one->held_bytes, 0, memory_order_relaxed);
        atomic_store_explicit(&one->given_back_bytes, 0, memory_order_relaxed);
    }
}

void torch_segments_attach(void)
{
    static const struct torch_slot slots[] = {
        {"cudaMalloc", (void (*)(void))counted_malloc},
        {"cudaFree", (void (*)(void))counted_free},
    };
    void *library = torch_library_find("libc10_cuda.so");

    forget_all();
    if (library == NULL)
        return;
    void *functions[] = {reached(library, "cudaMalloc"), reached(library, "cudaFree"),
                         reached(library, "cudaGetDevice")};

    if (functions[0] == NULL || functions[1] == NULL || functions[2] == NULL)
        return;
    memcpy(&cuda_malloc, &functions[0], sizeof(functions[0]));
    memcpy(&cuda_free, &functions[1], sizeof(functions[1]));
    memcpy(&cuda_get_device, &functions[2], sizeof(functions[2]));
    if (torch_slots_replace("libc10_cuda.so", slots, 2, NULL) >= 2)
        atomic_store_explicit(&watched, true, memory_order_relaxed);
}
