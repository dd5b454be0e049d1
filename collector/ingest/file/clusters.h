/* When a file's events lie, and which of them are strays: stamps far from all others, of a
 * clock that was read before it was set or a field that was never filled. A few such events
 * would make the file's span of years: who counts from its first event leaves them out. */
#ifndef INGEST_FILE_CLUSTERS_H
#define INGEST_FILE_CLUSTERS_H

#include <stdint.h>

#include "wire/attributes.h"

/* Events whose times lie no further apart than a minute. */
#define FILE_CLUSTER_NS   INT64_C(60000000000)
#define FILE_CLUSTERS_MAX 64u

struct file_cluster {
    int64_t from_ns, to_ns;
    uint64_t count, offset; /* offset: of the first in the file */
};

struct file_clusters { /* zeroed before */
    struct file_cluster list[FILE_CLUSTERS_MAX];
    uint32_t count, newest; /* newest: of the event before */
};

/* What file_clusters_settle() finds: the span without strays, and what these are. */
struct file_span {
    int64_t from_ns, to_ns; /* from_ns > to_ns: no events */
    uint64_t strays, first_offset;
};

/* The one that an event of that time is in, or begins. */
struct file_cluster *file_cluster_of(struct file_clusters *clusters, int64_t time_ns);

ALWAYS_INLINE void file_clusters_add(struct file_clusters *clusters, int64_t start_ns,
                                     int64_t end_ns, uint64_t offset)
{
    struct file_cluster *cluster = &clusters->list[clusters->newest];

    if (UNLIKELY(start_ns < cluster->from_ns - FILE_CLUSTER_NS ||
                 start_ns > cluster->to_ns + FILE_CLUSTER_NS || cluster->count == 0))
        cluster = file_cluster_of(clusters, start_ns);
    if (UNLIKELY(cluster->count++ == 0))
        cluster->offset = offset;
    cluster->from_ns = start_ns < cluster->from_ns ? start_ns : cluster->from_ns;
    cluster->to_ns = end_ns > cluster->to_ns ? end_ns : cluster->to_ns;
}

/* After the last event. */
void file_clusters_settle(struct file_clusters *clusters, struct file_span *span);

#endif
