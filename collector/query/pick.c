#include "query/pick.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "wire/run_note.h"

#define DEFAULT_NS INT64_C(60000000000)

/* As many as a rhythm needs, and twice what a finding does. */
#define JUDGED_STEPS 20

void answer_free(struct answer *answer)
{
    arena_free(&answer->arena);
}

static bool has_steps(const struct process *process)
{
    return process->told_steps > 0 || process->steps.count > 0;
}

enum wire_role pick_role(const struct session *session, const struct process *process)
{
    const struct process_identity *who = &process->identity;

    if (who->role != WIRE_ROLE_TRAINER || has_steps(process))
        return who->role;
    for (const struct process *other = session->processes; other != NULL;
         other = other->next)
        if (other->identity.role == WIRE_ROLE_TRAINER && has_steps(other) &&
            (who->rank < 0 || other->identity.rank == who->rank))
            return WIRE_ROLE_HELPER;
    return who->role;
}

/* Smaller is chosen: trainers with a rank by rank, then other trainers, launchers,
 * workers; among equals the one with steps, then the first. */
static uint64_t weight(const struct process *process)
{
    const struct process_identity *who = &process->identity;
    uint64_t role = who->role == WIRE_ROLE_WORKER ? 2 : who->role == WIRE_ROLE_LAUNCHER;
    uint64_t stepless = !has_steps(process);
    uint64_t rank = who->rank >= 0 ? (uint64_t)who->rank : (uint64_t)INT32_MAX + 1;

    return role << 60 | stepless << 40 | rank;
}

struct process *pick_default(const struct session *session)
{
    struct process *best = NULL;

    for (struct process *process = session->processes; process != NULL;
         process = process->next)
        if (best == NULL || weight(process) < weight(best))
            best = process;
    return best;
}

static struct session *find_session(const struct store *store, const char *id)
{
    if (id[0] == '\0')
        return state_newest(store);
    for (uint32_t i = 0; i < store->session_count; i++)
        if (strcmp(store->sessions[i]->id, id) == 0)
            return store->sessions[i];
    return NULL;
}

static struct process *find_process(const struct session *session,
                                    const struct selection *selection)
{
    struct process *found = NULL;

    if (selection->pid == 0 && selection->rank < 0)
        return pick_default(session);
    for (struct process *process = session->processes; process != NULL;
         process = process->next) {
        const struct process_identity *who = &process->identity;
        bool fits = selection->pid != 0
                        ? who->pid == selection->pid
                        : who->rank == selection->rank && who->role != WIRE_ROLE_WORKER;

        if (fits && (found == NULL || weight(process) <= weight(found)))
            found = process;
    }
    return found;
}

/* Why there is no session at all. */
static const char *why_none(const struct store *store)
{
    bool runs = false;

    for (uint32_t i = 0; i < store->command_count; i++)
        runs = runs || !store->commands[i].ended;
    if (store->command_count == 0)
        return "no run was seen yet";
    return runs ? "a command runs, and " RUN_NOTE_UNSEEN " so far; " RUN_NOTE_REMEDY
                : "a command ran and ended, and " RUN_NOTE_UNSEEN "; " RUN_NOTE_REMEDY;
}

static int refuse(struct pick *pick, const char *reason)
{
    pick->head->reason = reason;
    pick_end(pick);
    return -ENOENT;
}

int pick_begin(struct pick *pick, struct store *store,
               const struct selection *selection, struct answer *head)
{
    *pick = (struct pick){.store = store, .head = head};
    head->rank = -1;
    head->reason = "";
    head->window = (struct answer_window){
        .first_step = NOT_KNOWN, .last_step = NOT_KNOWN, .complete = true};
    pthread_rwlock_rdlock(&store->lock);
    pick->session = find_session(store, selection->session);
    if (pick->session == NULL)
        return refuse(pick, selection->session[0] == '\0' ? why_none(store)
                                                          : "no session has this id");
    pick->process = find_process(pick->session, selection);
    if (pick->process == NULL)
        return refuse(pick, "the session has no such process");
    const struct process *process = pick->process;

    snprintf(head->session, sizeof(head->session), "%s", pick->session->id);
    head->rank = process->identity.rank;
    head->pid = process->identity.pid;
    head->start_unix_ns = pick->session->zero_realtime_ns;
    head->now_ns = process->newest_ns == INT64_MIN ? 0 : process->newest_ns;
    head->rev = process->rev;
    head->lost_events = process->lost + process->nested_lost;
    head->live = process->state == PROCESS_RUNNING;
    head->from_file = pick->session->from_file;
    if (process->unread) {
        atomic_store_explicit(&pick->process->wanted, true, memory_order_relaxed);
        head->reason = "an ended run is being read: ask again in a moment";
    }
    return 0;
}

int pick_open(struct pick *pick, struct store *store, const struct selection *selection,
              struct answer *head)
{
    int error = pick_begin(pick, store, selection, head);

    if (error == 0)
        pick_window(pick, &selection->window);
    return error;
}

struct pick pick_part(const struct pick *pick, struct answer *head)
{
    struct pick part = *pick;

    *head = *pick->head;
    head->arena = (struct arena){0};
    head->reason = "";
    part.head = head;
    return part;
}

bool pick_is_run(const struct pick *pick, const struct window *asked)
{
    return asked->kind == WINDOW_RUN ||
           (asked->kind == WINDOW_DEFAULT && !pick->head->live);
}

void pick_end(struct pick *pick)
{
    pthread_rwlock_unlock(&pick->store->lock);
}

/* From the a-th training step counted from the newest. */
static int64_t start_of_last(const struct steps *steps, int64_t count, bool *complete)
{
    uint32_t remembered = steps_remembered(steps);
    int64_t start = steps->first_ns;

    for (uint32_t i = remembered; i-- > 0 && count > 0;) {
        const struct step *step = steps_at(steps, i);

        if (step->flags & EVENT_STEP_VALIDATION)
            continue;
        start = step->start_ns;
        count--;
    }
    *complete = count <= 0 || remembered == steps->count;
    return start;
}

static void find_numbers(const struct steps *steps, int64_t first, int64_t last,
                         struct answer_window *window)
{
    int64_t from = INT64_MAX, to = INT64_MIN, lowest = INT64_MAX;

    for (uint32_t i = 0; i < steps_remembered(steps); i++) {
        const struct step *step = steps_at(steps, i);

        if (step->flags & EVENT_STEP_VALIDATION)
            continue;
        lowest = (int64_t)step->number < lowest ? (int64_t)step->number : lowest;
        if ((int64_t)step->number < first || (int64_t)step->number > last)
            continue;
        from = step->start_ns < from ? step->start_ns : from;
        to = step_end_ns(step) > to ? step_end_ns(step) : to;
    }
    window->complete = lowest <= first || steps_remembered(steps) == steps->count;
    window->from_ns = from == INT64_MAX ? 0 : from;
    window->to_ns = to == INT64_MIN ? 0 : to;
}

static void find_epoch(const struct steps *steps, int64_t epoch,
                       struct answer_window *window)
{
    uint64_t count =
        steps->epoch_count < STEPS_EPOCHS ? steps->epoch_count : STEPS_EPOCHS;

    for (uint64_t i = 0; i < count; i++) {
        const struct step_epoch *at = &steps->epochs[i];

        if (at->epoch != epoch)
            continue;
        if (window->to_ns == window->from_ns || at->start_ns < window->from_ns)
            window->from_ns = at->start_ns;
        window->to_ns = at->end_ns > window->to_ns ? at->end_ns : window->to_ns;
    }
}

uint32_t pick_steps(const struct pick *pick, uint32_t *count)
{
    const struct steps *steps = &pick->process->steps;
    const struct answer_window *window = &pick->head->window;
    uint32_t first = steps_after(steps, window->from_ns), last = first;

    /* A step belongs to the window in which it ended. */
    for (; last < steps_remembered(steps); last++)
        if (step_end_ns(steps_at(steps, last)) > window->to_ns)
            break;
    *count = last - first;
    return first;
}

static void count_steps(struct pick *pick)
{
    const struct steps *steps = &pick->process->steps;
    struct answer *head = pick->head;
    uint32_t count, first = pick_steps(pick, &count);

    for (uint32_t i = first; i < first + count; i++) {
        const struct step *step = steps_at(steps, i);

        if (step->flags & EVENT_STEP_VALIDATION)
            continue;
        if (head->window.first_step == NOT_KNOWN)
            head->window.first_step = (int64_t)step->number;
        head->window.last_step = (int64_t)step->number;
        if (step->flags & EVENT_STEP_WINDOW)
            continue;
        head->steps++;
        head->recorded_steps += step->flags & EVENT_STEP_OPS ? 1 : 0;
    }
}

/* `length_ns` back from the newest event. What a run leaves behind after a hang or a long
 * end has no steps in it, and nobody asks for that: then back from the end of the last
 * step, and as far beyond it. */
static void find_last(const struct pick *pick, int64_t length_ns,
                      struct answer_window *window)
{
    const struct steps *steps = &pick->process->steps;
    uint32_t remembered = steps_remembered(steps);
    int64_t now = pick->head->now_ns;

    window->from_ns = now > length_ns ? now - length_ns : 0;
    if (pick->head->live || remembered == 0)
        return;
    int64_t ended = step_end_ns(steps_at(steps, remembered - 1));

    if (ended > window->from_ns)
        return;
    window->from_ns = ended > length_ns ? ended - length_ns : 0;
    if (now - ended > length_ns)
        window->to_ns = ended + length_ns + 1;
}

/* Epochs or steps that are not there: which there are. */
static void explain_numbers(const struct pick *pick, const struct window *asked)
{
    const struct steps *steps = &pick->process->steps;
    struct answer *head = pick->head;
    bool of_epoch = asked->kind == WINDOW_EPOCH;
    uint64_t count = !of_epoch                           ? steps_remembered(steps)
                     : steps->epoch_count < STEPS_EPOCHS ? steps->epoch_count
                                                         : STEPS_EPOCHS;
    int64_t low = INT64_MAX, high = -1;

    for (uint64_t i = 0; i < count; i++) {
        const struct step *step = of_epoch ? NULL : steps_at(steps, (uint32_t)i);
        int64_t number = of_epoch ? steps->epochs[i].epoch : (int64_t)step->number;

        if (step != NULL && step->flags & EVENT_STEP_VALIDATION)
            continue;
        low = number < low ? number : low;
        high = number > high ? number : high;
    }
    if (high < 0 || head->reason[0] != '\0')
        return;
    if (of_epoch)
        head->reason = arena_print(&head->arena,
                                   "no epoch %" PRId64 " is known: there are %" PRId64
                                   " to %" PRId64,
                                   asked->a, low, high);
    else
        head->reason = arena_print(&head->arena,
                                   "no step of %" PRId64 "-%" PRId64
                                   " is remembered: there are %" PRId64 " to %" PRId64,
                                   asked->a, asked->b, low, high);
}

void pick_window(struct pick *pick, const struct window *asked)
{
    const struct steps *steps = &pick->process->steps;
    struct answer_window *window = &pick->head->window;
    enum window_kind kind = asked->kind;
    int64_t now = pick->head->now_ns, a = asked->a;
    uint32_t remembered = steps_remembered(steps);
    int64_t oldest = remembered > 0 ? steps_at(steps, 0)->start_ns : 0;
    bool forgot = remembered < steps->count;

    if (kind == WINDOW_DEFAULT) {
        kind = pick->head->live ? WINDOW_LAST_NS : WINDOW_RUN;
        a = DEFAULT_NS;
    }
    window->to_ns = now + 1;
    switch (kind) {
    case WINDOW_LAST_NS:
        find_last(pick, a, window);
        break;
    case WINDOW_LAST_STEPS:
        window->from_ns = start_of_last(steps, a, &window->complete);
        break;
    case WINDOW_STEPS:
        find_numbers(steps, a, asked->b, window);
        break;
    case WINDOW_TIME:
        window->from_ns = a;
        window->to_ns = asked->b;
        break;
    case WINDOW_EPOCH:
        window->to_ns = 0;
        find_epoch(steps, a, window);
        break;
    case WINDOW_RUN:
    case WINDOW_DEFAULT:
    default:
        window->from_ns =
            steps->first_ns != INT64_MAX && steps->first_ns < 0 ? steps->first_ns : 0;
        break;
    }
    if (kind != WINDOW_STEPS && kind != WINDOW_LAST_STEPS)
        window->complete = !forgot || window->from_ns >= oldest;
    /* What a damaged segment says of its steps may end before it begins. */
    if (window->to_ns < window->from_ns)
        window->to_ns = window->from_ns;
    window->reach_ns = oldest;
    window->span_ns = (double)(window->to_ns - window->from_ns);
    count_steps(pick);
    if (window->to_ns == window->from_ns &&
        (kind == WINDOW_EPOCH || kind == WINDOW_STEPS))
        explain_numbers(pick, asked);
}

void pick_judged(struct pick *pick, const struct window *asked)
{
    struct answer *head = pick->head;
    struct window steps = {WINDOW_LAST_STEPS, JUDGED_STEPS, 0};
    bool complete;

    pick_window(pick, asked);
    bool usual = asked->kind == WINDOW_DEFAULT ||
                 (asked->kind == WINDOW_LAST_NS && asked->a == DEFAULT_NS);

    if (!usual || !head->live || head->steps >= JUDGED_STEPS ||
        pick->process->steps.count == 0 ||
        start_of_last(&pick->process->steps, JUDGED_STEPS, &complete) >=
            head->window.from_ns)
        return;
    head->window =
        (struct answer_window){.first_step = NOT_KNOWN, .last_step = NOT_KNOWN};
    head->steps = head->recorded_steps = 0;
    pick_window(pick, &steps);
}

bool pick_goes_on(const struct pick *pick)
{
    const struct answer_window *window = &pick->head->window;

    return pick->head->live && window->to_ns > pick->head->now_ns &&
           (window->from_ns <= 0 || window->span_ns >= (double)DEFAULT_NS);
}

const char *pick_device(struct answer *head, uint16_t device)
{
    static const struct {
        uint8_t type;
        const char *name;
    } types[] = {{1, "cuda"},          {6, "hip"},   {7, "fpga"}, {8, "maia"},
                 {9, "xla"},           {12, "xpu"},  {13, "mps"}, {15, "hpu"},
                 {16, "ve"},           {17, "lazy"}, {18, "ipu"}, {19, "mtia"},
                 {20, "privateuseone"}};

    if (EVENT_DEVICE_TYPE(device) == 0)
        return "cpu";
    for (size_t i = 0; i < sizeof(types) / sizeof(types[0]); i++)
        if (types[i].type == EVENT_DEVICE_TYPE(device))
            return arena_print(&head->arena, "%s:%u", types[i].name,
                               EVENT_DEVICE_INDEX(device));
    return arena_print(&head->arena, "device%u:%u", EVENT_DEVICE_TYPE(device),
                       EVENT_DEVICE_INDEX(device));
}
