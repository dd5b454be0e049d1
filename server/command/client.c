#include "command/client.h"

#include <arpa/inet.h>
#include <cjson/cJSON.h>
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
#include "wire/segment.h"

#define FIRST_BYTES  4096u
#define ANSWER_BYTES 4096u /* of /healthz */
#define CONNECT_MS   500

static int connect_to(uint16_t port, int patience_ms)
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
    int fd = connect_to(question->port, question->patience_ms);
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

/* Is a socket of ours listening there? /proc/net/tcp: local address, state, uid. */
static bool listener_is_ours(uint16_t port)
{
    char line[256];
    bool ours = false;
    FILE *file = fopen("/proc/net/tcp", "re");

    if (file == NULL)
        return false;
    while (!ours && fgets(line, sizeof(line), file) != NULL) {
        unsigned local, state, uid;

        if (sscanf(line, " %*u: %*8x:%4x %*8x:%*4x %2x %*x:%*x %*x:%*x %*x %u", &local,
                   &state, &uid) == 3)
            ours = local == port && state == 0x0a && uid == geteuid();
    }
    fclose(file);
    return ours;
}

static bool text_is(const cJSON *document, const char *key, const char *expected)
{
    const char *text = cJSON_GetStringValue(cJSON_GetObjectItem(document, key));

    return text != NULL && strcmp(text, expected) == 0;
}

static double number_of(const cJSON *document, const char *key)
{
    return cJSON_GetNumberValue(cJSON_GetObjectItem(document, key));
}

static bool answer_is_ours(const struct client_answer *answer, const char *directory)
{
    char usual[64];
    cJSON *document;
    bool ours;

    if (answer->status != 200)
        return false;
    document = cJSON_Parse(answer->body);
    snprintf(usual, sizeof(usual), "/dev/shm/trainglass-%u", (unsigned)geteuid());
    ours = text_is(document, "name", "trainglass") &&
           number_of(document, "uid") == geteuid() &&
           number_of(document, "layout_major") == WIRE_MAJOR &&
           (text_is(document, "directory", directory) ||
            (text_is(document, "directory", "") && strcmp(directory, usual) == 0));
    cJSON_Delete(document);
    return ours;
}

/* Does anybody listen? Asked before anything is sent to a program of someone else; one
 * that accepts no more would hold us for minutes. */
static bool is_free(uint16_t port, int patience_ms)
{
    int fd = connect_to(port, patience_ms < CONNECT_MS ? patience_ms : CONNECT_MS);

    if (fd >= 0)
        close(fd);
    return fd == -ECONNREFUSED;
}

static int ask_health(uint16_t port, int patience_ms, struct client_answer *answer)
{
    struct client_question question = {.port = port,
                                       .path = "/healthz",
                                       .token = "",
                                       .patience_ms = patience_ms,
                                       .bytes_max = ANSWER_BYTES};

    return client_ask(&question, answer);
}

bool holder_token(uint16_t port, char *token, size_t size)
{
    static const char key[] = "TRAINGLASS_TOKEN=";
    struct client_answer answer;
    char path[48], *word = NULL;
    size_t room = 0;
    bool found = false;

    if (ask_health(port, HOLDER_PATIENCE_MS, &answer) != 0)
        return false;
    cJSON *document = cJSON_Parse(answer.body);
    const cJSON *pid = cJSON_GetObjectItem(document, "pid");

    snprintf(path, sizeof(path), "/proc/%d/environ", pid != NULL ? pid->valueint : 0);
    cJSON_Delete(document);
    free(answer.head);
    FILE *words = fopen(path, "re");

    while (words != NULL && !found && getdelim(&word, &room, '\0', words) > 0) {
        found = strncmp(word, key, strlen(key)) == 0 &&
                strlen(word + strlen(key)) < size && word[strlen(key)] != '\0';
        if (found)
            snprintf(token, size, "%s", word + strlen(key));
    }
    free(word);
    if (words != NULL)
        fclose(words);
    return found;
}

enum holder holder_ask(uint16_t port, const char *directory, int patience_ms)
{
    struct client_answer answer;
    bool ours;

    if (is_free(port, patience_ms))
        return HOLDER_NONE;
    if (!listener_is_ours(port) || ask_health(port, patience_ms, &answer) != 0)
        return HOLDER_OTHER;
    ours = answer_is_ours(&answer, directory);
    free(answer.head);
    return ours ? HOLDER_OURS : HOLDER_OTHER;
}
