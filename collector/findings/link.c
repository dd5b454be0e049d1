#include "findings/link.h"

#include <math.h>
#include <string.h>

/* Bytes a second and lane of each generation, each way, after its encoding (PCI Express
 * base specifications). */
static double lane_bytes_per_s(double generation)
{
    static const double of[] = {0, 0.25e9, 0.5e9, 0.985e9, 1.97e9, 3.94e9, 7.56e9};

    return generation >= 1 && generation < sizeof(of) / sizeof(of[0])
               ? of[(uint32_t)generation]
               : (double)NAN;
}

double link_bytes_per_s(const struct hardware_row *row)
{
    double lanes = row->pcie_width > 0 ? row->pcie_width : (double)NAN;

    return lane_bytes_per_s(row->pcie_most) * lanes;
}

double link_of_device(const struct rule_context *context,
                      const struct gpu_device *device)
{
    const struct hardware_answer *hardware = &context->summary->hardware;

    for (uint32_t i = 0; i < hardware->row_count; i++)
        if (hardware->rows[i].device != NULL &&
            strcmp(hardware->rows[i].device, device->device) == 0)
            return link_bytes_per_s(&hardware->rows[i]);
    return (double)NAN;
}
