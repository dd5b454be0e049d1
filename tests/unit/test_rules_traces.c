/* Rules over what trace files of the world tell in few words: how ranks share the model,
 * which device it is, whose memory is copied. */
#include "rule_summary.h"

static struct gpu_device device;

/* It computes for 70 of 100 ms and waits for the host in the rest. */
static void put_device(void)
{
    give_device(&device, 70 * MS);
    device.idle_ns[GPU_IDLE_LAUNCH] = 20 * MS;
    device.idle_ns[GPU_IDLE_PYTHON] = 10 * MS;
}

/* In any finding. */
static bool is_advised(const char *words)
{
    for (uint32_t i = 0; i < findings.count; i++)
        for (uint32_t k = 0; k < findings.list[i].advice_count; k++)
            if (strstr(findings.list[i].advice[k], words) != NULL)
                return true;
    return false;
}

static void what_only_ddp_has_is_advised_to_nobody_else(void **state)
{
    static const char *const wrappers[] = {"FSDP", "DataParallel", ""};
    static const char *const words[] = {"find_unused_parameters", "bucket_cap_mb",
                                        "no_sync()", "register_comm_hook"};

    (void)state;
    put_device();
    device.use_ns[GPU_COMMUNICATION] = 20 * MS;
    device.idle_ns[GPU_IDLE_COLLECTIVE] = 20 * MS;
    summary.cuda.family_ns[KERNEL_COLLECTIVE] = 16 * MS;
    summary.cuda.family_count[KERNEL_COLLECTIVE] = 800;
    text(FACT_DISTRIBUTED_WRAPPER, "DDP");
    assert_true(is_found("exposed-communication") && is_found("small-collectives") &&
                is_found("collective-wait"));
    for (size_t k = 0; k < sizeof(words) / sizeof(words[0]); k++)
        assert_true(is_advised(words[k]));
    for (size_t i = 0; i < sizeof(wrappers) / sizeof(wrappers[0]); i++) {
        facts[0].text = wrappers[i];
        assert_true(is_found("exposed-communication") &&
                    is_found("small-collectives") && is_found("collective-wait"));
        for (size_t k = 0; k < sizeof(words) / sizeof(words[0]); k++)
            assert_false(is_advised(words[k]));
        assert_int_equal(is_advised("reshard_after_forward"), i == 0);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(what_only_ddp_has_is_advised_to_nobody_else),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
