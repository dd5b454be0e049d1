/* What is said where there is nothing to gain: that is an answer too. */
#include <math.h>

#include "findings/rules.h"

/* The share of a step that a device must compute for, and the most that all findings
 * together may give back: a twentieth, as where most of them begin. */
#define COMPUTES  0.90
#define AVOIDABLE 0.05

static const char *say_ahead(struct findings *findings, const struct gpu_device *device)
{
    if (!rule_is_far_ahead(device))
        return "";
    return arena_print(&findings->arena,
                       " The host is far ahead, with %.0f launches in the queue: calls "
                       "that take long there cost nothing.",
                       device->run.queue_depth);
}

const char *findings_verdict(const struct bottlenecks_answer *summary,
                             struct findings *findings)
{
    const struct gpu_answer *gpu = &summary->gpu;
    double step = summary->steps.train.mean_ns;
    const struct gpu_device *most = NULL;

    for (uint32_t i = 0; i < gpu->device_count; i++)
        if (most == NULL ||
            gpu->devices[i].use_ns[GPU_COMPUTE] > most->use_ns[GPU_COMPUTE])
            most = &gpu->devices[i];
    if (most == NULL || !(most->use_ns[GPU_COMPUTE] / step >= COMPUTES) ||
        !(findings->avoidable_ns / step < AVOIDABLE))
        return "";
    return arena_print(&findings->arena,
                       "Bound by compute: %s computes for %.0f %% of each step, and no "
                       "finding gives back "
                       "a twentieth. Faster is a smaller model, a lower precision or a "
                       "faster device.%s",
                       most->device, 100 * fmin(most->use_ns[GPU_COMPUTE] / step, 1),
                       say_ahead(findings, most));
}
