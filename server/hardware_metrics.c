#include "hardware_metrics.h"

#include <math.h>

#include "metrics.h"
#include "query/hardware_query.h"

/* A family; the number is one of `now`, or asked for by `get`. */
struct family {
    const char *name, *type, *help;
    int column; /* enum hardware_column; -1: get */
    double scale;
    double (*get)(const struct hardware_row *row);
};

static double energy(const struct hardware_row *row)
{
    return row->energy_total_j;
}

static double total(const struct hardware_row *row)
{
    return row->total_bytes;
}

static double limit(const struct hardware_row *row)
{
    return row->power_limit_w;
}

static double corrected(const struct hardware_row *row)
{
    return row->ecc_corrected;
}

static double uncorrected(const struct hardware_row *row)
{
    return row->ecc_uncorrected;
}

static double xids(const struct hardware_row *row)
{
    return row->xids;
}

static const struct family families[] = {
    {"trainglass_gpu_utilization_ratio", "gauge",
     "Share of time in which a kernel ran, as the driver says.", HARDWARE_BUSY, 1,
     NULL},
    {"trainglass_gpu_memory_used_bytes", "gauge", "Device memory in use by everybody.",
     HARDWARE_USED_BYTES, 1, NULL},
    {"trainglass_gpu_memory_total_bytes", "gauge", "Device memory.", -1, 1, total},
    {"trainglass_gpu_power_watts", "gauge", "Power of the board.", HARDWARE_POWER_W, 1,
     NULL},
    {"trainglass_gpu_power_limit_watts", "gauge", "What it is limited to.", -1, 1,
     limit},
    {"trainglass_gpu_energy_joules_total", "counter",
     "Energy since the driver was loaded.", -1, 1, energy},
    {"trainglass_gpu_temperature_celsius", "gauge", "Temperature of the die.",
     HARDWARE_TEMPERATURE_C, 1, NULL},
    {"trainglass_gpu_sm_clock_hertz", "gauge", "Clock of the multiprocessors.",
     HARDWARE_SM_MHZ, 1e6, NULL},
    {"trainglass_gpu_slowed", "gauge",
     "1 while power, heat or the board hold the clocks back.", HARDWARE_SLOWED, 1,
     NULL},
    {"trainglass_gpu_pcie_sent_bytes_per_second", "gauge", "From the device, by PCIe.",
     HARDWARE_PCIE_SENT, 1, NULL},
    {"trainglass_gpu_pcie_received_bytes_per_second", "gauge",
     "To the device, by PCIe.", HARDWARE_PCIE_RECEIVED, 1, NULL},
    {"trainglass_gpu_nvlink_sent_bytes_per_second", "gauge",
     "From the device, by all of NVLink.", HARDWARE_NVLINK_SENT, 1, NULL},
    {"trainglass_gpu_nvlink_received_bytes_per_second", "gauge",
     "To the device, by all of NVLink.", HARDWARE_NVLINK_RECEIVED, 1, NULL},
    {"trainglass_gpu_ecc_corrected_total", "counter",
     "Corrected memory errors since the driver was loaded.", -1, 1, corrected},
    {"trainglass_gpu_ecc_uncorrected_total", "counter",
     "Uncorrected memory errors since the driver was loaded.", -1, 1, uncorrected},
    {"trainglass_gpu_xid_errors_total", "counter", "Xid events that were seen.", -1, 1,
     xids},
};

/* dcgm-exporter's labels, so that the two can be joined. */
static void write_row(struct bytes *out, const struct family *family,
                      const struct hardware_row *row)
{
    double value = family->column < 0 ? family->get(row) : row->now[family->column];

    if (!isfinite(value))
        return;
    bytes_format(out, "%s{gpu=\"%u\",UUID=\"", family->name, row->index);
    metrics_label(out, row->uuid);
    bytes_text(out, "\",modelName=\"");
    metrics_label(out, row->name);
    bytes_format(out, "\"} %.17g\n", value * family->scale);
}

void hardware_metrics_write(struct store *store, struct bytes *out)
{
    struct hardware_answer answer;
    struct arena arena = {0};

    if (hardware_query(store, &arena, &answer) != 0) {
        out->failed = true;
        arena_free(&arena);
        return;
    }
    for (size_t i = 0; i < sizeof(families) / sizeof(families[0]); i++) {
        const struct family *family = &families[i];

        bytes_format(out, "# HELP %s %s\n# TYPE %s %s\n", family->name, family->help,
                     family->name, family->type);
        for (uint32_t row = 0; row < answer.row_count; row++)
            write_row(out, family, &answer.rows[row]);
    }
    arena_free(&arena);
}
