/* Rules over what the GPUs say of themselves: clocks that are held back, memory that
 * others hold, links that are full, power that is taken for nothing. */
#include <math.h>
#include <string.h>

#include "findings/rules.h"

/* A link that is full costs something where copies hold a device up by so much of the step:
 * the smallest loss that tests/diseases asks to be found. */
#define LINK_WAITS 0.03

#define MEMORY_BOUND "Its kernels wait for memory: they lose little with the clock"

/* What is told of each that holds clocks back: behind the device, before the clock. */
static const struct holder {
    const char *title, *sentence, *wrong_if, *advice;
} holders[HARDWARE_HOLDERS] = {
    [HARDWARE_HELD_BY_HEAT] = {"is slowed down by heat", "heat held its clock",
                               MEMORY_BOUND ".",
                               "Look at fans, airflow and the neighbours in the rack: "
                               "`nvidia-smi -q -d TEMPERATURE,PERFORMANCE`"},
    [HARDWARE_HELD_BY_POWER] =
        {"is slowed down by power", "power held its clock", MEMORY_BOUND ".",
         "A higher limit, where the board and your site allow it: `nvidia-smi -q -d "
         "POWER`, `nvidia-smi -pl WATTS` (as root)"},
    [HARDWARE_HELD_BY_BOARD] =
        {"is slowed down by its board", "the board held its clock", MEMORY_BOUND ".",
         "Look at the power supply, its cables and the cooling of the board: "
         "`nvidia-smi -q -d PERFORMANCE,POWER,TEMPERATURE`"},
    [HARDWARE_HELD_BY_SETTING] =
        {"runs at lower clocks that somebody chose", "a setting held its clock",
         MEMORY_BOUND
         "; or the clocks were chosen to save power, or for timings that compare.",
         "As root, where your site allows it: `nvidia-smi --reset-gpu-clocks`, "
         "`nvidia-smi --reset-applications-clocks`"},
};

/* The clock that it has otherwise: where nothing holds it back, else as somebody chose it,
 * else the highest that the device has. */
static double full_mhz(const struct hardware_row *row, enum hardware_holder by)
{
    double chosen = row->held_mhz[HARDWARE_HELD_BY_SETTING];

    return !isnan(row->free_mhz)                              ? row->free_mhz
           : by != HARDWARE_HELD_BY_SETTING && !isnan(chosen) ? chosen
                                                              : row->sm_max_mhz;
}

/* What compute would take less with that clock. */
static void find_held(struct rule_context *context, const struct hardware_row *row,
                      const struct gpu_device *device)
{
    enum hardware_holder by = context->about;
    const struct holder *holder = &holders[by];
    double share = row->held_share[by], mhz = row->held_mhz[by];
    double full = full_mhz(row, by), lost = 1 - mhz / full;
    double whole = device != NULL && lost > 0
                       ? device->use_ns[GPU_COMPUTE] * share * lost
                       : 0; /* if all work followed the clock */

    /* Lower clocks are what clock-energy advises there. */
    if ((by == HARDWARE_HELD_BY_SETTING &&
         row->mean[HARDWARE_MEMORY_BUSY] >= rule_threshold(context, "clock-energy")) ||
        !rule_reaches(context, whole / 2))
        return;
    struct finding *finding = rule_add_price_half(
        context, row->device, "forward", whole,
        rule_error_of_kernels(context, whole, context->train->kernels));

    rule_claim_model(context, finding, CLAIM_WORK, whole / 2);
    finding->title = rule_print(context, "%s %s", row->device, holder->title);
    finding->formula = rule_print(
        context, "%s compute * (1 - %.0f / %.0f MHz) for %.0f %% of the time / 2 = %s",
        rule_ms(context, whole / share / lost), mhz, full, 100 * share,
        rule_ms(context, whole / 2));
    finding->sentence = rule_print(
        context, "For %.0f %% of the time that it worked %s at %.0f MHz, of %.0f",
        100 * share, holder->sentence, mhz, full);
    finding->wrong_if = holder->wrong_if;
    rule_evidence_text(context, finding, "device", row->device);
    rule_evidence(finding, "held_pct", 100 * share);
    rule_evidence(finding, "clock_mhz", mhz);
    rule_evidence(finding, "full_clock_mhz", full);
    rule_evidence(finding, "power_w", row->mean[HARDWARE_POWER_W]);
    rule_evidence(finding, "power_limit_w", row->power_limit_w);
    rule_evidence(finding, "temperature_c", row->mean[HARDWARE_TEMPERATURE_C]);
    rule_evidence_ms(finding, "step_ms", context->train->mean_ns);
    rule_advise(finding, holder->advice);
    if (by != HARDWARE_HELD_BY_SETTING)
        rule_advise(
            finding,
            "Work that needs less: bfloat16 or TF32 instead of float32, fused kernels");
}

static void find_others(struct rule_context *context, const struct hardware_row *row,
                        const struct gpu_device *device)
{
    (void)device;
    /* Whoever has no memory there, or is known to do no work, does not care who else has. */
    if (row->device == NULL || row->job_bytes == 0 ||
        (row->works_known && !row->works) ||
        !(rule_share(row->other_bytes, row->total_bytes) >= context->threshold))
        return;
    struct finding *finding =
        rule_add_risk(context, row->device, "reserved", FINDING_MEDIUM);
    finding->title =
        rule_print(context, "%s is shared with another process", row->device);
    finding->formula = rule_print(context, "%.3g GiB of %.3g GiB are others'",
                                  row->other_bytes / GIB, row->total_bytes / GIB);
    finding->sentence =
        rule_print(context, "Processes that are not of this job hold %.3g GiB on %s",
                   row->other_bytes / GIB, row->device);
    finding->wrong_if =
        "They hold memory and compute nothing, as a notebook that was left open does.";
    rule_evidence_text(context, finding, "device", row->device);
    rule_evidence(finding, "other_bytes", row->other_bytes);
    rule_evidence(finding, "job_bytes", row->job_bytes);
    rule_evidence(finding, "busy_pct", 100 * row->mean[HARDWARE_BUSY]);
    rule_advise(finding, "`nvidia-smi` names them: end what is not needed, or take "
                         "another device with `CUDA_VISIBLE_DEVICES`");
}

/* Of the clock, where the device waits for more than half of the step: what its kernels
 * then take longer still ends before the host comes with more. */
#define CLOCK_ENOUGH 0.75

static void advise_clock(struct rule_context *context, struct finding *finding,
                         const struct hardware_row *row, const char *until)
{
    rule_advise_print(context, finding,
                      "%s lower clock: `nvidia-smi -i %u -lgc 0,%.0f`, and compare the "
                      "energy and the time of a step; it needs root, and holds for all "
                      "users of the GPU until `nvidia-smi -i %u -rgc`",
                      until, row->index, CLOCK_ENOUGH * row->sm_max_mhz, row->index);
}

/* Power is sampled once a second and waits last a ms: what the board takes in one is not
 * known, but no less than when it did nothing for a whole sample. */
static void find_idle(struct rule_context *context, const struct hardware_row *row,
                      const struct gpu_device *device)
{
    double step = context->train->mean_ns, idle_ns = 0;

    for (uint32_t cause = 0; device != NULL && cause < GPU_IDLES; cause++)
        idle_ns += device->idle_ns[cause];
    double joules = row->idle_w * idle_ns / 1e9;

    if (row->mig || !(idle_ns > 0) ||
        !(rule_share(joules, row->joules_per_step) >= context->threshold))
        return;
    struct finding *finding = rule_add_risk(context, row->device, "other", FINDING_LOW);

    finding->title = rule_print(context, "%s takes power while it waits", row->device);
    finding->formula = rule_print(
        context, "%s of waiting * %s W = %s J of the %s J of a step",
        rule_ms(context, idle_ns), rule_digits(context, row->idle_w),
        rule_digits(context, joules), rule_digits(context, row->joules_per_step));
    finding->sentence = rule_print(
        context,
        "%s waits for %.0f %% of the step, and takes %s W even while it does nothing: "
        "at least %.0f %% of the energy of a step is for nothing",
        row->device, 100 * idle_ns / step, rule_digits(context, row->idle_w),
        100 * joules / row->joules_per_step);
    finding->wrong_if = "It is the least: between kernels the clocks stay up, and "
                        "waiting takes more power than idling for long.";
    rule_evidence_text(context, finding, "device", row->device);
    rule_evidence(finding, "idle_j_per_step", joules);
    rule_evidence(finding, "joules_per_step", row->joules_per_step);
    rule_evidence(finding, "samples_per_joule", row->samples_per_joule);
    rule_evidence(finding, "idle_w", row->idle_w);
    rule_evidence(finding, "power_w", row->mean[HARDWARE_POWER_W]);
    rule_evidence(finding, "clock_mhz", row->mean[HARDWARE_SM_MHZ]);
    rule_advise(finding, "End the waits that the other findings name: a step that is "
                         "shorter pays less for them");
    if (row->sm_max_mhz > 0 && idle_ns > step / 2)
        advise_clock(context, finding, row, "Until then a");
}

/* Of the highest clock: from here on it is nearly full. */
#define CLOCK_FULL 0.9

static void find_clock(struct rule_context *context, const struct hardware_row *row,
                       const struct gpu_device *device)
{
    double memory = row->mean[HARDWARE_MEMORY_BUSY];

    /* It works for most of the step, at nearly its full clock, and nothing holds that back. */
    if (device == NULL || row->mig || !(rule_busy_share(context, device) >= 0.5) ||
        !(row->mean[HARDWARE_SM_MHZ] >= CLOCK_FULL * row->sm_max_mhz) ||
        !(row->joules_per_step > 0) || !(memory >= context->threshold))
        return;
    struct finding *finding = rule_add_risk(context, row->device, "other", FINDING_LOW);

    finding->title =
        rule_print(context, "%s waits for its memory at its full clock", row->device);
    finding->formula =
        rule_print(context,
                   "memory busy for %.0f %% of the time at %.0f of %.0f MHz; what a "
                   "lower clock saves is not known before it is tried",
                   100 * memory, row->mean[HARDWARE_SM_MHZ], row->sm_max_mhz);
    finding->sentence = rule_print(
        context,
        "%s reads or writes its memory for %.0f %% of the time, and takes %s J for a "
        "step%s: what waits for memory loses little with the clock, and power falls "
        "faster than it",
        row->device, 100 * memory, rule_digits(context, row->joules_per_step),
        row->samples_per_joule > 0
            ? rule_print(context, ", %s J for a sample",
                         rule_digits(context, 1 / row->samples_per_joule))
            : "");
    finding->wrong_if =
        "Products and memory take turns: then the products lose with the clock, and "
        "the step takes longer than the energy is worth.";
    rule_evidence_text(context, finding, "device", row->device);
    rule_evidence(finding, "memory_busy_pct", 100 * memory);
    rule_evidence(finding, "joules_per_step", row->joules_per_step);
    rule_evidence(finding, "samples_per_joule", row->samples_per_joule);
    rule_evidence(finding, "power_w", row->mean[HARDWARE_POWER_W]);
    rule_evidence(finding, "clock_mhz", row->mean[HARDWARE_SM_MHZ]);
    rule_evidence(finding, "full_clock_mhz", row->sm_max_mhz);
    advise_clock(context, finding, row, "A");
    rule_advise(finding, "Fewer bytes for the same work: bfloat16, fused kernels, "
                         "`channels_last`; they save time as well");
}

/* Half of what copies make the device wait: half of the bytes, as with bfloat16 or uint8
 * instead of float32, take half of the time. */
static void find_link(struct rule_context *context, const struct hardware_row *row,
                      const struct gpu_device *device)
{
    double most = link_bytes_per_s(row);
    double rate =
        fmax(row->mean[HARDWARE_PCIE_SENT], row->mean[HARDWARE_PCIE_RECEIVED]);
    double waits =
        device == NULL ? 0 : device->use_ns[GPU_COPY] + device->idle_ns[GPU_IDLE_COPY];

    if (!(rule_share(rate, most) >= context->threshold) ||
        !(waits / 2 / context->train->mean_ns >= LINK_WAITS))
        return;
    struct finding *finding = rule_add(context, row->device, "other");
    rule_price_half(context, finding, waits,
                    rule_error_of_kernels(context, waits, context->train->kernels));
    rule_claim_model(context, finding, CLAIM_COPY, device->idle_ns[GPU_IDLE_COPY] / 2);
    rule_claim_model(context, finding, CLAIM_WORK, device->use_ns[GPU_COPY] / 2);
    finding->title = rule_print(context, "The link to %s is full", row->device);
    finding->formula = rule_print(
        context, "%s waiting for copies / 2 = %s; %.3g of %.3g GB/s",
        rule_ms(context, waits), rule_ms(context, waits / 2), rate / 1e9, most / 1e9);
    finding->sentence =
        rule_print(context,
                   "%.3g GB/s pass a link of %.0f lanes of generation %.0f, %.0f %% of "
                   "what it can",
                   rate / 1e9, row->pcie_width, row->pcie_most, 100 * rate / most);
    finding->wrong_if =
        "The link is narrower than the board's: then another slot is the fix.";
    rule_evidence_text(context, finding, "device", row->device);
    rule_evidence(finding, "gb_per_s", rate / 1e9);
    rule_evidence(finding, "most_gb_per_s", most / 1e9);
    rule_evidence_ms(finding, "waits_ms", waits);
    rule_advise(finding, "Copy less: `uint8` images and `int32` indices, cast and "
                         "normalized on the GPU; half precision instead of float32");
    rule_advise(finding, "Keep on the device what is used again, instead of offloading "
                         "it: weights, optimizer state, small data sets");
}

#define HELD_RULE                                                                      \
    .reads = "NVML: clocks and what holds them back; GPU time by use",                 \
    .formula = "compute * share of the time held * (1 - clock / full clock) / 2",      \
    .trend = true, .records = true

const struct rule rules_hardware[] = {
    {{.id = "power-limit",
      HELD_RULE,
      SHARE_OF_STEP(
          0.10,
          "boards are built to reach their limit under full load; a tenth is more"),
      .owner = OWNER_WORK + 50},
     .on_hardware = find_held,
     .about = HARDWARE_HELD_BY_POWER},
    {{.id = "thermal-limit",
      HELD_RULE,
      SHARE_OF_STEP(0.03, SMALLEST),
      .owner = OWNER_WORK + 49},
     .on_hardware = find_held,
     .about = HARDWARE_HELD_BY_HEAT},
    {{.id = "board-limit",
      HELD_RULE,
      SHARE_OF_STEP(0.03, SMALLEST),
      .owner = OWNER_WORK + 48},
     .on_hardware = find_held,
     .about = HARDWARE_HELD_BY_BOARD},
    {{.id = "chosen-clocks",
      HELD_RULE,
      SHARE_OF_STEP(
          0.10,
          "a few per cent less clock, chosen for much less power, is a good trade"),
      .owner = OWNER_WORK + 51},
     .on_hardware = find_held,
     .about = HARDWARE_HELD_BY_SETTING},
    {{.id = "device-shared",
      .reads = "NVML: memory of processes that are not of the job",
      .formula = "0: a risk",
      SHARE(0.05, "share of the device's memory", "a desktop takes a hundredth or two"),
      .owner = OWNER_RISK,
      .trend = true},
     .on_hardware = find_others},
    {{.id = "idle-energy",
      .reads = "NVML: energy, power; GPU time by cause",
      .formula = "0: it costs energy",
      SHARE(0.05, "share of the step's energy", "a twentieth of the bill"),
      .owner = OWNER_RISK + 90,
      .trend = true,
      .records = true},
     .on_hardware = find_idle},
    {{.id = "clock-energy",
      .reads = "NVML: memory's share of the time, clocks, energy; GPU time by use",
      .formula = "0: it costs energy",
      SHARE(0.8, "share of the time in which memory is read or written",
            "matrix products leave it free for half of the time and more"),
      .owner = OWNER_RISK + 91,
      .trend = true,
      .records = true},
     .on_hardware = find_clock},
    {{.id = "link-full",
      .reads =
          "NVML: bytes over PCIe, its generation and lanes; GPU time by use and cause",
      .formula = "waiting for copies / 2",
      SHARE(
          0.60, "share of what the link can",
          "headers and turns take a tenth to a quarter: in a mean more is seldom seen"),
      .owner = OWNER_DEVICE - 6,
      .trend = true,
      .records = true},
     .on_hardware = find_link},
    {.told = {.id = NULL}},
};
