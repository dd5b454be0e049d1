/* What the fake libcupti shares with who walks its buffers: the strides of a version. */
#ifndef TESTS_FAKE_CUPTI_H
#define TESTS_FAKE_CUPTI_H

#include <stddef.h>
#include <stdint.h>

typedef void request_function(uint8_t **buffer, size_t *size, size_t *records);
typedef void complete_function(void *context, uint32_t stream, uint8_t *buffer,
                               size_t size, size_t valid);

/* CUPTI_API_VERSION that FAKE_CUPTI_VERSION stands for. */
uint32_t fake_version(void);

/* Bytes of a record of that version; 0: it does not have the kind. */
size_t fake_stride(uint32_t kind);

int cuptiGetVersion(uint32_t *version);
int cuptiGetTimestamp(uint64_t *now);
int cuptiSetThreadIdType(int type);
int cuptiActivitySetAttribute(uint32_t attribute, size_t *size, void *value);
int cuptiActivityRegisterCallbacks(request_function *request,
                                   complete_function *complete);
int cuptiActivityEnable(uint32_t kind);
int cuptiActivityDisable(uint32_t kind);
int cuptiActivityEnableRuntimeApi(uint32_t call, uint8_t on);
int cuptiActivityEnableDriverApi(uint32_t call, uint8_t on);
int cuptiGetCallbackName(uint32_t domain, uint32_t call, const char **name);
int cuptiActivityGetNumDroppedRecords(void *context, uint32_t stream, size_t *count);
int cuptiActivityGetNextRecord(uint8_t *buffer, size_t valid, void **record);
int cuptiActivityFlushAll(uint32_t flags);
int cuptiSubscribe(void **subscriber, void *callback, void *user);
int cuptiUnsubscribe(void *subscriber);

#endif
