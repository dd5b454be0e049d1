#include "ingest/file/clusters.h"

#include <stdbool.h>
#include <stdlib.h>

/* No recording pauses for a thousand times as long as it records. */
#define FAR_TIMES 1000

/* Of all events, at most one in so many is a stray of one place, but for a single one; and
 * one in so many of all places. */
#define STRAYS_IN     50u
#define STRAYS_ALL_IN 4u

static bool touches(const struct file_cluster *cluster, int64_t time_ns)
{
    return time_ns >= cluster->from_ns - FILE_CLUSTER_NS &&
           time_ns <= cluster->to_ns + FILE_CLUSTER_NS;
}

struct file_cluster *file_cluster_of(struct file_clusters *clusters, int64_t time_ns)
{
    for (uint32_t i = 0; i < clusters->count; i++)
        if (touches(&clusters->list[i], time_ns))
            return &clusters->list[clusters->newest = i];
    /* The last one takes what finds no room. */
    if (clusters->count < FILE_CLUSTERS_MAX)
        clusters->list[clusters->count++] =
            (struct file_cluster){.from_ns = time_ns, .to_ns = time_ns};
    return &clusters->list[clusters->newest = clusters->count - 1];
}

static int by_count(const void *left, const void *right)
{
    const struct file_cluster *a = left, *b = right;

    return a->count > b->count ? -1 : a->count < b->count;
}

static bool is_far(const struct file_span *span, const struct file_cluster *cluster)
{
    int64_t span_ns = span->to_ns - span->from_ns;
    int64_t away_ns = cluster->from_ns > span->to_ns ? cluster->from_ns - span->to_ns
                                                     : span->from_ns - cluster->to_ns;

    return away_ns > FILE_CLUSTER_NS && away_ns / FAR_TIMES > span_ns;
}

static void join(struct file_span *span, const struct file_cluster *cluster)
{
    span->from_ns = cluster->from_ns < span->from_ns ? cluster->from_ns : span->from_ns;
    span->to_ns = cluster->to_ns > span->to_ns ? cluster->to_ns : span->to_ns;
}

/* Of those that are far and few, in the order of their counts: the first that is not. */
static uint32_t first_stray(const struct file_clusters *clusters)
{
    uint64_t all = 0, strays = 0;
    uint32_t first = clusters->count;

    for (uint32_t i = 0; i < clusters->count; i++)
        all += clusters->list[i].count;
    uint64_t few = all / STRAYS_IN > 0 ? all / STRAYS_IN : 1;

    while (first > 1 && clusters->list[first - 1].count <= few &&
           (strays + clusters->list[first - 1].count) * STRAYS_ALL_IN <= all)
        strays += clusters->list[--first].count;
    return first;
}

void file_clusters_settle(struct file_clusters *clusters, struct file_span *span)
{
    *span = (struct file_span){.from_ns = INT64_MAX, .to_ns = INT64_MIN};
    qsort(clusters->list, clusters->count, sizeof(clusters->list[0]), by_count);
    uint32_t first = first_stray(clusters);

    for (uint32_t i = 0; i < first; i++)
        join(span, &clusters->list[i]);
    for (uint32_t i = first; i < clusters->count; i++)
        if (!is_far(span, &clusters->list[i]))
            join(span, &clusters->list[i]);
    for (uint32_t i = first; i < clusters->count; i++) {
        const struct file_cluster *cluster = &clusters->list[i];

        if (!is_far(span, cluster))
            continue;
        if (span->strays == 0 || cluster->offset < span->first_offset)
            span->first_offset = cluster->offset;
        span->strays += cluster->count;
    }
}
