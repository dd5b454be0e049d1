/* A training loop that does little but launch, on the fake GPU: what a launch costs more is
 * what a step takes longer. Keeps the contract of `trainglass selftest overhead`: STEPS_OUT
 * names the file of its steps. Runs until SIGTERM. */
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>

#include "fake_cuda.h"
#include "probe/trainglass.h"

#define LAUNCHES   250u
#define WORK       6000u /* turns of a loop: some 4 us, as an operator of eager torch takes */
#define WARM_STEPS 500u
#define STEPS_MAX  (UINT32_C(1) << 20)

static volatile sig_atomic_t ended;
static uint64_t begins[STEPS_MAX];

static void note_end(int number)
{
    (void)number;
    ended = 1;
}

static uint64_t now_ns(void)
{
    struct timespec now;

    clock_gettime(CLOCK_MONOTONIC, &now);
    return (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
}

static void write_file(const char *out, const char *end, const void *bytes, size_t size)
{
    char path[1024];

    snprintf(path, sizeof(path), "%s%s", out, end);
    FILE *file = fopen(path, "w");

    if (file == NULL || fwrite(bytes, 1, size, file) != size || fclose(file) != 0)
        exit(3);
}

static void step(void)
{
    for (unsigned i = 0; i < LAUNCHES; i++) {
        for (volatile unsigned turn = 0; turn < WORK; turn++)
            ;
        (void)fake_launch("relu_kernel", 0, 7, 1000);
    }
    fake_synchronize();
    trainglass_step();
}

int main(void)
{
    const char *out = getenv("STEPS_OUT");
    uint32_t count = 0;

    if (out == NULL || cuInit(0) != 0)
        return 2;
    signal(SIGTERM, note_end);
    trainglass_attach();
    while (!ended && count < STEPS_MAX) {
        begins[count++] = now_ns();
        step();
        if (count == WARM_STEPS)
            write_file(out, ".pid", "warm", 4);
    }
    write_file(out, "", begins, count * sizeof(begins[0]));
    return 0;
}
