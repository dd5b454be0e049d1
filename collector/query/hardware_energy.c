#include "query/hardware_inside.h"

/* What is further apart says nothing of the power between. */
#define NEAR_NS HARDWARE_CURRENT_NS

const struct hardware_sample *stretch_at(const struct stretch *stretch, uint32_t i)
{
    return hardware_point(stretch->hardware, stretch->device, i);
}

int64_t stretch_ns(const struct stretch *stretch, uint32_t i)
{
    return stretch_at(stretch, i)->monotonic_ns - stretch->zero_ns;
}

struct stretch stretch_of_window(const struct pick *pick,
                                 const struct hardware_device *device)
{
    const struct answer_window *window = &pick->head->window;
    struct stretch stretch = {.hardware = &pick->store->hardware,
                              .device = device,
                              .zero_ns = pick->session->zero_monotonic_ns};
    uint32_t count = hardware_points(stretch.hardware, device), at = 0;

    while (at < count && stretch_ns(&stretch, at) < window->from_ns)
        at++;
    stretch.first = at;
    while (at < count && stretch_ns(&stretch, at) <= window->to_ns)
        at++;
    stretch.last = at;
    return stretch;
}

/* ---- energy ------------------------------------------------------------------------ */

/* Of [from_ns, to_ns): training steps and their samples, those at its edges by their part
 * inside, and how long validation's were. */
struct work {
    double steps, samples, validation_ns;
};

static struct work work_in(const struct pick *pick, int64_t from_ns, int64_t to_ns)
{
    const struct steps *all = &pick->process->steps;
    struct work work = {0};

    for (uint32_t i = steps_after(all, from_ns); i < steps_remembered(all); i++) {
        const struct step *step = steps_at(all, i);
        int64_t end = step->start_ns + step->duration_ns;
        int64_t from = step->start_ns > from_ns ? step->start_ns : from_ns;
        int64_t to = end < to_ns ? end : to_ns;

        if (step->start_ns >= to_ns)
            break;
        if (to <= from)
            continue;
        double part = (double)(to - from) / (double)step->duration_ns;

        if ((step->flags & EVENT_STEP_VALIDATION) != 0) {
            work.validation_ns += (double)(to - from);
            continue;
        }
        work.steps += part;
        work.samples += part * (double)step->samples;
    }
    return work;
}

/* By the device's own counter, else by its power where the samples are near each other;
 * NaN unknown. */
static double energy_between(const struct hardware_sample *from,
                             const struct hardware_sample *to)
{
    int64_t length_ns = to->monotonic_ns - from->monotonic_ns;

    if (!isnan(from->energy_j) && !isnan(to->energy_j) &&
        to->energy_j >= from->energy_j)
        return to->energy_j - from->energy_j;
    if (length_ns > NEAR_NS)
        return UNKNOWN;
    return ((double)from->power_w + (double)to->power_w) / 2 * (double)length_ns / 1e9;
}

/* The next point that tells of energy, from `i` on; `last` where none does. */
static uint32_t next_told(const struct stretch *stretch, uint32_t i)
{
    while (i < stretch->last && isnan(stretch_at(stretch, i)->energy_j) &&
           isnan(stretch_at(stretch, i)->power_w))
        i++;
    return i;
}

/* A training step's own: what validation took between two samples is none of it, nor what
 * was taken while steps ran that are forgotten: points may reach further back. */
void stretch_sum_energy(const struct stretch *stretch, const struct pick *pick,
                        struct hardware_row *row)
{
    double energy = 0, covered_ns = 0, trained = 0, steps = 0, samples = 0;
    const struct steps *all = &pick->process->steps;
    uint32_t remembered = steps_remembered(all);
    int64_t reach_ns = remembered == 0 || remembered == all->count
                           ? INT64_MIN /* every step is remembered */
                           : steps_at(all, 0)->start_ns;
    uint32_t before = next_told(stretch, stretch->first), i = before;

    for (; (i = next_told(stretch, i + 1)) < stretch->last; before = i) {
        int64_t from_ns = stretch_ns(stretch, before), to_ns = stretch_ns(stretch, i);
        double joules =
            energy_between(stretch_at(stretch, before), stretch_at(stretch, i));

        if (to_ns <= from_ns || isnan(joules))
            continue;
        energy += joules;
        covered_ns += (double)(to_ns - from_ns);
        if (from_ns < reach_ns)
            continue;
        struct work work = work_in(pick, from_ns, to_ns);

        trained += joules * (1 - work.validation_ns / (double)(to_ns - from_ns));
        steps += work.steps;
        samples += work.samples;
    }
    if (!(covered_ns > 0))
        return;
    row->energy_j = energy;
    row->energy_span_ns = covered_ns;
    if (stretch->device->mig || !row->works)
        return;
    if (steps > 0)
        row->joules_per_step = trained / steps;
    if (samples > 0 && trained > 0)
        row->samples_per_joule = samples / trained;
}
