/* Summaries drawn at random, of all tables that rules read: usual numbers, and those that
 * nobody expects. What a table's own code rules out is not drawn: no time is negative, and
 * NaN stands only where its header allows it. Facts come from the job as they are. */
#ifndef DRAWN_SUMMARY_H
#define DRAWN_SUMMARY_H

#include <math.h>
#include <stdint.h>
#include <string.h>

#include "query/bottlenecks_query.h"
#include "wire/facts.h"

#define DRAWN_ROWS    6u
#define DRAWN_DEVICES 2u
#define DRAWN_STEP_NS 3e8
#define DRAWN_HUGE    9e18 /* the longest that int64 nanoseconds hold */
#define DRAWN_OVER    1e4  /* times what is usual, of what is no time */

static struct bottlenecks_answer drawn;
static uint64_t drawn_state;

static inline void drawn_begin(uint64_t seed)
{
    drawn_state = seed * 0x9e3779b97f4a7c15u + 1;
}

/* 0 to 1, the same for the same seed. */
static inline double draw(void)
{
    drawn_state ^= drawn_state << 13;
    drawn_state ^= drawn_state >> 7;
    drawn_state ^= drawn_state << 17;
    return (double)(drawn_state >> 11) / 9007199254740992.0;
}

static inline uint32_t pick(uint32_t below)
{
    return (uint32_t)(draw() * below);
}

/* Never NaN. What may be more than a million is a time, and as long as any. */
static inline double known(double most)
{
    const double odd[] = {0, 0,    0,
                          1, most, most > 1e6 ? DRAWN_HUGE : most * DRAWN_OVER};
    uint32_t kind = pick(24);

    return kind < sizeof(odd) / sizeof(odd[0]) ? odd[kind] : draw() * most;
}

static inline double amount(double most)
{
    return pick(6) == 0 ? (double)NAN : known(most);
}

static inline double share_of_one(void)
{
    uint32_t kind = pick(6);

    return kind == 0 ? (double)NAN : kind == 1 ? 0 : kind == 2 ? 1 : draw();
}

static inline uint32_t count_of(uint32_t usual)
{
    uint32_t kind = pick(12);

    return kind == 0 ? 0 : kind == 1 ? 1 : kind == 2 ? UINT32_MAX : pick(usual);
}

static inline const char *one_of(const char *const *texts, uint32_t count)
{
    return texts[pick(count)];
}

#define ONE_OF(texts) one_of(texts, sizeof(texts) / sizeof((texts)[0]))

/* ---- steps ------------------------------------------------------------------------------ */

static inline void draw_typical(struct steps_summary *steps)
{
    struct steps_typical *typical = &steps->typical;
    double mean = steps->mean_ns;

    *typical = (struct steps_typical){.rare = 1 + pick(10),
                                      .mean_ns = mean * draw(),
                                      .error_ns = amount(mean / 10),
                                      .other_ns = amount(mean),
                                      .other_error_ns = amount(mean / 10),
                                      .waited_error_ns = amount(mean / 10),
                                      .taken_error_ns = amount(mean / 10)};
    for (uint32_t i = 0; i < EVENT_PHASES; i++) {
        typical->phase_ns[i] = amount(mean);
        typical->phase_error_ns[i] = amount(mean / 10);
    }
}

static inline void draw_steps_summary(struct steps_summary *steps, uint32_t count)
{
    double mean = pick(40) == 0 ? known(1) : (0.01 + draw()) * DRAWN_STEP_NS;

    steps->count = count;
    steps->mean_ns = count == 0 ? (double)NAN : mean;
    steps->p50_ns = pick(4) == 0 ? known(mean) : mean * draw();
    steps->p95_ns = amount(2 * mean);
    steps->p99_ns = amount(3 * mean);
    steps->error_pct = amount(30);
    if (pick(3) == 0)
        steps->usual = (struct steps_usual){count, mean * draw(), amount(30)};
    for (uint32_t i = 0; i < EVENT_PHASES; i++) {
        steps->phase_ns[i] = amount(mean);
        steps->phase_error_ns[i] = amount(mean / 10);
    }
    steps->other_ns = amount(mean);
    steps->other_error_ns = amount(mean / 10);
    steps->computing_error_ns = amount(mean / 10);
    steps->waited_ns = isnan(steps->phase_ns[0]) ? (double)NAN : amount(mean);
    steps->late_share = share_of_one();
    steps->waited_error_ns = amount(mean / 10);
    steps->taken_ns = steps->phase_ns[0] - steps->waited_ns;
    steps->taken_error_ns = amount(mean / 10);
    steps->steps_per_s = amount(100);
    steps->samples_per_s = amount(1e5);
    steps->recorded = pick(3) == 0 ? count / 100 : pick(count + 1);
    steps->kernels = pick(count + 1);
    if (pick(3) == 0)
        draw_typical(steps);
}

static inline void draw_slow_steps(void)
{
    static const char *const causes[] = {"data", "forward", "backward", "optimizer",
                                         "gc",   "other",   "unknown"};
    static struct slow_step slow[STEPS_SLOW_MAX];

    drawn.steps.slow = slow;
    drawn.steps.slow_count = pick(STEPS_SLOW_MAX + 1);
    for (uint32_t i = 0; i < drawn.steps.slow_count; i++)
        slow[i] = (struct slow_step){.number = pick(1000),
                                     .duration_ns = known(DRAWN_STEP_NS),
                                     .over_ns = known(DRAWN_STEP_NS),
                                     .cause = ONE_OF(causes)};
}

static inline void draw_steps(void)
{
    struct steps_answer *steps = &drawn.steps;
    uint32_t first = pick(100000), count = 1 + pick(1000);

    draw_steps_summary(&steps->train, count);
    draw_steps_summary(&steps->validation, pick(100));
    steps->outside_ns = known(DRAWN_STEP_NS * count);
    steps->run_train_ns = known(DRAWN_STEP_NS * count);
    steps->run_validation_ns = known(DRAWN_STEP_NS * count);
    steps->run_outside_ns = known(DRAWN_STEP_NS * count);
    if (pick(2) == 0) {
        steps->epochs_train_ns = known(DRAWN_STEP_NS * count);
        steps->epochs_validation_ns = known(DRAWN_STEP_NS * count);
        steps->epochs_outside_ns = known(DRAWN_STEP_NS * count);
    }
    draw_slow_steps();
    drawn.head.rank = (int32_t)pick(4) - 1;
    drawn.head.pid = pick(2);
    drawn.head.from_file = pick(2) == 0;
    drawn.head.live = pick(2) == 0;
    drawn.head.lost_events = pick(2) == 0 ? 0 : 1 + count_of(1000000);
    drawn.head.window.first_step = pick(8) == 0 ? NOT_KNOWN : first;
    drawn.head.window.last_step =
        pick(8) == 0 ? NOT_KNOWN : first + (int64_t)count - 1 + (pick(4) == 0);
    drawn.head.window.to_ns = drawn.head.now_ns - pick(2000000000);
    drawn.native = pick(4) == 0;
}

/* ---- ops -------------------------------------------------------------------------------- */

static inline struct op_row draw_row(bool device)
{
    static const char *const names[] = {
        "aten::mul",
        "aten::bmm",
        "aten::item",
        "c10d::barrier",
        "cudaLaunchKernel",
        "sm80_xmma_gemm",
        "a",
        "a b c",
        "void at::native::vectorized_elementwise_kernel<4>(int)"};
    static const char *const of_host[] = {"op", "range", "runtime", "sync"};
    static const char *const of_device[] = {"kernel", "memcpy", "memset", "collective"};

    return (struct op_row){.name = ONE_OF(names),
                           .short_name = pick(2) == 0 ? NULL : "",
                           .detail = "",
                           .caller = pick(2) == 0 ? NULL : "step (train.py:5)",
                           .kind = device ? ONE_OF(of_device) : ONE_OF(of_host),
                           .count = known(1e5),
                           .total_ns = known(1e12),
                           .self_ns = known(1e12),
                           .per_step_ns = known(DRAWN_STEP_NS),
                           .per_step_count = known(1000),
                           .mean_ns = known(1e6),
                           .p50_ns = known(1e6),
                           .share = share_of_one(),
                           .error_pct = amount(30),
                           .per_step_half_ns = amount(1e6),
                           .launch = {.known = pick(2) == 0,
                                      .grid = {count_of(100), count_of(2), count_of(2)},
                                      .occupancy_pct = amount(100)},
                           .family = pick(KERNEL_FAMILIES),
                           .tensor_cores = pick(2) == 0,
                           .workers = pick(2) == 0 ? 0 : count_of(16),
                           .watched = pick(2) == 0,
                           .validation_batch_ns = amount(1e8),
                           .validation_share = share_of_one()};
}

static inline void draw_ops(struct ops_answer *ops, struct op_row *rows, bool device)
{
    ops->rows = rows;
    ops->row_count = ops->judged_count = pick(DRAWN_ROWS + 1);
    ops->total_ops = ops->row_count + (pick(2) == 0 ? 0 : 1000);
    for (uint32_t i = 0; i < ops->row_count; i++)
        rows[i] = draw_row(device);
    ops->watched_count = device ? 0 : pick(OPS_WATCHED + 1);
    for (uint32_t i = 0; i < ops->watched_count; i++)
        ops->watched[i] = draw_row(false);
    ops->head.recorded_steps = pick(100);
    ops->short_count = known(10000);
    ops->short_self_ns = known(DRAWN_STEP_NS);
    ops->zeroed = known(1000);
    ops->zero_grad_ns = known(DRAWN_STEP_NS);
    for (uint32_t i = 0; i < KERNEL_FAMILIES; i++) {
        ops->family_ns[i] = known(DRAWN_STEP_NS);
        ops->family_count[i] = known(1000);
    }
    ops->convolution_ns = known(DRAWN_STEP_NS);
    ops->multiprocessors = known(132);
    ops->unfilled_ns = known(DRAWN_STEP_NS);
    ops->unused_ns = known(DRAWN_STEP_NS);
    ops->short_unused_ns = known(DRAWN_STEP_NS / 10);
    ops->moved_ns = known(DRAWN_STEP_NS);
    ops->moved_count = known(1000);
    ops->saving_count = known(1);
    ops->saving_ns = ops->saving_count > 0 ? known(DRAWN_STEP_NS) : 0;
    for (uint32_t i = 0; i < OPS_CALLS; i++) {
        ops->call_ns[i] = known(DRAWN_STEP_NS);
        ops->call_count[i] = known(1000);
    }
    for (uint32_t i = 0; i < NEEDLESS_WORKS; i++)
        ops->needless[i] = (struct op_needless){.count = known(1000),
                                                .host_ns = known(DRAWN_STEP_NS),
                                                .device_ns = known(DRAWN_STEP_NS)};
    ops->module =
        (struct op_module){.name = pick(2) == 0 ? "Net_0.Linear_1" : "Linear_1",
                           .host_ns = known(DRAWN_STEP_NS),
                           .device_share = draw(),
                           .count = count_of(10)};
}

/* ---- devices ---------------------------------------------------------------------------- */

static const char *const drawn_devices[DRAWN_DEVICES] = {"cuda:0", "cuda:1"};

static inline void draw_gpu(void)
{
    static const char *const names[] = {"", "NVIDIA H100", "Tesla V100", "AMD MI300"};
    static struct gpu_device devices[DRAWN_DEVICES];
    static struct gpu_run_copies copies[DRAWN_DEVICES][2];
    static struct gpu_run_stream streams[DRAWN_DEVICES][2];
    bool unknown = pick(8) == 0;

    drawn.gpu.devices = devices;
    drawn.gpu.device_count = pick(DRAWN_DEVICES + 1);
    for (uint32_t i = 0; i < drawn.gpu.device_count; i++) {
        struct gpu_device *device = &devices[i];

        *device =
            (struct gpu_device){.device = drawn_devices[i], .name = ONE_OF(names)};
        for (uint32_t j = 0; j < GPU_USES; j++)
            device->use_ns[j] = unknown ? (double)NAN : known(DRAWN_STEP_NS / 2);
        for (uint32_t j = 0; j < GPU_IDLES; j++)
            device->idle_ns[j] = unknown ? (double)NAN : known(DRAWN_STEP_NS / 8);
        device->overlap_ns = known(DRAWN_STEP_NS);
        device->queued_ns = device->idle_ns[GPU_IDLE_LAUNCH] * draw();
        device->compute_first_ns = amount(DRAWN_STEP_NS);
        device->compute_last_ns = amount(DRAWN_STEP_NS);
        device->run.queue_depth = amount(1000);
        device->run.memset_count = 1 + pick(100);
        device->run.memset_bytes = (uint64_t)known(1e9);
        device->run.memset_ns = known(1e9);
        device->run.memset_step_ns = known(1e9);
        device->run.streams = streams[i];
        device->run.stream_count = pick(3);
        device->run.streams_busy = 1 + draw(); /* while any is */
        for (uint32_t j = 0; j < device->run.stream_count; j++)
            streams[i][j] = (struct gpu_run_stream){
                .id = 7 + j, .works = pick(1000), .busy_ns = known(1e9)};
        device->run.copies = copies[i];
        device->run.copy_count = pick(3);
        for (uint32_t j = 0; j < device->run.copy_count; j++)
            copies[i][j] = (struct gpu_run_copies){.way = pick(4),
                                                   .pageable = pick(2) == 0,
                                                   .count = pick(100),
                                                   .bytes = (uint64_t)known(1e9),
                                                   .ns = known(1e9),
                                                   .step_bytes = known(1e9),
                                                   .step_ns = known(1e9)};
    }
}

static inline void draw_hardware(void)
{
    static struct hardware_row rows[DRAWN_DEVICES];

    drawn.hardware.rows = rows;
    drawn.hardware.row_count = pick(DRAWN_DEVICES + 1);
    for (uint32_t i = 0; i < drawn.hardware.row_count; i++) {
        rows[i] =
            (struct hardware_row){.device = pick(6) == 0 ? NULL : drawn_devices[i],
                                  .index = i,
                                  .mig = pick(6) == 0,
                                  .total_bytes = amount(8e10),
                                  .power_limit_w = amount(700),
                                  .sm_max_mhz = amount(2000),
                                  .pcie_most = amount(6),
                                  .pcie_width = amount(16),
                                  .free_mhz = amount(2000),
                                  .job_bytes = amount(8e10),
                                  .other_bytes = amount(8e10),
                                  .joules_per_step = amount(300),
                                  .samples_per_joule = amount(10),
                                  .idle_w = amount(200)};
        for (uint32_t j = 0; j < HARDWARE_COLUMNS; j++)
            rows[i].mean[j] = amount(1000);
        rows[i].mean[HARDWARE_PCIE_SENT] = amount(6e10);
        for (uint32_t j = 0; j < HARDWARE_HOLDERS; j++) {
            rows[i].held_share[j] = share_of_one();
            rows[i].held_mhz[j] = amount(1500);
        }
    }
}

/* ---- memory ----------------------------------------------------------------------------- */

static inline struct memory_growth draw_growth(void)
{
    struct memory_growth growth = {.slope_bytes_per_s = amount(1e9),
                                   .error_bytes_per_s = amount(1e8),
                                   .full_in_s = amount(1e5),
                                   .earliest_s = amount(1e5),
                                   .latest_s = amount(1e6)};

    growth.sure = !isnan(growth.slope_bytes_per_s) && pick(3) == 0;
    return growth;
}

static inline void draw_memory_device(struct memory_device *device, const char *name)
{
    *device = (struct memory_device){.device = name,
                                     .allocated_bytes = amount(8e10),
                                     .reserved_bytes = amount(8e10),
                                     .peak_bytes = amount(8e10),
                                     .peak_step =
                                         pick(2) == 0 ? NOT_KNOWN : (int64_t)pick(5000),
                                     .peak_op = pick(2) == 0 ? "" : "aten::mul",
                                     .usual_peak_bytes = amount(8e10),
                                     .least_peak_bytes = amount(8e10),
                                     .floor_bytes = amount(8e10),
                                     .peaks = count_of(1000),
                                     .high_peaks = count_of(100),
                                     .total_bytes = amount(8e10),
                                     .bytes_per_step = amount(1e9),
                                     .other_peaks = count_of(1000),
                                     .segments = amount(1000),
                                     .segments_got = amount(100),
                                     .segments_given_back = amount(100),
                                     .retries = amount(10),
                                     .ooms = amount(3),
                                     .driver_ns = amount(DRAWN_STEP_NS),
                                     .driver_lasting_ns = amount(DRAWN_STEP_NS),
                                     .growth = draw_growth(),
                                     .kept_ops = {"aten::empty", "aten::mm", "aten::t"},
                                     .kept_op_count = pick(4),
                                     .kept_bytes_per_step = known(1e9),
                                     .kept_block_bytes = known(1e9),
                                     .kept_steps = count_of(100)};
    /* As most jobs: full by half, each step alike but for a few. */
    if (pick(2) == 0) {
        device->total_bytes = 8e10;
        device->peak_bytes = (0.3 + draw() * 0.7) * 8e10;
        device->usual_peak_bytes = device->peak_bytes * (0.5 + draw() / 2);
        device->least_peak_bytes = device->peak_bytes * (0.98 + draw() / 50);
        device->peaks = 500;
        device->high_peaks = pick(100);
    }
    device->usable_bytes = device->total_bytes * (pick(2) == 0 ? 1 : draw());
}

static inline void draw_memory(void)
{
    static const char *const names[] = {"cpu", "cuda:0", "cuda:1"};
    static struct memory_device devices[3];
    struct memory_host *host = &drawn.memory.host;

    drawn.memory.devices = devices;
    drawn.memory.device_count = pick(4);
    for (uint32_t i = 0; i < drawn.memory.device_count; i++)
        draw_memory_device(&devices[i], names[i]);
    host->limit_name = pick(2) == 0 ? "machine" : "container";
    host->used_bytes = amount(1e11);
    host->limit_bytes = amount(1e11);
    host->shared_bytes = amount(1e9);
    host->shared_used_bytes = amount(1e9);
    host->growth = draw_growth();
}

/* ---- time and cores --------------------------------------------------------------------- */

static inline struct rhythm_extra draw_extra(void)
{
    if (pick(2) == 0)
        return (struct rhythm_extra){.ns_per_step = 0};
    return (struct rhythm_extra){.ns_per_step = known(DRAWN_STEP_NS / 4),
                                 .error_ns = amount(DRAWN_STEP_NS / 20),
                                 .data_ns = known(DRAWN_STEP_NS / 8),
                                 .longer_ns = known(DRAWN_STEP_NS / 4),
                                 .steps = count_of(100),
                                 .of = pick(2) == 0 ? 0 : count_of(1000),
                                 .part = pick(EVENT_PHASES + 1),
                                 .worst_step = pick(1000),
                                 .worst_ns = known(DRAWN_STEP_NS)};
}

static inline void draw_rhythm(void)
{
    struct rhythm *rhythm = &drawn.rhythm;

    *rhythm = (struct rhythm){.steps = 32 + pick(RHYTHM_STEPS),
                              .median_ns = known(DRAWN_STEP_NS),
                              .median_other_ns = amount(DRAWN_STEP_NS / 8),
                              .other_left_ns = amount(DRAWN_STEP_NS / 8),
                              .other_left_error_ns = amount(DRAWN_STEP_NS / 80),
                              .gc = draw_extra(),
                              .warm_up = draw_extra(),
                              .epoch = draw_extra(),
                              .period = draw_extra(),
                              .drift = draw_extra(),
                              .rest = draw_extra(),
                              .rare = draw_extra(),
                              .steps_per_epoch = known(1000),
                              .period_steps = count_of(100),
                              .period_is_rough = pick(2) == 0,
                              .first_ns = known(DRAWN_STEP_NS),
                              .last_ns = known(DRAWN_STEP_NS)};
    if (pick(4) == 0)
        *rhythm = (struct rhythm){.median_ns = (double)NAN,
                                  .median_other_ns = (double)NAN,
                                  .steps_per_epoch = (double)NAN,
                                  .first_ns = (double)NAN,
                                  .last_ns = (double)NAN};
}

static inline void draw_load(void)
{
    drawn.load = (struct load){.samples = count_of(60),
                               .cpu_share = share_of_one(),
                               .system_share = share_of_one(),
                               .delay_share = share_of_one(),
                               .delay_error = share_of_one(),
                               .delay_most = share_of_one(),
                               .delay_least = share_of_one(),
                               .asleep_share = share_of_one(),
                               .made_per_s = amount(1e6),
                               .faults_per_s = amount(1e6),
                               .faults_least = amount(1e6),
                               .workers = count_of(16),
                               .worker_cpu_share = share_of_one(),
                               .worker_cpu_most = share_of_one(),
                               .worker_cpu_others = share_of_one(),
                               .worker_delay = share_of_one(),
                               .job_cores = amount(16),
                               .core_limit = amount(16),
                               .machine_share = share_of_one(),
                               .others_share = share_of_one(),
                               .stolen_share = share_of_one(),
                               .machine_cores = amount(64)};
    if (isnan(drawn.load.delay_share))
        drawn.load.delay_error = drawn.load.delay_least = (double)NAN;
}

static inline struct between_ops_share draw_looks(void)
{
    return (struct between_ops_share){.share = share_of_one() / 4,
                                      .error = share_of_one() / 20};
}

static inline void draw_between_ops(void)
{
    static const char *const places[] = {"", "hrtimer_nanosleep", "futex_wait", "x"};
    struct between_ops *between = &drawn.between_ops;

    between->other_share = share_of_one();

    between->looks = count_of(10000);
    for (uint32_t i = 0; i <= EVENT_PHASES; i++) {
        between->asleep[i] = draw_looks();
        between->behind[i] = draw_looks();
        between->place[i] = ONE_OF(places);
    }
    between->busy_forward = draw_looks();
    between->busy_nowhere = draw_looks();
    between->runner = 1 + pick(40000);
    between->runner_name = "python";
}

static inline void draw_ranks(void)
{
    static const char *const causes[] = {"data",      "forward", "backward",
                                         "optimizer", "other",   "unknown"};
    static struct rank_row rows[3];
    struct ranks_answer *ranks = &drawn.ranks;

    ranks->rows = rows;
    ranks->row_count = pick(4);
    for (uint32_t i = 0; i < ranks->row_count; i++)
        rows[i] = (struct rank_row){.rank = (int32_t)i,
                                    .host = "",
                                    .step_ns = known(DRAWN_STEP_NS),
                                    .own_ns = known(DRAWN_STEP_NS),
                                    .wait_ns = amount(DRAWN_STEP_NS),
                                    .delay_share = share_of_one(),
                                    .batch_elements = amount(1e6)};
    ranks->slowest = (int32_t)pick(5) - 1;
    ranks->waits_on_device = pick(2) == 0;
    ranks->slowest_cause = ONE_OF(causes);
    ranks->slowest_share = ranks->slowest < 0 ? (double)NAN : draw();
    ranks->slowest_cause_ns = ranks->slowest < 0 ? (double)NAN : known(DRAWN_STEP_NS);
    ranks->slowest_price_ns = ranks->slowest < 0 ? (double)NAN : known(DRAWN_STEP_NS);
    ranks->slowest_error_ns = amount(DRAWN_STEP_NS / 10);
    ranks->waits_in = pick(EVENT_PHASES + 1);
}

/* What replayed steps tell; their window may be another than the tables'. */
static inline void draw_replay(void)
{
    struct replay_table *replay = &drawn.replay;
    double gained = 0;

    if (pick(2) == 0)
        return;
    replay->steps = 1 + pick(REPLAY_STEPS_MAX);
    replay->devices = true;
    replay->step_ns = 1 + known(DRAWN_STEP_NS);
    replay->compute_ns = pick(4) == 0 ? 0 : draw() * replay->step_ns;
    for (uint32_t i = 0; i < REPLAY_CUTS; i++)
        replay->gained_ns[i] = gained += draw() * (replay->compute_ns - gained);
    for (uint32_t i = 0; i < REPLAY_WHAT_IFS; i++)
        replay->what_ifs[i] = (struct replay_what_if_row){
            .known = pick(2) == 0, .mean_ns = draw() * 1.01 * replay->step_ns};
}

/* ---- facts ------------------------------------------------------------------------------ */

/* What stands in shared memory, whoever wrote it: any number. */
static inline double draw_number(enum wire_fact_type type)
{
    static const double absurd[] = {-1, -1e300, 1e300, 1e-300, 0.5, 9e18};
    static const double whole[] = {-1, -9223372036854775808.0, 9223372036854775807.0};
    uint32_t kind = pick(16);

    if (type == WIRE_FACT_BOOL)
        return pick(2);
    if (kind == 0)
        return type == WIRE_FACT_REAL ? absurd[pick(sizeof(absurd) / sizeof(absurd[0]))]
                                      : whole[pick(sizeof(whole) / sizeof(whole[0]))];
    if (kind == 1 && type == WIRE_FACT_REAL)
        return pick(2) == 0 ? (double)NAN : (double)INFINITY;
    return kind == 2 ? pick(1000000000) : pick(20);
}

static inline void draw_facts(void)
{
    static const struct {
        const char *key;
        enum wire_fact_type type;
    } keys[] = {
#define DRAWN_KEY(constant, key, type, text) {key, WIRE_FACT_##type},
        WIRE_FACT_KEYS(DRAWN_KEY)
#undef DRAWN_KEY
    };
    static const char *const texts[] = {"SGD",      "Adam",         "cpu", "cuda:0",
                                        "gloo",     "DataParallel", "",    "132 2048",
                                        "bfloat16", "-1",           "x"};
    static struct status_fact facts[sizeof(keys) / sizeof(keys[0])];

    drawn.facts = facts;
    drawn.fact_count = 0;
    for (size_t i = 0; i < sizeof(keys) / sizeof(keys[0]); i++)
        if (pick(2) == 0)
            facts[drawn.fact_count++] = (struct status_fact){
                .key = keys[i].key,
                .type = keys[i].type,
                .text = keys[i].type == WIRE_FACT_TEXT ? ONE_OF(texts) : NULL,
                .number =
                    keys[i].type == WIRE_FACT_TEXT ? 0 : draw_number(keys[i].type)};
}

/* The summary of that seed, in `drawn`. */
static inline void draw_any_summary(uint64_t seed)
{
    static struct op_row cpu[DRAWN_ROWS], cuda[DRAWN_ROWS];

    drawn_begin(seed);
    memset(&drawn, 0, sizeof(drawn));
    drawn.head.now_ns = INT64_C(1000000000000);
    draw_steps();
    draw_ops(&drawn.cpu, cpu, false);
    draw_ops(&drawn.cuda, cuda, true);
    draw_gpu();
    draw_hardware();
    draw_memory();
    draw_rhythm();
    draw_load();
    draw_between_ops();
    draw_ranks();
    draw_replay();
    draw_facts();
}

#endif
