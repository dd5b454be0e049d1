/* Bytes by step and by part of the range's time; both are known after one reading. */
#include "cut/cut_weigh.h"

#include <errno.h>
#include <stdlib.h>

#include "cut/cut_json.h"
#include "wire/hash.h"

#define FRAME_BYTES 64u /* brackets and "traceEvents" */
#define GLUE_BYTES  2u  /* a comma and a line end, between events */

int cut_weights_open(struct cut_weights *weights, const struct cut_plan *plan)
{
    *weights = (struct cut_weights){.plan = plan,
                                    .from_ns = plan->from_ns,
                                    .to_ns = plan->to_ns,
                                    .fixed = FRAME_BYTES};
    if (plan->from_ns == INT64_MIN)
        weights->from_ns = plan->first_ns;
    if (plan->to_ns == INT64_MAX)
        weights->to_ns = plan->last_ns;
    if (weights->from_ns > weights->to_ns)
        weights->from_ns = weights->to_ns = 0;
    if (plan->step_count == 0)
        return 0;
    weights->step_count = plan->last_step - plan->first_step + 1;
    weights->steps = calloc(weights->step_count, sizeof(*weights->steps));
    return weights->steps != NULL ? 0 : -ENOMEM;
}

void cut_weights_close(struct cut_weights *weights)
{
    free(weights->steps);
    bytes_close(&weights->clean);
}

/* What lies between two steps goes with the one before. */
static uint32_t step_at(const struct cut_weights *weights, int64_t time_ns)
{
    const struct cut_step *steps = weights->plan->steps + weights->plan->first_step;
    uint32_t low = 0, high = weights->step_count;

    while (high - low > 1) {
        uint32_t middle = low + (high - low) / 2;

        if (steps[middle].start_ns <= time_ns)
            low = middle;
        else
            high = middle;
    }
    return low;
}

static uint64_t part_ns(const struct cut_weights *weights)
{
    return ((uint64_t)weights->to_ns - (uint64_t)weights->from_ns) / CUT_PARTS + 1;
}

static uint32_t part_at(const struct cut_weights *weights, int64_t time_ns)
{
    if (time_ns <= weights->from_ns)
        return 0;
    uint64_t part = ((uint64_t)time_ns - (uint64_t)weights->from_ns) / part_ns(weights);

    return part < CUT_PARTS ? (uint32_t)part : CUT_PARTS - 1;
}

bool cut_weights_take(void *user, struct trace_event *events, uint32_t count)
{
    struct cut_weights *weights = user;
    int64_t time_ns = 0;

    for (uint32_t i = 0; i < count; i++) {
        bool metadata = events[i].phase == 'M';

        if (metadata ? cut_said_again(&weights->said, &events[i])
                     : !cut_plan_keeps(weights->plan, &events[i], &time_ns))
            continue;
        weights->clean.size = 0;
        if (!cut_json_value(&weights->clean, events[i].text, events[i].length))
            continue;
        uint64_t size = weights->clean.size + GLUE_BYTES;

        if (metadata) {
            weights->fixed += size;
            continue;
        }
        weights->parts[part_at(weights, time_ns)] += size;
        if (weights->steps != NULL)
            weights->steps[step_at(weights, time_ns)] += size;
    }
    return !weights->clean.failed;
}

void cut_weights_take_head(struct cut_weights *weights, const struct trace_head *head)
{
    for (uint32_t i = 0; i < head->span_count; i++) {
        const struct trace_span *span = &head->spans[i];

        weights->clean.size = 0;
        if (!span->cut &&
            cut_json_string(&weights->clean, span->key, span->key_length) &&
            cut_json_value(&weights->clean, span->value, span->length))
            weights->fixed += weights->clean.size + 2 * GLUE_BYTES;
    }
}

/* How many of the weights fit, from the first on. */
static uint32_t fitting(const uint64_t *weights, uint32_t count, uint64_t budget)
{
    uint32_t fit = 0;

    for (; fit < count && weights[fit] <= budget; fit++)
        budget -= weights[fit];
    return fit;
}

int cut_weights_shorten(const struct cut_weights *weights, struct cut_plan *plan,
                        uint64_t budget, struct cut_result *result)
{
    uint32_t steps, parts;

    if (budget < weights->fixed)
        return -EFBIG;
    budget -= weights->fixed;
    steps = fitting(weights->steps, weights->step_count, budget);
    parts = fitting(weights->parts, CUT_PARTS, budget);
    result->until_ns = -1;
    result->steps_kept = steps;
    result->steps_left_out = weights->step_count - steps;
    if (parts == CUT_PARTS)
        return 0;
    if (steps > 0) {
        const struct cut_step *next = &plan->steps[plan->first_step + steps];

        plan->to_ns = next->start_ns;
        result->first_left_out = next->number;
    } else {
        if (parts == 0)
            return -EFBIG;
        plan->to_ns = (int64_t)((uint64_t)weights->from_ns + parts * part_ns(weights));
        if (weights->step_count > 0)
            result->first_left_out = plan->steps[plan->first_step].number;
    }
    result->until_ns = (int64_t)((uint64_t)plan->to_ns - (uint64_t)plan->first_ns);
    return 0;
}

bool cut_said_again(struct cut_said *said, const struct trace_event *event)
{
    uint32_t of[] = {event->name, event->pid, event->tid};
    uint64_t text = hash_bytes(HASH_BEGIN, event->text, event->length);
    uint64_t slot = hash_bytes(HASH_BEGIN, of, sizeof(of)) % CUT_SAID_MAX;

    if (said->newest[slot].text == text && said->newest[slot].name == of[0] &&
        said->newest[slot].pid == of[1] && said->newest[slot].tid == of[2])
        return true;
    said->newest[slot].name = of[0];
    said->newest[slot].pid = of[1];
    said->newest[slot].tid = of[2];
    said->newest[slot].text = text;
    return false;
}
