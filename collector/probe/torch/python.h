/* What the Python package calls: one exported function gives a table of the rest.
 *
 * The table only grows at its end, and `bytes` says how long it is, so a package and a
 * library of different ages go together: what is not there is not called. Every entry
 * may be called at any time, by any thread that has the GIL; before start() and in a
 * forked child it does nothing.
 */
#ifndef PROBE_PYTHON_H
#define PROBE_PYTHON_H

#include <stdint.h>

struct trainglass_python {
    uint32_t bytes; /* sizeof(struct trainglass_python) of the library */
    uint32_t major; /* another one is another table */
    /* The session: probe.h. */
    int (*start)(uint32_t role);
    int (*is_open)(void);
    const char *(*reason)(void);
    const char *(*session)(void);
    const char *(*path)(void);
    void (*role)(uint32_t role);
    void (*end)(int code);
    /* Marks of the training thread: enum steps_mark_kind of steps.h. */
    void (*mark)(uint32_t kind, uint32_t id);
    /* Ranges of the calling thread: trainglass.annotate. */
    void (*range_push)(const char *name);
    void (*range_pop)(void);
    void (*metric)(const char *name, double value);
    void (*samples)(uint64_t samples); /* in the running step */
    /* Something happened now: enum event_mark. */
    void (*happened)(uint32_t mark, const char *name, uint64_t argument);
    void (*gc_begin)(void);
    void (*gc_end)(uint32_t generation);
    /* Facts of the job (wire/facts.h) and what can be seen. */
    void (*fact_text)(const char *key, const char *value);
    void (*fact_number)(const char *key, int64_t value);
    void (*fact_real)(const char *key, double value);
    void (*fact_bool)(const char *key, int value);
    void (*capability)(uint32_t source, uint32_t state, const char *reason,
                       const char *detail);
    /* Torch, when it is imported: attach.h; 1 from torch_begin: the observer is
     * there already (a forked child), no self-test is wanted. */
    int (*torch_begin)(uint32_t scopes);
    int (*torch_end)(void);
    /* Level, budget or a burst from the next step on: probe_ask(). */
    void (*ask)(int32_t level, int32_t budget_ppm, uint32_t steps);
    /* Another profiler of the GPU begins (1), begins and never ends (2; to an older library
     * the same as 1), or has ended (0): cupti/session.h. */
    void (*gpu_yield)(int begins);
    /* Deep windows at step boundaries: probe/window.h. */
    void (*window_listen)(int (*schedule)(int (*call)(void *), void *),
                          int (*call)(void *));
    uint64_t (*window_word)(uint32_t which);
    void (*window_state)(uint32_t state);
    /* What torch.distributed says: probe_rank(). On the training thread. */
    void (*rank)(int32_t rank, int32_t local_rank, int32_t world_size);
    /* Of the fetch that ends now no batch was there for so long: EVENT_WAITED. */
    void (*waited)(uint64_t ns);
    /* Before start: whose worker this process is, where another forks it. */
    void (*parent)(uint32_t pid);
};

#define TRAINGLASS_PYTHON_MAJOR   2u
#define TRAINGLASS_YIELD_FOR_GOOD 2

/* Never NULL; lives as long as the process. */
const struct trainglass_python *trainglass_python(void);

#endif
