#include "probe/budget/governor_inside.h"

void governor_init(struct governor *governor, const struct governor_options *options)
{
    *governor = (struct governor){
        .options = *options,
        .rate = DRAW_RATE_NONE,
        .block = UINT64_MAX,
        .hold_blocks = HOLD_BLOCKS,
    };
    if (governor->options.block_steps == 0)
        governor->options.block_steps = DRAW_BLOCK_STEPS;
    governor->ordinary_flags = CARRIED;
    governor_set_budget(governor, options->budget);
}

uint32_t governor_level_flags(enum wire_level level)
{
    switch (level) {
    case WIRE_LEVEL_OFF:
        return 0;
    case WIRE_LEVEL_OPS:
        return CARRIED | EVENT_STEP_OPS;
    case WIRE_LEVEL_KERNELS:
        return CARRIED | EVENT_STEP_KERNELS;
    case WIRE_LEVEL_ALL:
        return CARRIED | DETAIL;
    default:
        return CARRIED;
    }
}

void governor_set_sources(struct governor *governor, uint32_t sources)
{
    sources &= DETAIL;
    if (sources == governor->sources)
        return;
    governor->sources = sources;
    governor->detail_ns = governor->pool_ns = 0;
    governor->pool_steps = 0;
    governor->rate = DRAW_RATE_NONE;
    governor->spoiled = true;
    cost_forget(&governor->recorded);
    governor->changed_block = 0;
    governor->learn_left = GOVERNOR_LEARN_STEPS;
    governor->show_left = GOVERNOR_SHOW_STEPS;
    governor->show_left_ns = GOVERNOR_SHOW_NS;
}

void governor_set_level(struct governor *governor, enum wire_level level)
{
    if (level == governor->options.level)
        return;
    /* Sums are of one level; what was learnt in auto still holds when it comes back. */
    if (governor->options.level == WIRE_LEVEL_AUTO)
        governor->auto_sums = governor->sums;
    governor->sums = level == WIRE_LEVEL_AUTO ? governor->auto_sums
                                              : (struct governor_sums){.steps = 0};
    governor->options.level = level;
    governor->spoiled = true;
}

void governor_set_budget(struct governor *governor, double budget)
{
    governor->options.budget = budget > 0 ? min_of(budget, 1) : 0;
    governor->hold_blocks = HOLD_BLOCKS;
}

void governor_burst(struct governor *governor, uint32_t steps)
{
    if (steps > GOVERNOR_BURST_STEPS_MAX)
        steps = GOVERNOR_BURST_STEPS_MAX;
    if (governor->burst_left < steps)
        governor->burst_left = steps;
}

/* ---- what comes ---------------------------------------------------------------- */

static void block_start(struct governor *governor, uint64_t number)
{
    uint32_t length = governor->options.block_steps;

    governor->block = number / length;
    governor->compared = 0;
    governor->block_sum_ns = 0;
    governor->block_predicted_ns = 0;
    governor->spoiled = number % length != 0;
    governor_fit(governor);
    switch (draw_arm(governor->options.seed, governor->block, governor->rate)) {
    case DRAW_CONTROL:
        governor->block_flags = EVENT_STEP_CONTROL;
        break;
    case DRAW_RECORDED:
        governor->block_flags = governor->sources | CARRIED;
        break;
    default:
        governor->block_flags = governor->ordinary_flags;
        break;
    }
}

uint32_t governor_next(struct governor *governor, uint64_t number)
{
    bool automatic = governor->options.level == WIRE_LEVEL_AUTO;
    uint32_t flags =
        governor_level_flags(governor->options.level) & (governor->sources | CARRIED);
    uint32_t *left = &governor->burst_left;

    if (automatic) {
        if (number / governor->options.block_steps != governor->block)
            block_start(governor, number);
        flags = governor->block_flags;
        if (flags & EVENT_STEP_CONTROL)
            return flags;
        if (governor->options.budget > 0 && governor->burst_left == 0)
            left = governor->learn_left > 0     ? &governor->learn_left
                   : governor->show_left_ns > 0 ? &governor->show_left
                                                : left;
    }
    if (*left == 0 || governor->sources == 0)
        return flags;
    (*left)--;
    if (left != &governor->burst_left)
        governor->start_step = number;
    return (flags & DETAIL) == governor->sources
               ? flags
               : governor->sources | CARRIED | EVENT_STEP_TAGGED;
}
