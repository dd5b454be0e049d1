/* The entries of the scan that are known ahead of what is being read. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "ingest/trace/parse/parser.h"

/* Behind damage little is scanned at first: where it is dense, all would be scanned again
 * and again. */
#define FIRST_WINDOW 512u

static bool make_room(struct parser *parser, uint32_t entries)
{
    if (parser->room >= entries)
        return true;
    uint32_t room = entries + entries / 2;
    uint32_t *index = realloc(parser->index, room * sizeof(*index));

    if (index == NULL) {
        parser->error = -ENOMEM;
        parser->stopped = true;
        return false;
    }
    parser->index = index;
    parser->room = room;
    return true;
}

static void end_index(struct parser *parser)
{
    for (uint32_t i = 0; i < 4; i++)
        parser->index[parser->count + i] = parser->length;
}

int parser_open(struct parser *parser, enum trace_scan_kind scan)
{
    parser->scan = trace_scan_choose(scan);
    parser->state = PARSER_START;
    words_add_keys(&parser->keys);
    words_add_categories(&parser->categories);
    return make_room(parser, 4 * FEED_WINDOW) ? 0 : -ENOMEM;
}

void parser_close(struct parser *parser)
{
    free(parser->index);
    parser->index = NULL;
}

void parser_restart(struct parser *parser, uint32_t pos)
{
    parser->scan_state = (struct trace_scan_state){0, 0};
    parser->scanned = parser->pos = pos;
    parser->count = parser->next = 0;
    parser->window = parser->state == PARSER_SEEK ? FIRST_WINDOW : UINT32_MAX;
    end_index(parser);
}

/* How much is scanned next: what was scanned ahead is taken by its windows. */
static uint32_t next_window(const struct parser *parser)
{
    uint32_t left = parser->length - parser->scanned, window = FEED_WINDOW;

    if (parser->ahead != NULL)
        window = parser->scanned < FEED_HEADROOM
                     ? FEED_HEADROOM - parser->scanned
                     : FEED_WINDOW - (parser->scanned - FEED_HEADROOM) % FEED_WINDOW;
    else if (parser->scanned > parser->pos + FEED_WINDOW)
        /* What is long is read anew with twice as many entries, not with a few more. */
        window = parser->scanned - parser->pos;
    window = window < parser->window ? window : parser->window;
    return window < left ? window : left;
}

/* The window that begins where the scan is, when all of it is wanted and it was scanned
 * with the state that holds: not behind damage, until both agree again. */
static const struct feed_mark *mark_here(const struct parser *parser, uint32_t wanted)
{
    uint32_t at = parser->scanned - FEED_HEADROOM;
    uint32_t left = parser->length - parser->scanned;

    if (parser->ahead == NULL || parser->scanned < FEED_HEADROOM ||
        at % FEED_WINDOW != 0 || wanted != (left < FEED_WINDOW ? left : FEED_WINDOW))
        return NULL;
    const struct feed_mark *mark = &parser->ahead->marks[at / FEED_WINDOW];

    return mark->state.in_string == parser->scan_state.in_string &&
                   mark->state.escaped == parser->scan_state.escaped
               ? mark
               : NULL;
}

bool parser_refill(struct parser *parser)
{
    uint32_t window = next_window(parser);

    if (window == 0)
        return false;
    if (parser->next > 0) {
        parser->count -= parser->next;
        memmove(parser->index, parser->index + parser->next,
                parser->count * sizeof(*parser->index));
        parser->next = 0;
    }
    if (!make_room(parser, parser->count + window + TRACE_SCAN_SLACK))
        return false;
    const struct feed_mark *mark = mark_here(parser, window);

    if (mark != NULL) {
        memcpy(parser->index + parser->count, parser->ahead->index + mark->entry,
               (mark[1].entry - mark->entry) * sizeof(*parser->index));
        parser->count += mark[1].entry - mark->entry;
        parser->scan_state = mark[1].state;
    } else {
        parser->count +=
            parser->scan(parser->text, parser->scanned, parser->scanned + window,
                         &parser->scan_state, parser->index + parser->count);
    }
    parser->scanned += window;
    parser->window = parser->window < FEED_WINDOW ? 2 * parser->window : UINT32_MAX;
    end_index(parser);
    return true;
}

void parser_go_on(struct parser *parser, uint32_t pos, uint32_t entry)
{
    uint32_t window = (pos - 1 - FEED_HEADROOM) / FEED_WINDOW;
    uint32_t end = FEED_HEADROOM + (window + 1) * FEED_WINDOW;
    const struct feed_mark *behind = &parser->ahead->marks[window + 1];

    parser->pos = pos;
    parser->scanned = end < parser->length ? end : parser->length;
    parser->scan_state = behind->state;
    parser->window = UINT32_MAX;
    parser->next = 0;
    parser->count = behind->entry - entry;
    memcpy(parser->index, parser->ahead->index + entry,
           parser->count * sizeof(*parser->index));
    end_index(parser);
}

enum parser_result parser_nested(const struct parser *parser, uint32_t *next)
{
    const char *text = parser->text;
    const uint32_t *index = parser->index;
    uint32_t at = *next, depth = 0;

    do {
        char byte = text[index[at++]];

        if (byte == '"') {
            char behind = text[index[at++] + 1];

            if (UNLIKELY(!parser_is_end(behind) && behind != ':'))
                return at >= parser->count ? PARSER_MORE : PARSER_BAD;
        } else if (byte == '[' || byte == '{') {
            depth++;
        } else if (byte == ']' || byte == '}') {
            depth--;
        } else {
            return PARSER_MORE;
        }
    } while (depth > 0);
    *next = at;
    return PARSER_DONE;
}
