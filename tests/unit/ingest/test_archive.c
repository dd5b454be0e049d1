/* Archives that are damaged, or that nobody waits for any more. */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <zlib.h>

#include <cmocka.h>

#include "ingest/trace/archive/archive.h"
#include "ingest/trace/archive/stream.h"

#define GOOD_BYTES 100000u

/* Bare deflate of so many of a byte, not ended; how long it is. */
static size_t deflate_some(unsigned char *to, size_t room, unsigned char byte)
{
    static unsigned char text[GOOD_BYTES];
    z_stream stream = {.next_in = text, .avail_in = sizeof(text)};

    memset(text, byte, sizeof(text));
    assert_int_equal(deflateInit2(&stream, 6, Z_DEFLATED, -MAX_WBITS, 8, 0), Z_OK);
    stream.next_out = to;
    stream.avail_out = (uInt)room;
    assert_int_equal(deflate(&stream, Z_FULL_FLUSH), Z_OK);
    size_t size = room - stream.avail_out;

    deflateEnd(&stream);
    return size;
}

static void behind_damage_nothing_more_is_inflated(void **state)
{
    unsigned char packed[8192], read[4096];
    size_t size = deflate_some(packed, 4096, 'x'), good = 0;
    FILE *file = tmpfile();
    struct stream stream;
    ssize_t got;

    (void)state;
    packed[size++] = 0x07; /* a kind of block that does not exist */
    size += deflate_some(packed + size, 4000, 'G');
    assert_non_null(file);
    assert_int_equal(fwrite(packed, 1, size, file), size);
    assert_int_equal(fflush(file), 0);
    assert_int_equal(stream_open(&stream, fileno(file), 0, size, STREAM_DEFLATE), 0);
    while ((got = stream_read(&stream, read, sizeof(read))) > 0)
        for (ssize_t i = 0; i < got; i++, good++)
            assert_int_equal(read[i], 'x');
    assert_int_equal(got, -EBADMSG);
    assert_true(good <= GOOD_BYTES);
    assert_int_equal(stream_read(&stream, read, sizeof(read)), -EBADMSG);
    stream_close(&stream);
    fclose(file);
}

static bool is_wanted(void *user)
{
    return *(int *)user != 0 && --*(int *)user == 0;
}

/* A packed tar with one member that is long to go through. */
static void write_tar(const char *path)
{
    static unsigned char block[512];
    gzFile file = gzopen(path, "wb1");
    unsigned sum = 0;

    memset(block, 0, sizeof(block));
    strncpy((char *)block, "rank0.json", 100);
    memcpy(block + 124, "00001000000", 12); /* 256 KiB */
    memset(block + 148, ' ', 8);
    block[156] = '0';
    for (size_t i = 0; i < sizeof(block); i++)
        sum += block[i];
    (void)snprintf((char *)block + 148, 8, "%06o", sum);
    assert_int_equal(gzwrite(file, block, sizeof(block)), sizeof(block));
    memset(block, 0, sizeof(block));
    for (int i = 0; i < 512 + 2; i++)
        assert_int_equal(gzwrite(file, block, sizeof(block)), sizeof(block));
    assert_int_equal(gzclose(file), Z_OK);
}

static void listing_and_reading_end_when_nobody_waits(void **state)
{
    char path[] = "/tmp/trainglass-archive-XXXXXX", error[ARCHIVE_ERROR_BYTES];
    int left = 4, descriptor = mkstemp(path);
    const struct stream_stop stop = {is_wanted, &left};
    struct archive *archive;
    uint64_t packed = 0;
    char byte;

    (void)state;
    assert_true(descriptor >= 0);
    close(descriptor);
    write_tar(path);
    assert_int_equal(archive_open(&archive, path, &stop, error), -ECANCELED);
    assert_null(archive);
    left = 0;
    assert_int_equal(archive_open(&archive, path, &stop, error), 0);
    left = 1;
    assert_int_equal(archive_enter(archive, 0), -ECANCELED);
    assert_int_equal(archive_enter(archive, 0), 0);
    left = 1;
    assert_int_equal(archive_read(archive, &byte, 1, &packed), -ECANCELED);
    archive_close(archive);
    unlink(path);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(behind_damage_nothing_more_is_inflated),
        cmocka_unit_test(listing_and_reading_end_when_nobody_waits),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
