/* What the machine's GPUs say of themselves, for Prometheus. */
#ifndef SERVER_HARDWARE_METRICS_H
#define SERVER_HARDWARE_METRICS_H

#include "http/bytes.h"

struct store;

/* Appends a family for each number that a device tells. */
void hardware_metrics_write(struct store *store, struct bytes *out);

#endif
