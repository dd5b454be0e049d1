#include "findings/settings.h"

#include <string.h>

#define ASYNC_SAVE                                                                     \
    "`torch.distributed.checkpoint.async_save` (torch 2.3 on; it wants a backend for " \
    "the CPU, such as `\"cpu:gloo,cuda:nccl\"`, and writes a folder), or a thread "    \
    "that writes a copy"

/* It knows no other type. */
#define ULTRALYTICS_AMP                                                                \
    "`model.train(..., amp=True)`, which is float16 with a gradient scaler"

/* Of no framework: PyTorch itself, and what a framework leaves to it. The names are those of
 * trainglass/_framework.py. NULL: as PyTorch; "": there is no such setting.
 * NOLINTBEGIN(bugprone-suspicious-missing-comma): with designators it would not compile. */
static const struct {
    const char *framework;
    const char *texts[SETTINGS];
} table[] = {
    {"",
     {[SETTING_WORKERS] = "`DataLoader(..., num_workers=#, persistent_workers=True)`",
      [SETTING_WORKER_COUNT] = "`num_workers=#`",
      [SETTING_PREFETCH] = "`prefetch_factor=#`",
      [SETTING_PERSISTENT] = "`persistent_workers=True`",
      [SETTING_PIN_MEMORY] = "`DataLoader(..., pin_memory=True)`",
      [SETTING_CACHE] = "",
      [SETTING_BATCH_SIZE] = "`DataLoader(..., batch_size=#)`",
      [SETTING_LENGTHS] = "",
      [SETTING_COMPILE] = "`model = torch.compile(model)`",
      [SETTING_COMPILE_GRAPHS] =
          "`model = torch.compile(model, mode=\"reduce-overhead\")`",
      [SETTING_BFLOAT16] = "`with torch.autocast(\"cuda\", dtype=torch.bfloat16):` "
                           "around the forward pass and the loss",
      [SETTING_FLOAT16] =
          "`with torch.autocast(\"cuda\", dtype=torch.float16):` around the forward "
          "pass; then `scaler.scale(loss).backward()`, `scaler.step(optimizer)` and "
          "`scaler.update()` of `scaler = "
          "torch.amp.GradScaler(\"cuda\")`" SCALER_BEFORE,
      [SETTING_FUSED] = "`#(..., fused=True)`",
      [SETTING_LOGGING] = "Log and save every n-th step: `if step % 50 == 0:`",
      [SETTING_CHECKPOINTS] = "Save less often: `if step % 1000 == 0:`",
      [SETTING_ASYNC_SAVE] = ASYNC_SAVE,
      [SETTING_VALIDATION] = "",
      [SETTING_LOOP] = "",
      [SETTING_BETWEEN] = "logging, metrics, checkpoints, `zero_grad`"}},
    {"accelerate",
     {[SETTING_COMPILE] = "`Accelerator(dynamo_backend=\"inductor\")`",
      [SETTING_COMPILE_GRAPHS] =
          "`Accelerator(dynamo_plugin=TorchDynamoPlugin(backend=\"inductor\", "
          "mode=\"reduce-overhead\"))`",
      [SETTING_BFLOAT16] = "`Accelerator(mixed_precision=\"bf16\")`",
      [SETTING_FLOAT16] = "`Accelerator(mixed_precision=\"fp16\")`",
      [SETTING_LOGGING] = "Log every n-th step: `if step % 50 == 0: "
                          "accelerator.log(...)`, and gather metrics no more often",
      [SETTING_CHECKPOINTS] =
          "Save less often: `if step % 1000 == 0: accelerator.save_state(...)`"}},
    {"composer",
     {[SETTING_BATCH_SIZE] = "`DataLoader(..., batch_size=#)` (with "
                             "`Trainer(device_train_microbatch_size=...)` in parts)",
      [SETTING_COMPILE] = "`Trainer(compile_config={})`",
      [SETTING_COMPILE_GRAPHS] =
          "`Trainer(compile_config={\"mode\": \"reduce-overhead\"})`",
      [SETTING_BFLOAT16] = "`Trainer(precision=\"amp_bf16\")`",
      [SETTING_FLOAT16] = "`Trainer(precision=\"amp_fp16\")`",
      [SETTING_LOGGING] =
          "`Trainer(progress_bar=False, console_log_interval=\"50ba\")`, "
          "and callbacks that work every n-th batch",
      [SETTING_CHECKPOINTS] =
          "`Trainer(save_interval=\"1000ba\")`, or a larger number there",
      [SETTING_VALIDATION] = "`Trainer(eval_interval=\"2ep\")`",
      [SETTING_LOOP] = "Composer's loop",
      [SETTING_BETWEEN] = "Composer's own loop, algorithms, callbacks, loggers"}},
    {"deepspeed",
     {[SETTING_BATCH_SIZE] =
          "`\"train_micro_batch_size_per_gpu\": #` in DeepSpeed's JSON",
      [SETTING_COMPILE] = "`engine.compile()`",
      [SETTING_COMPILE_GRAPHS] =
          "`engine.compile(compile_kwargs={\"mode\": \"reduce-overhead\"})`",
      [SETTING_BFLOAT16] = "`\"bf16\": {\"enabled\": true}` in DeepSpeed's JSON",
      [SETTING_FLOAT16] = "`\"fp16\": {\"enabled\": true}` in DeepSpeed's JSON",
      [SETTING_LOGGING] =
          "A larger `\"steps_per_print\"` and no `\"wall_clock_breakdown\"` in "
          "DeepSpeed's JSON; log every n-th step: `if step % 50 == 0:`",
      [SETTING_CHECKPOINTS] =
          "Save less often: `if step % 1000 == 0: engine.save_checkpoint(...)`",
      [SETTING_BETWEEN] = "DeepSpeed's own work, logging, metrics, checkpoints"}},
    {"fabric",
     {[SETTING_BFLOAT16] = "`Fabric(precision=\"bf16-mixed\")`",
      [SETTING_FLOAT16] = "`Fabric(precision=\"16-mixed\")`",
      [SETTING_LOGGING] = "Log every n-th step: `if step % 50 == 0: fabric.log(...)`",
      [SETTING_CHECKPOINTS] =
          "Save less often: `if step % 1000 == 0: fabric.save(...)`"}},
    {"fastai",
     {[SETTING_WORKERS] = "`dataloaders(..., num_workers=#, persistent_workers=True)`",
      [SETTING_PIN_MEMORY] = "`dataloaders(..., pin_memory=True)`",
      [SETTING_BATCH_SIZE] = "`dataloaders(..., bs=#)`",
      [SETTING_COMPILE] = "`learn.model = torch.compile(learn.model)`",
      [SETTING_COMPILE_GRAPHS] =
          "`learn.model = torch.compile(learn.model, mode=\"reduce-overhead\")`",
      [SETTING_BFLOAT16] = "`learn.to_bf16()`",
      [SETTING_FLOAT16] = "`learn.to_fp16()`",
      [SETTING_FUSED] = "`Learner(..., opt_func=partial(OptimWrapper, "
                        "opt=torch.optim.#, fused=True))`",
      [SETTING_LOGGING] =
          "`with learn.no_bar(), learn.no_logging():` around `fit`, and "
          "metrics of the validation set alone",
      [SETTING_CHECKPOINTS] =
          "`SaveModelCallback(every_epoch=...)` with a larger number",
      [SETTING_LOOP] = "fastai's loop",
      [SETTING_BETWEEN] = "fastai's own loop, callbacks, the recorder, metrics"}},
    {"ignite",
     {[SETTING_BFLOAT16] =
          "`with torch.autocast(\"cuda\", dtype=torch.bfloat16):` in the "
          "function that the `Engine` calls",
      [SETTING_FLOAT16] =
          "`create_supervised_trainer(..., amp_mode=\"amp\", scaler=True)`",
      [SETTING_LOGGING] =
          "Handlers that log at `Events.ITERATION_COMPLETED(every=50)`, not at each",
      [SETTING_CHECKPOINTS] =
          "`Checkpoint` at `Events.ITERATION_COMPLETED(every=1000)`, or less often",
      [SETTING_VALIDATION] = "an evaluator at `Events.EPOCH_COMPLETED(every=2)`",
      [SETTING_LOOP] = "Ignite's loop",
      [SETTING_BETWEEN] = "Ignite's own loop, handlers, metrics, loggers"}},
    {"keras",
     {[SETTING_WORKERS] = "`DataLoader(..., num_workers=#, persistent_workers=True)` "
                          "given to `fit`, or `PyDataset(workers=#, "
                          "use_multiprocessing=True)`",
      [SETTING_BATCH_SIZE] = "`fit(..., batch_size=#)`, or the loader's own",
      [SETTING_COMPILE] = "`model.compile(..., jit_compile=True)`",
      [SETTING_COMPILE_GRAPHS] =
          "`torch._inductor.config.triton.cudagraphs = True` before "
          "`model.compile(..., jit_compile=True)`",
      [SETTING_BFLOAT16] =
          "`keras.mixed_precision.set_global_policy(\"mixed_bfloat16\")`",
      [SETTING_FLOAT16] =
          "`keras.mixed_precision.set_global_policy(\"mixed_float16\")`",
      [SETTING_LOGGING] =
          "`fit(..., verbose=2)`, fewer metrics in `compile`, callbacks "
          "that work every n-th batch (`steps_per_execution` stays 1 "
          "with PyTorch)",
      [SETTING_CHECKPOINTS] = "`ModelCheckpoint(save_freq=...)` with a larger number",
      [SETTING_VALIDATION] = "`fit(..., validation_freq=2)` or `validation_steps=...`",
      [SETTING_LOOP] = "Keras's loop",
      [SETTING_BETWEEN] = "Keras's own loop, callbacks, metrics, the progress bar"}},
    {"lightning",
     {[SETTING_BFLOAT16] = "`Trainer(precision=\"bf16-mixed\")`",
      [SETTING_FLOAT16] = "`Trainer(precision=\"16-mixed\")`",
      [SETTING_FUSED] = "`#(..., fused=True)` (not with `gradient_clip_val` in mixed "
                        "precision)",
      [SETTING_LOGGING] =
          "`Trainer(enable_progress_bar=False)` or `TQDMProgressBar(refresh_rate=50)`, "
          "a larger `log_every_n_steps`, and `self.log` with tensors, not with "
          "`.item()`",
      [SETTING_CHECKPOINTS] =
          "`ModelCheckpoint(every_n_train_steps=...)` with a larger "
          "number, or `train_time_interval`",
      [SETTING_ASYNC_SAVE] =
          ASYNC_SAVE "; Lightning's `AsyncCheckpointIO` copies only in newer versions: "
                     "an older one mixes the weights of two steps",
      [SETTING_VALIDATION] =
          "`Trainer(check_val_every_n_epoch=2)` or `limit_val_batches=0.5`",
      [SETTING_LOOP] = "Lightning's loop",
      [SETTING_BETWEEN] = "Lightning's own loop, callbacks, `self.log`, loggers"}},
    {"transformers",
     {[SETTING_WORKERS] = "`TrainingArguments(dataloader_num_workers=#, "
                          "dataloader_persistent_workers=True)`",
      [SETTING_WORKER_COUNT] = "`dataloader_num_workers=#`",
      [SETTING_PREFETCH] = "`dataloader_prefetch_factor=#`",
      [SETTING_PERSISTENT] = "`dataloader_persistent_workers=True`",
      [SETTING_PIN_MEMORY] = "`dataloader_pin_memory=True`",
      [SETTING_BATCH_SIZE] = "`TrainingArguments(per_device_train_batch_size=#)`",
      [SETTING_LENGTHS] = "`TrainingArguments(group_by_length=True)`",
      [SETTING_COMPILE] = "`TrainingArguments(torch_compile=True)`",
      [SETTING_COMPILE_GRAPHS] = "`TrainingArguments(torch_compile=True, "
                                 "torch_compile_mode=\"reduce-overhead\")`",
      [SETTING_BFLOAT16] = "`TrainingArguments(bf16=True)`",
      [SETTING_FLOAT16] = "`TrainingArguments(fp16=True)`",
      [SETTING_FUSED] = "`TrainingArguments(optim=\"adamw_torch_fused\")`, or "
                        "`#(..., fused=True)` where you build the optimizer",
      [SETTING_LOGGING] =
          "`TrainingArguments(logging_steps=...)` with a larger number, "
          "`disable_tqdm=True`, and callbacks that work every n-th step",
      [SETTING_CHECKPOINTS] =
          "`TrainingArguments(save_steps=...)` with a larger number",
      [SETTING_VALIDATION] = "`TrainingArguments(eval_steps=...)` with a larger number",
      [SETTING_LOOP] = "the Trainer's loop",
      [SETTING_BETWEEN] = "the Trainer's own loop, callbacks, logging, `zero_grad`"}},
    {"ultralytics",
     {[SETTING_WORKERS] = "`model.train(..., workers=#)`",
      [SETTING_WORKER_COUNT] = "`workers=#`",
      [SETTING_PREFETCH] = "",
      [SETTING_PERSISTENT] = "", /* its loader keeps them */
      [SETTING_PIN_MEMORY] = "the environment variable `PIN_MEMORY=True`",
      [SETTING_CACHE] = "`model.train(..., cache=\"ram\")` or `cache=\"disk\"`",
      [SETTING_BATCH_SIZE] = "`model.train(..., batch=#)`",
      [SETTING_COMPILE] = "`model.train(..., compile=True)`",
      [SETTING_COMPILE_GRAPHS] = "`model.train(..., compile=\"reduce-overhead\")`",
      [SETTING_BFLOAT16] = ULTRALYTICS_AMP,
      [SETTING_FLOAT16] = ULTRALYTICS_AMP,
      [SETTING_FUSED] = "A trainer of your own whose `build_optimizer` makes "
                        "`#(..., fused=True)`",
      [SETTING_LOGGING] = "Callbacks of your own that work every n-th batch, and "
                          "`model.train(..., plots=False)`",
      [SETTING_CHECKPOINTS] =
          "`model.train(..., save_period=...)` with a larger number",
      [SETTING_VALIDATION] =
          "`model.train(..., val=False)`, and `model.val()` at the end",
      [SETTING_LOOP] = "Ultralytics' loop",
      [SETTING_BETWEEN] =
          "Ultralytics' own loop: the averaged model, logging, callbacks"}},
};
/* NOLINTEND(bugprone-suspicious-missing-comma) */

static const char *row_text(const char *framework, enum setting setting)
{
    for (size_t i = 1; i < sizeof(table) / sizeof(table[0]); i++)
        if (strcmp(table[i].framework, framework) == 0 &&
            table[i].texts[setting] != NULL)
            return table[i].texts[setting];
    return table[0].texts[setting];
}

const char *setting_text(struct rule_context *context, enum setting setting,
                         const char *value)
{
    const char *text = row_text(rule_text(context, FACT_FRAMEWORK), setting), *mark;
    const char *written = "";

    if (value == NULL)
        return text;
    while ((mark = strchr(text, '#')) != NULL) {
        written =
            rule_print(context, "%s%.*s%s", written, (int)(mark - text), text, value);
        text = mark + 1;
    }
    return rule_print(context, "%s%s", written, text);
}

void setting_advise(struct rule_context *context, struct finding *finding,
                    enum setting setting, const char *value, const char *behind)
{
    const char *text = setting_text(context, setting, value);

    if (text[0] != '\0')
        rule_advise_print(context, finding, "%s%s", text, behind);
}

void setting_advise_compile(struct rule_context *context, struct finding *finding,
                            enum setting setting, const char *behind,
                            const char *compiled)
{
    const char *text = setting_text(context, setting, NULL);

    rule_advise_compile(context, finding, rule_print(context, "%s%s", text, behind),
                        compiled);
}

const char *setting_number(struct rule_context *context, double number)
{
    return rule_print(context, "%.0f", number);
}
