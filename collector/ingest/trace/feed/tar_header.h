/* The header before each file of a tar. */
#ifndef INGEST_TRACE_FEED_TAR_HEADER_H
#define INGEST_TRACE_FEED_TAR_HEADER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define TAR_BLOCK 512u

/* Is this one? TAR_BLOCK bytes. */
bool tar_is_header(const unsigned char *block);
/* A number in one of its fields. */
uint64_t tar_number(const unsigned char *field, size_t size);

#endif
