/* The machine under the job: sampled once a second by the collector. */
#ifndef QUERY_HOST_QUERY_H
#define QUERY_HOST_QUERY_H

#include "query/answer.h"

struct host_process {
    uint32_t pid;
    int32_t rank;
    uint32_t role;    /* enum wire_role */
    double cpu_share; /* of one core, may pass 1 */
    double rss_bytes;
};

struct host_point {
    int64_t unix_ns;    /* several sessions share the machine: wall time */
    double cpu_share;   /* of all cores, 0 to 1 */
    double steal_share; /* taken by the hypervisor */
    double iowait_share;
    double job_cpu; /* cores used by the selected session's processes */
    double disk_read_bytes_per_s, disk_write_bytes_per_s;
    double net_receive_bytes_per_s, net_send_bytes_per_s;
    double throttled_share; /* of the container's periods; NaN without a limit */
    double memory_used_bytes;
};

struct host_answer {
    struct answer head;
    struct host_point now;
    double *core_share; /* per core, 0 to 1 */
    uint32_t core_count;
    struct host_process *processes; /* of the selected session, busiest first */
    uint32_t process_count;
    double cpu_limit; /* cores that the container may use; NaN unlimited */
    double memory_limit_bytes;
    const char *memory_limit_name; /* "container" or "machine" */
    struct host_point *points;     /* of the window, oldest first, at most an hour */
    uint32_t point_count;
};

MUST_CHECK int host_query(struct store *store, const struct selection *selection,
                          struct host_answer *answer);

#endif
