/* Rules over the wait for the next batch. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "findings/loading.h"
#include "findings/loading_wait.h"
#include "findings/settings.h"

/* Batches that each worker has ready: more seldom help, and each costs memory. */
#define AHEAD 4.0

/* For workers that import the script anew. */
#define MAIN_GUARD ", with the script's own code under `if __name__ == \"__main__\":`"

/* What helps where more workers do not. */
#define CHEAPER_SAMPLES "cheaper samples (decode and resize once, store the result)"

/* More workers for a data set that has no length, as far as is known: each of them yields
 * all of an IterableDataset that does not ask which worker it is in. */
static bool may_repeat_samples(const struct rule_context *context, double wanted)
{
    return wanted > rule_number(context, FACT_DATALOADER_WORKERS) &&
           isnan(rule_number(context, FACT_DATALOADER_SAMPLES));
}

/* Why there are workers enough, though the training waits for them. */
static const char *no_more(struct rule_context *context)
{
    if (loading_takes_all_cores(context))
        return "All cores load already";
    if (loading_workers_possible(context) < LOADING_WORKERS_MAX &&
        rule_cores(context) > 0)
        return rule_print(context, "More workers find no core of their own among %s",
                          rule_cores_text(context));
    return "More workers than these seldom help";
}

/* Who is to load: more of them, or the same with less to do. */
static void advise_loading(struct rule_context *context, struct finding *finding,
                           double workers, double wanted)
{
    const char *version = rule_text(context, FACT_VERSION_PYTHON);
    /* From Python 3.14 on workers are started by a server of forks, as with spawn. */
    bool spawns = strncmp(version, "3.", 2) == 0 && strtol(version + 2, NULL, 10) >= 14;

    if (wanted < 1)
        rule_advise(finding,
                    "No core is left to load beside the training: " CHEAPER_SAMPLES);
    else if (context->summary->native)
        rule_advise(finding,
                    "Fill the next batch in a thread of its own while this one trains: "
                    "two buffers in turns, `trainglass_phase_begin(TRAINGLASS_DATA)` "
                    "around the wait for it");
    else if (loading_is_uncounted(context))
        rule_advise(finding, "More workers than now (`num_workers`) while cores are "
                             "free; else " CHEAPER_SAMPLES);
    else if (isnan(workers))
        rule_advise_print(
            context, finding,
            "Prepare the next batch while this one trains: a loader with worker "
            "processes, or with more of them than it has, such as %s",
            setting_text(context, SETTING_WORKER_COUNT,
                         setting_number(context, wanted)));
    else if (loading_keeps_up(context))
        loading_advise_few_late(context, finding);
    else if (workers < 1)
        setting_advise(context, finding, SETTING_WORKERS,
                       setting_number(context, wanted),
                       rule_print(context, ": load beside the training%s" WORKERS_LIVE,
                                  spawns ? MAIN_GUARD : ""));
    else if (wanted > workers)
        setting_advise(context, finding, SETTING_WORKER_COUNT,
                       setting_number(context, wanted),
                       rule_print(context, " instead of %.0f%s", workers,
                                  loading_and_ahead(context, AHEAD)));
    else if (!(context->summary->load.workers > 0)) /* what they do was not seen */
        setting_advise(context, finding, SETTING_WORKER_COUNT,
                       setting_number(context, 2 * workers),
                       " where the workers wait for their storage; where they "
                       "compute, " CHEAPER_SAMPLES);
    else
        rule_advise_print(context, finding, "%s: " CHEAPER_SAMPLES, no_more(context));
}

static void advise_data(struct rule_context *context, struct finding *finding,
                        double workers, double wanted)
{
    advise_loading(context, finding, workers, wanted);
    if (workers >= 1 && loading_waits_for_storage(context) &&
        !loading_is_collating(context))
        rule_advise(
            finding,
            "The workers wait for their storage: copy the set to a local disk, or read "
            "few large files instead of many small ones (webdataset, tar, parquet)");
    if (may_repeat_samples(context, wanted))
        rule_advise(
            finding,
            "An `IterableDataset` must take its part by `get_worker_info()`: else each "
            "worker yields every sample, to be trained as often as there are workers");
    if (!context->summary->native)
        loading_advise_part(context, finding);
    if (rule_number(context, FACT_DATALOADER_PERSISTENT) < 1 && workers >= 1)
        setting_advise(context, finding, SETTING_PERSISTENT, NULL,
                       ": do not start them anew every epoch" WORKERS_LIVE);
    if (rule_number(context, FACT_DATALOADER_PIN_MEMORY) < 1 &&
        rule_has_device(context))
        setting_advise(context, finding, SETTING_PIN_MEMORY, NULL,
                       ": copies to the GPU run beside it");
    setting_advise(context, finding, SETTING_CACHE, NULL,
                   ": each sample is decoded and resized once");
    loading_advise_watching(context, finding);
}

/* "12 ms waiting - 2 ms that no loader saves" where that is not all of it. */
static const char *wait_of(struct rule_context *context,
                           const struct loading_wait *loading)
{
    double rest = loading->waited_ns - loading->avoidable_ns;

    if (loading->taking_over_ns > 0)
        return rule_print(context, "%s loading - about %s to take a batch over",
                          rule_ms(context, loading->waited_ns),
                          rule_ms(context, loading->taking_over_ns));
    return rest > 0 ? rule_print(context, "%s waiting - %s that no loader saves",
                                 rule_ms(context, loading->waited_ns),
                                 rule_ms(context, rest))
                    : rule_print(context, "%s waiting",
                                 rule_ms(context, loading->avoidable_ns));
}

/* `most`: what can be won, of which more workers win all. */
static const char *formula_of(struct rule_context *context,
                              const struct loading_wait *loading, double most)
{
    const char *wait = wait_of(context, loading), *won = rule_ms(context, most);
    bool idles = most < loading->avoidable_ns - loading->remaining_ns;
    const char *end =
        rule_print(context, idles ? ", of which the device idles %s" : " = %s", won);

    if (loading->workers_wanted > loading->workers)
        return rule_print(context, "%s - %s left with %s%s", wait,
                          rule_ms(context, loading->remaining_ns),
                          context->summary->native
                              ? "a thread that loads ahead"
                              : rule_workers(context, loading->workers_wanted),
                          end);
    if (loading_hides_few_late(context))
        return rule_print(context, "%s, hidden by more batches ahead%s", wait, end);
    return rule_print(context,
                      idles || loading->waited_ns > loading->avoidable_ns
                          ? "(%s%s) / 2 = %s"
                          : "%s%s / 2 = %s",
                      wait, idles ? end : "", rule_ms(context, most / 2));
}

static void add_evidence(struct rule_context *context, struct finding *finding,
                         const struct loading_wait *loading, double workers)
{
    double step = context->train->mean_ns;

    rule_evidence_ms(finding, "data_ms", loading->waited_ns);
    rule_evidence_ms(finding, "step_ms", step);
    rule_evidence(finding, "share_pct", 100 * loading->waited_ns / step);
    rule_evidence_ms(finding, "no_batch_ready_ms", context->train->waited_ns);
    rule_evidence(finding, "late_pct", 100 * context->train->late_share);
    rule_evidence(finding, "workers", workers);
    rule_evidence(finding, "worker_cpu_pct", 100 * loading_worker_share(context));
    loading_evidence(context, finding);
    if (loading->workers >= 1 && context->summary->load.workers > 0)
        rule_evidence_text(context, finding, "bound_by",
                           loading_keeps_up(context)            ? "few batches"
                           : loading_is_collating(context)      ? "collate_fn"
                           : loading_waits_for_storage(context) ? "storage"
                                                                : "cores");
    rule_evidence(finding, "batch_size",
                  rule_number(context, FACT_DATALOADER_BATCH_SIZE));
    rule_evidence(finding, "cores", rule_cores(context));
}

static void describe(struct rule_context *context, struct finding *finding,
                     const struct loading_wait *loading)
{
    double step = context->train->mean_ns;
    double workers = rule_number(context, FACT_DATALOADER_WORKERS);
    double unanswered = fmin(loading_surely_unanswered_ns(context), loading->waited_ns);
    const char *part = loading_part(context);

    finding->title = rule_infers(context) ? "The model waits for the next batch"
                                          : "Training waits for the next batch";
    finding->sentence = rule_print(
        context, "%s of %s of a step wait for data%s%s%s%s%s",
        rule_ms(context, loading->waited_ns), rule_ms(context, step),
        loading_is_uncounted(context) ? ", though workers load it"
        : isnan(workers)              ? ""
        : workers < 1
            ? ", loaded by the trainer itself (num_workers=0)"
            : rule_print(context, ", with %s", rule_workers(context, workers)),
        workers >= 1 ? "" : part,
        loading_keeps_up(context)
            ? rule_print(context, "; in %.3g %% of the steps no batch was ready",
                         100 * context->train->late_share)
        : !loading_waits_for_storage(context) || loading_is_collating(context) ? ""
        : workers > 1 ? " that wait for their storage"
                      : " that waits for its storage",
        workers >= 1 ? part : "",
        unanswered > 0
            ? rule_print(context,
                         "; for %s of it a batch is there, but the workers%s do not "
                         "hand it over",
                         rule_ms(context, unanswered),
                         context->summary->load.workers > 0 ? ", whose Python computes,"
                                                            : "")
            : "");
    finding->wrong_if =
        loading->workers_wanted < 1
            ? "Loading waits for a disk or a network: then it needs no "
              "core of its own beside the training."
        : context->summary->native
            ? "The next batch depends on the update before it, or no core is free."
        : may_repeat_samples(context, loading->workers_wanted)
            ? "The data set is iterable and does not split itself among workers, the "
              "wait is for a disk or a network that more workers do not make faster, "
              "or the cores are taken by something else."
            : "The wait is for a disk or a network that more workers do not make "
              "faster, or the cores are taken by something else.";
    add_evidence(context, finding, loading, workers);
    advise_data(context, finding, workers, loading->workers_wanted);
}

/* In ns per step: what is told, what it is a part of, half of its interval, its lower end. */
struct price {
    double ns, most, error, least;
    bool whole; /* all of `most`, else half */
};

/* What is told must surely be won: a wait that no loader saves is no finding, nor one that
 * may be nothing but a few late batches. A file has the few steps that somebody chose. */
static struct price price_of(const struct rule_context *context,
                             const struct loading_wait *loading)
{
    bool whole =
        loading->workers_wanted > loading->workers || loading_hides_few_late(context);
    double most =
        loading_most_to_win(context, loading->avoidable_ns - loading->remaining_ns);
    double ns = whole ? most : most / 2;
    double error = loading->workers >= 1 && !isnan(context->train->waited_ns)
                       ? loading_waited_error_ns(context)
                       : rule_error_of_phase(context, EVENT_PHASE_DATA);
    double least = context->summary->head.from_file
                       ? ns
                       : rule_least(context, ns, whole ? error : error / 2);

    return (struct price){ns, most, error, least, whole};
}

struct loading_saves findings_loading_saves(const struct bottlenecks_answer *summary)
{
    const struct findings_settings settings = findings_configured();
    const struct rule_context context = {
        .summary = summary, .train = &summary->steps.train, .settings = &settings};
    struct loading_wait loading = loading_wait(&context);
    double unsaved =
        fmax(loading.waited_ns - loading.avoidable_ns - loading.taking_over_ns, 0);
    double most = summary->steps.train.phase_ns[EVENT_PHASE_DATA] - unsaved;
    double taking = loading.taking_over_ns > 0 ? loading_taking_over_ns(&context) : 0;

    return (struct loading_saves){.least_ns = most - TAKING_MOST * taking,
                                  .most_ns = most - TAKING_LEAST * taking};
}

double rule_told_loading_ns(const struct rule_context *context)
{
    const struct rule_context strict = rule_strict(context);
    struct loading_wait loading = loading_wait(&strict);
    double step = context->train->mean_ns, slow = loading_slow_worker_ns(context);
    bool told = price_of(&strict, &loading).least >=
                rule_threshold(context, "data-loading") * step;
    bool is_slow = slow >= rule_threshold(context, "slow-worker") * step;

    return (told ? fmax(loading.avoidable_ns, 0) : 0) + (is_slow ? slow : 0);
}

static void find_loading(struct rule_context *context)
{
    struct loading_wait loading = loading_wait(context);
    struct price price = price_of(context, &loading);

    if (!rule_reaches(context, price.least))
        return;
    struct finding *finding = rule_add(context, NULL, "data");

    if (price.whole)
        rule_price(context, finding, price.ns, price.error);
    else
        rule_price_half(context, finding, price.most, price.error);
    if (loading.taking_over_ns > 0)
        rule_price_between(finding,
                           price.ns - (TAKING_MOST - 1) * loading.taking_over_ns,
                           price.ns + (1 - TAKING_LEAST) * loading.taking_over_ns);
    /* The next may be late before the workers are ahead again. */
    if (loading_hides_few_late(context))
        rule_price_between(finding, price.ns / 2, price.ns);
    finding->takes_ns = loading.waited_ns;
    rule_claim_apart(finding, PART_DATA, CLAIM_WAIT, price.ns);
    finding->formula = formula_of(context, &loading, price.most);
    describe(context, finding, &loading);
}

const struct rule rules_data[] = {
    RULE("data-loading", find_loading, OWNER_DATA, 0,
         "phase data, of it without a ready batch; dataloader.*, cpu.count, its quota; "
         "CPU time of workers; idle devices",
         "data - taking batches over - cores that others took - max(0, loading / "
         "workers - compute), at most idle for data",
         SHARE_OF_STEP(0.03, SMALLEST)),
    {.told = {.id = NULL}},
};
