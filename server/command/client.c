#include "command/client.h"

#include <arpa/inet.h>
#include <errno.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <time.h>
#include <unistd.h>

#include "wire/clock.h"

#define FIRST_BYTES 4096u

int client_connect(uint16_t port, int patience_ms)
{
    struct timeval timeout = {.tv_sec = patience_ms / 1000,
                              .tv_usec = patience_ms % 1000 * 1000};
    struct sockaddr_in address = {
        .sin_family = AF_INET,
        .sin_port = htons(port),
        .sin_addr.s_addr = htonl(INADDR_LOOPBACK),
    };
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);

    if (fd < 0)
        return -errno;
    setsockopt(fd, SOL_SOCKET, SO_SNDTIMEO, &timeout, sizeof(timeout));
    setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &timeout, sizeof(timeout));
    if (connect(fd, (struct sockaddr *)&address, sizeof(address)) == 0)
        return fd;
    int error = errno;

    close(fd);
    return -error;
}

static int send_request(int fd, const struct client_question *question)
{
    char *request;
    const char *body = question->body != NULL ? question->body : "";
    char head[96] = "";
    int length;

    if (question->body != NULL)
        (void)snprintf(head, sizeof(head),
                       "Content-Type: application/json\r\nContent-Length: %zu\r\n",
                       strlen(body));
    length = asprintf(&request,
                      "%s %s HTTP/1.1\r\nHost: localhost:%u\r\n"
                      "Connection: close\r\n%s%s%s%s\r\n%s",
                      question->body != NULL ? "POST" : "GET", question->path,
                      question->port, *question->token ? "Authorization: Bearer " : "",
                      question->token, *question->token ? "\r\n" : "", head, body);
    ssize_t sent;

    if (length < 0)
        return -ENOMEM;
    sent = send(fd, request, (size_t)length, MSG_NOSIGNAL);
    free(request);
    return sent == length ? 0 : -EIO;
}

/* All that the server sends until it closes, NUL-terminated. */
static int receive(int fd, const struct client_question *question, char **text)
{
    uint64_t end_ns =
        clock_ns(CLOCK_MONOTONIC) + (uint64_t)question->patience_ms * 1000000;
    size_t size = 0, room = 0;

    *text = NULL;
    while (clock_ns(CLOCK_MONOTONIC) < end_ns) {
        if (size + 1 >= room) {
            size_t more = room == 0 ? FIRST_BYTES : 2 * room;
            char *grown = size < question->bytes_max ? realloc(*text, more) : NULL;

            if (grown == NULL)
                return size < question->bytes_max ? -ENOMEM : -EMSGSIZE;
            *text = grown;
            room = more;
        }
        ssize_t got = recv(fd, *text + size, room - size - 1, 0);

        if (got < 0 &&
            (errno != EINTR || (question->stop != NULL && *question->stop != 0)))
            return -errno;
        size += got > 0 ? (size_t)got : 0;
        (*text)[size] = '\0';
        if (got == 0)
            return 0;
    }
    return -ETIMEDOUT;
}

static int split(struct client_answer *answer)
{
    char *end = strstr(answer->head, "\r\n\r\n");
    long status;

    if (end == NULL || strncmp(answer->head, "HTTP/1.1 ", 9) != 0)
        return -EPROTO;
    status = strtol(answer->head + 9, NULL, 10);
    *end = '\0';
    answer->body = end + 4;
    answer->status = (int)status;
    return status >= 100 && status <= 599 ? 0 : -EPROTO;
}

int client_ask(const struct client_question *question, struct client_answer *answer)
{
    int fd = client_connect(question->port, question->patience_ms);
    int error;

    *answer = (struct client_answer){.head = NULL};
    if (fd < 0)
        return fd;
    error = send_request(fd, question);
    if (error == 0)
        error = receive(fd, question, &answer->head);
    close(fd);
    if (error == 0)
        error = split(answer);
    if (error != 0) {
        free(answer->head);
        *answer = (struct client_answer){.head = NULL};
    }
    return error;
}
