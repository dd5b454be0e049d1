/* Rules over idle devices: one for each cause but data, which has a rule of its own. */
#include <math.h>
#include <string.h>

#include "aggregate/gpu_host.h"
#include "findings/looks.h"
#include "findings/settings.h"
#include "findings/work.h"

struct idle_rule {
    enum gpu_idle cause;
    const char *title, *because, *wrong_if;
    const char
        *eager; /* why torch.compile with CUDA graphs is the best advice; NULL: no */
    const char *compiled; /* the best advice where torch.compile is there */
    const char *advice[3];
    const char *training;  /* of a job that trains alone; NULL none */
    const char *native[2]; /* instead of all these for a job without Python; or none */
    const char *named[2];  /* findings that name a part of it, asked before */
    bool half;             /* what of it can be saved is not known */
};

/* What findings that stand already say of the same wait, and why it is. Of other waits,
 * which they may be about too, nothing. */
static double named_ns(const struct rule_context *context, const struct idle_rule *rule)
{
    const struct findings *findings = context->findings;
    double ns = 0;

    for (uint32_t i = 0; i < findings->count; i++) {
        const struct finding *finding = &findings->list[i];
        double claimed = 0;

        for (uint32_t j = 0; j < finding->claim_count; j++)
            if (finding->claims[j].kind == findings_kind_of(rule->cause))
                claimed += finding->claims[j].ns;
        for (uint32_t j = 0; j < 2 && rule->named[j] != NULL; j++)
            ns += strcmp(finding->id, rule->named[j]) == 0 ? claimed : 0;
    }
    return ns;
}

/* A launch that takes so long does more than launch, as the first one, which loads what all
 * others find there: a few among many that take a hundredth. */
#define LOADING_NS    1e6
#define LOADING_TIMES 10.0
#define OTHERS_ALIKE  3.0

/* Of a step, what launches of that row took beyond the usual one, where these are few. */
static double rare_ns(const struct op_row *row)
{
    /* Of few the median may be the long one; a single one is the first. */
    double usual = row->count < 2 ? 0 : row->count < 4 ? row->min_ns : row->p50_ns;

    if (strcmp(row->kind, "runtime") != 0 || strstr(row->name, "Launch") == NULL ||
        !(row->max_ns >= LOADING_NS) || !(row->max_ns >= LOADING_TIMES * usual))
        return 0;
    return row->p95_ns <= OTHERS_ALIKE * usual
               ? row->per_step_ns - usual * row->per_step_count
               : (row->max_ns - usual) * row->per_step_count / row->count;
}

/* What is done once is no step's: where most of the wait for launches was for such ones. */
static double once_ns(const struct rule_context *context, const struct idle_rule *rule,
                      double waits)
{
    const struct ops_answer *cpu = &context->summary->cpu;
    double ns = 0;

    for (uint32_t i = 0; rule->cause == GPU_IDLE_LAUNCH && i < cpu->judged_count; i++)
        ns += rare_ns(&cpu->rows[i]);
    return ns >= waits / 2 ? fmin(ns, waits) : 0;
}

static void advise_idle(struct rule_context *context, struct finding *finding,
                        const struct idle_rule *rule)
{
    bool native = context->summary->native && rule->native[0] != NULL;

    for (uint32_t i = 0; native && i < 2 && rule->native[i] != NULL; i++)
        rule_advise(finding, rule->native[i]);
    if (native)
        return;
    if (rule->eager != NULL)
        setting_advise_compile(context, finding,
                               rule_is_cuda(context) ? SETTING_COMPILE_GRAPHS
                                                     : SETTING_COMPILE,
                               rule->eager, rule->compiled);
    for (uint32_t i = 0; i < 3 && rule->advice[i] != NULL; i++)
        rule_advise(finding, rule->advice[i]);
    if (rule->training != NULL && !rule_infers(context))
        rule_advise(finding, rule->training);
}

static struct finding *find_idle(struct rule_context *context,
                                 const struct idle_rule *rule)
{
    double step = context->train->mean_ns, named = named_ns(context, rule), waits;
    const struct gpu_device *device =
        rule_waits_for(context, 1u << rule->cause, &waits);
    double once = once_ns(context, rule, waits), rest = waits - named - once, idle = 0;

    /* What is promised of it must be worth telling. */
    if (device == NULL || !rule_reaches(context, rule->half ? rest / 2 : rest))
        return NULL;
    struct finding *finding = rule_add(context, NULL, "other");

    for (uint32_t i = 0; i < GPU_IDLES; i++)
        idle += device->idle_ns[i];
    double error = rule_error_of_kernels(context, rest, context->train->kernels);
    if (rule->half)
        rule_price_half(context, finding, rest, error);
    else
        rule_price(context, finding, rest, error);
    /* It may lie in any phase but data. */
    rule_claim_model(context, finding, findings_kind_of(rule->cause),
                     finding->ns_per_step);
    finding->title = rule->title;
    finding->formula = rule_print(
        context,
        rule->half ? "(%s idle for this cause%s) / 2 of %s idle"
                   : "%s idle for this cause%s of %s idle",
        rule_ms(context, waits),
        named + once > 0 ? rule_print(context, " - %s that others name or was once",
                                      rule_ms(context, named + once))
                         : "",
        rule_ms(context, idle));
    finding->sentence = rule_print(
        context, "%s is idle for %s of %s of a step because %s", device->device,
        rule_ms(context, rest), rule_ms(context, step), rule->because);
    finding->wrong_if = rule->wrong_if;
    rule_evidence_text(context, finding, "device", device->device);
    rule_evidence_ms(finding, "idle_ms", rest);
    rule_evidence_ms(finding, "idle_all_ms", idle);
    rule_evidence_ms(finding, "step_ms", step);
    advise_idle(context, finding, rule);
    return finding;
}

/* What CUDA graphs do for a job is had already. */
static bool launches_graphs(const struct rule_context *context)
{
    const struct ops_answer *cpu = &context->summary->cpu;

    for (uint32_t i = 0; i < cpu->judged_count; i++)
        if (strcmp(cpu->rows[i].kind, "runtime") == 0 &&
            strstr(cpu->rows[i].name, "GraphLaunch") != NULL)
            return true;
    return context->summary->cuda.family_count[KERNEL_GRAPH] > 0;
}

static void find_launch_bound(struct rule_context *context)
{
    static const struct idle_rule late = {
        .cause = GPU_IDLE_LAUNCH,
        .named = {"slow-launches", "sync-memset"},
        .title = "The GPU waits for the CPU to launch its work",
        .because = "the host is still inside ops when the kernel before has ended",
        .wrong_if = "A profiler that records shapes and stacks slows the ops down: "
                    "look at the step time without it.",
        .eager = ": fewer launches, replayed as CUDA graphs" GRAPHS_NEED,
        .compiled = "`mode=\"reduce-overhead\"` in the `torch.compile` that is there: "
                    "its launches are replayed as CUDA graphs" GRAPHS_NEED,
        .advice = {"Larger batches: each launch is worth more work"},
        .training = "`fused=True` or `foreach=True` in the optimizer",
        .native = {"Capture the step once (`cudaStreamBeginCapture`) and replay it "
                   "with one launch (`cudaGraphLaunch`)",
                   "Larger batches: each launch is worth more work"}};
    static const struct idle_rule begins = {
        .cause = GPU_IDLE_LAUNCH,
        .named = {"sync-memset"},
        .title = "The GPU rests for a moment before each of its many kernels",
        .because = "a device takes a moment to begin each kernel, though the host "
                   "launched it long before",
        .wrong_if = "Each kernel needs the one before, and fewer would not do.",
        .eager = ": fewer kernels, which follow each other closer in a CUDA "
                 "graph" GRAPHS_NEED,
        .compiled = "`mode=\"reduce-overhead\"` in the `torch.compile` that is there: "
                    "in a CUDA graph kernels follow each other closer" GRAPHS_NEED,
        .advice = {"Larger batches: fewer kernels for as many samples",
                   "Fused attention and norms"},
        .training = "`fused=True` in the optimizer",
        .native =
            {"Capture the step once (`cudaStreamBeginCapture`) and replay it "
             "(`cudaGraphLaunch`): in a CUDA graph kernels follow each other closer",
             "Larger batches, and one kernel for several that follow each other: fewer "
             "for as many samples"},
        .half = true}; /* in a CUDA graph a moment passes too */

    struct idle_rule ungraphed = rule_waits_for_itself(context) ? begins : late;
    struct idle_rule in_graphs = begins;

    ungraphed.eager = ": fewer and larger kernels";
    ungraphed.compiled = "Compile what is not yet: fewer and larger kernels";
    in_graphs.because = "a device takes a moment to begin each kernel, in a graph too";
    in_graphs.eager = NULL;
    in_graphs.native[0] = begins.native[1];
    in_graphs.native[1] = NULL;
    (void)find_idle(context, !rule_is_cuda(context)            ? &ungraphed
                             : !rule_waits_for_itself(context) ? &late
                             : launches_graphs(context)        ? &in_graphs
                                                               : &begins);
}

static void find_device_sync(struct rule_context *context)
{
    static const struct idle_rule rule = {
        .cause = GPU_IDLE_SYNC,
        .named = {"slow-launches", "sync-memset"},
        .title = "The GPU runs empty while the CPU waits for it",
        .because = "the host waited for the device and queued nothing meanwhile",
        .wrong_if = "The waits are the profiler's own, at the ends of its steps.",
        .advice = {"No `.item()`, `.cpu()`, `print(tensor)` or `if tensor:` in the "
                   "loop; log every n-th step",
                   "Remove `torch.cuda.synchronize()`; " COPY_BACK},
        .native = {"No `cudaDeviceSynchronize()`, `cudaStreamSynchronize()` or plain "
                   "`cudaMemcpy()` in the loop: " COPY_BACK_NATIVE}};
    struct finding *finding = find_idle(context, &rule);

    if (finding != NULL)
        syncs_name(context, finding);
}

static void find_host_copies(struct rule_context *context)
{
    static const struct idle_rule rule = {
        .cause = GPU_IDLE_COPY,
        .title = "The GPU waits while the CPU prepares copies",
        .because = "the host was in calls that copy",
        .wrong_if = "The copies are results that are needed at once."};
    struct finding *finding = find_idle(context, &rule);

    if (finding == NULL)
        return;
    copies_tell(context, finding, rule_device(context), true);
    copies_name(context, finding);
}

static void find_device_alloc(struct rule_context *context)
{
    static const struct idle_rule rule = {
        .cause = GPU_IDLE_ALLOC,
        .named = {"pinned-allocations", "allocator-calls"},
        .title = "The GPU waits while memory is allocated",
        .because = "the host was in cudaMalloc, cudaFree or their like",
        .wrong_if = "These are the first steps: the allocator keeps what it has.",
        .advice = {"`PYTORCH_CUDA_ALLOC_CONF=expandable_segments:True`; no "
                   "`torch.cuda.empty_cache()` in the loop",
                   "Leave room: an allocator near the limit frees and allocates anew"},
        .native = {"`cudaMallocAsync()` from a pool that keeps its memory "
                   "(`cudaMemPoolAttrReleaseThreshold`), or buffers that are allocated "
                   "once before the loop"}};

    (void)find_idle(context, &rule);
}

/* The call that took longest at once, of those that set something up. */
static const struct op_row *call_that_sets_up(const struct rule_context *context)
{
    const struct ops_answer *cpu = &context->summary->cpu;
    const struct op_row *longest = NULL;

    for (uint32_t i = 0; i < cpu->judged_count; i++) {
        const struct op_row *row = &cpu->rows[i];

        if (strcmp(row->kind, "runtime") == 0 &&
            gpu_name_sets_up(gpu_name_classify(row->name), row->max_ns) &&
            (longest == NULL || row->max_ns > longest->max_ns))
            longest = row;
    }
    return longest;
}

/* It shows where the time of a short recording went, as warm-up does; nothing is to be won
 * of what is done once. */
static void find_setup(struct rule_context *context)
{
    static const char shapes[] = "Shapes that stay the same (`drop_last=True`, "
                                 "padding): new ones need other kernels and graphs";
    static const char later[] =
        "Record later: `torch.profiler.schedule(wait=1, warmup=3, active=3)`";
    bool recorded = rule_is_recording(context);
    const struct idle_rule rule = {
        .cause = GPU_IDLE_SETUP,
        .named = {"slow-launches"},
        .title = "The GPU waits for what is set up once: contexts, kernels, graphs",
        .because = "the host was in calls that make contexts and streams, load kernels "
                   "at their first launch or capture graphs",
        .wrong_if = "It is so in every step: then others had the cores or the lock of "
                    "the driver, or each shape is new.",
        .advice = {recorded ? later : shapes, recorded ? shapes : NULL},
        .native = {"Load modules and capture graphs before the loop"}};
    struct finding *finding = find_idle(context, &rule);
    const struct op_row *row = finding == NULL ? NULL : call_that_sets_up(context);

    if (finding == NULL)
        return;
    finding->claim_count = 0;
    if (row == NULL)
        return;
    rule_pin(context, finding, row->name);
    rule_evidence_text(context, finding, "op", row->name);
    rule_evidence_ms(finding, "longest_ms", row->max_ns);
    finding->sentence = rule_print(context, "%s; one %s took %s", finding->sentence,
                                   row->name, rule_ms(context, row->max_ns));
}

static void find_collective_wait(struct rule_context *context)
{
    const struct idle_rule rule = {
        .cause = GPU_IDLE_COLLECTIVE,
        .title = "The GPU waits for other ranks",
        .because = "a collective was queued and its peers were late",
        .wrong_if = "This rank is the fast one: look at the slowest.",
        .advice =
            {"Give all ranks the same work: equal batches, lengths and data speed",
             rule_is_replicated(context)
                 ? "Communicate less often: `no_sync()` with gradient accumulation"
                 : "Communicate less often: larger batches, or exchanges that are "
                   "joined"},
        .native = {
            "Give all ranks the same work: equal batches, lengths and data speed",
            "Communicate less often: sum the gradients of several batches first"}};

    (void)find_idle(context, &rule);
}

/* Of a thread's waits for others, those while another one of the process ran: it may hold
 * Python's lock. */
#define BEHIND_MOST 0.5

/* Of what the device waits, the sleep that explains it. */
#define SLEEP_LEAST 0.5

static void name_runner(struct rule_context *context, struct finding *finding)
{
    const struct between_ops *between = &context->summary->between_ops;

    finding->sentence = rule_print(
        context, "%s; thread %u (`%s`) runs meanwhile, maybe with Python's lock",
        finding->sentence, between->runner, between->runner_name);
    rule_evidence_text(context, finding, "thread_name", between->runner_name);
    rule_advise_print(context, finding,
                      "Do the work of `%s` in a process, if it computes in Python",
                      between->runner_name);
}

/* Where the thread sleeps most with no op open. For data it waits with a cause of its own,
 * and in backward for the thread of autograd. */
static uint32_t sleeps_most_in(const struct between_ops *between)
{
    uint32_t most = EVENT_PHASE_FORWARD;

    for (uint32_t part = most; part <= EVENT_PHASES; part++)
        if (part != EVENT_PHASE_BACKWARD &&
            between->asleep[part].share > between->asleep[most].share)
            most = part;
    return most;
}

/* Code between the ops may be none: the thread sleeps, and the kernel knows what for. */
static void name_sleep(struct rule_context *context, struct finding *finding)
{
    const struct between_ops *between = &context->summary->between_ops;
    uint32_t part = sleeps_most_in(between);
    double share = between->asleep[part].share, ns = share * context->train->mean_ns;

    if (between->looks == 0 || context->summary->native ||
        !(ns >= SLEEP_LEAST * finding->ns_per_step))
        return;
    const struct looks_wait *wait = looks_wait(between->place[part]);

    if (wait->what[0] == '\0')
        return;
    finding->sentence = rule_print(context,
                                   "%s; for %s of each step the training thread is off "
                                   "the CPU with no op open, mostly %s",
                                   finding->sentence, rule_ms(context, ns), wait->what);
    rule_evidence_ms(finding, "asleep_ms", ns);
    rule_evidence_text(context, finding, "kernel_function", between->place[part]);
    if (between->runner_name != NULL &&
        between->behind[part].share >= BEHIND_MOST * share)
        name_runner(context, finding);
    else
        rule_advise_print(context, finding, "Look for %s", wait->advice);
}

static void find_python_between_ops(struct rule_context *context)
{
    static const struct idle_rule rule = {
        .cause = GPU_IDLE_PYTHON,
        .title = "The GPU waits for Python between the ops",
        .because = "the host ran code that launches nothing",
        .wrong_if = "That code is needed before the next op, and cannot be moved.",
        .advice = {"Move logging, metrics and pre-processing out of the loop, or to "
                   "every n-th step"},
        .native = {"Move logging, metrics and pre-processing out of the loop, to every "
                   "n-th step or to a thread of their own"}};
    struct finding *finding = find_idle(context, &rule);

    if (finding == NULL)
        return;
    name_sleep(context, finding);
    if (context->summary->native)
        finding->title = "The GPU waits for host code between the launches";
    else
        setting_advise_compile(
            context, finding, SETTING_COMPILE, " takes the Python out of the model",
            rule_infers(context)
                ? "Compile what is not yet: the whole model; `TORCH_LOGS=graph_breaks` "
                  "names where Python goes on"
                : "Compile what is not yet: the whole model, the loss, the optimizer's "
                  "`step`; `TORCH_LOGS=graph_breaks` names where Python goes on");
}

#define IDLE_RULE(id, finds, place, price)                                             \
    RULE(id, finds, place, RULE_SAMPLED, "idle time of devices by cause", price,       \
         SHARE_OF_STEP(0.03, SMALLEST))
#define ALL_OF_IT "idle for this cause"

const struct rule rules_gpu[] = {
    IDLE_RULE("launch-bound", find_launch_bound, OWNER_DEVICE + 0,
              ALL_OF_IT "; half of it where most was launched before the gap"),
    IDLE_RULE("device-sync", find_device_sync, OWNER_DEVICE + 1, ALL_OF_IT),
    IDLE_RULE("host-copies", find_host_copies, OWNER_DEVICE + 2, ALL_OF_IT),
    IDLE_RULE("device-alloc", find_device_alloc, OWNER_DEVICE + 3, ALL_OF_IT),
    IDLE_RULE("device-setup", find_setup, OWNER_DEVICE + 6, ALL_OF_IT),
    IDLE_RULE("collective-wait", find_collective_wait, OWNER_DEVICE + 4, ALL_OF_IT),
    IDLE_RULE("python-between-ops", find_python_between_ops, OWNER_DEVICE + 5,
              ALL_OF_IT),
    {.told = {.id = NULL}},
};
