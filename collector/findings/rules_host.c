/* Rules over the host: cores that are taken, memory that is made anew, code around the
 * training. */
#include <math.h>
#include <string.h>

#include "findings/rules.h"
#include "findings/settings.h"

/* What is pushed out of the caches meanwhile costs the ops that follow up to so much of it
 * more: by tests/diseases, 0 to 0.4 where gradients are given back. */
#define COLD_AFTERWARDS 0.4

/* Fewer in a step are the noise of an interpreter. That many are one gradient of a MiB. */
#define FAULTS_NEEDED 256.0

/* A second of samples says little of a rate. */
#define SAMPLES_NEEDED 1u

/* Of a quota of cores threads get whole ones, and one is the least; NaN stays NaN. */
static double threads_for(double cores)
{
    return cores < 1 ? 1 : floor(cores);
}

static void advise_cores(struct rule_context *context, struct finding *finding,
                         double threads, double cores)
{
    const struct load *load = &context->summary->load;
    double workers = rule_number(context, FACT_DATALOADER_WORKERS);
    double fit = threads_for(cores);
    double left = threads_for(cores - workers); /* beside the workers */
    const char *remedy =
        left < threads
            ? rule_print(context, "`torch.set_num_threads(%.0f)`, or fewer workers",
                         left)
            : "fewer workers";
    bool busy = load->machine_share > 0.9,
         by_others = busy && load->job_cores < 0.5 * cores;

    if (threads > fit)
        rule_advise_print(context, finding,
                          "`torch.set_num_threads(%.0f)` or `OMP_NUM_THREADS=%.0f`: "
                          "one op has %.0f threads on %s",
                          fit, fit, threads, rule_cores_text(context));
    else if (workers >= 1 && threads + workers > cores && !by_others)
        rule_advise_print(
            context, finding,
            "%.0f thread%s of an op and %.0f loader worker%s share %s: %s", threads,
            threads == 1 ? "" : "s", workers, workers == 1 ? "" : "s",
            rule_cores_text(context), remedy);
    if (busy && !(load->job_cores > 0.8 * cores))
        rule_advise(finding, "Other programs take the cores: give the job its own "
                             "(`taskset`, `--cpuset-cpus`, the scheduler's request)");
    rule_advise(finding, "Ask for more cores, or move work off the trainer's machine");
}

/* Threads of one op take turns on the cores: while one waits, another does its work, so
 * that less than the wait is lost; but where all wait for the one without a core, more.
 * Measured by tests/diseases. */
#define TURNS_LEAST 0.2
#define TURNS_MOST  1.6

static void find_cpu_wait(struct rule_context *context)
{
    const struct load *load = &context->summary->load;
    double step = context->train->mean_ns, delay = load->delay_share * step;
    double threads = rule_threads(context), cores = rule_cores(context);
    double price = rule_host_saves(context, delay);
    double least = rule_host_saves(context, load->delay_least * step);
    double sure = context->by_price ? price : least;

    if (load->samples < SAMPLES_NEEDED || !rule_reaches(context, sure))
        return;
    struct finding *finding = rule_add(context, NULL, "other");

    rule_price_host(context, finding, price,
                    load->delay_error / load->delay_share * price);
    if (threads > threads_for(cores))
        rule_price_between(finding, TURNS_LEAST * price,
                           rule_host_saves(context, fmin(TURNS_MOST * delay, step)));
    rule_claim_model(context, finding, CLAIM_ANY, price);
    finding->title = threads > threads_for(cores)
                         ? "More threads than cores: they wait for each other"
                         : "The trainer waits for a core";
    finding->formula =
        rule_print(context, "%.3g %% of the time ready and without a core * %s%s = %s",
                   100 * load->delay_share, rule_ms(context, step),
                   rule_host_limit(context, delay), rule_ms(context, price));
    finding->sentence = rule_print(
        context, "For %s of a step the training thread could run and had no core",
        rule_ms(context, delay));
    rule_evidence(finding, "delay_pct", 100 * load->delay_share);
    rule_evidence(finding, "cores", cores);
    rule_evidence(finding, "threads", threads);
    rule_evidence(finding, "workers", rule_number(context, FACT_DATALOADER_WORKERS));
    rule_evidence(finding, "job_cores", load->job_cores);
    rule_evidence(finding, "machine_pct", 100 * load->machine_share);
    advise_cores(context, finding, threads, cores);
}

/* Bytes; the host's own pages. */
#define PAGE 4096.0

/* Of the pages that are made in a step, those that stay: memory grows by them, once. */
static double pages_that_stay(const struct rule_context *context)
{
    const struct memory_answer *memory = &context->summary->memory;
    double slope = memory->host.growth.sure ? memory->host.growth.slope_bytes_per_s : 0;

    for (uint32_t i = 0; i < memory->device_count; i++) {
        const struct memory_device *device = &memory->devices[i];

        if (strcmp(device->device, "cpu") == 0 && device->growth.sure)
            slope = fmax(slope, device->growth.slope_bytes_per_s);
    }
    return slope > 0 ? slope * context->train->mean_ns / 1e9 / PAGE : 0;
}

/* Of the pages: with less for the training thread others made the rest beside it. */
#define OWN_PAGES 0.9

static void find_churn(struct rule_context *context)
{
    const struct load *load = &context->summary->load;
    double step = context->train->mean_ns;
    double own = rule_fresh_pages(context), kernel = load->system_share * step;
    double all = fmax(load->made_per_s * step / 1e9, own);
    double stay = pages_that_stay(context);
    /* More than there were: these are huge pages, and how many nobody tells. */
    double faults = stay < all ? all - stay : all, paid = own * faults / all;
    double pages = rule_fresh_pages_ns(context) * faults / all;
    double price = rule_host_saves(context, pages);
    /* Part of a second's sample may tell of what was before the window. */
    double least = pages * load->faults_least / load->faults_per_s;
    double sure = context->by_price ? price : rule_host_saves(context, least);

    if (load->samples < SAMPLES_NEEDED || !(faults >= FAULTS_NEEDED) ||
        !rule_reaches(context, sure))
        return;
    struct finding *finding =
        rule_add_price(context, NULL, "host", price, rule_error_of_step(context));

    rule_price_between(
        finding, price / 2,
        rule_host_saves(context, fmin((1 + COLD_AFTERWARDS) * pages, step)));
    rule_claim_model(context, finding, CLAIM_ALLOC, price);
    finding->formula = rule_print(
        context, "%.0f pages%s * %.2g us in the kernel%s = %s", paid,
        own >= OWN_PAGES * all                  ? ""
        : own > load->faults_per_s * step / 1e9 ? " for each core"
                                                : " of the training thread",
        pages / paid / 1000, rule_host_limit(context, pages), rule_ms(context, price));
    finding->sentence =
        rule_print(context, "The kernel makes %s MiB of fresh pages in each step",
                   rule_digits(context, faults * PAGE / MIB));
    rule_evidence(finding, "pages_per_step", faults);
    rule_evidence_ms(finding, "kernel_ms", kernel);
    for (uint32_t i = 0; i < context->summary->memory.device_count; i++) {
        const struct memory_device *device = &context->summary->memory.devices[i];

        if (strcmp(device->device, "cpu") == 0)
            rule_evidence(finding, "allocated_bytes_per_step", device->bytes_per_step);
    }
    rule_advise_in(context, finding,
                   "Keep large buffers: allocate once before the loop and write with "
                   "`out=` or `copy_()`",
                   "Keep large buffers: allocate once before the loop");
}

const struct rule rules_host[] = {
    RULE("cpu-wait", find_cpu_wait, OWNER_OPS + 50, RULE_EARLY_TREND,
         "/proc/PID/schedstat of the trainer; threads.*, cpu.count, its quota",
         "share of the time without a core * step, at most what a device waits for the "
         "host",
         SHARE_OF_STEP(0.03, SMALLEST),
         .wrong_if = "The machine is shared on purpose, and the others matter more."),
    /* Older versions of glibc refuse a high M_MMAP_THRESHOLD_, which is worse than none:
     * once another is set, it stays at 128 KiB. */
    RULE("memory-churn", find_churn, OWNER_OPS + 10, RULE_EARLY_TREND,
         "page faults and kernel time of the training thread "
         "(/proc/PID/task/TID/stat), page faults and growth of its process",
         "kernel time, at most 5 us for each page, of pages that do not stay, and at "
         "most what a device waits for the host",
         SHARE_OF_STEP(0.03, SMALLEST),
         .title = "Host memory is taken from the system and given back in each step",
         .wrong_if = "Memory really grows: then the pages are needed, once.",
         .advice = {ADVICE("`MALLOC_MMAP_MAX_=0 MALLOC_TRIM_THRESHOLD_=1073741824` in "
                           "the environment, or `LD_PRELOAD=libjemalloc.so.2`: freed "
                           "memory stays with the process")}),
    {.told = {.id = NULL}},
};
