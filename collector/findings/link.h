/* What the link between the host and a device carries. */
#ifndef FINDINGS_LINK_H
#define FINDINGS_LINK_H

#include "findings/rules.h"

/* Bytes a second, each way, without the headers of packets; NaN unknown. */
double link_bytes_per_s(const struct hardware_row *row);

/* The same of a device, by what its driver tells; NaN unknown. */
double link_of_device(const struct rule_context *context,
                      const struct gpu_device *device);

#endif
