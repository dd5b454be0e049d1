/* What the parts of the fake job share: fake_job.c and its windows, fake_windows.c. */
#ifndef TESTS_FAKE_JOB_H
#define TESTS_FAKE_JOB_H

#include <stdint.h>

#include "probe/torch/python.h"

#define LAUNCHES 20u /* of kernels, in a usual step */
#define MS       UINT64_C(1000000)

extern uint64_t launched; /* pieces of work, by usual steps */

uint64_t now_ns(void);
void step(void);
void train(unsigned steps);

/* NULL: the probe is not there. */
const struct trainglass_python *python(void);
void gpu_yield(int begins);
void wait_for_guest(void);
void wait_for_reader(void);

/* Scenarios; those with a result are whole jobs. */
int window(unsigned steps, int announced);
int window_in_off(unsigned steps, int announced);
int window_in_register(unsigned steps, int unused);
int leave_to_another(unsigned steps, int at_once);
int early_window(unsigned steps, int unused);
int outlive_python(unsigned steps, int unused);
void second_backend(unsigned steps);
void busy_windows(unsigned windows);

#endif
