/* Work that its neighbour makes needless, and modules: each rule on numbers made by hand, and
 * the healthy job beside it. */
#include "unit/rule_summary.h"

static struct gpu_device device;

/* It computes for 60 of 100 ms, and idles for launches and copies in 15 more. */
static void put_device(void)
{
    give_device(&device, 60 * MS);
    device.idle_ns[GPU_IDLE_LAUNCH] = 4 * MS;
    device.idle_ns[GPU_IDLE_COPY] = 4 * MS;
}

static void a_bias_before_a_batch_norm_costs_what_the_device_adds_it_for(void **state)
{
    (void)state;
    struct op_needless *bias = &summary.cpu.needless[NEEDLESS_BIAS];

    put_device();
    *bias = (struct op_needless){.count = 20, .host_ns = 1 * MS, .device_ns = 10 * MS};
    const struct finding *finding = find("convolution-bias");

    assert_true(fabs(finding->ns_per_step - 6 * MS) < 1);
    assert_true(isnan(finding->low_ns) || finding->low_ns <= 6 * MS);
    assert_non_null(strstr(finding->advice[0], "bias=False"));
    assert_non_null(strstr(finding->sentence, "20 additions of a bias"));
    assert_int_equal(finding->claims[0].kind, CLAIM_WORK);
    bias->device_ns = 4 * MS; /* a fortieth of the step */
    assert_false(is_found("convolution-bias"));
    bias->device_ns = 10 * MS;
    device.use_ns[GPU_COMPUTE] = 40 * MS; /* the host is what the step waits for */
    assert_false(is_found("convolution-bias"));
    summary.gpu.device_count = 0; /* on the CPU it is added within the convolution */
    assert_false(is_found("convolution-bias"));
}

static void tensors_made_on_the_host_cost_what_the_device_waits_for_them(void **state)
{
    (void)state;
    struct op_needless *made = &summary.cpu.needless[NEEDLESS_COPY];

    put_device();
    assert_false(is_found("made-on-host"));
    *made = (struct op_needless){.count = 10, .host_ns = 6.1 * MS, .device_ns = 1 * MS};
    const struct finding *finding = find("made-on-host");

    assert_true(fabs(finding->ns_per_step - 6 * MS) < 1);
    assert_non_null(strstr(finding->advice[0], "device=device"));
    made->host_ns = 30 * MS; /* and the device has work meanwhile */
    assert_true(fabs(find("made-on-host")->ns_per_step - 8 * MS) < 1);
    device.idle_ns[GPU_IDLE_LAUNCH] = device.idle_ns[GPU_IDLE_COPY] = 1 * MS;
    assert_false(is_found("made-on-host"));
    summary.gpu.device_count = 0;
    assert_false(is_found("made-on-host"));
}

static void a_module_with_a_third_of_the_step_is_pointed_at_and_not_priced(void **state)
{
    (void)state;
    struct op_module *module = &summary.cpu.module;

    *module =
        (struct op_module){.name = "Net_0.Attention_1", .host_ns = 40 * MS, .count = 5};
    const struct finding *finding = find("dominant-module-");

    assert_true(finding->open && finding->ns_per_step == 0);
    assert_non_null(strstr(finding->title, "`Attention_1`"));
    assert_string_equal(finding->evidence[0].text, "Net_0.Attention_1");
    module->count = 2; /* of two one has more as a matter of course */
    assert_false(is_found("dominant-module"));
    module->count = 5;
    module->host_ns = 25 * MS;
    assert_false(is_found("dominant-module"));
    put_device();
    module->host_ns = 40 * MS; /* beside a device its time decides */
    module->device_share = 0.4;
    assert_false(is_found("dominant-module"));
    module->device_share = 0.6;
    assert_true(is_found("dominant-module"));
    device.use_ns[GPU_COMPUTE] = 40 * MS; /* the host is what the step waits for */
    assert_false(is_found("dominant-module"));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(a_bias_before_a_batch_norm_costs_what_the_device_adds_it_for),
        TEST(tensors_made_on_the_host_cost_what_the_device_waits_for_them),
        TEST(a_module_with_a_third_of_the_step_is_pointed_at_and_not_priced),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
