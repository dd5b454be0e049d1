#include "http/router.h"

#include <stdio.h>
#include <string.h>

static bool tail_allowed(const char *tail)
{
    size_t size = strlen(tail);

    if (size == 0 || size > ROUTER_TAIL_MAX)
        return false;
    for (size_t i = 0; i < size; i++) {
        bool word = (tail[i] >= 'a' && tail[i] <= 'z') ||
                    (tail[i] >= 'A' && tail[i] <= 'Z') ||
                    (tail[i] >= '0' && tail[i] <= '9');
        bool segment_begins = i == 0 || tail[i - 1] == '/';

        if (!word && strchr("._-/", tail[i]) == NULL)
            return false;
        if (segment_begins && (tail[i] == '.' || tail[i] == '/'))
            return false;
    }
    return true;
}

static bool path_matches(const char *pattern, const char *path, const char **tail)
{
    size_t size = strlen(pattern);

    *tail = "";
    if (size == 0 || pattern[size - 1] != '*')
        return strcmp(pattern, path) == 0;
    if (strncmp(pattern, path, size - 1) != 0)
        return false;
    *tail = path + size - 1;
    return tail_allowed(*tail);
}

struct router_match router_find(const struct http_route *routes, size_t count,
                                const char *path, enum http_method method)
{
    unsigned wanted = method == HTTP_HEAD ? HTTP_GET : method;
    struct router_match match = {.tail = ""};
    const char *pattern = NULL; /* of the first route whose path it is */

    for (size_t i = 0; i < count && match.route == NULL; i++) {
        const char *tail;

        if (!path_matches(routes[i].path, path, &tail))
            continue;
        if (pattern != NULL && strcmp(pattern, routes[i].path) != 0)
            continue;
        pattern = routes[i].path;
        match.methods |= routes[i].methods;
        if ((routes[i].methods & wanted) != 0) {
            match.route = &routes[i];
            match.tail = tail;
        }
    }
    return match;
}

void router_allow(unsigned methods, char *text, size_t size)
{
    static const struct {
        unsigned method;
        const char *name;
    } names[] = {{HTTP_GET, "GET, HEAD"}, {HTTP_POST, "POST"}, {HTTP_DELETE, "DELETE"}};
    size_t used = 0;

    *text = '\0';
    for (size_t i = 0; i < sizeof(names) / sizeof(names[0]) && used < size; i++) {
        if ((methods & names[i].method) != 0)
            used += (size_t)snprintf(text + used, size - used, "%s%s",
                                     used > 0 ? ", " : "", names[i].name);
    }
}
