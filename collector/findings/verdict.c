/* What is said where there is nothing to gain: that is an answer too. */
#include <math.h>
#include <string.h>

#include "findings/rules.h"

/* The share of a step that a device must compute for, and the most that all findings
 * together may give back. */
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

/* Of a job on the CPU: the share of a step in ops of one family, from which on it is what
 * decides; all others together are less. */
#define DECIDES 0.50

struct family {
    const char *what, *layout; /* in which it is faster; NULL */
    const char *names[9];      /* ops' names begin so; then NULL */
};

#define BFLOAT16                                                                       \
    "`torch.autocast(\"cpu\", dtype=torch.bfloat16)` where the CPU computes with it "  \
    "(`lscpu` lists amx_bf16 or avx512_bf16)"

static const struct family families[] = {
    {"convolutions",
     "`model.to(memory_format=torch.channels_last)` and likewise the batch",
     {"aten::mkldnn_convolution", "aten::convolution_", "aten::_slow_conv",
      "aten::thnn_conv", "aten::_nnpack_", "aten::slow_conv", NULL}},
    {"matrix products",
     NULL,
     {"aten::mm", "aten::addmm", "aten::bmm", "aten::baddbmm",
      "aten::_scaled_dot_product", "aten::_addmm", "aten::mkldnn_linear",
      "aten::mkldnn_rnn_layer", NULL}},
};

static bool is_of(const struct family *family, const struct op_row *row)
{
    for (size_t i = 0; family->names[i] != NULL; i++)
        if (strncmp(row->name, family->names[i], strlen(family->names[i])) == 0)
            return strcmp(row->kind, "op") == 0;
    return false;
}

static double share_of(const struct bottlenecks_answer *summary,
                       const struct family *family)
{
    double ns = 0;

    for (uint32_t i = 0; i < summary->cpu.judged_count; i++)
        if (is_of(family, &summary->cpu.rows[i]) &&
            summary->cpu.rows[i].per_step_ns > 0)
            ns += summary->cpu.rows[i].per_step_ns;
    return ns / summary->steps.train.mean_ns;
}

/* Cores that lie idle beside few threads; "" where there are none, or others want them. Of
 * two hyperthreads one is all that products and convolutions can use: torch's own choice. */
static const char *idle_cores(struct rule_context *context)
{
    double threads = rule_number(context, FACT_THREADS_INTRA),
           cores = rule_cores(context);
    const struct load *load = &context->summary->load;

    double useful = floor(cores / 2);

    if (!(threads < useful) || !(load->machine_share < 0.5) ||
        context->summary->ranks.row_count > 1)
        return "";
    return rule_print(context,
                      " Its ops use %.0f thread%s of %.0f cores: "
                      "`torch.set_num_threads(%.0f)`.",
                      threads, threads == 1 ? "" : "s", floor(cores), useful);
}

/* " Faster may be ...": what the job does not do already. */
static const char *faster(struct rule_context *context, const struct family *family)
{
    bool reduced = rule_text(context, FACT_AMP_DTYPE)[0] != '\0' ||
                   strstr(rule_text(context, FACT_OPTIMIZER_DTYPE), "float16") != NULL;
    const char *layout = family->layout != NULL ? family->layout : "";

    if (layout[0] == '\0' && reduced)
        return "";
    return rule_print(context, " Faster may be %s%s%s.", layout,
                      layout[0] != '\0' && !reduced ? ", or " : "",
                      reduced ? "" : BFLOAT16);
}

static const char *verdict_of_cpu(const struct bottlenecks_answer *summary,
                                  struct findings *findings)
{
    struct rule_context context = {
        .summary = summary, .train = &summary->steps.train, .findings = findings};

    /* A trace without devices may be of a job that has one. */
    if (rule_has_device(&context) || summary->head.from_file ||
        summary->cpu.head.recorded_steps < STEPS_KNOWN)
        return "";
    for (size_t i = 0; i < sizeof(families) / sizeof(families[0]); i++) {
        double share = share_of(summary, &families[i]);

        if (share >= DECIDES)
            return rule_print(&context,
                              "Bound by compute: %s take %.0f %% of each step, and no "
                              "finding gives back a twentieth.%s%s",
                              families[i].what, 100 * fmin(share, 1),
                              faster(&context, &families[i]), idle_cores(&context));
    }
    return "";
}

bool rule_is_compute(const struct op_row *row)
{
    for (size_t i = 0; i < sizeof(families) / sizeof(families[0]); i++)
        if (is_of(&families[i], row))
            return true;
    return false;
}

/* All findings together may give back that much; what another look found, which owns
 * nothing here, may be the same as one of these. */
static bool is_much_avoidable(const struct findings *findings, double step)
{
    double elsewhere = 0;

    for (uint32_t i = 0; i < findings->count; i++) {
        const struct finding *finding = &findings->list[i];

        if (finding->from_elsewhere && !finding->dismissed)
            elsewhere = fmax(elsewhere, finding->ns_per_step);
    }
    return !(findings->avoidable_ns + elsewhere < AVOIDABLE * step);
}

const char *findings_verdict(const struct bottlenecks_answer *summary,
                             struct findings *findings)
{
    const struct gpu_answer *gpu = &summary->gpu;
    double step = summary->steps.train.mean_ns;
    double usual = rule_usual(&summary->steps.train).mean_ns;
    const struct gpu_device *most = NULL;

    if (summary->foreign)
        return FINDINGS_FOREIGN;
    if (is_much_avoidable(findings, step))
        return "";
    for (uint32_t i = 0; i < gpu->device_count; i++)
        if (most == NULL ||
            gpu->devices[i].use_ns[GPU_COMPUTE] > most->use_ns[GPU_COMPUTE])
            most = &gpu->devices[i];
    if (most == NULL)
        return verdict_of_cpu(summary, findings);
    if (!(most->use_ns[GPU_COMPUTE] / usual >= COMPUTES))
        return "";
    return arena_print(&findings->arena,
                       "Bound by compute: %s computes for %.0f %% of each step, and no "
                       "finding gives back a twentieth. Faster is a smaller model, a "
                       "lower precision or a faster device.%s",
                       most->device, 100 * fmin(most->use_ns[GPU_COMPUTE] / usual, 1),
                       say_ahead(findings, most));
}
