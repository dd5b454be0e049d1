/* NVTX as a tool sees it: the constants and structures of its binary interface, written
 * down here so that nothing of NVTX is needed to build. Version 3, stable since 2017. */
#ifndef PROBE_NVTX_H
#define PROBE_NVTX_H

#include <stddef.h>
#include <stdint.h>

typedef const void *nvtx_export_table(uint32_t id);

#define NVTX_TABLE_CALLBACKS 1u

typedef void (*nvtx_function)(void);

struct nvtx_callbacks {
    size_t struct_bytes;
    /* 1 and pointers to the slots of a module, each of which we may set. */
    int (*module_table)(uint32_t module, nvtx_function ***table, unsigned *size);
};

enum nvtx_module { NVTX_CORE = 1, NVTX_CORE2 = 5 };

enum nvtx_core {
    NVTX_MARK_EX = 1,
    NVTX_MARK_A = 2,
    NVTX_MARK_W = 3,
    NVTX_RANGE_START_EX = 4,
    NVTX_RANGE_START_A = 5,
    NVTX_RANGE_START_W = 6,
    NVTX_RANGE_END = 7,
    NVTX_RANGE_PUSH_EX = 8,
    NVTX_RANGE_PUSH_A = 9,
    NVTX_RANGE_PUSH_W = 10,
    NVTX_RANGE_POP = 11,
    NVTX_NAME_THREAD_A = 14,
};

enum nvtx_core2 {
    NVTX_DOMAIN_MARK_EX = 1,
    NVTX_DOMAIN_RANGE_START_EX = 2,
    NVTX_DOMAIN_RANGE_END = 3,
    NVTX_DOMAIN_RANGE_PUSH_EX = 4,
    NVTX_DOMAIN_RANGE_POP = 5,
    NVTX_DOMAIN_REGISTER_STRING_A = 10,
    NVTX_DOMAIN_REGISTER_STRING_W = 11,
    NVTX_DOMAIN_CREATE_A = 12,
    NVTX_DOMAIN_CREATE_W = 13,
};

enum nvtx_message_type { NVTX_ASCII = 1, NVTX_UNICODE = 2, NVTX_REGISTERED = 3 };

/* nvtxEventAttributes_t up to the last field that we read. */
struct nvtx_attributes {
    uint16_t version;
    uint16_t size; /* bytes that the caller has */
    uint32_t category;
    int32_t color_type;
    uint32_t color;
    int32_t payload_type;
    int32_t reserved;
    uint64_t payload;
    int32_t message_type;
    const void *message; /* char, wchar_t, or what REGISTER_STRING returned */
};

/* The entry point: fills the slots of the calling object's NVTX. Once per object. */
int InitializeInjectionNvtx2(nvtx_export_table *get_export_table);

#endif
