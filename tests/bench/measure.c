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

struct measure_middle measure_middle(double *values, unsigned count)
{
    /* The median's rank among n is binomial: n / 2 +- 0.98 sqrt(n). */
    unsigned reach = (unsigned)ceil(0.98 * sqrt(count)), half = count / 2;

    qsort(values, count, sizeof(values[0]), by_size);
    return (struct measure_middle){values[half], values[half - reach],
                                   values[half + reach]};
}

const char *measure_verdict(struct measure_middle middle, double mark, int at_least)
{
    if (at_least ? middle.low >= mark : middle.high <= mark)
        return "hit";
    return (at_least ? middle.high < mark : middle.low > mark) ? "missed" : "undecided";
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
    struct measure_middle ratio = measure_middle(ratios, MEASURE_ROUNDS);
    int missed = ratio.low > measure->mark;
    int undecided = !missed && ratio.high > measure->mark &&
                    ratio.high - ratio.low > WIDE * measure->mark;

    printf(
        "{\"name\": \"%s\", \"ratio\": %.3f, \"ci95\": [%.3f, %.3f], \"mark\": %.3f, "
        "\"verdict\": \"%s\", \"ns\": %.2f, \"reference_ns\": %.2f}\n",
        measure->name, ratio.value, ratio.low, ratio.high, measure->mark,
        missed      ? "missed"
        : undecided ? "undecided"
                    : "hit",
        measure_middle(costs, MEASURE_ROUNDS).value,
        measure_middle(references, MEASURE_ROUNDS).value);
    return missed;
}
