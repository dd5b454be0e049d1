#include "query/ranks_query.h"

#include <errno.h>
#include <string.h>

#include "query/parts.h"
#include "wire/facts.h"
#include "wire/words.h"

#define RANKS_MAX 1024u
/* Compared one by one: the newest common steps of the window. */
#define STEPS_COMPARED 2048u
#define STEPS_NEEDED   10u
#define STEPS_OF_FILE  2u /* a capture of a profiler has few */
/* The slowest stands out when it is so in more than its share, by more than noise. */
#define BY_SHARE 0.02

/* Phases, and what lies in none. */
#define PARTS (EVENT_PHASES + 1)

enum ranks_wait {
    RANKS_WAIT_BACKWARD, /* gradients are exchanged there: who comes first waits longest */
    RANKS_WAIT_ANYWHERE, /* but for data: sharded weights are gathered in forward, and loops
                            of one's own exchange where they like */
    RANKS_WAIT_DEVICE, /* in kernels that communicate, while nothing computes: the host
                            has only ordered them */
};

struct ranked {
    const struct process *process;
    struct rank_row *row;
    uint32_t next; /* index of the step under the hand */
    uint64_t slowest_in;
    double part_ns[PARTS];
    double own_ns, wait_ns, step_ns;
};

struct comparing {
    struct ranked *ranks;
    uint32_t count;
    uint64_t steps;
    enum ranks_wait where; /* they wait for each other */
    /* Once the slowest is known, in a second pass: by how much it comes later than the last
     * of the others. Signed, for where it is sooner others wait no less. */
    bool again;
    uint32_t slowest;
    struct numbers_series ahead;
};

/* Of the device that communicates longest. */
static double communicates_ns(const struct gpu *gpu, const struct step *step)
{
    uint64_t i = gpu_step_after(gpu, step->start_ns);
    uint64_t at = i < gpu->step_count ? i % gpu->step_capacity : 0;
    double most = UNKNOWN;

    if (i == gpu->step_count || gpu->steps[at].start_ns != step->start_ns)
        return most;
    for (uint32_t t = 0; t < gpu->table_count; t++)
        if (gpu_knows_step(gpu, gpu->tables[t], i))
            most =
                fmax(most, (double)gpu->tables[t]->steps[at].use_ns[GPU_COMMUNICATION]);
    return most;
}

/* What of the step may be waiting: of this and the exchange itself it is the longer part for
 * who comes first. NaN: not known of this step. */
static double wait_ns(enum ranks_wait where, const struct process *process,
                      const struct step *step)
{
    double data = step_phase_ns(step, EVENT_PHASE_DATA);
    double backward = step_phase_ns(step, EVENT_PHASE_BACKWARD);

    switch (where) {
    case RANKS_WAIT_DEVICE:
        return communicates_ns(&process->gpu, step);
    case RANKS_WAIT_ANYWHERE:
        return (double)step->duration_ns - (isnan(data) ? 0 : data);
    case RANKS_WAIT_BACKWARD:
    default:
        return isnan(backward) ? 0 : backward;
    }
}

/* The training step `number`, which is at or after the hand; NULL when it is not there. */
static const struct step *find_step(struct ranked *rank, uint64_t number)
{
    const struct steps *steps = &rank->process->steps;
    const struct step *step = NULL;

    for (; rank->next < steps_remembered(steps); rank->next++) {
        step = steps_at(steps, rank->next);
        if (!(step->flags & EVENT_STEP_VALIDATION) && step->number >= number)
            return step->number == number && !(step->flags & EVENT_STEP_WINDOW) ? step
                                                                                : NULL;
    }
    return NULL;
}

/* The hand where a window that begins with `first` does: there by the clock, then back
 * over what this rank has done sooner. Of a long run that is a few steps, not all. */
static uint32_t place_hand(const struct steps *steps, const struct step *first)
{
    uint32_t remembered = steps_remembered(steps);
    uint32_t at = steps_after(steps, first->start_ns);

    for (; at > 0; at--) {
        const struct step *step = at < remembered ? steps_at(steps, at) : NULL;

        if (step != NULL && !(step->flags & EVENT_STEP_VALIDATION) &&
            step->number <= first->number)
            break;
    }
    return at;
}

/* Sums over a step that all ranks have. What a rank spends where they wait beyond the shortest
 * of all is waiting. */
static void compare_step(struct comparing *comparing, const struct step **steps)
{
    double shortest = (double)INFINITY, most = -1, mine = 0, others = 0;
    uint32_t slowest = 0;

    for (uint32_t i = 0; i < comparing->count; i++)
        shortest = fmin(
            wait_ns(comparing->where, comparing->ranks[i].process, steps[i]), shortest);
    for (uint32_t i = 0; i < comparing->count; i++) {
        struct ranked *rank = &comparing->ranks[i];
        double wait = wait_ns(comparing->where, rank->process, steps[i]) - shortest;
        double own = (double)steps[i]->duration_ns - wait;

        if (i == comparing->slowest)
            mine = own;
        else
            others = fmax(own, others);
        if (comparing->again)
            continue;
        rank->step_ns += (double)steps[i]->duration_ns;
        rank->wait_ns += wait;
        rank->own_ns += own;
        for (uint32_t phase = 0; phase < EVENT_PHASES; phase++)
            rank->part_ns[phase] += step_phase_ns(steps[i], phase);
        rank->part_ns[EVENT_PHASES] += step_other_ns(steps[i]);
        slowest = own > most ? i : slowest;
        most = own > most ? own : most;
    }
    if (comparing->again) {
        numbers_series_add(&comparing->ahead, mine - others);
        return;
    }
    comparing->ranks[slowest].slowest_in++;
    comparing->steps++;
}

static void compare(struct comparing *comparing, const struct pick *pick)
{
    const struct steps *mine = &pick->process->steps;
    const struct step *common[RANKS_MAX];
    uint32_t count, first = pick_steps(pick, &count);

    if (count > STEPS_COMPARED) {
        first += count - STEPS_COMPARED;
        count = STEPS_COMPARED;
    }
    for (; count > 0 && steps_at(mine, first)->flags & EVENT_STEP_VALIDATION; count--)
        first++;
    for (uint32_t i = 0; i < comparing->count && count > 0; i++)
        comparing->ranks[i].next =
            place_hand(&comparing->ranks[i].process->steps, steps_at(mine, first));
    for (uint32_t s = first; s < first + count; s++) {
        const struct step *step = steps_at(mine, s);
        bool all = !(step->flags & EVENT_STEP_VALIDATION);

        for (uint32_t i = 0; i < comparing->count && all; i++) {
            common[i] = find_step(&comparing->ranks[i], step->number);
            all = common[i] != NULL &&
                  !isnan(wait_ns(comparing->where, comparing->ranks[i].process,
                                 common[i]));
        }
        if (all)
            compare_step(comparing, common);
    }
}

/* Where the slowest spends more than the others do. */
static void find_cause(const struct comparing *comparing, struct ranks_answer *answer)
{
    const struct ranked *slowest = &comparing->ranks[comparing->slowest];
    double n = (double)comparing->steps, most = 0;

    for (uint32_t part = 0; part < PARTS; part++) {
        double others = 0, mine = slowest->part_ns[part];

        for (uint32_t i = 0; i < comparing->count; i++)
            others += comparing->ranks[i].part_ns[part];
        double grew = mine - (others - mine) / (double)(comparing->count - 1);

        /* Where they wait, a share of its own cannot be told apart. */
        bool hidden = comparing->where == RANKS_WAIT_ANYWHERE
                          ? part != EVENT_PHASE_DATA
                          : comparing->where == RANKS_WAIT_BACKWARD &&
                                part == EVENT_PHASE_BACKWARD;

        if (hidden || !(grew > most))
            continue;
        most = grew;
        answer->slowest_cause = wire_phase_word(part);
        answer->slowest_cause_ns = grew / n;
    }
}

static void find_slowest(struct comparing *comparing, struct ranks_answer *answer)
{
    double own[RANKS_MAX], n = (double)comparing->steps;
    uint32_t slowest = 0, others = 0;

    for (uint32_t i = 1; i < comparing->count; i++)
        if (comparing->ranks[i].own_ns > comparing->ranks[slowest].own_ns)
            slowest = i;
    for (uint32_t i = 0; i < comparing->count; i++)
        if (i != slowest)
            own[others++] = comparing->ranks[i].own_ns / n;
    comparing->slowest = slowest;
    answer->slowest_by_ns =
        comparing->ranks[slowest].own_ns / n - numbers_median(own, others);
    answer->slowest_share = (double)comparing->ranks[slowest].slowest_in / n;
    find_cause(comparing, answer);
    if (answer->slowest_by_ns > BY_SHARE * comparing->ranks[slowest].step_ns / n &&
        answer->slowest_share > 1.0 / (double)comparing->count)
        answer->slowest = comparing->ranks[slowest].row->rank;
}

/* Where the others spend more than the slowest does. */
static uint32_t find_wait(const struct comparing *comparing)
{
    const struct ranked *slowest = &comparing->ranks[comparing->slowest];
    uint32_t where = EVENT_PHASE_BACKWARD;
    double most = 0;

    for (uint32_t part = EVENT_PHASE_DATA + 1;
         part < PARTS && comparing->where == RANKS_WAIT_ANYWHERE; part++) {
        double more = 0;

        for (uint32_t i = 0; i < comparing->count; i++)
            more += comparing->ranks[i].part_ns[part] - slowest->part_ns[part];
        where = more > most ? part : where;
        most = more > most ? more : most;
    }
    return where;
}

static void fill_rows(const struct comparing *comparing)
{
    double n = comparing->steps > 0 ? (double)comparing->steps : UNKNOWN;

    for (uint32_t i = 0; i < comparing->count; i++) {
        const struct ranked *rank = &comparing->ranks[i];

        rank->row->step_ns = rank->step_ns / n;
        rank->row->own_ns = rank->own_ns / n;
        rank->row->wait_ns = rank->wait_ns / n;
        for (uint32_t phase = 0; phase < EVENT_PHASES; phase++)
            rank->row->phase_ns[phase] = rank->part_ns[phase] / n;
        rank->row->other_ns = rank->part_ns[EVENT_PHASES] / n;
    }
}

static int list_ranks(const struct pick *pick, struct comparing *comparing,
                      struct ranks_answer *answer)
{
    uint32_t most = pick->session->process_count;

    comparing->ranks = arena_new(&answer->head.arena, most, sizeof(*comparing->ranks));
    answer->rows = arena_new(&answer->head.arena, most, sizeof(*answer->rows));
    if (comparing->ranks == NULL || answer->rows == NULL)
        return -ENOMEM;
    for (const struct process *process = pick->session->processes;
         process != NULL && comparing->count < RANKS_MAX && comparing->count < most;
         process = process->next) {
        const struct process_identity *who = &process->identity;
        enum wire_role role = pick_role(pick->session, process);

        if (role == WIRE_ROLE_WORKER || role == WIRE_ROLE_HELPER || who->rank < 0)
            continue;
        struct rank_row *row = &answer->rows[answer->row_count++];

        *row = (struct rank_row){
            .rank = who->rank,
            .pid = who->pid,
            .host = arena_text(&answer->head.arena, who->host),
            .delay_share = parts_delay(process, answer->head.window.from_ns,
                                       answer->head.window.to_ns),
            .batch_elements = parts_fact_count(process, FACT_DATALOADER_ELEMENTS)};
        comparing->ranks[comparing->count++] =
            (struct ranked){.process = process, .row = row};
    }
    fill_rows(comparing);
    return 0;
}

static void sort_by_rank(struct ranks_answer *answer)
{
    for (uint32_t i = 1; i < answer->row_count; i++) {
        struct rank_row moved = answer->rows[i];
        uint32_t at = i;

        for (; at > 0 && answer->rows[at - 1].rank > moved.rank; at--)
            answer->rows[at] = answer->rows[at - 1];
        answer->rows[at] = moved;
    }
}

/* Ranks that do not exchange anything have no one to wait for: then none waits more in backward
 * than the slowest does. */
static void judge(struct comparing *comparing, const struct pick *pick,
                  struct ranks_answer *answer)
{
    const struct numbers_series *ahead = &comparing->ahead;
    double n = (double)comparing->steps, waits = (double)INFINITY;

    find_slowest(comparing, answer);
    if (answer->slowest < 0)
        return;
    comparing->again = true;
    compare(comparing, pick);
    for (uint32_t i = 0; i < comparing->count; i++)
        if (i != comparing->slowest)
            waits = fmin(comparing->ranks[i].wait_ns -
                             comparing->ranks[comparing->slowest].wait_ns,
                         waits);
    answer->slowest_price_ns = fmax(fmin(ahead->first + ahead->sum / n, waits / n), 0);
    answer->slowest_error_ns = numbers_series_error(ahead, comparing->steps);
    answer->waits_in = find_wait(comparing);
}

static void compare_where(struct comparing *comparing, const struct pick *pick,
                          enum ranks_wait where)
{
    comparing->where = where;
    comparing->again = false;
    comparing->steps = 0;
    comparing->ahead = (struct numbers_series){0};
    for (uint32_t i = 0; i < comparing->count; i++)
        comparing->ranks[i] = (struct ranked){.process = comparing->ranks[i].process,
                                              .row = comparing->ranks[i].row};
    compare(comparing, pick);
}

/* What devices tell is told by each of them, and is the whole wait: few steps do, whose
 * interval says how far. */
static bool judge_on_devices(struct comparing *comparing, const struct pick *pick,
                             struct ranks_answer *answer)
{
    uint64_t needed = pick->session->from_file ? STEPS_OF_FILE : STEPS_NEEDED;

    for (uint32_t i = 0; i < comparing->count; i++) {
        const struct gpu *gpu = &comparing->ranks[i].process->gpu;
        bool communicates = false;

        for (uint32_t t = 0; t < gpu->table_count; t++)
            communicates |= gpu->tables[t]->run.use_ns[GPU_COMMUNICATION] > 0;
        if (!communicates)
            return false;
    }
    if (comparing->count < 2)
        return false;
    compare_where(comparing, pick, RANKS_WAIT_DEVICE);
    if (comparing->steps < needed)
        return false;
    fill_rows(comparing);
    answer->comparable = answer->waits_on_device = true;
    judge(comparing, pick, answer);
    answer->waits_in = EVENT_PHASES;
    return true;
}

/* A rank whose batches are late, wherever the others wait for it: they must really do, and
 * longer than for whom backward speaks against. */
static void judge_anywhere(struct comparing *comparing, const struct pick *pick,
                           struct ranks_answer *answer)
{
    struct ranks_answer late = *answer;

    late.slowest = -1;
    late.slowest_cause = "unknown";
    compare_where(comparing, pick, RANKS_WAIT_ANYWHERE);
    judge(comparing, pick, &late);
    double step_ns =
        comparing->ranks[comparing->slowest].step_ns / (double)comparing->steps;

    if (late.slowest < 0 ||
        !(late.slowest_price_ns > fmax(BY_SHARE * step_ns, answer->slowest_price_ns)))
        return;
    *answer = late;
    fill_rows(comparing);
}

static void judge_on_hosts(struct comparing *comparing, const struct pick *pick,
                           struct ranks_answer *answer)
{
    if (comparing->count >= 2)
        compare_where(comparing, pick, RANKS_WAIT_BACKWARD);
    if (comparing->steps > 0) {
        fill_rows(comparing);
        answer->comparable = comparing->steps >= STEPS_NEEDED;
    }
    if (answer->comparable)
        judge(comparing, pick, answer);
    else if (answer->head.reason[0] == '\0')
        answer->head.reason = comparing->count < 2
                                  ? "the session has one rank here"
                                  : "fewer than 10 steps that all ranks have";
    /* DDP exchanges in backward alone, something else where it likes. */
    if (answer->comparable && !pick->session->from_file &&
        *parts_fact_text(pick->process, FACT_DISTRIBUTED_BACKEND) != '\0' &&
        strcmp(parts_fact_text(pick->process, FACT_DISTRIBUTED_WRAPPER), "DDP") != 0)
        judge_anywhere(comparing, pick, answer);
}

int parts_ranks(const struct pick *pick, struct ranks_answer *answer)
{
    struct comparing comparing = {0};

    answer->slowest = -1;
    answer->waits_in = EVENT_PHASE_BACKWARD;
    answer->slowest_cause = "unknown";
    answer->slowest_share = answer->slowest_by_ns = answer->slowest_cause_ns =
        answer->slowest_price_ns = answer->slowest_error_ns = UNKNOWN;
    int error = list_ranks(pick, &comparing, answer);

    if (error == 0 && !judge_on_devices(&comparing, pick, answer))
        judge_on_hosts(&comparing, pick, answer);
    sort_by_rank(answer);
    return error;
}

int ranks_query(struct store *store, const struct selection *selection,
                struct ranks_answer *answer)
{
    struct pick pick;

    *answer = (struct ranks_answer){.slowest = -1, .slowest_cause = "unknown"};
    int error = pick_open(&pick, store, selection, &answer->head);

    if (error != 0)
        return error;
    error = parts_ranks(&pick, answer);
    pick_end(&pick);
    return error;
}
