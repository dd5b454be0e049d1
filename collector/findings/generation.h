/* What a device can compute with: by its name, and where nobody tells that, as in files
 * without `deviceProperties`, or it is newer than this, by the names of its kernels. */
#ifndef FINDINGS_GENERATION_H
#define FINDINGS_GENERATION_H

#include "findings/rules.h"

/* False also where nothing tells. */
bool generation_has_tensor_cores(const struct rule_context *context,
                                 const struct gpu_device *device);
bool generation_has_bfloat16(const struct rule_context *context,
                             const struct gpu_device *device);

/* One of AMD's: its matrix cores take float32 too, at half the rate of bfloat16 or less. */
bool generation_is_cdna(const struct rule_context *context,
                        const struct gpu_device *device);

#endif
