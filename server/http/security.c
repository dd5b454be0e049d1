#include "http/security.h"

#include <arpa/inet.h>
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>

enum http_method security_method(const char *method)
{
    if (strcmp(method, "GET") == 0)
        return HTTP_GET;
    if (strcmp(method, "HEAD") == 0)
        return HTTP_HEAD;
    if (strcmp(method, "POST") == 0)
        return HTTP_POST;
    return strcmp(method, "DELETE") == 0 ? HTTP_DELETE : HTTP_OTHER;
}

static bool changes(const struct security_request *request)
{
    return (security_method(request->method) & (HTTP_POST | HTTP_DELETE)) != 0;
}

const char *security_header_find(const struct security_request *request,
                                 const char *name, size_t *count)
{
    const char *value = NULL;

    *count = 0;
    for (size_t i = 0; i < request->header_count; i++) {
        if (strcasecmp(request->headers[i].name, name) != 0)
            continue;
        value = request->headers[i].value;
        ++*count;
    }
    return value;
}

static bool only(const char *text, size_t size, const char *allowed)
{
    for (size_t i = 0; i < size; i++) {
        bool plain = (text[i] >= '0' && text[i] <= '9') ||
                     (text[i] >= 'a' && text[i] <= 'z') ||
                     (text[i] >= 'A' && text[i] <= 'Z');

        if (!plain && (text[i] == '\0' || strchr(allowed, text[i]) == NULL))
            return false;
    }
    return true;
}

/* ":1" to ":65535", or nothing. */
static bool is_port(const char *text)
{
    unsigned port = 0;
    size_t digits;

    if (*text == '\0')
        return true;
    if (*text++ != ':')
        return false;
    digits = strspn(text, "0123456789");
    if (digits == 0 || digits > 5 || text[digits] != '\0')
        return false;
    for (; *text != '\0'; text++)
        port = port * 10 + (unsigned)(*text - '0');
    return port >= 1 && port <= 65535;
}

/* Is `name` an element of "a,b,c"? */
static bool listed(const char *list, const char *name)
{
    size_t size = strlen(name);

    while (*list != '\0') {
        size_t length;

        list += strspn(list, ", ");
        length = strcspn(list, ", ");
        if (length == size && size > 0 && strncasecmp(list, name, size) == 0)
            return true;
        list += length;
    }
    return false;
}

static bool name_allowed(const struct security_policy *policy, const char *name)
{
    struct in_addr address;

    if (strcasecmp(name, "localhost") == 0 || inet_pton(AF_INET, name, &address) == 1)
        return true;
    return listed(policy->allow_hosts, name);
}

int security_host(const struct security_policy *policy, const char *host)
{
    struct in6_addr address;
    char name[256];
    size_t size;

    if (*host == '[') {
        size = strcspn(++host, "]");
        if (host[size] != ']' || size >= sizeof(name) || !is_port(host + size + 1))
            return 400;
        memcpy(name, host, size);
        name[size] = '\0';
        return inet_pton(AF_INET6, name, &address) == 1 ? 0 : 400;
    }
    size = strcspn(host, ":");
    if (size == 0 || size >= sizeof(name) || !only(host, size, ".-_") ||
        !is_port(host + size))
        return 400;
    memcpy(name, host, size);
    name[size] = '\0';
    return name_allowed(policy, name) ? 0 : 421;
}

bool security_origin(const struct security_policy *policy, const char *origin,
                     const char *host)
{
    const char *authority;
    char name[256];
    size_t size;

    if (strncmp(origin, "http://", 7) == 0)
        authority = origin + 7;
    else if (strncmp(origin, "https://", 8) == 0)
        authority = origin + 8;
    else
        return false;
    if (strcasecmp(authority, host) == 0)
        return true;
    /* A proxy that rewrites Host: its own name must have been allowed by hand. */
    size = strcspn(authority, ":");
    if (size == 0 || size >= sizeof(name) || !is_port(authority + size))
        return false;
    memcpy(name, authority, size);
    name[size] = '\0';
    return listed(policy->allow_hosts, name);
}

bool security_token_equal(const char *expected, const char *given, size_t given_bytes)
{
    size_t size = strnlen(expected, SECURITY_TOKEN_BYTES);
    unsigned char difference = size == given_bytes ? 0 : 1;

    for (size_t i = 0; i < SECURITY_TOKEN_BYTES; i++) {
        unsigned char a = i < size ? (unsigned char)expected[i] : 0;
        unsigned char b = i < given_bytes ? (unsigned char)given[i] : 0;

        difference |= (unsigned char)(a ^ b);
    }
    return difference == 0;
}

/* The value of `key` in text made of `key=value` pairs. */
static bool pair_equals_token(const struct security_policy *policy, const char *text,
                              const char *key, const char *separators)
{
    size_t key_bytes = strlen(key);

    while (text != NULL && *text != '\0') {
        size_t size;

        text += strspn(text, separators);
        size = strcspn(text, separators);
        if (size > key_bytes && strncmp(text, key, key_bytes) == 0 &&
            text[key_bytes] == '=' &&
            security_token_equal(policy->token, text + key_bytes + 1,
                                 size - key_bytes - 1))
            return true;
        text += size;
    }
    return false;
}

static bool token_given(const struct security_policy *policy,
                        const struct security_request *request)
{
    const char *value;
    char cookie[32];
    size_t count;

    value = security_header_find(request, "Authorization", &count);
    if (count == 1 && strncasecmp(value, "Bearer ", 7) == 0 &&
        security_token_equal(policy->token, value + 7, strlen(value + 7)))
        return true;
    (void)snprintf(cookie, sizeof(cookie), "trainglass_%u", policy->port);
    value = security_header_find(request, "Cookie", &count);
    return count == 1 && pair_equals_token(policy, value, cookie, "; ");
}

static struct security_verdict refuse(int status, const char *field,
                                      const char *message)
{
    return (struct security_verdict){status, message, field};
}

static struct security_verdict judge_form(const struct security_policy *policy,
                                          const struct security_request *request)
{
    bool upload = request->upload_bytes_max > 0;
    uint64_t bytes_max = upload ? request->upload_bytes_max : SECURITY_BODY_BYTES_MAX;
    size_t count, transfers;
    const char *host = security_header_find(request, "Host", &count);
    const char *length;
    int status;

    if (count != 1)
        return refuse(400, "Host", "exactly one Host header is needed");
    status = security_host(policy, host);
    if (status == 400)
        return refuse(400, "Host", "the Host header is malformed");
    if (status != 0)
        return refuse(421, "Host",
                      "this name is not served; start with --allow-host NAME");
    (void)security_header_find(request, "Transfer-Encoding", &transfers);
    length = security_header_find(request, "Content-Length", &count);
    if (count > 1 || transfers > 0)
        return refuse(400, "Content-Length",
                      "one Content-Length and no Transfer-Encoding, please");
    if (count == 1 &&
        (*length == '\0' || strspn(length, "0123456789") != strlen(length)))
        return refuse(400, "Content-Length", "expected a decimal number");
    if (count == 1 && (strlen(length) > 18 || request->content_length < 0 ||
                       (uint64_t)request->content_length > bytes_max))
        return refuse(413, "Content-Length",
                      upload ? "the file is larger than upload_max allows"
                             : "a body has at most 65536 bytes");
    return (struct security_verdict){0};
}

static struct security_verdict judge_peer(const struct security_policy *policy,
                                          const struct security_request *request)
{
    bool owner = request->peer_known && (policy->any_user || request->peer == 0 ||
                                         request->peer == policy->owner);

    if (request->open_to_all)
        return (struct security_verdict){0};
    if (policy->token != NULL) {
        if (pair_equals_token(policy, request->query, "token", "&"))
            return changes(request)
                       ? (struct security_verdict){0}
                       : refuse(302, NULL, "the token is in a cookie now");
        if (token_given(policy, request))
            return (struct security_verdict){0};
    }
    if (policy->token_required)
        return refuse(401, "Authorization",
                      "open the address with ?token=, or send Authorization: Bearer");
    if (owner)
        return (struct security_verdict){0};
    return refuse(403, NULL,
                  request->peer_known
                      ? "another user's training; its owner can allow it (share = all)"
                      : "cannot tell which user asks; use the token");
}

/* None of these is a type that a form or a plain script of another page may send
 * without asking first. */
static bool type_allowed(const char *value, bool upload)
{
    static const char *const types[] = {"application/json", "application/octet-stream",
                                        "application/gzip", "application/x-gzip"};
    size_t size = strcspn(value, "; ");

    for (size_t i = 0; i < (upload ? sizeof(types) / sizeof(types[0]) : 1); i++) {
        if (size == strlen(types[i]) && strncasecmp(value, types[i], size) == 0)
            return true;
    }
    return false;
}

static struct security_verdict judge_change(const struct security_policy *policy,
                                            const struct security_request *request)
{
    size_t count, hosts;
    const char *host = security_header_find(request, "Host", &hosts);
    const char *value = security_header_find(request, "Origin", &count);
    bool upload = request->upload_bytes_max > 0;

    if (count > 1 || (count == 1 && !security_origin(policy, value, host)))
        return refuse(403, "Origin", "requests of other pages are not obeyed");
    /* No form can send it, and no script of another page without asking first. */
    if (security_method(request->method) == HTTP_DELETE)
        return (struct security_verdict){0};
    value = security_header_find(request, "Content-Type", &count);
    if (count != 1 || !type_allowed(value, upload))
        return refuse(415, "Content-Type",
                      upload ? "expected application/octet-stream"
                             : "expected application/json");
    if (upload && request->content_length < 0)
        return refuse(411, "Content-Length", "a file comes with its Content-Length");
    return (struct security_verdict){0};
}

struct security_verdict security_judge(const struct security_policy *policy,
                                       const struct security_request *request)
{
    struct security_verdict verdict = judge_form(policy, request);

    if (verdict.status != 0)
        return verdict;
    verdict = judge_peer(policy, request);
    if (verdict.status != 0 || !changes(request))
        return verdict;
    return judge_change(policy, request);
}

const char *security_strip_base(const char *base_path, const char *path)
{
    size_t size = strlen(base_path);

    if (size > 0 && strncmp(path, base_path, size) == 0 &&
        (path[size] == '/' || path[size] == '\0'))
        return path + size;
    return path;
}

int security_policy_check(const struct security_policy *policy, const char **reason)
{
    const char *base = policy->base_path;

    *reason = NULL;
    if (policy->token_required && policy->token == NULL)
        *reason = "an address beyond loopback needs a token";
    else if (policy->token != NULL &&
             (strlen(policy->token) < 16 ||
              strlen(policy->token) > SECURITY_TOKEN_BYTES ||
              !only(policy->token, strlen(policy->token), "-_.~")))
        *reason = "a token is 16 to 128 characters of A-Z, a-z, 0-9, - _ . ~";
    else if (!only(base, strlen(base), "/-_.~") || strstr(base, "..") != NULL ||
             (*base != '\0' && (*base != '/' || base[strlen(base) - 1] == '/')))
        *reason = "a base path is /name or /name/name, without a slash at the end";
    else if (!only(policy->allow_hosts, strlen(policy->allow_hosts), ".-_, "))
        *reason = "allowed hosts are names without port, a,b";
    else if (*policy->allow_frame != '\0' &&
             (strncmp(policy->allow_frame, "http", 4) != 0 ||
              !only(policy->allow_frame, strlen(policy->allow_frame), ":/.-_*")))
        *reason = "an allowed frame is an origin such as https://host:8888";
    return *reason == NULL ? 0 : -EINVAL;
}
