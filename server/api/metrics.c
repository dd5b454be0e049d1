#include "api/metrics.h"

#include <inttypes.h>
#include <math.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "api/api.h"
#include "judge/judge.h"
#include "judge/replays.h"
#include "query/bottlenecks_query.h"
#include "query/gpu_query.h"
#include "query/hardware_query.h"
#include "query/status_query.h"

#define LABEL_BYTES 160u

/* One trainer of one session: its labels and what its tables say. */
struct subject {
    char labels[512]; /* session="...",rank="0" */
    struct bottlenecks_answer tables;
    struct judgement judgement;
    bool known;
    /* Single numbers, NaN where unknown. */
    double steps, running, age_s, lost_events, refused_threads, refused_names;
    double step_mean_s, step_p95_s, samples_per_s, rss_bytes, avoidable_s;
    double joules_per_step, overhead, budget;
};

struct family {
    const char *name, *type, *help;
    size_t offset; /* without write(): of a double in struct subject, or hardware_row */
    double scale;  /* of that number of a hardware_row */
    void (*write)(struct bytes *out, const struct family *family,
                  const struct subject *subject);
};

static double number_at(const void *row, size_t offset)
{
    double number;

    memcpy(&number, (const char *)row + offset, sizeof(number));
    return number;
}

/* `text` (clean UTF-8) as a label's value, without its quotes. */
static void put_label(struct bytes *out, const char *text)
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

/* Takes `labels`, which end with a NUL. */
static void write_labelled(struct bytes *out, const struct family *family,
                           const struct subject *subject, struct bytes labels,
                           double value)
{
    if (!labels.failed)
        sample(out, family, subject, labels.data, value);
    bytes_close(&labels);
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
    for (uint32_t i = 0; i < subject->tables.memory.device_count; i++) {
        const struct memory_device *device = &subject->tables.memory.devices[i];
        const char *index = strchr(device->device, ':');
        struct bytes more = {0};

        bytes_text(&more, ",device=\"");
        put_label(&more, device->device);
        /* The same label as dcgm-exporter's, so that the two can be joined. */
        if (index != NULL)
            bytes_format(&more, "\",gpu=\"%s", index + 1);
        bytes_append(&more, "\"", 2);
        write_labelled(out, family, subject, more, number_at(device, family->offset));
    }
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
    put_label(&labels, name);
    bytes_append(&labels, "\"", 2);
    return labels;
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
            write_labelled(out, family, subject, op_labels(device, ops->rows[i].name),
                           ops->rows[i].per_step_ns / 1e9);
    }
    if (ops->row_count > 0)
        write_labelled(out, family, subject, op_labels(device, "other"), other / 1e9);
}

static void write_ops(struct bytes *out, const struct family *family,
                      const struct subject *subject)
{
    write_device_ops(out, family, subject, &subject->tables.cpu, "cpu");
    write_device_ops(out, family, subject, &subject->tables.cuda, "cuda");
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
        put_label(&more, findings->list[i].id);
        bytes_append(&more, "\"", 2);
        write_labelled(out, family, subject, more, findings->list[i].ns_per_step / 1e9);
    }
}

#define OF(number) offsetof(struct subject, number), 1, NULL
static const struct family families[] = {
    {"trainglass_steps_total", "counter", "Training steps that ended.", OF(steps)},
    {"trainglass_running", "gauge", "1 while the trainer runs.", OF(running)},
    {"trainglass_last_event_age_seconds", "gauge", "Time since the newest event.",
     OF(age_s)},
    {"trainglass_lost_events_total", "counter", "Events that were not seen.",
     OF(lost_events)},
    {"trainglass_refused_threads_total", "counter",
     "Threads that found no room and are not recorded.", OF(refused_threads)},
    {"trainglass_refused_names_total", "counter",
     "Events whose name found no room and that have none.", OF(refused_names)},
    {"trainglass_step_mean_seconds", "gauge", "Mean duration of a step, last minute.",
     OF(step_mean_s)},
    {"trainglass_step_p95_seconds", "gauge",
     "95th percentile of a step's duration, last minute.", OF(step_p95_s)},
    {"trainglass_samples_per_second", "gauge", "Samples trained on, last minute.",
     OF(samples_per_s)},
    {"trainglass_phase_ratio", "gauge", "Share of the step by phase, last minute.", 0,
     1, write_phases},
    {"trainglass_memory_allocated_bytes", "gauge", "Allocated by tensors.",
     offsetof(struct memory_device, allocated_bytes), 1, write_memory},
    {"trainglass_memory_reserved_bytes", "gauge", "Reserved by the allocator.",
     offsetof(struct memory_device, reserved_bytes), 1, write_memory},
    {"trainglass_host_rss_bytes", "gauge", "Resident memory of the trainer.",
     OF(rss_bytes)},
    {"trainglass_op_step_seconds", "gauge",
     "Self time per step of the largest ops, last minute.", 0, 1, write_ops},
    {"trainglass_finding_step_seconds", "gauge",
     "What a fix would win back of each step, by finding; 0 for a risk.", 0, 1,
     write_findings},
    {"trainglass_avoidable_step_seconds", "gauge",
     "Of each step, all findings together, no instant twice.", OF(avoidable_s)},
    {"trainglass_step_joules", "gauge",
     "Energy that its GPUs used per step, last minute.", OF(joules_per_step)},
    {"trainglass_overhead_ratio", "gauge",
     "Measured share of the training's time that profiling costs.", OF(overhead)},
    {"trainglass_overhead_budget_ratio", "gauge", "Share that it may cost.",
     OF(budget)},
};

#define ROW(number, scale) offsetof(struct hardware_row, number), scale, NULL
/* What the machine's GPUs say of themselves. */
static const struct family hardware_families[] = {
    {"trainglass_gpu_utilization_ratio", "gauge",
     "Share of time in which a kernel ran, as the driver says.",
     ROW(now[HARDWARE_BUSY], 1)},
    {"trainglass_gpu_memory_used_bytes", "gauge", "Device memory in use by everybody.",
     ROW(now[HARDWARE_USED_BYTES], 1)},
    {"trainglass_gpu_memory_total_bytes", "gauge", "Device memory.",
     ROW(total_bytes, 1)},
    {"trainglass_gpu_power_watts", "gauge", "Power of the board.",
     ROW(now[HARDWARE_POWER_W], 1)},
    {"trainglass_gpu_power_limit_watts", "gauge", "What it is limited to.",
     ROW(power_limit_w, 1)},
    {"trainglass_gpu_energy_joules_total", "counter",
     "Energy since the driver was loaded.", ROW(energy_total_j, 1)},
    {"trainglass_gpu_temperature_celsius", "gauge", "Temperature of the die.",
     ROW(now[HARDWARE_TEMPERATURE_C], 1)},
    {"trainglass_gpu_sm_clock_hertz", "gauge", "Clock of the multiprocessors.",
     ROW(now[HARDWARE_SM_MHZ], 1e6)},
    {"trainglass_gpu_slowed", "gauge",
     "1 while power, heat or the board hold the clocks back.",
     ROW(now[HARDWARE_SLOWED], 1)},
    {"trainglass_gpu_pcie_sent_bytes_per_second", "gauge", "From the device, by PCIe.",
     ROW(now[HARDWARE_PCIE_SENT], 1)},
    {"trainglass_gpu_pcie_received_bytes_per_second", "gauge",
     "To the device, by PCIe.", ROW(now[HARDWARE_PCIE_RECEIVED], 1)},
    {"trainglass_gpu_nvlink_sent_bytes_per_second", "gauge",
     "From the device, by all of NVLink.", ROW(now[HARDWARE_NVLINK_SENT], 1)},
    {"trainglass_gpu_nvlink_received_bytes_per_second", "gauge",
     "To the device, by all of NVLink.", ROW(now[HARDWARE_NVLINK_RECEIVED], 1)},
    {"trainglass_gpu_ecc_corrected_total", "counter",
     "Corrected memory errors since the driver was loaded.", ROW(ecc_corrected, 1)},
    {"trainglass_gpu_ecc_uncorrected_total", "counter",
     "Uncorrected memory errors since the driver was loaded.", ROW(ecc_uncorrected, 1)},
    {"trainglass_gpu_xid_errors_total", "counter", "Xid events that were seen.",
     ROW(xids, 1)},
};

/* dcgm-exporter's labels, so that the two can be joined. */
static void write_row(struct bytes *out, const struct family *family,
                      const struct hardware_row *row)
{
    double value = number_at(row, family->offset);

    if (!isfinite(value))
        return;
    bytes_format(out, "%s{gpu=\"%u\",UUID=\"", family->name, row->index);
    put_label(out, row->uuid);
    bytes_text(out, "\",modelName=\"");
    put_label(out, row->name);
    bytes_format(out, "\"} %.17g\n", value * family->scale);
}

static void write_family(struct bytes *out, const struct family *family)
{
    bytes_format(out, "# HELP %s %s\n# TYPE %s %s\n", family->name, family->help,
                 family->name, family->type);
}

static void write_hardware(struct store *store, struct bytes *out)
{
    struct hardware_answer answer;
    struct arena arena = {0};

    if (hardware_query(store, &arena, &answer) != 0) {
        out->failed = true;
        arena_free(&arena);
        return;
    }
    for (size_t i = 0; i < sizeof(hardware_families) / sizeof(hardware_families[0]);
         i++) {
        write_family(out, &hardware_families[i]);
        for (uint32_t row = 0; row < answer.row_count; row++)
            write_row(out, &hardware_families[i], &answer.rows[row]);
    }
    arena_free(&arena);
}

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
    struct overhead_answer overhead;
    struct bytes labels = {0};

    *subject = (struct subject){.known = false};
    (void)snprintf(whose.session, sizeof(whose.session), "%s", session->id);
    whose.window = (struct window){.kind = WINDOW_LAST_NS, .a = INT64_C(60000000000)};
    bytes_text(&labels, "session=\"");
    put_label(&labels, session->id);
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
        overhead_query(api->store, &whose, &overhead) == 0 && subject->known;
    judge_findings(api->judge, api->runs, &whose, &subject->tables,
                   &subject->judgement);
    const struct steps_summary *train = &subject->tables.steps.train;

    subject->steps = (double)process->steps;
    subject->running = process->state == PROCESS_RUNNING;
    subject->age_s = process->last_event_age_ns / 1e9;
    subject->lost_events = (double)process->lost_events;
    subject->refused_threads = (double)process->threads_refused;
    subject->refused_names = (double)process->names_refused;
    subject->step_mean_s = train->mean_ns / 1e9;
    subject->step_p95_s = train->p95_ns / 1e9;
    subject->samples_per_s = train->samples_per_s;
    subject->rss_bytes = subject->tables.memory.host.rss_bytes;
    subject->avoidable_s = subject->judgement.findings.avoidable_ns / 1e9;
    subject->joules_per_step = energy_of(api, &whose);
    subject->overhead = overhead.measured_pct / 100;
    subject->budget = overhead.budget_pct / 100;
    answer_free(&overhead.head);
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

        write_family(out, family);
        for (uint32_t j = 0; j < count; j++) {
            if (subjects[j].known && family->write != NULL)
                family->write(out, family, &subjects[j]);
            else if (subjects[j].known)
                sample(out, family, &subjects[j], "",
                       number_at(&subjects[j], family->offset));
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
    write_hardware(api->store, out);
    for (uint32_t i = 0; i < count; i++) {
        judgement_free(&subjects[i].judgement);
        bottlenecks_free(&subjects[i].tables);
    }
    answer_free(&status.head);
    free(subjects);
}
