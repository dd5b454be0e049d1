/* A training job on the fake torch: fake_torch_job SCENARIO [STEPS]; lives on until the file
 * that FAKE_JOB_UNTIL names is there. "train" allocates on all devices, "plugged" likewise by
 * another allocator than torch's, "host" on the host alone; "kernels" works on devices and
 * allocates nothing there; "empty" empties the cache at the end of every third step; "tight"
 * needs a larger block in each; "forks" is "train" whose forked child goes on, on the host.
 * With STEPS it prints what the allocators' own statistics say at the end of each, which is
 * what somebody who looks on must say too; without, it trains to its end.
 *
 *     totals DEVICE STEP ALLOCATED RESERVED
 *     counts DEVICE STEP SEGMENTS RETRIES OOMS
 *     peak DEVICE BYTES OP
 *     reports MADE REACHED_TORCH
 */
#include <dlfcn.h>
#include <malloc.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "fake_cuda.h"
#include "fake_torch.h"
#include "probe/torch/python.h"
#include "probe/trainglass.h"

#define MIB  ((size_t)1 << 20)
#define KEPT 3 /* steps for which a step's results are kept */

static struct peak {
    size_t bytes;
    char op[32];
} peaks[FAKE_TORCH_DEVICES + 1]; /* the last is the host's */

static size_t host_bytes;

static void see_peak(struct peak *peak, size_t bytes, const char *op)
{
    if (bytes <= peak->bytes)
        return;
    peak->bytes = bytes;
    snprintf(peak->op, sizeof(peak->op), "%s", op);
}

static void *allocate(int device, size_t bytes, const char *op)
{
    trainglass_range_push(op);
    void *block = fake_torch_allocate(device, bytes);

    trainglass_range_pop();
    see_peak(&peaks[device], fake_torch_stats(device).allocated, op);
    return block;
}

static void *allocate_on_host(size_t bytes, const char *op)
{
    trainglass_range_push(op);
    void *block = fake_torch_host_allocate(bytes);

    trainglass_range_pop();
    host_bytes += malloc_usable_size(block);
    see_peak(&peaks[FAKE_TORCH_DEVICES], host_bytes, op);
    return block;
}

static void free_on_host(void *block)
{
    host_bytes -= malloc_usable_size(block);
    fake_torch_host_free(block);
}

static void print_totals(unsigned step)
{
    for (int device = 0; device < FAKE_TORCH_DEVICES; device++) {
        struct fake_stats stats = fake_torch_stats(device);

        printf("totals cuda:%d %u %zu %zu\n", device, step, stats.allocated,
               stats.reserved);
        printf("counts cuda:%d %u %u %u %u\n", device, step, stats.segments,
               stats.retries, stats.ooms);
    }
    printf("totals cpu %u %zu 0\n", step, host_bytes);
}

static void launch(void)
{
    for (uint32_t device = 0; device < FAKE_TORCH_DEVICES; device++)
        (void)fake_launch("gemm", device, 7, 1000);
    fake_synchronize();
}

/* Results that live for some steps, and something large that lives within one. */
static void train_on_devices(unsigned step)
{
    static void *kept[FAKE_TORCH_DEVICES][KEPT];

    for (int device = 0; device < FAKE_TORCH_DEVICES; device++) {
        void **place = &kept[device][step % KEPT];
        size_t bytes = (1 + step % 7) * MIB + (size_t)device * 1000;

        if (*place != NULL)
            fake_torch_free(device, *place);
        *place = allocate(device, bytes, "conv");
        fake_torch_free(device, allocate(device, 2 * bytes, "softmax"));
    }
    launch();
}

static void train_on_host(unsigned step)
{
    static void *kept_on_host;

    if (kept_on_host != NULL)
        free_on_host(kept_on_host);
    kept_on_host = allocate_on_host((1 + step % 5) * MIB, "collate");
    free_on_host(allocate_on_host(4 * MIB, "stack"));
    /* What torch's profiler is told of the host is counted where it was allocated. */
    fake_torch_report_host(kept_on_host, 77);
}

/* Larger in each step: what is kept does not fit, and there is no room beside it. */
static void outgrow(unsigned step)
{
    void *block = allocate(0, (50 + step) * MIB, "embedding");

    if (block != NULL)
        fake_torch_free(0, block);
}

static void work(const char *scenario, unsigned step)
{
    if (strcmp(scenario, "kernels") == 0)
        launch();
    else if (strcmp(scenario, "tight") == 0)
        outgrow(step);
    else if (strcmp(scenario, "host") != 0)
        train_on_devices(step);
    if (strcmp(scenario, "empty") == 0 && step % 3 == 2)
        fake_torch_empty_cache();
}

static void attach(void)
{
    const char *path = getenv("TRAINGLASS_LIBRARY");
    const struct trainglass_python *(*get)(void) = NULL;
    void *library;

    trainglass_attach();
    library = dlopen(path != NULL ? path : "libtrainglass.so", RTLD_NOLOAD | RTLD_LAZY);
    if (library != NULL)
        *(void **)&get = dlsym(library, "trainglass_python");
    if (get != NULL)
        (void)get()->torch_end(); /* no observer of operators; the allocators are */
}

static bool is_over(void)
{
    const char *until = getenv("FAKE_JOB_UNTIL");

    return until == NULL || access(until, F_OK) == 0;
}

/* A child that trains on the host alone, as long as the job goes on. */
static pid_t train_in_child(void)
{
    pid_t child = fork();
    bool over = false;

    if (child != 0)
        return child;
    attach();
    for (unsigned step = 0; !over; step++) {
        train_on_host(step);
        usleep(1000);
        trainglass_step();
        over = is_over();
    }
    _exit(0);
}

int main(int count, char **words)
{
    const char *scenario = count > 1 ? words[1] : "train";
    unsigned steps = count > 2 ? (unsigned)strtoul(words[2], NULL, 10) : 0;

    if (cuInit(0) != 0)
        return 5;
    attach();
    if (strcmp(scenario, "plugged") == 0)
        fake_torch_change_allocator();
    for (unsigned step = 0; steps > 0 ? step < steps : !is_over(); step++) {
        work(scenario, step);
        train_on_host(step);
        if (steps > 0)
            print_totals(step);
        else
            usleep(1000);
        trainglass_step();
    }
    for (int i = 0; i <= FAKE_TORCH_DEVICES; i++) {
        printf(i < FAKE_TORCH_DEVICES ? "peak cuda:%d" : "peak cpu", i);
        printf(" %zu %s\n", peaks[i].bytes, peaks[i].op);
    }
    fflush(stdout);
    pid_t child = strcmp(scenario, "forks") == 0 ? train_in_child() : 0;

    while (!is_over())
        usleep(1000);
    if (child > 0)
        waitpid(child, NULL, 0);
    printf("reports %llu %llu\n", (unsigned long long)fake_torch_reports(),
           (unsigned long long)fake_c10_reports());
    return 0;
}
