/* A body, piece by piece, from a client that may be slow, gone or malicious. */
#include <errno.h>
#include <poll.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/socket.h>

#include "http/http_inside.h"

/* After this a body must have come at that many bytes a second on the mean: slower than
 * any network that a page is looked at through, fast enough to end a trickle. */
#define GRACE_NS    INT64_C(8000000000)
#define BYTES_PER_S INT64_C(16384)
/* A read that ends without a byte after this long ended by CivetWeb's timeout. */
#define SILENCE_NS INT64_C(4000000000)
/* Then after 8 s, 32 s, 128 s: five in three minutes, and no more. */
#define ASK_NS    INT64_C(2000000000)
#define ASKS_LAST (128 * INT64_C(1000000000))
#define GO_ON     "HTTP/1.1 100 Continue\r\n\r\n"

/* mg_read() returns only when it has all that it was asked for, so it is asked for what
 * is on the socket already, and for one byte when nothing is: more would not come back
 * while a byte now and then keeps coming. */
static size_t ready_bytes(const struct body *body, size_t size)
{
    int ready = 0;

    if (size > body->left)
        size = (size_t)body->left;
    if (body->socket < 0 || ioctl(body->socket, FIONREAD, &ready) != 0 || ready <= 0)
        return 1;
    return (size_t)ready < size ? (size_t)ready : size;
}

static bool is_too_slow(const struct body *body)
{
    int64_t took_ns = (int64_t)clock_ns(CLOCK_MONOTONIC) - body->begun_ns - GRACE_NS;

    return took_ns > 0 && body->read / (uint64_t)BYTES_PER_S <
                              (uint64_t)took_ns / UINT64_C(1000000000);
}

ssize_t http_body_read(struct http_call *call, void *data, size_t size)
{
    struct body *body = &call->body;
    int64_t asked_ns = (int64_t)clock_ns(CLOCK_MONOTONIC);
    int got;

    if (body->left == 0 || size == 0)
        return 0;
    if (body->expect && mg_write(call->connection, GO_ON, strlen(GO_ON)) <= 0)
        return -ECONNABORTED;
    body->expect = false;
    got = mg_read(call->connection, data, ready_bytes(body, size));
    if (got <= 0)
        return (int64_t)clock_ns(CLOCK_MONOTONIC) - asked_ns > SILENCE_NS
                   ? -ETIMEDOUT
                   : -ECONNABORTED;
    body->left -= (uint64_t)got;
    body->read += (uint64_t)got;
    return is_too_slow(body) ? -ETIMEDOUT : got;
}

/* Who has sent everything and waits for the answer looks like who has left, until
 * something is sent: an interim answer, which clients pass over, comes back as a reset
 * from where nobody is. Who waits now may leave later and is asked again, ever more
 * rarely, for some clients pass over five and no more. Who knows no interim answers
 * (HTTP/1.0) has left. */
static void ask_whether_it_waits(struct body *body)
{
    int64_t now_ns = (int64_t)clock_ns(CLOCK_MONOTONIC);

    if (now_ns < body->ask_ns || body->rest_ns > ASKS_LAST)
        return;
    (void)send(body->socket, GO_ON, strlen(GO_ON), MSG_NOSIGNAL | MSG_DONTWAIT);
    body->rest_ns = body->rest_ns == 0 ? ASK_NS : 4 * body->rest_ns;
    body->ask_ns = now_ns + body->rest_ns;
}

bool http_is_gone(struct http_call *call)
{
    struct body *body = &call->body;
    struct pollfd peer = {.fd = body->socket, .events = POLLRDHUP};

    if (body->socket < 0 || poll(&peer, 1, 0) <= 0)
        return false;
    if ((peer.revents & (POLLHUP | POLLERR)) != 0)
        return true;
    if (!body->interim)
        return (peer.revents & POLLRDHUP) != 0;
    if ((peer.revents & POLLRDHUP) != 0)
        ask_whether_it_waits(body);
    return false;
}
