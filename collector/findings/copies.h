/* What most of a device's copies are: between which memories, how large, how fast. */
#ifndef FINDINGS_COPIES_H
#define FINDINGS_COPIES_H

#include "findings/rules.h"

/* Into the finding's sentence and evidence, and the advice for such copies; where nothing
 * tells, that for batches. `by_host`: only copies that a host may wait for, and of pageable
 * memory first. */
void copies_tell(struct rule_context *context, struct finding *finding,
                 const struct gpu_device *device, bool by_host);

/* Names the copying op or call that takes the host most of what a device waits meanwhile. */
void copies_name(struct rule_context *context, struct finding *finding);

#endif
