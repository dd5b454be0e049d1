/* Which session a process opens, and which ended ones go: real segments of real
 * processes in one directory. */
#include <fcntl.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include <cmocka.h>

#include "probe/identity.h"
#include "probe/neighbours.h"
#include "probe/probe.h"
#include "segments.h"

static int clean(void **state)
{
    unsetenv("RANK");
    unsetenv("TRAINGLASS_SESSION");
    return segments_clear(state);
}

static int start_and_end(void)
{
    return probe_start(WIRE_ROLE_TRAINER) == 0 ? 0 : 1;
}

/* Starts a trainer of `rank` that lives until the returned pipe is closed. Its session
 * id comes back in `session`. */
static pid_t start_trainer(const char *rank, char *session, int *release)
{
    int said[2], held[2];

    assert_int_equal(pipe(said), 0);
    assert_int_equal(pipe(held), 0);
    pid_t child = fork();

    if (child == 0) {
        char byte;

        close(held[1]);
        (void)setenv("RANK", rank, 1);
        (void)probe_start(WIRE_ROLE_TRAINER);
        (void)!write(said[1], probe_session(), WIRE_TEXT);
        (void)!read(held[0], &byte, 1);
        _exit(0);
    }
    close(held[0]);
    assert_int_equal(read(said[0], session, WIRE_TEXT), WIRE_TEXT);
    close(said[0]);
    close(said[1]);
    *release = held[1];
    return child;
}

static void end_trainer(pid_t child, int release)
{
    close(release);
    assert_int_equal(waitpid(child, NULL, 0), child);
}

static void live_and_end(const char *rank, char *session)
{
    int release;
    pid_t child = start_trainer(rank, session, &release);

    end_trainer(child, release);
}

static void ranks_of_one_job_share_a_session(void **state)
{
    (void)state;
    char first[WIRE_TEXT], second[WIRE_TEXT];
    int release[2];

    assert_int_equal(setenv("TRAINGLASS_SESSION", "job", 1), 0);
    pid_t a = start_trainer("0", first, &release[0]);
    pid_t b = start_trainer("1", second, &release[1]);

    assert_string_equal(first, "job");
    assert_string_equal(second, "job");
    end_trainer(b, release[1]);
    end_trainer(a, release[0]);
}

static void a_rank_that_starts_again_opens_the_next_generation(void **state)
{
    (void)state;
    char session[WIRE_TEXT];
    int release[2];

    assert_int_equal(setenv("TRAINGLASS_SESSION", "job", 1), 0);
    for (int i = 0; i < 2; i++) {
        char rank[] = {(char)('0' + i), '\0'};

        live_and_end(rank, session);
        assert_string_equal(session, "job"); /* rank 1 was not there before */
    }
    pid_t a = start_trainer("0", session, &release[0]);

    assert_string_equal(session, "job.2");
    pid_t b = start_trainer("1", session, &release[1]);

    assert_string_equal(session, "job.2");
    end_trainer(b, release[1]); /* it holds the other's pipe too */
    end_trainer(a, release[0]);
    live_and_end("1", session);
    assert_string_equal(session, "job.3");
}

static void without_a_launcher_each_process_is_a_session(void **state)
{
    (void)state;
    struct segment_file one, other;

    assert_int_equal(segments_run(start_and_end), 0);
    assert_int_equal(segments_run(start_and_end), 0);
    assert_int_equal(segments_open_at(segments_directory, 0, &one), 0);
    assert_int_equal(segments_open_at(segments_directory, 1, &other), 0);
    assert_string_not_equal(one.view.header->session, other.view.header->session);
    segments_close(&one);
    segments_close(&other);
}

/* Marks every ended segment as folded into the run store. */
static void fold_all(void)
{
    for (int i = 0; i < segments_count(segments_directory, ".seg"); i++) {
        struct segment_file file;
        char path[320];

        assert_int_equal(segments_open_at(segments_directory, i, &file), 0);
        (void)snprintf(path, sizeof(path), "%.*s.done", (int)(strlen(file.path) - 4),
                       file.path);
        close(open(path, O_CREAT | O_WRONLY | O_CLOEXEC, 0600));
        segments_close(&file);
    }
}

/* Small segments, as many as wanted: the sizes are not what is looked at here. */
static int start_a_small_one(void)
{
    return probe_start(WIRE_ROLE_WORKER) == 0 ? 0 : 1;
}

static uint32_t clean_up(uint64_t bytes_max, uint64_t bytes_needed)
{
    static struct neighbours neighbours;

    assert_int_equal(neighbours_open(&neighbours, segments_directory), 0);
    uint32_t unfolded = neighbours_clean(&neighbours, bytes_max, bytes_needed);

    neighbours_close(&neighbours);
    return unfolded;
}

static void of_many_ended_sessions_that_are_folded_four_stay(void **state)
{
    (void)state;

    for (int i = 0; i < 9; i++)
        assert_int_equal(segments_run(start_a_small_one), 0);
    assert_int_equal(clean_up(UINT64_MAX, 0), 0);
    assert_int_equal(segments_count(segments_directory, ".seg"),
                     9); /* nothing is folded yet */
    fold_all();
    assert_int_equal(clean_up(UINT64_MAX, 0), 0);
    assert_int_equal(segments_count(segments_directory, ".seg"), 4);
    assert_int_equal(segments_count(segments_directory, ".done"), 4);
}

static void what_lay_beside_a_segment_that_went_goes_too(void **state)
{
    (void)state;
    static const char *const suffixes[] = {".done", ".ctl", ".stacks", ".win"};
    char path[320];

    assert_int_equal(segments_run(start_a_small_one), 0);
    fold_all();
    for (int i = 0; i < 4; i++) {
        (void)snprintf(path, sizeof(path), "%s/0123456789abcdef%s", segments_directory,
                       suffixes[i]);
        close(open(path, O_CREAT | O_WRONLY | O_CLOEXEC, 0600));
    }
    (void)clean_up(UINT64_MAX, 0);
    assert_int_equal(segments_count(segments_directory, ".seg"), 1);
    assert_int_equal(segments_count(segments_directory, ".done"), 1);
    for (int i = 1; i < 4; i++)
        assert_int_equal(segments_count(segments_directory, suffixes[i]), 0);
}

/* What `trainglass run` writes when its command has ended. */
static void note(const char *session)
{
    char path[320];

    (void)snprintf(path, sizeof(path), "%s/%s.end", segments_directory, session);
    close(open(path, O_CREAT | O_WRONLY | O_CLOEXEC, 0600));
}

static void the_note_of_an_end_goes_with_its_session(void **state)
{
    (void)state;
    char gone[WIRE_TEXT], stays[WIRE_TEXT], last[WIRE_TEXT];

    (void)setenv("TRAINGLASS_SESSION", "first", 1);
    live_and_end("0", gone);
    (void)setenv("TRAINGLASS_SESSION", "second", 1);
    live_and_end("0", stays);
    live_and_end("0", last); /* its second generation */
    (void)unsetenv("TRAINGLASS_SESSION");
    note(gone);
    note(stays);
    note("never-trained");
    assert_int_equal(clean_up(UINT64_MAX, 0), 0);
    assert_int_equal(segments_count(segments_directory, ".end"), 2);
    assert_int_equal(clean_up(UINT64_MAX, UINT64_MAX), 3);
    assert_int_equal(segments_count(segments_directory, ".end"), 0);
}

static void when_space_is_short_unfolded_ones_go_and_are_counted(void **state)
{
    (void)state;

    for (int i = 0; i < 4; i++)
        assert_int_equal(segments_run(start_a_small_one), 0);
    assert_int_equal(clean_up(UINT64_MAX, 2 * WIRE_BYTES_SMALL), 2);
    assert_int_equal(segments_count(segments_directory, ".seg"), 2);
}

static void the_newest_ended_session_stays_whatever_it_takes(void **state)
{
    (void)state;

    for (int i = 0; i < 3; i++)
        assert_int_equal(segments_run(start_a_small_one), 0);
    fold_all();
    assert_int_equal(clean_up(1, 0), 0);
    assert_int_equal(segments_count(segments_directory, ".seg"), 1);
}

static void a_session_that_lives_is_never_deleted(void **state)
{
    (void)state;
    char session[WIRE_TEXT];
    int release;
    pid_t child = start_trainer("0", session, &release);

    fold_all();
    assert_int_equal(clean_up(1, UINT64_MAX), 0);
    assert_int_equal(segments_count(segments_directory, ".seg"), 1);
    end_trainer(child, release);
}

/* All of the directory, as if written that long ago. */
static void age_segments(int64_t seconds)
{
    struct neighbours *all = malloc(sizeof(*all));
    struct timespec then[2] = {{.tv_sec = time(NULL) - seconds}};

    assert_non_null(all);
    then[1] = then[0];
    assert_int_equal(neighbours_open(all, segments_directory), 0);
    for (uint32_t i = 0; i < all->count; i++)
        assert_int_equal(utimensat(all->directory, all->list[i].file, then, 0), 0);
    neighbours_close(all);
    free(all);
}

static void of_workers_that_ended_in_a_session_that_lives_64_stay(void **state)
{
    (void)state;
    char session[WIRE_TEXT];
    int release;

    assert_int_equal(setenv("TRAINGLASS_SESSION", "job", 1), 0);
    pid_t trainer = start_trainer("0", session, &release);

    for (int i = 0; i < 70; i++) {
        pid_t child = fork();

        if (child == 0)
            _exit(probe_start(WIRE_ROLE_WORKER) == 0 ? 0 : 1);
        assert_int_equal(waitpid(child, NULL, 0), child);
    }
    assert_int_equal(segments_count(segments_directory, ".seg"), 71);
    assert_int_equal(clean_up(1 << 30, 0), 0);
    assert_int_equal(segments_count(segments_directory, ".seg"),
                     71); /* a server may not have read them yet */
    age_segments(100);
    assert_int_equal(clean_up(1 << 30, 0), 0);
    assert_int_equal(segments_count(segments_directory, ".seg"), 65);
    end_trainer(trainer, release);
}

static void files_of_others_are_left_alone(void **state)
{
    (void)state;
    static struct neighbours neighbours;
    char path[128];

    (void)snprintf(path, sizeof(path), "%s/notes.seg", segments_directory);
    int fd = open(path, O_CREAT | O_RDWR | O_CLOEXEC, 0600);

    assert_int_equal(write(fd, "not a segment", 13), 13);
    close(fd);
    (void)snprintf(path, sizeof(path), "%s/link.seg", segments_directory);
    assert_int_equal(symlink("/etc/passwd", path), 0);
    assert_int_equal(neighbours_open(&neighbours, segments_directory), 0);
    assert_int_equal(neighbours_clean(&neighbours, 0, UINT64_MAX), 0);
    neighbours_close(&neighbours);
    assert_int_equal(segments_count(segments_directory, ".seg"), 2);
}

static void a_session_id_holds_harmless_characters_only(void **state)
{
    (void)state;
    char id[12];

    identity_clean(id, sizeof(id), "../a b/\nc<d>efghij");
    assert_string_equal(id, "..-a-b--c-d");
}

static void a_directory_that_is_a_link_or_open_to_others_is_refused(void **state)
{
    (void)state;
    struct stat status;

    assert_int_equal(chmod(segments_directory, 0777), 0);
    assert_int_equal(segments_run(start_and_end), 1);
    assert_int_equal(chmod(segments_directory, 0700), 0);
    assert_int_equal(segments_run(start_and_end), 0);

    char link[64];

    (void)snprintf(link, sizeof(link), "%s-link", segments_directory);
    assert_int_equal(symlink(segments_directory, link), 0);
    assert_int_equal(setenv("TRAINGLASS_DIR", link, 1), 0);
    assert_int_equal(segments_run(start_and_end), 1);
    assert_int_equal(setenv("TRAINGLASS_DIR", segments_directory, 1), 0);
    assert_int_equal(unlink(link), 0);
    assert_int_equal(stat(segments_directory, &status), 0);
}

static int start_for_the_group(void)
{
    struct stat status;

    if (setenv("TRAINGLASS_SHARE", "group", 1) != 0 ||
        probe_start(WIRE_ROLE_TRAINER) != 0)
        return 1;
    if (stat(probe_path(), &status) != 0 || (status.st_mode & 0777) != 0640)
        return 2;
    if (stat(segments_directory, &status) != 0 || (status.st_mode & 0777) != 0750)
        return 3;
    return 0;
}

static void share_opens_segment_and_directory_to_the_group(void **state)
{
    (void)state;

    assert_int_equal(segments_run(start_for_the_group), 0);
    assert_int_equal(chmod(segments_directory, 0700), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_teardown(ranks_of_one_job_share_a_session, clean),
        cmocka_unit_test_teardown(a_rank_that_starts_again_opens_the_next_generation,
                                  clean),
        cmocka_unit_test_teardown(without_a_launcher_each_process_is_a_session, clean),
        cmocka_unit_test_teardown(of_many_ended_sessions_that_are_folded_four_stay,
                                  clean),
        cmocka_unit_test_teardown(what_lay_beside_a_segment_that_went_goes_too, clean),
        cmocka_unit_test_teardown(the_note_of_an_end_goes_with_its_session, clean),
        cmocka_unit_test_teardown(when_space_is_short_unfolded_ones_go_and_are_counted,
                                  clean),
        cmocka_unit_test_teardown(the_newest_ended_session_stays_whatever_it_takes,
                                  clean),
        cmocka_unit_test_teardown(a_session_that_lives_is_never_deleted, clean),
        cmocka_unit_test_teardown(of_workers_that_ended_in_a_session_that_lives_64_stay,
                                  clean),
        cmocka_unit_test_teardown(files_of_others_are_left_alone, clean),
        cmocka_unit_test_teardown(a_session_id_holds_harmless_characters_only, clean),
        cmocka_unit_test_teardown(
            a_directory_that_is_a_link_or_open_to_others_is_refused, clean),
        cmocka_unit_test_teardown(share_opens_segment_and_directory_to_the_group,
                                  clean),
    };

    return cmocka_run_group_tests(tests, segments_set_up, segments_tear_down);
}
