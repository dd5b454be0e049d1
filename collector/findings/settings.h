/* How each framework writes the setting that an advice is about: a user of Hugging Face's
 * Trainer has no DataLoader to change. The table in settings.c is the only place that knows
 * frameworks; rules name the setting. */
#ifndef FINDINGS_SETTINGS_H
#define FINDINGS_SETTINGS_H

#include "findings/rules.h"

/* Older torch has scalers for CUDA alone; other devices are not told of it. */
#define SCALER_BEFORE " (before torch 2.3 `torch.cuda.amp.GradScaler()`)"

enum setting {
    SETTING_WORKERS,      /* workers where there are none */
    SETTING_WORKER_COUNT, /* another number of them */
    SETTING_PREFETCH,
    SETTING_PERSISTENT,
    SETTING_PIN_MEMORY,
    SETTING_CACHE, /* samples are prepared once */
    SETTING_BATCH_SIZE,
    SETTING_LENGTHS, /* batches of samples of like length */
    SETTING_COMPILE,
    SETTING_COMPILE_GRAPHS, /* and its launches replayed as CUDA graphs */
    SETTING_BFLOAT16,
    SETTING_FLOAT16,
    SETTING_FUSED, /* an optimizer's update */
    SETTING_LOGGING,
    SETTING_CHECKPOINTS,
    SETTING_ASYNC_SAVE, /* checkpoints are written while the training goes on */
    SETTING_VALIDATION,
    /* No settings, but what is said of the framework's loop. */
    SETTING_LOOP,
    SETTING_BETWEEN, /* what it does between the update and the next batch */
    SETTINGS,
};

/* As the framework of the job writes it (the fact `framework`), else as PyTorch does; "" where
 * there is no such setting. `value` stands where the table has a #; NULL: it has none. */
const char *setting_text(struct rule_context *context, enum setting setting,
                         const char *value);

/* Advises it with `behind` after it; nothing where there is no such setting. */
void setting_advise(struct rule_context *context, struct finding *finding,
                    enum setting setting, const char *value, const char *behind);

/* How torch.compile is set, with `behind` after it; where it has compiled something already,
 * `compiled`: what it lacks there. */
void setting_advise_compile(struct rule_context *context, struct finding *finding,
                            enum setting setting, const char *behind,
                            const char *compiled);

/* A number as `value`. */
const char *setting_number(struct rule_context *context, double number);

#endif
