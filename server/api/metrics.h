/* GET /metrics: what a fleet's Prometheus wants to know, in its text format.
 *
 * Cardinality is bounded: the newest sessions, their trainers, the ten largest ops and
 * the rest as op="other". A name is cut before it becomes a label.
 */
#ifndef API_METRICS_H
#define API_METRICS_H

#include "http/bytes.h"

struct api;

#define METRICS_SESSIONS 8u  /* newest sessions that are told */
#define METRICS_TRAINERS 64u /* of each */
#define METRICS_OPS      10u

void metrics_write(struct api *api, struct bytes *out);

#endif
