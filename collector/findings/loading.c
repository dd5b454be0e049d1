#include "findings/loading.h"

#include <math.h>
#include <string.h>

#include "findings/looks.h"
#include "findings/settings.h"

/* A smaller part does not make loading much faster. */
#define PART_TOLD 0.3

/* Of the loader's workers, or of the trainer that loads by itself. */
static bool has_workers(const struct rule_context *context)
{
    return rule_number(context, FACT_DATALOADER_WORKERS) >= 1;
}

/* Workers tell theirs only where they are forks; NaN elsewhere. */
static double collate_share(const struct rule_context *context)
{
    bool silent = has_workers(context) &&
                  strcmp(rule_text(context, FACT_DATALOADER_START_METHOD), "fork") != 0;

    return silent ? (double)NAN : rule_number(context, FACT_DATALOADER_COLLATE_SHARE);
}

/* All else of it, but where the trainer also pins what it loaded: then NaN. */
static double samples_share(const struct rule_context *context)
{
    return !has_workers(context) &&
                   rule_number(context, FACT_DATALOADER_PIN_MEMORY) >= 1
               ? (double)NAN
               : 1 - collate_share(context);
}

/* "samples of `Images`" */
static const char *samples(struct rule_context *context)
{
    const char *class = rule_text(context, FACT_DATALOADER_DATASET);

    return class[0] == '\0' ? "samples" : rule_print(context, "samples of `%s`", class);
}

static const char *part(struct rule_context *context, double share, const char *own,
                        const char *what)
{
    return has_workers(context)
               ? rule_print(context, "; %.0f %% of loading is spent %s", 100 * share,
                            what)
               : rule_print(context, ": %.0f %% of it %s", 100 * share, own);
}

bool loading_is_collating(const struct rule_context *context)
{
    return collate_share(context) > 0.5;
}

const char *loading_part(struct rule_context *context)
{
    double collate = collate_share(context), rest = samples_share(context);

    if (loading_is_collating(context))
        return part(context, collate, "in `collate_fn`", "in `collate_fn`");
    return rest >= 0.5
               ? part(context, rest, rule_print(context, "for %s", samples(context)),
                      rule_print(context, "on %s", samples(context)))
               : "";
}

void loading_evidence(struct rule_context *context, struct finding *finding)
{
    rule_evidence(finding, "collate_pct", 100 * collate_share(context));
    rule_evidence_text(context, finding, "data_set",
                       rule_text(context, FACT_DATALOADER_DATASET));
}

void loading_advise_watching(struct rule_context *context, struct finding *finding)
{
    const char *names = rule_text(context, FACT_DATALOADER_FUNCTIONS);
    int first = (int)strcspn(names, ",");
    const char *second = names[first] == ',' ? names + first + 1 : "";

    if (!(rule_number(context, FACT_DATALOADER_WORKERS) >= 1) || names[0] == '\0' ||
        rule_text(context, FACT_WATCH_FUNCTIONS)[0] != '\0')
        return;
    rule_advise_print(context, finding,
                      "`with trainglass.watching(\"%.*s\"%s%s%s):` around the "
                      "loop: tells what %s in the workers",
                      first, names, second[0] == '\0' ? "" : ", \"", second,
                      second[0] == '\0' ? "" : "\"",
                      second[0] == '\0' ? "it takes" : "each takes");
}

void loading_advise_part(struct rule_context *context, struct finding *finding)
{
    double collate = collate_share(context), rest = samples_share(context);

    if (collate > PART_TOLD)
        rule_advise_print(context, finding,
                          "Collating takes %.0f %% of loading: return "
                          "arrays of one shape, or a `collate_fn` that "
                          "stacks once",
                          100 * collate);
    if (rest > PART_TOLD)
        rule_advise_print(context, finding,
                          "The %s take %.0f %% of loading: decode, parse and resize "
                          "them once, and store the result",
                          samples(context), 100 * rest);
}

/* More batches ahead than that cost more memory than they are worth. */
#define PREFETCH_MOST 16.0

struct ahead {
    double workers, now, late; /* late: in steps */
    double wanted;             /* by each worker, as `now`; NaN: none hides it */
};

/* What is ahead has hidden its part of a late batch; for the rest of it as many steps more
 * must be ready. Where it is late by less than what is ahead already, the workers are too
 * slow, and more of it is no help. */
static struct ahead ahead_of(const struct rule_context *context, double late_ns)
{
    struct ahead ahead = {.workers = rule_number(context, FACT_DATALOADER_WORKERS),
                          .now = rule_number(context, FACT_DATALOADER_PREFETCH),
                          .late = ceil(late_ns / context->train->p50_ns)};
    double wanted = ahead.now + ceil(ahead.late / ahead.workers);

    ahead.wanted = ahead.workers >= 1 && ahead.late + 1 > ahead.workers * ahead.now &&
                           wanted <= PREFETCH_MOST
                       ? wanted
                       : (double)NAN;
    return ahead;
}

bool loading_advise_ahead(struct rule_context *context, struct finding *finding,
                          double late_ns)
{
    struct ahead ahead = ahead_of(context, late_ns);

    if (isnan(ahead.wanted))
        return false;
    setting_advise(
        context, finding, SETTING_PREFETCH, setting_number(context, ahead.wanted),
        rule_print(context,
                   " instead of %.0f: a batch came %s late, though %s had %.0f ahead",
                   ahead.now, rule_count(context, ahead.late, "step"),
                   rule_workers(context, ahead.workers), ahead.workers * ahead.now));
    return true;
}

const char *loading_and_ahead(struct rule_context *context, double most)
{
    const char *ahead =
        setting_text(context, SETTING_PREFETCH, setting_number(context, most));

    return ahead[0] == '\0' || rule_number(context, FACT_DATALOADER_PREFETCH) >= most
               ? ""
               : rule_print(context, ", and %s", ahead);
}

double loading_tensors(const struct rule_context *context)
{
    double tensors = rule_number(context, FACT_DATALOADER_TENSORS);

    return tensors >= 1 ? fmin(tensors, TENSORS_MOST) : TENSORS_USUAL;
}

/* Of the time of all steps, those of validation among it. */
static double trained_share(const struct rule_context *context)
{
    const struct steps_summary *train = context->train;
    const struct steps_summary *validation = &context->summary->steps.validation;
    double trained = train->mean_ns * (double)train->count;
    double validated =
        validation->count > 0 ? validation->mean_ns * (double)validation->count : 0;

    return trained / (trained + validated);
}

double loading_worker_share(const struct rule_context *context)
{
    const struct load *load = &context->summary->load;
    double workers = rule_number(context, FACT_DATALOADER_WORKERS);
    double share = workers < 1 ? (double)NAN
                   : load->workers > workers
                       ? load->workers * load->worker_cpu_share / workers
                       : load->worker_cpu_share / trained_share(context);

    return share > 1 ? 1 : share; /* NaN stays NaN */
}

/* From so much more on than it usually takes, no machine explains it. */
#define TAKING_SLOW 6.0

/* Who holds the lock computes for so much of the time at least. */
#define LOCK_HELD 0.5

/* Of these bounds, for what stands already. */
static double bound(const struct rule_context *context, double at)
{
    return context->by_price ? FINDING_STAYS * at : at;
}

static bool may_hold_lock(const struct rule_context *context)
{
    return context->summary->load.workers == 0 ||
           !(loading_worker_share(context) < bound(context, LOCK_HELD));
}

/* Beside what is told `apart`, and what a thread of the trainer's own holds up. */
static double unanswered(const struct rule_context *context, double apart)
{
    double taking = loading_taking_ns(loading_tensors(context));
    double rest =
        context->train->taken_ns - apart - looks_lock(context).ns[EVENT_PHASE_DATA];

    return has_workers(context) && may_hold_lock(context) &&
                   rest > bound(context, TAKING_SLOW) * taking
               ? rest - TAKING_MOST * taking
               : 0;
}

double loading_unanswered_ns(const struct rule_context *context)
{
    double waited = context->train->waited_ns;

    return unanswered(context, fmax(loading_told_apart_ns(context) - waited, 0));
}

double loading_surely_unanswered_ns(const struct rule_context *context)
{
    return unanswered(context, loading_told_apart_ns(context));
}

/* Fewer than one in as many as are loaded ahead. */
static bool are_few_late(const struct rule_context *context)
{
    double workers = rule_number(context, FACT_DATALOADER_WORKERS);
    double ahead = rule_number(context, FACT_DATALOADER_PREFETCH);
    double late = context->train->late_share;

    return workers >= 1 && late > 0 && late * workers * ahead < 1;
}

bool loading_keeps_up(const struct rule_context *context)
{
    return are_few_late(context) && loading_unanswered_ns(context) <= 0;
}

bool loading_rare_stand_apart(const struct rule_context *context)
{
    double worst = context->summary->rhythm.rare.worst_ns;

    return !are_few_late(context) || isnan(ahead_of(context, worst).wanted);
}

/* Of few late batches, mean, but for those that are told apart. */
static double few_late_ns(const struct rule_context *context)
{
    double waited = context->train->waited_ns - loading_told_apart_ns(context);

    return fmax(waited, 0) / context->train->late_share;
}

bool loading_hides_few_late(const struct rule_context *context)
{
    return loading_keeps_up(context) &&
           !isnan(ahead_of(context, few_late_ns(context)).wanted);
}

void loading_advise_few_late(struct rule_context *context, struct finding *finding)
{
    (void)loading_advise_ahead(context, finding, few_late_ns(context));
    rule_advise(finding, "Look for samples that are far larger than the others: the "
                         "workers keep up with all but a few batches");
}

double loading_late_ns(const struct rule_context *context)
{
    const struct rhythm *rhythm = &context->summary->rhythm;
    bool period = rhythm->period.steps > 0 && rhythm->period.part == EVENT_PHASE_DATA &&
                  !rule_is_loader_rhythm(context);

    return rhythm->warm_up.data_ns + rhythm->epoch.data_ns +
           (period ? rhythm->period.data_ns : 0) +
           (loading_rare_stand_apart(context) ? rhythm->rare.data_ns : 0);
}

/* A worker that keeps a core busy, for more than twice as long as the others do: batches
 * come in the workers' turn, so all wait for it. */
#define SLOW_WORKER_BUSY 0.7
#define SLOW_WORKER_OVER 2.0

double loading_slow_worker_ns(const struct rule_context *context)
{
    const struct load *load = &context->summary->load;
    double data = context->train->phase_ns[EVENT_PHASE_DATA] - loading_late_ns(context);
    double step = context->train->mean_ns;

    if (load->workers < 2 || isnan(data) ||
        !(load->worker_cpu_most >= SLOW_WORKER_BUSY) ||
        !(load->worker_cpu_most > SLOW_WORKER_OVER * load->worker_cpu_others))
        return 0;
    double alike = step * (1 - load->worker_cpu_share / load->worker_cpu_most);

    return fmax(0, data < alike ? data : alike);
}

double loading_told_apart_ns(const struct rule_context *context)
{
    return loading_late_ns(context) + loading_slow_worker_ns(context);
}

double loading_waited_error_ns(const struct rule_context *context)
{
    const struct steps_summary *train = context->train;
    const struct steps_typical *typical = &train->typical;
    bool rare = typical->rare > 0 && loading_rare_stand_apart(context);
    double waited = rare ? typical->waited_error_ns : train->waited_error_ns;
    double taken = rare ? typical->taken_error_ns : train->taken_error_ns;

    return loading_unanswered_ns(context) > 0 ? hypot(waited, taken) : waited;
}

double loading_kept_from_cores_ns(const struct rule_context *context)
{
    const struct load *load = &context->summary->load;
    double delay = isnan(load->worker_delay) ? load->delay_share : load->worker_delay;
    double ns = delay * load->others_share * context->train->mean_ns;

    return ns > 0 ? ns : 0; /* NaN: not known */
}

/* Where a trace has workers without their number. */
#define WORKERS_USUAL 4.0

bool rule_is_loader_rhythm(const struct rule_context *context)
{
    const struct rhythm *rhythm = &context->summary->rhythm;
    double workers = rule_number(context, FACT_DATALOADER_UNCOUNTED) >= 1
                         ? WORKERS_USUAL
                         : rule_number(context, FACT_DATALOADER_WORKERS);
    double ahead = rule_number(context, FACT_DATALOADER_PREFETCH);

    return rhythm->period.part == EVENT_PHASE_DATA && workers >= 1 &&
           rhythm->period_steps <= workers * (ahead >= 1 ? ahead : 2);
}
