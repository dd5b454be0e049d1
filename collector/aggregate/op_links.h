/* Device time by the op of the host that launched it, of a live process: each op and range
 * has that of all that was launched in it, an op also that of it alone.
 *
 *     work -- correlation --> call -- thread, middle --> innermost op --> those around it
 *
 * The clocks of calls and of ops lie some us apart: a call is in what holds its middle.
 * Work waits until the source has told of a later time once more: by then calls have come
 * that went on when it was told, and what other threads did meanwhile. A step of which a
 * piece of work finds no call, or ops that are remembered no more, is none of this
 * table's, as one whose ops or work were not recorded.
 *
 * Collector's thread only.
 */
#ifndef AGGREGATE_OP_LINKS_H
#define AGGREGATE_OP_LINKS_H

#include "aggregate/device_ops.h"

#define OP_LINKS_SPANS (1u << 16) /* newest ops and ranges of a thread: 1.5 MB */
#define OP_LINKS_WORKS (1u << 18) /* that wait: 8 MB, 2 s at 100k launches a second */

struct event;
struct process;
struct process_thread;
struct op_spans;

struct op_links_work {
    int64_t start_ns, duration_ns;
    uint64_t correlation;
    uint16_t device;
};

struct op_links {
    struct device_ops table; /* rows: OPS_KERNEL, with the text of the op */
    struct op_links_work *works;
    uint32_t work_count, work_capacity;
    int64_t first_ns; /* when the first of them began; INT64_MAX none */
    int64_t told_ns; /* by the source; INT64_MIN never */
    int64_t host_ns; /* up to then the thread that tells steps is folded; likewise */
    int64_t lost_ns; /* steps that began before are none of the table's */
    /* By text: end of the newest that ended when work that it may have launched was
     * counted already; 0 none. */
    int64_t *late;
    uint32_t late_count;
    struct {
        int64_t from_ns, to_ns;
        bool known;
    } looked; /* the last step that was asked whether its ops are known */
};

MUST_CHECK bool op_links_init(struct op_links *links, const struct texts *texts,
                              size_t digest_bytes);
void op_links_free(struct op_links *links);
void op_spans_free(struct op_spans *spans);

/* What a thread's ring tells, once the source has told of anything: also up to when. */
void op_links_fold(struct process *process, struct process_thread *thread,
                   const struct event *events, uint32_t count);

/* A step ended. */
void op_links_end(struct op_links *links, const struct step *step);

/* No more comes. */
void op_links_finish(struct process *process);

/* Is the device time of ops of that name since then known, as far as the table goes? Of
 * one that lasts longer than work waits it is not. */
bool op_links_knows(const struct op_links *links, uint32_t text, int64_t since_ns);

#endif
