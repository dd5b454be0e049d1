/* The fake job beside another profiler: windows that begin at the worst moments, and who
 * takes CUPTI for good. */
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "fake_cuda.h"
#include "fake_job.h"
#include "probe/trainglass.h"

/* Longer than the flush that FAKE_JOB_SLOW_FLUSH says is slow. */
#define SLOW_WINDOW_MS 900u

/* What he records, he decides where a step ends. */
static void train_until_watched(void)
{
    while (getenv("FAKE_JOB_WATCHED") != NULL && fake_is_watched(FAKE_KERNELS) == 0)
        step();
}

/* Steps whose kernels are all the window's, until the file is there that FAKE_JOB_WINDOW_UNTIL
 * names and for so long at least; and its end. */
static int finish_window(int error, uint64_t until_ns)
{
    const char *until = getenv("FAKE_JOB_WINDOW_UNTIL");

    launched = 0;
    for (unsigned i = 0; i < 20; i++)
        step();
    while ((until != NULL && access(until, F_OK) != 0) || now_ns() < until_ns)
        step();
    uint64_t got = fake_kineto_end();

    printf("window: error %d, %llu of %u kernels\n", error, (unsigned long long)got,
           (unsigned)(launched / (LAUNCHES + 2) * LAUNCHES));
    return error;
}

/* A window of torch.profiler in the middle, announced or not. One that is announced when a
 * flush has just begun lasts until that flush is over. */
int window(unsigned steps, int announced)
{
    bool slow = getenv("FAKE_JOB_SLOW_FLUSH") != NULL;

    train(steps);
    for (unsigned begun = fake_flushes(); slow && fake_flushes() == begun;)
        step();
    uint64_t until_ns = slow ? now_ns() + SLOW_WINDOW_MS * MS : 0;

    if (announced)
        gpu_yield(1);
    else
        wait_for_reader(); /* something has come before it */
    if (announced && !slow)
        fake_kineto_needs_zeroes();
    int error = finish_window(fake_kineto_begin(), until_ns);

    if (getenv("FAKE_JOB_TEARDOWN") != NULL)
        fake_kineto_teardown();
    if (announced) {
        gpu_yield(0);
        train_until_watched();
    }
    train(steps);
    return error;
}

/* Until the guest has turned on what he had turned off of ours, or for 5 s. */
static void wait_until_restored(void)
{
    uint64_t end = now_ns() + UINT64_C(5000000000);

    while (fake_is_restored() == 0 && now_ns() < end)
        usleep(1000);
}

/* A window that begins while the guest turns kinds off: what it turns on stays on. An
 * announced one waits for him in vain, and has no new clock: it is the second. */
int window_in_off(unsigned steps, int announced)
{
    if (announced) {
        gpu_yield(1);
        (void)fake_kineto_begin();
        (void)fake_kineto_end();
        gpu_yield(0);
        train_until_watched();
    }
    train(steps);
    fake_hold("hold-off");
    if (announced)
        gpu_yield(1);
    while (fake_is_held() == 0)
        step();
    int error = fake_kineto_begin();

    fake_release();
    wait_until_restored();
    (void)finish_window(error, 0);
    if (announced)
        gpu_yield(0);
    train(steps);
    return error;
}

/* A window that is announced while the guest registers his callbacks. */
int window_in_register(unsigned steps, int unused)
{
    (void)unused;
    while (fake_is_held() == 0)
        ;
    gpu_yield(1);
    int error = fake_kineto_begin();

    while (fake_is_held() != 0)
        usleep(1000);
    (void)finish_window(error, 0);
    gpu_yield(0);
    train_until_watched();
    train(steps);
    return error;
}

/* Another profiler begins when the guest's flush is over, and the job leaves before his
 * next: at once, where there is a new clock to see; else after steps that tell as much. */
int leave_to_another(unsigned steps, int at_once)
{
    train(steps);
    fake_hold(at_once ? "hold-read" : "hold-time");
    while (fake_is_held() == 0)
        step();
    if (at_once)
        (void)fake_kineto_begin();
    else
        fake_fault("steal", 1);
    for (unsigned i = 0; !at_once && i < 20; i++)
        step();
    fake_release();
    return 0;
}

/* torch's second backend begins in the middle of a window of the first. */
void second_backend(unsigned steps)
{
    train(steps);
    gpu_yield(1);
    for (unsigned i = 0; i < 5; i++)
        step();
    gpu_yield(TRAINGLASS_YIELD_FOR_GOOD);
    gpu_yield(0);
}

/* A window that begins while somebody asks whether CUPTI is free: whether he had let it
 * go, or was waited for as long as anybody waits. */
int early_window(unsigned steps, int unused)
{
    (void)unused;
    while (fake_was_subscribed() == 0)
        ;
    uint64_t start = now_ns();

    gpu_yield(1);
    uint64_t waited_ns = now_ns() - start;
    int error = fake_kineto_begin();

    printf("early: %s\n", error == 0                        ? "free"
                          : waited_ns > UINT64_C(250000000) ? "waited in vain"
                                                            : "taken");
    (void)fake_kineto_end();
    gpu_yield(0);
    wait_for_guest();
    train(steps);
    return 0;
}

/* Windows that begin while a kernel runs that will not end before them. */
void busy_windows(unsigned windows)
{
    for (unsigned i = 0; i < windows; i++) {
        wait_for_guest();
        (void)fake_launch("runs_for_minutes", 0, 7, UINT64_C(120000000000));
        gpu_yield(1);
        (void)fake_kineto_begin();
        (void)fake_kineto_end();
        gpu_yield(0);
    }
    fake_forget();
    wait_for_guest();
}

/* Python has ended, the process has not. */
int outlive_python(unsigned steps, int unused)
{
    (void)unused;
    train(steps);
    python()->end(-1);
    while (fake_is_watched(FAKE_KERNELS) != 0 || fake_is_watched(FAKE_GRAPHS) != 0)
        usleep(1000);
    return 0;
}
