#include "command/selftest/step_times.h"

#include <errno.h>
#include <fcntl.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "command/places.h"
#include "query/numbers.h"
#include "wire/clock.h"

#define FILE_STEPS_MAX (UINT32_C(1) << 22)
#define GUARD_NS       UINT64_C(3000000) /* after a change of cores the caches are cold */
#define WINDOW_MIN     3u                /* steps */

/* Steps of more than so many medians are left out: the machine ran something else. A step
 * that is recorded takes less than twice as long, so what detail costs is in the mean. */
#define DISTURBED 3

enum source { SOURCE_TIMER, SOURCE_JOB, SOURCE_JOB_WARM };

static void file_path(char path[PLACE_BYTES], const char *folder, int side,
                      enum source source)
{
    static const char *const ends[] = {[SOURCE_TIMER] = ".updates",
                                       [SOURCE_JOB] = ".steps",
                                       [SOURCE_JOB_WARM] = ".steps.pid"};

    (void)snprintf(path, PLACE_BYTES, "%.900s/%d%s", folder, side, ends[source]);
}

void step_times_export(const char *folder, int side)
{
    char path[PLACE_BYTES];

    file_path(path, folder, side, SOURCE_TIMER);
    (void)setenv("TRAINGLASS_STEP_TIMES", path, 1); /* NOLINT(concurrency-mt-unsafe) */
    file_path(path, folder, side, SOURCE_JOB);
    (void)setenv("STEPS_OUT", path, 1); /* NOLINT(concurrency-mt-unsafe) */
}

static int open_file(const char *folder, int side, enum source source)
{
    char path[PLACE_BYTES];

    file_path(path, folder, side, source);
    return open(path, O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK);
}

bool step_times_are_warm(const char *folder, int side, uint32_t steps, uint64_t ns)
{
    int fd = open_file(folder, side, SOURCE_TIMER);
    uint64_t first = 0, later = 0, now = clock_ns(CLOCK_MONOTONIC);
    struct stat status;

    if (fd >= 0) {
        bool read = pread(fd, &first, sizeof(first), 0) == sizeof(first) &&
                    pread(fd, &later, sizeof(later),
                          (off_t)((steps - 1) * sizeof(later))) == sizeof(later);

        close(fd);
        return read && later != 0 && now > first && now - first >= ns;
    }
    fd = open_file(folder, side, SOURCE_JOB_WARM);
    bool warm = fd >= 0 && fstat(fd, &status) == 0 && status.st_size > 0;

    if (fd >= 0)
        close(fd);
    return warm;
}

/* Ascending times are kept, up to the first that is none. */
static uint32_t check(const uint64_t *begins, uint32_t count)
{
    uint32_t i = 0;

    while (i < count && begins[i] != 0 && (i == 0 || begins[i] >= begins[i - 1]))
        i++;
    return i;
}

static int read_file(struct step_times *times, const char *folder, int side,
                     enum source source)
{
    int fd = open_file(folder, side, source), error = 0;
    struct stat status;
    size_t size = 0, got = 0;

    step_times_free(times);
    if (fd < 0)
        return errno == ENOENT ? 0 : -errno;
    if (fstat(fd, &status) == 0 && S_ISREG(status.st_mode))
        size = (size_t)status.st_size / sizeof(uint64_t);
    size = size < FILE_STEPS_MAX ? size : FILE_STEPS_MAX;
    times->begins = size > 0 ? malloc(size * sizeof(uint64_t)) : NULL;
    if (size > 0 && times->begins == NULL)
        error = -ENOMEM;
    while (times->begins != NULL && got < size * sizeof(uint64_t)) {
        ssize_t more = pread(fd, (char *)times->begins + got,
                             size * sizeof(uint64_t) - got, (off_t)got);

        if (more <= 0)
            break;
        got += (size_t)more;
    }
    close(fd);
    if (times->begins != NULL)
        times->count = check(times->begins, (uint32_t)(got / sizeof(uint64_t)));
    return error < 0 ? error : (int)times->count;
}

int step_times_read(struct step_times *times, const char *folder, int side)
{
    int count = read_file(times, folder, side, SOURCE_TIMER);

    return count > 1 || count < 0 ? count : read_file(times, folder, side, SOURCE_JOB);
}

void step_times_free(struct step_times *times)
{
    free(times->begins);
    *times = (struct step_times){0};
}

/* Lengths of the steps first..last, ascending; freed by the caller, NULL when there are none
 * or no memory. */
static double *sorted_lengths(const struct step_times *times, uint32_t first,
                              uint32_t last)
{
    double *lengths = last > first ? malloc((last - first) * sizeof(*lengths)) : NULL;

    for (uint32_t i = first; lengths != NULL && i < last; i++)
        lengths[i - first] = (double)(times->begins[i + 1] - times->begins[i]);
    if (lengths != NULL)
        numbers_sort(lengths, last - first);
    return lengths;
}

/* The first step that begins at or after `ns`. */
static uint32_t first_after(const struct step_times *times, uint64_t ns)
{
    uint32_t low = 0, high = times->count;

    while (low < high) {
        uint32_t middle = low + (high - low) / 2;

        if (times->begins[middle] < ns)
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

struct step_lengths step_times_between(const struct step_times *times, uint64_t from_ns,
                                       uint64_t to_ns)
{
    uint32_t first = first_after(times, from_ns + GUARD_NS);
    uint32_t end = first_after(times, to_ns); /* the first that begins too late */
    uint32_t count = end > first ? end - 1 - first : 0, kept = 0;
    double *lengths =
        count >= WINDOW_MIN ? sorted_lengths(times, first, end - 1) : NULL;
    double sum = 0;

    if (lengths == NULL)
        return (struct step_lengths){(double)NAN, (double)NAN};
    double median = numbers_quantile(lengths, count, 0.5);

    while (kept < count && lengths[kept] <= DISTURBED * median)
        sum += lengths[kept++];
    free(lengths);
    return (struct step_lengths){median, sum / kept};
}
