#include "metrics.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "api/api.h"
#include "hardware_metrics.h"
#include "judge/judge.h"
#include "judge/replays.h"
#include "query/bottlenecks_query.h"
#include "query/gpu_query.h"
#include "query/status_query.h"

#define LABEL_BYTES 160u

/* One trainer of one session: what its labels are and what its tables say. */
struct subject {
    const struct status_session *session;
    const struct status_process *process;
    char labels[512]; /* session="...",rank="0" */
    struct bottlenecks_answer tables;
    struct judgement judgement;
    struct overhead_answer overhead;
    double joules_per_step; /* of its devices; NaN unknown */
    bool known;
};

struct family {
    const char *name, *type, *help;
    void (*write)(struct bytes *out, const struct family *family,
                  const struct subject *subject);
};

void metrics_label(struct bytes *out, const char *text)
{
    size_t size = strnlen(text, LABEL_BYTES);

    /* Not in the middle of a character. */
    while (size > 0 && size == LABEL_BYTES &&
           ((unsigned char)text[size] & 0xc0) == 0x80)
        size--;
    for (size_t i = 0; i < size; i++) {
        if (text[i] == '\n')
            bytes_text(out, "\\n");
        else if (text[i] == '"' || text[i] == '\\')
            bytes_format(out, "\\%c", text[i]);
        else
            bytes_append(out, text + i, 1);
    }
}

static void sample(struct bytes *out, const struct family *family,
                   const struct subject *subject, const char *more, double value)
{
    if (isfinite(value))
        bytes_format(out, "%s{%s%s} %.17g\n", family->name, subject->labels, more,
                     value);
}

static void write_steps(struct bytes *out, const struct family *family,
                        const struct subject *subject)
{
    sample(out, family, subject, "", (double)subject->process->steps);
}

static void write_running(struct bytes *out, const struct family *family,
                          const struct subject *subject)
{
    sample(out, family, subject, "", subject->process->state == PROCESS_RUNNING);
}

static void write_age(struct bytes *out, const struct family *family,
                      const struct subject *subject)
{
    sample(out, family, subject, "", subject->process->last_event_age_ns / 1e9);
}

static void write_lost(struct bytes *out, const struct family *family,
                       const struct subject *subject)
{
    sample(out, family, subject, "", (double)subject->process->lost_events);
}

static void write_refused_threads(struct bytes *out, const struct family *family,
                                  const struct subject *subject)
{
    sample(out, family, subject, "", (double)subject->process->threads_refused);
}

static void write_refused_names(struct bytes *out, const struct family *family,
                                const struct subject *subject)
{
    sample(out, family, subject, "", (double)subject->process->names_refused);
}

static void write_step_mean(struct bytes *out, const struct family *family,
                            const struct subject *subject)
{
    sample(out, family, subject, "", subject->tables.steps.train.mean_ns / 1e9);
}

static void write_step_p95(struct bytes *out, const struct family *family,
                           const struct subject *subject)
{
    sample(out, family, subject, "", subject->tables.steps.train.p95_ns / 1e9);
}

static void write_rate(struct bytes *out, const struct family *family,
                       const struct subject *subject)
{
    sample(out, family, subject, "", subject->tables.steps.train.samples_per_s);
}

static void write_phases(struct bytes *out, const struct family *family,
                         const struct subject *subject)
{
    static const char *const labels[EVENT_PHASES] = {
        ",phase=\"data\"", ",phase=\"forward\"", ",phase=\"backward\"",
        ",phase=\"optimizer\""};
    const struct steps_summary *train = &subject->tables.steps.train;

    for (int i = 0; i < EVENT_PHASES; i++)
        sample(out, family, subject, labels[i], train->phase_share[i]);
    sample(out, family, subject, ",phase=\"other\"", train->other_share);
}

static void write_memory(struct bytes *out, const struct family *family,
                         const struct subject *subject)
{
    bool reserved = strstr(family->name, "reserved") != NULL;

    for (uint32_t i = 0; i < subject->tables.memory.device_count; i++) {
        const struct memory_device *device = &subject->tables.memory.devices[i];
        const char *index = strchr(device->device, ':');
        struct bytes more = {0};

        bytes_text(&more, ",device=\"");
        metrics_label(&more, device->device);
        /* The same label as dcgm-exporter's, so that the two can be joined. */
        if (index != NULL)
            bytes_format(&more, "\",gpu=\"%s", index + 1);
        bytes_append(&more, "\"", 2);
        if (!more.failed)
            sample(out, family, subject, more.data,
                   reserved ? device->reserved_bytes : device->allocated_bytes);
        bytes_close(&more);
    }
}

static void write_rss(struct bytes *out, const struct family *family,
                      const struct subject *subject)
{
    sample(out, family, subject, "", subject->tables.memory.host.rss_bytes);
}

static bool name_repeats(const struct ops_answer *ops, uint32_t i)
{
    for (uint32_t j = 0; j < i; j++) {
        if (strncmp(ops->rows[i].name, ops->rows[j].name, LABEL_BYTES - 4) == 0)
            return true;
    }
    return false;
}

/* The labels of one op, with a NUL; the caller closes them. */
static struct bytes op_labels(const char *device, const char *name)
{
    struct bytes labels = {0};

    bytes_format(&labels, ",device=\"%s\",op=\"", device);
    metrics_label(&labels, name);
    bytes_append(&labels, "\"", 2);
    return labels;
}

static void write_op(struct bytes *out, const struct family *family,
                     const struct subject *subject, struct bytes labels, double ns)
{
    if (!labels.failed)
        sample(out, family, subject, labels.data, ns / 1e9);
    bytes_close(&labels);
}

/* Rows whose labels would be the same go to "other": a series stands once. */
static void write_device_ops(struct bytes *out, const struct family *family,
                             const struct subject *subject,
                             const struct ops_answer *ops, const char *device)
{
    double other = ops->other.per_step_ns;

    for (uint32_t i = 0; i < ops->row_count; i++) {
        if (name_repeats(ops, i) || strcmp(ops->rows[i].name, "other") == 0)
            other += ops->rows[i].per_step_ns;
        else
            write_op(out, family, subject, op_labels(device, ops->rows[i].name),
                     ops->rows[i].per_step_ns);
    }
    if (ops->row_count > 0)
        write_op(out, family, subject, op_labels(device, "other"), other);
}

static void write_ops(struct bytes *out, const struct family *family,
                      const struct subject *subject)
{
    write_device_ops(out, family, subject, &subject->tables.cpu, "cpu");
    write_device_ops(out, family, subject, &subject->tables.cuda, "cuda");
}

static void write_energy(struct bytes *out, const struct family *family,
                         const struct subject *subject)
{
    sample(out, family, subject, "", subject->joules_per_step);
}

static void write_overhead(struct bytes *out, const struct family *family,
                           const struct subject *subject)
{
    sample(out, family, subject, "", subject->overhead.measured_pct / 100);
}

static void write_budget(struct bytes *out, const struct family *family,
                         const struct subject *subject)
{
    sample(out, family, subject, "", subject->overhead.budget_pct / 100);
}

/* What was dismissed shall wake nobody. */
static void write_findings(struct bytes *out, const struct family *family,
                           const struct subject *subject)
{
    const struct findings *findings = &subject->judgement.findings;

    for (uint32_t i = 0; i < findings->count; i++) {
        struct bytes more = {0};

        if (findings->list[i].dismissed)
            continue;
        bytes_text(&more, ",finding=\"");
        metrics_label(&more, findings->list[i].id);
        bytes_append(&more, "\"", 2);
        if (!more.failed)
            sample(out, family, subject, more.data,
                   findings->list[i].ns_per_step / 1e9);
        bytes_close(&more);
    }
}

static void write_avoidable(struct bytes *out, const struct family *family,
                            const struct subject *subject)
{
    sample(out, family, subject, "", subject->judgement.findings.avoidable_ns / 1e9);
}

static const struct family families[] = {
    {"trainglass_steps_total", "counter", "Training steps that ended.", write_steps},
    {"trainglass_running", "gauge", "1 while the trainer runs.", write_running},
    {"trainglass_last_event_age_seconds", "gauge", "Time since the newest event.",
     write_age},
    {"trainglass_lost_events_total", "counter", "Events that were not seen.",
     write_lost},
    {"trainglass_refused_threads_total", "counter",
     "Threads that found no room and are not recorded.", write_refused_threads},
    {"trainglass_refused_names_total", "counter",
     "Events whose name found no room and that have none.", write_refused_names},
    {"trainglass_step_mean_seconds", "gauge", "Mean duration of a step, last minute.",
     write_step_mean},
    {"trainglass_step_p95_seconds", "gauge",
     "95th percentile of a step's duration, last minute.", write_step_p95},
    {"trainglass_samples_per_second", "gauge", "Samples trained on, last minute.",
     write_rate},
    {"trainglass_phase_ratio", "gauge", "Share of the step by phase, last minute.",
     write_phases},
    {"trainglass_memory_allocated_bytes", "gauge", "Allocated by tensors.",
     write_memory},
    {"trainglass_memory_reserved_bytes", "gauge", "Reserved by the allocator.",
     write_memory},
    {"trainglass_host_rss_bytes", "gauge", "Resident memory of the trainer.",
     write_rss},
    {"trainglass_op_step_seconds", "gauge",
     "Self time per step of the largest ops, last minute.", write_ops},
    {"trainglass_finding_step_seconds", "gauge",
     "What a fix would win back of each step, by finding; 0 for a risk.",
     write_findings},
    {"trainglass_avoidable_step_seconds", "gauge",
     "Of each step, all findings together, no instant twice.", write_avoidable},
    {"trainglass_step_joules", "gauge",
     "Energy that its GPUs used per step, last minute.", write_energy},
    {"trainglass_overhead_ratio", "gauge",
     "Measured share of the training's time that profiling costs.", write_overhead},
    {"trainglass_overhead_budget_ratio", "gauge", "Share that it may cost.",
     write_budget},
};

/* Of the last minute; whether GPU work is recorded does not matter. */
static double energy_of(struct api *api, const struct selection *whose)
{
    struct gpu_request request = {.points = 1};
    struct gpu_answer answer;
    double joules = gpu_query(api->store, whose, &request, &answer) == 0
                        ? answer.hardware.joules_per_step
                        : (double)NAN;

    answer_free(&answer.head);
    return joules;
}

static void subject_open(struct api *api, struct subject *subject,
                         const struct status_session *session,
                         const struct status_process *process)
{
    struct bottlenecks_request request = {.k = METRICS_OPS};
    struct selection whose = {.rank = SELECT_ANY, .pid = process->pid};
    struct bytes labels = {0};

    *subject = (struct subject){.session = session, .process = process};
    (void)snprintf(whose.session, sizeof(whose.session), "%s", session->id);
    whose.window = (struct window){.kind = WINDOW_LAST_NS, .a = INT64_C(60000000000)};
    bytes_text(&labels, "session=\"");
    metrics_label(&labels, session->id);
    bytes_format(&labels, "\",rank=\"%" PRId32 "\",pid=\"%" PRIu32 "\"",
                 process->rank < 0 ? 0 : process->rank, process->pid);
    if (!labels.failed && labels.size < sizeof(subject->labels))
        memcpy(subject->labels, labels.data, labels.size);
    bytes_close(&labels);
    subject->known =
        bottlenecks_query(api->store, &whose, &request, &subject->tables) == 0;
    if (subject->known)
        replays_known(api->replays, &whose, &subject->tables);
    subject->known =
        overhead_query(api->store, &whose, &subject->overhead) == 0 && subject->known;
    judge_findings(api->judge, api->runs, &whose, &subject->tables,
                   &subject->judgement);
    subject->joules_per_step = energy_of(api, &whose);
}

static void subject_close(struct subject *subject)
{
    judgement_free(&subject->judgement);
    bottlenecks_free(&subject->tables);
    answer_free(&subject->overhead.head);
}

static uint32_t subjects_open(struct api *api, const struct status_answer *status,
                              struct subject *subjects)
{
    uint32_t count = 0;

    for (uint32_t i = 0; i < status->session_count && i < METRICS_SESSIONS; i++) {
        const struct status_session *session = &status->sessions[i];

        for (uint32_t j = 0; j < session->process_count && count < METRICS_TRAINERS;
             j++) {
            if (session->processes[j].role == WIRE_ROLE_TRAINER)
                subject_open(api, &subjects[count++], session, &session->processes[j]);
        }
    }
    return count;
}

/* All samples of a family stand together: the format wants it. */
static void write_families(struct bytes *out, const struct subject *subjects,
                           uint32_t count)
{
    for (size_t i = 0; i < sizeof(families) / sizeof(families[0]); i++) {
        const struct family *family = &families[i];

        bytes_format(out, "# HELP %s %s\n# TYPE %s %s\n", family->name, family->help,
                     family->name, family->type);
        for (uint32_t j = 0; j < count; j++) {
            if (subjects[j].known)
                family->write(out, family, &subjects[j]);
        }
    }
}

void metrics_write(struct api *api, struct bytes *out)
{
    struct selection whose = {.rank = SELECT_ANY};
    uint32_t ppm = atomic_load_explicit(&api->server_cpu_ppm, memory_order_relaxed);
    struct subject *subjects = calloc(METRICS_TRAINERS, sizeof(*subjects));
    struct status_answer status;
    uint32_t count = 0;

    bytes_format(out,
                 "# HELP trainglass_build_info Version of the server.\n"
                 "# TYPE trainglass_build_info gauge\n"
                 "trainglass_build_info{version=\"%s\"} 1\n"
                 "# HELP trainglass_server_cpu_ratio Cores that the server uses.\n"
                 "# TYPE trainglass_server_cpu_ratio gauge\n"
                 "trainglass_server_cpu_ratio %.6f\n",
                 TRAINGLASS_VERSION, (double)ppm / 1e6);
    if (subjects == NULL) {
        out->failed = true;
        return;
    }
    if (status_query(api->store, &whose, &status) == 0)
        count = subjects_open(api, &status, subjects);
    write_families(out, subjects, count);
    hardware_metrics_write(api->store, out);
    for (uint32_t i = 0; i < count; i++)
        subject_close(&subjects[i]);
    answer_free(&status.head);
    free(subjects);
}
