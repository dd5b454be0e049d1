/* The structures of three real versions, and how they are walked. */
#include <stdlib.h>
#include <string.h>

#include "fake_cupti.h"

struct version {
    const char *name;
    uint32_t number;
    uint8_t words[64]; /* 8 bytes each, by kind */
};

/* As cuptiActivityGetNextRecord of the real libraries walks them. */
static const struct version versions[] = {
    {"11.8",
     18,
     {[1] = 11,
      [2] = 11,
      [3] = 25,
      [4] = 5,
      [5] = 5,
      [10] = 25,
      [17] = 5,
      [22] = 12,
      [38] = 5,
      [39] = 3,
      [49] = 15,
      [51] = 6,
      [55] = 4}},
    {"12.4",
     22,
     {[1] = 11,
      [2] = 11,
      [3] = 26,
      [4] = 5,
      [5] = 5,
      [10] = 26,
      [17] = 7,
      [22] = 12,
      [38] = 5,
      [39] = 3,
      [49] = 15,
      [51] = 7,
      [55] = 4}},
    {"13.0",
     130001,
     {[1] = 12,
      [2] = 11,
      [3] = 27,
      [4] = 5,
      [5] = 5,
      [10] = 27,
      [17] = 7,
      [22] = 12,
      [38] = 7,
      [39] = 3,
      [49] = 16,
      [51] = 7,
      [55] = 4}},
};

static const struct version *version(void)
{
    const char *wanted = getenv("FAKE_CUPTI_VERSION");

    for (size_t i = 0; i < sizeof(versions) / sizeof(versions[0]); i++)
        if (wanted != NULL && strcmp(versions[i].name, wanted) == 0)
            return &versions[i];
    return &versions[2];
}

uint32_t fake_version(void)
{
    return version()->number;
}

size_t fake_stride(uint32_t kind)
{
    return kind < 64 ? 8u * version()->words[kind] : 0;
}

int cuptiActivityGetNextRecord(uint8_t *buffer, size_t valid, void **record)
{
    size_t at = 0;
    uint32_t kind;

    if (*record != NULL) {
        at = (size_t)((uint8_t *)*record - buffer);
        memcpy(&kind, buffer + at, sizeof(kind));
        at += fake_stride(kind);
    }
    if (at > valid || valid - at < sizeof(kind))
        return 12;
    memcpy(&kind, buffer + at, sizeof(kind));
    if (fake_stride(kind) == 0)
        return 21;
    if (fake_stride(kind) > valid - at)
        return 12;
    *record = buffer + at;
    return 0;
}
