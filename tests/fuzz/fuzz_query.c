/* The parameters of a request, any bytes: parsed or refused, never out of bounds. */
#include <string.h>

#include "fuzz.h"
#include "http/query.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static const char *const choices[] = {"cpu", "cuda", NULL};
    char *text = malloc(size + 1);
    static struct query query;
    int64_t number = 5;
    const char *session;

    if (text == NULL)
        return 0;
    memcpy(text, data, size);
    text[size] = '\0';
    query_parse(&query, text);
    session = query_text(&query, "session");
    if (session != NULL && strlen(session) > QUERY_BYTES_MAX)
        abort();
    (void)query_number(&query, "k", 1, 1000, &number);
    if (number < 1 || number > 1000)
        abort();
    if (query_choice(&query, "device", choices, 0) > 1)
        abort();
    (void)query_flag(&query, "estimate");
    if (!query_done(&query)) {
        if (query.error[0] == '\0' ||
            memchr(query.field, '\0', sizeof(query.field)) == NULL)
            abort();
        for (const char *c = query.field; *c != '\0'; c++) {
            if (*c == '"' || *c == '\\' || *c == '<' || *c < ' ')
                abort();
        }
    }
    free(text);
    return 0;
}
