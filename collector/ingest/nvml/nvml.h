/* The thread that asks NVML. A call into a sick driver may never return: only this thread
 * waits for it, everybody else sees how old the last answer is.
 *
 *     nvml_ask() --> thread: nvml_read() --> the next nvml_ask() hands it over
 */
#ifndef INGEST_NVML_NVML_H
#define INGEST_NVML_NVML_H

#include <stdbool.h>
#include <stdint.h>

#include "aggregate/hardware.h"

struct nvml;

/* NULL when no thread can be started. */
struct nvml *nvml_start(void);

enum nvml_answer { NVML_NO_NEWS, NVML_NEWS, NVML_SILENT };

/* Hands over what was read since the last call, and asks for more. Never waits. SILENT: the
 * driver has not answered for so long that what it said last says nothing any more. */
enum nvml_answer nvml_ask(struct nvml *nvml, struct hardware_reading *reading);

/* The next reading, or false after `timeout_ms`: for who has the time. */
bool nvml_wait(struct nvml *nvml, struct hardware_reading *reading, int timeout_ms);

/* Waits at most a second for the driver; a thread that hangs in it is left behind. */
void nvml_stop(struct nvml *nvml);

#endif
