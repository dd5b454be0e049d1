/* What `dump` tells of a ring: of a real segment that its process has left. */
#include <cjson/cJSON.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include "command/segments/dump_segment.h"
#include "probe/probe.h"

static char folder[] = "/dev/shm/trainglass-dump-XXXXXX";
static cJSON *processes;

/* So many marks, whose `aux` counts from 0. */
static void write_marks(uint64_t count)
{
    pid_t child = fork();

    if (child == 0) {
        int error = probe_start(WIRE_ROLE_TRAINER);

        for (uint64_t i = 0; i < count; i++)
            probe_instant(EVENT_META(0, EVENT_MARK, EVENT_MARK_LEVEL, 0), 0, i);
        exit(error == 0 ? 0 : 1);
    }
    int status;

    assert_int_equal(waitpid(child, &status, 0), child);
    assert_int_equal(status, 0);
}

/* The only thread that wrote, with its newest `events`. */
static const cJSON *dumped(uint64_t events)
{
    struct segment_entry *entries;
    int count = segment_list(folder, &entries);

    assert_int_equal(count, 1);
    cJSON_Delete(processes);
    processes = cJSON_CreateArray();
    assert_true(dump_segment(processes, folder, &entries[0], events));
    free(entries);
    return cJSON_GetArrayItem(
        cJSON_GetObjectItem(cJSON_GetArrayItem(processes, 0), "threads"), 0);
}

/* Integers stand there as digits. */
static double number(const cJSON *object, const char *key)
{
    const cJSON *item = cJSON_GetObjectItem(object, key);

    assert_non_null(item);
    return cJSON_IsRaw(item) ? strtod(item->valuestring, NULL) : item->valuedouble;
}

static void the_newest_events_of_a_ring_that_has_wrapped_are_told(void **state)
{
    (void)state;
    write_marks(300000);
    const cJSON *thread = dumped(5), *newest = cJSON_GetObjectItem(thread, "newest");
    double room = number(thread, "ring_events");
    double marks = number(cJSON_GetObjectItem(thread, "kinds"), "mark");

    assert_true(room < 300000);
    assert_true(marks <= room && marks > room - 100);
    assert_true(number(thread, "overwritten") >= 300000 - room);
    assert_int_equal(cJSON_GetArraySize(newest), 5);
    assert_true(number(cJSON_GetArrayItem(newest, 4), "aux") == 299999);
    assert_true(number(cJSON_GetArrayItem(newest, 0), "aux") == 299995);
}

static void of_a_ring_that_holds_all_nothing_is_overwritten(void **state)
{
    (void)state;
    write_marks(20);
    const cJSON *thread = dumped(1000);

    assert_true(number(thread, "overwritten") == 0);
    assert_true(cJSON_GetArraySize(cJSON_GetObjectItem(thread, "newest")) >= 20);
}

static int make_folder(void **state)
{
    (void)state;
    (void)snprintf(folder, sizeof(folder), "/dev/shm/trainglass-dump-XXXXXX");
    return mkdtemp(folder) == NULL ? -1 : setenv("TRAINGLASS_DIR", folder, 1);
}

static int remove_folder(void **state)
{
    char command[128];

    (void)state;
    cJSON_Delete(processes);
    processes = NULL;
    (void)snprintf(command, sizeof(command), "rm -r %s", folder);
    return system(command);
}

#define IN_FOLDER(test)                                                                \
    cmocka_unit_test_setup_teardown(test, make_folder, remove_folder)

int main(void)
{
    const struct CMUnitTest tests[] = {
        IN_FOLDER(the_newest_events_of_a_ring_that_has_wrapped_are_told),
        IN_FOLDER(of_a_ring_that_holds_all_nothing_is_overwritten),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
