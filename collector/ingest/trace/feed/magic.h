#ifndef INGEST_TRACE_FEED_MAGIC_H
#define INGEST_TRACE_FEED_MAGIC_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* What a file is that begins so, and what to do: one sentence; NULL where it may be a trace. */
const char *magic_sentence(const void *bytes, size_t length);

/* The header before each file of a tar. */
#define TAR_BLOCK 512u

/* Is this one? TAR_BLOCK bytes. */
bool tar_is_header(const unsigned char *block);
/* A number in one of its fields. */
uint64_t tar_number(const unsigned char *field, size_t size);

#endif
