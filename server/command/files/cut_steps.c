/* The time of steps that a trace does not number itself: by an optimizer's updates, or all of
 * it as one, as analyze counts them. */
#include "command/files/cut_steps.h"

#include <errno.h>
#include <stdio.h>

#include "aggregate/store.h"
#include "command/files/analyze.h"
#include "query/steps_query.h"

struct found {
    struct file_result result;
    bool any;
};

static void take_first(void *user, const struct file_result *result, int error)
{
    struct found *found = user;

    if (error != 0 || found->any)
        return;
    found->result = *result;
    found->any = true;
}

static int ask(struct store *store, const struct file_result *result,
               struct window *steps, char *error, size_t size)
{
    struct selection trace = {.rank = SELECT_ANY};
    struct steps_answer answer;
    int64_t first, last;

    (void)snprintf(trace.session, sizeof(trace.session), "%s", result->session);
    int failed = steps_query(store, &trace, &(struct steps_request){0}, &answer);

    first = answer.head.window.first_step;
    last = answer.head.window.last_step;
    answer_free(&answer.head);
    trace.window = *steps;
    if (failed == 0)
        failed = steps_query(store, &trace, &(struct steps_request){0}, &answer);
    if (failed == 0 && answer.train.count == 0) {
        (void)snprintf(error, size, "has the steps %lld-%lld, not %lld-%lld",
                       (long long)first, (long long)last, (long long)steps->a,
                       (long long)steps->b);
        failed = -ENODATA;
    }
    steps->a = answer.head.window.from_ns;
    steps->b = answer.head.window.to_ns;
    answer_free(&answer.head);
    return failed;
}

int cut_steps_find(const char *path, struct window *steps, char *error, size_t size)
{
    struct store *store = store_new(NULL);
    struct analyze_file file = {.path = (char *)(uintptr_t)path};
    struct found found = {0};
    int failed = store == NULL
                     ? -ENOMEM
                     : analyze_files_load(store, &file, NULL, take_first, &found);

    if (failed == 0)
        failed = ask(store, &found.result, steps, error, size);
    store_free(store);
    return failed;
}
