#include "query/gpu_query.h"

#include <errno.h>

#include "query/parts.h"
#include "query/pick.h"

#define POINTS_MAX 10000u

/* No table of GPU time exists: the answer is the source's own reason. */
int parts_gpu(const struct pick *pick, struct gpu_answer *answer)
{
    const struct process *process = pick->process;
    const struct process_capability *source = &process->capabilities[WIRE_SOURCE_CUPTI];
    const char *told = texts_get(process->texts, source->reason);

    answer->devices = NULL;
    if (answer->head.reason == NULL || answer->head.reason[0] == '\0')
        answer->head.reason = told[0] != '\0'
                                  ? arena_text(&answer->head.arena, told)
                                  : "GPU work is not recorded in this process";
    return 0;
}

static int ask(struct store *store, const struct selection *selection,
               struct gpu_answer *answer)
{
    struct pick pick;

    *answer = (struct gpu_answer){0};
    int error = pick_begin(&pick, store, selection, &answer->head);

    if (error != 0)
        return error;
    pick_window(&pick, &selection->window);
    error = parts_gpu(&pick, answer);
    pick_end(&pick);
    return error;
}

int gpu_query(struct store *store, const struct selection *selection,
              const struct gpu_request *request, struct gpu_answer *answer)
{
    *answer = (struct gpu_answer){0};
    return request->points > POINTS_MAX ? -EINVAL : ask(store, selection, answer);
}

int gpu_since(struct store *store, const struct selection *selection, uint64_t *cursor,
              uint32_t max, struct gpu_answer *answer)
{
    (void)max;
    *cursor = 1;
    return ask(store, selection, answer);
}
