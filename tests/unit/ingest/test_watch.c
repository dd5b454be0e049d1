/* What a watched directory tells: real files, the kernel's own word. */
#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

#include "ingest/watch.h"

static char folder[64];
static struct watch watch;

static void count(void *user, const struct watch_file *file)
{
    (void)file;
    (*(int *)user)++;
}

static int scan(const char *suffix)
{
    int files = 0;

    watch_scan(&watch, suffix, count, &files);
    return files;
}

static int open_both(void **state)
{
    (void)state;
    snprintf(folder, sizeof(folder), "/tmp/watch-XXXXXX");
    if (mkdtemp(folder) == NULL || watch_open(&watch, true) != 0 ||
        !watch_add(&watch, folder))
        return -1;
    (void)scan(".seg");
    (void)watch_told(&watch);
    return 0;
}

static int close_both(void **state)
{
    (void)state;
    watch_close(&watch);
    return rmdir(folder);
}

static void make(const char *path)
{
    int fd = open(path, O_CREAT | O_EXCL | O_WRONLY | O_CLOEXEC, 0600);

    assert_true(fd >= 0);
    close(fd);
}

/* Makes and removes the file `name` of `where`; what the watch says of it. */
static bool is_news(const char *where, const char *name)
{
    char path[128];

    (void)watch_told(&watch);
    snprintf(path, sizeof(path), "%s/%s", where, name);
    make(path);
    assert_int_equal(unlink(path), 0);
    return watch_told(&watch);
}

static void a_segment_a_note_and_what_becomes_of_them_is_news(void **state)
{
    static const char *const names[] = {"0123.seg", "0123.end", "0123.run"};

    (void)state;
    for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++)
        assert_true(is_news(folder, names[i]));
}

static void what_a_loader_leaves_in_shared_memory_is_no_news(void **state)
{
    char name[64];

    (void)state;
    snprintf(name, sizeof(name), "torch_%d_1234567_0", (int)getpid());
    assert_false(is_news("/dev/shm", name));
    assert_false(is_news(folder, "0123.stacks"));
}

static void a_folder_of_ours_that_appears_in_shared_memory_is_news(void **state)
{
    char path[64];

    (void)state;
    (void)watch_told(&watch);
    snprintf(path, sizeof(path), "/dev/shm/trainglass-test-%d", (int)getpid());
    assert_int_equal(mkdir(path, 0700), 0);
    assert_int_equal(rmdir(path), 0);
    assert_true(watch_told(&watch));
}

static void the_folder_of_a_user_that_finds_no_place_is_said(void **state)
{
    char own[64], path[32];
    bool made;

    (void)state;
    snprintf(own, sizeof(own), "/dev/shm/trainglass-%u", (unsigned)geteuid());
    made = mkdir(own, 0700) == 0;
    assert_int_equal(watch_open(&watch, true), 0);
    for (uint32_t i = 0; i < STATE_WATCHES; i++) {
        snprintf(path, sizeof(path), "/nonexistent/%u", i);
        assert_true(watch_add(&watch, path));
    }
    (void)scan(".seg");
    assert_true(watch.users_left_out >= 1);
    assert_non_null(strstr(watch.directories[STATE_WATCHES - 1].reason, "more users"));
    assert_null(strstr(watch.directories[0].reason, "more users"));
    watch_close(&watch);
    if (made)
        (void)rmdir(own);
}

int main(void)
{
    static const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(
            a_segment_a_note_and_what_becomes_of_them_is_news, open_both, close_both),
        cmocka_unit_test_setup_teardown(
            what_a_loader_leaves_in_shared_memory_is_no_news, open_both, close_both),
        cmocka_unit_test(the_folder_of_a_user_that_finds_no_place_is_said),
        cmocka_unit_test_setup_teardown(
            a_folder_of_ours_that_appears_in_shared_memory_is_news, open_both,
            close_both),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
