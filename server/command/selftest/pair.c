#include "command/selftest/pair.h"

#include <errno.h>
#include <math.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "command/child.h"
#include "command/selftest/affinity.h"
#include "command/selftest/step_times.h"
#include "ingest/group.h"
#include "wire/clock.h"

#define WINDOW_NS  UINT64_C(50000000)
#define WARM_NS    UINT64_C(2000000000) /* of steps: caches, allocators, the budget */
#define WARM_STEPS 5u
#define LEAVE_NS                                                                       \
    UINT64_C(20000000000)    /* a job may write what it has when it is ended */
#define OUTPUT_MAX (1 << 20) /* the newest of it is kept, in shared memory */
/* Of a change of cores so many steps are lost: it comes as seldom as that is little. */
#define WINDOW_STEPS 6u
#define PAIR_WINDOWS 24u                   /* so that long steps have as many, */
#define PAIR_MOST_NS UINT64_C(60000000000) /* in this time */

/* One of the two runs. */
struct side {
    pid_t pid;   /* 0 ended */
    pid_t group; /* 0 none; a zombie keeps its id until the group is ended */
    uint64_t start_ns, end_ns, warm_ns;
    int status; /* as waitpid() has it */
    bool by_itself;
    struct step_times times;
};

struct trial {
    struct pair *pair;
    struct side sides[2];
    uint64_t *changes; /* when cores were changed; what lies between two is a window */
    uint32_t change_count, change_room;
};

static uint64_t now_ns(void)
{
    return clock_ns(CLOCK_MONOTONIC);
}

int pair_open(struct pair *pair, char *why, size_t size)
{
    char text[4096];
    struct group group;
    struct group_cpu limit;
    cpu_set_t usable;
    int count = 0;

    if (sched_getaffinity(0, sizeof(usable), &usable) != 0)
        return -errno;
    for (unsigned i = 0; i < CPU_SETSIZE && count < 2; i++)
        if (CPU_ISSET(i, &usable))
            pair->cores[count++] = (int)i;
    if (count == 0)
        return -ENODEV;
    group_open(&group, GROUP_ROOT,
               group_slurp(text, sizeof(text), "/proc/self/cgroup"));
    group_read_cpu(&group, &limit);
    *why = '\0';
    if (count < 2)
        snprintf(why, size, "only one core may be used (affinity)");
    else if (limit.limit_cores < 2)
        snprintf(why, size, "the container may use %.2g cores", limit.limit_cores);
    pair->together = *why == '\0';
    if (!pair->together)
        pair->cores[1] = pair->cores[0];
    pair->window_ns = WINDOW_NS;
    return 0;
}

/* Cores change after the first window, then after every second: A B, B A, A B. */
static int core_of(const struct trial *trial, uint32_t window, int side)
{
    uint32_t swaps = (window + 1) / 2 + trial->pair->swapped + (uint32_t)side;

    return trial->pair->cores[swaps % 2];
}

static void start_child(const struct trial *trial, int side)
{
    const struct pair *pair = trial->pair;
    char path[PLACE_BYTES];

    (void)setpgid(0, 0); /* so that all of it can be ended */
    (void)prctl(PR_SET_PDEATHSIG, SIGTERM);
    child_restore_signals();
    affinity_pin_thread(0, core_of(trial, 0, side));
    pair_output_path(pair, side, path);
    if (freopen("/dev/null", "r", stdin) == NULL ||
        freopen(path, "a", stdout) == NULL || dup2(STDOUT_FILENO, STDERR_FILENO) < 0)
        _exit(126);
    step_times_export(pair->folder, side);
    execvp(pair->commands[side][0], pair->commands[side]);
    _exit(127);
}

static int start_side(struct trial *trial, int side)
{
    struct side *one = &trial->sides[side];

    one->start_ns = now_ns();
    one->pid = fork();
    if (one->pid == 0)
        start_child(trial, side);
    if (one->pid > 0) {
        (void)setpgid(one->pid, one->pid); /* whoever comes first */
        one->group = one->pid;
        return 0;
    }
    one->pid = 0;
    return -errno;
}

/* Notes who has ended; a zombie stays until its group is ended as well. */
static void note_ends(struct trial *trial)
{
    for (int i = 0; i < 2; i++) {
        struct side *side = &trial->sides[i];
        siginfo_t ended = {0};

        if (side->pid == 0 ||
            waitid(P_PID, (id_t)side->pid, &ended, WEXITED | WNOHANG | WNOWAIT) != 0 ||
            ended.si_pid != side->pid)
            continue;
        side->status = ended.si_code == CLD_EXITED ? W_EXITCODE(ended.si_status, 0)
                                                   : ended.si_status;
        side->end_ns = now_ns();
        side->pid = 0;
    }
}

/* Until a child ends, a signal asks us to end (-EINTR), or the time is there. */
static int wait_until(struct trial *trial, uint64_t until_ns)
{
    uint64_t now = now_ns(), left = until_ns > now ? until_ns - now : 0;
    const struct timespec time = {(time_t)(left / 1000000000),
                                  (long)(left % 1000000000)};
    sigset_t heard;

    child_end_signals(&heard);
    sigaddset(&heard, SIGCHLD);
    int number = sigtimedwait(&heard, NULL, &time);

    note_ends(trial);
    return number > 0 && number != SIGCHLD ? -EINTR : 0;
}

/* Asks the whole group to end and kills what is left of it, also where its leader ended by
 * itself: workers that it left would disturb the next pair. */
static void end_side(struct trial *trial, struct side *side)
{
    uint64_t until = now_ns() + LEAVE_NS;
    int status;

    if (side->group == 0)
        return;
    kill(-side->group, SIGTERM);
    while (side->pid != 0 && now_ns() < until)
        if (wait_until(trial, until) != 0)
            until = 0; /* asked to end ourselves */
    kill(-side->group, SIGKILL);
    while (waitpid(side->group, &status, 0) < 0 && errno == EINTR)
        ;
    side->pid = side->group = 0;
}

static int note_change(struct trial *trial)
{
    if (trial->change_count == trial->change_room) {
        uint32_t room = trial->change_room ? 2 * trial->change_room : 1024;
        uint64_t *grown = realloc(trial->changes, room * sizeof(*grown));

        if (grown == NULL)
            return -ENOMEM;
        trial->changes = grown;
        trial->change_room = room;
    }
    trial->changes[trial->change_count++] = now_ns();
    return 0;
}

/* Notes when the side was warm, and has the window fit its steps. */
static bool is_warm(struct trial *trial, int side)
{
    struct pair *pair = trial->pair;
    struct side *one = &trial->sides[side];

    if (one->warm_ns != 0)
        return true;
    if (!step_times_are_warm(pair->folder, side, WARM_STEPS, WARM_NS))
        return false;
    one->warm_ns = now_ns();
    if (step_times_read(&one->times, pair->folder, side) > 0) {
        double window =
            WINDOW_STEPS * step_times_between(&one->times, 0, UINT64_MAX).median_ns;

        if (window > (double)pair->window_ns)
            pair->window_ns = (uint64_t)window;
    }
    return true;
}

/* It is written by appending, so that it goes on at its new end. */
static void bound_output(const struct pair *pair, int side)
{
    char path[PLACE_BYTES];
    struct stat status;

    pair_output_path(pair, side, path);
    if (stat(path, &status) == 0 && status.st_size > OUTPUT_MAX)
        (void)truncate(path, 0);
}

/* Runs sides first..last until both were warm for as long as was asked, or one ended by
 * itself; without steps until all have ended. */
static int follow(struct trial *trial, int first, int last)
{
    const struct pair *pair = trial->pair;
    struct side *a = &trial->sides[first], *b = &trial->sides[last];
    uint64_t until = 0;
    int error = 0;

    while (error == 0 && (a->pid != 0 || b->pid != 0)) {
        uint64_t window = pair->window_ns, now = now_ns();
        bool warm = is_warm(trial, first) && is_warm(trial, last);

        if (now > pair->deadline_ns)
            return -ETIME;
        if ((a->pid == 0 && a->status != 0) || (b->pid == 0 && b->status != 0))
            break; /* it failed */
        if (warm && (a->pid == 0 || b->pid == 0 || (until != 0 && now > until)))
            break;
        if (warm && until == 0) {
            uint64_t least = PAIR_WINDOWS * window;

            least = least < PAIR_MOST_NS ? least : PAIR_MOST_NS;
            until = now + (least > pair->measured_ns ? least : pair->measured_ns);
        }
        for (int i = first; i <= last; i++) {
            if (trial->sides[i].pid != 0)
                affinity_pin_tree(trial->sides[i].pid,
                                  core_of(trial, trial->change_count, i));
            bound_output(pair, i);
        }
        error = note_change(trial);
        if (error == 0)
            error = wait_until(trial, now + window);
    }
    return error;
}

/* Of a run that failed by itself there is nothing to compare. */
static int check_end(struct pair *pair, struct side *side, int index)
{
    side->by_itself = side->pid == 0;
    pair->wall_s[index] =
        side->by_itself ? (double)(side->end_ns - side->start_ns) / 1e9 : (double)NAN;
    if (!side->by_itself || side->status == 0)
        return 0;
    bool killed = WIFSIGNALED(side->status);

    snprintf(pair->reason, sizeof(pair->reason),
             "the %s run of the command %s %d after %.1f s",
             index == 0 ? "bare" : "watched",
             killed ? "was ended by signal" : "ended with code",
             killed ? WTERMSIG(side->status) : WEXITSTATUS(side->status),
             pair->wall_s[index]);
    return -ECHILD;
}

static int run_sides(struct trial *trial)
{
    struct pair *pair = trial->pair;
    int order = pair->swapped, error = 0;

    for (int i = 0; error == 0 && i < 2; i++) {
        int side = i ^ order;

        error = start_side(trial, side);
        if (error != 0)
            snprintf(pair->reason, sizeof(pair->reason), "cannot start: %s",
                     strerror(-error));
        if (error == 0 && !pair->together) {
            error = follow(trial, side, side);
            if (error == 0)
                error = check_end(pair, &trial->sides[side], side);
            end_side(trial, &trial->sides[side]);
        }
    }
    if (error == 0 && pair->together)
        error = follow(trial, 0, 1);
    for (int i = 0; error == 0 && pair->together && i < 2; i++)
        error = check_end(pair, &trial->sides[i], i);
    for (int i = 0; i < 2; i++)
        end_side(trial, &trial->sides[i]);
    return error;
}

/* Of the steps of either side from `from[side]` to `to`. */
static struct paired_ratio ratio_of(const struct trial *trial, const uint64_t from[2],
                                    uint64_t to)
{
    struct step_lengths bare = step_times_between(&trial->sides[0].times, from[0], to);
    struct step_lengths watched =
        step_times_between(&trial->sides[1].times, from[1], to);

    return (struct paired_ratio){log(watched.median_ns / bare.median_ns),
                                 log(watched.mean_ns / bare.mean_ns)};
}

/* Of two neighbouring windows with cores swapped the mean is one ratio. */
static void add_windows(const struct trial *trial, struct paired_ratios *ratios)
{
    uint64_t warm = trial->sides[0].warm_ns > trial->sides[1].warm_ns
                        ? trial->sides[0].warm_ns
                        : trial->sides[1].warm_ns;

    for (uint32_t i = 0; i + 2 < trial->change_count; i += 2) {
        const uint64_t *change = trial->changes + i;
        struct paired_ratio a, b;

        if (change[0] < warm)
            continue;
        a = ratio_of(trial, (uint64_t[]){change[0], change[0]}, change[1]);
        b = ratio_of(trial, (uint64_t[]){change[1], change[1]}, change[2]);
        paired_add(ratios, (struct paired_ratio){(a.typical + b.typical) / 2,
                                                 (a.mean + b.mean) / 2});
    }
}

/* All steps since either side was warm. */
static void add_runs(const struct trial *trial, struct paired_ratios *ratios)
{
    const uint64_t warm[2] = {trial->sides[0].warm_ns, trial->sides[1].warm_ns};

    paired_add(ratios, ratio_of(trial, warm, UINT64_MAX));
}

static int compare(struct trial *trial, struct paired_ratios *ratios)
{
    struct pair *pair = trial->pair;
    struct side *sides = trial->sides;

    for (int i = 0; i < 2; i++) {
        int error = step_times_read(&sides[i].times, pair->folder, i);

        if (error < 0)
            return error;
    }
    pair->step_ns = step_times_between(&sides[0].times, 0, UINT64_MAX).median_ns;
    if (pair->together)
        add_windows(trial, ratios);
    else
        add_runs(trial, ratios);
    if (paired_end_group(ratios) > 0)
        return PAIR_STEPS;
    if (WINDOW_STEPS * pair->step_ns > (double)pair->window_ns) /* for the next */
        pair->window_ns = (uint64_t)(WINDOW_STEPS * pair->step_ns);
    add_runs(trial, ratios); /* where there are too few for windows */
    if (paired_end_group(ratios) > 0)
        return PAIR_STEPS;
    if (!sides[0].by_itself || !sides[1].by_itself)
        return PAIR_NOTHING;
    double wall = log(pair->wall_s[1] / pair->wall_s[0]);

    paired_add(ratios, (struct paired_ratio){wall, wall});
    return paired_end_group(ratios) > 0 ? PAIR_WALL : PAIR_NOTHING;
}

void pair_output_path(const struct pair *pair, int side, char path[PLACE_BYTES])
{
    snprintf(path, PLACE_BYTES, "%.900s/%d.output", pair->folder, side);
}

int pair_run(struct pair *pair, struct paired_ratios *ratios)
{
    struct trial trial = {.pair = pair};
    int error;

    pair->step_ns = pair->wall_s[0] = pair->wall_s[1] = (double)NAN;
    pair->reason[0] = '\0';
    error = run_sides(&trial);
    if (error == 0)
        error = compare(&trial, ratios);
    for (int i = 0; i < 2; i++)
        step_times_free(&trial.sides[i].times);
    free(trial.changes);
    return error;
}
