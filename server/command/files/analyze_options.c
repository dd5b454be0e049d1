/* What the words of `trainglass analyze` ask for. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "command/files/analyze.h"
#include "command/gate.h"
#include "document/document.h"

#define TOP              10u
#define STACK_FRAMES_MAX 64

enum flag {
    FLAG_TOP,
    FLAG_SORT,
    FLAG_GROUP,
    FLAG_STEPS,
    FLAG_DEVICE,
    FLAG_RANK,
    FLAG_FAIL_ON,
    FLAG_STACKS,
    FLAG_METRIC,
    FLAG_FLAME,
    FLAG_HTML,
    FLAG_LINK_BACKWARD,
};

/* What torch's key_averages().table() calls the columns. */
static int sort_of(const char *name)
{
    static const struct {
        const char *name;
        enum ops_sort sort;
    } torch[] = {{"cpu_time_total", OPS_BY_TOTAL},
                 {"self_cpu_time_total", OPS_BY_SELF},
                 {"cpu_time", OPS_BY_MEAN},
                 {"cuda_time_total", OPS_BY_DEVICE_TOTAL},
                 {"self_cuda_time_total", OPS_BY_DEVICE_SELF},
                 {"device_time_total", OPS_BY_DEVICE_TOTAL},
                 {"self_device_time_total", OPS_BY_DEVICE_SELF},
                 {"self_cpu_memory_usage", OPS_BY_HOST_BYTES},
                 {"self_cuda_memory_usage", OPS_BY_DEVICE_BYTES},
                 {"self_device_memory_usage", OPS_BY_DEVICE_BYTES},
                 {"cpu_memory_usage", OPS_BY_HOST_TOTAL_BYTES},
                 {"cuda_memory_usage", OPS_BY_DEVICE_TOTAL_BYTES},
                 {"device_memory_usage", OPS_BY_DEVICE_TOTAL_BYTES}};

    for (size_t i = 0; i < sizeof(torch) / sizeof(torch[0]); i++)
        if (strcmp(torch[i].name, name) == 0)
            return (int)torch[i].sort;
    return ops_sort_of(name);
}

bool analyze_refuse(const char *flag, const char *value, const char *wanted)
{
    command_complain("%s: '%.60s' is not %s", flag, value, wanted);
    return false;
}

bool analyze_read_number(const char *flag, const char *text, int64_t low, int64_t high,
                         int64_t *number)
{
    char *end, wanted[80];

    errno = 0;
    *number = strtoll(text, &end, 10);
    if (errno == 0 && end != text && *end == '\0' && *number >= low && *number <= high)
        return true;
    (void)snprintf(wanted, sizeof(wanted), "a whole number from %lld to %lld",
                   (long long)low, (long long)high);
    return analyze_refuse(flag, text, wanted);
}

/* "stack:3" tells as many frames apart. */
static bool read_group(const char *group, struct analyze_options *options)
{
    char word[16] = "";
    const char *colon = strchr(group, ':');
    size_t length = strcspn(group, ":");
    int64_t frames = FILE_STACK_FRAMES;
    char *end = NULL;

    if (length < sizeof(word))
        memcpy(word, group, length);
    int by = ops_group_of(word);

    if (colon != NULL) {
        frames = strtol(colon + 1, &end, 10);
        if (by != GROUP_STACK || end == colon + 1 || *end != '\0')
            return false;
    }
    options->request.by = by < 0 ? GROUP_NAME : (enum group_by)by;
    options->stack_frames = (uint32_t)frames;
    return by >= 0 && frames >= 1 && frames <= STACK_FRAMES_MAX;
}

bool analyze_read_steps(const char *text, struct window *window)
{
    char both[64];
    const char *reason;

    /* One number is the range from it to itself. */
    if (strspn(text, "0123456789") == strlen(text) &&
        (size_t)snprintf(both, sizeof(both), "%s-%s", text, text) < sizeof(both) &&
        window_parse(both, window, &reason) == 0 && window->kind == WINDOW_STEPS)
        return true;
    return (window_parse(text, window, &reason) == 0 && window->kind == WINDOW_STEPS) ||
           analyze_refuse("--steps", text, "a step's number or a range, such as 5-10");
}

static bool read_choice(const struct invocation *invocation,
                        struct analyze_options *options)
{
    const char *device = invocation->flags[FLAG_DEVICE];
    const char *group = invocation->flags[FLAG_GROUP];
    const char *sort = invocation->flags[FLAG_SORT];

    options->cpu = device == NULL || strcmp(device, "cpu") == 0;
    options->cuda = device == NULL || strcmp(device, "cuda") == 0;
    if (!options->cpu && !options->cuda)
        return analyze_refuse("--device", device, "cpu or cuda");
    if (group != NULL && !read_group(group, options))
        return analyze_refuse("--group", group,
                              "name, shape, stack, stack:1 to stack:64, module");
    options->request.sort = OPS_BY_SELF;
    if (sort != NULL && sort_of(sort) < 0)
        return analyze_refuse(
            "--sort", sort,
            "a column: self, total, count, mean, min, max, p50, p95, p99, "
            "per_step, share, name, device_total, device_self, self_memory, "
            "self_device_memory, memory, device_memory, or torch's name of "
            "one");
    if (sort != NULL)
        options->request.sort = (enum ops_sort)sort_of(sort);
    return true;
}

/* torch's names; cuda stands for every device, as there. */
bool analyze_read_keep(const struct invocation *invocation, struct analyze_keep *keep)
{
    const char *metric = invocation->flags[FLAG_METRIC];

    *keep = (struct analyze_keep){.stacks = invocation->flags[FLAG_STACKS],
                                  .flame = invocation->flags[FLAG_FLAME],
                                  .html = invocation->flags[FLAG_HTML]};
    if (metric == NULL || strcmp(metric, "self_cpu_time_total") == 0)
        return true;
    keep->metric = FLAME_DEVICE;
    return strcmp(metric, "self_cuda_time_total") == 0 ||
           strcmp(metric, "self_device_time_total") == 0 ||
           analyze_refuse("--stacks-metric", metric,
                          "self_cpu_time_total or self_cuda_time_total");
}

bool analyze_read_flags(const struct invocation *invocation,
                        struct analyze_options *options)
{
    const char *top = invocation->flags[FLAG_TOP];
    const char *steps = invocation->flags[FLAG_STEPS];
    const char *rank = invocation->flags[FLAG_RANK];
    int64_t number = invocation->json ? OPS_K_MAX : TOP;

    *options = (struct analyze_options){
        .request = {.rank = SELECT_ANY, .critical_path = true}};
    if (top != NULL && !analyze_read_number("--top", top, 1, OPS_K_MAX, &number))
        return false;
    options->request.k = (uint32_t)number;
    if (rank != NULL && !analyze_read_number("--rank", rank, 0, INT32_MAX, &number))
        return false;
    if (rank != NULL)
        options->request.rank = (int32_t)number;
    options->link_backward = invocation->flags[FLAG_LINK_BACKWARD] != NULL;
    if (steps != NULL && !analyze_read_steps(steps, &options->request.window))
        return false;
    return gate_read(invocation, FAIL_ON_ONE_RUN, options->expressions,
                     &options->expression_count) &&
           read_choice(invocation, options);
}
