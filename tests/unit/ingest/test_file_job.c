/* What a trace file says of the job that it was recorded of. */
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
#include "findings/findings.h"
#include "ingest/file/file.h"
#include "query/bottlenecks_query.h"
#include "wire/facts.h"

static struct store *store;
static struct bottlenecks_answer answer;

#define X(cat, name, ts, more)                                                         \
    "{\"ph\":\"X\",\"cat\":\"" cat "\",\"name\":\"" name                               \
    "\",\"pid\":5,\"tid\":5,\"ts\":" #ts ",\"dur\":10" more "}"
#define OP(name, ts)    X("cpu_op", name, ts, "")
#define RANGE(name, ts) X("user_annotation", name, ts, "")
#define KERNEL(name, device, ts)                                                       \
    X("kernel", name, ts, ",\"args\":{\"device\":" #device ",\"stream\":7}")

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

/* `head`: keys before the list of events, each with its comma. Asks for the answer. */
static void load(const char *head, const char *events)
{
    char path[] = "/tmp/trainglass-test-XXXXXX";
    int descriptor = mkstemp(path);
    struct file_request request = {.path = path, .session = "t-job"};
    struct bottlenecks_request asked = {.k = 100};
    struct selection whose = {.rank = SELECT_ANY};
    struct file_result result;

    assert_true(descriptor >= 0);
    dprintf(descriptor, "{%s\"traceEvents\":[%s]}", head, events);
    close(descriptor);
    assert_int_equal(file_load(store, &request, &result), 0);
    unlink(path);
    assert_int_equal(bottlenecks_query(store, &whose, &asked, &answer), 0);
}

static void forget(void)
{
    bottlenecks_free(&answer);
    file_forget(store, "t-job");
}

/* NULL: the file says nothing of it. */
static const struct status_fact *fact(const char *key)
{
    for (uint32_t i = 0; i < answer.fact_count; i++)
        if (strcmp(answer.facts[i].key, key) == 0)
            return &answer.facts[i];
    return NULL;
}

/* "": nobody says. */
static void assert_wrapper(const char *events, const char *wrapper)
{
    load("", events);
    const struct status_fact *said = fact(FACT_DISTRIBUTED_WRAPPER);

    assert_string_equal(said == NULL ? "" : said->text, wrapper);
    forget();
}

static void ranges_and_modules_of_torch_tell_how_ranks_share_the_model(void **state)
{
    (void)state;
    assert_wrapper(OP("aten::mm", 0) "," RANGE("FSDP::pre_forward (layers.0)", 20),
                   "FSDP");
    assert_wrapper(OP("aten::mm", 0) "," RANGE("FullyShardedDataParallel.forward", 20),
                   "FSDP");
    assert_wrapper(OP("aten::mm", 0) "," RANGE("DistributedDataParallel.forward", 20),
                   "DDP");
    /* Shards in groups are replicated between these. */
    assert_wrapper(RANGE("DistributedDataParallel.forward",
                         0) "," RANGE("FSDP::root_pre_forward", 20),
                   "FSDP");
    assert_wrapper(OP("aten::mm", 0) "," RANGE("MyDataParallel.forward", 20), "");
}

static void data_parallel_is_one_process_with_several_devices(void **state)
{
    (void)state;
    assert_wrapper(RANGE("DataParallel.forward",
                         0) "," KERNEL("gemm", 0, 20) "," KERNEL("gemm", 1, 20),
                   "DataParallel");
    assert_wrapper(RANGE("DataParallel.forward", 0) "," KERNEL("gemm", 0, 20), "");
}

static void assert_loop(const char *events, const char *class, double foreach)
{
    load("", events);
    const struct status_fact *told = fact(FACT_OPTIMIZER_FOREACH);
    const struct status_fact *said = fact(FACT_OPTIMIZER_CLASS);

    assert_string_equal(said == NULL ? "" : said->text, class);
    assert_true(told == NULL ? isnan(foreach) : told->number == foreach);
    forget();
}

static void ops_tell_whether_an_optimizer_updates_tensors_together(void **state)
{
#define ADAM RANGE("Optimizer.step#AdamW.step", 0) ","
    (void)state;
    assert_loop(ADAM OP("aten::addcdiv_", 2), "AdamW", 0);
    assert_loop(ADAM OP("aten::_foreach_addcdiv_", 2), "AdamW", 1);
    /* Gradients are clipped together; and norms are fused. */
    assert_loop(ADAM OP("aten::addcdiv_", 2) "," OP("aten::_fused_rms_norm", 4),
                "AdamW", 0);
    assert_loop(ADAM OP("aten::addcdiv_", 2) "," OP("aten::_foreach_mul_", 4), "AdamW",
                0);
    assert_loop(ADAM OP("aten::_fused_adamw_", 2), "AdamW", 1);
    /* Kernels of its own; what is added elsewhere says nothing of them. */
    assert_loop(ADAM OP("aten::add_", 2), "", (double)NAN);
    assert_loop(RANGE("Optimizer.step#SGD.step", 0) "," OP("aten::add_", 2), "SGD", 0);
    /* A residual connection outside of it says nothing of the update. */
    assert_loop(RANGE("Optimizer.step#SGD.step", 0) "," OP("aten::add_", 200), "",
                (double)NAN);
    /* Compiled ones have neither. */
    load("", ADAM OP("aten::add_", 2) "," RANGE("Torch-Compiled Region", 4));
    assert_null(fact(FACT_OPTIMIZER_CLASS));
    forget();
#undef ADAM
}

static void who_gathers_and_scatters_and_never_reduces_holds_shards(void **state)
{
    (void)state;
#define GATHERS                                                                        \
    KERNEL("ncclDevKernel_AllGather_RING_LL(ncclDevKernelArgsStorage<4096ul>)", 0, 20)
#define SCATTERS RANGE("nccl:_reduce_scatter_base", 40)
    assert_wrapper(OP("aten::mm", 0) "," GATHERS "," SCATTERS, "FSDP");
    assert_wrapper(OP("aten::mm", 0) "," GATHERS, "");
    assert_wrapper(GATHERS "," SCATTERS "," OP("c10d::allreduce_", 60), "");
    assert_wrapper(OP("my::all_gather", 0) "," SCATTERS, "");
}

/* 0: nobody says. */
static void assert_devices(const char *head, const char *events, double count)
{
    load(head, events);
    const struct status_fact *said = fact(FACT_DEVICE_COUNT);

    assert_true(count == (said == NULL ? 0 : said->number));
    forget();
}

static void a_device_whose_work_was_not_recorded_is_known_to_be_there(void **state)
{
    (void)state;
#define TWO_LISTED                                                                     \
    "\"deviceProperties\":[{\"id\":0,\"name\":\"NVIDIA A100\"},"                       \
    "{\"id\":1,\"name\":\"NVIDIA A100\"}],"
#define MEMORY(type)                                                                   \
    "{\"ph\":\"i\",\"s\":\"t\",\"cat\":\"cpu_instant_event\",\"name\":\"[memory]\","   \
    "\"pid\":5,\"tid\":5,\"ts\":4,\"args\":{\"Device Type\":" #type                    \
    ",\"Device Id\":0,\"Bytes\":512}}"
    assert_devices(TWO_LISTED, OP("aten::cudnn_convolution", 0), 2);
    assert_devices("", OP("aten::mm", 0) "," MEMORY(1), 1);
    assert_devices(TWO_LISTED, OP("aten::mm", 0) "," MEMORY(1), 2);
    assert_devices("", X("cuda_runtime", "cudaLaunchKernel", 0, ""), 1);
    assert_devices("", KERNEL("gemm", 0, 20) "," KERNEL("gemm", 3, 20), 2);
}

static void a_job_on_the_cpu_has_no_device_though_its_machine_has_some(void **state)
{
    (void)state;
    assert_devices(TWO_LISTED, OP("aten::mm", 0) "," MEMORY(0), 0);
    assert_devices(TWO_LISTED, OP("aten::mm", 0), 0);
    assert_devices("", OP("aten::mm", 0) "," MEMORY(0), 0);
    assert_devices("\"deviceProperties\":[],", OP("aten::mm", 0), 0);
}

static void gloo_between_the_devices_of_a_file_is_found(void **state)
{
    static struct findings findings;
    bool found = false;

    (void)state;
    load("\"distributedInfo\":{\"backend\":\"gloo\",\"rank\":0,\"world_size\":2},",
         RANGE("ProfilerStep#1", 0) "," OP("aten::mm", 0) "," KERNEL("gemm", 0, 2));
    findings_find(&answer, NULL, &findings);
    for (uint32_t i = 0; i < findings.count; i++)
        found |= strncmp(findings.list[i].id, "gloo-on-gpus", 12) == 0;
    assert_true(found);
    findings_free(&findings);
    forget();
}

/* 0: it says that there are none, NaN nothing. */
static void assert_workers(const char *iterator, double workers, bool uncounted)
{
    char event[256];

    snprintf(event, sizeof(event),
             X("user_annotation", "enumerate(DataLoader)#%s", 0, ""), iterator);
    load("", event);
    const struct status_fact *said = fact(FACT_DATALOADER_WORKERS);

    assert_int_equal(said == NULL, isnan(workers));
    assert_true(said == NULL || said->number == workers);
    assert_int_equal(fact(FACT_DATALOADER_UNCOUNTED) != NULL, uncounted);
    forget();
}

static void iterators_of_torch_and_torchdata_tell_who_loads(void **state)
{
    (void)state;
    assert_workers("_SingleProcessDataLoaderIter.__next__", 0, false);
    assert_workers("_StatefulSingleProcessDataLoaderIter.__next__", 0, false);
    assert_workers("_MultiProcessingDataLoaderIter.__next__", (double)NAN, true);
    assert_workers("_StatefulMultiProcessingDataLoaderIter.__next__", (double)NAN,
                   true);
    assert_workers("MyIterator.__next__", (double)NAN, false);
}

static void assert_side(const char *copy, bool pageable, bool unknown)
{
    char event[256];

    snprintf(event, sizeof(event),
             X("gpu_memcpy", "%s", 0,
               ",\"args\":{\"device\":0,\"stream\":7,\"bytes\":4096}"),
             copy);
    load("", event);
    assert_int_equal(answer.gpu.device_count, 1);
    const struct gpu_run *run = &answer.gpu.devices[0].run;

    assert_int_equal(run->copy_count, 1);
    assert_int_equal(run->copies[0].pageable, pageable);
    assert_int_equal(run->copies[0].unknown, unknown);
    forget();
}

static void copies_of_rocm_do_not_tell_whether_the_host_side_is_pinned(void **state)
{
    (void)state;
    assert_side("Memcpy HtoD (Pageable -> Device)", true, false);
    assert_side("Memcpy HtoD (Pinned -> Device)", false, false);
    assert_side("Memcpy DtoH (Device -> Pinned)", false, false);
    assert_side("Memcpy HtoD (Host -> Device)", false, true);
    assert_side("Memcpy DtoH (Device -> Host)", false, true);
    assert_side("CopyHostToDevice", false, true);
    assert_side("Memcpy DtoD (Device -> Device)", false, false);
}

static void a_copy_of_less_than_no_bytes_is_of_unknown_size(void **state)
{
    (void)state;
    load("", X("gpu_memcpy", "Memcpy HtoD (Pinned -> Device)", 0,
               ",\"args\":{\"device\":0,\"stream\":7,\"bytes\":-5}"));
    assert_int_equal(answer.gpu.devices[0].run.copy_count, 1);
    assert_true(answer.gpu.devices[0].run.copies[0].unsized);
    assert_true(isnan(answer.gpu.devices[0].run.copies[0].bytes_per_s));
    forget();
}

/* A call and the copy that it launched: the row of the call is of that kind. */
static void assert_call(const char *call, const char *copy, const char *kind)
{
    char events[1024];

    snprintf(events, sizeof(events),
             OP("aten::item",
                0) ",{\"ph\":\"X\",\"cat\":\"hip_runtime\",\"name\":\"%s\","
                   "\"pid\":5,\"tid\":5,\"ts\":2,\"dur\":5,\"args\":{"
                   "\"correlation\":3}}," X("gpu_memcpy", "%s", 4,
                                            ",\"args\":{\"device\":0,\"stream\":7,"
                                            "\"bytes\":4,\"correlation\":3}"),
             call, copy);
    load("", events);
    for (uint32_t i = 0; i < answer.cpu.row_count; i++)
        if (strcmp(answer.cpu.rows[i].name, call) == 0)
            assert_string_equal(answer.cpu.rows[i].kind, kind);
    assert_int_equal(answer.cpu.row_count, 2);
    forget();
}

static void hips_copy_to_the_host_waits_for_the_device_in_its_call(void **state)
{
    (void)state;
    assert_call("hipMemcpyWithStream", "Memcpy DtoH (Device -> Host)", "sync");
    assert_call("hipMemcpyWithStream", "Memcpy HtoD (Host -> Device)", "runtime");
    assert_call("hipMemcpyAsync", "Memcpy DtoH (Device -> Host)", "runtime");
}

/* A copy of 10 us to the device, in a call of so many. */
static void a_copy_to_the_device_that_lasts_long_waits_for_earlier_work(void **state)
{
    static const struct {
        const char *call, *kind;
        int us;
    } calls[] = {{"hipMemcpyWithStream", "runtime", 900},
                 {"hipMemcpyWithStream", "sync", 5000},
                 {"hipMemcpyAsync", "runtime", 5000}};
    char events[512];

    (void)state;
    for (size_t i = 0; i < sizeof(calls) / sizeof(calls[0]); i++) {
        snprintf(
            events, sizeof(events),
            "{\"ph\":\"X\",\"cat\":\"cuda_runtime\",\"name\":\"%s\",\"pid\":5,"
            "\"tid\":5,\"ts\":2,\"dur\":%d,\"args\":{\"correlation\":3}}," X(
                "gpu_memcpy", "Memcpy HtoD (Host -> Device)", 4,
                ",\"args\":{\"device\":0,\"stream\":7,\"bytes\":4,\"correlation\":3}"),
            calls[i].call, calls[i].us);
        load("", events);
        assert_int_equal(answer.cpu.row_count, 1);
        assert_string_equal(answer.cpu.rows[0].kind, calls[i].kind);
        forget();
    }
}

static void a_file_in_which_nothing_is_trained_is_of_inference(void **state)
{
    static const char *const trained[] = {
        "autograd::engine::evaluate_function: MmBackward0", "MmBackward0",
        "aten::convolution_backward", "Optimizer.step#SGD.step"};
    char events[256];

    (void)state;
    load("", OP("aten::mm", 0) "," KERNEL("gemm", 0, 20));
    assert_non_null(fact(FACT_INFERENCE));
    forget();
    for (size_t i = 0; i < sizeof(trained) / sizeof(trained[0]); i++) {
        snprintf(events, sizeof(events), OP("aten::mm", 0) "," OP("%s", 20),
                 trained[i]);
        load("", events);
        assert_null(fact(FACT_INFERENCE));
        forget();
    }
    load("", KERNEL("my_kernel", 0, 20)); /* of a job without torch */
    assert_null(fact(FACT_INFERENCE));
    forget();
    load("", OP("aten::mm", 0) "," KERNEL("batch_norm_backward_kernel", 0, 20));
    assert_null(fact(FACT_INFERENCE));
    forget();
}

/* NaN: the file does not tell, or tells what cannot be. */
static void assert_occupancy(const char *told, const char *grid, double percent)
{
    char events[512];

    snprintf(events, sizeof(events),
             X("kernel", "gemm", 0,
               ",\"args\":{\"device\":0,\"stream\":7,\"grid\":[%s],\"block\":[128,1,1],"
               "\"est. achieved occupancy %%\":%s}"),
             grid, told);
    load("", events);
    assert_int_equal(answer.cuda.row_count, 1);
    double is = answer.cuda.rows[0].launch.occupancy_pct;

    assert_true(isnan(percent) ? isnan(is) : is == percent);
    forget();
}

static void an_occupancy_of_0_of_many_blocks_was_not_reckoned(void **state)
{
    (void)state;
    assert_occupancy("13", "600,4,1", 13);
    assert_occupancy("0", "600,4,1", (double)NAN);
    assert_occupancy("0", "4294967295,4294967295,4294967295", (double)NAN);
    assert_occupancy("0", "2,1,1", 0); /* so few that it rounds to that */
}

/* Of a file whose steps are half of it. */
static void a_share_is_of_all_that_the_file_counts(void **state)
{
    (void)state;
    load("", RANGE("ProfilerStep#1", 0) "," OP("aten::mm", 0) "," OP("aten::mm", 10));
    assert_int_equal(answer.cpu.row_count, 1);
    assert_true(fabs(answer.cpu.rows[0].share - 1) < 1e-3);
    forget();
}

static void a_last_step_without_an_op_is_none(void **state)
{
    (void)state;
    load("", RANGE("ProfilerStep#1", 0) "," OP("aten::mm", 0) "," RANGE(
                 "ProfilerStep#2", 10) "," OP("aten::mm",
                                              10) "," RANGE("ProfilerStep#3", 20));
    assert_int_equal(answer.steps.train.count, 2);
    forget();
    load("", RANGE("ProfilerStep#1", 0) "," RANGE("ProfilerStep#2", 10)); /* none has */
    assert_int_equal(answer.steps.train.count, 2);
    forget();
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, begin, end)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(ranges_and_modules_of_torch_tell_how_ranks_share_the_model),
        TEST(data_parallel_is_one_process_with_several_devices),
        TEST(ops_tell_whether_an_optimizer_updates_tensors_together),
        TEST(who_gathers_and_scatters_and_never_reduces_holds_shards),
        TEST(a_device_whose_work_was_not_recorded_is_known_to_be_there),
        TEST(a_job_on_the_cpu_has_no_device_though_its_machine_has_some),
        TEST(gloo_between_the_devices_of_a_file_is_found),
        TEST(iterators_of_torch_and_torchdata_tell_who_loads),
        TEST(copies_of_rocm_do_not_tell_whether_the_host_side_is_pinned),
        TEST(a_copy_of_less_than_no_bytes_is_of_unknown_size),
        TEST(hips_copy_to_the_host_waits_for_the_device_in_its_call),
        TEST(a_copy_to_the_device_that_lasts_long_waits_for_earlier_work),
        TEST(a_file_in_which_nothing_is_trained_is_of_inference),
        TEST(an_occupancy_of_0_of_many_blocks_was_not_reckoned),
        TEST(a_share_is_of_all_that_the_file_counts),
        TEST(a_last_step_without_an_op_is_none),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
