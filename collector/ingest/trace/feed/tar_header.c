#include "ingest/trace/feed/tar_header.h"

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
