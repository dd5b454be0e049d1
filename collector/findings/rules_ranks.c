/* Rules over ranks side by side (query/ranks_query.h). */
#include <math.h>
#include <string.h>

#include "findings/rules.h"

struct last_rank {
    const struct ranks_answer *ranks;
    const struct rank_row *row;
    double others_ns; /* own time of the last of the others */
    double core_ns;   /* longer than the others it waits for a core, per step */
    bool by_core;     /* that is most of it */
};

static enum claim_part part_of(const char *cause)
{
    static const char *const names[] = {"data", "forward", "backward", "optimizer"};

    for (uint32_t i = 0; i < sizeof(names) / sizeof(names[0]); i++)
        if (strcmp(names[i], cause) == 0)
            return i;
    return PART_OTHER;
}

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
    if (ranks->slowest < 0 || last->row == NULL ||
        !(least / context->train->mean_ns >= context->threshold))
        return false;
    last->others_ns = last->row->own_ns - price;
    last->core_ns = core_excess(ranks, last->row);
    last->by_core = last->core_ns >= price / 2;
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

    switch (part_of(last->ranks->slowest_cause)) {
    case PART_DATA:
        rule_advise(finding,
                    rule_print(context,
                               "Batches of rank %d come late: compare its part of the "
                               "data, its disk and its loader with the others'",
                               rank));
        return;
    case PART_FORWARD:
    case PART_OPTIMIZER:
    case PART_BACKWARD:
        rule_advise(
            finding,
            rule_print(context,
                       "Look in %s for what rank %d alone does (`if rank == %d`), for "
                       "samples that are longer there, and for a slower device or "
                       "slower cores",
                       last->ranks->slowest_cause, rank, rank));
        return;
    case PART_OTHER:
    default:
        if (strcmp(last->ranks->slowest_cause, "other") == 0)
            rule_advise(
                finding,
                rule_print(context,
                           "Look between the update and the next batch for what rank "
                           "%d alone does: logging, checkpoints, metrics; do it less "
                           "often, or in a thread",
                           rank));
    }
}

static void advise(struct rule_context *context, struct finding *finding,
                   const struct last_rank *last)
{
    if (last->by_core)
        rule_advise(finding,
                    rule_print(context,
                               "Rank %d waits for a core: give each rank cores of its "
                               "own (`taskset`), or fewer threads (`OMP_NUM_THREADS`)",
                               last->row->rank));
    else
        advise_phase(context, finding, last);
    if (!context->summary->head.from_file)
        rule_advise(finding, "`/api/trace?last=10s&rank=all` shows the ranks beside "
                             "each other");
    else if (finding->advice_count == 0) /* nothing is known of where */
        rule_advise(finding,
                    rule_print(context,
                               "Compare a step of rank %d with the same one in the file "
                               "of another rank",
                               last->row->rank));
}

static void give_evidence(struct rule_context *context, struct finding *finding,
                          const struct last_rank *last)
{
    const struct ranks_answer *ranks = last->ranks;

    rule_evidence(context, finding, "last_rank", last->row->rank);
    rule_evidence(context, finding, "ranks", ranks->row_count);
    rule_evidence(context, finding, "last_in_pct", 100 * ranks->slowest_share);
    rule_evidence(context, finding, "own_ms", last->row->own_ns / NS_PER_MS);
    rule_evidence(context, finding, "others_own_ms", last->others_ns / NS_PER_MS);
    rule_evidence_text(context, finding, "part", ranks->slowest_cause);
    rule_evidence(context, finding, "part_longer_ms",
                  ranks->slowest_cause_ns / NS_PER_MS);
    rule_evidence(context, finding, "core_wait_longer_ms", last->core_ns / NS_PER_MS);
}

/* It holds the others up: on its own page its phase is too long, on theirs they wait for
 * it, mostly in backward. */
static void claim(struct rule_context *context, struct finding *finding,
                  const struct last_rank *last)
{
    enum claim_part part = part_of(last->ranks->slowest_cause);
    bool own = context->summary->head.rank == last->row->rank;

    if (own)
        rule_claim(finding, part, part == PART_DATA ? CLAIM_WAIT : CLAIM_ANY,
                   finding->ns_per_step);
    else if (last->ranks->waits_on_device)
        rule_claim_model(context, finding, CLAIM_WORK, finding->ns_per_step);
    else
        rule_claim(finding, (enum claim_part)last->ranks->waits_in, CLAIM_PEERS,
                   finding->ns_per_step);
}

static void find_last_rank(struct rule_context *context)
{
    static const char *const colours[CLAIM_PARTS] = {"data", "forward", "backward",
                                                     "optimizer", "other"};
    struct last_rank last;

    if (!look_at(context, &last))
        return;
    const struct ranks_answer *ranks = last.ranks;
    struct finding *finding =
        rule_add(context, NULL, colours[part_of(ranks->slowest_cause)]);

    if (finding == NULL)
        return;
    int rank = last.row->rank;

    rule_price(context, finding, ranks->slowest_price_ns, ranks->slowest_error_ns);
    claim(context, finding, &last);
    finding->title =
        rule_print(context, "Rank %d arrives last, and the others wait for it", rank);
    finding->formula = rule_print(
        context, "%s without waiting on rank %d - %s on the last of the others = %s",
        rule_ms(context, last.row->own_ns), rank, rule_ms(context, last.others_ns),
        rule_ms(context, ranks->slowest_price_ns));
    finding->sentence =
        rule_print(context, "In %.0f %% of the steps rank %d comes last; %s%s",
                   100 * ranks->slowest_share, rank, where(context, &last),
                   last.by_core ? ", most of it waiting for a core" : "");
    finding->wrong_if =
        "The ranks do different work on purpose, such as stages of a pipeline, or one "
        "that hands out the batches.";
    give_evidence(context, finding, &last);
    advise(context, finding, &last);
}

const struct rule rules_ranks[] = {
    {{.id = "last-rank",
      .reads =
          "phases of all ranks over the steps that they have in common; how long each "
          "one's device only communicates in them",
      .formula = "own time of the last rank - that of the last of the others",
      .threshold = 0.03,
      .unit = "share of the step",
      .min = 0,
      .max = 1,
      .source = SMALLEST,
      .owner = OWNER_DEVICE - 10,
      .trend = true,
      .records = true},
     find_last_rank},
    {.find = NULL},
};
