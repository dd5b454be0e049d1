#include "query/replay_query.h"

#include <errno.h>
#include <stdlib.h>

#include "query/numbers.h"
#include "query/replay_inside.h"
#include "query/trace_query.h"

/* Share of a step. Of what waits for something that is not recorded nobody knows what it
 * would do with less before it. */
#define UNKNOWN_MOST 0.1

/* ---- the table ---------------------------------------------------------------------------- */

struct sums {
    uint32_t steps;
    uint32_t waiting; /* of the steps: they have calls that wait */
    bool devices;
    double step, unknown, compute, gained[REPLAY_CUTS];
    struct {
        double compute, gained; /* by half of it */
    } each[REPLAY_STEPS_MAX];
    struct {
        bool asked;
        double first, sum,
            squares; /* of differences to the first: no digits are lost */
    } what_ifs[REPLAY_WHAT_IFS];
};

static void add_step(struct sums *sums, const struct replay_result *result,
                     double scale)
{
    sums->devices |= result->works > 0;
    sums->waiting += result->waits > 0;
    sums->step += scale * (double)result->step_ns;
    sums->unknown += scale * (double)result->unknown_ns;
    sums->compute += scale * (double)result->compute_ns;
    for (uint32_t i = 0; i < REPLAY_CUTS; i++)
        sums->gained[i] += scale * (double)(result->step_ns - result->cut_ns[i]);
    sums->each[sums->steps].compute = scale * (double)result->compute_ns;
    sums->each[sums->steps].gained =
        scale * (double)(result->step_ns - result->what_if_ns[REPLAY_COMPUTE_HALVED]);
    for (uint32_t i = 0; i < REPLAY_WHAT_IFS; i++) {
        double ns = scale * (double)result->what_if_ns[i];

        /* A step without any of it takes what it took. */
        sums->what_ifs[i].asked |= result->asked[i];
        if (sums->steps == 0)
            sums->what_ifs[i].first = ns;
        ns -= sums->what_ifs[i].first;
        sums->what_ifs[i].sum += ns;
        sums->what_ifs[i].squares += ns * ns;
    }
    sums->steps++;
}

/* Of a ratio of two means (Cochran, Sampling Techniques, 1977, 6.4): steps are spread over
 * their lengths, and a long one gains more. */
static double gain_error(const struct sums *sums)
{
    double n = sums->steps, compute = 0, gained = 0, squares = 0;

    for (uint32_t i = 0; i < sums->steps; i++) {
        compute += sums->each[i].compute;
        gained += sums->each[i].gained;
    }
    if (sums->steps < REPLAY_STEPS_MIN || !(gained > 0))
        return UNKNOWN;
    for (uint32_t i = 0; i < sums->steps; i++)
        squares +=
            pow(sums->each[i].gained - gained / compute * sums->each[i].compute, 2);
    return numbers_t95(sums->steps) * sqrt(squares / (n - 1) * n) / gained;
}

static void fill_table(const struct sums *sums, struct replay_table *table)
{
    double n = sums->steps;

    *table = (struct replay_table){
        .steps = sums->steps, .devices = sums->devices, .gain_error = gain_error(sums)};
    if (sums->steps == 0)
        return;
    table->step_ns = sums->step / n;
    table->unknown_ns = sums->unknown / n;
    if (2 * sums->waiting >= sums->steps && sums->unknown <= UNKNOWN_MOST * sums->step)
        table->compute_ns = sums->compute / n;
    for (uint32_t i = 0; i < REPLAY_CUTS; i++)
        table->gained_ns[i] = sums->gained[i] / n;
    for (uint32_t i = 0; i < REPLAY_WHAT_IFS && sums->steps >= REPLAY_STEPS_MIN; i++) {
        struct replay_what_if_row *row = &table->what_ifs[i];
        double sum = sums->what_ifs[i].sum;
        double variance = (sums->what_ifs[i].squares - sum * sum / n) / (n - 1);
        double error = numbers_t95(sums->steps) * sqrt(variance > 0 ? variance / n : 0);

        if (!sums->what_ifs[i].asked)
            continue;
        row->known = true;
        row->mean_ns = sums->what_ifs[i].first + sum / n;
        row->low_ns = row->mean_ns - error > 0 ? row->mean_ns - error : 0;
        /* Of few unlike steps it is wide; but no step is longer without what it did. */
        row->high_ns = fmax(fmin(row->mean_ns + error, table->step_ns), row->mean_ns);
    }
}

double replay_gain(const struct replay_table *table, double ns)
{
    double less = 0, gained = 0;

    if (!(table->compute_ns > 0))
        return UNKNOWN;
    for (uint32_t i = 0; i < REPLAY_CUTS; i++) {
        double to = table->compute_ns * replay_cuts[i] / REPLAY_EIGHTHS;

        if (ns <= to)
            return fmin(ns, gained + (table->gained_ns[i] - gained) * (ns - less) /
                                         (to - less));
        less = to;
        gained = table->gained_ns[i];
    }
    return fmin(ns, gained);
}

/* ---- the path of one ------------------------------------------------------------------------ */

struct naming {
    struct replay_answer *answer;
    const struct trace_process *process;
};

static const char *name_of(const struct naming *naming, const struct event *event)
{
    return event == NULL
               ? ""
               : arena_text(&naming->answer->head.arena,
                            trace_name(naming->process, EVENT_NAME(event->meta)));
}

static const char *where_of(const struct naming *naming,
                            const struct replay_piece *piece)
{
    struct arena *arena = &naming->answer->head.arena;
    const struct trace_thread *thread;

    if (piece->kind >= REPLAY_COMPUTE)
        return arena_print(arena, "device %u stream %u",
                           EVENT_DEVICE_INDEX(piece->device), piece->stream);
    if (piece->thread >= naming->process->thread_count)
        return "";
    thread = &naming->process->threads[piece->thread];
    return thread->name != NULL && *thread->name != '\0'
               ? arena_text(arena, thread->name)
               : arena_print(arena, "thread %u", thread->tid);
}

/* Neighbours that are both too short to be drawn become one. */
static int list_parts(const struct naming *naming, const struct replay_result *result)
{
    struct replay_answer *answer = naming->answer;
    int64_t shortest = result->step_ns / (REPLAY_PIECES_MAX / 2) + 1, longest = 0;
    const struct replay_piece **of;
    uint32_t most = result->path_count < REPLAY_PIECES_MAX + 2 ? result->path_count
                                                               : REPLAY_PIECES_MAX + 2;

    answer->parts = arena_new(&answer->head.arena, most, sizeof(*answer->parts));
    of = arena_new(&answer->head.arena, most, sizeof(*of));
    if (answer->parts == NULL || of == NULL)
        return -ENOMEM;
    for (uint32_t i = 0; i < result->path_count; i++) {
        const struct replay_piece *piece = &result->path[i];
        int64_t length = piece->end_ns - piece->start_ns;
        struct replay_part *last =
            answer->part_count > 0 ? &answer->parts[answer->part_count - 1] : NULL;
        bool joins = last != NULL && length < shortest &&
                     last->end_ns - last->start_ns < shortest;

        if (!joins && answer->part_count < most) {
            of[answer->part_count] = piece;
            answer->parts[answer->part_count++] = (struct replay_part){
                .start_ns = piece->start_ns, .end_ns = piece->end_ns, .pieces = 1};
            longest = length;
            continue;
        }
        last->end_ns = piece->end_ns;
        last->pieces++;
        if (length > longest) {
            of[answer->part_count - 1] = piece;
            longest = length;
        }
    }
    for (uint32_t i = 0; i < answer->part_count; i++) {
        answer->parts[i].kind = (enum replay_kind)of[i]->kind;
        answer->parts[i].name = name_of(naming, of[i]->event);
        answer->parts[i].where = where_of(naming, of[i]);
    }
    return 0;
}

struct share { /* kind and name as one number */
    uint64_t key, count;
    double ns;
};

static int by_key(const void *left, const void *right)
{
    const struct share *a = left, *b = right;

    return a->key < b->key ? -1 : a->key > b->key;
}

static int by_ns(const void *left, const void *right)
{
    const struct share *a = left, *b = right;

    if (a->ns != b->ns)
        return a->ns > b->ns ? -1 : 1;
    return by_key(left, right);
}

static int list_shares(const struct naming *naming, const struct replay_result *result)
{
    struct replay_answer *answer = naming->answer;
    struct share *shares =
        arena_new(&answer->head.arena, result->path_count, sizeof(*shares));
    uint32_t count = 0;

    answer->shares =
        arena_new(&answer->head.arena, REPLAY_SHARES_MAX, sizeof(*answer->shares));
    if (shares == NULL || answer->shares == NULL)
        return -ENOMEM;
    for (uint32_t i = 0; i < result->path_count; i++) {
        const struct replay_piece *piece = &result->path[i];
        uint32_t name = piece->event == NULL ? 0 : EVENT_NAME(piece->event->meta);

        shares[i] = (struct share){.key = (uint64_t)piece->kind << 32 | name,
                                   .count = 1,
                                   .ns = (double)(piece->end_ns - piece->start_ns)};
    }
    qsort(shares, result->path_count, sizeof(*shares), by_key);
    for (uint32_t i = 0; i < result->path_count; i++) {
        if (count > 0 && shares[count - 1].key == shares[i].key) {
            shares[count - 1].ns += shares[i].ns;
            shares[count - 1].count++;
        } else {
            shares[count++] = shares[i];
        }
    }
    qsort(shares, count, sizeof(*shares), by_ns);
    for (uint32_t i = 0; i < count; i++) {
        if (i >= REPLAY_SHARES_MAX) {
            answer->other_ns += shares[i].ns;
            continue;
        }
        answer->shares[answer->share_count++] = (struct replay_share){
            .kind = (enum replay_kind)(shares[i].key >> 32),
            .name = arena_text(&answer->head.arena,
                               trace_name(naming->process, (uint32_t)shares[i].key)),
            .ns = shares[i].ns,
            .count = shares[i].count};
    }
    return 0;
}

static int show(const struct naming *naming, const struct step_row *row,
                const struct replay_result *result)
{
    struct replay_answer *answer = naming->answer;

    answer->number = row->number;
    answer->start_ns = row->start_ns;
    answer->duration_ns = (double)result->step_ns;
    answer->unknown_ns = (double)result->unknown_ns;
    for (uint32_t i = 0; i < REPLAY_KINDS; i++)
        answer->kind_ns[i] = (double)result->kind_ns[i];
    for (uint32_t i = 0; i < REPLAY_WHAT_IFS; i++)
        answer->what_if_ns[i] =
            result->asked[i] ? (double)result->what_if_ns[i] : UNKNOWN;
    int error = list_parts(naming, result);

    return error == 0 ? list_shares(naming, result) : error;
}

/* ---- the question ---------------------------------------------------------------------------- */

static int replay_steps(struct naming *naming, struct replay *replay,
                        const struct replay_pick *picks, uint32_t count)
{
    struct replay_answer *answer = naming->answer;
    struct replay_result result;
    struct replay_pick replayed[REPLAY_STEPS_MAX];
    struct sums sums = {0};
    uint64_t read = 0;
    int error = 0;

    for (uint32_t i = 0; i < count && error == 0 && read < REPLAY_READ_MAX; i++) {
        /* From the middle outwards: the median is never left out. */
        uint32_t at = i % 2 == 0 ? count / 2 + i / 2 : count / 2 - 1 - i / 2;
        const struct replay_pick *pick = &picks[at < count ? at : 0];

        read += replay_steps_feed(replay, naming->process, pick->row);
        int failed = replay_run(replay, &result);

        if (failed != 0) {
            answer->head.reason =
                failed == -EINVAL
                    ? "of these steps only phases and ranges were recorded"
                    : "a step has more events than can be replayed";
            continue;
        }
        add_step(&sums, &result, pick->scale);
        replayed[sums.steps - 1] = *pick;
        if (sums.steps == 1)
            error = show(naming, pick->row, &result);
    }
    fill_table(&sums, &answer->table);
    launched_mean(naming->process, replayed, sums.steps, answer->table.launched_ns);
    if (sums.steps > 0)
        answer->head.reason = NULL;
    return error;
}

int replay_query(struct store *store, const struct selection *selection,
                 struct replay_answer *answer)
{
    struct trace_request request = {.all_ranks = false};
    struct trace_answer trace;
    int error = trace_query(store, selection, &request, &trace);

    *answer = (struct replay_answer){.number = NOT_KNOWN, .start_ns = NOT_KNOWN};
    answer->duration_ns = answer->unknown_ns = UNKNOWN;
    if (error == 0) {
        struct naming naming = {answer, replay_steps_of(&trace)};
        struct replay *replay =
            naming.process == NULL ? NULL : replay_new(naming.process->texts);
        uint32_t count = 0;
        struct replay_pick picks[REPLAY_STEPS_MAX];
        const struct step_row **steps =
            replay == NULL ? NULL : replay_steps_list(&trace, naming.process, &count);

        count = replay_steps_spread(steps, count, picks);
        if (count > 0)
            error = replay_steps(&naming, replay, picks, count);
        else
            answer->head.reason = replay_steps_why_none(naming.process);
        free(steps);
        replay_free(replay);
    }
    const char *reason = answer->head.reason;
    struct arena arena = answer->head.arena;

    answer->head = trace.head;
    answer->head.arena = arena;
    if (reason != NULL)
        answer->head.reason = reason;
    trace_release(&trace);
    return error;
}

struct replay_table replay_query_table(struct store *store,
                                       const struct selection *selection)
{
    struct replay_answer answer;
    struct replay_table table = {0};

    if (replay_query(store, selection, &answer) == 0)
        table = answer.table;
    answer_free(&answer.head);
    return table;
}
