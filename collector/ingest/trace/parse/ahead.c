#include "ingest/trace/parse/ahead.h"

#include <stdlib.h>

#include "ingest/trace/parse/fields.h"

struct ahead *ahead_new(const struct trace_options *options)
{
    struct ahead *ahead = calloc(1, sizeof(*ahead));

    if (ahead == NULL)
        return NULL;
    words_add_keys(&ahead->parser.keys);
    ahead->parser.shapes = options->shapes;
    ahead->parser.stacks = options->stacks;
    for (uint32_t i = 0; i < FEED_BLOCKS; i++) {
        ahead->runs[i] = malloc(sizeof(*ahead->runs[i]));
        if (ahead->runs[i] == NULL) {
            ahead_free(ahead);
            return NULL;
        }
    }
    return ahead;
}

void ahead_free(struct ahead *ahead)
{
    if (ahead == NULL)
        return;
    for (uint32_t i = 0; i < FEED_BLOCKS; i++)
        free(ahead->runs[i]);
    free(ahead);
}

/* ---- by the thread ---- */

/* Behind what separates two events; `from` where anything else stands there. */
static uint32_t behind_comma(const char *text, uint32_t from)
{
    uint32_t at = from, commas = 0;

    for (; text[at] == ',' || parser_is_space(text[at]); at++)
        commas += text[at] == ',';
    return commas > 0 ? at : from;
}

/* The entry of a brace that seems to begin an event, one ending before it; `count` when
 * there is none. */
static uint32_t guess_first(const struct parser *parser)
{
    const char *text = parser->text;
    const uint32_t *index = parser->index;

    for (uint32_t i = 1; i < parser->count; i++)
        if (text[index[i]] == '{' && text[index[i - 1]] == '}' &&
            behind_comma(text, index[i - 1] + 1) == index[i])
            return i;
    return parser->count;
}

/* The event at parser->next, which is an opening brace; false when it is not sound. */
static bool read_one(struct parser *parser, struct ahead_run *run)
{
    struct reading reading = {
        .parser = parser,
        .text = parser->text,
        .at = parser->index + parser->next + 1,
        .event = &run->events[run->count],
        .run = run,
    };
    uint32_t text_count = run->text_count;
    enum trace_skip skip;

    if (event_read(&reading, parser->index[parser->next], &skip) != PARSER_DONE ||
        skip != TRACE_SKIPS || reading.no_room) {
        run->text_count = text_count;
        return false;
    }
    parser->next = (uint32_t)(reading.at - parser->index);
    run->end = reading.at[-1] + 1;
    run->entry = parser->next;
    run->unreadable += reading.unreadable;
    run->count++;
    return true;
}

const struct ahead_run *ahead_read(void *user, const struct feed_block *block,
                                   uint32_t room)
{
    struct ahead *ahead = user;
    struct parser *parser = &ahead->parser;
    struct ahead_run *run = ahead->runs[room];

    parser->text = block->bytes - FEED_HEADROOM;
    parser->length = FEED_HEADROOM + block->length;
    parser->index = block->index;
    parser->count = block->entries;
    parser->next = guess_first(parser);
    run->begin = parser->index[parser->next];
    run->count = run->text_count = run->unreadable = 0;
    while (run->count < AHEAD_EVENTS && parser->next < parser->count &&
           parser->text[parser->index[parser->next]] == '{' && read_one(parser, run))
        if (behind_comma(parser->text, run->end) != parser->index[parser->next])
            break;
    return run->count > 0 ? run : NULL;
}

/* ---- by the parser ---- */

void ahead_take(struct parser *parser)
{
    const struct ahead_run *run = parser->run;
    const struct ahead_text *text = run->texts, *end = text + run->text_count;
    struct reading reading = {.parser = parser, .text = parser->text};

    parser->run = NULL;
    for (uint32_t i = 0; i < run->count && !parser->stopped; i++) {
        struct trace_event *event = &parser->batch[parser->batch_count];

        *event = run->events[i];
        event->offset = parser->offset + (uint32_t)(event->text - parser->text);
        reading.event = event;
        for (; text < end && text->event == i; text++)
            field_text_of_key(&reading, text->key,
                              &(struct value){.text = parser->text + text->at,
                                              .length = text->length,
                                              .first = text->first});
        if (++parser->batch_count == TRACE_BATCH)
            parser_flush(parser);
    }
    parser->report->values_unreadable += run->unreadable;
    parser->report->names_refused += reading.refused;
    parser_go_on(parser, run->end, run->entry);
}
