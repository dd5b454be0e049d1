/* Sessions, their processes, what can be seen of them and why not. */
#include <stdio.h>
#include <string.h>

#include "document/document.h"
#include "document/json.h"
#include "query/status_query.h"
#include "wire/run_note.h"
#include "wire/words.h"

/* Sessions that are told in full; of older ones only what the picker shows. */
#define STATUS_FULL_SESSIONS 8u

static cJSON *facts_json(const struct status_process *process)
{
    cJSON *facts = cJSON_CreateObject();

    for (uint32_t i = 0; process != NULL && i < process->fact_count; i++) {
        const struct status_fact *fact = &process->facts[i];

        if (fact->type == WIRE_FACT_TEXT)
            json_text(facts, fact->key, fact->text);
        else if (fact->type == WIRE_FACT_BOOL)
            cJSON_AddBoolToObject(facts, fact->key, fact->number != 0);
        else
            json_number(facts, fact->key, fact->number);
    }
    return facts;
}

static void add_capabilities(cJSON *object, const struct status_process *process)
{
    cJSON *list = cJSON_AddArrayToObject(object, "capabilities");

    for (uint32_t i = 0; process != NULL && i < process->capability_count; i++) {
        const struct status_capability *one = &process->capabilities[i];
        cJSON *part = json_row(list);

        cJSON_AddStringToObject(part, "source", status_source_word(one->source));
        cJSON_AddStringToObject(part, "state", wire_source_state_word(one->state));
        json_text(part, "reason", one->reason);
        json_text(part, "detail", one->detail);
        json_count(part, "events", one->events);
        json_count(part, "lost_events", one->lost);
    }
}

static const char *kind_name(enum event_kind kind)
{
    switch (kind) {
    case EVENT_STEP:
        return "step";
    case EVENT_PHASE:
        return "phase";
    case EVENT_CPU_OP:
        return "op";
    default:
        return "range";
    }
}

static cJSON *thread_json(const struct status_thread *thread)
{
    cJSON *part = cJSON_CreateObject(), *open;

    json_text(part, "name", thread->name);
    json_count(part, "tid", thread->tid);
    json_count(part, "depth", thread->depth);
    open = cJSON_AddArrayToObject(part, "open");
    for (uint32_t i = 0; i < thread->open_count; i++) {
        cJSON *range = json_row(open);

        json_text(range, "name", thread->open[i].name);
        cJSON_AddStringToObject(range, "kind", kind_name(thread->open[i].kind));
        json_ms(range, "open_for_ms", thread->open[i].open_for_ns);
    }
    return part;
}

static void add_threads(cJSON *object, const struct status_process *process)
{
    cJSON *list = cJSON_AddArrayToObject(object, "threads");

    for (uint32_t i = 0; process != NULL && i < process->thread_count; i++)
        cJSON_AddItemToArray(list, thread_json(&process->threads[i]));
    if (process != NULL)
        cJSON_AddBoolToObject(object, "ops_recorded", process->ops_recorded);
}

static cJSON *process_json(const struct status_process *process)
{
    cJSON *part = cJSON_CreateObject();

    json_count(part, "pid", process->pid);
    json_integer(part, "rank", process->rank < 0 ? NOT_KNOWN : process->rank);
    cJSON_AddStringToObject(part, "role", wire_role_word(process->role));
    json_integer(part, "parent",
                 process->parent_pid == 0 ? NOT_KNOWN : (int64_t)process->parent_pid);
    cJSON_AddStringToObject(part, "state", status_state_word(process->state));
    json_text(part, "reason", process->reason);
    json_text(part, "host", process->host);
    json_count(part, "steps", process->steps);
    json_stamp(part, "start_ms", process->start_ns);
    json_ms(part, "last_event_age_ms", process->last_event_age_ns);
    json_count(part, "lost_events", process->lost_events);
    json_count(part, "threads_refused", process->threads_refused);
    json_count(part, "names_refused", process->names_refused);
    json_count(part, "late_events", process->late_events);
    cJSON_AddBoolToObject(part, "same_host", process->same_host);
    return part;
}

/* The process that stands for its session: the selected one, else the trainer of the
 * lowest rank. */
static const struct status_process *main_process(const struct status_session *session)
{
    const struct status_process *found = NULL;

    for (uint32_t i = 0; i < session->process_count; i++) {
        const struct status_process *one = &session->processes[i];

        if (one->selected)
            return one;
        if (found == NULL ||
            (one->role == WIRE_ROLE_TRAINER &&
             (found->role != WIRE_ROLE_TRAINER || one->rank < found->rank)))
            found = one;
    }
    return found;
}

cJSON *status_facts_json(const struct status_session *session)
{
    return facts_json(main_process(session));
}

cJSON *status_end_json(const struct status_session *session)
{
    const struct status_end *end = &session->end;
    cJSON *part;

    if (!end->known)
        return cJSON_CreateNull();
    part = cJSON_CreateObject();
    json_integer(part, "signal", end->signal == 0 ? NOT_KNOWN : end->signal);
    json_integer(part, "exit_code", end->exit_code < 0 ? NOT_KNOWN : end->exit_code);
    cJSON_AddBoolToObject(part, "oom", end->oom);
    json_text(part, "cause", end->cause);
    cJSON_AddBoolToObject(part, "certain", end->certain);
    return part;
}

static cJSON *session_json(const struct status_session *session, bool full)
{
    const struct status_process *process = main_process(session);
    cJSON *part = cJSON_CreateObject();

    json_text(part, "id", session->id);
    json_text(part, "name", session->name);
    json_integer(part, "pid", process == NULL ? NOT_KNOWN : (int64_t)process->pid);
    json_integer(part, "rank",
                 process == NULL || process->rank < 0 ? NOT_KNOWN : process->rank);
    json_integer(part, "world_size",
                 session->world_size < 0 ? NOT_KNOWN : session->world_size);
    cJSON_AddStringToObject(part, "state", status_state_word(session->state));
    json_text(part, "reason", session->reason);
    json_count(part, "steps", session->steps);
    json_ms(part, "step_ms", session->step_ns);
    json_unix_ms(part, "start_unix_ms", session->start_unix_ns);
    json_ms(part, "last_event_age_ms", session->last_event_age_ns);
    json_count(part, "lost_events", session->lost_events);
    json_count(part, "threads_refused", session->threads_refused);
    json_count(part, "names_refused", session->names_refused);
    json_count(part, "late_events", session->late_events);
    json_count(part, "rev", session->rev);
    cJSON_AddBoolToObject(part, "from_file", session->from_file);
    cJSON_AddItemToObject(part, "end", status_end_json(session));
    cJSON_AddBoolToObject(part, "full", full);
    if (!full)
        return part;
    cJSON_AddItemToObject(part, "facts", facts_json(process));
    add_capabilities(part, process);
    add_threads(part, process);
    json_count(part, "processes_dropped", session->processes_dropped);
    JSON_LIST(part, "processes", session->processes, session->process_count,
              process_json);
    return part;
}

static cJSON *watch_json(const struct status_watch *watch)
{
    cJSON *part = cJSON_CreateObject();

    json_text(part, "path", watch->path);
    cJSON_AddBoolToObject(part, "readable", watch->readable);
    json_text(part, "reason", watch->reason);
    json_count(part, "segments", watch->segments);
    return part;
}

static cJSON *command_json(const struct status_command *command)
{
    cJSON *part = cJSON_CreateObject();

    json_text(part, "session", command->session);
    json_text(part, "command", command->command);
    json_count(part, "pid", command->pid);
    json_unix_ms(part, "start_unix_ms", command->start_unix_ns);
    cJSON_AddStringToObject(part, "state", command->ended ? "ended" : "running");
    json_text(part, "reason",
              command->ended ? RUN_NOTE_UNSEEN : RUN_NOTE_UNSEEN " so far");
    return part;
}

cJSON *status_json(const struct status_answer *answer)
{
    cJSON *body = cJSON_CreateObject(), *list;

    cJSON_AddStringToObject(body, "version", TRAINGLASS_VERSION);
    json_head(body, &answer->head);
    list = cJSON_AddArrayToObject(body, "sessions");
    for (uint32_t i = 0; i < answer->session_count; i++) {
        const struct status_session *session = &answer->sessions[i];
        bool full =
            i < STATUS_FULL_SESSIONS || strcmp(session->id, answer->head.session) == 0;

        cJSON_AddItemToArray(list, session_json(session, full));
    }
    json_count(body, "sessions_dropped", answer->sessions_dropped);
    JSON_LIST(body, "watching", answer->watching, answer->watching_count, watch_json);
    JSON_LIST(body, "commands", answer->commands, answer->command_count, command_json);
    return body;
}
