/* Ops for which the host waits until the device has come so far, as people write them. */
#ifndef FINDINGS_SYNCS_H
#define FINDINGS_SYNCS_H

#include "findings/rules.h"

/* Names those that stand high enough to be listed, the dearest with how often it waits and
 * its caller; and what to write instead. */
void syncs_name(struct rule_context *context, struct finding *finding);

#endif
