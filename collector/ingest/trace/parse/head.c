#include "ingest/trace/parse/head.h"

#include <stdlib.h>
#include <string.h>

#include "ingest/trace/scan/number.h"
#include "ingest/trace/scan/scan.h"

static bool is_key(const struct trace_span *span, const char *key)
{
    return span->key_length == strlen(key) &&
           memcmp(span->key, key, span->key_length) == 0;
}

/* The number that stands behind "key": in a flat object's text. */
static bool number_in(const char *object, const char *key, int64_t *number)
{
    const char *found = strstr(object, key);

    if (found == NULL)
        return false;
    found += strlen(key);
    found += strspn(found, " \t\r\n");
    if (*found++ != ':')
        return false;
    found += strspn(found, " \t\r\n\"");
    return number_integer(found, number) != NULL;
}

/* The copies have zeros behind them, as the numbers want. */
static void read_known(struct trace_head *head, const struct trace_span *span)
{
    const char *value = span->value + (*span->value == '"');

    if (is_key(span, "baseTimeNanoseconds")) {
        head->has_base_time = number_integer(value, &head->base_time_ns) != NULL;
    } else if (is_key(span, "displayTimeUnit")) {
        head->display_in_ns = strncmp(value, "ns", 2) == 0;
    } else if (is_key(span, "distributedInfo")) {
        head->has_rank = number_in(value, "\"rank\"", &head->rank);
        (void)number_in(value, "\"world_size\"", &head->world_size);
    }
}

void head_add(struct head *head, const struct trace_span *span)
{
    struct trace_span kept = *span;
    size_t size = span->key_length + 1 + span->length + TRACE_SCAN_SLACK;

    if (head->seen.span_count == TRACE_SPANS_MAX ||
        size > TRACE_HEAD_BYTES_MAX - head->bytes) {
        head->seen.spans_left_out++;
        return;
    }
    char *copy = calloc(1, size);

    if (copy == NULL) {
        head->seen.spans_left_out++;
        return;
    }
    memcpy(copy, span->key, span->key_length);
    kept.key = copy;
    copy += span->key_length + 1;
    memcpy(copy, span->value, span->length);
    kept.value = copy;
    head->bytes += size;
    head->spans[head->seen.span_count++] = kept;
    head->seen.spans = head->spans;
    if (!kept.cut)
        read_known(&head->seen, &kept);
}

void head_close(struct head *head)
{
    for (uint32_t i = 0; i < head->seen.span_count; i++)
        free((void *)(uintptr_t)head->spans[i].key);
    head->seen.span_count = 0;
}
