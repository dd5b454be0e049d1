/* One event of a trace file, plain: what the file said, not yet what it means.
 *
 * Nothing is linked, nested, sorted or guessed here; only spelling is gone: every era's
 * word for a category is one value, a thread is the same whether written 25738 or
 * "25738", a stamp is ns whatever its text. A field counts only when its bit is in
 * `has`; else it is 0.
 */
#ifndef INGEST_TRACE_EVENT_H
#define INGEST_TRACE_EVENT_H

#include <stdint.h>

/* What `cat` says, in lower case. */
enum trace_category {
    TRACE_NO_CATEGORY,         /* metadata, `[memory]` and marks of 2021 */
    TRACE_OTHER,               /* a word that we do not know: see `category_name` */
    TRACE_CPU_OP,              /* cpu_op, Operator */
    TRACE_USER_ANNOTATION,     /* user_annotation */
    TRACE_GPU_USER_ANNOTATION, /* gpu_user_annotation: the same range on the device */
    TRACE_RUNTIME,             /* cuda_runtime, Runtime, xpu_, mtia_, privateuse1_... */
    TRACE_DRIVER,              /* cuda_driver, xpu_driver ... */
    TRACE_KERNEL,              /* kernel, hpu_op, mtia_ccp_events */
    TRACE_MEMCPY,              /* gpu_memcpy, Memcpy */
    TRACE_MEMSET,              /* gpu_memset, Memset */
    TRACE_SYNC,                /* cuda_sync, xpu_sync ...: on the device's streams */
    TRACE_LAUNCH_FLOW,         /* ac2g, async_cpu_to_gpu, async: launch to kernel */
    TRACE_FORWARD_FLOW,        /* fwdbwd: forward op to its backward */
    TRACE_OVERHEAD,            /* overhead: of the profiler itself */
    TRACE_PYTHON_FUNCTION,     /* python_function */
    TRACE_CPU_INSTANT,         /* cpu_instant_event: `[memory]`, OOM marks */
    TRACE_SPAN,                /* Trace: one event as long as the recording */
    TRACE_COLLECTIVE,          /* collective_comm */
    TRACE_CATEGORIES
};

/* Bits of trace_event.has. */
#define TRACE_HAS_TIME             (UINT64_C(1) << 0)
#define TRACE_HAS_DURATION         (UINT64_C(1) << 1)
#define TRACE_HAS_FLOW             (UINT64_C(1) << 2) /* `id` */
#define TRACE_HAS_CORRELATION      (UINT64_C(1) << 3)
#define TRACE_HAS_EXTERNAL_ID      (UINT64_C(1) << 4)
#define TRACE_HAS_DEVICE           (UINT64_C(1) << 5)
#define TRACE_HAS_STREAM           (UINT64_C(1) << 6)
#define TRACE_HAS_CONTEXT          (UINT64_C(1) << 7)
#define TRACE_HAS_BYTES            (UINT64_C(1) << 8)
#define TRACE_HAS_TOTAL_ALLOCATED  (UINT64_C(1) << 9)
#define TRACE_HAS_TOTAL_RESERVED   (UINT64_C(1) << 10)
#define TRACE_HAS_ADDRESS          (UINT64_C(1) << 11)
#define TRACE_HAS_DEVICE_TYPE      (UINT64_C(1) << 12)
#define TRACE_HAS_DEVICE_ID        (UINT64_C(1) << 13)
#define TRACE_HAS_GRID             (UINT64_C(1) << 14) /* all three numbers */
#define TRACE_HAS_BLOCK            (UINT64_C(1) << 15) /* all three numbers */
#define TRACE_HAS_REGISTERS        (UINT64_C(1) << 16)
#define TRACE_HAS_SHARED_MEMORY    (UINT64_C(1) << 17)
#define TRACE_HAS_OCCUPANCY        (UINT64_C(1) << 18)
#define TRACE_HAS_SEQUENCE         (UINT64_C(1) << 19)
#define TRACE_HAS_FORWARD_THREAD   (UINT64_C(1) << 20)
#define TRACE_HAS_PYTHON_ID        (UINT64_C(1) << 21)
#define TRACE_HAS_PYTHON_PARENT_ID (UINT64_C(1) << 22) /* not where it is None */
#define TRACE_HAS_PYTHON_MODULE_ID (UINT64_C(1) << 23)
/* Two that are said by the bit alone. */
#define TRACE_UNFINISHED      (UINT64_C(1) << 24) /* "finished": false */
#define TRACE_BINDS_ENCLOSING (UINT64_C(1) << 25) /* "bp": "e" */
/* args.stream is a pointer ("0x7f3a5c0012b0"), in `address`, and `stream` is 0. */
#define TRACE_HAS_STREAM_ADDRESS (UINT64_C(1) << 26)

/* Times are ns as the file counts them: since trace_head.base_time_ns, which may stand
 * at the end of the file. Texts are ids of trace_names; 0 where the file has none. */
struct trace_event {
    uint64_t has;
    int64_t time_ns;
    int64_t duration_ns; /* may be negative or absurd: as the file says */
    uint32_t name;
    uint32_t pid, tid;
    uint32_t category_name; /* `cat` as written */
    uint8_t category;       /* enum trace_category */
    char phase;             /* `ph`; '\0' never: such an event is skipped */
    char scope;             /* `s`; '\0' without */
    uint8_t reserved;
    int32_t device, stream; /* args.device, args.stream; out of range: absent */
    int32_t context;
    uint64_t flow;       /* `id` as a number; of other text, a hash of it */
    int64_t correlation; /* args.correlation */
    int64_t external_id; /* args.External id, args.external id */
    int64_t bytes;       /* args.bytes, args.Bytes: negative when freed */
    int64_t total_allocated_bytes, total_reserved_bytes;
    uint64_t address;
    int32_t device_type, device_id; /* of `[memory]`: 0 CPU, 1 CUDA ... */
    uint32_t grid[3], block[3];
    uint32_t registers; /* per thread */
    uint32_t shared_memory_bytes;
    float occupancy_pct;
    uint32_t shapes, types; /* args.Input Dims, Input type, white space taken out */
    uint32_t stack;         /* args.Call stack */
    uint32_t module;        /* args.Module Hierarchy */
    uint32_t collective;    /* args.Collective name */
    int64_t sequence;       /* args.Sequence number */
    int64_t forward_thread; /* args.Fwd thread id */
    int64_t python_id, python_parent_id, python_module_id;

    /* Into the file's own bytes, valid until the callback returns. */
    const char *text; /* the whole event, from its brace to its brace */
    uint32_t length;
    uint32_t args_at, args_length; /* its `args` object in `text`; length 0 without */
    uint64_t offset;               /* of `text` in the (inflated) file */
};

#endif
