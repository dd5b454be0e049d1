#include "bench/measure.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>

#include "segments.h"

#define WIDE 0.1 /* an interval of a tenth of the mark says little */

static char directory[] = "/dev/shm/trainglass-bench-XXXXXX";

double measure_now_ns(void)
{
    struct timespec now;

    clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)now.tv_sec * 1e9 + (double)now.tv_nsec;
}

static void remove_directory(void)
{
    (void)segments_remove_all(directory);
    (void)rmdir(directory);
}

const char *measure_directory(void)
{
    if (mkdtemp(directory) == NULL || setenv("TRAINGLASS_DIR", directory, 1) != 0 ||
        atexit(remove_directory) != 0) {
        fputs("no folder in /dev/shm for the benchmark\n", stderr);
        exit(2);
    }
    return directory;
}

static int by_size(const void *a, const void *b)
{
    const double *left = a, *right = b;

    return (*left > *right) - (*left < *right);
}

int measure(const struct measure *measure)
{
    double ratios[MEASURE_ROUNDS], costs[MEASURE_ROUNDS], references[MEASURE_ROUNDS];

    for (int i = -2; i < MEASURE_ROUNDS; i++) { /* the first two only warm up */
        double reference = measure->reference(measure->events, measure->context);
        double cost = measure->run(measure->events, measure->context);

        if (i < 0)
            continue;
        costs[i] = cost / (double)measure->events;
        references[i] = reference / (double)measure->events;
        ratios[i] = cost / reference;
    }
    qsort(ratios, MEASURE_ROUNDS, sizeof(ratios[0]), by_size);
    qsort(costs, MEASURE_ROUNDS, sizeof(costs[0]), by_size);
    qsort(references, MEASURE_ROUNDS, sizeof(references[0]), by_size);

    /* The median's rank among n is binomial: n / 2 +- 0.98 sqrt(n). */
    int reach = (int)ceil(0.98 * sqrt(MEASURE_ROUNDS)), middle = MEASURE_ROUNDS / 2;
    double ratio = ratios[middle];
    double low = ratios[middle - reach], high = ratios[middle + reach];
    int missed = low > measure->mark;
    int undecided =
        !missed && high > measure->mark && high - low > WIDE * measure->mark;

    printf(
        "{\"name\": \"%s\", \"ratio\": %.3f, \"ci95\": [%.3f, %.3f], \"mark\": %.3f, "
        "\"verdict\": \"%s\", \"ns\": %.2f, \"reference_ns\": %.2f}\n",
        measure->name, ratio, low, high, measure->mark,
        missed      ? "missed"
        : undecided ? "undecided"
                    : "hit",
        costs[MEASURE_ROUNDS / 2], references[MEASURE_ROUNDS / 2]);
    return missed;
}
