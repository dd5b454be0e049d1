/* Rules over ranks side by side (query/ranks_query.h). */
#include <math.h>
#include <string.h>

#include "findings/rules.h"

/* By so much more batches differ for a reason. */
#define LARGER_BATCH 0.05

struct last_rank {
    const struct ranks_answer *ranks;
    const struct rank_row *row;
    double others_ns; /* own time of the last of the others */
    double core_ns;   /* longer than the others it waits for a core, per step */
    bool by_core;     /* that is most of it */
    double elements, others_elements; /* of a batch; NaN unknown */
    bool by_data; /* its batches are larger by most of it at least */
    /* What of its backward is for that: the others' own share of theirs cannot be told from
     * their wait, but is less as their forward is, with what of it is communication; at
     * most as their batches are. 0 none. */
    double backward_ns, backward_most_ns;
};

/* The wait for a core that it has more than the others in the mean. */
static double core_excess(const struct ranks_answer *ranks, const struct rank_row *row)
{
    double others = 0;
    uint32_t count = 0;

    for (uint32_t i = 0; i < ranks->row_count; i++) {
        const struct rank_row *other = &ranks->rows[i];

        if (other == row || isnan(other->delay_share))
            continue;
        others += other->delay_share;
        count++;
    }
    double more = count > 0 ? row->delay_share - others / count : 0;

    return more > 0 ? more * row->step_ns : 0;
}

static double elements(const struct rank_row *row)
{
    return row->batch_elements;
}

static double forward_ns(const struct rank_row *row)
{
    return row->phase_ns[EVENT_PHASE_FORWARD];
}

/* Their mean; NaN where one of them does not tell. */
static double mean_of_others(const struct ranks_answer *ranks,
                             const struct rank_row *row,
                             double (*of)(const struct rank_row *))
{
    double others = 0;

    for (uint32_t i = 0; i < ranks->row_count; i++)
        others += &ranks->rows[i] == row ? 0 : of(&ranks->rows[i]);
    return others / (ranks->row_count - 1);
}

static void look_at_backward(const struct ranks_answer *ranks, struct last_rank *last)
{
    const struct rank_row *row = last->row;
    double less = mean_of_others(ranks, row, forward_ns) / forward_ns(row);
    double least = last->others_elements / last->elements;
    double backward = row->phase_ns[EVENT_PHASE_BACKWARD];

    if (!last->by_data || ranks->waits_on_device ||
        ranks->waits_in != EVENT_PHASE_BACKWARD || !(backward > 0) || !(less < 1))
        return;
    last->backward_ns = backward * (1 - fmax(less, least));
    last->backward_most_ns = backward * (1 - least);
}

double rule_told_last_rank_ns(const struct rule_context *context)
{
    const struct rule_context strict = rule_strict(context);
    const struct ranks_answer *ranks = &context->summary->ranks;
    double price = ranks->slowest_price_ns;
    double least = rule_least(&strict, price, ranks->slowest_error_ns);

    return ranks->slowest >= 0 && ranks->waits_on_device &&
                   ranks->slowest != context->summary->head.rank &&
                   least / context->train->mean_ns >=
                       rule_threshold(context, "last-rank")
               ? price
               : 0;
}

static bool look_at(const struct rule_context *context, struct last_rank *last)
{
    const struct ranks_answer *ranks = &context->summary->ranks;
    double price = ranks->slowest_price_ns;
    double least = rule_least(context, price, ranks->slowest_error_ns);

    *last = (struct last_rank){.ranks = ranks};
    for (uint32_t i = 0; i < ranks->row_count && last->row == NULL; i++)
        if (ranks->rows[i].rank == ranks->slowest)
            last->row = &ranks->rows[i];
    if (ranks->slowest < 0 || last->row == NULL || !rule_reaches(context, least))
        return false;
    last->others_ns = last->row->own_ns - price;
    last->core_ns = core_excess(ranks, last->row);
    last->by_core = last->core_ns >= price / 2;
    last->elements = last->row->batch_elements;
    last->others_elements = mean_of_others(ranks, last->row, elements);
    last->by_data = !last->by_core && last->others_elements > 0 &&
                    last->elements / last->others_elements - 1 >=
                        fmax(price / last->others_ns / 2, LARGER_BATCH);
    look_at_backward(ranks, last);
    return true;
}

/* Where it is longer, as the end of a sentence. */
static const char *where(struct rule_context *context, const struct last_rank *last)
{
    const char *cause = last->ranks->slowest_cause;
    const char *more = rule_ms(context, last->ranks->slowest_cause_ns);

    if (strcmp(cause, "unknown") == 0)
        return "no phase alone is longer there";
    if (strcmp(cause, "other") == 0)
        return rule_print(context,
                          "it spends %s more than they do outside of data, forward, "
                          "backward and optimizer",
                          more);
    return rule_print(context, "its %s takes %s longer than theirs", cause, more);
}

static void advise_phase(struct rule_context *context, struct finding *finding,
                         const struct last_rank *last)
{
    int rank = last->row->rank;

    switch (rule_part_of(last->ranks->slowest_cause)) {
    case PART_DATA:
        rule_advise_print(context, finding,
                          "Batches of rank %d come late: compare its part of the data, "
                          "its disk and its loader with the others'",
                          rank);
        return;
    case PART_FORWARD:
    case PART_OPTIMIZER:
    case PART_BACKWARD:
        rule_advise_print(
            context, finding,
            "Look in %s for what rank %d alone does (`if rank == %d`), for samples "
            "that are longer there, and for a slower device or slower cores",
            last->ranks->slowest_cause, rank, rank);
        return;
    case PART_OTHER:
    default:
        if (strcmp(last->ranks->slowest_cause, "other") == 0)
            rule_advise_print(
                context, finding,
                "Look between the update and the next batch for what rank %d alone "
                "does: logging, checkpoints, metrics; do it less often, or in a thread",
                rank);
    }
}

static void advise(struct rule_context *context, struct finding *finding,
                   const struct last_rank *last)
{
    if (last->by_core)
        rule_advise_print(context, finding,
                          "Rank %d waits for a core: give each rank cores of its own "
                          "(`taskset`), or fewer threads (`OMP_NUM_THREADS`)",
                          last->row->rank);
    else if (last->by_data)
        rule_advise(
            finding,
            "Batches of one size on all ranks: the same `batch_size`, and samples of "
            "like length, sorted or bucketed over all ranks before they are split "
            "(`DistributedSampler`), or a cap on elements instead of samples");
    else
        advise_phase(context, finding, last);
    if (!context->summary->head.from_file)
        rule_advise(finding,
                    "`/api/trace?last=10s&rank=all` shows the ranks beside each other");
    else if (finding->advice_count == 0) /* nothing is known of where */
        rule_advise_print(
            context, finding,
            "Compare a step of rank %d with the same one in the file of another rank",
            last->row->rank);
}

/* It holds the others up: on its own page its phase is too long, on theirs they wait for
 * it, mostly in backward. */
static void claim(struct rule_context *context, struct finding *finding,
                  const struct last_rank *last)
{
    enum claim_part part = rule_part_of(last->ranks->slowest_cause);
    bool own = context->summary->head.rank == last->row->rank;

    if (own) {
        rule_claim(finding, part, part == PART_DATA ? CLAIM_WAIT : CLAIM_ANY,
                   finding->ns_per_step - last->backward_ns);
        rule_claim(finding, PART_BACKWARD, CLAIM_ANY, last->backward_ns);
    } else if (last->ranks->waits_on_device)
        rule_claim_model(context, finding, CLAIM_WORK, finding->ns_per_step);
    else
        rule_claim(finding, (enum claim_part)last->ranks->waits_in, CLAIM_PEERS,
                   finding->ns_per_step);
}

static void find_last_rank(struct rule_context *context)
{
    struct last_rank last;

    if (!look_at(context, &last))
        return;
    const struct ranks_answer *ranks = last.ranks;
    struct finding *finding =
        rule_add(context, NULL, rule_parts[rule_part_of(ranks->slowest_cause)]);
    int rank = last.row->rank;

    double price = ranks->slowest_price_ns + last.backward_ns;

    rule_price(context, finding, price, ranks->slowest_error_ns);
    if (last.backward_ns > 0)
        rule_price_between(finding, ranks->slowest_price_ns,
                           ranks->slowest_price_ns + last.backward_most_ns);
    claim(context, finding, &last);
    finding->title =
        rule_print(context, "Rank %d arrives last, and the others wait for it", rank);
    finding->formula = rule_print(
        context, "%s without waiting on rank %d - %s on the last of the others%s = %s",
        rule_ms(context, last.row->own_ns), rank, rule_ms(context, last.others_ns),
        last.backward_ns > 0
            ? rule_print(context, " + %s of %s of backward, as forward is longer",
                         rule_ms(context, last.backward_ns),
                         rule_ms(context, last.row->phase_ns[EVENT_PHASE_BACKWARD]))
            : "",
        rule_ms(context, price));
    finding->sentence = rule_print(
        context, "In %.0f %% of the steps rank %d comes last; %s%s",
        100 * ranks->slowest_share, rank, where(context, &last),
        last.by_core ? ", most of it waiting for a core"
        : last.by_data
            ? rule_print(context,
                         "; its batches are %.0f %% larger: %.0f elements, theirs %.0f",
                         100 * (last.elements / last.others_elements - 1),
                         last.elements, last.others_elements)
            : "");
    rule_evidence(finding, "last_rank", last.row->rank);
    rule_evidence(finding, "ranks", ranks->row_count);
    rule_evidence(finding, "last_in_pct", 100 * ranks->slowest_share);
    rule_evidence_ms(finding, "own_ms", last.row->own_ns);
    rule_evidence_ms(finding, "others_own_ms", last.others_ns);
    rule_evidence_text(context, finding, "part", ranks->slowest_cause);
    rule_evidence_ms(finding, "part_longer_ms", ranks->slowest_cause_ns);
    rule_evidence_ms(finding, "core_wait_longer_ms", last.core_ns);
    rule_evidence(finding, "batch_elements", last.elements);
    rule_evidence(finding, "others_batch_elements", last.others_elements);
    advise(context, finding, &last);
}

const struct rule rules_ranks[] = {
    RULE("last-rank", find_last_rank, OWNER_DEVICE - 10, RULE_TREND | RULE_RECORDS,
         "phases of all ranks over the steps that they have in common; how long each "
         "one's device only communicates in them; dataloader.elements",
         "own time of the last rank - that of the last of the others; where its "
         "batches are larger, of its backward as much as of its forward",
         SHARE_OF_STEP(0.03, SMALLEST),
         .wrong_if = "The ranks do different work on purpose, such as stages of a "
                     "pipeline, or one that hands out the batches."),
    {.told = {.id = NULL}},
};
