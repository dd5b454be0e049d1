/* The text is cut once at its stamps and ids; a replica is the pieces between, and the
 * numbers anew. */
#include "replica.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <zlib.h>

#define TEXT_MAX   ((size_t)64 << 20)
#define OUT_BYTES  ((size_t)256 * 1024)
#define APART_US   10000u /* between the last stamp of one and the first of the next */
#define DIGITS_MAX 20

enum piece_kind { PIECE_STAMP, PIECE_ID, PIECE_LAST };

struct piece {
    const char *text; /* up to the number */
    uint32_t length;
    uint32_t kind; /* enum piece_kind */
    uint64_t number;
};

struct replica {
    char *text;
    struct piece *pieces;
    uint32_t count, capacity;
    uint64_t shift[PIECE_LAST]; /* of one replica to the next */
};

static char *load(const char *path)
{
    char *text = malloc(TEXT_MAX + 1);
    gzFile file = gzopen(path, "rb");
    int got = file != NULL && text != NULL ? gzread(file, text, TEXT_MAX) : -1;

    if (file != NULL)
        gzclose(file);
    if (got <= 0) {
        free(text);
        return NULL;
    }
    text[got] = '\0';
    return text;
}

/* The events, from the first one's brace to behind the last one's. */
static char *find_events(char *text, char **end)
{
    char *list = strstr(text, "\"traceEvents\"");

    list = list != NULL ? strchr(list, '[') : NULL;
    char *first = list != NULL ? strchr(list, '{') : NULL;

    *end = NULL;
    for (char *at = first; at != NULL; at = strchr(at + 1, '}')) {
        char *next = at + 1 + strspn(at + 1, " \t\r\n");

        if (*next != ']')
            continue;
        *end = at + 1;
        /* `}]}` ends the file, or a list of objects inside of an event. */
        if (next[1 + strspn(next + 1, " \t\r\n")] != '}')
            break;
    }
    return first;
}

static bool add_piece(struct replica *replica, struct piece piece)
{
    if (replica->count == replica->capacity) {
        uint32_t capacity = replica->capacity == 0 ? 4096 : replica->capacity * 2;
        struct piece *pieces =
            realloc(replica->pieces, capacity * sizeof(*replica->pieces));

        if (pieces == NULL)
            return false;
        replica->pieces = pieces;
        replica->capacity = capacity;
    }
    replica->pieces[replica->count++] = piece;
    return true;
}

/* Which number stands behind the key whose quote is at `key`. */
static enum piece_kind kind_of(const char *key, size_t *length)
{
    static const struct {
        const char *key;
        enum piece_kind kind;
    } keys[] = {{"\"ts\":", PIECE_STAMP},
                {"\"id\":", PIECE_ID},
                {"\"correlation\":", PIECE_ID},
                {"\"External id\":", PIECE_ID},
                {"\"external id\":", PIECE_ID}};

    for (size_t i = 0; i < sizeof(keys) / sizeof(keys[0]); i++) {
        *length = strlen(keys[i].key);
        if (strncmp(key, keys[i].key, *length) == 0)
            return keys[i].kind;
    }
    return PIECE_LAST;
}

/* Ids of 0 link nothing, and stay so. */
static bool cut(struct replica *replica, const char *from, const char *end)
{
    uint64_t first = UINT64_MAX, last = 0, most = 0;
    const char *literal = from;

    for (const char *at = strchr(from, '"'); at != NULL && at < end;
         at = strchr(at + 1, '"')) {
        size_t length;
        enum piece_kind kind = kind_of(at, &length);

        if (kind == PIECE_LAST)
            continue;
        const char *number = at + length + strspn(at + length, " \"");
        char *behind;
        uint64_t value = strtoull(number, &behind, 10);

        if (behind == number || *number == '-' || value == 0)
            continue;
        if (!add_piece(replica, (struct piece){literal, (uint32_t)(number - literal),
                                               kind, value}))
            return false;
        literal = behind;
        if (kind == PIECE_STAMP) {
            first = value < first ? value : first;
            last = value > last ? value : last;
        } else {
            most = value > most ? value : most;
        }
        at = behind - 1;
    }
    replica->shift[PIECE_STAMP] = last - first + APART_US;
    replica->shift[PIECE_ID] = most + 1;
    return last > 0 &&
           add_piece(replica,
                     (struct piece){literal, (uint32_t)(end - literal), PIECE_LAST, 0});
}

struct replica *replica_open(const char *path)
{
    struct replica *replica = calloc(1, sizeof(*replica));
    char *end = NULL, *first = NULL;

    if (replica == NULL)
        return NULL;
    replica->text = load(path);
    if (replica->text != NULL)
        first = find_events(replica->text, &end);
    if (first == NULL || end == NULL || !cut(replica, first, end)) {
        replica_close(replica);
        return NULL;
    }
    return replica;
}

void replica_close(struct replica *replica)
{
    if (replica == NULL)
        return;
    free(replica->pieces);
    free(replica->text);
    free(replica);
}

/* ---- writing ------------------------------------------------------------------------ */

struct output {
    int descriptor;
    bool failed;
    uint64_t written;
    size_t held;
    char bytes[OUT_BYTES] __attribute__((aligned(4096)));
};

static void flush(struct output *output)
{
    const char *at = output->bytes;

    while (output->held > 0 && !output->failed) {
        ssize_t written = write(output->descriptor, at, output->held);

        if (written < 0 && errno == EINTR)
            continue;
        output->failed = written < 0;
        if (written < 0)
            break;
        at += written;
        output->held -= (size_t)written;
    }
    output->held = 0;
}

static void put(struct output *output, const char *text, size_t length)
{
    output->written += length;
    while (length > 0) {
        size_t room = OUT_BYTES - output->held, part = length < room ? length : room;

        memcpy(output->bytes + output->held, text, part);
        output->held += part;
        text += part;
        length -= part;
        if (output->held == OUT_BYTES)
            flush(output);
    }
}

static void put_number(struct output *output, uint64_t number)
{
    char digits[DIGITS_MAX], *at = digits + DIGITS_MAX;

    do {
        *--at = (char)('0' + number % 10);
        number /= 10;
    } while (number > 0);
    put(output, at, (size_t)(digits + DIGITS_MAX - at));
}

bool replica_write(const struct replica *replica, int descriptor, uint64_t bytes)
{
    static const char head[] = "{\"schemaVersion\": 1, \"traceEvents\": [\n",
                      tail[] = "\n]}\n";
    struct output *output = aligned_alloc(4096, sizeof(*output));

    if (output == NULL)
        return false;
    output->descriptor = descriptor;
    output->failed = false;
    output->written = output->held = 0;
    put(output, head, sizeof(head) - 1);
    for (uint64_t i = 0; output->written < bytes && !output->failed; i++) {
        if (i > 0)
            put(output, ",\n", 2);
        for (uint32_t j = 0; j < replica->count; j++) {
            const struct piece *piece = &replica->pieces[j];

            put(output, piece->text, piece->length);
            if (piece->kind != PIECE_LAST)
                put_number(output, piece->number + i * replica->shift[piece->kind]);
        }
    }
    put(output, tail, sizeof(tail) - 1);
    flush(output);
    bool good = !output->failed;

    free(output);
    return good;
}
