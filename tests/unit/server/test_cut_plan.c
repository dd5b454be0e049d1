/* What the first reading of a cut keeps, and how much that may be. */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "cut/cut.h"

#define LAUNCHES 5000
#define START_US 1700000000000000LL

static char path[] = "/tmp/trainglass-test-XXXXXX";
static struct cut_result result;

static int write_launches(void **state)
{
    FILE *file = fdopen(mkstemp(path), "w");

    (void)state;
    if (file == NULL)
        return -1;
    /* Of a clock that was read before it was set. */
    fputs("{\"traceEvents\":[{\"ph\":\"X\",\"cat\":\"cpu_op\",\"name\":\"stray\","
          "\"pid\":5,\"tid\":5,\"ts\":0,\"dur\":1}",
          file);
    for (int i = 0; i < LAUNCHES; i++)
        fprintf(file,
                ",\n{\"ph\":\"X\",\"cat\":\"cuda_runtime\",\"name\":\"launch\","
                "\"pid\":5,\"tid\":5,\"ts\":%lld,\"dur\":5,"
                "\"args\":{\"correlation\":%d}}",
                START_US + i * 10, i + 1);
    fputs("]}", file);
    return fclose(file);
}

static int remove_launches(void **state)
{
    (void)state;
    return unlink(path);
}

static int cut(uint64_t plan_bytes)
{
    struct cut_request request = {.path = path,
                                  .range = CUT_TIME,
                                  .a = 0,
                                  .b = 1000 * 1000,
                                  .plan_bytes = plan_bytes};
    struct output_file *output = calloc(1, sizeof(*output));
    int error;

    assert_non_null(output);
    assert_int_equal(output_file_open(output, "/dev/null"), 0);
    error = cut_write(&request, output, &result);
    output_file_close(output);
    free(output);
    return error;
}

static void a_plan_that_does_not_fit_is_refused_with_the_way_out(void **state)
{
    (void)state;
    assert_int_equal(cut(0), 0);
    assert_int_equal(result.kept, 100);
    assert_int_equal(cut(128 * 1024), -E2BIG);
    assert_non_null(strstr(result.error, "--cat alone"));
    assert_false(result.output_failed);
}

static void times_count_from_the_first_event_that_is_no_stray(void **state)
{
    (void)state;
    assert_int_equal(cut(0), 0);
    assert_int_equal(result.kept, 100);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_plan_that_does_not_fit_is_refused_with_the_way_out),
        cmocka_unit_test(times_count_from_the_first_event_that_is_no_stray),
    };

    return cmocka_run_group_tests(tests, write_launches, remove_launches);
}
