/* GET /openapi.json: the description of the interface, embedded at build time. */
#ifndef SERVER_OPENAPI_H
#define SERVER_OPENAPI_H

#include <stddef.h>

extern const unsigned char openapi_text[];
extern const size_t openapi_size;

#endif
