/* A rule over functions that the user watches: what a step would be shorter without one. */
#include <math.h>
#include <string.h>

#include "findings/loading_wait.h"
#include "findings/settings.h"

/* Told of so many, the dearest. */
#define WATCH_FINDINGS 3

struct watched {
    const struct op_row *row;
    double workers; /* that share its work; 0: the trainer does it */
    double price;   /* ns per step */
};

/* Workers do it beside the training: without it each batch is there sooner, and at most
 * the wait that faster loading ends is won. The trainer may do it beside a device's work. */
static struct watched weigh(const struct rule_context *context,
                            const struct op_row *row)
{
    struct watched watched = {.row = row,
                              .price = rule_host_saves(context, row->per_step_ns)};

    if (row->workers == 0)
        return watched;
    double most = rule_loading_ns(context);

    /* As the job says: in a window of several epochs more have lived. */
    watched.workers = rule_number(context, FACT_DATALOADER_WORKERS);
    if (!(watched.workers >= 1))
        watched.workers = row->workers;
    watched.price = fmin(row->per_step_ns / watched.workers, most);
    return watched;
}

static void describe(struct rule_context *context, struct finding *finding,
                     const struct watched *watched)
{
    const struct op_row *row = watched->row;
    bool loader = watched->workers > 0;

    finding->title = rule_print(context, "`%s` makes steps longer", row->name);
    finding->formula =
        loader ? rule_print(context,
                            "%s a step / %s, at most the %s that wait for it = %s",
                            rule_ms(context, row->per_step_ns),
                            rule_workers(context, watched->workers),
                            rule_ms(context, rule_loading_ns(context)),
                            rule_ms(context, watched->price))
               : rule_print(context, "%s calls * %s%s = %s",
                            rule_digits(context, row->per_step_count),
                            rule_ms(context, row->mean_ns),
                            rule_host_limit(context, row->per_step_ns),
                            rule_ms(context, watched->price));
    finding->sentence = rule_print(
        context, "`%s` takes %s of each step%s, %s a call", row->name,
        rule_ms(context, row->per_step_ns),
        !loader ? ""
        : watched->workers == 1
            ? " in the loader's worker"
            : rule_print(context, " in the loader's %.0f workers", watched->workers),
        rule_ms(context, row->mean_ns));
    finding->wrong_if = "It cannot be made cheaper: the price is that of all its work.";
    rule_evidence_text(context, finding, "function", row->name);
    rule_evidence_ms(finding, "per_step_ms", row->per_step_ns);
    rule_evidence_ms(finding, "call_ms", row->mean_ns);
    rule_evidence(finding, "calls_per_step", row->per_step_count);
    rule_evidence(finding, "workers", watched->workers);
    rule_evidence_ms(finding, "step_ms", context->train->mean_ns);
    rule_evidence(finding, "validation_share_pct", 100 * row->validation_share);
    rule_advise_print(context, finding,
                      "Make `%s` cheaper: do once what is the same for every epoch, "
                      "and keep the result",
                      row->name);
    if (loader)
        rule_advise_print(context, finding,
                          "More workers share its work, where cores are free: %s",
                          setting_text(context, SETTING_WORKER_COUNT, "..."));
    else
        rule_advise_print(context, finding,
                          "If it prepares data: leave it to the loader's workers, %s",
                          setting_text(context, SETTING_WORKERS, "..."));
}

static void tell(struct rule_context *context, const struct watched *watched)
{
    const struct op_row *row = watched->row;
    bool loader = watched->workers > 0;
    /* In which phase the trainer calls it nobody tells. Where it loads the batches itself,
     * that is where such functions are, and data-loading may have the same time. */
    bool data =
        loader || (rule_number(context, FACT_DATALOADER_WORKERS) == 0 &&
                   context->train->phase_ns[EVENT_PHASE_DATA] >= watched->price);
    struct finding *finding = rule_add(context, row->name, data ? "data" : "other");
    double error =
        rule_error_of_step(context) * watched->price / context->train->mean_ns;

    if (loader)
        rule_price(context, finding, watched->price, error);
    else
        rule_price_host(context, finding, watched->price, error);
    if (data)
        rule_claim(finding, PART_DATA, CLAIM_WAIT, watched->price);
    else
        rule_claim_model(context, finding, CLAIM_PYTHON, watched->price);
    describe(context, finding, watched);
}

static void find_watched(struct rule_context *context)
{
    const struct ops_answer *cpu = &context->summary->cpu;
    bool told[OPS_WATCHED] = {false};

    for (int i = 0; i < WATCH_FINDINGS; i++) {
        struct watched dearest = {.price = 0};
        uint32_t at = 0;

        for (uint32_t j = 0; j < cpu->watched_count; j++) {
            struct watched watched = weigh(context, &cpu->watched[j]);

            if (told[j] || !(watched.price > dearest.price))
                continue;
            dearest = watched;
            at = j;
        }
        if (dearest.row == NULL || !rule_reaches(context, dearest.price))
            return;
        tell(context, &dearest);
        told[at] = true;
    }
}

const struct rule rules_watch[] = {
    RULE("watched-function", find_watched, OWNER_DATA - 8, RULE_RECORDS,
         "watched functions, here and in workers; phase data, dataloader.workers",
         "its time a step, at most what a device waits for the host; in workers / "
         "workers, at most the wait that faster loading ends",
         SHARE_OF_STEP(0.02, "who watches a function wants to know of a fiftieth")),
    {.told = {.id = NULL}},
};
