/* Who may ask what: a pure judgement of a request's head, before any handler sees it.
 *
 * Loopback is shared by all users of a machine and by every page that a browser has
 * open, so neither is trusted: the Host must be ours (DNS rebinding), what changes
 * something (POST, DELETE) must come from our own page or from no page at all, and the peer must be the owner of the data
 * or bring the token. Nothing here allocates, blocks or logs.
 */
#ifndef HTTP_SECURITY_H
#define HTTP_SECURITY_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "wire/attributes.h"

#define SECURITY_BODY_BYTES_MAX 65536 /* of a JSON request */
#define SECURITY_TOKEN_BYTES    128u  /* longest token */

enum http_method {
    HTTP_GET = 1,
    HTTP_HEAD = 2,
    HTTP_POST = 4,
    HTTP_DELETE = 8,
    HTTP_OTHER = 16
};

/* Set once at start; all texts borrowed. */
struct security_policy {
    const char *token;       /* NULL: there is none */
    bool token_required;     /* bound beyond loopback */
    bool any_user;           /* share = all: every local uid may look */
    uid_t owner;             /* besides uid 0 */
    const char *base_path;   /* "" or "/a/b": what a proxy left in front */
    const char *allow_hosts; /* names, "a,b"; "" none */
    const char *allow_frame; /* origin that may show the page in a frame; "" none */
    uint16_t port;           /* part of the cookie's name: cookies ignore ports */
};

struct security_header {
    const char *name, *value;
};

/* A request's head as it came; all texts borrowed. */
struct security_request {
    const char *method;
    const char *path; /* raw: not decoded, without the query */
    const char *query;
    const struct security_header *headers;
    size_t header_count;
    int64_t content_length; /* as the transport parsed it; -1 none */
    bool peer_known;
    uid_t peer;
    bool open_to_all; /* liveness: no token, no uid */
    /* The body is a file of at most so many bytes; 0: it is a JSON request. */
    uint64_t upload_bytes_max;
};

struct security_verdict {
    int status;          /* 0: go on; 302: the token came by the address */
    const char *message; /* static: what is wrong and what to do */
    const char *field;   /* static: the header that it is about; may be NULL */
};

/* The judgement in the order: form of the head, Host, who, method and body. */
struct security_verdict security_judge(const struct security_policy *policy,
                                       const struct security_request *request);

enum http_method security_method(const char *method);

/* The only header of that name; NULL when there is none. *count says how many. */
const char *security_header_find(const struct security_request *request,
                                 const char *name, size_t *count);

/* 0 allowed, 400 malformed, 421 not ours. */
int security_host(const struct security_policy *policy, const char *host);

/* Is `origin` our own page's, given the Host of the same request? */
bool security_origin(const struct security_policy *policy, const char *origin,
                     const char *host);

/* Equal, in a time that tells nothing about where they differ. */
bool security_token_equal(const char *expected, const char *given, size_t given_bytes);

/* The path behind the base path, "" for exactly it; NULL when it is not under it. A
 * proxy may strip the base path itself: then the path is taken as it is. */
const char *security_strip_base(const char *base_path, const char *path);

/* 0, or -EINVAL with a sentence in *reason (static): a base path, host or frame that
 * would break a header, or no token where one is needed. */
MUST_CHECK int security_policy_check(const struct security_policy *policy,
                                     const char **reason);

#endif
