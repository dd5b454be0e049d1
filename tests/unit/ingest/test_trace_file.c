#include <errno.h>
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "aggregate/state.h"
#include "ingest/file/file.h"
#include "query/bottlenecks_query.h"
#include "query/memory_query.h"
#include "wire/facts.h"

static struct store *store;
static struct file_result result;

/* One event; `more` are further members or "". */
#define X(cat, name, ts, dur, more)                                                    \
    "{\"ph\":\"X\",\"cat\":\"" cat "\",\"name\":\"" name                               \
    "\",\"pid\":5,\"tid\":5,\"ts\":" #ts ",\"dur\":" #dur more "}"
#define OP(name, ts, dur) X("cpu_op", name, ts, dur, "")
#define CALL(name, ts, dur, id)                                                        \
    X("cuda_runtime", name, ts, dur, ",\"args\":{\"correlation\":" #id "}")
#define KERNEL(name, ts, dur, id)                                                      \
    "{\"ph\":\"X\",\"cat\":\"kernel\",\"name\":\"" name                                \
    "\",\"pid\":0,\"tid\":7,\"ts\":" #ts ",\"dur\":" #dur                              \
    ",\"args\":{\"device\":0,\"stream\":7,\"correlation\":" #id "}}"
#define MEMORY(ts, bytes, more)                                                        \
    "{\"ph\":\"i\",\"s\":\"t\",\"cat\":\"cpu_instant_event\",\"name\":\"[memory]\","   \
    "\"pid\":5,\"tid\":5,\"ts\":" #ts                                                  \
    ",\"args\":{\"Device Type\":1,\"Device Id\":0,\"Bytes\":" #bytes more "}}"

/* `head`: keys before the list of events, each with its comma. */
static int load_with(const char *head, const char *events)
{
    char path[] = "/tmp/trainglass-test-XXXXXX";
    int fd = mkstemp(path);
    struct file_request request = {.path = path};

    assert_true(fd >= 0);
    dprintf(fd, "{%s\"traceEvents\":[%s]}", head, events);
    close(fd);
    int error = file_load(store, &request, &result);

    unlink(path);
    return error;
}

/* As a rank of a folder. */
static int load_rank(const char *events)
{
    char path[] = "/tmp/trainglass-test-XXXXXX";
    int fd = mkstemp(path);
    struct file_request request = {.path = path, .session = "t-folder"};

    assert_true(fd >= 0);
    dprintf(fd, "{\"traceEvents\":[%s]}", events);
    close(fd);
    int error = file_load(store, &request, &result);

    unlink(path);
    return error;
}

static int load(const char *events)
{
    return load_with("", events);
}

static int begin(void **state)
{
    (void)state;
    store = store_new(NULL);
    return store == NULL;
}

static int end(void **state)
{
    (void)state;
    store_free(store);
    return 0;
}

static struct bottlenecks_answer answer;

static void ask(void)
{
    struct selection whose = {.rank = SELECT_ANY};
    struct bottlenecks_request request = {.k = 100};

    assert_int_equal(bottlenecks_query(store, &whose, &request, &answer), 0);
}

static const struct op_row *op(const char *name)
{
    for (uint32_t i = 0; i < answer.cpu.row_count; i++)
        if (strcmp(answer.cpu.rows[i].name, name) == 0)
            return &answer.cpu.rows[i];
    fail_msg("there is no row %s", name);
    return NULL;
}

static void self_is(const char *name, double us)
{
    assert_true(fabs(op(name)->self_ns - us * 1000) < 0.5);
}

static void children_may_stand_before_or_after_their_parents(void **state)
{
    (void)state;
    assert_int_equal(load(OP("c", 2, 3) "," OP("b", 1, 6) "," OP("a", 0, 10) "," OP(
                         "A", 20, 10) "," OP("B", 21, 6) "," OP("C", 22, 3)),
                     0);
    ask();
    self_is("a", 4);
    self_is("b", 3);
    self_is("c", 3);
    self_is("A", 4);
    self_is("B", 3);
    bottlenecks_free(&answer);
}

static void
a_child_may_seem_to_outlast_its_parent_by_the_rounding_of_stamps(void **state)
{
    (void)state;
    assert_int_equal(
        load(OP("a", 0, 10) "," OP("b", 5, 6) "," OP("x", 20, 10) "," OP("y", 25, 8)),
        0);
    ask();
    self_is("a", 4);
    self_is("x", 10); /* it only overlaps */
    bottlenecks_free(&answer);
}

static void ranges_take_no_self_time_and_give_none(void **state)
{
    (void)state;
    assert_int_equal(load(OP("a", 0, 10) "," X("user_annotation", "mine", 1, 8,
                                               "") "," OP("b", 2, 3)),
                     0);
    ask();
    self_is("a", 7);
    self_is("mine", 0);
    assert_string_equal(op("mine")->kind, "range");
    bottlenecks_free(&answer);
}

static void device_time_belongs_to_the_innermost_op_that_launched_it(void **state)
{
    (void)state;
    assert_int_equal(load(KERNEL("k", 30, 40, 9) "," OP("outer", 0, 20) "," OP(
                         "inner", 2, 10) "," CALL("cudaLaunchKernel", 4, 2,
                                                  9) "," KERNEL("lost", 90, 5, 77)),
                     0);
    ask();
    assert_true(op("outer")->device_total_ns == 40000);
    assert_true(op("outer")->device_self_ns == 0);
    assert_true(op("inner")->device_self_ns == 40000);
    assert_int_equal(answer.cuda.row_count, 2);
    assert_int_equal(answer.gpu.device_count, 1);
    assert_true(answer.gpu.devices[0].busy_ns == 45000);
    assert_true(answer.gpu.devices[0].span_ns == 95000);
    bottlenecks_free(&answer);
}

static void a_runtime_call_and_the_drivers_in_it_launched_a_kernel_once(void **state)
{
    (void)state;
    assert_int_equal(
        load(OP("outer", 0, 20) "," CALL("cudaLaunchKernel", 4, 6, 9) "," X(
            "cuda_driver", "cuLaunchKernel", 5, 2,
            ",\"args\":{\"correlation\":9}") "," KERNEL("k", 30, 40, 9)),
        0);
    ask();
    assert_true(op("outer")->device_total_ns == 40000);
    assert_true(op("outer")->device_self_ns == 40000);
    bottlenecks_free(&answer);
}

static void a_step_is_a_profiler_step_and_counts_what_began_in_it(void **state)
{
    struct selection whose = {.rank = SELECT_ANY,
                              .window = {.kind = WINDOW_STEPS, .a = 4, .b = 4}};
    struct bottlenecks_request request = {.k = 100};

    (void)state;
    assert_int_equal(
        load(X("user_annotation", "ProfilerStep#3", 0, 100, "") "," X(
            "user_annotation", "ProfilerStep#4", 110, 100,
            "") "," OP("a", 10, 5) "," OP("a", 104, 2) "," OP("a", 120,
                                                              5) "," OP("b", 130, 5)),
        0);
    ask();
    assert_int_equal(answer.head.steps, 2);
    assert_int_equal(op("a")->recorded_count, 3);
    bottlenecks_free(&answer);
    assert_int_equal(bottlenecks_query(store, &whose, &request, &answer), 0);
    assert_int_equal(answer.head.steps, 1);
    assert_int_equal(op("a")->recorded_count, 1);
    bottlenecks_free(&answer);
}

static void phases_are_told_by_loader_autograd_and_optimizer(void **state)
{
    const struct steps_summary *train = &answer.steps.train;

    (void)state;
    assert_int_equal(
        load(X("user_annotation", "ProfilerStep#0", 0, 100, "") "," X(
            "user_annotation", "enumerate(DataLoader)#_Single.__next__", 5, 20,
            "") "," OP("aten::mm", 30,
                       20) "," OP("autograd::engine::evaluate_function: MmBackward0",
                                  60, 10) "," OP("autograd::engine::evaluate_function: "
                                                 "AccumulateGrad",
                                                 72, 8) "," X("user_annotation",
                                                              "Optimizer.step#SGD.step",
                                                              85, 10, "")),
        0);
    ask();
    assert_true(train->phase_ns[EVENT_PHASE_DATA] == 20000);
    assert_true(train->phase_ns[EVENT_PHASE_FORWARD] == 35000);
    assert_true(train->phase_ns[EVENT_PHASE_BACKWARD] == 20000);
    assert_true(train->phase_ns[EVENT_PHASE_OPTIMIZER] == 10000);
    assert_true(train->other_ns == 15000);
    bottlenecks_free(&answer);
}

static void without_profiler_steps_the_rarest_optimizer_ends_a_step(void **state)
{
    (void)state;
    assert_int_equal(
        load(OP("a", 0, 5) "," X(
            "user_annotation", "Optimizer.step#D.step", 10, 5,
            "") "," X("user_annotation", "Optimizer.step#D.step", 20, 5,
                      "") "," X("user_annotation", "Optimizer.step#G.step", 30, 5,
                                "") "," X("user_annotation", "Optimizer.step#D.step",
                                          40, 5, "") "," X("user_annotation",
                                                           "Optimizer.step#G.step", 60,
                                                           5, "")),
        0);
    ask();
    assert_true(result.inferred_steps);
    assert_int_equal(answer.head.steps, 2);
    assert_true(answer.steps.train.max_ns == 35000);
    bottlenecks_free(&answer);
}

static void where_nothing_marks_steps_all_of_the_file_is_one(void **state)
{
    (void)state;
    assert_int_equal(load(OP("a", 0, 5) "," OP("b", 40, 20) "," KERNEL("k", 50, 45, 3)),
                     0);
    ask();
    assert_true(result.whole_step && !result.inferred_steps);
    assert_int_equal(answer.head.steps, 1);
    assert_true(answer.steps.train.mean_ns == 95000);
    bottlenecks_free(&answer);
}

static void memory_peaks_are_of_totals_where_there_are_any(void **state)
{
    (void)state;
    assert_int_equal(
        load(OP("a", 0, 10) "," MEMORY(1, 100, ",\"Total Allocated\":900") "," MEMORY(
            5, -50, ",\"Total Allocated\":850") "," MEMORY(6, 7000, "")),
        0);
    ask();
    assert_int_equal(result.memory, FILE_MEMORY_TOTALS);
    assert_int_equal(answer.peak_count, 1);
    assert_true(answer.peaks[0].bytes == 900);
    assert_string_equal(answer.peaks[0].op, "a");
    bottlenecks_free(&answer);
}

static void memory_without_totals_is_summed_from_zero(void **state)
{
    (void)state;
    assert_int_equal(load(OP("a", 0, 10) "," MEMORY(1, 100, "") "," MEMORY(
                         5, 60, "") "," MEMORY(6, -30, "")),
                     0);
    ask();
    assert_int_equal(result.memory, FILE_MEMORY_DELTAS);
    assert_true(answer.peaks[0].bytes == 160);
    assert_true(answer.peaks[0].time_ns == 5000);
    bottlenecks_free(&answer);
}

static void a_file_without_memory_says_how_it_is_recorded(void **state)
{
    (void)state;
    struct selection whose = {.rank = SELECT_ANY};
    struct memory_request request = {.points = 10};
    struct memory_answer memory;

    assert_int_equal(load(OP("a", 0, 10)), 0);
    assert_int_equal(memory_query(store, &whose, &request, &memory), 0);
    assert_non_null(strstr(memory.head.reason, "profile_memory=True"));
    answer_free(&memory.head);
}

static void a_file_without_events_leaves_no_session_behind(void **state)
{
    (void)state;
    assert_int_equal(load(""), -ENODATA);
    struct selection whose = {.rank = SELECT_ANY};
    struct bottlenecks_request request = {0};

    assert_int_equal(bottlenecks_query(store, &whose, &request, &answer), -ENOENT);
    bottlenecks_free(&answer);
}

static void what_is_of_another_program_is_said_to_be_with_what_it_has(void **state)
{
    (void)state;
    assert_int_equal(
        load(X("toplevel", "RunTask", 1, 2, "") "," X("v8", "V8.Execute", 2, 1, "")),
        0);
    assert_non_null(
        strstr(result.error, "is a trace of Chrome's DevTools, not of PyTorch"));
    assert_int_equal(result.taken, 2);
    assert_int_equal(load("{\"ph\":\"X\",\"name\":\"fusion.3\",\"pid\":1,\"tid\":14,"
                          "\"ts\":1.5,\"dur\":20.25}"),
                     0);
    assert_non_null(
        strstr(result.error, "is of a producer that is not known, not of PyTorch"));
}

/* As EventList.export_chrome_trace() writes them. */
static void ops_of_the_exporter_without_categories_are_ops(void **state)
{
    (void)state;
    assert_int_equal(
        load("{\"name\":\"aten::mm\",\"ph\":\"X\",\"ts\":1.5,\"dur\":3.0,\"tid\":1,"
             "\"pid\":\"CPU functions\",\"args\":{}},"
             "{\"name\":\"aten::mm\",\"ph\":\"s\",\"ts\":1.5,\"tid\":1,"
             "\"pid\":\"CPU functions\",\"id\":0,\"cat\":\"cpu_to_cuda\",\"args\":{}}"),
        0);
    ask();
    self_is("aten::mm", 3);
    assert_string_equal(op("aten::mm")->kind, "op");
    bottlenecks_free(&answer);
}

static double fact(const char *key)
{
    for (uint32_t i = 0; i < answer.fact_count; i++)
        if (strcmp(answer.facts[i].key, key) == 0)
            return answer.facts[i].number;
    return (double)NAN;
}

static void
an_iterator_over_workers_tells_that_there_are_some_but_not_how_many(void **state)
{
    (void)state;
    assert_int_equal(
        load(X("user_annotation",
               "enumerate(DataLoader)#_MultiProcessingDataLoaderIter.__next__", 0, 10,
               "") "," OP("aten::mm", 20, 10)),
        0);
    ask();
    assert_true(fact(FACT_DATALOADER_UNCOUNTED) == 1);
    assert_true(isnan(fact(FACT_DATALOADER_WORKERS)));
    bottlenecks_free(&answer);
}

#define CUT_SHORT                                                                      \
    X("user_annotation", "ProfilerStep#0", 0, 1000, "")                                \
    "," OP("aten::mm", 0, 1000) "," CALL("cudaLaunchKernel", 10, 5, 1) "," CALL(       \
        "cudaLaunchKernel", 300, 5, 2) "," KERNEL("gemm", 100, 100, 1)

/* `end`: what closes the file, or does not. */
static void load_ending(const char *end)
{
    char path[] = "/tmp/trainglass-test-XXXXXX";
    int fd = mkstemp(path);
    struct file_request request = {.path = path};

    assert_true(fd >= 0);
    dprintf(fd, "{\"traceEvents\":[%s%s", CUT_SHORT, end);
    close(fd);
    assert_int_equal(file_load(store, &request, &result), 0);
    unlink(path);
}

static void what_a_device_did_behind_a_cut_is_not_said_to_be_known(void **state)
{
    static const struct {
        const char *end;
        enum gpu_idle cause;
    } cases[] = {{"]}", GPU_IDLE_LAUNCH},
                 {"", GPU_IDLE_UNKNOWN},
                 {",\n", GPU_IDLE_UNKNOWN},
                 {",{\"ph\":\"X\",\"cat\":\"ker", GPU_IDLE_UNKNOWN}};

    (void)state;
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        load_ending(cases[i].end);
        const struct process *process = &store->sessions[0]->processes[0];
        const int64_t *idle_ns = process->gpu.tables[0]->run.idle_ns;

        assert_int_equal(result.is_cut, cases[i].cause == GPU_IDLE_UNKNOWN);
        /* Of a whole file it is the host's until a launch returned; of the second one the
         * kernel is missing. */
        assert_int_equal(idle_ns[cases[i].cause], cases[i].cause == GPU_IDLE_LAUNCH
                                                      ? (15 + 105) * 1000
                                                      : (85 + 800) * 1000);
        file_forget(store, result.session);
    }
}

static void what_no_longer_fits_is_counted_and_the_way_out_is_said(void **state)
{
    enum { OPS = 40000 };
    char path[] = "/tmp/trainglass-test-XXXXXX";
    struct file_request request = {.path = path, .max_bytes = 128 * 1024};
    FILE *file = fdopen(mkstemp(path), "w");

    (void)state;
    assert_non_null(file);
    fputs("{\"traceEvents\":[\n", file);
    for (int i = 0; i < OPS; i++)
        fprintf(file,
                "{\"ph\":\"X\",\"cat\":\"cpu_op\",\"name\":\"aten::%d\",\"pid\":5,"
                "\"tid\":5,\"ts\":%d,\"dur\":3},\n",
                i % 100, i * 10);
    fputs(KERNEL("k", 400000, 5, 1) "]}", file);
    fclose(file);
    assert_int_equal(file_load(store, &request, &result), 0);
    unlink(path);
    assert_int_equal(result.events, OPS + 1);
    assert_in_range(result.taken, 1000, OPS - 1);
    assert_int_equal(result.taken + result.skipped[FILE_SKIP_LIMIT], OPS + 1);
    assert_true(result.first_offset[FILE_SKIP_LIMIT] > 0);
    assert_non_null(strstr(result.error, "fits in memory"));
    assert_non_null(strstr(result.error, "trainglass cut FILE --steps"));
}

static void stamps_at_the_ends_of_time_are_skipped_and_counted(void **state)
{
    (void)state;
    assert_int_equal(load(OP("a", 0, 10) "," OP("b", 9223372036854775, 5) "," OP(
                         "c", -9223372036854775, 5) "," OP("d", 5, 9223372036854775)),
                     0);
    assert_int_equal(result.skipped[FILE_SKIP_DURATION], 3);
    assert_int_equal(result.span_ns, 10000);
}

static void
a_base_time_that_leaves_the_range_of_stamps_is_left_out_and_said(void **state)
{
    static const char *const heads[] = {
        "\"baseTimeNanoseconds\":9223372036854775807,",
        "\"baseTimeNanoseconds\":-9223372036854775807,"};
    (void)state;
    for (size_t i = 0; i < 2; i++) {
        assert_int_equal(load_with(heads[i], OP("a", 1000, 10) "," OP("b", -2000, 5)),
                         0);
        assert_string_equal(result.error,
                            "its base time is impossible: it was left out");
        assert_int_equal(result.span_ns, 3010000);
    }
    assert_int_equal(
        load_with("\"baseTimeNanoseconds\":1700000000000000000,", OP("a", 1000, 10)),
        0);
    assert_string_equal(result.error, "");
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, begin, end)

static void
a_kernel_of_few_blocks_leaves_the_rest_of_a_files_device_unused(void **state)
{
    static const char small[] =
        "{\"ph\":\"X\",\"cat\":\"kernel\",\"name\":\"k\",\"pid\":0,\"tid\":7,\"ts\":"
        "1000,"
        "\"dur\":400,\"args\":{\"device\":0,\"stream\":7,\"grid\":[33,1,1],"
        "\"block\":[128,1,1]}},"
        "{\"ph\":\"X\",\"cat\":\"user_annotation\",\"name\":\"ProfilerStep#1\",\"pid\":"
        "5,"
        "\"tid\":5,\"ts\":900,\"dur\":1000}";

    (void)state;
    assert_int_equal(
        load_with("\"deviceProperties\":[{\"id\":0,\"name\":\"NVIDIA H100\","
                  "\"numSms\":132}],",
                  small),
        0);
    ask();
    assert_true(answer.cuda.multiprocessors == 132);
    assert_true(fabs(answer.cuda.unfilled_ns - 400e3) < 1);
    assert_true(fabs(answer.cuda.unused_ns - 300e3) < 1);
    bottlenecks_free(&answer);
}

static void a_file_that_finds_no_room_leaves_the_ranks_before_it(void **state)
{
    (void)state;
    for (uint32_t i = 0; i < STATE_PROCESSES; i++)
        assert_int_equal(load_rank(OP("aten::mm", 1, 2)), 0);
    assert_int_equal(load_rank(OP("aten::mm", 1, 2)), -ENOMEM);
    assert_non_null(strstr(result.error, "ranks"));
    assert_int_equal(store->session_count, 1);
    assert_int_equal(store->sessions[0]->process_count, STATE_PROCESSES);
    assert_int_not_equal(load_rank("{}"), 0);
    assert_int_equal(store->sessions[0]->process_count, STATE_PROCESSES);
    ask();
    assert_int_equal(answer.cpu.row_count, 1);
    bottlenecks_free(&answer);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(children_may_stand_before_or_after_their_parents),
        TEST(a_child_may_seem_to_outlast_its_parent_by_the_rounding_of_stamps),
        TEST(ranges_take_no_self_time_and_give_none),
        TEST(device_time_belongs_to_the_innermost_op_that_launched_it),
        TEST(a_runtime_call_and_the_drivers_in_it_launched_a_kernel_once),
        TEST(a_step_is_a_profiler_step_and_counts_what_began_in_it),
        TEST(phases_are_told_by_loader_autograd_and_optimizer),
        TEST(without_profiler_steps_the_rarest_optimizer_ends_a_step),
        TEST(where_nothing_marks_steps_all_of_the_file_is_one),
        TEST(memory_peaks_are_of_totals_where_there_are_any),
        TEST(memory_without_totals_is_summed_from_zero),
        TEST(a_file_without_memory_says_how_it_is_recorded),
        TEST(a_file_without_events_leaves_no_session_behind),
        TEST(what_is_of_another_program_is_said_to_be_with_what_it_has),
        TEST(ops_of_the_exporter_without_categories_are_ops),
        TEST(an_iterator_over_workers_tells_that_there_are_some_but_not_how_many),
        TEST(a_kernel_of_few_blocks_leaves_the_rest_of_a_files_device_unused),
        TEST(a_file_that_finds_no_room_leaves_the_ranks_before_it),
        TEST(what_a_device_did_behind_a_cut_is_not_said_to_be_known),
        TEST(what_no_longer_fits_is_counted_and_the_way_out_is_said),
        TEST(stamps_at_the_ends_of_time_are_skipped_and_counted),
        TEST(a_base_time_that_leaves_the_range_of_stamps_is_left_out_and_said),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
