/* PyTorch's own libraries as they are mapped in this process, and their symbols.
 *
 * torch is loaded RTLD_LOCAL and distributions suffix its sonames, so a library is
 * found by the start of its file name among what the loader has mapped; nothing is
 * ever loaded here, and what was found is never closed. */
#ifndef PROBE_TORCH_LIBRARY_H
#define PROBE_TORCH_LIBRARY_H

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

/* Points every slot through which the mapped libraries whose file names begin with
 * `prefix` reach one of `count` symbols at its new value: lazy and eager function slots
 * and slots of function pointers alike. Returns how many slots there are, or a
 * negative errno when one could not be (those before it stay written). */
MUST_CHECK int torch_slots_replace(const char *prefix, const struct torch_slot *slots,
                                   int count);

#endif
