#include "findings/copies.h"

#include <string.h>

#include "findings/settings.h"

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
                   "`torch.empty` instead of `torch.zeros` where all of it is "
                   "written",
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

    finding->sentence = rule_print(
        context,
        by_host ? "%s; %.0f %% of the time of copies, without those inside of the "
                  "device, is %s%s"
                : "%s; %.0f %% of all time of copies in training is %s%s",
        finding->sentence, 100 * most->ns / all_ns, words_of(most).what,
        most->unsized
            ? ""
            : rule_print(context, ", %s each", rule_memory(context, bytes / count)));
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
