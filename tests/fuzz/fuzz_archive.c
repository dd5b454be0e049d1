/* Archives of any bytes: what is listed can be asked for, and nothing is read outside. */
#include <string.h>

#include "fuzz.h"
#include "ingest/trace/archive/archive.h"
#include "ingest/trace/archive/stream.h"

/* At most a few MB of each member: a bomb is large and slow, and no different. */
static void read_member(struct archive *archive, uint32_t member)
{
    char bytes[65536];
    uint64_t packed = 0, read = 0;
    ssize_t got = archive_enter(archive, member);

    while (got == 0 && read < ((uint64_t)4 << 20)) {
        got = archive_read(archive, bytes, sizeof(bytes), &packed);
        if (got <= 0)
            return;
        demand((size_t)got <= sizeof(bytes));
        read += (uint64_t)got;
        got = 0;
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    char path[40], error[ARCHIVE_ERROR_BYTES] = "";
    int descriptor = fuzz_file(data, size, path);
    struct archive *archive = NULL;

    if (descriptor >= 0) {
        int result = archive_open(&archive, path, &(struct stream_stop){0}, error);

        demand(result == 0 || (archive == NULL && error[0] != '\0'));
        for (uint32_t i = 0; archive != NULL && i < archive_count(archive) && i < 16;
             i++) {
            demand(strlen(archive_name(archive, i)) < ARCHIVE_NAME_BYTES);
            read_member(archive, i);
        }
        /* Backwards too. */
        for (uint32_t i = archive == NULL ? 0 : archive_count(archive) % 16; i-- > 0;)
            read_member(archive, i);
    }
    archive_close(archive);
    if (descriptor >= 0)
        close(descriptor);
    return 0;
}
