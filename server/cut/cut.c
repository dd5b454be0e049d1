/* The readings of a cut, and the writing in the last one. */
#include "cut/cut.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cut/cut_json.h"
#include "cut/cut_plan.h"
#include "cut/cut_weigh.h"

/* A packed size cannot be foretold: attempts, each with less than went in before. */
#define ATTEMPTS_MAX   12u
#define NEXT_SHARE     0.92
#define EVENT_GLUE     ",\n"
#define EVENTS_OPENING "\"traceEvents\": [\n"

/* One reading of the file. */
struct reading {
    trace_on_batch *on_batch;
    void *user;
    void (*before)(void *user, struct trace_reader *reader); /* may be NULL */
    void (*after)(void *user, struct trace_reader *reader); /* only when it went well */
};

static int read_file(const struct cut_request *request, const struct reading *reading,
                     const struct trace_hole *holes, uint32_t hole_count,
                     struct cut_result *result)
{
    struct trace_reader *reader = trace_reader_new(NULL);
    int error = reader == NULL ? -ENOMEM : trace_reader_open(reader, request->path);

    if (error == 0) {
        if (reading->before != NULL)
            reading->before(reading->user, reader);
        trace_reader_leave_out(reader, holes, hole_count);
        if (request->on_start != NULL)
            request->on_start(request->user, reader);
        error = trace_reader_run(reader, reading->on_batch, reading->user);
        if (request->on_end != NULL)
            request->on_end(request->user);
    }
    if (error == 0)
        reading->after(reading->user, reader);
    /* What the first reading said holds for those that leave parts out. */
    if (reader != NULL && trace_reader_report(reader)->error[0] != '\0')
        (void)snprintf(result->error, sizeof(result->error), "%s",
                       trace_reader_report(reader)->error);
    trace_reader_free(reader);
    return error;
}

/* Once more, without what lies outside of the plan's range. */
static int read_range(const struct cut_plan *plan, const struct reading *reading,
                      struct cut_result *result)
{
    struct trace_hole *holes;
    uint32_t count;
    int error =
        cut_blocks_holes(&plan->blocks, plan->from_ns, plan->to_ns, &holes, &count);

    if (error == 0)
        error = read_file(plan->request, reading, holes, count, result);
    free(holes);
    return error;
}

/* ---- copying ------------------------------------------------------------------------ */

struct copying {
    const struct cut_plan *plan;
    struct output_file *output;
    struct cut_result *result;
    struct trace_reader *reader; /* while it runs */
    struct bytes clean;          /* one event, or the keys */
    struct cut_said said;
    uint64_t written; /* before packing */
    uint32_t spans;   /* of the head, looked at */
    bool begun, any_event, any_key;
};

static void put(struct copying *copying, const char *text, size_t size)
{
    output_file_write(copying->output, text, size);
    copying->written += size;
}

static void put_text(struct copying *copying, const char *text)
{
    put(copying, text, strlen(text));
}

/* The top level's keys that stand before `offset` and were not looked at yet. */
static void put_keys(struct copying *copying, uint64_t offset)
{
    const struct trace_head *head = trace_reader_head(copying->reader);

    for (; copying->spans < head->span_count &&
           head->spans[copying->spans].offset < offset;
         copying->spans++) {
        const struct trace_span *span = &head->spans[copying->spans];

        copying->clean.size = 0;
        bytes_text(&copying->clean, copying->any_key ? EVENT_GLUE : "");
        if (span->cut ||
            !cut_json_string(&copying->clean, span->key, span->key_length)) {
            copying->result->keys_left_out++;
            continue;
        }
        bytes_text(&copying->clean, ": ");
        if (!cut_json_value(&copying->clean, span->value, span->length)) {
            copying->result->keys_left_out++;
            continue;
        }
        put(copying, copying->clean.data, copying->clean.size);
        copying->any_key = true;
    }
}

static void begin(struct copying *copying, uint64_t offset)
{
    copying->begun = true;
    if (trace_reader_head(copying->reader)->is_array) {
        put_text(copying, "[\n");
        return;
    }
    put_text(copying, "{");
    put_keys(copying, offset);
    put_text(copying, copying->any_key ? EVENT_GLUE EVENTS_OPENING : EVENTS_OPENING);
    copying->any_key = true;
}

static uint64_t most(uint64_t a, uint64_t b)
{
    return a > b ? a : b;
}

/* The first reading, where there was one, saw all of the file. */
static void end(void *user, struct trace_reader *reader)
{
    struct copying *copying = user;

    if (!copying->begun)
        begin(copying, UINT64_MAX);
    put_text(copying, "\n]");
    if (!trace_reader_head(reader)->is_array) {
        put_keys(copying, UINT64_MAX);
        put_text(copying, "}");
    }
    put_text(copying, "\n");
    copying->result->keys_left_out += trace_reader_head(reader)->spans_left_out;
    copying->result->events = most(copying->result->events, copying->plan->events);
    copying->result->skipped +=
        most(trace_reader_skipped(reader), copying->plan->skipped);
}

static void copy(struct copying *copying, const struct trace_event *event)
{
    bool metadata = event->phase == 'M';
    int64_t reference_ns;

    copying->result->events += metadata ? 0 : 1;
    if (metadata ? cut_said_again(&copying->said, event)
                 : !cut_plan_keeps(copying->plan, event, &reference_ns))
        return;
    copying->clean.size = 0;
    bytes_text(&copying->clean, copying->any_event ? EVENT_GLUE : "");
    if (!cut_json_value(&copying->clean, event->text, event->length)) {
        copying->result->skipped++;
        return;
    }
    put(copying, copying->clean.data, copying->clean.size);
    copying->any_event = true;
    copying->result->kept += metadata ? 0 : 1;
}

static bool copy_batch(void *user, struct trace_event *events, uint32_t count)
{
    struct copying *copying = user;

    if (!copying->begun)
        begin(copying, events[0].offset);
    for (uint32_t i = 0; i < count; i++)
        copy(copying, &events[i]);
    return copying->output->error == 0 && !copying->clean.failed;
}

static void note_copier(void *user, struct trace_reader *reader)
{
    struct copying *copying = user;

    copying->reader = reader;
}

/* *written: bytes before packing, also where it failed. */
static int copy_file(const struct cut_plan *plan, struct output_file *output,
                     struct cut_result *result, uint64_t *written)
{
    struct copying copying = {.plan = plan, .output = output, .result = result};
    struct reading reading = {copy_batch, &copying, note_copier, end};

    result->events = result->kept = result->skipped = result->keys_left_out = 0;
    int error = read_range(plan, &reading, result);

    if (copying.clean.failed)
        error = -ENOMEM;
    if (error == 0)
        error = output_file_finish(output);
    bytes_close(&copying.clean);
    *written = copying.written;
    if (output->error != 0 && !copying.clean.failed) {
        result->output_failed = true;
        return output->error;
    }
    if (error == 0 && result->kept == 0) {
        (void)snprintf(result->error, sizeof(result->error),
                       "has no event of those that were asked for");
        return -ENODATA;
    }
    return error;
}

/* ---- a bounded size ----------------------------------------------------------------- */

static void weigh_head(void *user, struct trace_reader *reader)
{
    cut_weights_take_head(user, trace_reader_head(reader));
}

/* As much as would have fitted at the same rate, and a little less. */
static uint64_t next_budget(const struct output_file *output, uint64_t written)
{
    double packed = (double)output->packer.total_out;

    return (uint64_t)((double)written * (double)output->max_bytes / packed *
                      NEXT_SHARE);
}

static int copy_within(struct cut_plan *plan, const struct cut_weights *weights,
                       struct output_file *output, struct cut_result *result)
{
    uint64_t budget = output->gzip ? UINT64_MAX : plan->request->max_bytes, written;
    int64_t to_ns = plan->to_ns;
    int error = -EFBIG;

    output->max_bytes = plan->request->max_bytes;
    for (uint32_t i = 0; error == -EFBIG && i < ATTEMPTS_MAX; i++) {
        plan->to_ns = to_ns;
        result->output_failed = false;
        error = i == 0 ? 0 : output_file_restart(output);
        if (error != 0) {
            result->output_failed = true;
            return error;
        }
        error = cut_weights_shorten(weights, plan, budget, result);
        if (error != 0)
            break;
        error = copy_file(plan, output, result, &written);
        if (!output->gzip)
            break; /* was weighed to the byte: again would not be less */
        if (error == -EFBIG)
            budget = next_budget(output, written);
    }
    if (error == -EFBIG) {
        result->output_failed = false;
        (void)snprintf(result->error, sizeof(result->error),
                       "has no first part that is as small as that");
    }
    return error;
}

static int weigh_and_copy(struct cut_plan *plan, struct output_file *output,
                          struct cut_result *result)
{
    struct cut_weights weights;
    struct reading reading = {cut_weights_take, &weights, NULL, weigh_head};
    int error = cut_weights_open(&weights, plan);

    if (error == 0)
        error = read_range(plan, &reading, result);
    if (weights.clean.failed)
        error = -ENOMEM;
    if (error == 0)
        error = copy_within(plan, &weights, output, result);
    cut_weights_close(&weights);
    return error;
}

/* ---- all of it ---------------------------------------------------------------------- */

static void note_planner(void *user, struct trace_reader *reader)
{
    struct cut_plan *plan = user;

    plan->names = trace_reader_names(reader);
    plan->head = trace_reader_head(reader);
}

static void note_planned(void *user, struct trace_reader *reader)
{
    struct cut_plan *plan = user;

    plan->skipped = trace_reader_skipped(reader);
}

bool cut_is_one_pass(const struct cut_request *request)
{
    return request->range == CUT_WHOLE && request->max_bytes == 0;
}

int cut_write(const struct cut_request *request, struct output_file *output,
              struct cut_result *result)
{
    struct cut_plan plan;
    struct reading reading = {cut_plan_take, &plan, note_planner, note_planned};
    uint64_t written;
    int error = 0;

    *result = (struct cut_result){.until_ns = -1};
    cut_plan_open(&plan, request);
    if (!cut_is_one_pass(request)) {
        error = read_file(request, &reading, NULL, 0, result);
        if (plan.out_of_memory || plan.blocks.out_of_memory)
            error = -ENOMEM;
        if (plan.too_large) {
            error = -E2BIG;
            (void)snprintf(result->error, sizeof(result->error),
                           "has more steps, launches and flows than fit in memory: a "
                           "part by --cat alone, which keeps none, can be cut further");
        }
        if (error == 0)
            error = cut_plan_choose(&plan, result->error, sizeof(result->error));
    }
    if (error == 0 && request->max_bytes > 0)
        error = weigh_and_copy(&plan, output, result);
    else if (error == 0)
        error = copy_file(&plan, output, result, &written);
    cut_plan_close(&plan);
    return error;
}
