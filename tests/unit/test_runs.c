/* The run store: what the user said stays, and a file that cannot be used stops nobody. */
#include <fcntl.h>
#include <setjmp.h>
#include <sqlite3.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

#include "runs.h"

static char folder[64], host_folder[200], file[240];

static int make_folder(void **state)
{
    char host[65] = "";

    (void)state;
    (void)snprintf(folder, sizeof(folder), "/tmp/trainglass-runs-XXXXXX");
    if (mkdtemp(folder) == NULL || gethostname(host, sizeof(host) - 1) != 0)
        return -1;
    (void)snprintf(host_folder, sizeof(host_folder), "%s/%s", folder, host);
    (void)snprintf(file, sizeof(file), "%s/runs.sqlite", host_folder);
    return 0;
}

static int remove_folder(void **state)
{
    (void)state;
    (void)unlink(file);
    (void)rmdir(host_folder);
    return rmdir(folder);
}

static bool is_off(struct runs *runs)
{
    cJSON *list = runs_list(runs, 10);
    bool off = cJSON_GetObjectItem(list, "reason") != NULL;

    cJSON_Delete(list);
    return off;
}

static void what_the_user_said_outlives_the_server(void **state)
{
    struct runs_verdict verdict = {"slow-data", true, false, "known"};
    struct runs *runs = runs_open(folder, 10);
    const char *why;
    cJSON *verdicts;

    (void)state;
    assert_false(is_off(runs));
    assert_true(runs_judge(runs, &verdict, &why));
    runs_close(runs);
    runs = runs_open(folder, 10);
    verdicts = runs_verdicts(runs);
    assert_true(cJSON_IsTrue(
        cJSON_GetObjectItem(cJSON_GetObjectItem(verdicts, "slow-data"), "dismissed")));
    cJSON_Delete(verdicts);
    verdict.dismissed = false;
    assert_true(runs_judge(runs, &verdict, &why));
    verdicts = runs_verdicts(runs);
    assert_int_equal(cJSON_GetArraySize(verdicts), 1);
    cJSON_Delete(verdicts);
    runs_close(runs);
}

static void a_file_that_is_no_database_switches_the_store_off(void **state)
{
    struct runs_verdict verdict = {"slow-data", true, false, NULL};
    struct runs *runs;
    const char *why;
    int damaged;

    (void)state;
    assert_int_equal(mkdir(host_folder, 0700), 0);
    damaged = open(file, O_WRONLY | O_CREAT, 0600);
    for (int i = 0; i < 100; i++)
        assert_int_equal(write(damaged, "no database here", 16), 16);
    close(damaged);
    runs = runs_open(folder, 10);
    assert_true(is_off(runs));
    assert_false(runs_judge(runs, &verdict, &why));
    assert_non_null(strstr(why, "off"));
    runs_close(runs);
}

static void a_lock_that_is_never_given_switches_the_store_off(void **state)
{
    struct runs_verdict verdict = {"slow-data", true, false, NULL};
    struct runs *runs = runs_open(folder, 10);
    sqlite3 *holder = NULL;
    const char *why;

    (void)state;
    assert_int_equal(sqlite3_open(file, &holder), SQLITE_OK);
    assert_int_equal(sqlite3_exec(holder, "BEGIN EXCLUSIVE", NULL, NULL, NULL),
                     SQLITE_OK);
    assert_false(runs_judge(runs, &verdict, &why));
    assert_non_null(strstr(why, "lock"));
    sqlite3_close(holder);
    assert_true(is_off(runs));
    runs_close(runs);
}

static void without_a_folder_the_store_is_off_and_says_so(void **state)
{
    struct runs *runs = runs_open("", 10);

    (void)state;
    assert_true(is_off(runs));
    runs_close(runs);
    runs = runs_open("/proc/nowhere/at/all", 10);
    assert_true(is_off(runs));
    runs_close(runs);
    runs = runs_open(folder, 0);
    assert_true(is_off(runs));
    runs_close(runs);
}

#define IN_FOLDER(test)                                                                \
    cmocka_unit_test_setup_teardown(test, make_folder, remove_folder)

int main(void)
{
    const struct CMUnitTest tests[] = {
        IN_FOLDER(what_the_user_said_outlives_the_server),
        IN_FOLDER(a_file_that_is_no_database_switches_the_store_off),
        IN_FOLDER(a_lock_that_is_never_given_switches_the_store_off),
        IN_FOLDER(without_a_folder_the_store_is_off_and_says_so),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
