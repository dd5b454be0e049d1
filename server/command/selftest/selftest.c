/* trainglass selftest: the product proves its own promise on the user's job.
 *
 * overhead: the command bare and the command watched, as pairs at the same time; and the
 * bare command against itself, which shows the error of the method. What a run says of its
 * own cost is held against what is seen from outside. */
#include "command/selftest/selftest.h"

#include <dirent.h>
#include <errno.h>
#include <math.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "command/child.h"
#include "wire/clock.h"

#define PAIRS_MIN     8u /* before a verdict: the spread of fewer is not known */
#define CONTROL_PAIRS 4u
#define SECONDS       5u
#define EMPTY_MAX     3u /* pairs in turn that tell nothing: steps may have been too long */
#define WHOLE_NS                                                                       \
    UINT64_C(900000000000) /* for everything, unless pairs were asked for */
#define START_NS       UINT64_C(60000000000) /* what a pair may take besides, then */
#define WALL_MIN_S     1.0 /* whole runs that are shorter are mostly start */
#define OUTPUT_SHOWN   1000
#define FOLDER_PATTERN "selftest-XXXXXX"

enum flag { FLAG_PAIRS, FLAG_SECONDS };

/* What a pair left. */
static void empty_folder(const char *path)
{
    DIR *folder = opendir(path);
    struct dirent *entry;

    /* NOLINTNEXTLINE(concurrency-mt-unsafe): a stream of our own */
    while (folder != NULL && (entry = readdir(folder)) != NULL)
        if (strcmp(entry->d_name, ".") != 0 && strcmp(entry->d_name, "..") != 0)
            (void)unlinkat(dirfd(folder), entry->d_name, 0);
    if (folder != NULL)
        closedir(folder);
}

/* The same environment for both; `run` has its own level for the watched one. A job that
 * attaches by itself does not where it is bare. */
static bool export_environment(const struct selftest *selftest)
{
    const char *old = getenv("PYTHONPATH");
    char folder[PLACE_BYTES], joined[8192];

    old = old != NULL ? old : "";
    if (!place_find(PLACE_STEP_TIMER, folder)) {
        command_complain("selftest: the Python side is not installed: steps of Python "
                         "jobs are not timed");
        folder[0] = '\0';
    }
    if (snprintf(joined, sizeof(joined), "%s%s%s", folder, *folder && *old ? ":" : "",
                 old) >= (int)sizeof(joined)) {
        command_complain("selftest: PYTHONPATH is too long");
        return false;
    }
    unsetenv("TRAINGLASS_LIBRARY");
    unsetenv("TRAINGLASS_SESSION");
    return setenv("PYTHONPATH", joined, 1) == 0 &&
           setenv("TRAINGLASS_LEVEL", "off", 1) == 0 &&
           setenv("OMP_NUM_THREADS", "1", 0) == 0 &&
           setenv("TRAINGLASS_DIR", selftest->pair.folder, 1) == 0;
}

/* `trainglass run --no-server ... -- CMD`; freed by the caller. */
static char **watched_command(const struct selftest *selftest, const char *program)
{
    const struct options *options = &selftest->invocation->options;
    const char *words[] = {program,
                           "run",
                           "--no-server",
                           "--budget",
                           options_text(options, OPTION_BUDGET),
                           "--level",
                           options_text(options, OPTION_LEVEL),
                           "--cuda-graphs",
                           options_text(options, OPTION_CUDA_GRAPHS),
                           "--dir",
                           selftest->pair.folder,
                           "--"};
    size_t count = sizeof(words) / sizeof(words[0]);
    char **argv = calloc(count + (size_t)selftest->invocation->argc + 1, sizeof(*argv));

    if (argv == NULL)
        return NULL;
    memcpy(argv, words, sizeof(words));
    for (char *const *word = selftest->command; *word != NULL; word++)
        argv[count++] = *word;
    return argv;
}

/* The end of what the run printed: why it failed. */
static void show_output(const struct pair *pair)
{
    for (int side = 0; side < 2; side++) {
        char path[PLACE_BYTES], text[OUTPUT_SHOWN + 1], *line = text, *next;

        pair_output_path(pair, side, path);
        FILE *file = fopen(path, "re");

        if (file == NULL)
            continue;
        if (fseek(file, -OUTPUT_SHOWN, SEEK_END) != 0)
            rewind(file);
        text[fread(text, 1, OUTPUT_SHOWN, file)] = '\0';
        (void)fclose(file);
        for (; *line != '\0'; line = next) {
            size_t length = strcspn(line, "\n");

            next = line + length + (line[length] == '\n');
            line[length] = '\0';
            command_complain("  %s", line);
        }
        if (line != text)
            return;
    }
}

static int complain(const struct selftest *selftest, int error)
{
    const struct pair *pair = &selftest->pair;

    if (error == -ETIME)
        command_complain("selftest: the time is over after %u pairs%s",
                         selftest->ratios.group_count,
                         isnan(pair->step_ns) ? "; no step was seen in the last, which "
                                                "had not ended by itself"
                                              : "");
    else if (error != -EINTR)
        command_complain("selftest: %s",
                         *pair->reason ? pair->reason : strerror(-error));
    if (error == -ECHILD)
        show_output(pair);
    return EXIT_CANNOT_START;
}

static void show_progress(const char *what, const struct paired_ratios *ratios,
                          const struct paired_estimate *estimate, uint32_t wanted)
{
    char of[16] = "";

    if (ratios->group_count <= wanted)
        snprintf(of, sizeof(of), " of %u", wanted);
    if (isnan(estimate->low_pct))
        command_complain("selftest: %s, pair %u%s: %+.1f %%", what, ratios->group_count,
                         of, estimate->pct);
    else
        command_complain("selftest: %s, pair %u%s: %+.1f %%, together %+.2f %% "
                         "[%.2f, %.2f]",
                         what, ratios->group_count, of,
                         paired_group_pct(ratios, ratios->group_count - 1),
                         estimate->pct, estimate->low_pct, estimate->high_pct);
}

/* The least: the control shows the method's error with half as many. */
static uint32_t wanted_pairs(const struct selftest *selftest, bool control)
{
    uint32_t pairs = selftest->pairs ? selftest->pairs : PAIRS_MIN;

    return !control ? pairs : pairs > 3 ? (pairs + 1) / 2 : 2;
}

static bool is_enough(const struct selftest *selftest, bool control)
{
    uint32_t pairs =
        control ? selftest->control_ratios.group_count : selftest->ratios.group_count;

    if (control || selftest->pairs != 0 || pairs < PAIRS_MIN)
        return pairs >= wanted_pairs(selftest, control);
    return pairs == PAIRED_GROUPS_MAX || selftest_judge(selftest) != SELFTEST_UNDECIDED;
}

/* Notes what a pair says besides its ratio. 0, or an exit code after a line. */
static int note_pair(struct selftest *selftest, int kind, bool control)
{
    const struct pair *pair = &selftest->pair;
    double before = selftest->control_ratios.group_count + selftest->ratios.group_count;

    if (kind == PAIR_WALL && pair->wall_s[0] < WALL_MIN_S) {
        command_complain("selftest: the command ended after %.2f s without a step: "
                         "there is nothing to compare",
                         pair->wall_s[0]);
        return EXIT_CANNOT_START;
    }
    selftest->kind = (enum pair_kind)kind;
    if (!isnan(pair->step_ns))
        selftest->step_ns += (pair->step_ns - selftest->step_ns) / before;
    if (!isnan(pair->wall_s[0]))
        selftest->wall_s += (pair->wall_s[0] - selftest->wall_s) / before;
    if (!control &&
        own_figure_read(pair->folder, NULL, &selftest->own[selftest->own_count]))
        selftest->own_count++;
    return 0;
}

/* Pairs of bare and bare (control), or of bare and watched. 0 or an exit code. */
static int take_pairs(struct selftest *selftest, bool control)
{
    struct paired_ratios *ratios =
        control ? &selftest->control_ratios : &selftest->ratios;
    struct paired_estimate *estimate =
        control ? &selftest->control : &selftest->overhead;
    uint32_t empty = 0;

    while (!is_enough(selftest, control)) {
        empty_folder(selftest->pair.folder);
        selftest->pair.swapped = ratios->group_count % 2 != 0;
        int kind = pair_run(&selftest->pair, ratios);

        if (kind == -ETIME && ratios->group_count > 1 && !control)
            break;
        if (kind < 0)
            return complain(selftest, kind);
        if (kind == PAIR_NOTHING && ++empty < EMPTY_MAX)
            continue;
        if (kind == PAIR_NOTHING) {
            command_complain(
                "selftest: too few steps to compare in %u pairs; --seconds "
                "makes them longer",
                empty);
            return EXIT_CANNOT_START;
        }
        empty = 0;
        int code = note_pair(selftest, kind, control);

        if (code == 0 && paired_estimate(ratios, estimate) != 0)
            code = complain(selftest, -ENOMEM);
        if (code != 0)
            return code;
        show_progress(control ? "bare against bare" : "watched against bare", ratios,
                      estimate, wanted_pairs(selftest, control));
    }
    return 0;
}

/* The bare command against itself, then the watched one against it. */
static int measure(struct selftest *selftest, char *folder)
{
    int error = pair_open(&selftest->pair, selftest->apart_reason,
                          sizeof(selftest->apart_reason));
    char program[PLACE_BYTES];
    int code = EXIT_CANNOT_START;

    if (error != 0) {
        command_complain("selftest: no core: %s", strerror(-error));
        return EXIT_CANNOT_START;
    }
    if (*selftest->apart_reason != '\0')
        command_complain(
            "selftest: %s: the runs come one after the other, and what the "
            "machine does in between is in the figures",
            selftest->apart_reason);
    if (mkdtemp(folder) == NULL) {
        command_complain("selftest: %s: %s", folder, strerror(errno));
        return EXIT_CANNOT_START;
    }
    selftest->pair.folder = folder;
    child_block_signals();
    char **watched = place_program(program) ? watched_command(selftest, program) : NULL;

    if (watched != NULL && export_environment(selftest)) {
        selftest->pair.commands[0] = selftest->pair.commands[1] = selftest->command;
        code = take_pairs(selftest, true);
        selftest->pair.commands[1] = watched;
        if (code == 0)
            code = take_pairs(selftest, false);
    }
    free(watched);
    empty_folder(folder);
    (void)rmdir(folder);
    return code == 0 ? selftest_report(selftest) : code;
}

int command_selftest(const struct invocation *invocation)
{
    static struct selftest selftest; /* large */
    int64_t pairs = 0, seconds = SECONDS;
    static char folder[PLACE_BYTES + sizeof(FOLDER_PATTERN) + 1];
    char directory[PLACE_BYTES];
    uint64_t pairs_ns;

    selftest.invocation = invocation;
    selftest.command = invocation->argv + 1;
    selftest.budget_pct =
        invocation->options.values[OPTION_BUDGET].real; /* in its range */
    if (strcmp(invocation->argv[0], "overhead") != 0) {
        command_complain("selftest: '%.60s' is no test; there is `overhead`",
                         invocation->argv[0]);
        return EXIT_USAGE;
    }
    if (!command_number("selftest: --pairs", invocation->flags[FLAG_PAIRS], 1,
                        PAIRED_GROUPS_MAX, &pairs) ||
        !command_number("selftest: --seconds", invocation->flags[FLAG_SECONDS], 1, 600,
                        &seconds))
        return EXIT_USAGE;
    selftest.pairs = (uint32_t)pairs;
    if (child_check(selftest.command[0]) != 0)
        return EXIT_CANNOT_START;
    if (!place_directory(&invocation->options, directory) ||
        place_make(directory) != 0) {
        command_complain("selftest: the folder %.500s cannot be made", directory);
        return EXIT_CANNOT_START;
    }
    snprintf(folder, sizeof(folder), "%s/%s", directory, FOLDER_PATTERN);
    selftest.pair.measured_ns = (uint64_t)seconds * 1000000000;
    pairs_ns = 2 * selftest.pairs * (selftest.pair.measured_ns + START_NS);
    selftest.pair.deadline_ns =
        clock_ns(CLOCK_MONOTONIC) + (pairs_ns > WHOLE_NS ? pairs_ns : WHOLE_NS);
    return measure(&selftest, folder);
}
