/* Numbers, names and times into cJSON the way every answer has them: what is not known
 * is null, times are milliseconds with all their nanoseconds, shares have six places. */
#ifndef DOCUMENT_JSON_H
#define DOCUMENT_JSON_H

#include <cjson/cJSON.h>
#include <stddef.h>
#include <stdint.h>

#include "query/answer.h"

#define JSON_NAME_BYTES 4096u /* longer texts are cut */

/* Foreign text, cleaned; NULL gives null. */
void json_text(cJSON *object, const char *key, const char *text);
void json_filled(cJSON *object, const char *key, const char *text); /* "" is null too */
void json_text_cut(cJSON *object, const char *key, const char *text, size_t max);

/* NaN and infinities give null. */
void json_number(cJSON *object, const char *key, double value);
void json_count(cJSON *object, const char *key, uint64_t value);

/* NOT_KNOWN gives null. */
void json_integer(cJSON *object, const char *key, int64_t value);
void json_ms(cJSON *object, const char *key, double ns);
void json_stamp(cJSON *object, const char *key, int64_t ns);
/* Since 1970: more than any sum may be. */
void json_unix_ms(cJSON *object, const char *key, int64_t ns);
void json_us(cJSON *object, const char *key, double ns);

/* A fraction of 1, and the same in per cent. */
void json_share(cJSON *object, const char *key, double share);
void json_percent(cJSON *object, const char *key, double share);

/* A number, or foreign text, to append to an array; null where it is not known. */
cJSON *json_value(double value);
cJSON *json_value_text(const char *text, size_t max);
double json_rounded_ms(double ns); /* as json_ms() gives it; NaN unknown */

/* An array of doubles; null where one is not known. */
cJSON *json_numbers(const double *values, size_t count);
#define JSON_NUMBERS(...)                                                              \
    json_numbers((const double[]){__VA_ARGS__},                                        \
                 sizeof((const double[]){__VA_ARGS__}) / sizeof(double))

/* Both ends of a duration's interval, which is never negative, in ms. */
void json_interval_ms(cJSON *object, const char *key, double low_ns, double high_ns);

/* A new object at the end of `list`. */
cJSON *json_row(cJSON *list);

/* The array `key`: what `one` makes of each of the rows. */
#define JSON_LIST(object, key, rows, count, one)                                       \
    do {                                                                               \
        cJSON *list_ = cJSON_AddArrayToObject(object, key);                            \
                                                                                       \
        for (uint32_t i_ = 0; i_ < (count); i_++)                                      \
            cJSON_AddItemToArray(list_, one(&(rows)[i_]));                             \
    } while (0)

/* "columns": the names of what stands in each of `points`. */
void json_columns(cJSON *object, const char *const *names, int count);

/* The document with all of its texts to be read: json_text() writes some down as they are
 * printed, and cJSON gives none of those back. Takes `document`; NULL out of memory, or of
 * NULL. */
cJSON *json_readable(cJSON *document);

/* Numbers with a unit in their name, or in that of what they stand in, become null:
 * nothing was measured. Counts stay. */
void json_forget(cJSON *document);

/* What every answer says about itself: session, rank, window, steps, reason. */
void json_head(cJSON *object, const struct answer *head);

#endif
