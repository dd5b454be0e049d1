/* Reading a document that may lack anything: a missing number is NaN, a missing text "". */
#ifndef REPORT_MEMBERS_H
#define REPORT_MEMBERS_H

#include <cjson/cJSON.h>
#include <math.h>

/* Members under members; NULL where one is missing. `path` ends with NULL. */
const cJSON *members_find(const cJSON *object, const char *const *path);

double members_number(const cJSON *item);
const char *members_text(const cJSON *item);

#define MEMBER(object, ...)                                                            \
    members_find(object, (const char *const[]){__VA_ARGS__, NULL})
#define NUMBER(object, ...) members_number(MEMBER(object, __VA_ARGS__))
#define TEXT(object, ...)   members_text(MEMBER(object, __VA_ARGS__))

#endif
