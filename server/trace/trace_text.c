#include <stdlib.h>

#include "http/bytes.h"
#include "trace/trace_event.h"

#define STRING_BYTES_MAX 4096u

bool trace_text_open(struct trace_text *text, const struct trace_sink *sink)
{
    char *start = malloc(TRACE_CHUNK_BYTES + TRACE_EVENT_BYTES);

    *text = (struct trace_text){.start = start, .at = start, .sink = sink};
    if (start == NULL)
        return false;
    text->full = start + TRACE_CHUNK_BYTES;
    return true;
}

void trace_text_close(struct trace_text *text)
{
    free(text->start);
}

void trace_text_flush(struct trace_text *text)
{
    size_t size = (size_t)(text->at - text->start);

    if (size > 0 && !text->broken &&
        !text->sink->write(text->sink->context, text->start, size))
        text->broken = true;
    text->given += size;
    text->at = text->start;
}

static const char pairs[] = "00010203040506070809101112131415161718192021222324"
                            "25262728293031323334353637383940414243444546474849"
                            "50515253545556575859606162636465666768697071727374"
                            "75767778798081828384858687888990919293949596979899";

void trace_text_number(struct trace_text *text, uint64_t number)
{
    char digits[20];
    char *at = digits + sizeof(digits);

    while (number >= 100) {
        at -= 2;
        memcpy(at, pairs + 2 * (number % 100), 2);
        number /= 100;
    }
    if (number >= 10) {
        at -= 2;
        memcpy(at, pairs + 2 * number, 2);
    } else {
        *--at = (char)('0' + number);
    }
    trace_text_put(text, at, (size_t)(digits + sizeof(digits) - at));
}

void trace_text_signed(struct trace_text *text, int64_t number)
{
    if (number < 0)
        *text->at++ = '-';
    trace_text_number(text, number < 0 ? 0 - (uint64_t)number : (uint64_t)number);
}

void trace_text_us(struct trace_text *text, int64_t ns)
{
    uint64_t whole = ns < 0 ? 0 - (uint64_t)ns : (uint64_t)ns;
    unsigned rest = (unsigned)(whole % 1000);

    if (ns < 0)
        *text->at++ = '-';
    trace_text_number(text, whole / 1000);
    *text->at++ = '.';
    *text->at++ = (char)('0' + rest / 100);
    memcpy(text->at, pairs + (size_t)2 * (rest % 100), 2);
    text->at += 2;
}

void trace_text_string(struct trace_text *text, const char *string)
{
    struct bytes quoted = {0};

    bytes_json(&quoted, string, strlen(string), STRING_BYTES_MAX);
    if (!quoted.failed && quoted.size <= TRACE_EVENT_BYTES - 4096)
        trace_text_put(text, quoted.data, quoted.size);
    else
        TRACE_PUT(text, "\"?\"");
    bytes_close(&quoted);
}
