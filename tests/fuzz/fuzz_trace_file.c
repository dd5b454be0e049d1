/* Events of any kind to tables: whatever a file says, the tables hold together. */
#include <math.h>
#include <string.h>

#include "aggregate/store.h"
#include "fuzz.h"
#include "ingest/file/file.h"
#include "ingest/file/paths.h"
#include "query/bottlenecks_query.h"
#include "query/ranks_query.h"

static void check_paths(void *user, const struct file_paths *paths)
{
    uint32_t names = trace_names_count(paths->names);

    *(bool *)user = true;
    for (uint32_t i = 1; i < paths->count; i++) {
        demand(paths->list[i].parent < i && paths->list[i].name < names);
        demand(paths->list[i].kind <= FILE_PATH_CALL);
    }
}

static void check_gpu(const struct gpu_answer *gpu)
{
    for (uint32_t i = 0; i < gpu->device_count; i++) {
        const struct gpu_device *device = &gpu->devices[i];
        double sum = 0;

        if (isnan(device->span_ns)) { /* work of no length: nothing is known of it */
            demand(isnan(device->busy_ns) && isnan(device->all_idle_ns[0]));
            continue;
        }
        for (int use = 0; use < GPU_USES; use++)
            sum += device->all_use_ns[use];
        demand(fabs(sum - device->busy_ns) <= 1 + 1e-9 * fabs(sum));
        for (int idle = 0; idle < GPU_IDLES; idle++)
            sum += device->all_idle_ns[idle];
        demand(fabs(sum - device->span_ns) <= 1 + 1e-9 * fabs(sum));
    }
}

static void ask(struct store *store, const struct file_result *result)
{
    struct selection whose = {.rank = SELECT_ANY};
    struct bottlenecks_request all = {.k = OPS_K_MAX};
    struct bottlenecks_answer summary;
    struct ranks_answer ranks;

    memcpy(whose.session, result->session, sizeof(whose.session));
    demand(bottlenecks_query(store, &whose, &all, &summary) == 0);
    check_gpu(&summary.gpu);
    for (uint32_t i = 0; i < summary.cpu.row_count; i++) {
        const struct op_row *row = &summary.cpu.rows[i];

        demand(row->self_ns <= row->total_ns && row->min_ns <= row->max_ns);
    }
    bottlenecks_free(&summary);
    demand(ranks_query(store, &whose, &ranks) == 0);
    answer_free(&ranks.head);
    for (enum group_by by = GROUP_NAME; by < GROUPS; by++) {
        struct ops_request request = {.k = OPS_K_MAX, .by = by};
        struct ops_answer ops;

        demand(ops_query(store, &whose, &request, &ops) == 0);
        for (uint32_t i = 0; i < ops.row_count; i++)
            demand(ops.rows[i].detail != NULL && ops.rows[i].recorded_count > 0);
        answer_free(&ops.head);
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static const struct store_limits limits = {.history_bytes = (uint64_t)1 << 20};
    char path[40];
    int descriptor = fuzz_file(data, size, path);
    struct store *store = store_new(&limits);
    bool told = false;
    struct file_result result;
    struct file_request request = {.path = path,
                                   .session = "t-fuzz",
                                   .options = {.one_thread = true},
                                   .groups = FILE_GROUPS_ALL,
                                   .on_paths = check_paths,
                                   .paths_user = &told};

    if (descriptor >= 0 && store != NULL) {
        int error = file_load(store, &request, &result);

        demand((error == 0) == told);
        demand(error != 0 || result.taken > 0);
        demand(error == 0 || result.error[0] != '\0');
        if (error == 0)
            ask(store, &result);
    }
    store_free(store);
    if (descriptor >= 0)
        close(descriptor);
    return 0;
}
