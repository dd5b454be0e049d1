/* A training job on the fake GPU: fake_job SCENARIO [STEPS], or until the file that
 * FAKE_JOB_UNTIL names is there. With FAKE_JOB_GRAPHS a usual step launches a graph of as
 * many kernels instead, and after so many steps the next of sixty. FAKE_JOB_WATCHED lets it begin only when somebody has taken CUPTI
 * ("callbacks") or records ("kernels", "graphs" as a whole). FAKE_JOB_LOADS names
 * libraries, with a colon between, that it loads before CUDA. FAKE_JOB_TORCH attaches as the import of
 * torch does. FAKE_JOB_SLOW_FLUSH begins its window in a flush of the guest's, and
 * FAKE_JOB_TEARDOWN ends CUPTI behind it; FAKE_JOB_PREPARES has it work on the device and then
 * for so many seconds without, before its first step; FAKE_JOB_WINDOW_UNTIL names a file with which
 * it ends. Prints
 * what it did; that must not depend on whether anybody records it. */
#include "fake_job.h"

#include <dlfcn.h>
#include <errno.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <pthread.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "fake_cuda.h"
#include "probe/trainglass.h"

#define GRAPHS   60u
#define GRAPH_NS 5000000u

/* Before a failed call is looked at: longer than the guest takes to notice. */
#define UNSEEN_STEPS 400u

/* As CUPTI has it: void gemm_kernel<float>(float*) */
#define GEMM "_Z11gemm_kernelIfEvPf"

uint64_t launched;

uint64_t now_ns(void)
{
    struct timespec now;

    clock_gettime(CLOCK_MONOTONIC, &now);
    return (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
}

static void spin(uint64_t ns)
{
    uint64_t end = now_ns() + ns;

    while (now_ns() < end)
        ;
}

/* Calls cudaProfilerStop when the file is there that FAKE_JOB_PROFILER_OFF names, and
 * cudaProfilerStart when it is gone again. */
static void switch_profiler(void)
{
    static bool off;
    const char *path = getenv("FAKE_JOB_PROFILER_OFF");

    if (path == NULL || off == (access(path, F_OK) == 0))
        return;
    off = !off;
    fake_profiler(!off);
}

void step(void)
{
    static uint32_t steps;
    const char *graphs = getenv("FAKE_JOB_GRAPHS");

    switch_profiler();
    trainglass_phase_begin(TRAINGLASS_FORWARD);
    (void)fake_copy(1 << 20, 1, 20000);
    if (graphs != NULL)
        fake_graph(1 + steps++ / (uint32_t)strtoul(graphs, NULL, 10) % GRAPHS, LAUNCHES,
                   GRAPH_NS);
    for (uint32_t i = 0; graphs == NULL && i < LAUNCHES; i++)
        (void)fake_launch(i % 2 ? GEMM : "relu_kernel", 0, i % 2 ? 7 : 13, 10000);
    (void)fake_memset(4096, 1000);
    launched += LAUNCHES + 2;
    trainglass_phase_end(TRAINGLASS_FORWARD);
    fake_synchronize();
    spin(500000);
    trainglass_step();
}

static void repeat(unsigned steps, void (*one)(void))
{
    const char *until = getenv("FAKE_JOB_UNTIL");

    if (until != NULL) {
        while (access(until, F_OK) != 0)
            one();
        return;
    }
    for (unsigned i = 0; i < steps; i++)
        one();
}

void train(unsigned steps)
{
    repeat(steps, step);
}

const struct trainglass_python *python(void)
{
    void *library = dlopen("libtrainglass.so", RTLD_NOLOAD | RTLD_LAZY);
    const char *path = getenv("TRAINGLASS_LIBRARY");
    const struct trainglass_python *(*get)(void) = NULL;

    if (library == NULL && path != NULL)
        library = dlopen(path, RTLD_NOLOAD | RTLD_LAZY);
    if (library != NULL)
        *(void **)&get = dlsym(library, "trainglass_python");
    return get != NULL ? get() : NULL;
}

void gpu_yield(int begins)
{
    fake_announce(begins != 0);
    if (python() != NULL)
        python()->gpu_yield(begins);
}

/* How soon a guest is ready is not his host's to promise. */
void wait_for_guest(void)
{
    const char *until = getenv("FAKE_JOB_WATCHED");
    int kind = until == NULL                   ? 0
               : strcmp(until, "kernels") == 0 ? FAKE_KERNELS
               : strcmp(until, "graphs") == 0  ? FAKE_GRAPHS
                                               : 0;

    while (until != NULL && fake_is_watched(kind) == 0)
        usleep(1000);
}

/* All that was delivered by now is read: the one that runs may have come before it. */
void wait_for_reader(void)
{
    unsigned begun = fake_flushes();

    while (getenv("FAKE_JOB_WATCHED") != NULL && fake_flushes() < begun + 3)
        usleep(1000);
}

/* All of them live at once: a place among the threads is taken again after its owner. */
static pthread_barrier_t together;

static void *launcher(void *unused)
{
    (void)unused;
    trainglass_thread_name("launcher");
    trainglass_range_push("launching");
    for (unsigned i = 0; i < 200; i++)
        (void)fake_launch("from_a_thread", 0, 20, 1000);
    trainglass_range_pop();
    pthread_barrier_wait(&together);
    return NULL;
}

static void threads(unsigned steps)
{
    pthread_t all[4];

    train(steps);
    pthread_barrier_init(&together, NULL, 4);
    for (unsigned i = 0; i < 4; i++)
        if (pthread_create(&all[i], NULL, launcher, NULL) != 0)
            abort();
    for (unsigned i = 0; i < 4; i++)
        pthread_join(all[i], NULL);
}

/* A helper launches in an op of its own while the training thread waits. */
static pthread_barrier_t met;
static _Atomic bool helps = true;

static void *helper(void *unused)
{
    (void)unused;
    trainglass_thread_name("helper");
    for (;;) {
        pthread_barrier_wait(&met);
        if (!helps)
            return NULL;
        trainglass_op_push("aten::helped");
        for (unsigned i = 0; i < 20; i++) {
            (void)fake_launch("from_the_helper", 0, 20, 4000);
            spin(10000);
        }
        trainglass_op_pop();
        pthread_barrier_wait(&met);
    }
}

/* Ops in ops, and what none of them launched. */
static void step_of_ops(void)
{
    trainglass_op_push("aten::linear");
    for (unsigned i = 0; i < 3; i++) {
        trainglass_op_push("aten::addmm");
        spin(3000);
        (void)fake_launch(GEMM, 0, 7, 10000);
        spin(3000);
        trainglass_op_pop();
    }
    (void)fake_memset(4096, 1000);
    trainglass_op_pop();
    (void)fake_launch("of_no_op", 0, 7, 2000);
    (void)fake_launch("is_waited_for", 0, 7, 1000000);
    pthread_barrier_wait(&met);
    fake_synchronize();
    pthread_barrier_wait(&met);
    trainglass_step();
}

static void ops(unsigned steps)
{
    pthread_t thread;

    pthread_barrier_init(&met, NULL, 2);
    if (pthread_create(&thread, NULL, helper, NULL) != 0)
        abort();
    repeat(steps, step_of_ops);
    helps = false;
    pthread_barrier_wait(&met);
    pthread_join(thread, NULL);
}

/* Launches of Triton's, and such as others' runtime makes; and what moves between devices. */
static void step_of_calls(void)
{
    trainglass_op_push("aten::of_triton");
    (void)fake_launch_by_driver("triton_kernel", 0, 7, 30000);
    trainglass_op_pop();
    trainglass_op_push("aten::of_runtime");
    (void)fake_launch_by_driver("nested_kernel", 1, 7, 20000);
    trainglass_op_pop();
    (void)fake_peer_copy(1 << 20, 0, 1, 50000);
    fake_overhead(4 << 16, 5000);
    fake_synchronize();
    spin(100000);
    trainglass_step();
}

static void calls(unsigned steps)
{
    repeat(steps, step_of_calls);
    printf("small calls: %s\n", fake_small_calls() > 0 ? "recorded" : "none");
}

/* The device waits for data, behind a synchronisation, for Python and for an op that
 * launches late; a collective is half hidden by a kernel. */
static void step_of_waits(void)
{
    trainglass_phase_begin(TRAINGLASS_DATA);
    spin(4 * MS);
    trainglass_phase_end(TRAINGLASS_DATA);
    (void)fake_launch("ncclDevKernel_AllReduce_Sum_f32_RING_LL", 0, 20, 2 * MS);
    (void)fake_launch(GEMM, 0, 7, 1 * MS);
    fake_synchronize();
    spin(1 * MS);
    (void)fake_launch("relu_kernel", 0, 7, MS / 10);
    spin(2 * MS);
    (void)fake_launch("relu_kernel", 0, 7, MS / 10);
    trainglass_op_push("aten::launches_late");
    spin(3 * MS);
    (void)fake_launch("relu_kernel", 0, 7, MS / 10);
    trainglass_op_pop();
    trainglass_step();
}

/* As if the host computed, but not the longer for others that have its core. */
static void rest(long ns)
{
    nanosleep(&(struct timespec){.tv_nsec = ns}, NULL);
}

/* Five products on float64 of 2 ms in a step: the host waits for each and then computes, or
 * launches them all and is slower than the device. */
#define DGEMM "cutlass_80_tensorop_d884gemm_64x64_16x4_nn_align1"

static void step_that_waits(void)
{
    for (unsigned i = 0; i < 5; i++) {
        trainglass_op_push("aten::mm");
        (void)fake_launch(DGEMM, 0, 7, 2 * MS);
        fake_synchronize();
        trainglass_op_pop();
        rest(4 * MS);
    }
    trainglass_step();
}

static void step_of_a_slow_host(void)
{
    for (unsigned i = 0; i < 5; i++) {
        trainglass_op_push("aten::mm");
        (void)fake_launch(DGEMM, 0, 7, 2 * MS);
        rest(5 * MS / 2);
        trainglass_op_pop();
    }
    fake_synchronize();
    trainglass_step();
}

/* 10,000 names of 8 KB each: nobody's memory may grow with them. The first ones are
 * launched once more at the end. */
static void names(void)
{
    enum { NAMES = 10000, BYTES = 8192, AGAIN = 200 };
    char *texts = malloc((size_t)NAMES * BYTES);

    if (texts == NULL)
        abort();
    memset(texts, 'k', (size_t)NAMES * BYTES);
    for (size_t i = 0; i < NAMES; i++) {
        char *text = texts + i * BYTES;

        text[snprintf(text, 32, "kernel_%zu", i)] = '_';
        text[BYTES - 1] = '\0';
        (void)fake_launch(text, 0, 7, 100);
        if (i % 500 == 0) {
            fake_synchronize();
            trainglass_step();
        }
    }
    for (size_t i = 0; i < AGAIN; i++)
        (void)fake_launch(texts + i * BYTES, 0, 7, 100);
    fake_synchronize();
    wait_for_reader();
} /* the texts stay: their kernels may not have been told yet */

static void train_and_name(unsigned steps)
{
    train(steps);
    names();
}

/* A module was unloaded, and the name of a later one's kernel lies where its kernel's
 * did: its buffer was read by then. */
static void reuse_address(unsigned steps)
{
    static char name[16];

    (void)steps;
    for (unsigned i = 0; i < 2; i++) {
        (void)snprintf(name, sizeof(name), "%s", i == 0 ? "unloaded" : "loaded");
        for (unsigned j = 0; j < 3; j++)
            (void)fake_launch(name, 0, 7, i == 0 ? 1000000 : 3000000);
        fake_synchronize();
        wait_for_reader();
    }
}

/* At most 100,000 launches a second, for so many; how many there were. */
static void flood(unsigned seconds)
{
    uint64_t start = now_ns(), count = 0;

    while (now_ns() - start < seconds * UINT64_C(1000000000)) {
        for (unsigned i = 0; i < 100; i++, count++)
            (void)fake_launch("flood_kernel", 0, 7, 1000);
        while (now_ns() - start < count * 10000)
            ;
        if (count % 10000 == 0)
            trainglass_step();
    }
    fake_synchronize();
    trainglass_step();
    wait_for_reader();
    printf("flood: %llu\n", (unsigned long long)count);
}

static uint64_t flood_from_ns, flooded;

/* Nearly as many in steps of 10 ms, as short as a small model's, that get longer by what
 * their launches cost. */
static void flooded_step(void)
{
    if (flood_from_ns == 0)
        flood_from_ns = now_ns();
    for (unsigned i = 0; i < 1000; i++, flooded++)
        (void)fake_launch("flood_kernel", 0, 7, 1000);
    spin(9500000);
    fake_synchronize();
    trainglass_step();
}

static void flood_in_steps(unsigned steps)
{
    repeat(steps, flooded_step);
    printf("flood: %llu a second\n",
           (unsigned long long)(flooded * 1000000000 / (now_ns() - flood_from_ns)));
}

static void graphs(unsigned nodes)
{
    for (uint32_t i = 1; i <= 5; i++) {
        fake_graph(i, nodes, 100);
        fake_synchronize();
        trainglass_step();
    }
    wait_for_reader();
}

/* The n-th of them works for n times 20 us, and the first a little more. */
static void step_on_devices(void)
{
    (void)fake_launch("on_the_first", 0, 7, 10000);
    fake_synchronize();
    for (uint32_t device = 0; device < 8; device++)
        (void)fake_launch("on_its_device", device, 7, 20000 * (device + 1));
    fake_synchronize();
    fake_synchronize();
    trainglass_step();
    usleep(500); /* so many lanes, and no flood */
}

/* Whatever the job starts from here on may not read memory by address. */
static void forbid(void)
{
    struct sock_filter rows[] = {
        BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_process_vm_readv, 0, 1),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | EPERM),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW)};
    struct sock_fprog program = {sizeof(rows) / sizeof(rows[0]), rows};

    if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) != 0 ||
        prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program) != 0)
        _exit(77);
}

/* Closes all descriptors that it does not know, and opens a file under their numbers; by system
   calls of its own, for with the descriptors of other threads that is a race, and wants to be. */
static void close_all(unsigned steps)
{
    struct stat state;

    train(steps);
    for (unsigned begun = fake_flushes(); fake_flushes() < begun + 2;)
        step(); /* until names have been read */
    for (int at = 3; at < 256; at++)
        (void)syscall(SYS_close, at);
    int file = memfd_create("of the job", MFD_CLOEXEC);

    for (int at = 3; at < 256; at++)
        while (at != file && syscall(SYS_dup3, file, at, 0) != at)
            if (errno != EBUSY) /* another thread opens something at that moment */
                _exit(77);
    names();
    fake_synchronize();
    if (fstat(file, &state) != 0 || state.st_size != 0)
        printf("%lld bytes are in the job's file\n", (long long)state.st_size);
}

static int exit_code;

static void children(unsigned steps)
{
    int status = 0;

    fflush(stdout);
    pid_t child = fork();

    if (child == 0) {
        trainglass_step();
        gpu_yield(1);
        gpu_yield(0);
        exit(3);
    }
    train(steps);
    waitpid(child, &status, 0);
    exit_code = WIFEXITED(status) && WEXITSTATUS(status) == 3 ? 0 : 1;
}

/* The parent is recorded and never uses CUDA, its child does. */
static int fork_first(unsigned steps)
{
    int status = 0;

    trainglass_attach();
    if (python() == NULL)
        return 1;
    (void)python()->torch_end(); /* there is no torch; what else it attaches is */
    pid_t child = fork();

    if (child == 0) {
        if (cuInit(0) != 0)
            exit(1);
        trainglass_attach();
        wait_for_guest();
        train(steps);
        exit(0);
    }
    waitpid(child, &status, 0);
    return WIFEXITED(status) ? WEXITSTATUS(status) : 1;
}

static void load(const char *paths)
{
    char copy[1024], *save = NULL;

    snprintf(copy, sizeof(copy), "%s", paths);
    for (char *path = strtok_r(copy, ":", &save); path != NULL;
         path = strtok_r(NULL, ":", &save))
        if (dlopen(path, RTLD_NOW | RTLD_LOCAL) == NULL) {
            fprintf(stderr, "%s\n", dlerror());
            exit(98);
        }
}

/* As torch: what a call has returned is raised, later; nobody catches it, or C++ ends the
 * process. */
static int fail(unsigned steps, int error)
{
    train(steps);
    fake_break(error);
    for (unsigned i = 0; i < UNSEEN_STEPS; i++)
        step();
    fprintf(stderr, "CUDA error: %s\n",
            fake_error() == FAKE_ILLEGAL_ADDRESS
                ? "an illegal memory access was encountered"
                : "unknown error");
    if (error == FAKE_DEVICE_LOST)
        abort();
    return 1;
}

/* Twice, and it trains on. */
static void reset(unsigned steps)
{
    for (unsigned i = 0; i < 2; i++) {
        train(steps);
        fake_reset();
    }
}

/* One kernel that runs for minutes, and the job leaves without waiting for it. */
static void run_away(void)
{
    (void)fake_launch("runs_for_minutes", 0, 7, UINT64_C(120000000000));
}

/* The device is always behind: a kernel runs whenever somebody flushes. */
static void lagging_step(void)
{
    for (uint32_t i = 0; i < 4; i++)
        (void)fake_launch(GEMM, 0, 7, 10000);
    (void)fake_launch("is_behind", 0, 7, 400000000);
    spin(40000000);
    trainglass_step();
}

static void *wait_for_ranks(void *unused)
{
    (void)unused;
    (void)fake_launch("ncclDevKernel_AllReduce", 0, 21, 400000000);
    fake_forget();
    return NULL;
}

/* Now and then another thread launches a kernel that waits for other ranks, on a stream of
 * its own: what is launched after it is done long before. */
static void overtaking_step(void)
{
    static unsigned steps;
    pthread_t thread;

    if (steps++ % 50 == 0) {
        if (pthread_create(&thread, NULL, wait_for_ranks, NULL) != 0)
            abort();
        pthread_join(thread, NULL);
    }
    step();
}

/* In the hundredth step a kernel begins that stays on the device, as a server of others'
 * requests does. */
static void persistent_step(void)
{
    static unsigned steps;

    if (steps++ == 100) {
        run_away();
        fake_forget();
    }
    step();
}

/* What a job does: all of it, or a part, or steps of its own, and then it trains. */
static const struct scenario {
    const char *name;
    int (*job)(unsigned steps, int how); /* returns its exit code */
    int how;
    void (*part)(unsigned steps);
    void (*step)(void);
    enum { AS_MANY, ONE, NONE } then; /* of the usual steps */
    void (*last)(void);
} scenarios[] = {
    {.name = "train"},
    {"window", .job = window, .how = 1},
    {"unannounced-window", .job = window, .how = 0},
    {"window-in-off", .job = window_in_off, .how = 0},
    {"announced-in-off", .job = window_in_off, .how = 1},
    {"window-in-register", .job = window_in_register},
    {"leave-to-clock", .job = leave_to_another, .how = 1},
    {"leave-to-thief", .job = leave_to_another, .how = 0},
    {"early-window", .job = early_window},
    {"outlive-python", .job = outlive_python},
    {"illegal-address", .job = fail, .how = FAKE_ILLEGAL_ADDRESS},
    {"device-lost", .job = fail, .how = FAKE_DEVICE_LOST},
    {"threads", .part = threads},
    {"ops", .part = ops, .then = NONE},
    {"calls", .part = calls, .then = NONE},
    {"second-backend", .part = second_backend},
    {"waits", .step = step_of_waits, .then = NONE},
    {"waited-for", .step = step_that_waits},
    {"slow-host", .step = step_of_a_slow_host},
    {"flood", .part = flood, .then = ONE},
    {"flooded-steps", .part = flood_in_steps, .then = NONE},
    {"graphs", .part = graphs, .then = ONE},
    {"devices", .step = step_on_devices},
    {"names", .part = train_and_name},
    {"close-all", .part = close_all},
    {"reused-address", .part = reuse_address},
    {"fork", .part = children},
    {"lagging", .step = lagging_step, .then = NONE},
    {"overtaking", .step = overtaking_step, .then = NONE},
    {"persistent", .step = persistent_step, .then = NONE},
    {"reset", .part = reset},
    {"busy-windows", .part = busy_windows},
    {"run-away", .last = run_away},
};

static int run(const char *name, unsigned steps)
{
    const struct scenario *one = scenarios;

    for (size_t i = 0; i < sizeof(scenarios) / sizeof(scenarios[0]); i++)
        if (strcmp(scenarios[i].name, name) == 0)
            one = &scenarios[i];
    if (one->job != NULL)
        return one->job(steps, one->how);
    if (one->part != NULL)
        one->part(steps);
    if (one->step != NULL)
        repeat(steps, one->step);
    train(one->then == NONE ? 0 : one->then == ONE ? 1 : steps);
    if (one->last != NULL)
        one->last();
    printf("launched\n");
    return exit_code;
}

static void prepare(void)
{
    const char *seconds = getenv("FAKE_JOB_PREPARES");

    if (seconds == NULL)
        return;
    (void)fake_copy(1 << 20, 1, 20000);
    fake_synchronize();
    launched++;
    (void)sleep((unsigned)strtoul(seconds, NULL, 10));
}

int main(int count, char **words)
{
    const char *scenario = count > 1 ? words[1] : "train";
    unsigned steps = count > 2 ? (unsigned)strtoul(words[2], NULL, 10) : 50;

    if (getenv("FAKE_JOB_PLAIN_C") == NULL) /* as torch's libraries do */
        (void)dlopen("libstdc++.so.6", RTLD_LAZY);
    if (getenv("FAKE_JOB_FORBID") != NULL)
        forbid();
    if (getenv("FAKE_JOB_LOADS") != NULL)
        load(getenv("FAKE_JOB_LOADS"));
    if (strcmp(scenario, "fork-first") == 0)
        return fork_first(steps);
    int result = cuInit(0);

    printf("cuInit: %d\n", result);
    if (result != 0)
        return 5;
    trainglass_attach();
    if (getenv("FAKE_JOB_TORCH") != NULL && python() != NULL)
        (void)python()->torch_end(); /* there is no torch; what else it attaches is */
    if (strcmp(scenario, "early-window") != 0 &&
        strcmp(scenario, "window-in-register") != 0)
        wait_for_guest();
    prepare();
    return run(scenario, steps);
}
