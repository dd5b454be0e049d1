#include "http/head.h"

#include <string.h>
#include <strings.h>

#define SILENT_POLICY "default-src 'none'; base-uri 'none'; form-action 'none'"

static const char *status_text(int status)
{
    static const struct {
        int status;
        const char *text;
    } texts[] = {
        {200, "OK"},
        {201, "Created"},
        {202, "Accepted"},
        {302, "Found"},
        {304, "Not Modified"},
        {400, "Bad Request"},
        {401, "Unauthorized"},
        {403, "Forbidden"},
        {404, "Not Found"},
        {405, "Method Not Allowed"},
        {408, "Request Timeout"},
        {409, "Conflict"},
        {411, "Length Required"},
        {413, "Content Too Large"},
        {415, "Unsupported Media Type"},
        {421, "Misdirected Request"},
        {422, "Unprocessable Content"},
        {503, "Service Unavailable"},
        {507, "Insufficient Storage"},
    };

    for (size_t i = 0; i < sizeof(texts) / sizeof(texts[0]); i++) {
        if (texts[i].status == status)
            return texts[i].text;
    }
    return "Error";
}

void head_write(const struct security_policy *policy, const struct http_answer *answer,
                bool close, struct bytes *out)
{
    const char *frame = *policy->allow_frame != '\0' ? policy->allow_frame : "'none'";

    bytes_format(out,
                 "HTTP/1.1 %d %s\r\n"
                 "Content-Type: %s\r\n"
                 "Cache-Control: %s\r\n"
                 "X-Content-Type-Options: nosniff\r\n"
                 "Referrer-Policy: no-referrer\r\n"
                 "Content-Security-Policy: %s; frame-ancestors %s\r\n"
                 "%s%s",
                 answer->status, status_text(answer->status),
                 answer->type != NULL ? answer->type : "application/json",
                 answer->revalidate ? "no-cache" : "no-store",
                 answer->policy != NULL ? answer->policy : SILENT_POLICY, frame,
                 answer->headers != NULL ? answer->headers : "",
                 close ? "Connection: close\r\n" : "");
}

void head_token(const struct security_policy *policy, const char *path,
                const char *query, struct bytes *out)
{
    static const char harmless[] =
        "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz"
        "0123456789=-_.:%";
    char mark = '?';

    bytes_format(out, "Location: %s%s", policy->base_path, path);
    while (query != NULL && *query != '\0') {
        size_t size = strcspn(query, "&");

        if (size > 0 && strspn(query, harmless) >= size &&
            strncmp(query, "token=", 6) != 0) {
            bytes_format(out, "%c%.*s", mark, (int)size, query);
            mark = '&';
        }
        query += size;
        query += *query == '&';
    }
    bytes_format(out,
                 "\r\nSet-Cookie: trainglass_%u=%s; HttpOnly; SameSite=Strict; "
                 "Path=%s/\r\n",
                 policy->port, policy->token, policy->base_path);
}

/* `gzip`, `gzip;q=0.5`, but not `gzip;q=0`. */
static bool coding_is_gzip(const char *coding, size_t size)
{
    static const char name[] = "gzip";
    const char *quality;

    if (size < 4 || strncasecmp(coding, name, 4) != 0)
        return false;
    coding += 4;
    size -= 4;
    while (size > 0 && (*coding == ' ' || *coding == ';')) {
        coding++;
        size--;
    }
    if (size == 0)
        return true;
    if (size < 3 || strncasecmp(coding, "q=", 2) != 0)
        return false;
    quality = coding + 2;
    return strspn(quality, "0.") < size - 2;
}

bool head_accepts_gzip(const char *value)
{
    while (*value != '\0') {
        size_t size;

        value += strspn(value, ", ");
        size = strcspn(value, ",");
        if (coding_is_gzip(value, size))
            return true;
        value += size;
    }
    return false;
}
