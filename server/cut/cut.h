/* A piece of a trace file as a trace of its own: what `trainglass cut` writes.
 *
 *     file ──▶ plan: steps, launches, the first event ──▶ range
 *     file ──▶ weigh, where the size is bounded       ──▶ an earlier end of the range
 *     file ──▶ copy: every event of the range as it stood, metadata, top-level keys
 *
 * A range needs the first reading: sections of a file stand in any order, times count from
 * the earliest event, which may be the last one, and a kernel goes with its launch, which may
 * stand on either side of it. Categories alone need none.
 *
 * What begins in the range belongs to it, and so does device work that was launched in
 * it, the later end of a flow that began in it, and a Python frame that reaches into it.
 */
#ifndef CUT_H
#define CUT_H

#include "cut/output_file.h"
#include "ingest/trace/reader.h"

enum cut_range {
    CUT_WHOLE,
    CUT_STEPS, /* a, b: numbers of ProfilerStep, inclusive */
    CUT_TIME,  /* a, b: ns since the first event, b exclusive */
};

struct cut_request {
    const char *path; /* "-" and FIFOs only where cut_is_one_pass() */
    enum cut_range range;
    int64_t a, b;
    uint32_t categories; /* bits of enum trace_category; 0: all */
    uint64_t max_bytes;  /* of the output; 0: no bound */
    uint64_t plan_bytes; /* of memory, for what the first reading keeps; 0: 1 GiB */
    /* Get each reader before it runs and before it goes; may be NULL. */
    void (*on_start)(void *user, struct trace_reader *reader);
    void (*on_end)(void *user);
    void *user;
};

struct cut_result {
    uint64_t events; /* of the file that could be read, without metadata */
    uint64_t kept;
    uint64_t skipped; /* could not be read, or be made valid */
    uint64_t keys_left_out;
    uint64_t steps_kept; /* of those asked for; 0 where there are none */
    uint64_t steps_left_out;
    int64_t
        until_ns; /* since the first event: where a bounded size ended it, else -1 */
    uint64_t first_left_out; /* number of the first step left out */
    char error[256];         /* one sentence about the file; after success, a remark */
    bool output_failed;      /* the error is the output's */
};

/* Can the answer be given while the file is read once? */
bool cut_is_one_pass(const struct cut_request *request);

/* Writes into `output`, which is neither finished nor kept when it fails. 0, or a
 * negative errno with its sentence in result->error: -ESRCH when steps are asked for and
 * the file numbers none. */
MUST_CHECK int cut_write(const struct cut_request *request, struct output_file *output,
                         struct cut_result *result);

#endif
