/* What a device does and waits for in a mean step, and what energy that takes, of
 * events folded by hand. */
#include <math.h>

#include "query/gpu_query.h"
#include "query/steps_query.h"
#include "unit/tables.h"
#include "wire/facts.h"

/* Of a first step of 2 s, recorded or not, and 40 behind it, of which each fourth is
 * recorded and takes 12 ms, 5 of them on the device; the others take 10. Before it,
 * perhaps, steps that try validation out. */
static void train_behind_a_slow_step(uint32_t flags, int64_t validated)
{
    uint64_t gemm = EVENT_META(text("gemm"), EVENT_KERNEL, 0, 0x100);
    int64_t at = validated * 30 * MS;

    for (int64_t i = 0; i < validated; i++)
        step(EVENT_STEP_NONE, EVENT_STEP_VALIDATION, i * 30 * MS, (i + 1) * 30 * MS);
    fold(1, gemm, at, 5 * MS);
    step(0, flags, at, at + 2000 * MS);
    at += 2000 * MS;
    for (uint64_t n = 1; n <= 40; n++) {
        bool recorded = n % 4 == 1;
        int64_t end_ns = at + (recorded ? 12 * MS : 10 * MS);

        if (recorded)
            fold(1, gemm, at, 5 * MS);
        step(n, recorded ? FULL | EVENT_STEP_KERNELS : 0, at, end_ns);
        at = end_ns;
    }
    work_begins_at(at);
}

/* What the device waits in a step, and what the steps are that this is told of. */
static double idle_ns(struct steps_usual *usual)
{
    struct selection whose = {.rank = SELECT_ANY, .window = run};
    struct steps_answer steps;
    struct gpu_answer gpu;
    double idle = 0;

    assert_int_equal(gpu_query(store, &whose, &(struct gpu_request){0}, &gpu), 0);
    for (uint32_t i = 0; i < GPU_IDLES; i++)
        idle += gpu.devices[0].idle_ns[i];
    answer_free(&gpu.head);
    assert_int_equal(steps_query(store, &whose, &(struct steps_request){0}, &steps), 0);
    assert_true(steps.train.error_pct > 90);
    *usual = steps.train.usual;
    answer_free(&steps.head);
    return idle;
}

static void assert_left_out_behind(int64_t validated)
{
    struct steps_usual usual;

    train_behind_a_slow_step(FULL, validated);
    assert_true(fabs(idle_ns(&usual) - 5.5e6) < 0.1e6);
    assert_int_equal(usual.count, 40);
    assert_true(usual.error_pct < 5);
}

static void a_slow_first_step_lengthens_no_wait_of_the_device(void **state)
{
    (void)state;
    assert_left_out_behind(0);
}

static void a_slow_first_step_behind_a_validation_lengthens_none_either(void **state)
{
    (void)state;
    assert_left_out_behind(20);
}

static void a_slow_first_step_that_was_recorded_is_one_of_the_devices(void **state)
{
    (void)state;
    struct steps_usual usual;

    train_behind_a_slow_step(FULL | EVENT_STEP_KERNELS, 0);
    assert_true(idle_ns(&usual) > 20e6);
    assert_int_equal(usual.count, 0);
}

/* As where another profiler has taken the source, and steps are shorter from then
 * on. */
static void
a_device_does_in_a_mean_step_what_it_did_and_waits_no_longer_than_that(void **state)
{
    (void)state;
    struct selection whose = {.rank = SELECT_ANY, .window = run};
    struct gpu_answer gpu;

    for (int64_t n = 0; n < 20; n++) {
        int64_t t = n * 10 * MS;

        fold(1, EVENT_META(text("gemm"), EVENT_KERNEL, 0, 0x100), t + 8 * MS, 2 * MS);
        step((uint64_t)n, EVENT_STEP_KERNELS, t, t + 10 * MS);
        know_works(t + 10 * MS);
    }
    for (int64_t n = 0; n < 380; n++)
        step(20 + (uint64_t)n, 0, 200 * MS + n * 5 * MS, 205 * MS + n * 5 * MS);
    assert_int_equal(gpu_query(store, &whose, &(struct gpu_request){0}, &gpu), 0);
    assert_int_equal(gpu.device_count, 1);
    double busy = 0, idle = 0;

    for (uint32_t i = 0; i < GPU_USES; i++)
        busy += gpu.devices[0].use_ns[i];
    for (uint32_t i = 0; i < GPU_IDLES; i++)
        idle += gpu.devices[0].idle_ns[i];
    assert_true(fabs(busy - 2 * MS) < 1);
    assert_true(fabs(busy + idle - (20 * 10 * MS + 380 * 5 * MS) / 400.0) < 1);
    answer_free(&gpu.head);
}

static double gpu_idle_of(const struct gpu_device *device)
{
    double sum = 0;

    for (uint32_t i = 0; i < GPU_IDLES; i++)
        sum += device->idle_ns[i];
    return sum;
}

static void a_window_of_steps_of_which_some_have_kernels_is_summed_exactly(void **state)
{
    (void)state;
    const int64_t length = MS + 12345, busy = MS / 2 + 17;
    struct selection whose = {.rank = SELECT_ANY,
                              .window = {.kind = WINDOW_STEPS, .a = 5, .b = 12}};
    struct gpu_answer answer;

    /* Two of four steps are recorded: 5, 8, 9 and 12 of the window. */
    for (int64_t n = 0; n < 16; n++) {
        int64_t t = n * length;

        if (n % 4 < 2)
            fold(1, EVENT_META(text("gemm"), EVENT_KERNEL, 0, 0x100), t + 7, busy);
        step((uint64_t)n, n % 4 < 2 ? FULL | EVENT_STEP_KERNELS : FULL, t, t + length);
    }
    assert_int_equal(gpu_query(store, &whose, &(struct gpu_request){0}, &answer), 0);
    assert_int_equal(answer.head.steps, 8);
    assert_int_equal(answer.head.recorded_steps, 4);
    assert_true(fabs(answer.devices[0].busy_ns - 4 * (double)busy) < 1);
    assert_true(fabs(answer.devices[0].span_ns - 4 * (double)length) < 1);
    assert_true(fabs(answer.devices[0].use_ns[GPU_COMPUTE] - (double)busy) < 1);
    assert_int_equal(answer.devices[0].known_steps, 4);
    assert_int_equal(answer.devices[0].summed_steps, 4);
    answer_free(&answer.head);
}

static void device_steps_stand_for_those_around_them_in_the_mean(void **state)
{
    (void)state;
    struct selection whose = {.rank = SELECT_ANY, .window = run};
    struct gpu_answer answer;

    /* The first ten are slow and all recorded, of the others one in ten. */
    for (int64_t n = 0; n < 100; n++) {
        int64_t t = n * 10 * MS;
        bool recorded = n < 10 || n % 10 == 5;

        if (recorded)
            fold(1, EVENT_META(text("gemm"), EVENT_KERNEL, 0, 0x100), t,
                 n < 10 ? 9 * MS : MS);
        step((uint64_t)n, recorded ? FULL | EVENT_STEP_KERNELS : FULL, t, t + 10 * MS);
    }
    work_begins_at(1001 * MS);
    step(0, EVENT_STEP_VALIDATION, 1005 * MS, 1010 * MS);
    assert_int_equal(gpu_query(store, &whose, &(struct gpu_request){0}, &answer), 0);
    assert_int_equal(answer.devices[0].known_steps, 19);
    assert_int_equal(answer.devices[0].summed_steps, NOT_KNOWN);
    assert_string_equal(answer.devices[0].reason, "");
    assert_true(fabs(answer.devices[0].use_ns[GPU_COMPUTE] - 1.8e6) < 1);
    assert_true(fabs(gpu_idle_of(&answer.devices[0]) - 8.2e6) < 1);
    answer_free(&answer.head);
}

static void a_device_behind_its_launches_says_why_no_step_of_it_is_known(void **state)
{
    (void)state;
    struct selection whose = {.rank = SELECT_ANY, .window = run};
    struct gpu_answer answer;

    /* Blocks of three, and what they launch runs four steps later. */
    for (int64_t n = 0; n < 60; n++) {
        int64_t t = n * 10 * MS;
        struct event launch = {(uint64_t)(t + MS), 1000,
                               EVENT_META(text("cudaLaunchKernel"), EVENT_LAUNCH, 0, 1),
                               (uint64_t)n + 1};
        struct event kernel = {(uint64_t)(t + 41 * MS), 9 * MS,
                               EVENT_META(text("gemm"), EVENT_KERNEL, 0, 0x100),
                               (uint64_t)n + 1};

        if (n % 9 < 3) {
            process_fold(process, 1, &kernel, 1);
            process_fold(process, 1, &launch, 1);
        }
        step((uint64_t)n, n % 9 < 3 ? FULL | EVENT_STEP_KERNELS : FULL, t, t + 10 * MS);
    }
    assert_int_equal(gpu_query(store, &whose, &(struct gpu_request){0}, &answer), 0);
    assert_int_equal(answer.devices[0].known_steps, 0);
    assert_true(answer.devices[0].behind_steps >= 15);
    assert_true(isnan(answer.devices[0].use_ns[GPU_COMPUTE]));
    assert_non_null(strstr(answer.devices[0].reason, "still busy"));
    answer_free(&answer.head);
}

/* A reading of one device that takes 400 W. */
static void take_power(int64_t at_ns)
{
    static struct hardware_reading reading;
    struct hardware_device *device = &reading.devices[0];

    reading.state = WIRE_STATE_ACTIVE;
    reading.device_count = 1;
    device->sample =
        (struct hardware_sample){.monotonic_ns = session->zero_monotonic_ns + at_ns,
                                 .energy_j = (double)NAN,
                                 .power_w = 400};
    hardware_take(&store->hardware, &reading);
}

static void validation_takes_no_energy_of_a_training_step(void **state)
{
    (void)state;
    struct selection whose = {.rank = SELECT_ANY, .window = run};
    struct gpu_request request = {0};
    struct gpu_answer answer;

    fold(1, EVENT_META(text("gemm"), EVENT_KERNEL, 0, 0x100), 0, MS);
    /* Ten steps of 100 ms a second, from the sixth on batches of validation. */
    for (int64_t n = 0; n < 100; n++) {
        int64_t t = n * 100 * MS;

        if (n % 10 == 0)
            take_power(t);
        step(n < 50 ? (uint64_t)n : EVENT_STEP_NONE, n < 50 ? 0 : EVENT_STEP_VALIDATION,
             t, t + 100 * MS);
    }
    assert_int_equal(gpu_query(store, &whose, &request, &answer), 0);
    assert_int_equal(answer.hardware.row_count, 1);
    assert_true(fabs(answer.hardware.rows[0].energy_j - 9 * 400) < 1);
    assert_true(fabs(answer.hardware.rows[0].joules_per_step - 40) < 0.1);
    answer_free(&answer.head);
}

/* Sixteen steps of 62.5 ms a second, for 5,000 seconds: of 4,096 they are
 * remembered. */
static void what_forgotten_steps_took_is_no_energy_of_those_remembered(void **state)
{
    (void)state;
    const int64_t second = 1000 * MS, seconds = STEPS_MAX / 16 + 904;
    struct selection whose = {.rank = SELECT_ANY, .window = run};
    struct gpu_request request = {0};
    struct gpu_answer answer;

    fold(1, EVENT_META(text("gemm"), EVENT_KERNEL, 0, 0x100), 0, MS);
    for (int64_t at = 0, n = 0; at < seconds; at++) {
        if (at % 2 == 0)
            take_power(at * second);
        for (; n < (at + 1) * 16; n++) {
            fold(0, EVENT_META(0, EVENT_SAMPLES, 0, 0), n * second / 16, 8);
            step((uint64_t)n, 0, n * second / 16, (n + 1) * second / 16);
        }
    }
    assert_int_equal(gpu_query(store, &whose, &request, &answer), 0);
    /* Each point tells of two seconds: they reach back as far as the run. */
    assert_true(fabs(answer.hardware.rows[0].energy_j - (double)(seconds - 2) * 400) <
                1);
    assert_true(fabs(answer.hardware.rows[0].joules_per_step - 25) < 0.1);
    assert_true(fabs(answer.hardware.rows[0].samples_per_joule - 8.0 / 25) < 0.001);
    answer_free(&answer.head);
}

static void a_running_job_names_the_device_that_it_is_on(void **state)
{
    (void)state;
    struct selection whose = {.rank = SELECT_ANY, .window = run};
    struct gpu_answer gpu;

    say(process, FACT_DEVICE_NAME, "NVIDIA H200");
    say_fact(FACT_ALLOCATOR_DEVICE, 1);
    fold_late_kernels(80, "gemm");
    assert_int_equal(gpu_query(store, &whose, &(struct gpu_request){0}, &gpu), 0);
    assert_true(gpu.device_count >= 2);
    for (uint32_t i = 0; i < gpu.device_count; i++)
        assert_string_equal(gpu.devices[i].name,
                            strcmp(gpu.devices[i].device, "cuda:1") == 0 ? "NVIDIA H200"
                                                                         : "");
    answer_free(&gpu.head);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(a_slow_first_step_lengthens_no_wait_of_the_device),
        TEST(a_slow_first_step_behind_a_validation_lengthens_none_either),
        TEST(a_slow_first_step_that_was_recorded_is_one_of_the_devices),
        TEST(a_running_job_names_the_device_that_it_is_on),
        TEST(a_device_does_in_a_mean_step_what_it_did_and_waits_no_longer_than_that),
        TEST(a_window_of_steps_of_which_some_have_kernels_is_summed_exactly),
        TEST(device_steps_stand_for_those_around_them_in_the_mean),
        TEST(a_device_behind_its_launches_says_why_no_step_of_it_is_known),
        TEST(validation_takes_no_energy_of_a_training_step),
        TEST(what_forgotten_steps_took_is_no_energy_of_those_remembered),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
