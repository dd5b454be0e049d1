/* Parameters of a request: `a=1&b=x%20y`, decoded, typed and bounded.
 *
 * The first thing that is wrong is kept, with the parameter that it is about; getters
 * after it do nothing. A handler asks for all that it knows and then asks query_done(),
 * which refuses what nobody asked for. Pure: no memory, no sockets.
 */
#ifndef HTTP_QUERY_H
#define HTTP_QUERY_H

#include <stdbool.h>
#include <stdint.h>

#include "wire/attributes.h"

#define QUERY_PARAMETERS_MAX 16u
#define QUERY_BYTES_MAX      2048u

struct query {
    uint32_t count;
    struct {
        const char *key, *value; /* into `text` */
        bool used;               /* a getter asked for it */
    } parameters[QUERY_PARAMETERS_MAX];
    char text[QUERY_BYTES_MAX + 1];
    char error[160]; /* a sentence; empty while all is well */
    char field[33];  /* the parameter that it is about, [A-Za-z0-9_.-] */
};

/* Parses what follows the '?'; NULL is none. Always leaves a usable query. */
void query_parse(struct query *query, const char *raw);

/* The text of a parameter, NULL when it is not there. */
const char *query_text(struct query *query, const char *key);

/* Writes *value when the parameter is there and is a decimal number from `low` to
 * `high`; refuses anything else. True when *value was written. */
bool query_number(struct query *query, const char *key, int64_t low, int64_t high,
                  int64_t *value);

/* The index of the value in `choices` (ends with NULL), `otherwise` when it is not
 * there; refuses what is not among them. */
int query_choice(struct query *query, const char *key, const char *const *choices,
                 int otherwise);

/* `0` or `1`; false when it is not there. */
bool query_flag(struct query *query, const char *key);

/* Keeps the first error. */
void query_refuse(struct query *query, const char *field, const char *format, ...)
    PRINTF(3, 4);

/* True when nothing was wrong and every parameter was asked for. */
MUST_CHECK bool query_done(struct query *query);

#endif
