/* What a rank has of the cores, and what the kernel takes for its pages on them. */
#include <math.h>
#include <string.h>

#include "findings/rules.h"

/* Of this machine, of which the session knows; at least this one. */
static uint32_t ranks_beside(const struct rule_context *context)
{
    const struct ranks_answer *ranks = &context->summary->ranks;
    const char *here = ""; /* nobody knows */
    uint32_t count = 0;

    for (uint32_t i = 0; i < ranks->row_count; i++)
        if (ranks->rows[i].pid == ranks->head.pid && ranks->rows[i].host != NULL)
            here = ranks->rows[i].host;
    for (uint32_t i = 0; here[0] != '\0' && i < ranks->row_count; i++) {
        /* One that was started again is there twice; they are listed by rank. */
        bool again = i > 0 && ranks->rows[i - 1].rank == ranks->rows[i].rank;
        const char *host = ranks->rows[i].host;

        if (!again && host != NULL && strcmp(host, here) == 0)
            count++;
    }
    return count > 1 ? count : 1;
}

/* That all ranks of this machine have together; NaN unknown. */
static double shared_cores(const struct rule_context *context)
{
    const struct load *load = &context->summary->load;
    double machine = load->machine_cores > 0 ? load->machine_cores
                                             : rule_number(context, FACT_CPU_COUNT);

    return load->core_limit > 0 && !(machine <= load->core_limit) ? load->core_limit
                                                                  : machine;
}

double rule_cores(const struct rule_context *context)
{
    double cores = rule_number(context, FACT_CPU_COUNT),
           part = shared_cores(context) / ranks_beside(context);

    return cores <= part ? cores : part;
}

const char *rule_cores_text(struct rule_context *context)
{
    double cores = rule_cores(context), all = shared_cores(context);
    const char *count = rule_digits(context, cores);
    uint32_t ranks = ranks_beside(context);

    if (ranks > 1 && cores * ranks == all)
        return rule_print(context, "%s core%s (its part of the %s that %u ranks share)",
                          count, cores == 1 ? "" : "s", rule_digits(context, all),
                          ranks);
    return rule_print(context, "%s core%s", count, cores == 1 ? "" : "s");
}

double rule_threads(const struct rule_context *context)
{
    double threads = rule_number(context, FACT_THREADS_INTRA);

    return isnan(threads) ? rule_number(context, FACT_THREADS_OMP) : threads;
}

/* The most that the kernel takes for a page that it makes anew and gives back: fault,
 * zeroing, unmapping. Beyond it kernel time has other reasons. */
#define FAULT_NS 5000.0

/* Threads of an op that make pages beside each other, for each core: 1 where they do not
 * outnumber them. Else they take turns, and the training thread waits for theirs. */
static double turns_of_threads(const struct rule_context *context)
{
    const struct load *load = &context->summary->load;
    double makers = load->made_per_s / load->faults_per_s;
    double cores = rule_cores(context);
    double turns = fmin(makers, rule_threads(context)) / (cores < 1 ? 1 : cores);

    return makers > 1 && rule_threads(context) > 1 && turns > 1 ? turns : 1;
}

double rule_fresh_pages(const struct rule_context *context)
{
    return context->summary->load.faults_per_s * context->train->mean_ns / 1e9 *
           turns_of_threads(context);
}

double rule_fresh_pages_ns(const struct rule_context *context)
{
    const struct load *load = &context->summary->load;
    double step = context->train->mean_ns;
    double most = rule_fresh_pages(context) * FAULT_NS;
    double kernel = load->system_share * step * turns_of_threads(context);
    /* CPU time; on cores that are shared it takes longer by the clock. */
    double runs = load->delay_share > 0 ? fmax(1 - load->delay_share, 0.1) : 1;
    double pages = (kernel < most ? kernel : most) / runs;

    return load->samples > 0 && pages > 0 ? fmin(pages, step) : 0;
}
