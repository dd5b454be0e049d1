/* What is advised to users of a framework: the settings that they write. */
#include "findings/settings.h"
#include "unit/rule_summary.h"

static bool advises(const struct finding *finding, const char *part)
{
    for (uint32_t i = 0; i < finding->advice_count; i++)
        if (strstr(finding->advice[i], part) != NULL)
            return true;
    return false;
}

static const char *setting(const char *framework, enum setting which)
{
    struct rule_context context = {
        .summary = &summary, .train = &summary.steps.train, .findings = &findings};

    findings_free(&findings);
    summary.fact_count = 0;
    if (framework != NULL)
        text(FACT_FRAMEWORK, framework);
    return setting_text(&context, which, "4");
}

static void each_framework_has_its_own_word_for_the_number_of_workers(void **state)
{
    (void)state;
    assert_string_equal(setting(NULL, SETTING_WORKERS),
                        "`DataLoader(..., num_workers=4, persistent_workers=True)`");
    assert_string_equal(setting("transformers", SETTING_WORKERS),
                        "`TrainingArguments(dataloader_num_workers=4, "
                        "dataloader_persistent_workers=True)`");
    assert_string_equal(setting("ultralytics", SETTING_WORKERS),
                        "`model.train(..., workers=4)`");
    assert_non_null(strstr(setting("fastai", SETTING_WORKERS), "num_workers=4"));
    assert_non_null(
        strstr(setting("keras", SETTING_WORKERS), "PyDataset(workers=4, use_multi"));
}

static void
what_a_framework_leaves_to_torch_or_is_not_known_is_said_as_torch_has_it(void **state)
{
    (void)state;
    static const char *const plain[] = {"lightning", "accelerate", "ignite", "unheard"};

    for (size_t i = 0; i < sizeof(plain) / sizeof(plain[0]); i++)
        assert_string_equal(setting(plain[i], SETTING_WORKER_COUNT), "`num_workers=4`");
    assert_string_equal(setting("unheard", SETTING_BETWEEN),
                        "logging, metrics, checkpoints, `zero_grad`");
}

static void nobody_is_advised_a_setting_of_another_framework(void **state)
{
    (void)state;
    static const struct {
        const char *framework, *own;
    } words[] = {{"lightning", "ModelCheckpoint(every_n"},
                 {"transformers", "save_steps"},
                 {"ultralytics", "save_period"},
                 {"ignite", "Events."},
                 {"composer", "save_interval"},
                 {"deepspeed", "save_checkpoint"},
                 {"accelerate", "save_state"}};
    size_t count = sizeof(words) / sizeof(words[0]);

    for (size_t i = 0; i <= count; i++) {
        begin(state);
        summary.cpu.saving_ns = 8 * MS;
        summary.cpu.saving_count = 0.01;
        if (i < count)
            text(FACT_FRAMEWORK, words[i].framework);
        const struct finding *finding = find("checkpoints");

        for (size_t j = 0; j < count; j++)
            assert_int_equal(advises(finding, words[j].own), i == j);
        assert_int_equal(advises(finding, "Lightning"), i == 0);
    }
}

static void fused_updates_are_advised_as_the_trainer_takes_them(void **state)
{
    (void)state;
    summary.steps.train.phase_ns[EVENT_PHASE_OPTIMIZER] = 50 * MS;
    text(FACT_OPTIMIZER_CLASS, "AdamW");
    text(FACT_OPTIMIZER_DEVICE, "cpu");
    assert_true(advises(find("optimizer-loop"), "`AdamW(..., fused=True)`"));
    text(FACT_FRAMEWORK, "transformers");
    assert_true(advises(find("optimizer-loop"), "optim=\"adamw_torch_fused\""));
}

static void one_flat_tensor_and_a_compiled_update_are_no_loop(void **state)
{
    (void)state;
    summary.steps.train.phase_ns[EVENT_PHASE_OPTIMIZER] = 50 * MS;
    text(FACT_OPTIMIZER_CLASS, "AdamW");
    text(FACT_OPTIMIZER_DEVICE, "cpu");
    number(FACT_OPTIMIZER_PARAMETERS, 2);
    assert_true(is_found("optimizer-loop"));
    facts[summary.fact_count - 1].number = 1;
    assert_false(is_found("optimizer-loop"));
    facts[summary.fact_count - 1].number = 2;
    number(FACT_OPTIMIZER_COMPILED, 1);
    assert_false(is_found("optimizer-loop"));
}

static void what_a_framework_cannot_set_is_not_advised(void **state)
{
    (void)state;
    assert_string_equal(setting("ultralytics", SETTING_PREFETCH), "");
    assert_string_equal(setting(NULL, SETTING_CACHE), "");
    assert_non_null(strstr(setting("ultralytics", SETTING_CACHE), "cache=\"ram\""));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(each_framework_has_its_own_word_for_the_number_of_workers),
        TEST(what_a_framework_leaves_to_torch_or_is_not_known_is_said_as_torch_has_it),
        TEST(nobody_is_advised_a_setting_of_another_framework),
        TEST(fused_updates_are_advised_as_the_trainer_takes_them),
        TEST(one_flat_tensor_and_a_compiled_update_are_no_loop),
        TEST(what_a_framework_cannot_set_is_not_advised),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
