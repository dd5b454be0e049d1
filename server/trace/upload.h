/* Trace files that come and go over HTTP. */
#ifndef TRACE_UPLOAD_H
#define TRACE_UPLOAD_H

struct api;
struct cache;
struct http_call;

/* POST /api/traces?name=: the body is the file. */
void upload_serve(struct http_call *call, struct api *api);

/* GET /api/traces/{id}: its bytes. */
void download_serve(struct http_call *call, struct api *api);

/* DELETE /api/traces/{id}: an upload goes, with its session, its place and all that
 * `cache` holds of it. */
void removal_serve(struct http_call *call, struct api *api, struct cache *cache);

#endif
