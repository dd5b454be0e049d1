/* PyTorch's own libraries as they are mapped in this process, and their symbols.
 *
 * torch is loaded RTLD_LOCAL and distributions suffix its sonames, so a library is
 * found by the start of its file name among what the loader has mapped; nothing is
 * ever loaded here, and what was found is never closed. */
#ifndef PROBE_TORCH_LIBRARY_H
#define PROBE_TORCH_LIBRARY_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "wire/attributes.h"

/* A handle for torch_symbol() of the mapped library whose file name begins with
 * `prefix` ("libtorch_cpu.so"); NULL when none is mapped. Any thread; takes the
 * loader's lock, so never from a callback. */
MUST_CHECK void *torch_library_find(const char *prefix);

/* The address of `symbol` in the library behind `handle`; NULL when it has none. */
MUST_CHECK void *torch_symbol(void *handle, const char *symbol);

struct torch_slot {
    const char *symbol;  /* mangled */
    void (*value)(void); /* what its slots shall hold; NULL: they are only counted */
};

/* Slots that are switched between torch's own functions and ours while it runs. */
#define TORCH_PLACES_MAX 16u
struct torch_places {
    struct {
        _Atomic uintptr_t *slot; /* writable */
        uintptr_t own, ours;
    } at[TORCH_PLACES_MAX];
    uint32_t count;
};

/* Points every slot through which the mapped libraries whose file names begin with
 * `prefix` reach one of `count` symbols at its new value: lazy and eager function slots
 * and slots of function pointers alike. Returns how many slots there are, or a
 * negative errno when one could not be (those before it stay written). `places`, if not
 * NULL, gets them once each, to be switched, and keeps them writable; lives for ever. */
MUST_CHECK int torch_slots_replace(const char *prefix, const struct torch_slot *slots,
                                   int count, struct torch_places *places);

/* A store per slot. Other threads call through them meanwhile, and get one or the other. */
void torch_slots_switch(const struct torch_places *places, bool ours);

#endif
