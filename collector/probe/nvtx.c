/* Ranges of programs and libraries that speak NVTX: NVTX_INJECTION64_PATH names this
 * library, and NVTX calls InitializeInjectionNvtx2() at an object's first call of it.
 *
 * The one rule: a text is valid during the call alone, a pointer is only a hint. Ranges
 * of the default domain are the user's and always recorded; those of a named domain are
 * a library's, recorded with the ops of a step.
 */
#include "probe/nvtx.h"

#include <stdatomic.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>
#include <wchar.h>

#include "probe/core.h"
#include "probe/probe.h"
#include "wire/attributes.h"

#define OWNER     ((uint16_t)(EVENT_USER_RANGE | EVENT_RANGE_NVTX << 8))
#define TEXT_MAX  256u   /* bytes of a wide text as UTF-8 */
#define ARENA     65536u /* bytes for texts that are registered once and used for ever */
#define STARTED   256u   /* ranges of RangeStart that are open at once */
#define NO_DOMAIN ((void *)0)

static char arena[ARENA];
static _Atomic uint32_t arena_used;

struct started {
    _Atomic uint64_t id; /* 0 free; 1 being written; else what RangeStart returned */
    uint64_t start;
    uint32_t name;
    uint32_t slot; /* of the thread that opened it, + 1 */
};

static _Atomic uint32_t injected;
static struct started started[STARTED];
static _Atomic uint32_t started_next;

/* ---- texts -------------------------------------------------------------------------- */

static uint32_t put_utf8(char *text, uint32_t at, uint32_t code)
{
    if (code < 0x80) {
        text[at++] = (char)code;
    } else if (code < 0x800) {
        text[at++] = (char)(0xc0 | code >> 6);
        text[at++] = (char)(0x80 | (code & 63));
    } else if (code < 0x10000) {
        text[at++] = (char)(0xe0 | code >> 12);
        text[at++] = (char)(0x80 | (code >> 6 & 63));
        text[at++] = (char)(0x80 | (code & 63));
    } else {
        text[at++] = (char)(0xf0 | (code >> 18 & 7));
        text[at++] = (char)(0x80 | (code >> 12 & 63));
        text[at++] = (char)(0x80 | (code >> 6 & 63));
        text[at++] = (char)(0x80 | (code & 63));
    }
    return at;
}

static NEVER_INLINE const char *narrow(const wchar_t *wide, char *text)
{
    uint32_t at = 0;

    for (; wide != NULL && *wide != L'\0' && at < TEXT_MAX - 5; wide++)
        at = put_utf8(text, at, (uint32_t)*wide);
    text[at] = '\0';
    return text;
}

/* A copy that lives for ever; a full arena gives them all one name. */
static void *keep(const char *text)
{
    static char full[] = "(registered)";
    size_t length = text != NULL ? strlen(text) + 1 : 0;

    if (length == 0 || length > NAME_BYTES_MAX)
        return full;
    uint32_t at =
        atomic_fetch_add_explicit(&arena_used, (uint32_t)length, memory_order_relaxed);

    if (at > ARENA - length) {
        atomic_store_explicit(&arena_used, ARENA, memory_order_relaxed);
        return full;
    }
    return memcpy(arena + at, text, length);
}

/* The text of an event; `text` is room for a wide one. */
static const char *message_of(const struct nvtx_attributes *event, char *text)
{
    if (event == NULL || event->size < sizeof(*event) || event->message == NULL)
        return "";
    switch (event->message_type) {
    case NVTX_ASCII:
    case NVTX_REGISTERED: /* the pointer that keep() gave */
        return event->message;
    case NVTX_UNICODE:
        return narrow(event->message, text);
    default:
        return "";
    }
}

/* ---- ranges --------------------------------------------------------------------------- */

/* Any push; `self` NULL: not entered yet. */
static __attribute__((noinline)) int push_any(struct probe_thread *self,
                                              const char *text, bool record)
{
    self = self != NULL ? self : probe_enter_or_start();
    if (UNLIKELY(self == NULL))
        return -1;
    uint32_t id = probe_name_cached(self, text != NULL ? text : "");
    uint64_t start = record ? probe_thread_ticks(self) : 0;

    probe_range_open(self, EVENT_META(id, EVENT_USER_RANGE, EVENT_RANGE_NVTX, 0),
                     start);
    int depth = (int)self->depth - 1;

    probe_leave(self);
    return depth;
}

/* Nearly every push: a short text that is known, few open ranges. No call in it, so
 * that nothing is saved: 60 instructions find room beside one clock read, no more. */
ALWAYS_INLINE int push(const char *text, bool record)
{
    struct probe_thread *self = probe_enter_quick();

    if (UNLIKELY(self == NULL || text == NULL))
        return push_any(self, text, record);
    const struct probe_name_entry *entry = probe_name_entry(self, text);
    uint32_t depth = self->depth;

    if (UNLIKELY(depth >= WIRE_OPEN_RANGES || entry->text != text ||
                 entry->length >= 16 || !probe_name_head(entry, text)))
        return push_any(self, text, record);
    uint64_t meta = EVENT_META(entry->id, EVENT_USER_RANGE, EVENT_RANGE_NVTX, 0);
    uint64_t start = record ? clock_ticks(true) : 0;

    probe_range_open(self, meta, start);
    probe_leave(self);
    return (int)depth;
}

static __attribute__((noinline)) int pop_any(struct probe_thread *self)
{
    self = self != NULL ? self : probe_enter();
    if (UNLIKELY(self == NULL))
        return -1;
    bool closed = probe_range_close(self, OWNER, 0) != 0;
    int depth = (int)self->depth;

    probe_leave(self);
    return closed ? depth : -1;
}

/* Nearly every pop: what is innermost is NVTX's. */
static int pop(void)
{
    struct probe_thread *self = probe_enter_quick();

    if (UNLIKELY(self == NULL))
        return pop_any(self);
    uint32_t top = self->depth - 1;

    uint64_t meta = probe_range_meta(self, top);

    if (UNLIKELY(PROBE_RANGE_OWNER(meta) != OWNER))
        return pop_any(self);
    probe_range_finish(self, top, OWNER,
                       (struct event){.time = clock_ticks(true), .meta = meta});
    probe_leave(self);
    return (int)top;
}

static bool library_wanted(const void *domain)
{
    return domain == NO_DOMAIN || (probe_recording() & EVENT_STEP_OPS) != 0;
}

static void mark(const char *text)
{
    struct probe_thread *self = probe_enter_or_start();

    if (self == NULL)
        return;
    uint32_t id = probe_name_cached(self, text);

    probe_write_counted(self,
                        (struct event){probe_thread_ticks(self), 0,
                                       EVENT_META(id, EVENT_MARK, EVENT_MARK_USER, 0), 0},
                        PROBE_COUNT_NVTX);
    probe_leave(self);
}

/* RangeStart and RangeEnd may happen on two threads: a small table of their own. */
static uint64_t start(const char *text)
{
    struct probe_thread *self = probe_enter_or_start();

    if (self == NULL)
        return 0;
    uint64_t id = 0;

    for (uint32_t tries = 0; tries < STARTED && id == 0; tries++) {
        uint32_t next =
            atomic_fetch_add_explicit(&started_next, 1, memory_order_relaxed);
        struct started *one = &started[next % STARTED];
        uint64_t free_id = 0;

        /* Acquire: pairs with the release of 0 in end(). */
        if (!atomic_compare_exchange_strong_explicit(
                &one->id, &free_id, 1, memory_order_acquire, memory_order_relaxed))
            continue;
        id = ((uint64_t)next << 32 | next % STARTED) + 2;
        one->start = probe_thread_ticks(self);
        one->name = probe_name_cached(self, text);
        one->slot = self->index + 1;
        /* Release: pairs with the acquire in end(). */
        atomic_store_explicit(&one->id, id, memory_order_release);
    }
    probe_leave(self);
    if (id == 0)
        probe_capability_lost(WIRE_SOURCE_NVTX, 1);
    return id;
}

static void end(uint64_t id)
{
    struct probe_thread *self = id >= 2 ? probe_enter() : NULL;

    if (self == NULL)
        return;
    struct started *one = &started[(uint32_t)(id - 2) % STARTED];

    if (atomic_load_explicit(&one->id, memory_order_acquire) == id) {
        uint64_t now = probe_thread_ticks(self);
        uint32_t slot = one->slot == self->index + 1 ? 0 : one->slot;

        probe_write_counted(
            self,
            (struct event){one->start, now - one->start,
                           EVENT_META(one->name, EVENT_USER_RANGE,
                                      EVENT_RANGE_NVTX | EVENT_RANGE_ASYNC, 0),
                           slot},
            PROBE_COUNT_NVTX);
        atomic_store_explicit(&one->id, 0, memory_order_release);
    }
    probe_leave(self);
}

/* ---- NVTX's own signatures --------------------------------------------------------------- */

static int push_a(const char *text)
{
    return push(text, true);
}

static int push_w(const wchar_t *wide)
{
    char text[TEXT_MAX];

    return push(narrow(wide, text), true);
}

static int push_ex(const struct nvtx_attributes *event)
{
    char text[TEXT_MAX];

    return push(message_of(event, text), true);
}

static int domain_push_ex(void *domain, const struct nvtx_attributes *event)
{
    char text[TEXT_MAX];

    return push(message_of(event, text), library_wanted(domain));
}

static int domain_pop(void *domain)
{
    (void)domain;
    return pop();
}

static void mark_a(const char *text)
{
    mark(text != NULL ? text : "");
}

static void mark_w(const wchar_t *wide)
{
    char text[TEXT_MAX];

    mark(narrow(wide, text));
}

static void mark_ex(const struct nvtx_attributes *event)
{
    char text[TEXT_MAX];

    mark(message_of(event, text));
}

static void domain_mark_ex(void *domain, const struct nvtx_attributes *event)
{
    if (library_wanted(domain))
        mark_ex(event);
}

static uint64_t start_a(const char *text)
{
    return start(text != NULL ? text : "");
}

static uint64_t start_w(const wchar_t *wide)
{
    char text[TEXT_MAX];

    return start(narrow(wide, text));
}

static uint64_t start_ex(const struct nvtx_attributes *event)
{
    char text[TEXT_MAX];

    return start(message_of(event, text));
}

static uint64_t domain_start_ex(void *domain, const struct nvtx_attributes *event)
{
    return library_wanted(domain) ? start_ex(event) : 0;
}

static void domain_end(void *domain, uint64_t id)
{
    (void)domain;
    end(id);
}

static void name_thread_a(uint32_t tid, const char *name)
{
    if (name != NULL && tid == (uint32_t)syscall(SYS_gettid))
        probe_thread_name(name);
}

static void *register_a(void *domain, const char *text)
{
    (void)domain;
    return keep(text);
}

static void *register_w(void *domain, const wchar_t *wide)
{
    char text[TEXT_MAX];

    (void)domain;
    return keep(narrow(wide, text));
}

static void *create_a(const char *name)
{
    return keep(name);
}

static void *create_w(const wchar_t *wide)
{
    char text[TEXT_MAX];

    return keep(narrow(wide, text));
}

/* ---- injection ------------------------------------------------------------------------- */

struct row {
    enum nvtx_module module;
    unsigned index;
    nvtx_function function;
};

static const struct row rows[] = {
    {NVTX_CORE, NVTX_MARK_EX, (nvtx_function)mark_ex},
    {NVTX_CORE, NVTX_MARK_A, (nvtx_function)mark_a},
    {NVTX_CORE, NVTX_MARK_W, (nvtx_function)mark_w},
    {NVTX_CORE, NVTX_RANGE_START_EX, (nvtx_function)start_ex},
    {NVTX_CORE, NVTX_RANGE_START_A, (nvtx_function)start_a},
    {NVTX_CORE, NVTX_RANGE_START_W, (nvtx_function)start_w},
    {NVTX_CORE, NVTX_RANGE_END, (nvtx_function)end},
    {NVTX_CORE, NVTX_RANGE_PUSH_EX, (nvtx_function)push_ex},
    {NVTX_CORE, NVTX_RANGE_PUSH_A, (nvtx_function)push_a},
    {NVTX_CORE, NVTX_RANGE_PUSH_W, (nvtx_function)push_w},
    {NVTX_CORE, NVTX_RANGE_POP, (nvtx_function)pop},
    {NVTX_CORE, NVTX_NAME_THREAD_A, (nvtx_function)name_thread_a},
    {NVTX_CORE2, NVTX_DOMAIN_MARK_EX, (nvtx_function)domain_mark_ex},
    {NVTX_CORE2, NVTX_DOMAIN_RANGE_START_EX, (nvtx_function)domain_start_ex},
    {NVTX_CORE2, NVTX_DOMAIN_RANGE_END, (nvtx_function)domain_end},
    {NVTX_CORE2, NVTX_DOMAIN_RANGE_PUSH_EX, (nvtx_function)domain_push_ex},
    {NVTX_CORE2, NVTX_DOMAIN_RANGE_POP, (nvtx_function)domain_pop},
    {NVTX_CORE2, NVTX_DOMAIN_REGISTER_STRING_A, (nvtx_function)register_a},
    {NVTX_CORE2, NVTX_DOMAIN_REGISTER_STRING_W, (nvtx_function)register_w},
    {NVTX_CORE2, NVTX_DOMAIN_CREATE_A, (nvtx_function)create_a},
    {NVTX_CORE2, NVTX_DOMAIN_CREATE_W, (nvtx_function)create_w},
};

bool probe_nvtx_injected(void)
{
    return atomic_load_explicit(&injected, memory_order_relaxed) != 0;
}

/* Always 1: on 0 NVTX would unload us. */
EXPORTED int InitializeInjectionNvtx2(nvtx_export_table *get_export_table)
{
    const struct nvtx_callbacks *callbacks =
        get_export_table != NULL ? get_export_table(NVTX_TABLE_CALLBACKS) : NULL;

    if (callbacks == NULL || callbacks->struct_bytes < sizeof(*callbacks) ||
        callbacks->module_table == NULL)
        return 1;
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        nvtx_function **table = NULL;
        unsigned size = 0;

        if (callbacks->module_table(rows[i].module, &table, &size) != 1 ||
            table == NULL || rows[i].index >= size || table[rows[i].index] == NULL)
            continue;
        *table[rows[i].index] = rows[i].function;
    }
    atomic_store_explicit(&injected, 1, memory_order_relaxed);
    probe_capability(WIRE_SOURCE_NVTX, WIRE_STATE_ACTIVE, NULL, "injection");
    return 1;
}
