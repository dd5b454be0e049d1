/* Stamps far from all others: a clock that was read before it was set, a field that was never
 * filled. A few such events would make the file's span of years; they are left out of it, and
 * counted. */
#include <stdlib.h>

#include "ingest/file/parts.h"

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

struct file_cluster *file_cluster_of(struct file *file, int64_t time_ns)
{
    for (uint32_t i = 0; i < file->cluster_count; i++)
        if (touches(&file->clusters[i], time_ns))
            return &file->clusters[file->cluster = i];
    /* The last one takes what finds no room. */
    if (file->cluster_count < FILE_CLUSTERS_MAX)
        file->clusters[file->cluster_count++] =
            (struct file_cluster){.from_ns = time_ns, .to_ns = time_ns};
    return &file->clusters[file->cluster = file->cluster_count - 1];
}

static int by_count(const void *left, const void *right)
{
    const struct file_cluster *a = left, *b = right;

    return a->count > b->count ? -1 : a->count < b->count;
}

static bool is_far(const struct file *file, const struct file_cluster *cluster)
{
    int64_t span_ns = file->to_ns - file->from_ns;
    int64_t away_ns = cluster->from_ns > file->to_ns ? cluster->from_ns - file->to_ns
                                                     : file->from_ns - cluster->to_ns;

    return away_ns > FILE_CLUSTER_NS && away_ns / FAR_TIMES > span_ns;
}

static void join(struct file *file, const struct file_cluster *cluster)
{
    file->from_ns = cluster->from_ns < file->from_ns ? cluster->from_ns : file->from_ns;
    file->to_ns = cluster->to_ns > file->to_ns ? cluster->to_ns : file->to_ns;
}

/* Of those that are far and few, in the order of their counts: the first that is not. */
static uint32_t first_stray(const struct file *file, uint64_t all)
{
    uint64_t few = all / STRAYS_IN > 0 ? all / STRAYS_IN : 1, strays = 0;
    uint32_t first = file->cluster_count;

    while (first > 1 && file->clusters[first - 1].count <= few &&
           (strays + file->clusters[first - 1].count) * STRAYS_ALL_IN <= all)
        strays += file->clusters[--first].count;
    return first;
}

void file_leave_strays(struct file *file)
{
    struct file_result *result = file->result;
    uint64_t all = 0;

    qsort(file->clusters, file->cluster_count, sizeof(file->clusters[0]), by_count);
    for (uint32_t i = 0; i < file->cluster_count; i++)
        all += file->clusters[i].count;
    uint32_t first = first_stray(file, all);

    for (uint32_t i = 0; i < first; i++)
        join(file, &file->clusters[i]);
    for (uint32_t i = first; i < file->cluster_count; i++)
        if (!is_far(file, &file->clusters[i]))
            join(file, &file->clusters[i]);
    for (uint32_t i = first; i < file->cluster_count; i++) {
        const struct file_cluster *cluster = &file->clusters[i];

        if (!is_far(file, cluster))
            continue;
        if (result->skipped[FILE_SKIP_STRAY] == 0 ||
            cluster->offset < result->first_offset[FILE_SKIP_STRAY])
            result->first_offset[FILE_SKIP_STRAY] = cluster->offset;
        result->skipped[FILE_SKIP_STRAY] += cluster->count;
        result->taken -= cluster->count;
    }
    file->keep_ns[0] = file->from_ns - FILE_CLUSTER_NS;
    file->keep_ns[1] = file->to_ns + FILE_CLUSTER_NS;
    file->has_strays = result->skipped[FILE_SKIP_STRAY] > 0;
}
