/* What kind of file it is that is no trace, by its first bytes. */
#include "ingest/trace/feed/magic.h"

#include <string.h>

#define CPROFILE                                                                       \
    "is a profile of cProfile: snakeviz and pstats show those; torch.profiler with "   \
    "with_stack=True records Python's calls for here"

struct magic {
    uint8_t length;
    const char *bytes, *sentence;
};

static const struct magic refused[] = {
    {4, "PK\3\4",
     "is a zip archive, whose traces are read from a file only: `trainglass analyze` "
     "takes one by its name; to cut one, unpack it first (unzip FILE)"},
    {4, "\x28\xb5\x2f\xfd",
     "is zstd: unpack it first (zstdcat FILE | trainglass analyze -)"},
    {6,
     "\xfd"
     "7zXZ\0",
     "is xz: unpack it first (xzcat FILE | trainglass analyze -)"},
    {3, "BZh", "is bzip2: unpack it first (bzcat FILE | trainglass analyze -)"},
    {2, "\x1f\x8b",
     "is gzip within gzip: unpack it first (zcat FILE | trainglass analyze -)"},
    {23, "version https://git-lfs",
     "is a pointer of Git LFS, not the file itself: git lfs pull"},
    {9, "<!DOCTYPE", "is a page of HTML, as a failed download leaves it"},
    {5, "<html",
     "is a page of HTML, such as export_memory_timeline() of torch.profiler writes"},
    {2, "\x80\2",
     "is a pickle, as torch.save() and memory snapshots of torch are: memory_viz shows "
     "those"},
    {2, "\x80\4",
     "is a pickle, as torch writes memory snapshots: its memory_viz shows those"},
    {2, "\x80\5",
     "is a pickle, as torch writes memory snapshots: its memory_viz shows those"},
    {15, "SQLite format 3",
     "is an SQLite database, such as Nsight Systems exports: traces of torch.profiler "
     "are "
     "read here"},
    {3, "{\xa9\3", CPROFILE},
    {3, "{\x29\3", CPROFILE},
    {3, "{(\3", CPROFILE},
    {3, "\xfb\xa9\3", CPROFILE},
    {3, "\xfb\x29\3", CPROFILE},
    {4,
     "\x7f"
     "ELF",
     "is a program, not a trace"},
    {4, "\xff\xfe\0\0", "is UTF-32: convert it first (iconv -f UTF-32 -t UTF-8 FILE)"},
    {4, "\0\0\xfe\xff", "is UTF-32: convert it first (iconv -f UTF-32 -t UTF-8 FILE)"},
    {2, "\xff\xfe", "is UTF-16: convert it first (iconv -f UTF-16 -t UTF-8 FILE)"},
    {2, "\xfe\xff", "is UTF-16: convert it first (iconv -f UTF-16 -t UTF-8 FILE)"},
    {2, "{\0", "is UTF-16: convert it first (iconv -f UTF-16LE -t UTF-8 FILE)"},
    {2, "[\0", "is UTF-16: convert it first (iconv -f UTF-16LE -t UTF-8 FILE)"},
    {2, "\0{", "is UTF-16: convert it first (iconv -f UTF-16BE -t UTF-8 FILE)"},
    {2, "\0[", "is UTF-16: convert it first (iconv -f UTF-16BE -t UTF-8 FILE)"},
};

#define FIRST_BYTES 4096u

/* Protocol buffers begin with the tag of a message's first field and its length, as these two
 * do; a text that begins with a line's end has no such bytes behind it. */
static const char *protobuf_sentence(const char *bytes, size_t length)
{
    bool binary = false;

    if (bytes == NULL || length < 16 || bytes[0] != '\n')
        return NULL;
    for (size_t i = 1; i < 16; i++)
        binary = binary || ((unsigned char)bytes[i] < ' ' && bytes[i] != '\n' &&
                            bytes[i] != '\r' && bytes[i] != '\t');
    if (!binary)
        return NULL;
    length = length < FIRST_BYTES ? length : FIRST_BYTES;
    if (memmem(bytes, length, "/host:", 6) != NULL ||
        memmem(bytes, length, "/device:", 8) != NULL ||
        memmem(bytes, length, "Task Environment", 16) != NULL)
        return "is an XSpace of XProf (.xplane.pb of JAX or TensorFlow): the "
               "trace.json.gz beside it can be read";
    return "is a protocol buffer, such as a trace of Perfetto: ui.perfetto.dev shows "
           "those, and its traceconv json makes a trace that can be read";
}

#define CHECKSUM_AT   148u
#define CHECKSUM_SIZE 8u

/* Octal, or a number of its own bytes where the first has its high bit set. */
uint64_t tar_number(const unsigned char *field, size_t size)
{
    uint64_t number = 0;

    if (field[0] & 0x80) {
        for (size_t i = size - 8; i < size; i++)
            number = number << 8 | field[i];
        return number;
    }
    for (size_t i = 0; i < size && (field[i] == ' ' || field[i] - '0' + 0u < 8u); i++)
        if (field[i] != ' ')
            number = number << 3 | (field[i] - '0' + 0u);
    return number;
}

bool tar_is_header(const unsigned char *block)
{
    uint64_t sum = CHECKSUM_SIZE * ' ';

    for (size_t i = 0; i < TAR_BLOCK; i++)
        if (i < CHECKSUM_AT || i >= CHECKSUM_AT + CHECKSUM_SIZE)
            sum += block[i];
    /* All zero is the end of a tar, not a header. */
    return sum > CHECKSUM_SIZE * ' ' &&
           sum == tar_number(block + CHECKSUM_AT, CHECKSUM_SIZE);
}

const char *magic_sentence(const void *bytes, size_t length)
{
    for (size_t i = 0; i < sizeof(refused) / sizeof(refused[0]); i++)
        if (length >= refused[i].length &&
            memcmp(bytes, refused[i].bytes, refused[i].length) == 0)
            return refused[i].sentence;
    if (length >= TAR_BLOCK && tar_is_header(bytes))
        return "is a tar archive, whose traces are read from a file only: `trainglass "
               "analyze` takes one by its name; to cut one, unpack it first (tar xf "
               "FILE)";
    return protobuf_sentence(bytes, length);
}
