/* Ranks by the names of files, for traces that do not say theirs. */
#ifndef INGEST_FILE_RANKS_H
#define INGEST_FILE_RANKS_H

#include <stdint.h>

/* "trace_rank0.json", "rank-3.json.gz", "rank0_trace.json", "worker1.1623.pt.trace.json", and
 * "rank_1/trace.json": the number behind the word. -1 where there is none. */
int32_t file_rank_of_name(const char *path);

/* The rank of each of a folder's files by their names; of dynolog's, which have their process
 * ids there ("libkineto_activities_4711.json"), by the order of these. -1 where there is none. */
void file_ranks_of_names(const char *const *paths, uint32_t count, int32_t *ranks);

#endif
