/* Copies of a device: what most of them are (between which memories, how large, how fast),
 * for rules that find them in its way, and the rule over those from pageable memory. */
#include <math.h>
#include <string.h>

#include "findings/settings.h"
#include "findings/work.h"

/* Below this a copy takes as long for its start as for its bytes: 10 us at 6 GB/s. */
#define SMALL_BYTES 65536.0

/* Fewer than this many in a run are no habit. */
#define SMALL_NEEDED 100u

struct way_words {
    const char *what, *torch, *native; /* advice: advice_of(), rule_advise_in() */
};

#define NEXT_BATCH                                                                     \
    "Copy the next batch while this one trains: `with torch.cuda.stream(s): "          \
    "batch = batch.to(device, non_blocking=True)`, and before it is used "             \
    "`torch.cuda.current_stream().wait_stream(s)` and "                                \
    "`batch.record_stream(torch.cuda.current_stream())`"
#define NEXT_BATCH_NATIVE                                                              \
    "Copy the next batch on a stream of its own (`cudaMemcpyAsync`) while this one "   \
    "trains; `cudaStreamWaitEvent` before it is used"

/* Where the loader pins. */
#define OTHERS_PINNED                                                                  \
    "What the loader pins is not these: two pinned buffers in turns "                  \
    "(`torch.empty_like(tensor).pin_memory()`), each filled again only "               \
    "after " COPY_IS_OVER
#define PIN_NATIVE                                                                     \
    "`cudaMallocHost` for the batches and `cudaMemcpyAsync`: pageable memory is "      \
    "staged first, and the host waits for it"

static struct way_words words_of(const struct gpu_run_copies *copies)
{
    static const struct way_words pageable = {
        "from pageable memory of the host to the device",
        "`batch.to(device, non_blocking=True)`: pageable memory is staged first, and "
        "the host waits for it",
        PIN_NATIVE};
    static const struct way_words pinned = {
        "from pinned memory of the host to the device", NEXT_BATCH, NEXT_BATCH_NATIVE};
    static const struct way_words either = {
        "from the host to the device", NEXT_BATCH,
        NEXT_BATCH_NATIVE "; its memory has to be of `cudaMallocHost`"};
    static const char keep[] = "Keep results on the device: add losses and metrics up "
                               "there, and bring them to the host every n-th step";
    static const struct way_words back = {"from the device to the host", keep, keep};
    static const struct way_words inside = {
        "inside of the device",
        "Write results where they are needed (`out=`, views), instead of `clone`, "
        "`contiguous` and slices that are assigned",
        "Have kernels write results where they are needed, instead of copying them "
        "there with `cudaMemcpyAsync`"};
    static const struct way_words between = {
        "from device to device",
        "Keep a tensor on the device that uses it; between ranks `torch.distributed` "
        "instead of `.to()`",
        "Keep data on the device that uses it; between ranks NCCL instead of "
        "`cudaMemcpyPeerAsync`"};

    switch (copies->way) {
    case EVENT_COPY_H2D:
        return copies->pageable ? pageable : copies->unknown ? either : pinned;
    case EVENT_COPY_D2H:
        return back;
    case EVENT_COPY_D2D:
        return inside;
    case EVENT_COPY_P2P:
        return between;
    default:
        return (struct way_words){NULL, NULL, NULL};
    }
}

/* Where the host waits, it waits in those of pageable memory, unless they are next to
 * nothing beside the others. */
#define PAGEABLE_SHARE 0.05

/* Those with the most time, but for the host's part first those of pageable memory. */
static bool is_more(const struct gpu_run_copies *copies,
                    const struct gpu_run_copies *most, bool by_host)
{
    if (by_host && copies->pageable != most->pageable)
        return copies->pageable ? copies->ns > PAGEABLE_SHARE * most->ns
                                : !(most->ns > PAGEABLE_SHARE * copies->ns);
    return copies->ns > most->ns;
}

/* NULL where nobody tells of a direction. `all_ns` of all that count. */
static const struct gpu_run_copies *most_of(const struct gpu_run *run, bool by_host,
                                            double *all_ns)
{
    const struct gpu_run_copies *most = NULL;

    *all_ns = 0;
    for (uint32_t i = 0; i < run->copy_count; i++) {
        const struct gpu_run_copies *copies = &run->copies[i];

        if (by_host && copies->way == EVENT_COPY_D2D)
            continue; /* no host waits for these */
        *all_ns += copies->ns;
        if (most == NULL || is_more(copies, most, by_host))
            most = copies;
    }
    return most != NULL && most->ns > 0 && most->count > 0 &&
                   words_of(most).what != NULL
               ? most
               : NULL;
}

/* As words_of() has it, and how batches are pinned where they may not be. */
static const char *advice_of(struct rule_context *context,
                             const struct gpu_run_copies *copies)
{
    const char *pin = setting_text(context, SETTING_PIN_MEMORY, NULL);
    const char *torch = words_of(copies).torch;

    if (copies->way != EVENT_COPY_H2D || !(copies->pageable || copies->unknown))
        return torch;
    return copies->pageable
               ? rule_print(context, "%s and %s", pin, torch)
               : rule_print(context, "%s; it has to be pinned (%s)", torch, pin);
}

static void advise(struct rule_context *context, struct finding *finding,
                   const struct gpu_run_copies *most)
{
    const char *next = "`batch.to(device, non_blocking=True)` for the next batch while "
                       "this one trains";
    bool pins = rule_number(context, FACT_DATALOADER_PIN_MEMORY) >= 1;

    if (most != NULL && most->count >= SMALL_NEEDED && !most->unsized &&
        (double)most->bytes / (double)most->count < SMALL_BYTES)
        rule_advise_in(context, finding,
                       "Many small ones: pack them into one tensor, copy that, and "
                       "split it behind the copy",
                       "Many small ones: pack them into one buffer, copy that, and "
                       "split it behind the copy");
    if (most != NULL && pins && most->way == EVENT_COPY_H2D)
        rule_advise_in(context, finding, most->pageable ? OTHERS_PINNED : NEXT_BATCH,
                       most->pageable ? PIN_NATIVE : NEXT_BATCH_NATIVE);
    else if (most != NULL)
        rule_advise_in(context, finding, advice_of(context, most),
                       words_of(most).native);
    else
        rule_advise_in(
            context, finding,
            pins ? next
                 : rule_print(context, "%s and %s",
                              setting_text(context, SETTING_PIN_MEMORY, NULL), next),
            "`cudaMallocHost` and `cudaMemcpyAsync` for the next batch while this one "
            "trains");
    if (most == NULL || most->way == EVENT_COPY_H2D)
        rule_advise(finding,
                    "Copy less: `uint8` images, and cast and normalize on the GPU");
    if (most != NULL && most->way == EVENT_COPY_D2H)
        rule_advise_in(context, finding, "What has to go there: " COPY_BACK,
                       "What has to go there: " COPY_BACK_NATIVE);
}

/* The same engines set memory, and where they do that most, no copy is to blame. */
static bool tell_sets(struct rule_context *context, struct finding *finding,
                      const struct gpu_run *run, double copies_ns)
{
    if (!(run->memset_ns > copies_ns))
        return false;
    finding->sentence = rule_print(
        context, "%s; most of it sets memory, %s at once", finding->sentence,
        rule_memory(context, (double)run->memset_bytes / (double)run->memset_count));
    rule_advise_in(context, finding,
                   "`torch.empty` instead of `torch.zeros` where all of it is written",
                   "No `cudaMemsetAsync` of what is written whole afterwards");
    return true;
}

#define COPIES_MOST (GPU_COPY_WAYS * GPU_COPY_SIDES)

/* Without what was moved before the first step, as weights are; where no step was recorded
 * all of it. */
static struct gpu_run of_training(const struct gpu_run *run,
                                  struct gpu_run_copies copies[COPIES_MOST])
{
    struct gpu_run trained = *run;
    uint64_t count = 0;

    for (uint32_t i = 0; i < run->copy_count; i++)
        count += run->copies[i].step_count;
    if (count == 0)
        return trained;
    trained.copies = copies;
    trained.memset_ns = run->memset_step_ns;
    for (uint32_t i = 0; i < run->copy_count; i++) {
        copies[i] = run->copies[i];
        copies[i].count = copies[i].step_count;
        copies[i].bytes = (uint64_t)copies[i].step_bytes;
        copies[i].ns = copies[i].step_ns;
        if (copies[i].ns > 0)
            copies[i].bytes_per_s = copies[i].step_bytes * 1e9 / copies[i].ns;
    }
    return trained;
}

void copies_tell(struct rule_context *context, struct finding *finding,
                 const struct gpu_device *device, bool by_host)
{
    struct gpu_run_copies copies[COPIES_MOST];
    const struct gpu_run run = of_training(&device->run, copies);
    double all_ns;
    const struct gpu_run_copies *most = most_of(&run, by_host, &all_ns);

    if (!by_host && tell_sets(context, finding, &run, all_ns))
        return;
    advise(context, finding, most);
    if (most == NULL)
        return;
    double bytes = (double)most->bytes, count = (double)most->count;

    finding->sentence =
        rule_print(context,
                   by_host ? "%s; %.0f %% of the time of copies, without those inside "
                             "of the device, is %s%s"
                           : "%s; %.0f %% of all time of copies in training is %s%s",
                   finding->sentence, 100 * most->ns / all_ns, words_of(most).what,
                   most->unsized ? ""
                                 : rule_print(context, ", %s each",
                                              rule_memory(context, bytes / count)));
    rule_evidence_text(context, finding, "copies", words_of(most).what);
    rule_evidence(finding, "copies_pct", 100 * most->ns / all_ns);
    if (most->unsized)
        return;
    rule_evidence(finding, "copy_bytes", bytes / count);
    rule_evidence(finding, "gb_per_s", most->bytes_per_s / 1e9);
}

void copies_name(struct rule_context *context, struct finding *finding)
{
    const struct ops_answer *cpu = &context->summary->cpu;

    for (uint32_t i = 0; i < cpu->judged_count; i++) {
        const struct op_row *row = &cpu->rows[i];

        /* Most copies of a step may be the device's own, which no host prepares. */
        if ((strcmp(row->name, "aten::copy_") != 0 &&
             strstr(row->name, "Memcpy") == NULL) ||
            !(row->per_step_count > 0) ||
            !(row->per_step_ns >= finding->ns_per_step / 2))
            continue;
        rule_pin(context, finding, row->name);
        rule_evidence_text(context, finding, "op", row->name);
        finding->sentence =
            rule_print(context, "%s; %s takes %s in %s%s", finding->sentence, row->name,
                       rule_ms(context, row->per_step_ns),
                       rule_count(context, row->per_step_count, "call"),
                       rule_caller(context, finding, row));
        return;
    }
}

/* Time of all copies and memsets since the first step, of those to the device that staged
 * pageable memory first, and what a byte of the others takes. */
struct to_device {
    double all_ns, pageable_ns, pageable_bytes, pageable_count, pinned_ns, pinned_bytes;
};

static struct to_device copies_of(const struct gpu_device *device)
{
    struct to_device sum = {.all_ns = device->run.memset_step_ns};

    for (uint32_t i = 0; i < device->run.copy_count; i++) {
        const struct gpu_run_copies *copies = &device->run.copies[i];
        double bytes = copies->unsized ? (double)NAN : copies->step_bytes;

        sum.all_ns += copies->step_ns;
        if (copies->way != EVENT_COPY_H2D)
            continue;
        if (copies->pageable) {
            sum.pageable_ns += copies->step_ns;
            sum.pageable_bytes += bytes;
            sum.pageable_count += (double)copies->step_count;
        } else if (!copies->unknown) {
            sum.pinned_ns += copies->step_ns;
            sum.pinned_bytes += bytes;
        }
    }
    return sum;
}

/* Large copies from pinned memory cross at so much of what the link carries: 54.7 of 63 GB/s
 * on an H200, 64 MiB each. Smaller ones, and where nobody tells of a link, from pageable
 * memory at half the rate. */
#define PINNED_RATE  0.85
#define LARGE_BYTES  1048576.0
#define PINNED_SAVES 0.5

/* Of the time of copies from pageable memory, what pinned memory saves, and at most. */
struct pinned {
    double saves, most;
};

/* By what the job's own pinned copies take, where these are faster, else by the link. */
static struct pinned pinned_of(const struct rule_context *context,
                               const struct gpu_device *device,
                               const struct to_device *copies)
{
    double rate = copies->pageable_bytes / copies->pageable_ns;
    double own = copies->pinned_bytes >= copies->pageable_bytes / 10
                     ? copies->pinned_bytes / copies->pinned_ns
                     : (double)NAN;
    double link = copies->pageable_bytes >= LARGE_BYTES * copies->pageable_count
                      ? link_of_device(context, device) / 1e9
                      : (double)NAN;
    double saves = own > rate    ? 1 - rate / own
                   : isnan(link) ? PINNED_SAVES
                                 : fmax(1 - rate / (PINNED_RATE * link), 0);

    return (struct pinned){saves,
                           isnan(link) ? 1 : fmin(fmax(1 - rate / link, saves), 1)};
}

static void describe_pageable(struct rule_context *context, struct finding *finding,
                              const struct gpu_device *device,
                              const struct to_device *copies)
{
    double share = copies->pageable_ns / copies->all_ns;
    double rate = copies->pageable_bytes / copies->pageable_ns;
    bool pins = rule_number(context, FACT_DATALOADER_PIN_MEMORY) >= 1;

    finding->title = pins ? "Tensors are copied from memory that is not pinned"
                          : "Batches are copied from memory that is not pinned";
    finding->sentence = rule_print(
        context,
        "%.0f %% of the time of copies in training is from pageable memory: staged "
        "first%s, while the host waits",
        100 * share,
        isnan(copies->pageable_bytes) ? ""
                                      : rule_print(context, ", at %.3g GB/s", rate));
    finding->wrong_if =
        "The copies are a few large ones, which go on beside the steps.";
    rule_evidence_text(context, finding, "device", device->device);
    rule_evidence(finding, "pageable_pct", 100 * share);
    rule_evidence(finding, "pageable_gb_per_s", rate);
    rule_evidence(finding, "pinned_gb_per_s",
                  rule_share(copies->pinned_bytes, copies->pinned_ns));
    rule_evidence(finding, "link_gb_per_s", link_of_device(context, device) / 1e9);
    copies_name(context, finding);
    /* What a loader pins already comes from elsewhere. */
    if (!pins)
        rule_advise_in(
            context, finding,
            rule_print(context, "%s and `batch.to(device, non_blocking=True)`",
                       setting_text(context, SETTING_PIN_MEMORY, NULL)),
            "Batches in memory of `cudaMallocHost`, copied by `cudaMemcpyAsync`");
    rule_advise_in(context, finding,
                   "Tensors of your own: two pinned buffers in turns "
                   "(`torch.empty_like(batch).pin_memory()`), each filled again only "
                   "after " COPY_IS_OVER,
                   "Two such buffers in turns, each filled again only after "
                   "`cudaEventSynchronize` of an event behind its copy");
}

static void find_pageable(struct rule_context *context)
{
    const struct gpu_device *device = rule_device(context);

    if (device == NULL)
        return;
    /* Copies beside which nothing computes, and those that the host prepares. */
    struct work_alone alone = work_alone(context, GPU_COPY);
    double own = alone.ns * alone.share;
    double waits = own + device->idle_ns[GPU_IDLE_COPY];
    struct to_device copies = copies_of(device);
    double share = copies.pageable_ns / copies.all_ns;
    const struct pinned pinned = pinned_of(context, device, &copies);
    double saves = pinned.saves, price = waits * share * saves;

    if (!rule_reaches(context, price))
        return;
    struct finding *finding =
        rule_add_price(context, NULL, "data", price,
                       rule_error_of_kernels(context, price, context->train->kernels));

    rule_price_between(finding, price / 2, waits * share * pinned.most);
    rule_claim_model(context, finding, CLAIM_COPY,
                     device->idle_ns[GPU_IDLE_COPY] * share * saves);
    rule_claim_model(context, finding, CLAIM_WORK, own * share * saves);
    finding->formula = rule_print(context,
                                  "(%s copying alone%s + %s waiting for copies) * %.0f "
                                  "%% pageable * %.0f %% saved = %s",
                                  rule_ms(context, alone.ns),
                                  work_alone_share(context, finding, &alone),
                                  rule_ms(context, device->idle_ns[GPU_IDLE_COPY]),
                                  100 * share, 100 * saves, rule_ms(context, price));
    describe_pageable(context, finding, device, &copies);
}

const struct rule rules_copies[] = {
    RULE("pageable-copies", find_pageable, OWNER_DEVICE - 1, RULE_SAMPLED,
         "copies by direction and memory; GPU time by use, idle by cause; steps that "
         "were replayed; the link, by the driver",
         "waiting for copies * pageable share * (1 - pinned / pageable time, by pinned "
         "copies, else by the link, else half)",
         SHARE_OF_STEP(0.03, SMALLEST)),
    {.told = {.id = NULL}},
};
