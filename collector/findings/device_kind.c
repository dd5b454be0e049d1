/* Advice for the kind of device that the job has: rules write it for CUDA, whose words torch
 * uses for ROCm as well. Other accelerators have modules of their own (`torch.xpu`), and
 * neither CUDA's graphs nor its libraries. */
#include <string.h>

#include "findings/settings.h"

/* "xpu" of "xpu:0". */
static size_t kind_length(const char *device)
{
    return strcspn(device, ":");
}

static const char *device_of(const struct bottlenecks_answer *summary)
{
    const struct gpu_device *device = gpu_busiest(&summary->gpu);

    if (device == NULL && summary->gpu.device_count > 0)
        device = &summary->gpu.devices[0];
    if (device != NULL)
        return device->device;
    for (uint32_t i = 0; i < summary->memory.device_count; i++)
        if (strcmp(summary->memory.devices[i].device, "cpu") != 0)
            return summary->memory.devices[i].device;
    return "";
}

static bool is_cuda(const char *device)
{
    return device[0] == '\0' ||
           (kind_length(device) == 4 && strncmp(device, "cuda", 4) == 0);
}

bool rule_is_cuda(const struct rule_context *context)
{
    return is_cuda(device_of(context->summary));
}

/* What there is for CUDA and ROCm alone. */
static bool is_cudas_own(const char *advice)
{
    static const char *const words[] = {
        "CUDA graph", "cudaGraph", "reduce-overhead", "CUDA_",   "cudnn",
        "cublas",     "TF32",      "cudaM",           "cudaSt",  "cudaEvent",
        "cudaDevice", "cuda:nccl", "call CUDA",       "\"nccl\""};

    for (size_t i = 0; i < sizeof(words) / sizeof(words[0]); i++)
        if (strstr(advice, words[i]) != NULL)
            return true;
    return false;
}

/* Some vendor's own: its module of torch has whatever name that vendor gives it. */
#define NAMELESS "privateuseone"

/* `torch.cuda.synchronize()` as `torch.xpu.synchronize()`, autocast("cuda") likewise. NULL:
 * it names such a module, and nobody knows the device's. */
static const char *in_words_of(struct findings *findings, const char *advice,
                               const char *kind, size_t length)
{
    const size_t before = sizeof(SCALER_BEFORE) - 1;
    bool nameless =
        length == sizeof(NAMELESS) - 1 && strncmp(kind, NAMELESS, length) == 0;
    char text[1024];
    size_t used = 0;

    for (const char *at = advice; *at != '\0' && used + length < sizeof(text) - 1;) {
        if (strncmp(at, SCALER_BEFORE, before) == 0) {
            at += before;
            continue;
        }
        bool named = strncmp(at, "cuda", 4) == 0 && at > advice &&
                     (at[-1] == '.' || at[-1] == '"') && (at[4] == '.' || at[4] == '"');

        if (named && nameless)
            return NULL;
        if (named) {
            memcpy(text + used, kind, length);
            used += length;
            at += 4;
        } else {
            text[used++] = *at++;
        }
    }
    text[used] = '\0';
    return arena_text(&findings->arena, text);
}

void findings_fit_device(const struct bottlenecks_answer *summary,
                         struct findings *findings)
{
    const char *device = device_of(summary);
    size_t length = kind_length(device);

    if (is_cuda(device))
        return;
    for (uint32_t i = 0; i < findings->count; i++) {
        struct finding *finding = &findings->list[i];
        uint32_t kept = 0;

        for (uint32_t j = 0; j < finding->advice_count; j++) {
            const char *advice =
                is_cudas_own(finding->advice[j])
                    ? NULL
                    : in_words_of(findings, finding->advice[j], device, length);

            if (advice != NULL)
                finding->advice[kept++] = advice;
        }
        finding->advice_count = kept;
    }
}
