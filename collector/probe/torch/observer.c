#include "probe/torch/observer.h"

#include <errno.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <string.h>

#include "probe/detail_limit.h"
#include "probe/probe.h"
#include "probe/torch/library.h"

/* at::RecordScope; part of torch's ABI since 1.13. */
enum torch_scope { SCOPE_FUNCTION = 0, SCOPE_BACKWARD = 1, SCOPE_USER = 7 };

/* at::RecordFunctionCallback, 40 bytes in every known torch. It goes by value; a
 * longer one of a future torch reads our zeros and not what happens to lie there. */
struct torch_callback {
    void (*start)(void);
    void (*end)(const void *record, void *context);
    double sampling;
    bool scopes[TORCH_SCOPES];
    bool needs_inputs, needs_outputs, needs_ids;
    unsigned char zeros[64];
};
static_assert(offsetof(struct torch_callback, sampling) == 16 &&
                  offsetof(struct torch_callback, scopes) == 24 &&
                  offsetof(struct torch_callback, needs_inputs) == 34,
              "the layout of at::RecordFunctionCallback");

enum observer_state { OBSERVER_OFF = 0, OBSERVER_TESTING, OBSERVER_LIVE };

/* Torch's functions: written once before the first callback. */
static struct {
    uint64_t (*add)(struct torch_callback callback);
    void (*remove)(uint64_t handle);
    const char *(*name)(const void *record);
    bool (*is_async)(const void *record);
} torch;

static _Atomic uint32_t state; /* enum observer_state */

/* The self-test: what the testing thread alone saw. */
static const char *test_thread; /* &thread_byte of that thread */
static uint32_t test_calls, test_matches;
static uint64_t test_handle;
static _Thread_local char thread_byte __attribute__((tls_model("initial-exec")));

/* ---- operators ----------------------------------------------------------------- */

ALWAYS_INLINE void op_begin(const void *record, uint8_t flags)
{
    struct probe_thread *self = probe_enter();

    if (UNLIKELY(self == NULL))
        return;
    uint32_t name = probe_name_cached(self, torch.name(record));

    probe_range_open(self, EVENT_META(name, EVENT_CPU_OP, flags, 0),
                     probe_thread_ticks(self));
    probe_leave(self);
    if (detail_limit_reached(self))
        torch_observer_record(probe_recording());
}

ALWAYS_INLINE void op_end(uint8_t flags)
{
    struct probe_thread *self = probe_enter();

    if (UNLIKELY(self == NULL))
        return;
    probe_range_close(self, PROBE_RANGE_OWNER(EVENT_META(0, EVENT_CPU_OP, flags, 0)),
                      0);
    probe_leave(self);
}

static void function_end(const void *record, void *context)
{
    (void)record, (void)context;
    op_end(0);
}

static void backward_end(const void *record, void *context)
{
    (void)record, (void)context;
    op_end(EVENT_OP_BACKWARD);
}

/* ---- ranges that end on another thread --------------------------------------------
 */

#define ASYNC_RANGES                                                                   \
    256u /* collectives in flight at once; more are counted as lost                    \
          */

struct async_range {
    _Atomic uintptr_t record; /* 0 free, 1 being filled, else torch's RecordFunction */
    uint64_t start;
    uint32_t name;
    uint32_t thread; /* slot that opened it */
    uint32_t pid;    /* a forked child inherits the table, not the ranges */
};
static struct async_range async_ranges[ASYNC_RANGES];

static void async_begin(const struct probe_thread *self, const void *record,
                        uint32_t name)
{
    for (uint32_t i = 0; i < ASYNC_RANGES; i++) {
        struct async_range *range = &async_ranges[i];
        uintptr_t none = 0;

        if (!atomic_compare_exchange_strong_explicit(
                &range->record, &none, 1, memory_order_acquire, memory_order_relaxed))
            continue;
        range->start = probe_thread_ticks(self);
        range->name = name;
        range->thread = self->index;
        range->pid = probe->pid;
        /* Release: pairs with the acquire in async_end(). */
        atomic_store_explicit(&range->record, (uintptr_t)record, memory_order_release);
        return;
    }
    probe_capability_lost(WIRE_SOURCE_RANGES, 1);
}

static void async_end(struct probe_thread *self, const void *record)
{
    for (uint32_t i = 0; i < ASYNC_RANGES; i++) {
        struct async_range *range = &async_ranges[i];

        /* Acquire: pairs with the release in async_begin(). */
        if (atomic_load_explicit(&range->record, memory_order_acquire) !=
            (uintptr_t)record)
            continue;
        uint64_t meta = EVENT_META(range->name, EVENT_USER_RANGE,
                                   EVENT_RANGE_TORCH | EVENT_RANGE_ASYNC, 0);
        uint64_t other = range->thread != self->index ? range->thread + 1 : 0;

        if (range->pid == probe->pid)
            probe_write(self, (struct event){range->start,
                                             probe_thread_ticks(self) - range->start,
                                             meta, other});
        /* Release: the fields were read before another thread may fill them; pairs
         * with the acquire of the exchange in async_begin(). */
        atomic_store_explicit(&range->record, 0, memory_order_release);
        return;
    }
}

/* ---- named ranges ------------------------------------------------------------------ */

static bool testing(const char *name)
{
    uint32_t now = atomic_load_explicit(&state, memory_order_relaxed);

    if (LIKELY(now == OBSERVER_LIVE))
        return false;
    if (now == OBSERVER_TESTING && test_thread == &thread_byte) {
        test_calls++;
        test_matches += strcmp(name, TORCH_SELF_TEST) == 0;
    }
    return true;
}

static void user_begin(const void *record)
{
    const char *name = torch.name(record);
    struct probe_thread *self = UNLIKELY(testing(name)) ? NULL : probe_enter();

    if (self == NULL)
        return;
    uint32_t id = probe_name_cached(self, name);

    if (UNLIKELY(torch.is_async(record)))
        async_begin(self, record, id);
    else
        probe_range_open(self, EVENT_META(id, EVENT_USER_RANGE, EVENT_RANGE_TORCH, 0),
                         probe_thread_ticks(self));
    probe_leave(self);
}

/* Torch's range of an update ends behind the hooks, of which one may have ended the step:
 * it ends there too, or it would reach into the next one. */
static uint64_t end_of_range(struct probe_thread *self, const char *name)
{
    static const char update[] = "Optimizer.step#";
    uint64_t now = probe_thread_ticks(self);
    uint32_t top = self->depth - 1;

    if (name[0] != update[0] || strncmp(name, update, sizeof(update) - 1) != 0 ||
        top >= WIRE_OPEN_RANGES)
        return now;
    uint64_t start =
        atomic_load_explicit(&self->slot->open[top].start, memory_order_relaxed);
    uint64_t ended = atomic_load_explicit(&probe_update_ended, memory_order_relaxed);

    return ended > start && ended < now ? ended : now;
}

static void user_end(const void *record, void *context)
{
    (void)context;
    if (UNLIKELY(atomic_load_explicit(&state, memory_order_relaxed) != OBSERVER_LIVE))
        return;
    struct probe_thread *self = probe_enter();

    if (self == NULL)
        return;
    if (UNLIKELY(torch.is_async(record)))
        async_end(self, record);
    else
        probe_range_close_at(
            self,
            PROBE_RANGE_OWNER(EVENT_META(0, EVENT_USER_RANGE, EVENT_RANGE_TORCH, 0)), 0,
            end_of_range(self, torch.name(record)));
    probe_leave(self);
}

/* ---- torch's calling convention -----------------------------------------------------
 */

/* A start callback returns a std::unique_ptr<ObserverContext>. It is always empty:
 * torch deletes what is in it as a C++ object. */
#if defined(__x86_64__)
#define START_CALLBACK(scope, call)                                                    \
    static void **scope##_start(void **returned, const void *record)                   \
    {                                                                                  \
        call;                                                                          \
        *returned = NULL;                                                              \
        return returned;                                                               \
    }
#define START_FUNCTION(scope) ((void (*)(void))scope##_start)
#define CONVENTION_KNOWN      true
START_CALLBACK(function, op_begin(record, 0))
START_CALLBACK(backward, op_begin(record, EVENT_OP_BACKWARD))
START_CALLBACK(user, user_begin(record))
#elif defined(__aarch64__)
/* The place of the result comes in x8, which C cannot name: two instructions empty it
 * and go on with the record, which is the first argument, in x0. */
#define START_CALLBACK(scope, call)                                                    \
    __attribute__((used, visibility("hidden"))) void torch_##scope##_begin(            \
        const void *record);                                                           \
    void torch_##scope##_begin(const void *record)                                     \
    {                                                                                  \
        call;                                                                          \
    }                                                                                  \
    __attribute__((visibility("hidden"))) void torch_##scope##_start(void);            \
    __asm__(".text\n.globl torch_" #scope "_start\n.hidden torch_" #scope "_start\n"   \
            ".type torch_" #scope "_start, %function\ntorch_" #scope "_start:\n"       \
            "hint #34\nstr xzr, [x8]\nb torch_" #scope "_begin\n");
#define START_FUNCTION(scope) torch_##scope##_start
#define CONVENTION_KNOWN      true
START_CALLBACK(function, op_begin(record, 0))
START_CALLBACK(backward, op_begin(record, EVENT_OP_BACKWARD))
START_CALLBACK(user, user_begin(record))
#else
#define START_FUNCTION(scope) NULL
#define CONVENTION_KNOWN      false
#endif

static uint64_t register_callback(enum torch_scope scope, void (*start)(void),
                                  void (*end)(const void *, void *))
{
    struct torch_callback callback;

    memset(&callback, 0, sizeof(callback));
    callback.start = start;
    callback.end = end;
    callback.sampling = 1.0;
    callback.scopes[scope] = true;
    return torch.add(callback);
}

/* ---- switching
 * ----------------------------------------------------------------------- */

static const struct {
    enum torch_scope scope;
    void (*start)(void);
    void (*end)(const void *, void *);
} callbacks[] = {
    {SCOPE_FUNCTION, START_FUNCTION(function), function_end},
    {SCOPE_BACKWARD, START_FUNCTION(backward), backward_end},
    {SCOPE_USER, START_FUNCTION(user), user_end},
};
#define CALLBACKS (sizeof(callbacks) / sizeof(callbacks[0]))

static _Atomic bool wanted, forking;
static uint64_t handles[CALLBACKS]; /* under `switching`, as the next */
static bool switched_on;
static atomic_flag switching = ATOMIC_FLAG_INIT;

static bool want_ops(void)
{
    return atomic_load(&wanted) && !atomic_load(&forking);
}

/* Whoever finds another at it leaves the work to him: he looks again at the end. */
static void switch_ops(void)
{
    bool on;

    do {
        if (atomic_flag_test_and_set(&switching))
            return;
        on = want_ops();
        if (on != switched_on) {
            for (size_t i = 0; i < CALLBACKS; i++)
                if (on)
                    handles[i] = register_callback(
                        callbacks[i].scope, callbacks[i].start, callbacks[i].end);
                else
                    torch.remove(handles[i]);
            switched_on = on;
        }
        atomic_flag_clear(&switching);
    } while (want_ops() != on);
}

void torch_observer_record(uint32_t recording)
{
    if (atomic_load_explicit(&state, memory_order_relaxed) != OBSERVER_LIVE)
        return;
    atomic_store(&wanted, (recording & EVENT_STEP_OPS) != 0);
    switch_ops();
}

/* A forked child starts without callbacks, and without touching torch's mutex, which a
 * thread that the child lacks may hold. */
static void before_fork(void)
{
    atomic_store(&forking, true);
    switch_ops();
}

static void after_fork(void)
{
    atomic_store(&forking, false);
    switch_ops();
}

static void after_fork_in_child(void)
{
    atomic_store(&wanted, false);
    atomic_store(&forking, false);
    atomic_flag_clear(&switching);
}

/* ---- attaching
 * ------------------------------------------------------------------------ */

static int refuse(int error, const char *why, const char **reason)
{
    *reason = why;
    return error;
}

static bool find_torch(void)
{
    static const char *const names[] = {
        "_ZN2at17addGlobalCallbackENS_22RecordFunctionCallbackE",
        "_ZN2at14removeCallbackEm",
        "_ZNK2at14RecordFunction4nameEv",
        "_ZNK2at14RecordFunction7isAsyncEv",
    };
    void *addresses[sizeof(names) / sizeof(names[0])];
    void *library = torch_library_find("libtorch_cpu.so");

    static_assert(sizeof(addresses) == sizeof(torch), "one name per function");
    if (library == NULL)
        return false;
    for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++)
        if ((addresses[i] = torch_symbol(library, names[i])) == NULL)
            return false;
    memcpy(&torch, addresses, sizeof(torch));
    return true;
}

int torch_observer_open(uint32_t scopes, const char **reason)
{
    if (atomic_load(&state) != OBSERVER_OFF || torch.add != NULL)
        return refuse(-EALREADY, "the observer is already registered", reason);
    if (!CONVENTION_KNOWN)
        return refuse(-ENOTSUP, "this processor's calling convention is not known",
                      reason);
    if (scopes != TORCH_SCOPES)
        return refuse(-ENOTSUP, "this torch has other record scopes", reason);
    if (!find_torch())
        return refuse(-ENOENT, "this torch does not export its observer interface",
                      reason);
    test_thread = &thread_byte;
    test_calls = test_matches = 0;
    atomic_store(&state, OBSERVER_TESTING);
    test_handle = register_callback(SCOPE_USER, START_FUNCTION(user), user_end);
    return 0;
}

int torch_observer_confirm(const char **reason)
{
    if (atomic_load(&state) == OBSERVER_LIVE)
        return 0;
    if (atomic_load(&state) != OBSERVER_TESTING)
        return refuse(-EINVAL, "the self-test was not begun", reason);
    torch.remove(test_handle);
    if (test_calls != 1 || test_matches != 1) {
        atomic_store(&state, OBSERVER_OFF);
        return refuse(-EPROTO, "the self-test saw other ranges than its own", reason);
    }
    pthread_atfork(before_fork, after_fork, after_fork_in_child);
    atomic_store(&state, OBSERVER_LIVE);
    return 0;
}
