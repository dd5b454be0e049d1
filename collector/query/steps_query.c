#include "query/steps_query.h"

#include <errno.h>
#include <string.h>

#include "query/parts.h"
#include "wire/words.h"

#define POINTS_DEFAULT 600u
#define MARKERS_MAX    200u
#define SLOW_FACTOR    2

/* With RECORDING_PHASES where its phases are known. */
static uint32_t flags_of(const struct step *step)
{
    return step->flags | (step->known != 0 ? (uint32_t)RECORDING_PHASES : 0);
}

const char *step_recorded_name(uint32_t flags)
{
    bool ops = (flags & EVENT_STEP_OPS) != 0;

    if (flags & EVENT_STEP_KERNELS)
        return ops ? "all" : "kernels";
    if (ops)
        return "ops";
    return flags & RECORDING_PHASES ? "phases" : "none";
}

void parts_step_row(const struct step *step, double median_ns, struct step_row *row)
{
    bool validation = (step->flags & EVENT_STEP_VALIDATION) != 0;

    *row =
        (struct step_row){.number = validation ? NOT_KNOWN : (int64_t)step->number,
                          .epoch = (uint32_t)step->epoch,
                          .flags = flags_of(step),
                          .start_ns = step->start_ns,
                          .duration_ns = (double)step->duration_ns,
                          .other_ns = step_other_ns(step),
                          .samples = (double)step->samples,
                          .whole = step->whole,
                          .slow = !(step->flags & STEP_APART) &&
                                  (double)step->duration_ns > SLOW_FACTOR * median_ns};
    for (uint32_t phase = 0; phase < EVENT_PHASES; phase++)
        row->phase_ns[phase] = step_phase_ns(step, phase);
}

/* Share of the time around a step without a core from which on that made it slow, where no
 * part of it did. */
#define CROWDED 0.5

/* Which part of a slow step grew most over the window's mean; the collections of the
 * interpreter go first, they lie inside of phases. */
static const char *cause_of(const struct process *process, const struct step *step,
                            const struct steps_summary *summary)
{
    double over = (double)step->duration_ns - summary->p50_ns;
    double most = over / 2, other = step_other_ns(step) - summary->other_ns;
    const char *cause = "unknown";

    if ((double)step->gc_ns > over / 2)
        return "gc";
    for (uint32_t phase = 0; phase < EVENT_PHASES; phase++) {
        double grew = step_phase_ns(step, phase) - summary->phase_ns[phase];

        if (!isnan(grew) && grew > most) {
            most = grew;
            cause = wire_phase_word(phase);
        }
    }
    if (!isnan(other) && other > most)
        return "other";
    if (strcmp(cause, "unknown") == 0 &&
        parts_delay(process, step->start_ns, step_end_ns(step)) >= CROWDED)
        return "core";
    return cause;
}

/* About how many bytes of raw events lie in each slow step: blocks count by their
 * overlap. One pass over the blocks, which lie far apart in memory. */
static void measure_slow(const struct pick *pick, struct steps_answer *answer)
{
    for (const struct history_block *block = pick->process->blocks.oldest;
         block != NULL; block = block->after) {
        if (block->to_ns <= block->from_ns)
            continue;
        double length = (double)(block->to_ns - block->from_ns);

        for (uint32_t i = 0; i < answer->slow_count; i++) {
            struct slow_step *slow = &answer->slow[i];
            int64_t end = slow->start_ns + (int64_t)slow->duration_ns;
            int64_t from =
                block->from_ns > slow->start_ns ? block->from_ns : slow->start_ns;
            int64_t to = block->to_ns < end ? block->to_ns : end;

            if (to > from)
                slow->raw_bytes +=
                    (uint64_t)((double)(to - from) / length *
                               (double)(block->count * sizeof(struct event)));
        }
    }
    for (uint32_t i = 0; i < answer->slow_count; i++)
        answer->slow[i].remembered |= answer->slow[i].raw_bytes > 0;
}

/* The newest events are in blocks that are still open. */
static bool is_remembered(const struct pick *pick, const struct step *step)
{
    for (uint32_t i = 0; i < pick->process->thread_count; i++) {
        const struct process_thread *thread = pick->process->threads[i];

        if (thread != NULL && thread->open_block != NULL &&
            thread->open_block->from_ns <= step->start_ns)
            return true;
    }
    return false;
}

int parts_slow(const struct pick *pick, struct steps_answer *answer)
{
    const struct steps *steps = &pick->process->steps;
    uint32_t count, first = pick_steps(pick, &count);

    if (!ARENA_LIST(&answer->head.arena, answer->slow, STEPS_SLOW_MAX))
        return -ENOMEM;
    /* A median of a few says nothing. */
    if (answer->train.count < 10)
        return 0;
    for (uint32_t i = first + count;
         i-- > first && answer->slow_count < STEPS_SLOW_MAX;) {
        const struct step *step = steps_at(steps, i);

        if ((step->flags & STEP_APART) ||
            (double)step->duration_ns <= SLOW_FACTOR * answer->train.p50_ns)
            continue;
        struct slow_step *slow = &answer->slow[answer->slow_count++];

        *slow = (struct slow_step){
            .number = (int64_t)step->number,
            .start_ns = step->start_ns,
            .duration_ns = (double)step->duration_ns,
            .over_ns = (double)step->duration_ns - answer->train.p50_ns,
            .cause = cause_of(pick->process, step, &answer->train),
            .age_ns = (double)(answer->head.now_ns - step_end_ns(step)),
            .flags = flags_of(step),
            .remembered = is_remembered(pick, step)};
    }
    return 0;
}

/* The shortest and the longest of each bucket of neighbours, in order of time. */
static void decimate(const struct steps *steps, uint32_t first, uint32_t count,
                     struct steps_answer *answer, uint32_t points)
{
    uint32_t buckets = points / 2;

    answer->decimated = true;
    for (uint32_t b = 0; b < buckets; b++) {
        uint32_t from = first + (uint32_t)((uint64_t)count * b / buckets);
        uint32_t to = first + (uint32_t)((uint64_t)count * (b + 1) / buckets);
        uint32_t low = from, high = from;

        if (from == to)
            continue;
        for (uint32_t i = from; i < to; i++) {
            int64_t duration = steps_at(steps, i)->duration_ns;

            low = duration < steps_at(steps, low)->duration_ns ? i : low;
            high = duration >= steps_at(steps, high)->duration_ns ? i : high;
        }
        parts_step_row(steps_at(steps, low < high ? low : high), answer->train.p50_ns,
                       &answer->rows[answer->row_count++]);
        if (low != high)
            parts_step_row(steps_at(steps, low < high ? high : low),
                           answer->train.p50_ns, &answer->rows[answer->row_count++]);
    }
}

/* Steps that are not remembered one by one: two rows per bucket of the series. */
static void from_series(const struct pick *pick, int64_t until_ns,
                        struct steps_answer *answer, uint32_t points)
{
    const struct series *series = &pick->process->steps.series;
    const struct answer_window *window = &answer->head.window;
    const struct series_ring *ring =
        series_pick(series, window->from_ns, until_ns, points / 2);
    int64_t width = series_width_ns(series, ring);

    for (uint32_t i = 0; i < ring->count && answer->row_count + 2 <= points; i++) {
        const struct series_bucket *bucket = series_at(ring, i);

        if (bucket->start_ns + width <= window->from_ns ||
            bucket->start_ns + width > until_ns || bucket->count == 0)
            continue;
        for (uint32_t which = 0; which < 2; which++) {
            struct step_row *row = &answer->rows[answer->row_count++];

            *row = (struct step_row){
                .number = which == 1 ? bucket->tag : NOT_KNOWN,
                .start_ns = bucket->start_ns + (which == 0 ? 0 : width / 2),
                .duration_ns = (double)(which == 0 ? bucket->min[0] : bucket->max[0]),
                .other_ns = UNKNOWN,
                .samples = UNKNOWN};
            for (uint32_t phase = 0; phase < EVENT_PHASES; phase++)
                row->phase_ns[phase] =
                    bucket->counts[1 + phase] == 0
                        ? UNKNOWN
                        : (double)bucket->sum[1 + phase] / bucket->counts[1 + phase];
        }
        answer->decimated = true;
    }
}

static int list_rows(const struct pick *pick, uint32_t points,
                     struct steps_answer *answer)
{
    const struct steps *steps = &pick->process->steps;
    uint32_t count, first = pick_steps(pick, &count), old = 0;
    const struct answer_window *window = &answer->head.window;

    if (!ARENA_LIST(&answer->head.arena, answer->rows, points))
        return -ENOMEM;
    bool older = steps_remembered(steps) < steps->count &&
                 window->from_ns < steps_at(steps, 0)->start_ns;

    if (older && count > 0) {
        /* A share of the points for what only the series know. */
        int64_t oldest = steps_at(steps, first)->start_ns;

        from_series(pick, oldest, answer, points / 2);
        old = answer->row_count;
    }
    if (count > points - old) {
        decimate(steps, first, count, answer, points - old);
        return 0;
    }
    for (uint32_t i = first; i < first + count; i++)
        parts_step_row(steps_at(steps, i), answer->train.p50_ns,
                       &answer->rows[answer->row_count++]);
    return 0;
}

static const char *const marker_kinds[] = {
    "user", "epoch", "validation", "stretch", "level", "gc", "window", "checkpoint"};
#define MARKER_KINDS (sizeof(marker_kinds) / sizeof(marker_kinds[0]))

static const char *marker_label(struct answer *head, const struct process *process,
                                const struct step_mark *mark)
{
    unsigned long long argument = mark->argument;

    if (mark->kind == EVENT_MARK_EPOCH)
        return arena_print(&head->arena, "epoch %llu", argument);
    if (mark->kind == EVENT_MARK_VALIDATION || mark->kind == EVENT_MARK_WINDOW)
        return argument != 0 ? "begins" : "ends";
    return arena_text(&head->arena, texts_get(process->texts, mark->text));
}

static int list_markers(const struct pick *pick, struct steps_answer *answer)
{
    const struct steps *steps = &pick->process->steps;
    const struct answer_window *window = &answer->head.window;
    uint64_t remembered =
        steps->mark_count < STEPS_MARKERS ? steps->mark_count : STEPS_MARKERS;
    uint64_t from = steps->mark_count;

    if (!ARENA_LIST(&answer->head.arena, answer->markers, MARKERS_MAX))
        return -ENOMEM;
    while (from > steps->mark_count - remembered &&
           steps->mark_count - from < MARKERS_MAX &&
           steps->marks[(from - 1) % STEPS_MARKERS].time_ns >= window->from_ns)
        from--;
    for (; from < steps->mark_count; from++) {
        const struct step_mark *mark = &steps->marks[from % STEPS_MARKERS];

        if (mark->time_ns >= window->to_ns)
            continue;
        answer->markers[answer->marker_count++] = (struct step_marker){
            .time_ns = mark->time_ns,
            .kind = mark->kind < MARKER_KINDS ? marker_kinds[mark->kind] : "user",
            .label = marker_label(&answer->head, pick->process, mark),
            .duration_ns = mark->duration_ns > 0 ? (double)mark->duration_ns : UNKNOWN};
    }
    return 0;
}

static int list_epochs(const struct pick *pick, struct steps_answer *answer)
{
    const struct steps *steps = &pick->process->steps;
    uint64_t count =
        steps->epoch_count < STEPS_EPOCHS ? steps->epoch_count : STEPS_EPOCHS;

    if (!ARENA_LIST(&answer->head.arena, answer->epochs, count))
        return -ENOMEM;
    for (uint64_t i = steps->epoch_count - count; i < steps->epoch_count; i++) {
        const struct step_epoch *epoch = &steps->epochs[i % STEPS_EPOCHS];

        answer->epochs[answer->epoch_count++] = (struct epoch_row){
            .epoch = epoch->epoch,
            .start_ns = epoch->start_ns,
            .end_ns = epoch->end_ns,
            .steps = epoch->steps,
            .mean_ns = (double)epoch->total_ns / (double)epoch->steps};
    }
    return 0;
}

#define CALL_STEP                                                                      \
    "; without a DataLoader, a backward or an optimizer, "                             \
    "call trainglass.step() at the end of each"

void parts_explain_steps(const struct pick *pick, struct answer *head)
{
    if (head->reason[0] != '\0')
        return;
    if (pick->process->steps.count == 0)
        head->reason = head->from_file ? "the process ended without a step"
                       : head->live    ? "no step has ended yet" CALL_STEP
                                       : "the process ended without a step" CALL_STEP;
    else if (head->steps == 0)
        head->reason = "no step of this window is remembered";
}

int steps_query(struct store *store, const struct selection *selection,
                const struct steps_request *request, struct steps_answer *answer)
{
    uint32_t points = request->points == 0 ? POINTS_DEFAULT : request->points;
    struct pick pick;

    *answer = (struct steps_answer){0};
    if (points < 2 || points > STEPS_POINTS_MAX)
        return -EINVAL;
    int error = pick_open(&pick, store, selection, &answer->head);

    if (error != 0)
        return error;
    bool run = pick_is_run(&pick, &selection->window);

    error = parts_steps_summary(&pick, run, answer);
    answer->head.window.complete =
        steps_remembered(&pick.process->steps) == pick.process->steps.count ||
        answer->head.window.complete;
    if (error != 0 || list_rows(&pick, points, answer) != 0 ||
        parts_means(&pick, answer) != 0 || parts_slow(&pick, answer) != 0 ||
        list_markers(&pick, answer) != 0 || list_epochs(&pick, answer) != 0)
        error = -ENOMEM;
    else
        measure_slow(&pick, answer);
    parts_explain_steps(&pick, &answer->head);
    pick_end(&pick);
    return error;
}

int steps_since(struct store *store, const struct selection *selection,
                uint64_t *cursor, uint32_t max, struct steps_answer *answer)
{
    struct pick pick;

    *answer = (struct steps_answer){0};
    parts_clear_summary(&answer->train);
    parts_clear_summary(&answer->validation);
    parts_clear_summary(&answer->windows);
    int error = pick_begin(&pick, store, selection, &answer->head);

    if (error != 0)
        return error;
    const struct steps *steps = &pick.process->steps;
    uint64_t oldest = steps->count - steps_remembered(steps);
    uint64_t from = *cursor == 0 ? steps->count : *cursor - 1;

    /* A cursor is one more than a count, so that 0 can mean none. */
    if (from > steps->count || from < oldest) {
        answer->head.reason = "gap";
        from = from > steps->count ? steps->count : oldest;
    }
    if (steps->count - from > max) {
        answer->head.reason = "gap";
        from = steps->count - max;
    }
    answer->rows = arena_new(&answer->head.arena, max, sizeof(*answer->rows));
    for (; answer->rows != NULL && from < steps->count; from++)
        parts_step_row(&steps->ring[from % steps->capacity], (double)INFINITY,
                       &answer->rows[answer->row_count++]);
    *cursor = steps->count + 1;
    answer->head.steps = pick.process->told_steps;
    pick_end(&pick);
    return answer->rows == NULL ? -ENOMEM : 0;
}
