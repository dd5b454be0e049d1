#include "wire/clock.h"

#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* Reads at most size - 1 bytes; "" when the file is not there. */
static void read_text(const char *path, char *text, size_t size)
{
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    ssize_t got = fd < 0 ? 0 : read(fd, text, size - 1);

    if (fd >= 0)
        close(fd);
    text[got > 0 ? got : 0] = '\0';
}

bool clock_tsc_usable(void)
{
    /* NOLINTNEXTLINE(concurrency-mt-unsafe): the environment is read, never written */
    const char *forced = getenv("TRAINGLASS_CLOCK");
    char text[4096];

    if (forced != NULL && strcmp(forced, "monotonic") == 0)
        return false;
#if defined(__x86_64__)
    /* The kernel keeps tsc as its clock source only while the counters of all cores
     * agree and never stop. */
    read_text("/sys/devices/system/clocksource/clocksource0/current_clocksource", text,
              sizeof(text));
    if (strncmp(text, "tsc", 3) != 0)
        return false;
    read_text("/proc/cpuinfo", text, sizeof(text));
    return strstr(text, " constant_tsc") != NULL &&
           strstr(text, " nonstop_tsc") != NULL;
#else
    (void)read_text;
    (void)text;
    return false;
#endif
}
