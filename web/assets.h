/* The page and all that it loads, inside the binary: nothing is read from disk or
 * network at run time. All data here is constant, so any thread may read it at any
 * time. */
#ifndef TRAINGLASS_WEB_ASSETS_H
#define TRAINGLASS_WEB_ASSETS_H

#include <stddef.h>

struct web_asset {
    const char
        *path; /* below the base path, no leading slash: "index.html", "js/main.js" */
    const char *content_type; /* with charset where it is text */
    const char
        *policy; /* its Content-Security-Policy, complete but for frame-ancestors */
    const char *etag; /* quoted, of the plain bytes */
    const unsigned char *bytes;
    size_t size;               /* bytes */
    const unsigned char *gzip; /* NULL where it would not be smaller */
    size_t gzip_size;          /* bytes */
};

/* All assets, sorted by path in the order of strcmp. */
extern const struct web_asset web_assets[];
extern const size_t web_asset_count;

/* The asset of exactly this path, "" meaning index.html; NULL when there is none. */
const struct web_asset *web_asset_find(const char *path);

#endif
