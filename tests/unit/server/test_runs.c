/* The run store: what the user said stays, and a file that cannot be used stops nobody. */
#include <errno.h>
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

#include "aggregate/state.h"
#include "report/members.h"
#include "runs/runs.h"

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

static bool disk_is_full;

static ssize_t write_to_full(int fd, const void *bytes, size_t size, off_t offset)
{
    if (!disk_is_full)
        return pwrite(fd, bytes, size, offset);
    errno = ENOSPC;
    return -1;
}

/* SQLite's writes, from now on, go through write_to_full(). */
static void watch_the_disk(void)
{
    sqlite3_vfs *system = sqlite3_vfs_find(NULL);

    (void)system->xSetSystemCall(system, "pwrite",
                                 (sqlite3_syscall_ptr)write_to_full);
    (void)system->xSetSystemCall(system, "pwrite64",
                                 (sqlite3_syscall_ptr)write_to_full);
}

static void forget_the_disk(void)
{
    sqlite3_vfs *system = sqlite3_vfs_find(NULL);

    (void)system->xSetSystemCall(system, NULL, NULL);
    disk_is_full = false;
}

static struct store *store_of_a_run(const char *id)
{
    const struct process_identity trainer = {
        .pid = 7, .rank = -1, .world_size = -1, .role = WIRE_ROLE_TRAINER};
    struct store *store = store_new(NULL);
    struct session *session = state_session(store, id);
    struct process *process = state_process(store, session, &trainer);

    process_finish(process, PROCESS_ENDED, "");
    return store;
}

static void a_full_disk_switches_the_store_off_until_there_is_room(void **state)
{
    struct runs_verdict verdict = {"slow-data", true, false, NULL};
    struct store *store = store_of_a_run("abcdef01");
    struct runs *runs = runs_open(folder, 10);
    const char *why;
    cJSON *kept;

    (void)state;
    watch_the_disk();
    disk_is_full = true;
    runs_fold(runs, store, true);
    assert_true(is_off(runs));
    assert_true(runs_wait_for_room(runs));
    assert_false(runs_judge(runs, &verdict, &why));
    assert_non_null(strstr(why, "until there is room"));
    disk_is_full = false;
    runs_fold(runs, store, true);
    assert_false(is_off(runs));
    assert_false(runs_wait_for_room(runs));
    kept = runs_find(runs, "abcdef01");
    assert_non_null(kept);
    cJSON_Delete(kept);
    forget_the_disk();
    runs_close(runs);
    store_free(store);
}

static void a_store_that_found_the_disk_full_at_its_start_begins_when_there_is_room(
    void **state)
{
    struct store *store = store_of_a_run("abcdef01");
    struct runs *runs;
    cJSON *kept;

    (void)state;
    watch_the_disk();
    disk_is_full = true;
    runs = runs_open(folder, 10);
    assert_true(is_off(runs));
    disk_is_full = false;
    runs_fold(runs, store, true);
    kept = runs_find(runs, "abcdef01");
    assert_non_null(kept);
    cJSON_Delete(kept);
    forget_the_disk();
    runs_close(runs);
    store_free(store);
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

/* A row as any version may have left it; `document` NULL: of one that knew no documents. */
static void put_row(const char *session, const char *name, const char *summary,
                    const char *document)
{
    static const char *const sql[] = {
        "INSERT INTO runs VALUES(?,?,'ended',1000,2000,300,12.5,NULL,NULL,?)",
        "INSERT INTO documents VALUES(?,1,300,?)"};
    sqlite3 *database = NULL;
    sqlite3_stmt *row = NULL;

    assert_int_equal(sqlite3_open(file, &database), SQLITE_OK);
    for (int i = 0; i < 1 + (document != NULL); i++) {
        int column = 1;

        assert_int_equal(sqlite3_prepare_v2(database, sql[i], -1, &row, NULL),
                         SQLITE_OK);
        (void)sqlite3_bind_text(row, column++, session, -1, SQLITE_TRANSIENT);
        if (i == 0)
            (void)sqlite3_bind_text(row, column++, name, -1, SQLITE_TRANSIENT);
        (void)sqlite3_bind_text(row, column, i == 0 ? summary : document, -1,
                                SQLITE_TRANSIENT);
        assert_int_equal(sqlite3_step(row), SQLITE_DONE);
        sqlite3_finalize(row);
    }
    sqlite3_close(database);
}

static const char document[] =
    "{\"rank\":0,\"steps\":300,\"summary\":{\"train\":{\"mean_ms\":12.5}},"
    "\"memory_peaks\":[],\"ops\":{\"cpu\":[],\"cuda\":[]},\"epochs\":"
    "[{\"epoch\":1,\"steps\":100,\"train\":{\"mean_ms\":14}},"
    "{\"epoch\":2,\"steps\":200,\"train\":{\"mean_ms\":11,\"ci95_ms\":{}}}]}";

static double mean_of(const cJSON *run)
{
    return NUMBER(run, "summary", "train", "mean_ms");
}

static void
a_run_is_found_by_its_id_its_beginning_or_a_name_that_it_alone_has(void **state)
{
    static const char *const found[] = {"abcdef01", "abcd", "alone", "twice",
                                        "twice.1"};
    static const char *const lost[] = {"abc", "same", "none", ""};
    char why[RUNS_WHY_BYTES];
    struct runs *runs = runs_open(folder, 10);
    struct runs_name name;

    (void)state;
    put_row("abcdef01", "same", NULL, document);
    put_row("12345678", "same", NULL, document);
    put_row("99999999", "alone", NULL, document);
    put_row("twice", "x", NULL, document);
    put_row("twice.1", "y", NULL, document);
    for (size_t i = 0; i < sizeof(found) / sizeof(found[0]); i++)
        assert_true(runs_resolve(runs, found[i], &name, why));
    assert_string_equal(name.session, "twice.1");
    for (size_t i = 0; i < sizeof(lost) / sizeof(lost[0]); i++)
        assert_false(runs_resolve(runs, lost[i], &name, why));
    assert_false(runs_resolve(runs, "same", &name, why));
    assert_non_null(strstr(why, "abcdef01"));
    assert_non_null(strstr(why, "12345678"));
    runs_close(runs);
}

static cJSON *read_run(struct runs *runs, const char *session, const char *window,
                       char why[RUNS_WHY_BYTES])
{
    struct window of;
    struct runs_name name;
    const char *reason;

    assert_int_equal(window_parse(window, &of, &reason), 0);
    assert_true(runs_resolve(runs, session, &name, why));
    return runs_document(runs, &name, &of, why);
}

static void an_epoch_has_its_own_numbers_and_says_what_it_lacks(void **state)
{
    char why[RUNS_WHY_BYTES] = "";
    struct runs *runs = runs_open(folder, 10);
    cJSON *run;

    (void)state;
    put_row("abcdef01", "a", NULL, document);
    run = read_run(runs, "abcdef01", "", why);
    assert_true(mean_of(run) == 12.5 && NUMBER(run, "steps") == 300);
    assert_null(MEMBER(run, "lacks"));
    cJSON_Delete(run);
    run = read_run(runs, "abcdef01", "epoch:2", why);
    assert_true(mean_of(run) == 11 && NUMBER(run, "steps") == 200);
    assert_null(MEMBER(run, "ops"));
    assert_non_null(strstr(members_text(MEMBER(run, "lacks")->child), "no ops"));
    cJSON_Delete(run);
    run = read_run(runs, "abcdef01", "epoch:1", why);
    assert_non_null(strstr(members_text(MEMBER(run, "lacks")->child), "mean step"));
    cJSON_Delete(run);
    assert_null(read_run(runs, "abcdef01", "epoch:3", why));
    assert_non_null(strstr(why, "epoch 3"));
    assert_null(read_run(runs, "abcdef01", "10s", why));
    assert_non_null(strstr(why, "no other stretch"));
    runs_close(runs);
}

static void
of_a_row_without_a_document_its_summary_is_read_and_the_rest_is_lacking(void **state)
{
    static const char summary[] =
        "{\"rank\":2,\"step_ms\":{\"mean\":10,\"error_pct\":5},\"memory_peaks\":[],"
        "\"top_cpu_ops\":[{\"name\":\"aten::mm\",\"per_step_ms\":3}],"
        "\"top_cuda_ops\":[],\"findings\":[{\"id\":\"data-loading\"}]}";
    char why[RUNS_WHY_BYTES] = "";
    struct runs *runs = runs_open(folder, 10);
    cJSON *run;

    (void)state;
    put_row("oldrow01", "a", summary, NULL);
    put_row("oldrow02", "b", NULL, NULL);
    put_row("damaged1", "c", "[1,", "{\"summary\":");
    run = read_run(runs, "oldrow01", "run", why);
    assert_true(mean_of(run) == 10 && NUMBER(run, "steps") == 300);
    assert_true(members_number(cJSON_GetArrayItem(
                    MEMBER(run, "summary", "train", "ci95_ms", "step"), 1)) == 10.5);
    assert_true(isnan(NUMBER(run, "summary", "train", "data_ms")));
    assert_string_equal(TEXT(MEMBER(run, "ops", "cpu")->child, "name"), "aten::mm");
    assert_string_equal(TEXT(MEMBER(run, "findings")->child, "id"), "data-loading");
    /* How many ops there were was not kept: none may be called gone. */
    assert_true(NUMBER(run, "ops", "total", "cpu") == 2);
    assert_non_null(strstr(members_text(MEMBER(run, "lacks")->child), "older"));
    cJSON_Delete(run);
    for (int i = 0; i < 2; i++) {
        run = read_run(runs, i == 0 ? "oldrow02" : "damaged1", "run", why);
        assert_true(mean_of(run) == 12.5);
        assert_null(MEMBER(run, "ops"));
        assert_non_null(strstr(members_text(MEMBER(run, "lacks")->child), "alone"));
        cJSON_Delete(run);
    }
    runs_close(runs);
}

static void of_several_ranks_one_is_kept_and_that_is_said(void **state)
{
    struct store *store = store_new(NULL);
    char why[RUNS_WHY_BYTES] = "";
    struct session *session = state_session(store, "abcdef01");
    struct runs *runs;
    cJSON *run;

    (void)state;
    for (int32_t rank = 2; rank < 5; rank++) {
        const struct process_identity trainer = {.pid = (uint32_t)rank + 7,
                                                 .rank = rank,
                                                 .world_size = 8,
                                                 .role = WIRE_ROLE_TRAINER};

        process_finish(state_process(store, session, &trainer), PROCESS_ENDED, "");
    }
    runs = runs_open(folder, 10);
    runs_fold(runs, store, true);
    run = read_run(runs, "abcdef01", "run", why);
    assert_int_equal(NUMBER(run, "rank"), 2);
    assert_non_null(MEMBER(run, "lacks"));
    assert_string_equal(members_text(MEMBER(run, "lacks")->child),
                        "of its 3 ranks what rank 2 did is kept, and nothing of the "
                        "others");
    cJSON_Delete(run);
    runs_close(runs);
    store_free(store);
}

static void a_command_reads_the_store_and_makes_none(void **state)
{
    struct runs *runs = runs_open_to_read(folder);
    char why[RUNS_WHY_BYTES] = "";
    struct runs_name name;

    (void)state;
    assert_true(is_off(runs));
    assert_false(runs_resolve(runs, "abcdef01", &name, why));
    assert_true(why[0] != '\0');
    runs_close(runs);
    assert_int_equal(access(file, F_OK), -1);
    runs_close(runs_open(folder, 10));
    put_row("abcdef01", "a", NULL, document);
    runs = runs_open_to_read(folder);
    assert_true(runs_resolve(runs, "abcdef01", &name, why));
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
        IN_FOLDER(a_full_disk_switches_the_store_off_until_there_is_room),
        IN_FOLDER(
            a_store_that_found_the_disk_full_at_its_start_begins_when_there_is_room),
        IN_FOLDER(without_a_folder_the_store_is_off_and_says_so),
        IN_FOLDER(a_run_is_found_by_its_id_its_beginning_or_a_name_that_it_alone_has),
        IN_FOLDER(an_epoch_has_its_own_numbers_and_says_what_it_lacks),
        IN_FOLDER(
            of_a_row_without_a_document_its_summary_is_read_and_the_rest_is_lacking),
        IN_FOLDER(of_several_ranks_one_is_kept_and_that_is_said),
        IN_FOLDER(a_command_reads_the_store_and_makes_none),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
