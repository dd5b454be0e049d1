#include "command/live/holder.h"

#include <cjson/cJSON.h>
#include <errno.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "command/client.h"
#include "wire/segment.h"

#define ANSWER_BYTES 4096u
#define CONNECT_MS   500

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
    int fd = client_connect(port, patience_ms < CONNECT_MS ? patience_ms : CONNECT_MS);

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
