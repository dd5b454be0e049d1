/* Heads of answers: pure text, the same care for every status. */
#ifndef HTTP_HEAD_H
#define HTTP_HEAD_H

#include <stdbool.h>

#include "http/bytes.h"
#include "http/http.h"
#include "http/security.h"

/* Status line and headers but for Content-Length and the empty line. */
void head_write(const struct security_policy *policy, const struct http_answer *answer,
                bool close, struct bytes *out);

/* Location (the address without its token; the rest of the query as far as it is
 * harmless in a header) and Set-Cookie with the token. */
void head_token(const struct security_policy *policy, const char *path,
                const char *query, struct bytes *out);

/* Does an Accept-Encoding take gzip? */
bool head_accepts_gzip(const char *value);

#endif
