#include "query/what_if.h"

/* Of the wait; NaN where that is not known. */
static double part_of(double wait_ns, double saves_ns)
{
    return saves_ns < wait_ns ? fmax(saves_ns, 0) : wait_ns;
}

bool what_if_data_hidden(const struct bottlenecks_answer *summary,
                         struct loading_saves saves, struct what_if *answer)
{
    const struct steps_summary *train = &summary->steps.train;
    double step = train->mean_ns;
    double data = part_of(train->phase_ns[EVENT_PHASE_DATA], saves.most_ns);
    double won = part_of(train->phase_ns[EVENT_PHASE_DATA], saves.least_ns);
    double low = step - data, error = train->computing_error_ns;

    if (!(data / step >= WHAT_IF_SHARE) || isnan(error))
        return false;
    const struct gpu_device *device = gpu_busiest(&summary->gpu);

    if (device != NULL) {
        double busy = gpu_device_busy_ns(device), idle = device->idle_ns[GPU_IDLE_DATA];

        low = busy > low ? busy : low;
        won = idle < won ? idle : won;
    }
    low = low < step ? low : step;
    answer->high_ns = step - won > low ? step - won : low;
    answer->high_ns += error;
    answer->low_ns = low - error > 0 ? low - error : 0;
    answer->replayed = 0;
    return true;
}

bool what_if_is_replayed(const struct bottlenecks_answer *summary,
                         enum replay_what_if what_if)
{
    const struct replay_table *table = &summary->replay;

    return table->what_ifs[what_if].known &&
           (what_if != REPLAY_DATA_HIDDEN || table->devices);
}

bool what_if_replayed(const struct bottlenecks_answer *summary,
                      enum replay_what_if what_if, struct what_if *answer)
{
    const struct replay_what_if_row *row = &summary->replay.what_ifs[what_if];
    double won = summary->replay.step_ns - row->mean_ns;

    if (!what_if_is_replayed(summary, what_if) ||
        !(won >= WHAT_IF_SHARE * summary->replay.step_ns))
        return false;
    answer->low_ns = row->low_ns;
    answer->high_ns = row->high_ns;
    answer->replayed = summary->replay.steps;
    return true;
}

/* Replayed steps hide all of the wait. */
static bool data_hidden_replayed(const struct bottlenecks_answer *summary,
                                 struct loading_saves saves, struct what_if *answer)
{
    double step = summary->replay.step_ns;

    if (!what_if_replayed(summary, REPLAY_DATA_HIDDEN, answer))
        return false;
    /* fmax() takes the number where the other is NaN. */
    answer->low_ns = fmax(answer->low_ns, step - saves.most_ns);
    answer->high_ns = fmax(answer->high_ns, step - saves.least_ns);
    return saves.most_ns >= WHAT_IF_SHARE * step || isnan(saves.most_ns);
}

bool what_if_told(const struct bottlenecks_answer *summary, struct loading_saves saves,
                  enum replay_what_if what_if, struct what_if *answer)
{
    if (what_if != REPLAY_DATA_HIDDEN)
        return what_if_replayed(summary, what_if, answer);
    return what_if_is_replayed(summary, what_if)
               ? data_hidden_replayed(summary, saves, answer)
               : what_if_data_hidden(summary, saves, answer);
}

const char *what_if_title(enum replay_what_if what_if)
{
    static const char *const titles[REPLAY_WHAT_IFS] = {
        [REPLAY_DATA_HIDDEN] = "With data loading hidden",
        [REPLAY_SYNC_FREE] = "If the host never waited for the GPU",
        [REPLAY_LAUNCH_FREE] = "If ops and launches took the host no time",
        [REPLAY_COPIES_HIDDEN] = "With copies hidden behind compute",
        [REPLAY_COMMUNICATION_HIDDEN] = "With communication hidden behind compute",
        [REPLAY_COMPUTE_HALVED] = "With kernels that take half as long (a faster GPU)",
    };

    return titles[what_if];
}
