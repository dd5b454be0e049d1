/* Reads a trace file of PyTorch (Kineto, Chrome's format) as a stream of plain events.
 *
 *     path, -, FIFO ──▶ source: read, inflate ──▶ blocks ──▶ scan ──▶ parse ──▶ on_batch
 *                       (a thread of its own)                (the caller's thread)
 *
 * Where the caller's thread has fallen behind, the other reads events ahead of it
 * (parse/ahead.h): two cores are busy alike, and what comes out is the same.
 *
 * One pass, bounded memory, any bytes: what cannot be read is counted with its reason
 * and first offset, and reading goes on at the next thing that looks like an event. The
 * rule: fewer events than the file has is never silent.
 */
#ifndef INGEST_TRACE_READER_H
#define INGEST_TRACE_READER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "ingest/trace/event.h"
#include "ingest/trace/names.h"
#include "wire/attributes.h"

/* The longest event that is read; the longest of real traces has 5.4 KB. */
#define TRACE_EVENT_BYTES_MAX (1u << 20)
/* Events in one batch, at most. */
#define TRACE_BATCH 256u

/* Why an event was skipped. */
enum trace_skip {
    TRACE_SKIP_SYNTAX,   /* no JSON: unescaped quotes, damaged bytes */
    TRACE_SKIP_NO_PHASE, /* no `ph` of one character */
    TRACE_SKIP_NO_TIME,  /* no `ts` where there must be one */
    TRACE_SKIP_TIME,     /* `ts` or `dur` is no number (NaN, N/A) or beyond int64 ns */
    TRACE_SKIP_NO_DURATION, /* `ph` X without `dur` */
    TRACE_SKIP_LONG,        /* longer than TRACE_EVENT_BYTES_MAX */
    TRACE_SKIP_NO_OBJECT,   /* something else stood in the list of events */
    TRACE_SKIP_CUT,         /* the file ended in the middle of it */
    TRACE_SKIPS
};

/* "unescaped quotes or damaged bytes" and the like: goes behind "12 events skipped: ". */
const char *trace_skip_text(enum trace_skip skip);

/* Which of the equal ways to look at bytes; tests compare them. */
enum trace_scan_kind {
    TRACE_SCAN_BEST, /* what this machine has */
    TRACE_SCAN_SCALAR,
    TRACE_SCAN_AVX2,
    TRACE_SCAN_AVX512,
};

struct trace_options {
    bool one_thread;           /* the caller's; so too where one processor is all */
    bool always_ahead;         /* as if the caller's thread were always behind */
    bool shapes;               /* fill trace_event.shapes, types */
    bool stacks;               /* fill trace_event.stack, module */
    enum trace_scan_kind scan; /* one that is not here: the best */
};

/* One of the other keys of the top-level object, as it stands in the file. */
struct trace_span {
    const char *key, *value; /* key without quotes; value with, NUL behind both */
    size_t key_length, length;
    uint64_t offset; /* of the key's quote */
    bool cut;        /* the value was too long to be kept; `length` bytes were */
};

#define TRACE_SPANS_MAX      256u
#define TRACE_SPAN_BYTES_MAX ((size_t)256 * 1024)  /* of one value */
#define TRACE_HEAD_BYTES_MAX ((size_t)1024 * 1024) /* of all of them */

/* What stands around the events, at either end of the file. Complete after
 * trace_reader_run(); in the callback, what came before. */
struct trace_head {
    const struct trace_span *spans; /* in the file's order; a later key wins */
    uint32_t span_count;
    uint64_t spans_left_out;  /* beyond a limit */
    bool is_array;            /* the top level is a bare list of events */
    bool has_base_time;       /* `baseTimeNanoseconds` */
    int64_t base_time_ns;     /* to be added to every stamp; 0 without */
    bool display_in_ns;       /* `displayTimeUnit` is "ns" */
    bool has_rank;            /* `distributedInfo` */
    int64_t rank, world_size; /* 0 without */
};

/* What became of the file. Counts are exact. */
struct trace_report {
    uint64_t file_bytes; /* read from the file */
    uint64_t text_bytes; /* of JSON, after inflating */
    uint64_t events;     /* given to the callback */
    uint64_t skipped[TRACE_SKIPS];
    uint64_t first_offset[TRACE_SKIPS]; /* in the JSON; of the first of each reason */
    uint64_t lists;             /* of those that are no object, how many are a list */
    uint64_t values_unreadable; /* arguments that should be numbers and are not */
    uint64_t names_refused;     /* texts of events that are TRACE_NAMES_OTHER */
    bool is_gzip;
    bool is_cut;     /* the JSON or the gzip ended early, or a read failed */
    char error[256]; /* one sentence; of the first thing wrong with the file, else "" */
};

/* Bytes that are neither a file nor memory, such as a member of an archive. */
struct trace_source {
    /* Up to `size` bytes, from any thread but one at a time; 0 at the end, or a negative
     * errno. Adds to *packed_bytes how much of a file was read for them. NULL: no source. */
    ssize_t (*read)(void *user, void *to, size_t size, uint64_t *packed_bytes);
    void *user;
};

/* Text that a second reading of a file may leave out. Offsets in the text, as trace_event.offset: each of an event that the first reading
 * gave, and no key of the top level in between. */
struct trace_hole {
    uint64_t from, to; /* from < to <= the next one's from */
};

struct trace_reader;

/* The event's texts are in trace_reader_names(). False ends the reading: the run then
 * returns -ECANCELED. The batch is the callee's to change. */
typedef bool trace_on_batch(void *user, struct trace_event *events, uint32_t count);

/* NULL when out of memory. `options` may be NULL: both ends on their own threads,
 * neither shapes nor stacks. */
struct trace_reader *trace_reader_new(const struct trace_options *options);
void trace_reader_free(struct trace_reader *reader);

/* Opens a file, a FIFO or "-" for standard input, or takes a descriptor (that stays the
 * caller's). 0 or a negative errno, with the sentence in the report. */
MUST_CHECK int trace_reader_open(struct trace_reader *reader, const char *path);
MUST_CHECK int trace_reader_open_descriptor(struct trace_reader *reader,
                                            int descriptor);
/* Reads bytes that the caller keeps until the run is over. */
MUST_CHECK int trace_reader_open_bytes(struct trace_reader *reader, const void *bytes,
                                       size_t size);

/* Reads what a source gives, from the reader's own thread, until the run is over. */
void trace_reader_open_source(struct trace_reader *reader,
                              const struct trace_source *source);

/* Of a plain file on disk these are not read; of others they may be. Offsets are then
 * as if they were not there. A file with holes was read before and is a trace, also where
 * nothing of what is left can be read. Borrowed until the run is over. */
void trace_reader_leave_out(struct trace_reader *reader, const struct trace_hole *holes,
                            uint32_t count);

/* Reads all of it, once, and calls back from this thread. 0 when something could be
 * read, however little (see the report); else a negative errno and report.error:
 * -ENODATA empty, -EBADMSG no trace, -EIO and others from reading, -ENOMEM. */
MUST_CHECK int trace_reader_run(struct trace_reader *reader, trace_on_batch *on_batch,
                                void *user);

/* Valid until trace_reader_free(). */
struct trace_names *trace_reader_names(struct trace_reader *reader);
const struct trace_head *trace_reader_head(const struct trace_reader *reader);
const struct trace_report *trace_reader_report(const struct trace_reader *reader);
uint64_t trace_reader_skipped(const struct trace_reader *reader); /* all reasons */

/* The value of a top-level key as it stands in the file; NULL when there is none. */
const struct trace_span *trace_reader_span(const struct trace_reader *reader,
                                           const char *key);

/* How far it is, for a progress line; from any thread. `of` is 0 when not known. */
void trace_reader_position(const struct trace_reader *reader, uint64_t *file_bytes,
                           uint64_t *of);

/* From any thread or a signal handler: the run ends soon with -ECANCELED. */
void trace_reader_cancel(struct trace_reader *reader);

#endif
