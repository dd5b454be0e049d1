/* What a rule sees and what it can say. */
#ifndef FINDINGS_RULES_H
#define FINDINGS_RULES_H

#include "findings/findings.h"
#include "wire/facts.h"

#define NS_PER_MS 1e6
#define MIB       (1024.0 * 1024)
#define GIB       (1024.0 * 1024 * 1024)

#define TWENTIETH "a twentieth: by less any machine varies"
#define SMALLEST  "the smallest loss that tests/diseases asks to be found"

/* Of a rule's row: a threshold that is a share, of what, and why it is that. */
#define SHARE(share, of, why)                                                          \
    .threshold = (share), .unit = of, .min = 0, .max = 1, .source = (why)
#define SHARE_OF_STEP(share, why) SHARE(share, "share of the step", why)

/* Of a rule's row: what struct finding_rule says of it. */
enum rule_flags {
    RULE_TREND = 1,
    RULE_EARLY_TREND = 3,
    RULE_SAMPLED = 4,
    RULE_RECORDS = 8,
    RULE_LEFT_OF_OTHER = 16,
    RULE_OUTSIDE = 32,
};

/* In a row: for jobs with Python and without. */
#define ADVICE(text)                                                                   \
    {                                                                                  \
        text, text                                                                     \
    }

/* A row: its id, what finds it, its place among the owners, what else is to be known of it,
 * what it reads, how its price comes about, its threshold, and what is said of each finding. */
#define RULE(name, finds, place, flags, numbers, price, ...)                           \
    {                                                                                  \
        .told = {.id = (name),                                                         \
                 .owner = (place),                                                     \
                 .trend = ((flags)&RULE_TREND) != 0,                                   \
                 .early = ((flags)&RULE_EARLY_TREND) == RULE_EARLY_TREND,              \
                 .sampled = ((flags)&RULE_SAMPLED) != 0,                               \
                 .records = ((flags)&RULE_RECORDS) != 0,                               \
                 .left_of_other = ((flags)&RULE_LEFT_OF_OTHER) != 0,                   \
                 .outside = ((flags)&RULE_OUTSIDE) != 0,                               \
                 .reads = numbers,                                                     \
                 .formula = price,                                                     \
                 __VA_ARGS__},                                                         \
        .find = (finds)                                                                \
    }

/* Steps whose ops are known; of fewer another stretch may look otherwise. */
#define STEPS_KNOWN 10u

/* What several rules advise, each with what it needs to be right. */
#define GRAPHS_NEED                                                                    \
    "; shapes have to stay the same, gradients must not be accumulated, and outputs "  \
    "that are kept need `.clone()`"
#define WORKERS_LIVE                                                                   \
    "; what changes the data set between epochs (`set_epoch`) must reach them "        \
    "through "                                                                         \
    "shared memory, for they live on with the copy that they have"
#define COPY_IS_OVER                                                                   \
    "the copy out of it is over (`event.record()` behind it, then "                    \
    "`event.synchronize()`)"
#define COPY_BACK                                                                      \
    "results with `non_blocking=True` into pinned memory, read a step later behind "   \
    "`event.synchronize()` of an event that was recorded after the copy"
#define COPY_BACK_NATIVE                                                               \
    "`cudaMemcpyAsync` into memory of `cudaMallocHost`, read a step later behind "     \
    "`cudaEventSynchronize` of an event that was recorded after the copy"

struct rule_context {
    const struct bottlenecks_answer *summary;
    const struct steps_summary *train;
    const struct finding_rule *rule; /* the row that is looked at */
    uint32_t about;                  /* the row's */
    double threshold;                /* its own, or as configured */
    const struct findings_settings *settings;
    bool by_price;       /* not by the lower end of an interval */
    bool stands_as_risk; /* what the rule finds stands, and as no price */
    struct findings *findings;
    struct finding
        *spare; /* takes what there is no room for: for whoever calls rule_add() */
};

/* For what others tell, which does not hang on whether this look is a relaxed one. */
static inline struct rule_context rule_strict(const struct rule_context *context)
{
    struct rule_context strict = *context;

    strict.by_price = false;
    return strict;
}

/* One rule: what is told of it, and what finds it, once or for each accelerator with the
 * table of its work (NULL without one). It stands in its own file, in that file's table; the
 * last row of a table has no id. */
struct rule {
    struct finding_rule told;
    void (*find)(struct rule_context *context);
    void (*on_hardware)(struct rule_context *context, const struct hardware_row *row,
                        const struct gpu_device *device);
    uint32_t about; /* for functions that find for several rules */
};

extern const struct rule rules_between_ops[], rules_between_steps[], rules_calls[],
    rules_communication[], rules_copies[], rules_data[], rules_device[], rules_gpu[],
    rules_hardware[], rules_host[], rules_kernels[], rules_memory[], rules_needless[],
    rules_ops[], rules_ranks[], rules_rhythm[], rules_room[], rules_run[],
    rules_steps[], rules_torch[], rules_watch[], rules_workers[];

/* The owners' order: first what is explained best, last what is only seen to vary.
 * Between them there is room. */
enum owner {
    OWNER_DATA = 100,   /* the loader */
    OWNER_DEVICE = 200, /* what an idle device waits for */
    OWNER_WORK = 300,   /* the device's own work */
    OWNER_OPS = 400,    /* ops, the optimizer */
    OWNER_STEPS = 500,  /* steadiness, what lies outside of steps */
    OWNER_RISK = 900,   /* costs no time */
};

/* "data", "forward", ...: as causes, colours and evidence name them; and back, PART_OTHER of
 * all others. */
extern const char *const rule_parts[CLAIM_PARTS];
enum claim_part rule_part_of(const char *name);

/* From where on that rule finds something, as `threshold` is of its own. */
double rule_threshold(const struct rule_context *context, const char *id);

/* A number of the facts; NaN when it is not known, or none that a job has. A bool is 0
 * or 1. */
double rule_number(const struct rule_context *context, const char *key);
const char *rule_text(const struct rule_context *context, const char *key); /* "" */

/* Of a limit, a sum, a rate; NaN where that is 0 or not known: then nothing is said. */
double rule_share(double part, double whole);

/* Cores that the rank may use: those of its affinity, else of the machine, no more than the
 * container's quota, and its part of what ranks on the same host share; NaN unknown. */
double rule_cores(const struct rule_context *context);

/* "4 cores", "1 core", and of how many where ranks share them. */
const char *rule_cores_text(struct rule_context *context);

/* Threads of one CPU op in the trainer; NaN unknown. */
double rule_threads(const struct rule_context *context);

/* Its devices are CUDA's or ROCm's, as far as anything tells; then advice is left as rules
 * write it, for others what they do not have is left out (device_kind.c). */
bool rule_is_cuda(const struct rule_context *context);
void findings_fit_device(const struct bottlenecks_answer *summary,
                         struct findings *findings);

/* The device that the rank works on; NULL without one. */
const struct gpu_device *rule_device(const struct rule_context *context);

/* The job has devices, whether or not their kernels are seen: then the host may be ahead of
 * them, and what it takes is not what the step takes. */
bool rule_has_device(const struct rule_context *context);

/* A file that torch.profiler has written, not one of a live run. */
bool rule_is_recording(const struct rule_context *context);

/* A trace file in which nothing goes backward and no optimizer updates: what trains alone
 * is no advice. */
bool rule_infers(const struct rule_context *context);

/* Each rank holds the whole model, and DDP reduces its gradients in buckets; each holds a
 * shard of it, and what would hold whole gradients may not fit. Neither where nobody tells
 * how ranks share the model. */
bool rule_is_replicated(const struct rule_context *context);
bool rule_is_sharded(const struct rule_context *context);

/* The device that the rank works on; NULL where steps do not wait for what it computes, or
 * where nobody knows that: where it is busy for less than half of each (findings/work.h). */
const struct gpu_device *rule_busiest(const struct rule_context *context);

/* So many launches wait in its queue that the host is not what it waits for. */
bool rule_is_far_ahead(const struct gpu_device *device);

/* What it waits for between its kernels was launched long before, or mostly: each begins a
 * moment after the one before it, in a CUDA graph too. */
bool rule_waits_for_itself(const struct rule_context *context);

/* What the device of this rank communicates longer because another one comes last. */
double rule_told_last_rank_ns(const struct rule_context *context);

/* For how long the device works in a step, at most all of it; and as a share of it. */
double rule_busy_ns(const struct rule_context *context,
                    const struct gpu_device *device);
double rule_busy_share(const struct rule_context *context,
                       const struct gpu_device *device);

/* The device that the rank works on, and how long it waits for causes of these bits
 * (1 << enum gpu_idle); NULL and 0 where it does not. */
const struct gpu_device *rule_waits_for(const struct rule_context *context,
                                        uint32_t causes, double *ns);

/* How long the device waits for the host, for that of `more` causes as well (1 << enum
 * gpu_idle); also for the next batch, where the trainer loads it itself: whatever it saves
 * before, it comes to that sooner. Infinite where no device is known. */
double rule_waits_for_host(const struct rule_context *context, uint32_t more);

/* Of `ns` per step that the host takes, what would be given back: beside a device no more
 * than that waits for the host. NaN stays NaN; all of it where the waits are not known. */
double rule_host_saves(const struct rule_context *context, double ns);

/* For its formula: ", at most the 4 ms that cuda:0 waits for the host"; "" where all of it
 * is given back. */
const char *rule_host_limit(struct rule_context *context, double ns);

/* rule_price() of what rule_host_saves(): which of a device's waits are for that is a guess,
 * from half of it to all. */
void rule_price_host(struct rule_context *context, struct finding *finding, double ns,
                     double error_ns);

/* The waits for data that data-loading and slow-worker tell. */
double rule_told_loading_ns(const struct rule_context *context);

/* What gc-pauses, step-drift and unsteady-steps tell, ns per step. */
double rule_told_collections_ns(const struct rule_context *context);
double rule_told_drift_ns(const struct rule_context *context);
double rule_told_unsteady_ns(const struct rule_context *context);

/* Of the steps that share needs more or less of its memory than usual, on the accelerator
 * with the most of them: their batches have other shapes. 0 unknown. */
double rule_other_shapes(const struct rule_context *context);

/* Functions are compiled again and again: as often as there are such slow steps, and each of
 * these takes about as much longer as a compilation does. */
bool rule_is_compiling(const struct rule_context *context,
                       const struct rhythm_extra *slow, double each_ns);

/* A convolution or a matrix product on the CPU: what a model is there for. */
bool rule_is_compute(const struct op_row *row);

/* The period in the steps is that of loader workers: each brings its batches at once,
 * and then all wait. */
bool rule_is_loader_rhythm(const struct rule_context *context);

/* A new finding of the rule that is looked at, with its id and colour, the window as its
 * stretch; when there are too many, one that nobody reads. `subject` NULL: the rule itself. */
struct finding *rule_add(struct rule_context *context, const char *subject,
                         const char *colour);

/* The same with its price: rule_price(), rule_price_half(). */
struct finding *rule_add_price(struct rule_context *context, const char *subject,
                               const char *colour, double ns, double error_ns);
struct finding *rule_add_price_half(struct rule_context *context, const char *subject,
                                    const char *colour, double whole_ns,
                                    double error_ns);

/* One that costs no time yet; and one that does, and nobody knows how much. */
struct finding *rule_add_risk(struct rule_context *context, const char *subject,
                              const char *colour, enum finding_severity severity);
struct finding *rule_add_open(struct rule_context *context, const char *subject,
                              const char *colour, enum finding_severity severity);

/* As a price of that share of the step has it. */
enum finding_severity rule_severity(double share);

/* Price, its interval, share and severity. `error_ns`: half of the 95 % interval of the
 * means in the formula, NaN unknown, 0 for a risk without price. */
void rule_price(struct rule_context *context, struct finding *finding, double ns,
                double error_ns);

/* Half of `whole_ns`, for want of knowing better: from a quarter to three quarters. */
void rule_price_half(struct rule_context *context, struct finding *finding,
                     double whole_ns, double error_ns);

/* After the price: what the guess in its formula makes of the interval, beside the steps'
 * own spread. */
void rule_price_between(struct finding *finding, double low_ns, double high_ns);

/* A phase in a typical step: without the few steps that are far longer than all others. */
double rule_phase_ns(const struct rule_context *context, enum event_phase phase);

/* Of what lies in no phase: between the batch, or without a loader the update before, and
 * the first op of forward. Samples are made there, or the model asked without gradients. */
double rule_before_forward_ns(const struct rule_context *context);

/* Half of the 95 % interval, of typical steps: of that phase, of the step, and of `ns` that
 * was scaled up from `recorded` steps, as if it varied as the whole step does. What the few
 * longest steps took beside the wait for data may be in `ns`, and is part of its interval. */
double rule_error_of_phase(const struct rule_context *context, enum event_phase phase);
double rule_error_of_step(const struct rule_context *context);
double rule_error_of_recorded(const struct rule_context *context, double ns,
                              uint64_t recorded);

/* Of the steps that what is told of GPU work stands for. */
struct steps_usual rule_usual(const struct steps_summary *train);

/* The same of `ns` from the steps with GPU work; of a device, from those that it is known in. */
double rule_error_of_kernels(const struct rule_context *context, double ns,
                             uint64_t recorded);

/* Is `run_part` less of the run's `run_rest` than `part` is of the window's `rest`? What
 * comes once in an epoch is. False where the run is not known. */
bool rule_run_has_less(double run_part, double run_rest, double part, double rest);

/* So much per step is the rule's threshold of it or more. */
bool rule_reaches(const struct rule_context *context, double ns);

/* What counts against the threshold: to appear, a price that scatters must cost it at the
 * lower end of its interval; to stay, the price itself is enough. `error_ns` may be NaN. */
double rule_least(const struct rule_context *context, double ns, double error_ns);

/* The row of that name among those that rules judge; NULL: none. */
const struct op_row *rule_row(const struct ops_answer *ops, const char *name);

/* What the driver tells of that device; NULL: nothing. */
const struct hardware_row *rule_hardware(const struct rule_context *context,
                                         const struct gpu_device *device);

/* What the interpreter takes between small ops, per step: an estimate. 0 unknown. */
double rule_interpreter_ns(const struct rule_context *context);

/* Pages per step that the kernel makes anew for the training thread. Threads that share its
 * work make theirs meanwhile; where they outnumber the cores, those that a core makes. */
double rule_fresh_pages(const struct rule_context *context);

/* What the kernel takes for them, ns per step, at most the step; 0 unknown. */
double rule_fresh_pages_ns(const struct rule_context *context);

/* At most so much of the mean step others took: the wait for a core, which comes and goes
 * with whoever has it, and what a hypervisor took from under the system. 0 unknown. */
double rule_taken_by_others(const struct rule_context *context);

/* `ns` per step of that part would be given back. */
void rule_claim(struct finding *finding, enum claim_part part, enum claim_kind kind,
                double ns);

/* The same, reckoned without what is claimed so of the same part and kind. */
void rule_claim_apart(struct finding *finding, enum claim_part part,
                      enum claim_kind kind, double ns);

/* The same somewhere before forward, in it and in backward: by their shares. */
void rule_claim_model(struct rule_context *context, struct finding *finding,
                      enum claim_kind kind, double ns);

/* The same of what the device waits for these causes: of each by its share. */
void rule_claim_waits(struct rule_context *context, struct finding *finding,
                      uint32_t causes, double ns);

void rule_evidence(struct finding *finding, const char *key, double number);
void rule_evidence_ms(struct finding *finding, const char *key, double ns);
void rule_evidence_text(struct rule_context *context, struct finding *finding,
                        const char *key, const char *text);
void rule_advise(struct finding *finding, const char *advice);
#define rule_advise_print(context, finding, ...)                                       \
    rule_advise(finding, rule_print(context, __VA_ARGS__))

/* To follow a sentence about an op, and into the evidence: ", mostly from `main
 * (train.py:31)`"; "" where its caller is not known. */
const char *rule_caller(struct rule_context *context, struct finding *finding,
                        const struct op_row *row);

/* An op that is to be pinned with it; no more than FINDING_OPS are. */
void rule_pin(struct rule_context *context, struct finding *finding, const char *op);

/* In torch's words, or for a job without Python in those of its own loop; NULL: none. */
void rule_advise_in(const struct rule_context *context, struct finding *finding,
                    const char *torch, const char *native);

/* Where torch.compile has compiled something, the second: what it lacks there. */
void rule_advise_compile(struct rule_context *context, struct finding *finding,
                         const char *eager, const char *compiled);

/* ---- what a device is (hardware.c) */

/* Bytes a second, each way, without the headers of packets; NaN unknown. */
double link_bytes_per_s(const struct hardware_row *row);

/* The same of a device, by what its driver tells; NaN unknown. */
double link_of_device(const struct rule_context *context,
                      const struct gpu_device *device);

/* False also where nothing tells. */
bool generation_has_tensor_cores(const struct rule_context *context,
                                 const struct gpu_device *device);
bool generation_has_bfloat16(const struct rule_context *context,
                             const struct gpu_device *device);

/* One of AMD's: its matrix cores take float32 too, at half the rate of bfloat16 or less. */
bool generation_is_cdna(const struct rule_context *context,
                        const struct gpu_device *device);

/* ---- what names an idle device's cause (rules_copies.c, syncs.c) */

/* Into the finding's sentence and evidence, and the advice for such copies; where nothing
 * tells, that for batches. `by_host`: only copies that a host may wait for, and of pageable
 * memory first. */
void copies_tell(struct rule_context *context, struct finding *finding,
                 const struct gpu_device *device, bool by_host);

/* Names the copying op or call that takes the host most of what a device waits meanwhile. */
void copies_name(struct rule_context *context, struct finding *finding);

/* Names those that stand high enough to be listed, the dearest with how often it waits and
 * its caller; and what to write instead. */
void syncs_name(struct rule_context *context, struct finding *finding);

/* ns as people read it: "631 us", "14.3 ms", "1.32 s". */
const char *rule_ms(struct rule_context *context, double ns);
const char *rule_workers(struct rule_context *context, double workers); /* "1 worker" */

/* "1 call", "7 calls": of a noun whose plural has an s. */
const char *rule_count(struct rule_context *context, double count, const char *noun);
const char *rule_times(struct rule_context *context, double times); /* "once" */

/* A number likewise: "0.25", "14.3", "22361". */
const char *rule_digits(struct rule_context *context, double value);

/* Memory likewise: "4 bytes", "64 KiB", "9.48 MiB", "79.2 GiB". */
const char *rule_memory(struct rule_context *context, double bytes);

/* Text of the findings' arena. */
#define rule_print(context, ...) arena_print(&(context)->findings->arena, __VA_ARGS__)

#endif
