/* How fast trace files are read: a real trace, replicated with shifted stamps and ids to a
 * file of 300 MB (TRAINGLASS_BENCH_TRACE names another one to replicate, TRAINGLASS_BENCH_MB
 * another size, such as 1000), against read() and
 * one look at each byte in the same run. For one thread time is the processor's; for two
 * the clock's, which means little on a busy machine: what the busier of both threads
 * takes of the processor says there what two idle cores would give.
 */
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <time.h>
#include <unistd.h>
#include <zlib.h>

#include "aggregate/store.h"
#include "ingest/file/file.h"
#include "ingest/trace/feed/inflater.h"
#include "ingest/trace/reader.h"
#include "ingest/trace/scan/scan.h"
#include "replica.h"

#define FILE_MB     300
#define ROUNDS      9
#define BLOCK_BYTES ((size_t)256 * 1024)

struct result {
    double low, middle, high;
};

static double now_s(clockid_t clock)
{
    struct timespec now;

    clock_gettime(clock, &now);
    return (double)now.tv_sec + (double)now.tv_nsec / 1e9;
}

static int by_size(const void *a, const void *b)
{
    const double *left = a, *right = b;

    return (*left > *right) - (*left < *right);
}

/* The median and the order statistics that hold it with 96 %. */
static struct result summarize(double values[ROUNDS])
{
    qsort(values, ROUNDS, sizeof(values[0]), by_size);
    return (struct result){values[1], values[ROUNDS / 2], values[ROUNDS - 2]};
}

static int print(const char *name, const char *unit, struct result value, double mark)
{
    const char *verdict = mark <= 0           ? "measured"
                          : value.low >= mark ? "hit"
                          : value.high < mark ? "missed"
                                              : "undecided";

    printf("{\"name\":\"%s\",\"value\":%.3g,\"unit\":\"%s\",\"low\":%.3g,\"high\":%.3g,"
           "\"mark\":%g,\"verdict\":\"%s\"}\n",
           name, value.middle, unit, value.low, value.high, mark, verdict);
    return mark > 0 && value.high < mark;
}

/* ---- what is compared ---- */

#if defined(__x86_64__) && !defined(__clang__)
__attribute__((target_clones("arch=x86-64-v4", "avx2", "default"), optimize("O3")))
#endif
static size_t
count_marks(const unsigned char *bytes, size_t length)
{
    size_t count = 0;

    for (size_t i = 0; i < length; i++)
        count += (size_t)((bytes[i] == '"') | (bytes[i] == '\\') |
                          ((bytes[i] | 32) == '{') | ((bytes[i] | 32) == '}'));
    return count;
}

/* MB/s of reading a file and looking at each byte. */
static double look_at(const char *path)
{
    static unsigned char block[BLOCK_BYTES] __attribute__((aligned(4096)));
    int descriptor = open(path, O_RDONLY | O_CLOEXEC);
    double began = now_s(CLOCK_THREAD_CPUTIME_ID);
    size_t marks = 0, bytes = 0;
    ssize_t got;

    while (descriptor >= 0 && (got = read(descriptor, block, sizeof(block))) > 0) {
        marks += count_marks(block, (size_t)got);
        bytes += (size_t)got;
    }
    double took = now_s(CLOCK_THREAD_CPUTIME_ID) - began;

    close(descriptor);
    return marks > 0 ? (double)bytes / took / 1e6 : 0;
}

static bool take(void *user, struct trace_event *events, uint32_t count)
{
    uint64_t *sum = user;

    for (uint32_t i = 0; i < count; i++)
        *sum += (uint64_t)events[i].duration_ns;
    return true;
}

/* Seconds, of reading all events. */
struct cost {
    double clock;
    double parser, feeder; /* of the processor, by thread */
    double bytes;          /* of text */
};

static struct cost read_events(const char *path, struct trace_options options)
{
    struct trace_reader *reader = trace_reader_new(&options);
    uint64_t sum = 0;
    double clock = now_s(CLOCK_MONOTONIC), all = now_s(CLOCK_PROCESS_CPUTIME_ID);
    double own = now_s(CLOCK_THREAD_CPUTIME_ID);

    if (reader == NULL || trace_reader_open(reader, path) != 0 ||
        trace_reader_run(reader, take, &sum) != 0) {
        fprintf(stderr, "%s was not read\n", path);
        exit(2);
    }
    struct cost cost = {.clock = now_s(CLOCK_MONOTONIC) - clock,
                        .parser = now_s(CLOCK_THREAD_CPUTIME_ID) - own};

    cost.feeder = now_s(CLOCK_PROCESS_CPUTIME_ID) - all - cost.parser;
    cost.bytes = (double)trace_reader_report(reader)->text_bytes;
    if (trace_reader_skipped(reader) > 0 || sum == 0) {
        fprintf(stderr, "%s was not read whole\n", path);
        exit(2);
    }
    trace_reader_free(reader);
    return cost;
}

static double busier(struct cost cost)
{
    return cost.parser > cost.feeder ? cost.parser : cost.feeder;
}

/* ---- the file ---- */

static bool make_file(const char *from, const char *path)
{
    const char *wanted = getenv("TRAINGLASS_BENCH_MB");
    uint64_t mb = wanted != NULL ? strtoull(wanted, NULL, 10) : FILE_MB;
    struct replica *replica = replica_open(from);
    int descriptor = open(path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
    bool good = replica != NULL && descriptor >= 0 &&
                replica_write(replica, descriptor, mb * 1000000);

    if (descriptor >= 0)
        good = close(descriptor) == 0 && good;
    replica_close(replica);
    return good;
}

static bool pack_file(const char *from, const char *to)
{
    static char block[BLOCK_BYTES];
    int in = open(from, O_RDONLY | O_CLOEXEC);
    gzFile out = gzopen(to, "wb6");
    ssize_t got = 0;

    while (in >= 0 && out != NULL && (got = read(in, block, sizeof(block))) > 0)
        if (gzwrite(out, block, (unsigned)got) != got)
            break;
    close(in);
    return out != NULL && gzclose(out) == Z_OK && got == 0;
}

/* ---- the table ---- */

struct files {
    char folder[64], text[80], packed[80];
};

static void remove_files(struct files *files)
{
    unlink(files->text);
    unlink(files->packed);
    rmdir(files->folder);
}

enum figure {
    ONE,
    SCALAR,
    TWO,
    TWO_BUSIER,
    WHOLE_TWO,
    PACKED,
    PACKED_BUSIER,
    RATE,
    WHOLE,
    GROUPED,
    RESIDENT,
    FIGURES
};

static const struct {
    const char *name, *unit;
    double mark;
} figures[FIGURES] = {
    [ONE] = {"trace events, one thread", "of read and look", 0.24},
    [SCALAR] = {"trace events, one thread, scalar", "of read and look", 0.10},
    [TWO] = {"trace events, two threads", "of one", 1.6},
    [TWO_BUSIER] = {"trace events, one thread to the busier of two", "of one", 0},
    [WHOLE_TWO] = {"full analysis, two threads", "of one", 1.6},
    [PACKED] = {"trace events from gzip", "MB/s", 1400},
    [PACKED_BUSIER] = {"trace events from gzip, the busier thread", "MB/s", 0},
    [RATE] = {"trace events, one thread", "MB/s", 0},
    [WHOLE] = {"full analysis, one thread", "of read and look", 0.24},
    [GROUPED] = {"full analysis with shapes, stacks and modules", "of read and look",
                 0},
    [RESIDENT] = {"memory after all of it", "MB", 0},
};

/* From the file to its tables. */
struct spent {
    double clock, processor; /* seconds */
};

static struct spent analyze(const char *path, uint32_t groups, bool one_thread)
{
    const struct store_limits limits = {.history_bytes = (uint64_t)1 << 20};
    const struct file_request request = {
        .path = path, .options = {.one_thread = one_thread}, .groups = groups};
    struct store *store = store_new(&limits);
    struct file_result result;
    struct spent spent;
    double clock = now_s(CLOCK_MONOTONIC), start = now_s(CLOCK_PROCESS_CPUTIME_ID);

    if (store == NULL || file_load(store, &request, &result) != 0)
        exit(2);
    spent.processor = now_s(CLOCK_PROCESS_CPUTIME_ID) - start;
    spent.clock = now_s(CLOCK_MONOTONIC) - clock;
    store_free(store);
    return spent;
}

static double resident_mb(void)
{
    struct rusage usage;

    getrusage(RUSAGE_SELF, &usage);
    return (double)usage.ru_maxrss * 1024 / 1e6;
}

static void measure_round(const struct files *files, double values[FIGURES])
{
    double reference = look_at(files->text);
    struct cost one =
        read_events(files->text, (struct trace_options){.one_thread = true});
    struct cost scalar =
        read_events(files->text, (struct trace_options){.one_thread = true,
                                                        .scan = TRACE_SCAN_SCALAR});
    struct cost two = read_events(files->text, (struct trace_options){0});
    struct cost packed = read_events(files->packed, (struct trace_options){0});

    values[RATE] = one.bytes / one.parser / 1e6;
    values[ONE] = values[RATE] / reference;
    values[SCALAR] = scalar.bytes / scalar.parser / 1e6 / reference;
    values[TWO] = one.clock / two.clock;
    values[TWO_BUSIER] = one.parser / busier(two);
    values[PACKED] = packed.bytes / packed.clock / 1e6;
    values[PACKED_BUSIER] = packed.bytes / busier(packed) / 1e6;
    struct spent whole = analyze(files->text, 0, true);
    struct spent whole_two = analyze(files->text, 0, false);
    struct spent grouped = analyze(files->text, FILE_GROUPS_ALL, true);

    values[WHOLE] = one.bytes / whole.processor / 1e6 / reference;
    values[WHOLE_TWO] = whole.clock / whole_two.clock;
    values[GROUPED] = one.bytes / grouped.processor / 1e6 / reference;
    values[RESIDENT] = resident_mb();
}

static int run(const struct files *files)
{
    double values[FIGURES][ROUNDS], round[FIGURES];
    bool isal = strcmp(inflater_library(), "ISA-L") == 0;
    int missed = 0;

    for (int i = -1; i < ROUNDS; i++) { /* the first only warms up */
        measure_round(files, round);
        for (int figure = 0; i >= 0 && figure < FIGURES; figure++)
            values[figure][i] = round[figure];
    }
    for (int i = 0; i < FIGURES; i++)
        missed += print(figures[i].name, figures[i].unit, summarize(values[i]),
                        i == PACKED && !isal ? 850 : figures[i].mark);
    return missed;
}

int main(void)
{
    const char *from = getenv("TRAINGLASS_BENCH_TRACE");
    struct files files = {.folder = "/tmp/trainglass-bench-XXXXXX"};

    if (from == NULL)
        from = BENCH_TRACE;
    if (mkdtemp(files.folder) == NULL)
        return 2;
    snprintf(files.text, sizeof(files.text), "%s/trace.json", files.folder);
    snprintf(files.packed, sizeof(files.packed), "%s/trace.json.gz", files.folder);
    if (!make_file(from, files.text) || !pack_file(files.text, files.packed)) {
        fprintf(stderr, "no file was made of %s\n", from);
        remove_files(&files);
        return 2;
    }
    static const char *const scans[] = {"", "scalar", "AVX2", "AVX-512"};

    fprintf(stderr, "%s, scanned with %s, inflated with %s\n", from,
            scans[trace_scan_best()], inflater_library());
    int missed = run(&files);

    remove_files(&files);
    return missed > 0;
}
