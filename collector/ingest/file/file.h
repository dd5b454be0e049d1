/* Trace files to the store: a session of its own, then every query answers from it as
 * from a live one.
 *
 *     reader ──▶ threads, device work, allocations ──▶ sorted, nested, linked
 *            ──▶ steps and phases ──▶ process_fold(), step by step
 *
 * Files are not sorted and say at their end what belongs to their beginning, so that
 * nothing is folded before the last byte: some 10 bytes for each event wait in memory
 * (track/track.h) until it is folded, and what exceeds FILE_BYTES_MAX is counted as
 * skipped and said, with the way out: a piece of the file. Definitions: a step is a
 * ProfilerStep of the training thread, else an update of the optimizer; time zero is the
 * first op, call, piece of device work or allocation.
 */
#ifndef INGEST_FILE_FILE_H
#define INGEST_FILE_FILE_H

#include <stdbool.h>
#include <stdint.h>

#include "aggregate/ops_group.h"
#include "ingest/trace/reader.h"
#include "wire/attributes.h"

struct store;
struct file_paths;

#define FILE_GROUPS_ALL   (1u << GROUP_SHAPE | 1u << GROUP_STACK | 1u << GROUP_MODULE)
#define FILE_STACK_FRAMES 5u /* as torch's group_by_stack_n in its examples */

/* 80 to 100 million events; what tells steps and phases has at most an eighth of it for
 * each of a few lists beside. */
#define FILE_BYTES_MAX (UINT64_C(1) << 30)

/* Why an event that could be read is in no table, beside the reader's own reasons. */
enum file_skip {
    FILE_SKIP_UNFINISHED, /* "finished": false: its duration means nothing */
    FILE_SKIP_DURATION,   /* negative, or longer than eleven days */
    FILE_SKIP_CATEGORY,   /* a category that we do not know, or none */
    FILE_SKIP_PAIRS,      /* a B without its E, an E without its B */
    FILE_SKIP_STRAY,      /* a time far from all others */
    FILE_SKIP_LIMIT,      /* beyond FILE_BYTES_MAX, or of too many threads */
    FILE_SKIPS,
};

const char *file_skip_text(enum file_skip skip);

/* What is in the tables, and is not all that it could be; counts of events, but for
 * launches. */
enum file_remark {
    FILE_REMARK_UNLINKED, /* launches of device work that are not in the file */
    FILE_REMARK_LOST,     /* likewise, device work of launches */
    FILE_REMARK_VALUES,   /* arguments that should be numbers and are not */
    FILE_REMARK_NAMES,    /* names beyond what the reader keeps */
    FILE_REMARK_DETAILS,  /* ops whose shapes, stack or module found no room */
    FILE_REMARK_MARKS,    /* of steps, phases, long calls, samples that found no room */
    FILE_REMARK_SEQUENCES, /* ops whose sequence number found no room */
    FILE_REMARK_DEPTH,     /* ops and calls deeper than nesting goes */
    FILE_REMARK_STREAMS,   /* work of more streams than are told apart by pointers */
    FILE_REMARKS,
};

const char *file_remark_text(enum file_remark remark);

/* Where the memory tables come from. */
enum file_memory {
    FILE_MEMORY_NONE,
    FILE_MEMORY_TOTALS, /* the allocator's own totals */
    FILE_MEMORY_DELTAS, /* summed from zero: older files do not tell totals */
};

/* Where a rank comes from that the file itself does not say. */
enum file_rank_from {
    FILE_RANK_SAID, /* by the file; or there is none */
    FILE_RANK_NAME,
    FILE_RANK_PROCESS,
};

/* One sentence, such as "its rank is that of its name"; NULL where the file says it. */
const char *file_rank_text(enum file_rank_from from);

#define FILE_SESSION_BYTES 64u

struct file_result {
    char session[FILE_SESSION_BYTES];
    char name[512]; /* as it is shown: the path, of an archive with the member's name */
    uint32_t pid;
    int32_t rank; /* -1 unknown */
    enum file_rank_from rank_from;
    bool is_array, is_gzip, is_cut;
    char error[256]; /* of the reader: one sentence, "" when all is well */
    uint64_t file_bytes, text_bytes;
    uint64_t events; /* read: taken and passed over */
    uint64_t taken;  /* in the tables */
    int64_t span_ns;
    uint64_t reader_skipped[TRACE_SKIPS], reader_offset[TRACE_SKIPS];
    uint64_t skipped[FILE_SKIPS], first_offset[FILE_SKIPS];
    bool inferred_steps; /* from the optimizer's updates */
    bool whole_step;     /* nothing tells of steps: all of the file is one */
    enum file_memory memory;
    uint64_t remarks[FILE_REMARKS];
    bool is_apart; /* in a session of its own: see file_request.twins_apart */
};

struct file_request {
    const char *path;    /* "-" is standard input */
    const char *session; /* id to be used; NULL: one is made of the path */
    const char *name;    /* shown for the path; NULL: the path's last part */
    int32_t
        rank; /* one more than the rank by names of a folder's files; 0: by its own */
    /* Where the session has this rank already, or there are ranks and the file says none,
     * the file gets one of its own, as with NULL: neither hides the other. */
    bool twins_apart;
    struct trace_options options;
    /* Gets the reader before it runs, for a progress line or to cancel; may be NULL. */
    void (*on_start)(void *user, struct trace_reader *reader);
    void (*on_end)(void *user); /* the reader is about to go; NULL where on_start is */
    /* Asked now and then while an archive is listed or gone through, when there is no reader
     * to cancel; may be NULL. */
    bool (*is_cancelled)(void *user);
    void *user;
    /* Tables of ops by shapes, stack or module: bits of 1 << enum group_by; and how many
     * frames of a stack tell one from another, 0 = FILE_STACK_FRAMES. */
    uint32_t groups, stack_frames;
    uint64_t max_bytes; /* of what waits in memory; 0 = FILE_BYTES_MAX */
    /* The tree of calls has each path's origin; or what autograd calls stands under it. */
    bool origins, link_backward;
    /* Gets the tree of calls when all was read; may be NULL. */
    void (*on_paths)(void *paths_user, const struct file_paths *paths);
    void *paths_user;
};

/* Reads what a file holds into the store, which is locked for writing piece by piece: a
 * trace; of a tar or a zip every trace in it; of a file of several processes that train, each
 * of them, for which it is read once more: up to 64 times (FILE_PROCESSES_MAX) in addition.
 * These are the ranks of one session, of an archive of one for each folder in it. `on_part`
 * gets each result with its error, from this thread, members of an archive by name. 0 when
 * something could be read, else the negative errno of the first. */
typedef void file_on_part(void *user, const struct file_result *result, int error);
MUST_CHECK int file_load_each(struct store *store, const struct file_request *request,
                              file_on_part *on_part, void *user);

/* The same for those who want the first result that is one, else the first error's. */
MUST_CHECK int file_load(struct store *store, const struct file_request *request,
                         struct file_result *result);

/* Drops the session of a file that was read, if it is still there. */
void file_forget(struct store *store, const char *session);

/* "trace_rank0.json", "rank-3.json.gz", "rank0_trace.json", "worker1.1623.pt.trace.json", and
 * "rank_1/trace.json": the number behind the word. -1 where there is none. */
int32_t file_rank_of_name(const char *path);

/* The rank of each of a folder's files by their names; of dynolog's, which have their process
 * ids there ("libkineto_activities_4711.json"), by the order of these. -1 where there is none. */
void file_ranks_of_names(const char *const *paths, uint32_t count, int32_t *ranks);

#endif
