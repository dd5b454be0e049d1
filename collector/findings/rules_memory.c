/* Rules over memory: close to its limit, or on the way there. They cost no time yet. */
#include <math.h>
#include <string.h>

#include "findings/settings.h"

#define GROWTH_STEPS 10u

#define S_PER_HOUR 3600.0

/* Below that the allocator has no reason to look for a better place. */
#define NEARLY_FULL 0.8

/* From there on little is left for a step that is a bit larger. */
#define BRIM 0.97

static struct finding *add_full(struct rule_context *context, const char *device,
                                double used, double limit,
                                enum finding_severity severity)
{
    bool host = strcmp(device, "cpu") == 0;
    struct finding *finding =
        rule_add_risk(context, device, host ? "host" : "reserved", severity);

    finding->title =
        rule_print(context, "%s memory is nearly full", host ? "Host" : device);
    finding->formula = rule_print(context, "%.3g GiB of %.3g GiB = %.1f %%", used / GIB,
                                  limit / GIB, 100 * used / limit);
    finding->sentence = rule_print(
        context, "%.3g of %.3g GiB are in use %s; %.3g GiB are left", used / GIB,
        limit / GIB, host ? "now" : "at the peak", (limit - used) / GIB);
    finding->wrong_if =
        host
            ? "It stays so for the whole run: then it fits, with little to spare."
            : "The peak is the same in every step: then it fits, with little to spare.";
    rule_evidence(finding, "used_bytes", used);
    rule_evidence(finding, "limit_bytes", limit);
    return finding;
}

static void add_host_full(struct rule_context *context, const struct memory_host *host)
{
    struct finding *finding =
        add_full(context, "cpu", host->used_bytes, host->limit_bytes, FINDING_HIGH);

    rule_evidence(finding, "job_bytes", host->job_bytes);
    /* What a container uses besides is often files in its memory; and of a job with workers
     * not all is known to be its own. */
    if (host->job_bytes < host->used_bytes / 2 &&
        strcmp(host->limit_name, "machine") == 0 &&
        !(rule_number(context, FACT_DATALOADER_WORKERS) >= 1)) {
        finding->sentence =
            rule_print(context, "%s; this job holds %.3g GiB of it, others the rest",
                       finding->sentence, host->job_bytes / GIB);
        rule_advise(finding,
                    "Other programs hold most of it: end what is not needed, or a "
                    "limit for each (`systemd-run --scope -p MemoryMax=`)");
    }
    const char *ahead = setting_text(context, SETTING_PREFETCH, "1");

    rule_advise_in(
        context, finding,
        rule_print(context, "Fewer loader workers%s%s: each holds batches of its own",
                   ahead[0] == '\0' ? "" : ", or fewer batches ahead with ", ahead),
        "Fewer batches ahead: each holds memory of its own");
    rule_advise_in(context, finding,
                   "Map large data sets (`numpy.memmap`) instead of reading them whole",
                   "Map large data sets (`mmap`) instead of reading them whole");
}

/* Of what the allocator keeps in pieces. */
static void advise_segments(struct finding *finding)
{
    rule_advise(finding, "`PYTORCH_CUDA_ALLOC_CONF=expandable_segments:True` when much "
                         "is reserved and not allocated");
}

static void add_device_full(struct rule_context *context,
                            const struct memory_device *device)
{
    /* A job that is made to fill its device does so in each step, and does not fail. */
    bool is_close = rule_share(device->peak_bytes, device->total_bytes) >= BRIM ||
                    device->high_peaks > 0 || device->retries > 0;
    struct finding *finding =
        add_full(context, device->device, device->peak_bytes, device->total_bytes,
                 is_close ? FINDING_HIGH : FINDING_MEDIUM);

    if (device->peak_op[0] != '\0')
        finding->sentence = rule_print(context, "%s; %s reached it", finding->sentence,
                                       device->peak_op);
    rule_evidence_text(context, finding, "op", device->peak_op);
    finding->worst_step = device->peak_step;
    rule_advise(finding,
                rule_infers(context)
                    ? "A smaller batch, shorter sequences, or weights of fewer bits"
                    : "A smaller batch with gradient accumulation, or "
                      "`torch.utils.checkpoint` for the largest layers");
    advise_segments(finding);
}

/* An allocator that caches comes to reserve nearly all in any long run. */
static void add_reserved(struct rule_context *context,
                         const struct memory_device *device)
{
    struct finding *finding = add_full(context, device->device, device->reserved_bytes,
                                       device->total_bytes, FINDING_LOW);

    finding->title =
        rule_print(context, "%s memory is nearly all reserved", device->device);
    finding->sentence =
        rule_print(context, "%.3g of %.3g GiB are reserved by the allocator%s",
                   device->reserved_bytes / GIB, device->total_bytes / GIB,
                   isnan(device->peak_bytes)
                       ? ""
                       : rule_print(context, "; tensors held %.3g GiB at the peak",
                                    device->peak_bytes / GIB));
    finding->wrong_if = "Nobody else needs the device: the allocator gives back what "
                        "it keeps before it fails.";
    rule_evidence(finding, "peak_bytes", device->peak_bytes);
    advise_segments(finding);
}

static void find_full(struct rule_context *context)
{
    const struct memory_answer *memory = &context->summary->memory;
    const struct memory_host *host = &memory->host;

    for (uint32_t i = 0; i < memory->device_count; i++) {
        const struct memory_device *device = &memory->devices[i];

        if (strcmp(device->device, "cpu") == 0)
            continue;
        if (rule_share(device->peak_bytes, device->total_bytes) >= context->threshold)
            add_device_full(context, device);
        else if (rule_share(device->reserved_bytes, device->total_bytes) >=
                 context->threshold)
            add_reserved(context, device);
    }
    if (rule_share(host->used_bytes, host->limit_bytes) >= context->threshold)
        add_host_full(context, host);
}

/* What is reserved and held no tensor even at the peak, while little is left. */
static void find_fragments(struct rule_context *context)
{
    const struct memory_answer *memory = &context->summary->memory;

    for (uint32_t i = 0; i < memory->device_count; i++) {
        const struct memory_device *device = &memory->devices[i];
        double unused = device->reserved_bytes - device->peak_bytes;

        if (strcmp(device->device, "cpu") == 0 ||
            !(rule_share(device->reserved_bytes, device->total_bytes) >= NEARLY_FULL) ||
            !(rule_share(unused, device->reserved_bytes) >= context->threshold))
            continue;
        struct finding *finding =
            rule_add_risk(context, device->device, "reserved", FINDING_MEDIUM);
        finding->title =
            rule_print(context, "Memory of %s is reserved in pieces that do not fit",
                       device->device);
        finding->formula = rule_print(
            context, "(%.3g GiB reserved - %.3g GiB at the peak) / %.3g GiB = %.0f %%",
            device->reserved_bytes / GIB, device->peak_bytes / GIB,
            device->reserved_bytes / GIB, 100 * unused / device->reserved_bytes);
        finding->sentence = rule_print(context,
                                       "%.3g GiB are reserved and held no tensor even "
                                       "at the peak; the device has %.3g GiB",
                                       unused / GIB, device->total_bytes / GIB);
        finding->wrong_if =
            "The peak lies before this window: an evaluation, or the first steps.";
        rule_evidence_text(context, finding, "device", device->device);
        rule_evidence(finding, "reserved_bytes", device->reserved_bytes);
        rule_evidence(finding, "peak_bytes", device->peak_bytes);
        rule_evidence(finding, "total_bytes", device->total_bytes);
        rule_advise(finding, "`PYTORCH_CUDA_ALLOC_CONF=expandable_segments:True`: "
                             "segments grow instead of being joined");
        rule_advise(finding, "Batches of one shape, or padded to few: each new size "
                             "cuts the segments anew");
    }
}

/* So soon nothing else matters: the run ends. */
#define URGENT_HOURS 1.0

static const char *duration(struct rule_context *context, double seconds)
{
    double unit = seconds >= S_PER_HOUR ? S_PER_HOUR : seconds >= 60 ? 60 : 1;

    return rule_print(context, "%s %s", rule_digits(context, seconds / unit),
                      unit > 60  ? "h"
                      : unit > 1 ? "min"
                                 : "s");
}

/* "7 h", and between which it lies where its interval has an end. */
static const char *until_full(struct rule_context *context,
                              const struct memory_growth *growth)
{
    const char *full = duration(context, growth->full_in_s);

    if (isnan(growth->earliest_s))
        return full;
    return rule_print(
        context, "%s, not before %s%s%s", full, duration(context, growth->earliest_s),
        isnan(growth->latest_s) ? "" : ", not after ",
        isnan(growth->latest_s) ? "" : duration(context, growth->latest_s));
}

/* Of fewer recorded steps nothing is said of who holds it. */
#define HOLDER_STEPS 5u

/* Of what memory grows by, blocks of that size must be as much to be told, and not far more:
 * then they are not what grows. */
#define HOLDER_LEAST 0.3
#define HOLDER_MOST  1.5

/* Behind an op that only makes room: by what people write it; else "". */
static const char *code_of(const char *op)
{
    static const struct {
        const char *op, *code;
    } makers[] = {
        {"aten::empty",
         " (`torch.zeros`, `torch.empty`, `torch.randn` and others call it)"},
        {"aten::empty_strided",
         " (`.to()`, `.clone()`, `torch.zeros_like` and others call it)"},
        {"aten::resize_", " (`out=` calls it)"},
    };

    for (size_t i = 0; i < sizeof(makers) / sizeof(makers[0]); i++)
        if (strcmp(op, makers[i].op) == 0)
            return makers[i].code;
    return "";
}

/* "aten::mm or aten::empty (`torch.zeros` and others call it)" */
static const char *list_ops(struct rule_context *context, struct finding *finding,
                            const struct memory_device *device)
{
    uint32_t count = device->kept_op_count;
    const char *list = "", *names = "";

    for (uint32_t i = 0; i < count; i++) {
        const char *op = device->kept_ops[i];

        list = rule_print(context, "%s%s%s%s", list, i == 0 ? "" : " or ", op,
                          code_of(op));
        names = rule_print(context, "%s%s%s", names, i == 0 ? "" : ", ", op);
        rule_pin(context, finding, op);
    }
    rule_evidence_text(context, finding, count == 1 ? "op" : "ops", names);
    const struct op_row *row =
        count == 1 ? rule_row(&context->summary->cpu, device->kept_ops[0]) : NULL;

    return row == NULL
               ? list
               : rule_print(context, "%s%s", list, rule_caller(context, finding, row));
}

/* Whose blocks it may be that stay, where that is known. */
static void name_holder(struct rule_context *context, struct finding *finding,
                        const struct memory_device *device)
{
    double kept = device->kept_bytes_per_step;
    double grows =
        rule_share(device->growth.slope_bytes_per_s, context->train->steps_per_s);

    if (device->kept_steps < HOLDER_STEPS || device->kept_op_count == 0 ||
        !(kept >= HOLDER_LEAST * grows) || !(kept <= HOLDER_MOST * grows))
        return;
    rule_evidence(finding, "kept_bytes_per_step", kept);
    rule_evidence(finding, "block_bytes", device->kept_block_bytes);
    finding->sentence = rule_print(
        context,
        "%s; each step keeps %s in blocks of %s, and such blocks are taken by %s",
        finding->sentence, rule_memory(context, kept),
        rule_memory(context, device->kept_block_bytes),
        list_ops(context, finding, device));
}

/* The one that is full first; one that knows no limit never is. */
static const struct memory_growth *fuller(const struct memory_growth *one,
                                          const struct memory_growth *other)
{
    return isnan(one->full_in_s) || other->full_in_s < one->full_in_s ? other : one;
}

/* `until` says when it is full as well: its own growth, or that of what has the same
 * limit. */
static struct finding *add_growth(struct rule_context *context, const char *what,
                                  const struct memory_growth *own,
                                  const struct memory_growth *until)
{
    const struct memory_growth *growth = fuller(own, until);
    bool host = strcmp(what, "host") == 0;
    bool on_device = !host && strcmp(what, "cpu") != 0;
    double hours = growth->full_in_s / S_PER_HOUR, slope = own->slope_bytes_per_s;
    struct finding *finding =
        rule_add_risk(context, what, host ? "host" : "allocated",
                      hours <= context->threshold ? FINDING_HIGH : FINDING_MEDIUM);

    finding->urgent = hours <= URGENT_HOURS;
    finding->title =
        host ? "Memory of the process keeps growing"
             : rule_print(context, "Memory of %s keeps growing",
                          strcmp(what, "cpu") == 0 ? "tensors on the host" : what);
    finding->formula =
        isnan(growth->full_in_s)
            ? rule_print(context, "%s MiB/s", rule_digits(context, slope / MIB))
            : rule_print(context, "%s MiB/s: full in %s",
                         rule_digits(context, slope / MIB),
                         until_full(context, growth));
    finding->sentence = rule_print(
        context, "What stays allocated between steps grows by %s MiB a second%s",
        rule_digits(context, slope / MIB),
        isnan(growth->full_in_s) ? ""
                                 : rule_print(context, ": memory is full in %s",
                                              until_full(context, growth)));
    finding->wrong_if = "A cache that fills once and then stays.";
    rule_evidence(finding, "bytes_per_s", slope);
    rule_evidence(finding, "bytes_per_step",
                  rule_share(slope, context->train->steps_per_s));
    rule_evidence(finding, "full_in_h", hours);
    rule_evidence(finding, "full_in_low_h", growth->earliest_s / S_PER_HOUR);
    rule_evidence(finding, "full_in_high_h", growth->latest_s / S_PER_HOUR);
    rule_advise_in(
        context, finding,
        on_device
            ? "Keep no graphs: `losses.append(loss.detach())` instead of "
              "`losses.append(loss)`, and numbers of them every n-th step "
              "(`torch.stack(losses).tolist()`), for `.item()` waits for the device"
            : "Keep numbers, not tensors: `losses.append(loss.item())` instead of "
              "`losses.append(loss)`",
        "Give back what a step allocates before the next one: `valgrind "
        "--leak-check=full` or `-fsanitize=leak` name what nobody frees");
    rule_advise_in(context, finding,
                   "`loss.detach()` in everything that outlives a step",
                   "Bound lists and caches that grow with the steps");
    return finding;
}

/* Beside a device of its own memory; tensors on the host have told of it. */
static bool is_sooner(const struct memory_answer *memory,
                      const struct memory_growth *devices)
{
    for (uint32_t i = 0; i < memory->device_count; i++)
        if (strcmp(memory->devices[i].device, "cpu") == 0 &&
            memory->devices[i].growth.sure)
            return false;
    return memory->host.growth.full_in_s < devices->full_in_s ||
           (isnan(devices->full_in_s) && memory->host.growth.full_in_s > 0);
}

static void find_growth(struct rule_context *context)
{
    const struct memory_answer *memory = &context->summary->memory;
    const struct memory_growth *first = NULL; /* of the devices' */

    /* Within a few steps memory rises and falls as it must. */
    if (context->train->count < GROWTH_STEPS)
        return;
    for (uint32_t i = 0; i < memory->device_count; i++) {
        const struct memory_device *device = &memory->devices[i];

        if (!device->growth.sure)
            continue;
        first = first == NULL ? &device->growth : fuller(first, &device->growth);
        /* The host's allocator knows no limit: the process has one. */
        bool on_host = strcmp(device->device, "cpu") == 0 && memory->host.growth.sure;

        struct finding *finding =
            add_growth(context, device->device, &device->growth,
                       on_host ? &memory->host.growth : &device->growth);

        name_holder(context, finding, device);
    }
    /* What the allocator says is the better explanation of the same growth; but not of a
     * host that is full sooner. */
    if (memory->host.growth.sure && (first == NULL || is_sooner(memory, first)))
        (void)add_growth(context, "host", &memory->host.growth, &memory->host.growth);
}

const struct rule rules_memory[] = {
    RULE("memory-full", find_full, OWNER_RISK, RULE_TREND,
         "peak, reserved and limit of each device; use and limit of the host",
         "0: a risk",
         SHARE(0.90, "share of the limit",
               "fragmentation and one larger batch take about a tenth"),
         .stays = 0.97),
    RULE("memory-growth", find_growth, OWNER_RISK, RULE_TREND | RULE_RECORDS,
         "lower envelope of allocated bytes; of recorded steps allocations and frees "
         "by size and op; NVML: memory of the device that is used",
         "0: a risk", .threshold = 24.0, .unit = "hours until full, then it is grave",
         .min = 1, .max = 8760, .source = "a run is left alone for a night and a day",
         .stays = 1),
    RULE("fragmentation", find_fragments, OWNER_RISK, RULE_TREND,
         "reserved and peak of each device, its memory", "0: a risk",
         SHARE(0.20, "share of what is reserved",
               "torch rounds blocks up by a tenth or so; a fifth is more")),
    {.told = {.id = NULL}},
};
