/* What a file's tables say beside their numbers: whose device it is, what is not whole. */
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
#include "ingest/file/parts.h"
#include "query/gpu_query.h"
#include "query/ops_query.h"

#define EVENT(category, name, ts, arguments)                                           \
    "{\"ph\":\"X\",\"cat\":\"" category "\",\"name\":\"" name                          \
    "\",\"pid\":5,\"tid\":5,\"ts\":" #ts ",\"dur\":10,\"args\":{" arguments "}}"
#define OP EVENT("cpu_op", "aten::mm", 0, "")

static struct store *store;
static struct file_result result;

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

static void load(const char *events)
{
    char path[] = "/tmp/trainglass-test-XXXXXX";
    int descriptor = mkstemp(path);
    struct file_request request = {.path = path, .session = "t-said"};

    assert_true(descriptor >= 0);
    dprintf(descriptor, "{\"traceEvents\":[%s]}", events);
    close(descriptor);
    assert_int_equal(file_load(store, &request, &result), 0);
    unlink(path);
}

static void assert_device(const char *events, const char *name)
{
    struct selection whose = {.rank = SELECT_ANY};
    struct gpu_request request = {0};
    struct gpu_answer answer;

    load(events);
    assert_int_equal(gpu_query(store, &whose, &request, &answer), 0);
    assert_int_equal(answer.device_count, 1);
    assert_string_equal(answer.devices[0].device, name);
    answer_free(&answer.head);
    file_forget(store, "t-said");
}

static void
work_is_of_the_kind_of_device_that_its_calls_or_its_category_name(void **state)
{
    (void)state;
#define KERNEL(category)                                                               \
    EVENT(category, "gemm", 20, "\"device\":1,\"stream\":7,\"correlation\":3")
#define CALL(category) EVENT(category, "launch", 2, "\"correlation\":3")
    assert_device(OP "," CALL("cuda_runtime") "," KERNEL("kernel"), "cuda:1");
    assert_device(OP "," CALL("hip_runtime") "," KERNEL("kernel"), "cuda:1");
    assert_device(OP "," CALL("xpu_runtime") "," KERNEL("kernel"), "xpu:1");
    assert_device(KERNEL("gpu_memcpy") "," OP "," CALL("xpu_driver"), "xpu:1");
    assert_device(OP "," KERNEL("hpu_op"), "hpu:1");
    assert_device(OP "," KERNEL("mtia_ccp_events"), "mtia:1");
    assert_device(OP "," CALL("musa_runtime") "," KERNEL("kernel"), "privateuseone:1");
    assert_device(OP "," CALL("Runtime") "," KERNEL("Kernel"), "cuda:1");
    assert_device(OP "," KERNEL("kernel"), "cuda:1");
}

static void what_is_in_the_tables_and_not_whole_is_counted(void **state)
{
    (void)state;
    load(OP "," CALL("cuda_runtime") "," KERNEL("kernel"));
    for (int i = 0; i < FILE_REMARKS; i++)
        assert_int_equal(result.remarks[i], 0);
    file_forget(store, "t-said");
    load(OP "," CALL("cuda_runtime") "," KERNEL("kernel") "," EVENT(
        "kernel", "b", 40,
        "\"device\":1,\"stream\":7,\"correlation\":9") "," EVENT("kernel", "c", 60,
                                                                 "\"device\":"
                                                                 "1,"
                                                                 "\"stream\":"
                                                                 "7") "," EVENT("cpu_"
                                                                                "op",
                                                                                "aten::"
                                                                                "add",
                                                                                80,
                                                                                "\"Exte"
                                                                                "rnal "
                                                                                "id\":"
                                                                                "\"none"
                                                                                "\""));
    assert_int_equal(result.remarks[FILE_REMARK_UNLINKED], 2);
    assert_int_equal(result.remarks[FILE_REMARK_VALUES], 1);
    assert_int_equal(result.remarks[FILE_REMARK_NAMES], 0);
}

/* The one process of the file's session. */
static const struct process *loaded(void)
{
    return store->sessions[store->session_count - 1]->processes;
}

#define LAUNCHED(name, ts, correlation)                                                \
    EVENT("cuda_runtime", name, ts, "\"correlation\":" #correlation)
#define RAN(ts, correlation)                                                           \
    EVENT("kernel", "gemm", ts,                                                        \
          "\"device\":0,\"stream\":7,\"correlation\":" #correlation)

static void launches_whose_kernels_are_not_in_the_file_are_counted(void **state)
{
    (void)state;
    load(OP "," LAUNCHED("cudaLaunchKernel", 2, 3) "," RAN(20, 3) "," LAUNCHED(
        "cudaLaunchKernel", 1000,
        4) "," LAUNCHED("cudaGraphLaunch", 1100,
                        5) "," LAUNCHED("cudaLaunchHostFunc", 1200,
                                        6) "," LAUNCHED("cudaMemcpyAsync", 1300,
                                                        7) "," OP);
    assert_int_equal(result.remarks[FILE_REMARK_LOST], 2);
    assert_int_equal(loaded()->lost, 2);
    assert_int_equal(loaded()->gpu.tables[0]->run.idle_ns[GPU_IDLE_UNKNOWN], 300000);
    file_forget(store, "t-said");
}

static void launches_into_a_graph_that_is_captured_have_lost_nothing(void **state)
{
    (void)state;
    load(OP "," LAUNCHED("cudaStreamBeginCapture", 100, 1) "," LAUNCHED(
        "cudaLaunchKernel", 120, 2) "," LAUNCHED("cudaStreamEndCapture", 140,
                                                 3) "," LAUNCHED("cudaGraphLaunch", 200,
                                                                 4) "," RAN(215, 4));
    assert_int_equal(result.remarks[FILE_REMARK_LOST], 0);
    file_forget(store, "t-said");
}

static void captures_within_and_beside_each_other_are_each_known(void **state)
{
    static struct file file = {.result = &result};
    struct gpu_span captures[] = {{10, 20}, {12, 14}, {10, 15}, {30, 60}, {40, 70}};
    struct gpu_span lost[] = {{11, 19}, {13, 21}, {25, 26},
                              {41, 69}, {31, 59}, {65, 71}};

    (void)state;
    file.captures = (struct file_list){captures, 5, 5};
    file.lost = (struct file_list){lost, 6, 6};
    file_count_unlinked(&file);
    assert_int_equal(file.lost.count, 3);
    assert_int_equal(lost[0].start_ns, 13);
    assert_int_equal(lost[1].start_ns, 25);
    assert_int_equal(lost[2].start_ns, 65);
    result.remarks[FILE_REMARK_LOST] = 0;
}

static void streams_beyond_those_that_have_room_are_counted(void **state)
{
    char text[160 * 70], *at = text;

    (void)state;
    for (int i = 0; i < 66; i++)
        at += snprintf(
            at, (size_t)(text + sizeof(text) - at),
            "%s" EVENT("kernel", "gemm", 20, "\"device\":0,\"stream\":\"0x7f00%08x\""),
            i == 0 ? "" : ",", i * 16);
    load(text);
    assert_int_equal(result.remarks[FILE_REMARK_STREAMS], 2);
    file_forget(store, "t-said");
}

static void kernels_without_a_correlation_are_not_taken_for_lost_ones(void **state)
{
    (void)state;
    load(OP "," LAUNCHED("cudaLaunchKernel", 2, 3) "," EVENT(
        "kernel", "gemm", 20, "\"device\":0,\"stream\":7"));
    assert_int_equal(result.remarks[FILE_REMARK_LOST], 0);
    file_forget(store, "t-said");
}

static void a_file_with_launches_and_no_device_events_says_so(void **state)
{
    (void)state;
    load(OP
         "," LAUNCHED("hipLaunchKernel", 2, 3) "," LAUNCHED("hipLaunchKernel", 20, 4));
    assert_int_equal(result.remarks[FILE_REMARK_LOST], 2);
    assert_string_equal(
        texts_get(loaded()->texts, loaded()->capabilities[WIRE_SOURCE_CUPTI].reason),
        "the file has launches of kernels, but no device events");
    file_forget(store, "t-said");
}

#define COPY(ts, arguments)                                                            \
    EVENT("gpu_memcpy", "Memcpy HtoD (Host -> Device)", ts, "\"device\":0," arguments)

static void bytes_of_a_copy_are_its_own_or_its_calls_or_not_known(void **state)
{
    const struct gpu_moves *moves;

    (void)state;
    load(OP "," EVENT(
        "cuda_runtime", "hipMemcpyAsync", 2,
        "\"correlation\":3,\"size\":\"4096\"") "," COPY(20, "\"correlation\":"
                                                            "3") "," COPY(40, "\"c"
                                                                              "orr"
                                                                              "ela"
                                                                              "tio"
                                                                              "n\""
                                                                              ":4,"
                                                                              "\"b"
                                                                              "yte"
                                                                              "s\""
                                                                              ":"
                                                                              "8"));
    moves = &loaded()->gpu.tables[0]->work.copies[EVENT_COPY_H2D][GPU_SIDE_UNKNOWN];
    assert_int_equal(moves->bytes, 4104);
    assert_int_equal(moves->unsized, 0);
    file_forget(store, "t-said");
    load(OP "," COPY(20, "\"correlation\":3") "," COPY(40, "\"bytes\":8"));
    moves = &loaded()->gpu.tables[0]->work.copies[EVENT_COPY_H2D][GPU_SIDE_UNKNOWN];
    assert_int_equal(moves->bytes, 8);
    assert_int_equal(moves->unsized, 1);
    file_forget(store, "t-said");
}

#define ON(ts, stream) EVENT("kernel", "gemm", ts, "\"device\":0,\"stream\":" stream)

static void streams_that_are_pointers_are_numbered_and_keep_their_label(void **state)
{
    const struct gpu_work *work;

    (void)state;
    load(OP "," ON(20, "\"0x7f3a5c0012b0\"") "," ON(40, "\"0x0\"") "," ON(
        60,
        "\"0x7f3a5c0012c0\"") "," ON(80,
                                     "\"0x7f3a5c0012b0\"") "," EVENT("cuda_runtime",
                                                                     "hipLaunchKernel",
                                                                     2,
                                                                     "\"correlation\":"
                                                                     "3,\"stream\":"
                                                                     "\"0x7f3a5c0012b0"
                                                                     "\""));
    work = &loaded()->gpu.tables[0]->work;
    assert_int_equal(result.remarks[FILE_REMARK_VALUES], 0);
    assert_int_equal(work->stream_count, 3);
    assert_int_equal(work->streams[0].works, 2);
    assert_int_equal(work->streams[1].id, 0);
    assert_true(
        loaded()->gpu.stream_addresses[work->streams[0].id - GPU_STREAM_LABELS] ==
        UINT64_C(0x7f3a5c0012b0));
    file_forget(store, "t-said");
}

/* Of the calls of one name some wait for their copy: two rows, each with its own. */
static void device_time_of_a_call_is_that_of_its_row_alone(void **state)
{
    static const char events[] = OP "," EVENT("cuda_runtime", "hipMemcpyWithStream", 2, "\"correlation\":3") "," EVENT(
        "gpu_memcpy", "Memcpy HtoD (Host -> Device)", 20,
        "\"correlation\":3") "," EVENT("cuda_runtime", "hipMemcpyWithStream", 40,
                                       "\"correlation\":4") "," EVENT("gpu_memcpy",
                                                                      "Memcpy DtoH "
                                                                      "(Device -> "
                                                                      "Host)",
                                                                      60,
                                                                      "\"correlation\":"
                                                                      "4") "," EVENT("g"
                                                                                     "p"
                                                                                     "u"
                                                                                     "_"
                                                                                     "m"
                                                                                     "e"
                                                                                     "m"
                                                                                     "c"
                                                                                     "p"
                                                                                     "y",
                                                                                     "M"
                                                                                     "e"
                                                                                     "m"
                                                                                     "c"
                                                                                     "p"
                                                                                     "y"
                                                                                     " "
                                                                                     "D"
                                                                                     "t"
                                                                                     "o"
                                                                                     "H"
                                                                                     " "
                                                                                     "("
                                                                                     "D"
                                                                                     "e"
                                                                                     "v"
                                                                                     "i"
                                                                                     "c"
                                                                                     "e"
                                                                                     " "
                                                                                     "-"
                                                                                     ">"
                                                                                     " "
                                                                                     "H"
                                                                                     "o"
                                                                                     "s"
                                                                                     "t"
                                                                                     ")",
                                                                                     80,
                                                                                     "\"correlation\":4");
    struct selection whose = {.rank = SELECT_ANY};
    struct ops_request request = {.device = OPS_CPU};
    struct ops_answer answer;
    uint32_t rows = 0;

    (void)state;
    load(events);
    assert_int_equal(ops_query(store, &whose, &request, &answer), 0);
    for (uint32_t i = 0; i < answer.row_count; i++) {
        const struct op_row *row = &answer.rows[i];

        if (strcmp(row->name, "hipMemcpyWithStream") != 0)
            continue;
        rows++;
        assert_true(row->device_total_ns ==
                    (strcmp(row->kind, "sync") == 0 ? 20000 : 10000));
    }
    assert_int_equal(rows, 2);
    answer_free(&answer.head);
    file_forget(store, "t-said");
}

static void stamps_far_from_all_others_are_left_out_of_the_span(void **state)
{
    char events[4096] = "";
    size_t used = 0;

    (void)state;
    for (int i = 0; i < 8; i++)
        used += (size_t)snprintf(
            events + used, sizeof(events) - used,
            "{\"ph\":\"X\",\"cat\":\"%s\",\"name\":\"gemm\",\"pid\":5,\"tid\":5,"
            "\"ts\":%lld,\"dur\":10,\"args\":{\"device\":0,\"stream\":7}}%s",
            i % 2 == 0 ? "kernel" : "cpu_op",
            i == 2   ? 0LL
            : i == 5 ? 1900000000000000LL
                     : 1700000000000000LL + i * 100,
            i < 7 ? "," : "");
    load(events);
    assert_int_equal(result.skipped[FILE_SKIP_STRAY], 2);
    assert_int_equal(result.taken, 6);
    assert_int_equal(result.span_ns, 710 * 1000);
    assert_int_equal(gpu_idle_ns(&loaded()->gpu.tables[0]->run) +
                         gpu_busy_ns(&loaded()->gpu.tables[0]->run),
                     710 * 1000);
    file_forget(store, "t-said");
}

static void a_pause_of_minutes_is_no_reason_to_leave_events_out(void **state)
{
    (void)state;
    load(EVENT("cpu_op", "aten::mm", 0, "") "," EVENT(
        "cpu_op", "aten::mm", 50,
        "") "," EVENT("cpu_op", "aten::mm", 500000000,
                      "") "," EVENT("cpu_op", "aten::mm", 503000000,
                                    "") "," EVENT("cpu_op", "aten::mm", 506000000,
                                                  "") "," EVENT("cpu_op", "aten::mm",
                                                                509000000, ""));
    assert_int_equal(result.skipped[FILE_SKIP_STRAY], 0);
    assert_int_equal(result.taken, 6);
    file_forget(store, "t-said");
}

static void pass_by(void *user, const struct file_paths *paths)
{
    (void)user;
    (void)paths;
}

static void
marks_beyond_their_share_of_the_memory_are_counted_and_the_rest_is_read(void **state)
{
    enum { RANGES = 3000 };
    char path[] = "/tmp/trainglass-test-XXXXXX";
    struct file_request request = {.path = path, .max_bytes = 256 * 1024};
    FILE *file = fdopen(mkstemp(path), "w");

    (void)state;
    assert_non_null(file);
    fputs("{\"traceEvents\":[" OP, file);
    for (int i = 0; i < RANGES; i++)
        fprintf(file,
                ",\n{\"ph\":\"X\",\"cat\":\"user_annotation\",\"name\":"
                "\"Optimizer.step#SGD.step\",\"pid\":5,\"tid\":5,\"ts\":%d,"
                "\"dur\":5}",
                20 + i * 10);
    fputs("]}", file);
    fclose(file);
    assert_int_equal(file_load(store, &request, &result), 0);
    unlink(path);
    assert_int_equal(result.taken, RANGES + 1);
    assert_in_range(result.remarks[FILE_REMARK_MARKS], RANGES / 3, RANGES - 1);
}

static void
ops_whose_sequence_number_finds_no_room_are_told_from_marks_of_steps(void **state)
{
    enum { OPS = 3000 };
    char path[] = "/tmp/trainglass-test-XXXXXX";
    struct file_request request = {.path = path,
                                   .max_bytes = 256 * 1024,
                                   .options = {.stacks = true},
                                   .groups = 1u << GROUP_STACK,
                                   .link_backward = true,
                                   .on_paths = pass_by};
    FILE *file = fdopen(mkstemp(path), "w");

    (void)state;
    assert_non_null(file);
    fputs("{\"traceEvents\":[" OP, file);
    for (int i = 0; i < OPS; i++)
        fprintf(file,
                ",\n{\"ph\":\"X\",\"cat\":\"cpu_op\",\"name\":\"aten::mm\",\"pid\":5,"
                "\"tid\":5,\"ts\":%d,\"dur\":5,\"args\":{\"Sequence number\":%d}}",
                20 + i * 10, i);
    fputs("]}", file);
    fclose(file);
    assert_int_equal(file_load(store, &request, &result), 0);
    unlink(path);
    assert_true(result.remarks[FILE_REMARK_SEQUENCES] > 0);
    assert_int_equal(result.remarks[FILE_REMARK_MARKS], 0);
    assert_non_null(strstr(file_remark_text(FILE_REMARK_SEQUENCES), "sequence number"));
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, begin, end)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(work_is_of_the_kind_of_device_that_its_calls_or_its_category_name),
        TEST(what_is_in_the_tables_and_not_whole_is_counted),
        TEST(launches_whose_kernels_are_not_in_the_file_are_counted),
        TEST(launches_into_a_graph_that_is_captured_have_lost_nothing),
        TEST(captures_within_and_beside_each_other_are_each_known),
        TEST(streams_beyond_those_that_have_room_are_counted),
        TEST(kernels_without_a_correlation_are_not_taken_for_lost_ones),
        TEST(a_file_with_launches_and_no_device_events_says_so),
        TEST(stamps_far_from_all_others_are_left_out_of_the_span),
        TEST(a_pause_of_minutes_is_no_reason_to_leave_events_out),
        TEST(bytes_of_a_copy_are_its_own_or_its_calls_or_not_known),
        TEST(streams_that_are_pointers_are_numbered_and_keep_their_label),
        TEST(device_time_of_a_call_is_that_of_its_row_alone),
        TEST(marks_beyond_their_share_of_the_memory_are_counted_and_the_rest_is_read),
        TEST(ops_whose_sequence_number_finds_no_room_are_told_from_marks_of_steps),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
