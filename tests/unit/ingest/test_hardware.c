/* What GPUs say of themselves, taken by hand and asked through the query. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <time.h>

#include <cmocka.h>

#include "ingest/nvml/read.h"
#include "query/gpu_query.h"
#include "query/memory_query.h"
#include "unit/hand.h"
#include "wire/facts.h"

#define GIB (1024.0 * 1024 * 1024)

static struct hardware_reading reading;
static struct gpu_answer answer;

/* GPU 0 of `count` is at 0000:01:00.0, and so on; nobody has looked yet. The process takes
 * one step of 10 s. */
static int begin(uint32_t count)
{
    if (hand_begin() != 0)
        return -1;
    process->identity.same_namespace = true;
    reading =
        (struct hardware_reading){.state = WIRE_STATE_ACTIVE, .device_count = count};
    answer = (struct gpu_answer){0};
    for (uint32_t i = 0; i < count; i++)
        reading.devices[i] = (struct hardware_device){.place = {0, i + 1, 0},
                                                      .place_known = true,
                                                      .index = i,
                                                      .total_bytes = 80 * GIB,
                                                      .processes_known = true};
    fold_step(0, 0, 0, 10 * S);
    return 0;
}

static int begin_one(void **state)
{
    (void)state;
    return begin(1);
}

static int begin_three(void **state)
{
    (void)state;
    return begin(3);
}

static int end(void **state)
{
    (void)state;
    answer_free(&answer.head);
    store_free(store);
    return 0;
}

/* A second in which each device takes 400 W and is busy, at this clock. */
static void look(int64_t at_ns, uint32_t slowed, float mhz)
{
    for (uint32_t i = 0; i < reading.device_count; i++)
        reading.devices[i].sample = (struct hardware_sample){.monotonic_ns = at_ns,
                                                             .energy_j = (double)NAN,
                                                             .busy_share = 0.9F,
                                                             .power_w = 400,
                                                             .sm_mhz = mhz,
                                                             .slowed = slowed,
                                                             .slowed_known = true};
    hardware_take(&store->hardware, &reading);
}

/* CUDA's devices of the process, by their places. */
static void see(const char *places)
{
    process->facts[process->fact_count++] = (struct process_fact){
        .key = texts_intern(process->texts, FACT_DEVICE_PCI, strlen(FACT_DEVICE_PCI)),
        .type = WIRE_FACT_TEXT,
        .text = texts_intern(process->texts, places, strlen(places))};
}

/* A kernel on it. */
static void work(uint16_t device)
{
    fold(EVENT_META(0, EVENT_KERNEL, 0, device), S, S, 0);
}

/* What the driver tells of a device: who has so much of its memory. */
static void list(uint32_t device, uint32_t pid, double bytes)
{
    struct hardware_device *one = &reading.devices[device];

    one->processes[one->process_count++] = (struct hardware_process){pid, bytes};
}

/* What an allocator tells at the end of a step. */
static void allocate(uint16_t device)
{
    fold(EVENT_META(0, EVENT_MEMORY, 0, device), now, 1 << 20, 0);
    fold_step(1, 0, 0, S);
}

/* Of the whole run. */
static const struct hardware_row *ask(void)
{
    struct selection whose = {.rank = SELECT_ANY, .window = {.kind = WINDOW_RUN}};

    answer_free(&answer.head);
    assert_int_equal(gpu_query(store, &whose, &(struct gpu_request){0}, &answer), 0);
    assert_int_equal(answer.hardware.row_count, reading.device_count);
    return answer.hardware.rows;
}

static void assert_held(const struct hardware_row *row, enum hardware_holder by,
                        double share, double mhz)
{
    assert_true(row->held_share[by] == share && row->held_mhz[by] == mhz);
}

static void a_slowdown_of_the_board_alone_is_neither_heat_nor_power(void **state)
{
    (void)state;
    look(0, 0, 2000);
    look(S, HARDWARE_SLOWED_HARDWARE, 1000);
    look(2 * S, HARDWARE_SLOWED_HARDWARE | HARDWARE_SLOWED_POWER_BRAKE, 900);
    look(3 * S, HARDWARE_SLOWED_HARDWARE | HARDWARE_SLOWED_THERMAL_HARD, 800);
    const struct hardware_row *row = ask();

    assert_held(row, HARDWARE_HELD_BY_BOARD, 0.25, 1000);
    assert_held(row, HARDWARE_HELD_BY_POWER, 0.25, 900);
    assert_held(row, HARDWARE_HELD_BY_HEAT, 0.25, 800);
    /* It is no free clock either, and it does cost speed. */
    assert_true(row->free_mhz == 2000);
    assert_true(row->mean[HARDWARE_SLOWED] == 0.75);
}

static void clocks_that_somebody_chose_are_no_free_ones(void **state)
{
    (void)state;
    look(0, HARDWARE_SLOWED_SETTING, 1200);
    look(S, HARDWARE_SLOWED_SETTING, 1400);
    look(2 * S, HARDWARE_SLOWED_SETTING | HARDWARE_SLOWED_POWER_CAP, 1000);
    look(3 * S, HARDWARE_SLOWED_SETTING | HARDWARE_SLOWED_THERMAL, 800);
    const struct hardware_row *row = ask();

    assert_held(row, HARDWARE_HELD_BY_SETTING, 0.5, 1300);
    assert_held(row, HARDWARE_HELD_BY_POWER, 0.25, 1000);
    assert_held(row, HARDWARE_HELD_BY_HEAT, 0.25, 800);
    assert_true(isnan(row->free_mhz));
    /* Whoever chose them did not want to lose speed: it is no slowdown. */
    assert_true(row->mean[HARDWARE_SLOWED] == 0.5);
}

static void seconds_in_which_a_device_idles_say_nothing_of_its_clock(void **state)
{
    (void)state;
    look(0, 0, 2000);
    look(S, HARDWARE_SLOWED_THERMAL, 1000);
    look(2 * S, HARDWARE_SLOWED_IDLE, 200);
    reading.devices[0].sample = (struct hardware_sample){
        .monotonic_ns = 3 * S, .busy_share = 0, .sm_mhz = 300, .slowed_known = true};
    hardware_take(&store->hardware, &reading);
    look(4 * S, HARDWARE_SLOWED_IDLE | HARDWARE_SLOWED_POWER_CAP, 200);
    const struct hardware_row *row = ask();

    assert_true(row->free_mhz == 2000);
    assert_held(row, HARDWARE_HELD_BY_HEAT, 0.5, 1000);
    assert_true(row->held_share[HARDWARE_HELD_BY_POWER] == 0 &&
                isnan(row->held_mhz[HARDWARE_HELD_BY_POWER]));
    /* Under MIG nobody tells how busy it is: only what says that it idles is left out. */
    reading.devices[0].sample = (struct hardware_sample){
        .monotonic_ns = 5 * S, .busy_share = NAN, .sm_mhz = 1800, .slowed_known = true};
    hardware_take(&store->hardware, &reading);
    assert_true(ask()->free_mhz == 1900);
}

static void under_mig_nobody_knows_whose_memory_is_whose(void **state)
{
    (void)state;
    reading.devices[0].mig = true;
    list(0, 7, 4 * GIB);
    list(0, 8, 30 * GIB);
    look(0, 0, 2000);
    const struct hardware_row *row = ask();

    assert_true(isnan(row->job_bytes) && isnan(row->other_bytes));
    assert_non_null(strstr(row->processes_reason, "MIG"));
    reading.devices[0].mig = false;
    look(S, 0, 2000);
    row = ask();
    assert_true(row->job_bytes == 4 * GIB && row->other_bytes == 30 * GIB);
    assert_string_equal(row->processes_reason, "");
}

/* Of the memory of the process's GPU. */
static double usable(void)
{
    struct selection whose = {.rank = SELECT_ANY, .window = {.kind = WINDOW_RUN}};
    struct memory_answer memory;

    assert_int_equal(memory_query(store, &whose, &(struct memory_request){0}, &memory),
                     0);
    double bytes = 0;

    for (uint32_t i = 0; i < memory.device_count; i++)
        if (strcmp(memory.devices[i].device, "cuda:0") == 0)
            bytes = memory.devices[i].usable_bytes;
    answer_free(&memory.head);
    return bytes;
}

static void memory_that_others_hold_is_no_room_for_the_job(void **state)
{
    struct timespec time;

    (void)state;
    see("0000:01:00.0");
    fold(EVENT_META(0, EVENT_MEMORY, 0, EVENT_DEVICE(1, 0)), now, 3 << 20, 4 << 20);
    fold_step(1, 0, 0, S);
    process->memory.tables[process->memory.count - 1].total_bytes = (int64_t)(80 * GIB);
    assert_true(usable() == 80 * GIB); /* nobody has looked yet */
    assert_int_equal(clock_gettime(CLOCK_MONOTONIC, &time), 0);
    look((int64_t)time.tv_sec * S + time.tv_nsec, 0, 2000);
    reading.devices[0].sample.used_bytes = 30 * GIB + (4 << 20);
    hardware_take(&store->hardware, &reading);
    assert_true(usable() == 50 * GIB);
    /* What was told long ago is not so now. */
    reading.devices[0].sample.monotonic_ns -= HARDWARE_CURRENT_NS;
    hardware_take(&store->hardware, &reading);
    assert_true(usable() == 80 * GIB);
}

static void energy_is_of_the_devices_that_the_process_works_on(void **state)
{
    (void)state;
    see("0000:01:00.0 0000:02:00.0");
    work(EVENT_DEVICE(1, 1));
    look(0, 0, 2000);
    look(4 * S, 0, 2000);
    const struct hardware_row *rows = ask();

    assert_string_equal(rows[1].device, "cuda:1");
    assert_true(rows[1].works && rows[1].works_known);
    assert_true(rows[1].joules_per_step > 0);
    assert_true(answer.hardware.joules_per_step == rows[1].joules_per_step);
    /* The others are known to be none of its. */
    assert_string_equal(rows[0].device, "cuda:0");
    assert_null(rows[2].device);
    for (uint32_t i = 0; i < 3; i += 2) {
        assert_true(!rows[i].works && rows[i].works_known);
        assert_true(rows[i].energy_j > 0 && isnan(rows[i].joules_per_step));
    }
}

static void a_device_whose_allocator_tells_is_worked_on(void **state)
{
    (void)state;
    see("0000:01:00.0 0000:02:00.0");
    look(0, 0, 2000);
    allocate(EVENT_DEVICE(0, 0));
    assert_false(ask()[0].works_known);
    allocate(EVENT_DEVICE(1, 0));
    const struct hardware_row *rows = ask();

    assert_true(rows[0].works && !rows[1].works && rows[1].works_known);
}

static void
where_nothing_was_recorded_nobody_knows_which_of_several_devices(void **state)
{
    (void)state;
    see("0000:01:00.0 0000:02:00.0");
    look(0, 0, 2000);
    look(4 * S, 0, 2000);
    const struct hardware_row *rows = ask();

    assert_false(rows[0].works_known || rows[1].works_known);
    assert_true(isnan(rows[0].joules_per_step));
    assert_true(isnan(answer.hardware.joules_per_step));
    assert_true(rows[2].works_known && !rows[2].works); /* it does not see it */
}

static void
the_only_device_that_a_process_sees_is_the_one_that_it_works_on(void **state)
{
    (void)state;
    see("0000:03:00.0");
    look(0, 0, 2000);
    look(4 * S, 0, 2000);
    const struct hardware_row *rows = ask();

    assert_true(rows[2].works && !rows[0].works);
    assert_true(answer.hardware.joules_per_step == rows[2].joules_per_step);
    assert_true(rows[2].joules_per_step > 0);
}

static void memory_of_a_device_that_the_job_leaves_alone_is_all_others(void **state)
{
    (void)state;
    see("0000:01:00.0 0000:02:00.0 0000:03:00.0");
    work(EVENT_DEVICE(1, 1));
    list(0, 8, 30 * GIB);
    list(1, 7, 4 * GIB);
    list(1, 8, GIB);
    look(0, 0, 2000);
    const struct hardware_row *rows = ask();

    assert_true(rows[0].job_bytes == 0 && rows[0].other_bytes == 30 * GIB);
    assert_true(rows[1].job_bytes == 4 * GIB && rows[1].other_bytes == GIB);
    assert_true(rows[2].job_bytes == 0 && rows[2].other_bytes == 0);
    for (uint32_t i = 0; i < 3; i++)
        assert_string_equal(rows[i].processes_reason, "");
}

static void
a_list_without_the_job_where_it_works_says_nothing_of_its_memory(void **state)
{
    (void)state;
    see("0000:01:00.0 0000:02:00.0 0000:03:00.0");
    work(EVENT_DEVICE(1, 0));
    list(0, 8, 30 * GIB);
    look(0, 0, 2000);
    assert_true(isnan(ask()[0].other_bytes) && isnan(ask()[1].other_bytes));
    assert_non_null(strstr(ask()[1].processes_reason, "another PID namespace"));
    /* Another process of it is listed elsewhere, but who works here is not. */
    list(2, 7, 4 * GIB);
    look(S, 0, 2000);
    assert_true(isnan(ask()[0].other_bytes));
    assert_true(ask()[1].other_bytes == 0);
}

static uint32_t generation; /* that the driver tells; 0: it does not */

static int driver_tells_generation(struct nvml_device *device, uint32_t *to)
{
    (void)device;
    *to = generation;
    return generation == 0 ? NVML_NOT_SUPPORTED : NVML_OK;
}

/* What the driver says of the device now, on the session's axis. */
static void look_through_nvml(int64_t at_ns, uint32_t told)
{
    static struct nvml_reader reader = {
        .nvml = {.open = true, .pcie_generation = driver_tells_generation}};

    generation = told;
    reader.handles[0] = (struct nvml_device *)(void *)&reader;
    nvml_read(&reader, &reading);
    reading.devices[0].sample.monotonic_ns = at_ns;
    hardware_take(&store->hardware, &reading);
}

static void a_link_is_as_fast_as_it_was_at_its_fastest_in_the_window(void **state)
{
    (void)state;
    look_through_nvml(0, 0);
    assert_true(isnan(ask()->pcie_most));
    look_through_nvml(S, 4);
    look_through_nvml(2 * S, 5);
    look_through_nvml(3 * S, 1); /* the board idles */
    assert_true(ask()->pcie_generation == 1 && ask()->pcie_most == 5);
    look_through_nvml(20 * S, 6); /* behind the window */
    assert_true(ask()->pcie_most == 5);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(
            a_slowdown_of_the_board_alone_is_neither_heat_nor_power, begin_one, end),
        cmocka_unit_test_setup_teardown(clocks_that_somebody_chose_are_no_free_ones,
                                        begin_one, end),
        cmocka_unit_test_setup_teardown(
            seconds_in_which_a_device_idles_say_nothing_of_its_clock, begin_one, end),
        cmocka_unit_test_setup_teardown(under_mig_nobody_knows_whose_memory_is_whose,
                                        begin_one, end),
        cmocka_unit_test_setup_teardown(memory_that_others_hold_is_no_room_for_the_job,
                                        begin_one, end),
        cmocka_unit_test_setup_teardown(
            energy_is_of_the_devices_that_the_process_works_on, begin_three, end),
        cmocka_unit_test_setup_teardown(a_device_whose_allocator_tells_is_worked_on,
                                        begin_three, end),
        cmocka_unit_test_setup_teardown(
            where_nothing_was_recorded_nobody_knows_which_of_several_devices,
            begin_three, end),
        cmocka_unit_test_setup_teardown(
            the_only_device_that_a_process_sees_is_the_one_that_it_works_on,
            begin_three, end),
        cmocka_unit_test_setup_teardown(
            memory_of_a_device_that_the_job_leaves_alone_is_all_others, begin_three,
            end),
        cmocka_unit_test_setup_teardown(
            a_list_without_the_job_where_it_works_says_nothing_of_its_memory,
            begin_three, end),
        cmocka_unit_test_setup_teardown(
            a_link_is_as_fast_as_it_was_at_its_fastest_in_the_window, begin_one, end),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
