#include "aggregate/steps.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "aggregate/sum.h"

#define PHASES_KNOWN ((1u << EVENT_PHASES) - 1)

void steps_init(struct steps *steps)
{
    memset(steps, 0, sizeof(*steps));
    steps->samples_pending = NAN;
    steps->first_ns = INT64_MAX;
    steps->last_end_ns = INT64_MIN;
}

void steps_free(struct steps *steps)
{
    free(steps->ring);
    free(steps->marks);
    free(steps->epochs);
    free(steps->train);
    free(steps->validation);
    free(steps->windows);
    series_free(&steps->series);
}

uint32_t steps_remembered(const struct steps *steps)
{
    return steps->count < steps->capacity ? (uint32_t)steps->count : steps->capacity;
}

const struct step *steps_at(const struct steps *steps, uint32_t i)
{
    uint64_t oldest = steps->count - steps_remembered(steps);

    return &steps->ring[(oldest + i) % steps->capacity];
}

uint32_t steps_after(const struct steps *steps, int64_t time_ns)
{
    uint32_t low = 0, high = steps_remembered(steps);

    while (low < high) {
        uint32_t middle = low + (high - low) / 2;
        const struct step *step = steps_at(steps, middle);

        if (step->start_ns + step->duration_ns > time_ns)
            high = middle;
        else
            low = middle + 1;
    }
    return low;
}

uint32_t steps_lose_works(struct steps *steps, int64_t since_ns, int64_t until_ns)
{
    uint64_t oldest = steps->count - steps_remembered(steps);
    uint32_t first = steps_after(steps, since_ns), i = first;

    for (; i < steps_remembered(steps); i++) {
        struct step *step = &steps->ring[(oldest + i) % steps->capacity];
        struct step_totals *sum = step->flags & EVENT_STEP_WINDOW ? steps->windows
                                  : step->flags & EVENT_STEP_VALIDATION
                                      ? steps->validation
                                      : steps->train;

        if (step->start_ns >= until_ns)
            break;
        if (sum != NULL && (step->flags & EVENT_STEP_KERNELS) && sum->kernels > 0)
            sum->kernels--;
        step->flags &= (uint8_t)~EVENT_STEP_KERNELS;
    }
    return i - first;
}

double step_phase_ns(const struct step *step, uint32_t phase)
{
    return step->known & 1u << phase ? (double)step->phase_ns[phase] : (double)NAN;
}

double step_other_ns(const struct step *step)
{
    double other = (double)step->duration_ns;

    /* Who fetches from no loader makes batches somewhere: that is in no phase. */
    uint32_t known = step->known | 1u << EVENT_PHASE_DATA;

    if ((known & PHASES_KNOWN) != PHASES_KNOWN)
        return (double)NAN;
    for (uint32_t phase = 0; phase < EVENT_PHASES; phase++)
        if (step->known & 1u << phase)
            other -= (double)step->phase_ns[phase];
    return other > 0 ? other : 0;
}

void steps_fold_phase(struct steps *steps, const struct event *event)
{
    uint16_t phase = EVENT_AUX16(event->meta);
    int64_t start = (int64_t)event->time, end = start + (int64_t)event->value;

    if (phase >= EVENT_PHASES)
        return;
    if (steps->pending_count < STEPS_PENDING) {
        steps->pending[steps->pending_count++] = (struct phase_stretch){
            .start_ns = start, .end_ns = end, .phase = (uint8_t)phase};
        return;
    }
    /* Keep the sum: lengthen a stretch of the same phase by what does not fit. */
    for (uint32_t i = STEPS_PENDING; i-- > 0;) {
        if (steps->pending[i].phase != phase)
            continue;
        steps->pending[i].end_ns = sum_ns(steps->pending[i].end_ns, end - start);
        return;
    }
}

void steps_fold_samples(struct steps *steps, const struct event *event)
{
    steps->samples_pending = (float)event->value;
}

void steps_fold_waited(struct steps *steps, const struct event *event)
{
    int64_t ns = event->value < SUM_MAX_NS ? (int64_t)event->value : SUM_MAX_NS;

    if (steps->wait_count == STEPS_WAITS) {
        struct step_wait *last = &steps->waits[STEPS_WAITS - 1];

        last->ns = sum_ns(last->ns, ns);
        return;
    }
    steps->waits[steps->wait_count++] =
        (struct step_wait){.time_ns = (int64_t)event->time, .ns = ns};
}

void steps_fold_mark(struct steps *steps, const struct event *event)
{
    uint8_t kind = EVENT_FLAGS(event->meta);

    if (steps->marks == NULL)
        steps->marks = calloc(STEPS_MARKERS, sizeof(*steps->marks));
    if (steps->marks == NULL)
        return;
    steps->marks[steps->mark_count++ % STEPS_MARKERS] = (struct step_mark){
        .time_ns = (int64_t)event->time,
        .duration_ns = kind == EVENT_MARK_GC ? (int64_t)event->value : 0,
        .argument = event->aux,
        .text = EVENT_NAME(event->meta),
        .kind = kind};
}

static int by_start(const void *left, const void *right)
{
    const struct phase_stretch *a = left, *b = right;

    return a->start_ns < b->start_ns ? -1 : a->start_ns > b->start_ns;
}

/* What lies between two stretches belongs to what follows it. */
static void take_gap(struct step *step, const struct phase_stretch *before,
                     const struct phase_stretch *next)
{
    float ns = (float)(next->start_ns - before->end_ns);

    if (before->end_ns < step->start_ns || next->start_ns <= before->end_ns)
        return;
    if (before->phase == EVENT_PHASE_DATA && next->phase == EVENT_PHASE_FORWARD)
        step->before_forward_ns += ns;
    if (before->phase == EVENT_PHASE_BACKWARD && next->phase == EVENT_PHASE_OPTIMIZER)
        step->before_update_ns += ns;
}

/* Each phase is the union of its stretches, cut at the step's edges: two threads may
 * tell of the same instant. */
static void take_phases(struct steps *steps, struct step *step)
{
    int64_t covered[EVENT_PHASES], total[EVENT_PHASES] = {0};
    int64_t end = step->start_ns + step->duration_ns;

    qsort(steps->pending, steps->pending_count, sizeof(steps->pending[0]), by_start);
    for (uint32_t phase = 0; phase < EVENT_PHASES; phase++)
        covered[phase] = step->start_ns;
    for (uint32_t i = 0; i < steps->pending_count; i++) {
        const struct phase_stretch *stretch = &steps->pending[i];
        int64_t *edge = &covered[stretch->phase];
        int64_t from = stretch->start_ns > *edge ? stretch->start_ns : *edge;
        int64_t to = stretch->end_ns < end ? stretch->end_ns : end;

        if (to <= from)
            continue;
        if (i > 0)
            take_gap(step, stretch - 1, stretch);
        step->known |= (uint8_t)(1u << stretch->phase);
        total[stretch->phase] += to - from;
        *edge = to;
    }
    for (uint32_t phase = 0; phase < EVENT_PHASES; phase++)
        step->phase_ns[phase] = (float)total[phase];
    steps->pending_count = 0;
}

static bool make_room(struct steps *steps)
{
    if (steps->count != steps->capacity || steps->capacity == STEPS_MAX)
        return true;
    uint32_t capacity = steps->capacity == 0 ? 256 : steps->capacity * 2;
    struct step *ring = realloc(steps->ring, capacity * sizeof(*ring));

    /* While it grows it has never wrapped: positions stay. */
    if (ring == NULL)
        return steps->capacity > 0;
    steps->ring = ring;
    steps->capacity = capacity;
    return true;
}

static void total_phase(struct phase_sums *sums, uint32_t phase, double ns,
                        double duration_ns)
{
    if (isnan(ns))
        return;
    sums->of[phase].ns += ns;
    sums->of[phase].steps_ns += duration_ns;
    sums->of[phase].steps++;
}

/* The first holds all below 8 us, the last what takes hours. */
static uint32_t length_of(int64_t ns)
{
    uint32_t length = 0;

    for (ns >>= 13; ns > 0 && length < STEPS_LENGTHS - 1; ns >>= 1)
        length++;
    return length;
}

void steps_total(struct step_totals *sum, const struct step *step)
{
    double duration = (double)step->duration_ns;
    bool tagged = (step->flags & EVENT_STEP_TAGGED) != 0;
    struct length_sums *length = &sum->lengths[length_of(step->duration_ns)];
    struct phase_sums *phases = tagged ? &length->tagged_phases : &length->phases;

    sum->min_ns = sum->count == 0 || duration < sum->min_ns ? duration : sum->min_ns;
    sum->max_ns = duration > sum->max_ns ? duration : sum->max_ns;
    sum->count++;
    sum->ops += step->flags & EVENT_STEP_OPS ? 1 : 0;
    sum->kernels += step->flags & EVENT_STEP_KERNELS ? 1 : 0;
    sum->tagged += tagged ? 1 : 0;
    sum->total_ns += duration;
    length->count++;
    length->total_ns += duration;
    sum->squares += duration * duration;
    sum->cells[histogram_cell(step->duration_ns)]++;
    for (uint32_t phase = 0; phase < EVENT_PHASES; phase++)
        total_phase(phases, phase, step_phase_ns(step, phase), duration);
    total_phase(phases, EVENT_PHASES, step_other_ns(step), duration);
    sum->samples += isnan(step->samples) ? 0 : (double)step->samples;
    sum->samples_count += isnan(step->samples) ? 0 : 1;
}

static void total(struct step_totals **totals, const struct step *step)
{
    if (*totals == NULL)
        *totals = calloc(1, sizeof(**totals));
    if (*totals != NULL)
        steps_total(*totals, step);
}

static double total_of(const struct step_totals *totals)
{
    return totals == NULL ? 0 : totals->total_ns;
}

/* Before the step is in the totals: where training goes on after a validation, an epoch
 * has ended. */
static void end_epoch(struct steps *steps, bool validation)
{
    bool ends = steps->validated && !validation;

    steps->validated = validation;
    if (!ends)
        return;
    if (total_of(steps->train) > 0) {
        steps->epochs_whole++;
        steps->epochs_train_ns = total_of(steps->train);
        steps->epochs_validation_ns = total_of(steps->validation) - steps->before_ns;
        steps->epochs_outside_ns = (double)steps->outside_ns - steps->outside_before_ns;
    } else {
        steps->before_ns = total_of(steps->validation);
        steps->outside_before_ns = (double)steps->outside_ns;
    }
}

/* Time that belongs to no step, unless it is that of steps that nobody saw. */
static void count_outside(struct steps *steps, const struct step *step, bool validation)
{
    bool missing = !validation && step->number != steps->next_number;

    if (!validation)
        steps->next_number = step->number + 1;
    if (steps->last_end_ns != INT64_MIN && step->start_ns > steps->last_end_ns &&
        !missing)
        steps->outside_ns =
            sum_ns(steps->outside_ns, step->start_ns - steps->last_end_ns);
}

static void count_epoch(struct steps *steps, const struct step *step)
{
    int64_t end = step->start_ns + step->duration_ns;

    if (steps->epochs == NULL)
        steps->epochs = calloc(STEPS_EPOCHS, sizeof(*steps->epochs));
    if (step->epoch == 0 || steps->epochs == NULL)
        return;
    struct step_epoch *epoch =
        &steps->epochs[(steps->epoch_count + STEPS_EPOCHS - 1) % STEPS_EPOCHS];

    if (steps->epoch_count == 0 || epoch->epoch != step->epoch) {
        epoch = &steps->epochs[steps->epoch_count++ % STEPS_EPOCHS];
        *epoch = (struct step_epoch){.epoch = (uint32_t)step->epoch,
                                     .start_ns = step->start_ns};
    }
    epoch->steps++;
    epoch->end_ns = end;
    epoch->total_ns = sum_ns(epoch->total_ns, step->duration_ns);
}

/* Collections that began in the step: those before the first one belong to none. */
static float collections_ns(const struct steps *steps, int64_t start, int64_t end)
{
    uint64_t oldest =
        steps->mark_count < STEPS_MARKERS ? 0 : steps->mark_count - STEPS_MARKERS;
    int64_t sum = 0;

    if (steps->marks == NULL)
        return 0;
    for (uint64_t i = steps->mark_count; i-- > oldest;) {
        const struct step_mark *mark = &steps->marks[i % STEPS_MARKERS];

        if (mark->time_ns < start)
            break;
        if (mark->kind == EVENT_MARK_GC && mark->time_ns < end)
            sum = sum_ns(sum, mark->duration_ns);
    }
    return (float)sum;
}

/* Waits of fetches that ended in the step; those of later ones stay. */
static float take_waits(struct steps *steps, int64_t start, int64_t end)
{
    int64_t sum = -1;
    uint32_t kept = 0;

    for (uint32_t i = 0; i < steps->wait_count; i++) {
        struct step_wait wait = steps->waits[i];

        if (wait.time_ns >= end)
            steps->waits[kept++] = wait;
        else if (wait.time_ns >= start)
            sum = sum_ns(sum < 0 ? 0 : sum, wait.ns);
    }
    steps->wait_count = kept;
    return sum < 0 ? NAN : (float)sum;
}

const struct step *steps_fold(struct steps *steps, const struct event *event,
                              bool whole)
{
    struct step step = {.start_ns = (int64_t)event->time,
                        .duration_ns = (int64_t)event->value,
                        .number = EVENT_STEP_NUMBER(event->aux),
                        .epoch = (uint16_t)EVENT_STEP_EPOCH(event->aux),
                        .flags = EVENT_FLAGS(event->meta),
                        .known = (uint8_t)(EVENT_AUX16(event->meta) & PHASES_KNOWN),
                        .samples = steps->samples_pending,
                        .whole = whole};
    int64_t end = step.start_ns + step.duration_ns;
    bool validation = (step.flags & EVENT_STEP_VALIDATION) != 0;

    take_phases(steps, &step);
    step.gc_ns = collections_ns(steps, step.start_ns, end);
    step.waited_ns = take_waits(steps, step.start_ns, end);
    steps->samples_pending = NAN;
    if (!make_room(steps))
        return NULL;
    count_outside(steps, &step, validation);
    steps->first_ns = step.start_ns < steps->first_ns ? step.start_ns : steps->first_ns;
    steps->last_end_ns = end > steps->last_end_ns ? end : steps->last_end_ns;
    struct step *kept = &steps->ring[steps->count++ % steps->capacity];

    *kept = step;
    end_epoch(steps, validation);
    total(step.flags & EVENT_STEP_WINDOW ? &steps->windows
          : validation                   ? &steps->validation
                                         : &steps->train,
          &step);
    if (!validation) {
        double values[SERIES_CHANNELS] = {(double)step.duration_ns};

        for (uint32_t phase = 0; phase < EVENT_PHASES; phase++)
            values[1 + phase] = step_phase_ns(&step, phase);
        series_add(&steps->series, end, (int64_t)step.number, values, 1 + EVENT_PHASES);
        count_epoch(steps, &step);
    }
    return kept;
}
