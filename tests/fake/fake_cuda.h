/* What a fake CUDA job calls: of the driver, and of the fake libcupti behind it. */
#ifndef TESTS_FAKE_CUDA_H
#define TESTS_FAKE_CUDA_H

#include <stddef.h>
#include <stdint.h>

int cuInit(unsigned flags);
int cuDeviceGetCount(int *count);
int cuDeviceGet(int *device, int ordinal);
int cuDeviceGetPCIBusId(char *place, int bytes, int device);
int cuDeviceGetAttribute(int *value, int attribute, int device);
int cuDriverGetVersion(int *version);

/* One launch: its call now, its kernel right behind it for `duration_ns`. Returns the
 * correlation id. */
uint32_t fake_launch(const char *name, uint32_t device, uint32_t stream,
                     uint64_t duration_ns);
/* Likewise by cuLaunchKernelEx, as Triton does; or by cuLaunchKernel `inside` of a
 * cudaLaunchKernel, both with one correlation id. */
uint32_t fake_launch_by_driver(const char *name, int inside, uint32_t stream,
                               uint64_t duration_ns);
/* One launch of a graph of so many kernels; its first one instantiates it. */
void fake_graph(uint32_t graph, uint32_t nodes, uint64_t duration_ns);
/* A copy to the device, and a memset. */
uint32_t fake_copy(uint64_t bytes, int pageable, uint64_t duration_ns);
uint32_t fake_memset(uint64_t bytes, uint64_t duration_ns);
/* From one device to another, which is said to do it. */
uint32_t fake_peer_copy(uint64_t bytes, uint32_t from, uint32_t to,
                        uint64_t duration_ns);
/* The driver has done something else until now: CUpti_ActivityOverheadKind. */
void fake_overhead(uint32_t what, uint64_t duration_ns);
/* The host waits until all that was launched is done. */
void fake_synchronize(void);
/* Nobody waits for what runs now. */
void fake_forget(void);

/* The job's own errors. A kernel breaks the device: every call from now on returns `error`,
 * and what ran does not end. */
enum { FAKE_ILLEGAL_ADDRESS = 700, FAKE_DEVICE_LOST = 999 };
void fake_break(int error);
/* What its calls return; 0: all is well. */
int fake_error(void);
/* cudaProfilerStart, cudaProfilerStop. */
void fake_profiler(int on);
/* cudaDeviceReset: another context from now on. */
void fake_reset(void);

/* Misbehaviour: see the list in fake_cupti.c. */
void fake_fault(const char *name, uint64_t value);

/* The guest is told of who comes, or has gone. */
void fake_announce(int comes);
/* The guest's next call that this fault names (hold-off, hold-time, hold-read) waits until
 * it is released; is it there? */
void fake_hold(const char *name);
int fake_is_held(void);
void fake_release(void);
/* What the guest has turned off of another's, he has turned on again. */
int fake_is_restored(void);

/* An old Kineto: subscribes, registers buffers and a clock of its own, turns kinds on;
 * then off, for everybody. begin returns CUPTI's error; end the kernels that it got. */
void fake_kineto_needs_zeroes(void); /* fails where a guest still promises them */
int fake_kineto_begin(void);
uint64_t fake_kineto_end(void);
void fake_kineto_teardown(void); /* behind its end: CUPTI is ended for everybody */

/* Somebody's callbacks are registered; and, unless 0, this kind is on, kernels with their
 * launches. */
enum { FAKE_KERNELS = 10, FAKE_GRAPHS = 51 };
int fake_is_watched(int kind);

/* Flushes that have begun: the guest reads what one brought before he begins the next. */
unsigned fake_flushes(void);

/* Somebody holds the subscription, or has held it. */
int fake_was_subscribed(void);

/* Calls that were recorded and that nobody looks for: cudaGetDevice, cuCtxGetCurrent. */
uint64_t fake_small_calls(void);

#endif
