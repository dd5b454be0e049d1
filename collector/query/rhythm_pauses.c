/* Pauses: single steps that take many times as long as the others, too seldom to be a
 * period within a window. Looked for in all steps that are remembered, where the window
 * reaches to the newest of a running job; else in the window. */

#include "query/rhythm_inside.h"

#define PAUSES_MAX 64u /* the newest are looked at; more are not seldom */

struct pauses {
    const struct step
        *steps[PAUSES_MAX];      /* of one distance, newest first; the store's */
    uint32_t places[PAUSES_MAX]; /* of them: steps before the newest step */
    uint32_t count;
    uint32_t gap; /* steps from one to the next, where none is missing */
    bool rough;   /* their distance is one of time, so `gap` is a mean */
};

/* A pause is so many medians longer than a step. What is shorter and comes less than
 * once in PAUSES_APART steps is no loss worth a name. */
#define PAUSES_LONG  5.0
#define PAUSES_APART 50u

/* Three make two equal distances; of machine's hiccups as long as a pause two distances
 * are equal once in so many steps as lie between them. Each further pause allows for a
 * stranger. */
#define PAUSES_NEEDED    3u
#define PAUSES_TAKEN     0.8 /* of the places between the first and the last */
#define PAUSES_STRANGERS 4u  /* between two pauses, passed over */

/* Who saves by the clock does so at the end of a step: distances differ by one or two. */
#define TIME_STEPS 2.0
#define TIME_SHARE 0.01

/* The run's first steps warm up. */
#define FIRST_STEPS 20u

enum { BY_PLACE, BY_TIME };

struct pause {
    const struct step *step;
    double extra_ns;
    double back[2]; /* from the newest step, in steps: their number, and by the clock */
};

struct search {
    struct pause pauses[PAUSES_MAX]; /* newest first */
    uint32_t count, steps;           /* of them; that were looked at */
    double median_ns;
};

/* How much longer than the median a step is, without collections. */
static double extra_ns_of(const struct step *step, double median_ns)
{
    return (double)step->duration_ns - (double)step->gc_ns - median_ns;
}

static void collect(const struct pick *pick, struct search *search)
{
    const struct steps *steps = &pick->process->steps;
    uint32_t count, first = pick_steps(pick, &count);

    if (pick_goes_on(pick)) {
        count += first;
        first = 0;
    }
    const struct step *newest = count > 0 ? steps_at(steps, first + count - 1) : NULL;

    for (uint32_t i = first + count; i-- > first && search->count < PAUSES_MAX;) {
        const struct step *step = steps_at(steps, i);

        if (step->flags & EVENT_STEP_VALIDATION)
            continue;
        if (step->number < FIRST_STEPS)
            break;
        double extra = extra_ns_of(step, search->median_ns);

        if (!(step->flags & EVENT_STEP_WINDOW) &&
            extra > PAUSES_LONG * search->median_ns)
            search->pauses[search->count++] =
                (struct pause){.step = step,
                               .extra_ns = extra,
                               .back = {search->steps, ((double)newest->start_ns -
                                                        (double)step->start_ns) /
                                                           search->median_ns}};
        search->steps++;
    }
}

/* Drops what is less than half as long as the third longest: hiccups. */
static void keep_longest(struct search *search)
{
    double sorted[PAUSES_MAX];
    uint32_t kept = 0;

    for (uint32_t i = 0; i < search->count; i++)
        sorted[i] = search->pauses[i].extra_ns;
    numbers_sort(sorted, search->count);
    for (uint32_t i = 0; i < search->count; i++)
        if (search->pauses[i].extra_ns >= sorted[search->count - PAUSES_NEEDED] / 2)
            search->pauses[kept++] = search->pauses[i];
    search->count = kept;
}

struct chain {
    uint32_t members[PAUSES_MAX]; /* indices of pauses, newest first */
    uint32_t count, places;
};

/* What is tried: so far from each other, give or take. */
struct spacing {
    uint32_t by; /* BY_PLACE or BY_TIME */
    double gap, slack;
};

/* The next older pause at the gap or, where one is missing, at twice that; count: none. */
static uint32_t next_of(const struct search *search, uint32_t at,
                        const struct spacing *spacing, uint32_t *places)
{
    for (uint32_t next = at + 1; next < search->count; next++) {
        double apart = search->pauses[next].back[spacing->by] -
                       search->pauses[at].back[spacing->by];

        for (uint32_t times = 1; times <= 2; times++)
            if (fabs(apart - times * spacing->gap) <= times * spacing->slack) {
                *places += times;
                return next;
            }
    }
    return search->count;
}

/* Pauses from `from` on, with few others between them. */
static bool follow(const struct search *search, uint32_t from,
                   const struct spacing *spacing, struct chain *chain)
{
    *chain = (struct chain){.places = 1};
    for (uint32_t at = from; at < search->count;
         at = next_of(search, at, spacing, &chain->places))
        chain->members[chain->count++] = at;
    uint32_t oldest = chain->members[chain->count - 1];
    uint32_t strangers = oldest + 1 - chain->count; /* also newer ones than it */

    return chain->count >= PAUSES_NEEDED &&
           chain->count >= PAUSES_TAKEN * chain->places &&
           strangers <= chain->count - PAUSES_NEEDED;
}

/* The chain that goes on: its next pause is not long overdue. */
static bool find_chain(const struct search *search, bool rough, struct chain *chain)
{
    struct spacing spacing = {.by = rough ? BY_TIME : BY_PLACE};

    for (uint32_t from = 0; from < search->count && from < PAUSES_STRANGERS; from++) {
        for (uint32_t to = from + 1;
             to < search->count && to <= from + PAUSES_STRANGERS; to++) {
            const struct pause *newer = &search->pauses[from];
            double gap = search->pauses[to].back[spacing.by] - newer->back[spacing.by];
            double age = newer->back[spacing.by];

            spacing.gap = gap;
            spacing.slack = rough ? TIME_STEPS + TIME_SHARE * gap : 0;
            if (gap >= PAUSES_APART && age <= 2 * gap + spacing.slack &&
                follow(search, from, &spacing, chain))
                return true;
        }
    }
    return false;
}

/* `median_ns` of the window's steps. False: none that come at one distance. */
static bool find_pauses(const struct pick *pick, double median_ns,
                        struct pauses *pauses)
{
    struct search search = {.median_ns = median_ns};
    struct chain chain, by_time;

    *pauses = (struct pauses){.rough = false};
    if (!(median_ns > 0))
        return false;
    collect(pick, &search);
    if (search.count < PAUSES_NEEDED)
        return false;
    keep_longest(&search);
    bool in_steps = find_chain(&search, false, &chain);

    /* Distances of time are some of them equal in steps too. */
    pauses->rough = find_chain(&search, true, &by_time) &&
                    (!in_steps || by_time.count > chain.count);
    if (!pauses->rough && !in_steps)
        return false;
    if (pauses->rough)
        chain = by_time;
    const struct pause *newest = &search.pauses[chain.members[0]];
    const struct pause *oldest = &search.pauses[chain.members[chain.count - 1]];

    for (uint32_t i = 0; i < chain.count; i++) {
        const struct pause *pause = &search.pauses[chain.members[i]];

        pauses->places[i] = (uint32_t)pause->back[BY_PLACE];
        pauses->steps[pauses->count++] = pause->step;
    }
    pauses->gap = (uint32_t)((oldest->back[BY_PLACE] - newest->back[BY_PLACE]) /
                                 (chain.places - 1) +
                             0.5);
    return pauses->gap > 0;
}

/* A period that is longer than the window shows: of all pauses that are remembered. */
void rhythm_find_pauses(const struct pick *pick, struct rhythm_work *work,
                        struct rhythm *rhythm)
{
    struct pauses pauses;
    struct rhythm_sums sums = {0};
    struct cycles cycles = {.count = 0};

    if (rhythm->period_steps > 0 || !find_pauses(pick, work->median, &pauses))
        return;
    for (uint32_t i = pauses.count; i-- > 0;) {
        double ns = extra_ns_of(pauses.steps[i], work->median);

        cycles_add(&cycles, pauses.places[pauses.count - 1] - pauses.places[i], ns);
        rhythm_add(work, &sums, pauses.steps[i], ns);
    }
    struct cycles_price price = cycles_even(&cycles, 0);
    struct rhythm_extra extra = rhythm_finish_cycles(&sums, &price);

    /* First batches of epochs were told. */
    if (rhythm->epoch.steps > 0 && extra.part == EVENT_PHASE_DATA)
        return;
    rhythm->period = extra;
    rhythm->period_steps = pauses.gap;
    rhythm->period_is_rough = pauses.rough;
    for (uint32_t i = 0; i < work->count; i++)
        for (uint32_t p = 0; p < pauses.count; p++)
            if (work->items[i].step == pauses.steps[p])
                work->items[i].left -= rhythm_over(work, i);
}
