#include <cjson/cJSON.h>
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "aggregate/sum.h"
#include "trace/call_tree.h"
#include "wire/segment.h"

#define MS        1000000
#define LONG_NAME 90000u

static const char *const names[] = {"",
                                    "step",
                                    "aten::linear",
                                    "aten::mm",
                                    "launch",
                                    "gemm",
                                    "ProfilerStep#6",
                                    "ProfilerStep#7",
                                    "void at::native::scan(float*)",
                                    "enumerate(DataLoader)#_It.__next__",
                                    "c10d::allreduce_",
                                    "cuStreamWait",
                                    "ncclKernel",
                                    "Memcpy HtoD",
                                    "cudaDeviceSynchronize"};

/* The tables' own looks a name up in the session; here there is none. */
const char *trace_name(const struct trace_process *process, uint32_t id)
{
    static char name[400];

    (void)process;
    if (id < sizeof(names) / sizeof(names[0]))
        return names[id];
    if (id == LONG_NAME) {
        for (size_t i = 0; i < 110; i++)
            memcpy(name + 3 * i, "\xe6\xa2\xaf", 4);
        return name;
    }
    (void)snprintf(name, sizeof(name), "op%u", id);
    return name;
}

static struct trace_thread threads[] = {{.tid = 100, .name = "main"},
                                        {.tid = 101, .name = "device"}};
static struct trace_block blocks[2];
static struct step_row steps[2];
static struct trace_process process = {.pid = 100,
                                       .rank = -1,
                                       .role = WIRE_ROLE_TRAINER,
                                       .threads = threads,
                                       .thread_count = 2,
                                       .blocks = blocks,
                                       .steps = steps};
static const struct trace_limits everything = {.to_ns = INT64_C(1) << 60};

#define EVENT(start_ms, duration_ms, name, kind, aux16, aux)                           \
    {                                                                                  \
        (uint64_t)(start_ms) * MS, (uint64_t)(duration_ms)*MS,                         \
            EVENT_META(name, kind, 0, aux16), aux                                      \
    }

static void remember(const struct event *main, size_t main_count,
                     const struct event *other, size_t other_count)
{
    blocks[0] = (struct trace_block){NULL, main, (uint32_t)main_count, 0};
    blocks[1] = (struct trace_block){NULL, other, (uint32_t)other_count, 1};
    process.block_count = other_count > 0 ? 2 : 1;
    process.step_count = 0;
}

static cJSON *answer_of(const struct trace_limits *limits, enum flame_metric metric)
{
    struct trace_answer answer = {.processes = &process, .process_count = 1};
    struct call_tree tree;
    cJSON *body;

    assert_int_equal(call_tree_build(&tree, &answer, limits), 0);
    body = call_tree_json(&tree, &answer.head, metric);
    call_tree_close(&tree);
    assert_non_null(body);
    return body;
}

enum { PARENT, NAME, KIND, TOTAL, SELF, CALLS, SHORT_NAME, CATEGORY };

static double number_at(const cJSON *row, int column)
{
    return cJSON_GetArrayItem(row, column)->valuedouble;
}

static const cJSON *find(const cJSON *body, const char *name)
{
    const cJSON *row;

    cJSON_ArrayForEach(row, cJSON_GetObjectItem(body, "nodes"))
    {
        if (strcmp(cJSON_GetArrayItem(row, NAME)->valuestring, name) == 0)
            return row;
    }
    fail_msg("no row %s", name);
    return NULL;
}

static void row_is(const cJSON *body, const char *name, const char *parent,
                   double total_ms, double self_ms, int calls)
{
    const cJSON *row = find(body, name);
    const cJSON *above = cJSON_GetArrayItem(cJSON_GetObjectItem(body, "nodes"),
                                            (int)number_at(row, PARENT));

    assert_string_equal(cJSON_GetArrayItem(above, NAME)->valuestring, parent);
    assert_float_equal(number_at(row, TOTAL), total_ms, 1e-6);
    assert_float_equal(number_at(row, SELF), self_ms, 1e-6);
    assert_int_equal((int)number_at(row, CALLS), calls);
}

/* A row's children and its own time are its total, and the roots are all. */
static void adds_up(const cJSON *body)
{
    const cJSON *rows = cJSON_GetObjectItem(body, "nodes"), *row;
    int count = cJSON_GetArraySize(rows), i = 0;
    double *sums = calloc((size_t)count + 1, sizeof(*sums));
    double *totals = calloc((size_t)count + 1, sizeof(*totals));

    assert_non_null(sums);
    assert_non_null(totals);
    cJSON_ArrayForEach(row, rows)
    {
        const cJSON *parent = cJSON_GetArrayItem(row, PARENT);

        assert_true(cJSON_IsNull(parent) || parent->valueint < i);
        sums[cJSON_IsNull(parent) ? count : parent->valueint] += number_at(row, TOTAL);
        sums[i] += number_at(row, SELF);
        totals[i++] = number_at(row, TOTAL);
    }
    totals[count] = cJSON_GetObjectItem(body, "total_ms")->valuedouble;
    for (i = 0; i <= count; i++)
        assert_float_equal(sums[i], totals[i], 1e-3);
    free(sums);
    free(totals);
}

/* Two steps: linear calls mm, which launches a kernel; the call is written elsewhere. */
static const struct event nested[] = {
    EVENT(12, 4, 3, EVENT_CPU_OP, 0, 0),      EVENT(11, 6, 2, EVENT_CPU_OP, 0, 0),
    EVENT(10, 10, 1, EVENT_USER_RANGE, 0, 0), EVENT(22, 4, 3, EVENT_CPU_OP, 0, 0),
    EVENT(21, 6, 2, EVENT_CPU_OP, 0, 0),      EVENT(20, 10, 1, EVENT_USER_RANGE, 0, 0),
};
static const struct event device[] = {
    EVENT(13, 1, 4, EVENT_LAUNCH, 1, 7),    EVENT(15, 8, 5, EVENT_KERNEL, 256, 7),
    EVENT(23, 1, 4, EVENT_LAUNCH, 1, 8),    EVENT(25, 8, 5, EVENT_KERNEL, 256, 8),
    EVENT(40, 2, 5, EVENT_KERNEL, 256, 99),
};
#define COUNT(list) (sizeof(list) / sizeof((list)[0]))

static void calls_of_one_path_are_one_row_below_who_called_them(void **state)
{
    (void)state;
    remember(nested, COUNT(nested), device, COUNT(device));

    cJSON *body = answer_of(&everything, FLAME_CPU);

    row_is(body, "step", "main, thread 100", 20, 8, 2);
    row_is(body, "aten::linear", "step", 12, 4, 2);
    row_is(body, "aten::mm", "aten::linear", 8, 6, 2);
    row_is(body, "launch", "aten::mm", 2, 2, 2);
    adds_up(body);
    cJSON_Delete(body);
}

static void device_time_is_below_the_call_that_launched_it(void **state)
{
    (void)state;
    remember(nested, COUNT(nested), device, COUNT(device));

    cJSON *body = answer_of(&everything, FLAME_DEVICE);

    row_is(body, "step", "main, thread 100", 16, 0, 2);
    row_is(body, "gemm", "launch", 16, 16, 2);
    assert_float_equal(
        number_at(find(body, "device work whose launch is not known"), TOTAL), 2, 1e-6);
    adds_up(body);
    cJSON_Delete(body);
}

static void a_kernel_has_its_own_name_and_the_one_that_people_call_it_by(void **state)
{
    static const struct event work[] = {EVENT(15, 8, 8, EVENT_KERNEL, 256, 0),
                                        EVENT(25, 8, 5, EVENT_KERNEL, 256, 0)};

    (void)state;
    remember(nested, COUNT(nested), work, COUNT(work));

    cJSON *body = answer_of(&everything, FLAME_DEVICE);

    assert_string_equal(
        cJSON_GetArrayItem(find(body, names[8]), SHORT_NAME)->valuestring, "scan");
    assert_true(cJSON_IsNull(cJSON_GetArrayItem(find(body, "gemm"), SHORT_NAME)));
    cJSON_Delete(body);
    body = answer_of(&everything, FLAME_CPU); /* a row of every kind is as long */
    assert_int_equal(cJSON_GetArraySize(cJSON_GetObjectItem(body, "columns")),
                     cJSON_GetArraySize(find(body, "step")));
    cJSON_Delete(body);
}

static void category_is(const cJSON *body, const char *name, const char *wanted)
{
    const cJSON *category = cJSON_GetArrayItem(find(body, name), CATEGORY);

    if (wanted == NULL)
        assert_true(cJSON_IsNull(category));
    else
        assert_string_equal(cJSON_GetStringValue(category), wanted);
}

static void what_waits_copies_or_talks_to_others_has_its_category(void **state)
{
    static const struct event host[] = {
        EVENT(1, 5, 9, EVENT_USER_RANGE, 0, 0),
        EVENT(10, 5, 10, EVENT_CPU_OP, 0, 0),
        EVENT(20, 5, 2, EVENT_CPU_OP, 0, 0),
        EVENT(40, 5, 1, EVENT_USER_RANGE, 0, 0),
    };
    static const struct event work[] = {
        EVENT(50, 1, 11, EVENT_SYNC, 1, 0),     EVENT(52, 1, 14, EVENT_RUNTIME, 1, 0),
        EVENT(54, 1, 4, EVENT_LAUNCH, 1, 0),    EVENT(60, 8, 12, EVENT_KERNEL, 256, 0),
        EVENT(70, 8, 13, EVENT_MEMCPY, 256, 0), EVENT(80, 8, 5, EVENT_KERNEL, 256, 0),
    };

    (void)state;
    remember(host, COUNT(host), work, COUNT(work));

    cJSON *body = answer_of(&everything, FLAME_CPU);

    category_is(body, names[9], "data");
    category_is(body, names[10], "communication");
    category_is(body, "aten::linear", NULL);
    category_is(body, "step", NULL);
    category_is(body, "launch", NULL);
    category_is(body, "cuStreamWait", "sync");
    category_is(body, "cudaDeviceSynchronize", "sync");
    cJSON_Delete(body);
    body = answer_of(&everything, FLAME_DEVICE);
    category_is(body, "ncclKernel", "communication");
    category_is(body, "Memcpy HtoD", "copy");
    category_is(body, "gemm", "compute");
    cJSON_Delete(body);
}

static void calls_are_cut_at_the_ends_of_the_window(void **state)
{
    const struct trace_limits limits = {.from_ns = 14 * MS, .to_ns = 24 * MS};

    (void)state;
    remember(nested, COUNT(nested), device, COUNT(device));

    cJSON *body = answer_of(&limits, FLAME_CPU);

    row_is(body, "step", "main, thread 100", 10, 4, 2);
    row_is(body, "aten::mm", "aten::linear", 4, 3, 2);
    adds_up(body);
    cJSON_Delete(body);
}

static void what_ends_after_its_caller_is_cut_there(void **state)
{
    static const struct event crooked[] = {
        EVENT(5, 10, 3, EVENT_CPU_OP, 0, 0), /* begins before its caller */
        EVENT(10, 8, 2, EVENT_CPU_OP, 0, 0),
        EVENT(0, UINT32_MAX, 1, EVENT_USER_RANGE, 0, 0),
    };

    (void)state;
    remember(crooked, COUNT(crooked), NULL, 0);

    cJSON *body = answer_of(&everything, FLAME_CPU);

    row_is(body, "aten::mm", "aten::linear", 5, 5, 1);
    row_is(body, "aten::linear", "step", 8, 3, 1);
    adds_up(body);
    cJSON_Delete(body);
}

static void
ranges_of_steps_without_their_ops_are_left_out_where_others_have_them(void **state)
{
    (void)state;
    remember(nested, COUNT(nested), NULL, 0);
    steps[0] =
        (struct step_row){.number = 0, .start_ns = 10 * MS, .duration_ns = 10 * MS};
    steps[1] = (struct step_row){.number = 1,
                                 .flags = EVENT_STEP_OPS,
                                 .start_ns = 20 * MS,
                                 .duration_ns = 10 * MS};
    process.step_count = 2;

    cJSON *body = answer_of(&everything, FLAME_CPU);

    assert_int_equal((int)number_at(find(body, "step"), CALLS), 1);
    assert_int_equal(cJSON_GetObjectItem(body, "recorded_steps")->valueint, 1);
    adds_up(body);
    cJSON_Delete(body);
    steps[0].flags = EVENT_STEP_KERNELS;
    steps[1].flags |= EVENT_STEP_KERNELS;
    body =
        answer_of(&everything, FLAME_DEVICE); /* what is divided by steps with work */
    assert_int_equal(cJSON_GetObjectItem(body, "recorded_steps")->valueint, 2);
    cJSON_Delete(body);
    steps[0].flags = 0;
    steps[0].duration_ns = MS; /* what began behind its end lies in no step */
    steps[0].start_ns -= 2 * MS;
    body = answer_of(&everything, FLAME_CPU);
    assert_int_equal((int)number_at(find(body, "step"), CALLS), 2);
    cJSON_Delete(body);
}

static void
work_of_steps_that_lack_some_of_it_is_left_out_where_others_are_whole(void **state)
{
    (void)state;
    remember(nested, COUNT(nested), device, COUNT(device));
    steps[0] =
        (struct step_row){.number = 0, .start_ns = 10 * MS, .duration_ns = 10 * MS};
    steps[1] = (struct step_row){.number = 1,
                                 .flags = EVENT_STEP_KERNELS,
                                 .start_ns = 20 * MS,
                                 .duration_ns = 20 * MS};
    process.step_count = 2;

    cJSON *body = answer_of(&everything, FLAME_DEVICE);

    row_is(body, "gemm", "launch", 8, 8, 1);
    adds_up(body);
    cJSON_Delete(body);
    steps[1].flags = 0; /* nothing is divided by the steps then */
    body = answer_of(&everything, FLAME_DEVICE);
    row_is(body, "gemm", "launch", 16, 16, 2);
    cJSON_Delete(body);
}

static void no_sum_is_shown_of_lengths_that_no_clock_holds(void **state)
{
    static const struct event absurd[] = {
        {1, INT64_MAX, EVENT_META(3, EVENT_CPU_OP, 0, 0), 0},
        {2, INT64_MAX, EVENT_META(3, EVENT_CPU_OP, 0, 0), 0},
        {5, INT64_MAX, EVENT_META(5, EVENT_KERNEL, 0, 0), 0},
    };
    static const struct trace_limits endless = {.from_ns = INT64_MIN,
                                                .to_ns = INT64_MAX};

    (void)state;
    remember(absurd, COUNT(absurd), NULL, 0);
    for (int metric = FLAME_CPU; metric <= FLAME_DEVICE; metric++) {
        cJSON *body = answer_of(&endless, (enum flame_metric)metric);

        assert_true(cJSON_IsNull(cJSON_GetObjectItem(body, "total_ms")));
        cJSON_Delete(body);
    }
}

static void steps_of_torch_profiler_are_one_path_whatever_their_number(void **state)
{
    static const struct event two[] = {
        EVENT(1, 1, 3, EVENT_CPU_OP, 0, 0), EVENT(0, 9, 6, EVENT_USER_RANGE, 0, 0),
        EVENT(11, 2, 3, EVENT_CPU_OP, 0, 0), EVENT(10, 9, 7, EVENT_USER_RANGE, 0, 0)};

    (void)state;
    remember(two, COUNT(two), NULL, 0);

    cJSON *body = answer_of(&everything, FLAME_CPU);

    row_is(body, "ProfilerStep", "main, thread 100", 18, 15, 2);
    row_is(body, "aten::mm", "ProfilerStep", 3, 3, 2);
    cJSON_Delete(body);
}

#define MANY 30000u

static void of_many_paths_the_largest_are_listed_and_the_others_counted(void **state)
{
    struct event *many = calloc(2 * MANY, sizeof(*many));

    (void)state;
    assert_non_null(many);
    for (uint32_t i = 0; i < MANY; i++) {
        many[2 * i] = (struct event)EVENT(10 * i, 1 + i % 7, 8 + i, EVENT_CPU_OP, 0, 0);
        many[2 * i + 1] = (struct event)EVENT(10 * i, 9, 2, EVENT_CPU_OP, 0, 0);
    }
    remember(many, (size_t)2 * MANY, NULL, 0);

    cJSON *body = answer_of(&everything, FLAME_CPU);
    int rows = cJSON_GetArraySize(cJSON_GetObjectItem(body, "nodes"));
    int left_out = cJSON_GetObjectItem(body, "paths_in_other")->valueint;

    assert_in_range(rows, 3, 2 * CALL_TREE_SHOWN_MAX);
    /* All but thread, caller and the others' own row. */
    assert_int_equal(rows - 3 + left_out, MANY);
    char name[32];

    (void)snprintf(name, sizeof(name), "%d others", left_out);
    assert_string_equal(cJSON_GetArrayItem(find(body, name), KIND)->valuestring,
                        "other");
    assert_int_equal((int)number_at(find(body, name), CALLS), left_out);
    assert_int_equal((int)number_at(find(body, "aten::linear"), CALLS), MANY);
    adds_up(body);
    cJSON_Delete(body);
    free(many);
}

static void a_long_name_is_cut_between_two_characters_and_says_so(void **state)
{
    const struct event one[] = {EVENT(10, 5, LONG_NAME, EVENT_CPU_OP, 0, 0)};

    (void)state;
    remember(one, 1, NULL, 0);

    cJSON *body = answer_of(&everything, FLAME_CPU);
    char *text = cJSON_PrintUnformatted(body);
    const char *at = strstr(text, "\"\xe6"), *end = strstr(text, "\xaf...\"");

    assert_non_null(at);
    assert_non_null(end);
    assert_int_equal((end + 1 - (at + 1)) % 3, 0);
    assert_true(end - at > 300);
    free(text);
    cJSON_Delete(body);
}

static void a_kernel_is_below_the_runtimes_call_with_the_drivers_in_it(void **state)
{
    const struct event ops[] = {EVENT(10, 10, 3, EVENT_CPU_OP, 0, 0)};
    const struct event calls[] = {EVENT(12, 1, 2, EVENT_LAUNCH, 1, 7),
                                  EVENT(11, 4, 4, EVENT_LAUNCH, 1, 7),
                                  EVENT(15, 8, 5, EVENT_KERNEL, 256, 7)};

    (void)state;
    remember(ops, COUNT(ops), calls, COUNT(calls));

    cJSON *body = answer_of(&everything, FLAME_DEVICE);

    row_is(body, "gemm", "launch", 8, 8, 1);
    adds_up(body);
    cJSON_Delete(body);
}

static void
calls_that_lie_deeper_than_is_looked_leave_their_time_to_their_callers(void **state)
{
    const uint32_t count = 1100;
    struct event *deep = calloc(count, sizeof(*deep));

    (void)state;
    assert_non_null(deep);
    for (uint32_t i = 0; i < count; i++) /* the last one holds all others */
        deep[i] = (struct event)EVENT(count - i, 2 * i + 1, 3, EVENT_CPU_OP, 0, 0);
    remember(deep, count, NULL, 0);

    cJSON *body = answer_of(&everything, FLAME_CPU);

    assert_int_equal(cJSON_GetObjectItem(body, "total_ms")->valueint, 2 * count - 1);
    assert_int_equal(cJSON_GetObjectItem(body, "left_out")->valueint, count - 1024);
    adds_up(body);
    cJSON_Delete(body);
    free(deep);
}

static void a_window_without_events_has_no_rows(void **state)
{
    (void)state;
    remember(NULL, 0, NULL, 0);

    cJSON *body = answer_of(&everything, FLAME_CPU);

    assert_int_equal(cJSON_GetArraySize(cJSON_GetObjectItem(body, "nodes")), 0);
    assert_float_equal(cJSON_GetObjectItem(body, "total_ms")->valuedouble, 0, 0);
    cJSON_Delete(body);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(calls_of_one_path_are_one_row_below_who_called_them),
        cmocka_unit_test(device_time_is_below_the_call_that_launched_it),
        cmocka_unit_test(a_kernel_has_its_own_name_and_the_one_that_people_call_it_by),
        cmocka_unit_test(what_waits_copies_or_talks_to_others_has_its_category),
        cmocka_unit_test(calls_are_cut_at_the_ends_of_the_window),
        cmocka_unit_test(what_ends_after_its_caller_is_cut_there),
        cmocka_unit_test(
            ranges_of_steps_without_their_ops_are_left_out_where_others_have_them),
        cmocka_unit_test(
            work_of_steps_that_lack_some_of_it_is_left_out_where_others_are_whole),
        cmocka_unit_test(no_sum_is_shown_of_lengths_that_no_clock_holds),
        cmocka_unit_test(steps_of_torch_profiler_are_one_path_whatever_their_number),
        cmocka_unit_test(of_many_paths_the_largest_are_listed_and_the_others_counted),
        cmocka_unit_test(a_long_name_is_cut_between_two_characters_and_says_so),
        cmocka_unit_test(a_kernel_is_below_the_runtimes_call_with_the_drivers_in_it),
        cmocka_unit_test(
            calls_that_lie_deeper_than_is_looked_leave_their_time_to_their_callers),
        cmocka_unit_test(a_window_without_events_has_no_rows),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
