#include "assets.h"

#include <stdlib.h>
#include <string.h>

static int asset_compare(const void *path, const void *asset)
{
    return strcmp(path, ((const struct web_asset *)asset)->path);
}

const struct web_asset *web_asset_find(const char *path)
{
    if (path[0] == '\0')
        path = "index.html";
    return bsearch(path, web_assets, web_asset_count, sizeof web_assets[0],
                   asset_compare);
}
