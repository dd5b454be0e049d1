/* Blocks of the feed to pieces for the parser: what was not finished in one block goes
 * before the next one, in its headroom; what has no room there into a buffer of its own.
 */
#include "ingest/trace/reader.h"

#include <errno.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "ingest/trace/feed/feed.h"
#include "ingest/trace/parse/ahead.h"

/* The parser leaves less than a long event and a block. */
#define LONG_BYTES (TRACE_EVENT_BYTES_MAX + 2 * FEED_BLOCK_BYTES)
struct trace_reader {
    struct feed *feed;
    struct fill *fill; /* of the feed */
    struct parser parser;
    struct ahead *ahead; /* NULL with one thread */
    struct head head;
    struct trace_report report;
    char *long_piece; /* LONG_BYTES and zeros, when one was needed */
    bool is_bomb;     /* given up: see INFLATER_BOMB_BYTES */
    bool is_known;    /* for a trace: read before, parts of it are left out now */
};

const char *trace_skip_text(enum trace_skip skip)
{
    static const char *const texts[TRACE_SKIPS] = {
        [TRACE_SKIP_SYNTAX] = "unescaped quotes or damaged bytes",
        [TRACE_SKIP_NO_PHASE] = "no phase (`ph`)",
        [TRACE_SKIP_NO_TIME] = "no time (`ts`)",
        [TRACE_SKIP_TIME] = "a time that is no number",
        [TRACE_SKIP_NO_DURATION] = "no duration (`dur`)",
        [TRACE_SKIP_LONG] = "longer than 1 MiB",
        [TRACE_SKIP_NO_OBJECT] = "not an object",
        [TRACE_SKIP_CUT] = "the file ends within it",
    };

    return skip < TRACE_SKIPS ? texts[skip] : "";
}

struct trace_reader *trace_reader_new(const struct trace_options *options)
{
    static const struct trace_options usual = {.scan = TRACE_SCAN_BEST};
    struct trace_reader *reader = calloc(1, sizeof(*reader));

    if (reader == NULL)
        return NULL;
    options = options != NULL ? options : &usual;
    cpu_set_t set;
    /* A second thread only costs where both have to take turns. */
    bool one_thread =
        options->one_thread ||
        (!options->always_ahead && sched_getaffinity(0, sizeof(set), &set) == 0 &&
         CPU_COUNT(&set) == 1);

    reader->parser.shapes = options->shapes;
    reader->parser.stacks = options->stacks;
    reader->parser.head = &reader->head;
    reader->parser.report = &reader->report;
    reader->parser.names = trace_names_new();
    reader->feed = feed_new(one_thread, trace_scan_choose(options->scan));
    if (!one_thread)
        reader->ahead = ahead_new(options);
    if (reader->parser.names == NULL || reader->feed == NULL ||
        (reader->ahead == NULL && !one_thread) ||
        parser_open(&reader->parser, options->scan) != 0) {
        trace_reader_free(reader);
        return NULL;
    }
    reader->fill = feed_fill(reader->feed);
    if (reader->ahead != NULL)
        feed_set_ahead(reader->feed, ahead_read, reader->ahead, options->always_ahead);
    return reader;
}

void trace_reader_free(struct trace_reader *reader)
{
    if (reader == NULL)
        return;
    feed_free(reader->feed);
    ahead_free(reader->ahead);
    parser_close(&reader->parser);
    trace_names_free(reader->parser.names);
    head_close(&reader->head);
    free(reader->long_piece);
    free(reader);
}

static int opened(struct trace_reader *reader, int result)
{
    if (result != 0)
        snprintf(reader->report.error, sizeof(reader->report.error), "%s",
                 reader->fill->report.error);
    return result;
}

int trace_reader_open(struct trace_reader *reader, const char *path)
{
    return opened(reader, fill_open_path(reader->fill, path));
}

int trace_reader_open_descriptor(struct trace_reader *reader, int descriptor)
{
    return opened(reader, fill_open_descriptor(reader->fill, descriptor));
}

int trace_reader_open_bytes(struct trace_reader *reader, const void *bytes, size_t size)
{
    fill_open_bytes(reader->fill, bytes, size);
    return 0;
}

void trace_reader_open_source(struct trace_reader *reader,
                              const struct trace_source *source)
{
    reader->fill->source = *source;
}

void trace_reader_leave_out(struct trace_reader *reader, const struct trace_hole *holes,
                            uint32_t count)
{
    reader->fill->holes = holes;
    reader->fill->hole_count = count;
    reader->is_known = count > 0;
}

/* The next piece: what is left of the one before, and a block. */
static bool join(struct trace_reader *reader, struct parser_piece *piece,
                 const struct feed_block *block)
{
    uint32_t left = piece->end - piece->begin;
    const char *rest = piece->bytes + piece->begin;

    if (left <= FEED_HEADROOM) {
        memcpy(block->bytes - left, rest, left);
        piece->bytes = block->bytes - FEED_HEADROOM;
        piece->begin = FEED_HEADROOM - left;
        piece->end = FEED_HEADROOM + block->length;
        piece->ahead = block->index != NULL ? block : NULL;
        return true;
    }
    if (reader->long_piece == NULL)
        reader->long_piece = malloc(LONG_BYTES + FEED_ZEROS);
    if (reader->long_piece == NULL || left > LONG_BYTES - block->length)
        return false;
    memmove(reader->long_piece, rest, left);
    memcpy(reader->long_piece + left, block->bytes, block->length);
    memset(reader->long_piece + left + block->length, 0, FEED_ZEROS);
    piece->bytes = reader->long_piece;
    piece->begin = 0;
    piece->end = left + block->length;
    piece->ahead = NULL;
    return true;
}

static bool is_bomb(const struct trace_reader *reader, uint64_t text_bytes)
{
    uint64_t file_bytes, of;

    fill_position(reader->fill, &file_bytes, &of);
    return inflater_is_bomb(text_bytes, file_bytes);
}

/* 0 at the end of the file, else a negative errno. */
static int take_all(struct trace_reader *reader)
{
    static const char nothing[FEED_ZEROS];
    struct parser_piece piece = {.bytes = nothing};
    struct parser *parser = &reader->parser;
    struct feed_block block;
    uint64_t text_bytes = 0;
    int result;

    while ((result = feed_next(reader->feed, &block)) > 0) {
        if (!join(reader, &piece, &block))
            return -ENOMEM;
        uint32_t done = parser_take(parser, &piece);

        piece.offset += done - piece.begin;
        piece.begin = done;
        if (parser->stopped)
            return parser->error;
        text_bytes += block.length;
        if (is_bomb(reader, text_bytes)) {
            fill_cancel(reader->fill);
            reader->is_bomb = true;
            result = 0;
            break;
        }
    }
    /* Nothing comes behind what is left any more. */
    piece.ahead = NULL;
    piece.last = true;
    (void)parser_take(parser, &piece);
    return parser->stopped ? parser->error : result;
}

/* The feed's sentence is of what came first: bytes before text. */
static void finish_report(struct trace_reader *reader)
{
    struct trace_report *report = &reader->report;
    const struct feed_report *feed = &reader->fill->report;
    uint64_t of;

    fill_position(reader->fill, &report->file_bytes, &of);
    report->text_bytes = feed->text_bytes;
    report->is_gzip = feed->is_gzip;
    report->is_cut = feed->is_cut || reader->is_bomb ||
                     (reader->parser.state != PARSER_END && !reader->parser.stopped);
    if (feed->error[0] != '\0')
        memcpy(report->error, feed->error, sizeof(report->error));
    if (report->error[0] == '\0' && report->file_bytes > 0 &&
        report->text_bytes / report->file_bytes > INFLATER_RATIO_MAX)
        snprintf(report->error, sizeof(report->error),
                 "inflated to %llu times its size, as no trace does%s",
                 (unsigned long long)(report->text_bytes / report->file_bytes),
                 reader->is_bomb ? ": nothing was read beyond 1 GiB of it" : "");
    /* Cut between two events, nothing else would tell. */
    if (report->error[0] == '\0' && report->is_cut)
        snprintf(report->error, sizeof(report->error),
                 "the file ends early: its JSON is not closed");
}

static int verdict(struct trace_reader *reader, int result)
{
    struct trace_report *report = &reader->report;

    if (result == -ECANCELED || result == -ENOMEM || result == -EBADMSG)
        return result;
    uint64_t skipped = trace_reader_skipped(reader);
    unsigned most = 0;

    for (unsigned i = 1; i < TRACE_SKIPS; i++)
        most = report->skipped[i] > report->skipped[most] ? i : most;
    /* What was read counts, also when reading failed in the middle. */
    if (report->events > 0 || (reader->parser.has_events && skipped == 0))
        return 0;
    if (result == 0 && reader->is_known)
        return 0; /* all that can be read of it was left out */
    if (result != 0)
        return result;
    if (report->file_bytes == 0) {
        snprintf(report->error, sizeof(report->error), "is empty");
        return -ENODATA;
    }
    if (reader->fill->report.error[0] != '\0' || reader->is_bomb)
        return -EBADMSG; /* its sentence says more */
    const char *stranger = head_stranger(&reader->head.seen, report);

    if (stranger != NULL)
        snprintf(report->error, sizeof(report->error), "%s", stranger);
    else if (skipped > 0)
        snprintf(report->error, sizeof(report->error),
                 "is no trace: none of its %llu items could be read: %s",
                 (unsigned long long)skipped, trace_skip_text(most));
    else
        snprintf(report->error, sizeof(report->error),
                 "is no trace: it has no list of events (`traceEvents`)");
    return -EBADMSG;
}

int trace_reader_run(struct trace_reader *reader, trace_on_batch *on_batch, void *user)
{
    reader->parser.on_batch = on_batch;
    reader->parser.user = user;
    int result = take_all(reader);

    feed_stop(reader->feed);
    finish_report(reader);
    if (result == -ENOMEM)
        snprintf(reader->report.error, sizeof(reader->report.error), "out of memory");
    return verdict(reader, result);
}

struct trace_names *trace_reader_names(struct trace_reader *reader)
{
    return reader->parser.names;
}

const struct trace_head *trace_reader_head(const struct trace_reader *reader)
{
    return &reader->head.seen;
}

const struct trace_report *trace_reader_report(const struct trace_reader *reader)
{
    return &reader->report;
}

uint64_t trace_reader_skipped(const struct trace_reader *reader)
{
    uint64_t sum = 0;

    for (int i = 0; i < TRACE_SKIPS; i++)
        sum += reader->report.skipped[i];
    return sum;
}

const struct trace_span *trace_reader_span(const struct trace_reader *reader,
                                           const char *key)
{
    const struct trace_head *head = &reader->head.seen;

    for (uint32_t i = head->span_count; i > 0; i--) {
        const struct trace_span *span = &head->spans[i - 1];

        if (span->key_length == strlen(key) &&
            memcmp(span->key, key, span->key_length) == 0)
            return span;
    }
    return NULL;
}

void trace_reader_position(const struct trace_reader *reader, uint64_t *file_bytes,
                           uint64_t *of)
{
    fill_position(reader->fill, file_bytes, of);
}

void trace_reader_cancel(struct trace_reader *reader)
{
    fill_cancel(reader->fill);
}
