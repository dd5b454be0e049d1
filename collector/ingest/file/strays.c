/* Events far from all others are left out of the tables, and counted. */
#include "ingest/file/parts.h"

void file_leave_strays(struct file *file)
{
    struct file_result *result = file->result;
    struct file_span span;

    file_clusters_settle(&file->clusters, &span);
    file->from_ns = span.from_ns;
    file->to_ns = span.to_ns;
    if (span.strays > 0) {
        result->skipped[FILE_SKIP_STRAY] += span.strays;
        result->first_offset[FILE_SKIP_STRAY] = span.first_offset;
        result->taken -= span.strays;
    }
    file->keep_ns[0] = file->from_ns - FILE_CLUSTER_NS;
    file->keep_ns[1] = file->to_ns + FILE_CLUSTER_NS;
    file->has_strays = span.strays > 0;
}
