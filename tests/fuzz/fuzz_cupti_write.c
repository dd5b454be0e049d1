/* Activity buffers of any bytes, under any stamps of CUPTI's clock, on their way to events:
 * what belongs on the timeline is written, or counted as unreadable with a time around it. */
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "any_strides.h"
#include "fuzz.h"
#include "probe/cupti/unreadable.h"
#include "probe/cupti/write.h"
#include "probe/probe.h"

#define PAIRS_MAX 8u

static struct calls calls;
static char folder[64];

/* One call of each class, and those that nobody knows. */
static int callback_name(uint32_t domain, uint32_t call, const char **name)
{
    static const char *const names[] = {
        "cudaLaunchKernel_v7000", "cudaDeviceSynchronize_v3020", "cudaMalloc_v3020",
        "cudaGetDevice_v3020", "cudaMemcpyAsync_ptsz"};

    *name = names[call % (sizeof(names) / sizeof(names[0]))];
    return domain == CUPTI_DOMAIN_RUNTIME ? CUPTI_OK : CUPTI_UNKNOWN;
}

static void clean(void)
{
    char command[80];

    (void)snprintf(command, sizeof(command), "rm -rf %.63s", folder);
    if (system(command) != 0) /* NOLINT(cert-env33-c): a folder of our own */
        perror(folder);
}

static const struct cupti_library library = {.next = any_strides_next,
                                             .callback_name = callback_name};

/* Somewhere must be written to. */
static void prepare(void)
{
    const char *base = access("/dev/shm", W_OK) == 0 ? "/dev/shm" : "/tmp";

    (void)snprintf(folder, sizeof(folder), "%s/trainglass-fuzz-XXXXXX", base);
    if (mkdtemp(folder) == NULL || setenv("TRAINGLASS_DIR", folder, 1) != 0 ||
        probe_start(0) != 0)
        abort();
    (void)atexit(clean);
    calls_open(&calls, &library);
    calls.were_on = true; /* graphs are written */
}

/* A count, then so many pairs {clock, stamp, ticks since the one before}: the stamps are
 * CUPTI's, the ticks are ours. Returns the bytes that they took. */
static size_t read_stamps(const uint8_t *data, size_t size, struct stamps *stamps)
{
    uint64_t ticks = UINT64_C(1) << 40;
    size_t at = 1;

    stamps_open(stamps, true, 2.5);
    for (unsigned i = 0; i < data[0] % PAIRS_MAX && size - at >= 13; i++, at += 13) {
        struct stamps_pair pair;
        uint32_t passed;

        memcpy(&pair.stamp, data + at + 1, sizeof(pair.stamp));
        memcpy(&passed, data + at + 9, sizeof(passed));
        ticks += passed;
        pair.ticks = ticks;
        (void)stamps_add(stamps, (enum stamps_clock)(data[at] % (STAMPS_TSC + 1)),
                         pair);
    }
    return at;
}

static struct cupti_reader reader_of(const struct cupti_layout *layout, uint8_t *buffer,
                                     size_t size)
{
    struct cupti_reader reader;

    cupti_reader_open(&reader, layout, any_strides_next, buffer, size);
    return reader;
}

static void check(const struct writer *writer, const struct cupti_layout *layout,
                  uint8_t *buffer, size_t size)
{
    struct cupti_reader looks = reader_of(layout, buffer, size);
    struct cupti_reader reads = reader_of(layout, buffer, size);
    struct writer writes = *writer;
    struct cupti_record record;
    uint64_t read = 0, written = 0, ticks[2];

    struct unreadable lost = unreadable_in(writer, &looks, 1);
    uint64_t broken = looks.skipped.cut + looks.skipped.broken;

    if (lost.works > lost.events ||
        (lost.works > 0 && lost.since_ticks > lost.until_ticks))
        abort();
    write_buffer_begins();
    reads.untimed = true;
    while (cupti_read(&reads, &record)) {
        uint64_t before = writes.counts.events;

        read += write_wants(writer, &record);
        write_record(&writes, &record);
        written += writes.counts.events > before;
        if (writes.counts.events - before > 3 ||
            (writes.counts.events > before &&
             !write_knows_times(writer, &record, ticks)))
            abort();
    }
    if (written + lost.events != read + broken)
        abort();
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct cupti_layout layout;
    struct stamps stamps;
    struct writer writer = {.cupti = &library, .stamps = &stamps, .calls = &calls};

    if (folder[0] == '\0')
        prepare();
    if (size < CUPTI_KINDS + 1)
        return 0;
    any_strides = data;
    (void)cupti_layout_learn(&layout, any_strides_next);
    data += CUPTI_KINDS;
    size -= CUPTI_KINDS;
    size_t used = read_stamps(data, size, &stamps);

    data += used;
    size -= used;
    /* To the byte, so that a step too far is seen. */
    uint8_t *buffer = malloc(size > 0 ? size : 1);

    if (buffer == NULL)
        return 0;
    memcpy(buffer, data, size);
    check(&writer, &layout, buffer, size);
    free(buffer);
    return 0;
}
