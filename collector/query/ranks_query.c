#include "query/ranks_query.h"

#include <errno.h>
#include <math.h>
#include <string.h>

#include "query/numbers.h"
#include "query/parts.h"
#include "query/pick.h"

#define RANKS_MAX 1024u
/* Compared one by one: the newest common steps of the window. */
#define STEPS_COMPARED 2048u
#define STEPS_NEEDED   10u
/* The slowest stands out when it is so in more than its share, by more than noise. */
#define BY_SHARE 0.02

struct ranked {
    const struct process *process;
    struct rank_row *row;
    uint32_t next; /* index of the step under the hand */
    uint64_t slowest_in;
    double phase_ns[EVENT_PHASES];
    double own_ns, wait_ns, step_ns;
};

struct comparing {
    struct ranked *ranks;
    uint32_t count;
    uint64_t steps;
};

/* The training step `number`, which is at or after the hand; NULL when it is not there.
 */
static const struct step *find_step(struct ranked *rank, uint64_t number)
{
    const struct steps *steps = &rank->process->steps;

    for (; rank->next < steps_remembered(steps); rank->next++) {
        const struct step *step = steps_at(steps, rank->next);

        if (step->flags & EVENT_STEP_VALIDATION || step->number < number)
            continue;
        return step->number == number && !(step->flags & EVENT_STEP_WINDOW) ? step
                                                                            : NULL;
    }
    return NULL;
}

static double known(double value)
{
    return isnan(value) ? 0 : value;
}

/* Gradients are exchanged in backward: whoever comes first waits there longest. What a
 * rank spends in backward beyond the shortest of all is waiting. */
static void compare_step(struct comparing *comparing, const struct step **steps)
{
    double shortest = (double)INFINITY, most = -1;
    uint32_t slowest = 0;

    for (uint32_t i = 0; i < comparing->count; i++) {
        double backward = known(step_phase_ns(steps[i], EVENT_PHASE_BACKWARD));

        shortest = backward < shortest ? backward : shortest;
    }
    for (uint32_t i = 0; i < comparing->count; i++) {
        struct ranked *rank = &comparing->ranks[i];
        double wait = known(step_phase_ns(steps[i], EVENT_PHASE_BACKWARD)) - shortest;
        double own = (double)steps[i]->duration_ns - wait;

        rank->step_ns += (double)steps[i]->duration_ns;
        rank->wait_ns += wait;
        rank->own_ns += own;
        for (uint32_t phase = 0; phase < EVENT_PHASES; phase++)
            rank->phase_ns[phase] += step_phase_ns(steps[i], phase);
        slowest = own > most ? i : slowest;
        most = own > most ? own : most;
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
    for (uint32_t s = first; s < first + count; s++) {
        const struct step *step = steps_at(mine, s);
        bool all = !(step->flags & EVENT_STEP_VALIDATION);

        for (uint32_t i = 0; i < comparing->count && all; i++) {
            common[i] = find_step(&comparing->ranks[i], step->number);
            all = common[i] != NULL;
        }
        if (all)
            compare_step(comparing, common);
    }
}

static void find_slowest(const struct comparing *comparing, struct ranks_answer *answer)
{
    static const char *const names[] = {"data", "forward", "backward", "optimizer"};
    double own[RANKS_MAX];
    const struct ranked *slowest = &comparing->ranks[0];
    double n = (double)comparing->steps, most = 0;

    for (uint32_t i = 0; i < comparing->count; i++) {
        own[i] = comparing->ranks[i].own_ns / n;
        if (comparing->ranks[i].own_ns > slowest->own_ns)
            slowest = &comparing->ranks[i];
    }
    numbers_sort(own, comparing->count);
    double median = numbers_quantile(own, comparing->count - 1, 0.5);

    answer->slowest_by_ns = slowest->own_ns / n - median;
    answer->slowest_share = (double)slowest->slowest_in / n;
    answer->slowest_cause = "unknown";
    for (uint32_t phase = 0; phase < EVENT_PHASES; phase++) {
        double others = 0;

        for (uint32_t i = 0; i < comparing->count; i++)
            others += comparing->ranks[i].phase_ns[phase];
        double mine = slowest->phase_ns[phase];
        double grew = mine - (others - mine) / (double)(comparing->count - 1);

        /* Waiting lies in backward, and its own share of it cannot be told apart. */
        if (phase != EVENT_PHASE_BACKWARD && grew > most) {
            most = grew;
            answer->slowest_cause = names[phase];
        }
    }
    if (answer->slowest_by_ns > BY_SHARE * slowest->step_ns / n &&
        answer->slowest_share > 1.0 / (double)comparing->count)
        answer->slowest = slowest->row->rank;
}

static void fill_rows(const struct comparing *comparing)
{
    double n = (double)comparing->steps;

    for (uint32_t i = 0; i < comparing->count; i++) {
        const struct ranked *rank = &comparing->ranks[i];

        rank->row->step_ns = rank->step_ns / n;
        rank->row->own_ns = rank->own_ns / n;
        rank->row->wait_ns = rank->wait_ns / n;
        for (uint32_t phase = 0; phase < EVENT_PHASES; phase++)
            rank->row->phase_ns[phase] = rank->phase_ns[phase] / n;
    }
}

static int list_ranks(const struct pick *pick, struct comparing *comparing,
                      struct ranks_answer *answer)
{
    comparing->ranks =
        arena_new(&answer->head.arena, RANKS_MAX, sizeof(*comparing->ranks));
    answer->rows = arena_new(&answer->head.arena, RANKS_MAX, sizeof(*answer->rows));
    if (comparing->ranks == NULL || answer->rows == NULL)
        return -ENOMEM;
    for (const struct process *process = pick->session->processes;
         process != NULL && comparing->count < RANKS_MAX; process = process->next) {
        const struct process_identity *who = &process->identity;

        if (who->role == WIRE_ROLE_WORKER || who->rank < 0)
            continue;
        struct rank_row *row = &answer->rows[answer->row_count++];

        *row = (struct rank_row){.rank = who->rank,
                                 .pid = who->pid,
                                 .host = arena_text(&answer->head.arena, who->host),
                                 .step_ns = (double)NAN,
                                 .own_ns = (double)NAN,
                                 .wait_ns = (double)NAN};
        for (uint32_t phase = 0; phase < EVENT_PHASES; phase++)
            row->phase_ns[phase] = (double)NAN;
        comparing->ranks[comparing->count++] =
            (struct ranked){.process = process, .row = row};
    }
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

int ranks_query(struct store *store, const struct selection *selection,
                struct ranks_answer *answer)
{
    struct pick pick;
    struct comparing comparing = {0};

    *answer = (struct ranks_answer){.slowest = -1, .slowest_cause = "unknown"};
    answer->slowest_share = answer->slowest_by_ns = (double)NAN;
    int error = pick_begin(&pick, store, selection, &answer->head);

    if (error != 0)
        return error;
    pick_window(&pick, &selection->window);
    error = list_ranks(&pick, &comparing, answer);
    if (error == 0 && comparing.count >= 2)
        compare(&comparing, &pick);
    if (error == 0 && comparing.steps > 0) {
        fill_rows(&comparing);
        answer->comparable = comparing.steps >= STEPS_NEEDED;
    }
    if (answer->comparable)
        find_slowest(&comparing, answer);
    else if (answer->head.reason[0] == '\0')
        answer->head.reason = comparing.count < 2
                                  ? "the session has one rank here"
                                  : "fewer than 10 steps that all ranks have";
    pick_end(&pick);
    sort_by_rank(answer);
    return error;
}
