/* POST /api/stacks: what every Python thread of a trainer is doing right now. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "api/api.h"
#include "control/stacks.h"
#include "document/json.h"
#include "query/status_query.h"

static const struct status_process *selected(const struct status_answer *status)
{
    for (uint32_t i = 0; i < status->session_count; i++) {
        const struct status_session *session = &status->sessions[i];

        for (uint32_t j = 0; j < session->process_count; j++) {
            if (session->processes[j].selected)
                return &session->processes[j];
        }
    }
    return NULL;
}

static const struct status_capability *listener(const struct status_process *process)
{
    for (uint32_t i = 0; i < process->capability_count; i++) {
        if (process->capabilities[i].source == WIRE_SOURCE_STACKS)
            return &process->capabilities[i];
    }
    return NULL;
}

static int ask(const struct status_process *process, struct stacks *stacks,
               char *reason)
{
    const struct status_capability *source = listener(process);
    const char *why = NULL;
    int signal = 0;

    if (process->state != PROCESS_RUNNING)
        why = "the process does not run";
    else if (source == NULL || source->state != WIRE_STATE_ACTIVE)
        why = source != NULL && source->reason[0] != '\0' ? source->reason
                                                          : "no Python was seen in it";
    else if (!process->same_host)
        why = "the process runs in another PID namespace, out of this server's reach";
    else if (sscanf(source->detail, "signal %d", &signal) != 1)
        why = "the process names no signal for it";
    if (why == NULL)
        return stacks_ask(process->segment_path, signal, stacks, reason);
    (void)snprintf(reason, STACKS_REASON_BYTES, "%s", why);
    return -ESRCH;
}

static cJSON *refused(struct api_call *call, const struct status_process *process,
                      const char *reason)
{
    char remedy[64];
    cJSON *body = api_error(call, 409, NULL, reason);

    if (process->state != PROCESS_RUNNING)
        return body; /* nothing can be done, and its pid may be another's */
    (void)snprintf(remedy, sizeof(remedy), "py-spy dump --pid %u", process->pid);
    json_text(body, "remedy", remedy);
    return body;
}

cJSON *api_stacks(struct api_call *call)
{
    char reason[STACKS_REASON_BYTES] = "";
    const struct status_process *process;
    struct status_answer status;
    struct stacks stacks = {0};
    cJSON *body;

    if (!api_select(call))
        return api_refused(call);
    int error = status_query(call->api->store, &call->selection, &status);

    process = error == 0 ? selected(&status) : NULL;
    if (error != 0) {
        body = api_finish(call, error, &status.head, NULL);
    } else if (process == NULL) {
        body = api_error(call, 404, "session", "no such process");
    } else if (ask(process, &stacks, reason) != 0) {
        body = refused(call, process, reason);
    } else {
        body = cJSON_CreateObject();
        json_count(body, "pid", process->pid);
        json_text_cut(body, "stacks", stacks.text, STACKS_BYTES_MAX);
        cJSON_AddBoolToObject(body, "truncated", stacks.truncated);
    }
    free(stacks.text);
    answer_free(&status.head);
    return body;
}
