#include "aggregate/device_ops.h"

#include <stdlib.h>
#include <string.h>

#include "aggregate/sum.h"

bool device_ops_init(struct device_ops *device, const struct texts *texts,
                     size_t digest_bytes)
{
    *device = (struct device_ops){.begins_ns = INT64_MAX,
                                  .told_ns = INT64_MIN,
                                  .given_up_from_ns = INT64_MAX,
                                  .given_up_to_ns = INT64_MIN};
    return ops_init(&device->ops, texts, digest_bytes);
}

void device_ops_free(struct device_ops *device)
{
    ops_free(&device->ops);
    free(device->waiting);
    free(device->ahead);
    *device = (struct device_ops){0};
}

static const struct step *first_waiting(const struct device_ops *device)
{
    return &device->waiting[device->first];
}

static int64_t first_end(const struct device_ops *device)
{
    if (device->count == 0)
        return INT64_MAX;
    return first_waiting(device)->start_ns + first_waiting(device)->duration_ns;
}

/* The step that follows has begun when its first work did. */
static void begin(struct device_ops *device, int64_t now_ns)
{
    int64_t start_ns =
        device->count > 0 ? first_waiting(device)->start_ns : device->begins_ns;

    if (start_ns <= now_ns)
        ops_begin(&device->ops, start_ns);
}

static void add(struct device_ops *device, const struct ops_held *work)
{
    if (UNLIKELY(device->ops.between))
        begin(device, work->start_ns);
    ops_add(&device->ops, work->row, work->start_ns,
            (int64_t[2]){work->duration_ns, work->self_ns});
}

/* What was ahead and is of the step that is open now. */
static void release_ahead(struct device_ops *device)
{
    int64_t end_ns = first_end(device);

    while (device->ahead_count > 0 &&
           device->ahead[device->ahead_first].start_ns < end_ns) {
        add(device, &device->ahead[device->ahead_first++]);
        device->ahead_count--;
    }
}

/* Of what a source that tells has not told of yet more may come: it would be too little. */
static void close_step(struct device_ops *device, struct step step)
{
    int64_t end_ns = step.start_ns + step.duration_ns;

    if (device->told_ns != INT64_MIN && device->told_ns < end_ns &&
        (step.flags & EVENT_STEP_KERNELS)) {
        step.flags &= (uint8_t)~EVENT_STEP_KERNELS;
        device->given_up++;
        if (step.start_ns < device->given_up_from_ns)
            device->given_up_from_ns = step.start_ns;
        if (end_ns > device->given_up_to_ns)
            device->given_up_to_ns = end_ns;
    }
    ops_end(&device->ops, &step);
}

static void close_first(struct device_ops *device)
{
    close_step(device, *first_waiting(device));
    device->first = (device->first + 1) % device->capacity;
    device->count--;
    release_ahead(device);
}

void device_ops_known(struct device_ops *device, int64_t until_ns)
{
    while (device->count > 0 && first_end(device) <= until_ns)
        close_first(device);
}

void device_ops_told(struct device_ops *device, int64_t until_ns)
{
    if (until_ns > device->told_ns)
        device->told_ns = until_ns;
    device_ops_known(device, device->told_ns);
}

void device_ops_begin(struct device_ops *device, int64_t start_ns)
{
    if (device->begun)
        return;
    device->begun = true;
    device->begins_ns = start_ns;
}

bool device_ops_take_given_up(struct device_ops *device, int64_t range[2])
{
    if (device->given_up_from_ns == INT64_MAX)
        return false;
    range[0] = device->given_up_from_ns;
    range[1] = device->given_up_to_ns;
    device->given_up_from_ns = INT64_MAX;
    device->given_up_to_ns = INT64_MIN;
    return true;
}

uint32_t device_ops_lose(struct device_ops *device, int64_t since_ns, int64_t until_ns)
{
    uint32_t back = device->count;

    while (back-- > 0) {
        uint32_t at = (device->first + back) % device->capacity;
        struct step *step = &device->waiting[at];

        if (step->start_ns + step->duration_ns <= since_ns)
            break;
        if (step->start_ns < until_ns)
            step->flags &= (uint8_t)~EVENT_STEP_KERNELS;
    }
    return device->count - (back + 1);
}

void device_ops_lose_first(struct device_ops *device, int64_t at_ns)
{
    if (device->count > 0 && first_waiting(device)->start_ns <= at_ns)
        device->waiting[device->first].flags &= (uint8_t)~EVENT_STEP_KERNELS;
}

bool device_ops_awaits(const struct device_ops *device)
{
    for (uint32_t i = 0; i < device->count; i++)
        if (device->waiting[(device->first + i) % device->capacity].flags &
            EVENT_STEP_KERNELS)
            return true;
    return false;
}

static bool make_room(struct device_ops *device)
{
    uint32_t capacity = device->capacity == 0 ? 64 : device->capacity * 2;

    if (device->count < device->capacity)
        return true;
    if (capacity > DEVICE_OPS_WAITING)
        return false;
    struct step *waiting = malloc(capacity * sizeof(*waiting));

    if (waiting == NULL)
        return false;
    for (uint32_t i = 0; i < device->capacity; i++) /* it is full */
        waiting[i] = device->waiting[(device->first + i) % device->capacity];
    free(device->waiting);
    device->waiting = waiting;
    device->first = 0;
    device->capacity = capacity;
    return true;
}

void device_ops_end(struct device_ops *device, const struct step *step)
{
    device->begun = false;
    if (device->count == 0 && device->clock_count == 0 &&
        (step->flags & EVENT_STEP_KERNELS) == 0) {
        device->begins_ns = step->start_ns + step->duration_ns;
        return;
    }
    device->begins_ns = INT64_MAX;
    bool room = make_room(device);

    if (device->capacity == 0) { /* no memory: what is known now is all */
        close_step(device, *step);
        return;
    }
    if (!room)
        close_first(device);
    uint32_t at = (device->first + device->count++) % device->capacity;

    device->waiting[at] = *step;
}

/* Up to where work is known of every device that still works. */
static int64_t known_until(const struct device_ops *device)
{
    int64_t newest = INT64_MIN, known = INT64_MAX;

    for (uint32_t i = 0; i < device->clock_count; i++)
        if (device->clocks[i].newest_ns > newest)
            newest = device->clocks[i].newest_ns;
    for (uint32_t i = 0; i < device->clock_count; i++) {
        int64_t at = device->clocks[i].newest_ns;

        if (at >= newest - DEVICE_OPS_PATIENCE_NS && at < known)
            known = at;
    }
    return known;
}

static void see(struct device_ops *device, uint16_t of, int64_t start_ns)
{
    uint32_t at = 0;

    while (at < device->clock_count && device->clocks[at].device != of)
        at++;
    if (at == DEVICE_OPS_DEVICES)
        return;
    if (at == device->clock_count)
        device->clocks[device->clock_count++] =
            (struct device_clock){.device = of, .newest_ns = INT64_MIN};
    if (start_ns > device->clocks[at].newest_ns)
        device->clocks[at].newest_ns = start_ns;
}

/* Room behind the last one that is ahead. */
static bool make_room_ahead(struct device_ops *device)
{
    uint32_t capacity = device->ahead_capacity == 0 ? 256 : device->ahead_capacity * 2;

    if (device->ahead_first + device->ahead_count < device->ahead_capacity)
        return true;
    if (device->ahead_first > device->ahead_capacity / 2) {
        memmove(device->ahead, &device->ahead[device->ahead_first],
                device->ahead_count * sizeof(*device->ahead));
        device->ahead_first = 0;
        return true;
    }
    struct ops_held *ahead = capacity > DEVICE_OPS_AHEAD
                                 ? NULL
                                 : realloc(device->ahead, capacity * sizeof(*ahead));

    if (ahead == NULL)
        return false;
    device->ahead = ahead;
    device->ahead_capacity = capacity;
    return true;
}

/* By their starts: what comes is nearly in order. */
static bool hold_ahead(struct device_ops *device, const struct ops_held *work)
{
    if (!make_room_ahead(device))
        return false;
    uint32_t at = device->ahead_first + device->ahead_count++;

    for (; at > device->ahead_first && device->ahead[at - 1].start_ns > work->start_ns;
         at--)
        device->ahead[at] = device->ahead[at - 1];
    device->ahead[at] = *work;
    return true;
}

void device_ops_add(struct device_ops *device, uint16_t of, const struct ops_held *work)
{
    bool told = device->told_ns != INT64_MIN;

    if (told && sum_ns(work->start_ns, DEVICE_OPS_PATIENCE_NS) < device->told_ns) {
        device->late_events++;
        return;
    }
    see(device, of, work->start_ns);
    if (work->start_ns >= first_end(device)) {
        if (!told)
            device_ops_known(device, known_until(device));
        if (work->start_ns >= first_end(device)) {
            if (hold_ahead(device, work))
                return;
            device_ops_known(device, work->start_ns);
        }
    }
    add(device, work);
}
