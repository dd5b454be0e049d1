/* What kind of file it is that is no trace, by its first bytes. */
#include "ingest/trace/feed/magic.h"

#include <stdint.h>
#include <string.h>

#include "ingest/trace/feed/tar_header.h"

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

static bool contains(const char *bytes, size_t length, const char *text)
{
    return memmem(bytes, length, text, strlen(text)) != NULL;
}

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
    if (contains(bytes, length, "/host:") || contains(bytes, length, "/device:") ||
        contains(bytes, length, "Task Environment"))
        return "is an XSpace of XProf (.xplane.pb of JAX or TensorFlow): the "
               "trace.json.gz beside it can be read";
    return "is a protocol buffer, such as a trace of Perfetto: ui.perfetto.dev shows "
           "those, and its traceconv json makes a trace that can be read";
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
