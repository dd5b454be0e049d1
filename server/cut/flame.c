#include "cut/flame.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "http/bytes.h"

#define NS_PER_US 1000

/* ---- folded ----------------------------------------------------------------------------- */

/* Frames that torch leaves out of its stacks. */
static bool is_hidden(const struct file_paths *paths, uint32_t name)
{
    static const struct {
        const char *file, *function;
    } hidden[] = {{"autograd/__init__", "_make_grads"},
                  {"autograd/__init__", "backward"},
                  {"torch/tensor", "backward"},
                  {"_internal/common_utils", "prof_"}};
    uint32_t length;
    const char *text = trace_names_get(paths->names, name, &length);

    for (size_t i = 0; i < sizeof(hidden) / sizeof(hidden[0]); i++)
        if (strstr(text, hidden[i].file) != NULL &&
            strstr(text, hidden[i].function) != NULL)
            return true;
    return false;
}

/* Every path to that of its frames alone, a node of the backward to those of the op that
 * made it. Parents and origins stand before who has them. */
static bool fold(const struct file_paths *paths, enum flame_metric metric,
                 struct file_paths *frames)
{
    uint32_t *to = calloc(paths->count, sizeof(*to));
    bool made = to != NULL && file_paths_open(frames, paths->names);

    for (uint32_t i = 1; made && i < paths->count; i++) {
        const struct file_path *path = &paths->list[i];

        to[i] = to[path->origin != 0 ? path->origin : path->parent];
        if (path->kind == FILE_PATH_FRAME && is_hidden(paths, path->name))
            continue;
        if (path->kind == FILE_PATH_FRAME) {
            to[i] = file_paths_child(frames, to[i], path->name, FILE_PATH_FRAME);
            continue;
        }
        frames->list[to[i]].self_ns +=
            metric == FLAME_CPU ? path->self_ns : path->device_ns;
    }
    free(to);
    return made;
}

static bool ends_frame(char c)
{
    return c == ' ' || c == ';' || c == '\t' || c == '\n';
}

/* What ends a frame or a line stands for itself nowhere. */
static void put_frame(struct bytes *line, const struct file_paths *paths, uint32_t path)
{
    uint32_t length;
    const char *name = trace_names_get(paths->names, paths->list[path].name, &length);
    char *to = bytes_reserve(line, length + 1);

    if (to == NULL)
        return;
    for (uint32_t i = 0; i < length; i++)
        to[i] = ends_frame(name[i]) ? '_' : name[i];
    line->size += length;
}

#define DEPTH_MAX 4096u

static void put_line(struct bytes *line, const struct file_paths *frames, uint32_t path)
{
    uint32_t chain[DEPTH_MAX], depth = 0;

    line->size = 0;
    for (uint32_t at = path; at != 0 && depth < DEPTH_MAX; at = frames->list[at].parent)
        chain[depth++] = at;
    while (depth > 0) {
        put_frame(line, frames, chain[--depth]);
        bytes_text(line, depth > 0 ? ";" : " ");
    }
    bytes_format(line, "%lld\n", (long long)(frames->list[path].self_ns / NS_PER_US));
}

int flame_write_folded(const struct file_paths *paths, enum flame_metric metric,
                       struct output_file *output)
{
    struct file_paths frames = {0};
    struct bytes line = {0};
    int error = 0;

    if (!paths->frames)
        return -ENODATA;
    if (!fold(paths, metric, &frames))
        error = -ENOMEM;
    for (uint32_t i = 1; error == 0 && i < frames.count; i++) {
        if (frames.list[i].self_ns < NS_PER_US)
            continue;
        put_line(&line, &frames, i);
        output_file_write(output, line.data, line.size);
        error = line.failed ? -ENOMEM : 0;
    }
    bytes_close(&line);
    file_paths_close(&frames);
    return error;
}

/* ---- speedscope ------------------------------------------------------------------------- */

struct flame {
    struct flame_order order;
    const struct file_paths *paths;
    int64_t *start;     /* where a path was opened */
    uint32_t *frame_of; /* by name: index of the frame + 1 */
    uint32_t left_out, profiles;
    struct bytes text;
    struct output_file *output;
};

static void flame_close(struct flame *flame)
{
    flame_order_close(&flame->order);
    free(flame->start);
    free(flame->frame_of);
    bytes_close(&flame->text);
}

static bool flame_open(struct flame *flame, const struct file_paths *paths,
                       struct output_file *output)
{
    *flame = (struct flame){.paths = paths, .output = output};
    flame->start = calloc(paths->count, sizeof(*flame->start));
    flame->frame_of = calloc(trace_names_count(paths->names), sizeof(uint32_t));
    return flame_order_open(&flame->order, paths, FLAME_PATHS_MAX) &&
           flame->start != NULL && flame->frame_of != NULL;
}

static void weigh(struct flame *flame, enum flame_metric metric)
{
    flame_order_weigh(&flame->order, metric);
    flame->left_out += flame->order.left_out;
}

static void flush(struct flame *flame)
{
    output_file_write(flame->output, flame->text.data, flame->text.size);
    flame->text.size = 0;
}

static void put_event(struct flame *flame, char type, uint32_t path, int64_t at_ns)
{
    uint32_t frame = flame->frame_of[flame->paths->list[path].name] - 1;
    bool first = flame->text.size > 0 && flame->text.data[flame->text.size - 1] == '[';

    bytes_format(&flame->text, "%s{\"type\":\"%c\",\"frame\":%u,\"at\":%lld}",
                 first ? "" : ",", type, frame, (long long)at_ns);
    if (flame->text.size > OUTPUT_FILE_BYTES / 2)
        flush(flame);
}

/* Everything below `top` in the order of its weight, as if it had run so. */
static void put_tree(struct flame *flame, uint32_t top)
{
    const struct file_path *list = flame->paths->list;
    uint32_t path = top;
    int64_t at_ns = 0;

    flame->start[top] = 0;
    while (true) {
        uint32_t child = flame_order_next(&flame->order, path);

        if (child != 0) {
            put_event(flame, 'O', child, at_ns);
            flame->start[child] = at_ns;
            path = child;
            continue;
        }
        if (path == top)
            return;
        at_ns = flame->start[path] + flame->order.total[path];
        put_event(flame, 'C', path, at_ns);
        path = list[path].parent;
    }
}

static void put_profile(struct flame *flame, const char *name, uint32_t length,
                        uint32_t top)
{
    bytes_text(&flame->text, flame->profiles++ > 0 ? ",\n" : "");
    bytes_text(&flame->text, "{\"type\":\"evented\",\"name\":");
    bytes_json(&flame->text, name, length, 256);
    bytes_format(&flame->text,
                 ",\"unit\":\"nanoseconds\",\"startValue\":0,\"endValue\":%lld,"
                 "\"events\":[",
                 (long long)flame->order.total[top]);
    put_tree(flame, top);
    bytes_text(&flame->text, "]}");
}

/* Frames of all profiles: each name once. */
static void put_frames(struct flame *flame)
{
    const struct file_paths *paths = flame->paths;
    uint32_t count = 0, length;

    for (uint32_t i = 1; i < paths->count; i++) {
        uint32_t *frame = &flame->frame_of[paths->list[i].name];

        if (*frame != 0)
            continue;
        const char *name = trace_names_get(paths->names, paths->list[i].name, &length);

        *frame = ++count;
        bytes_text(&flame->text, count > 1 ? ",{\"name\":" : "{\"name\":");
        bytes_json(&flame->text, name, length, TRACE_NAME_BYTES_MAX);
        bytes_text(&flame->text, "}");
        if (flame->text.size > OUTPUT_FILE_BYTES / 2)
            flush(flame);
    }
}

static void put_profiles(struct flame *flame)
{
    static const char device[] = "device time, by what launched it";
    const struct file_paths *paths = flame->paths;
    uint32_t length;

    weigh(flame, FLAME_CPU);
    /* The busiest thread first. */
    for (uint32_t i = flame->order.first[0]; i < flame->order.first[1]; i++) {
        uint32_t thread = flame->order.order[i];
        const char *name =
            trace_names_get(paths->names, paths->list[thread].name, &length);

        if (flame->order.total[thread] > 0)
            put_profile(flame, name, length, thread);
    }
    weigh(flame, FLAME_DEVICE);
    if (flame->order.total[0] > 0)
        put_profile(flame, device, sizeof(device) - 1, 0);
}

int flame_write_speedscope(const struct file_paths *paths, const char *name,
                           struct output_file *output, uint32_t *left_out)
{
    struct flame flame;
    int error = flame_open(&flame, paths, output) ? 0 : -ENOMEM;

    if (error == 0) {
        bytes_text(
            &flame.text,
            "{\"$schema\":\"https://www.speedscope.app/file-format-schema.json\","
            "\"exporter\":\"trainglass\",\"name\":");
        bytes_json(&flame.text, name, strlen(name), 256);
        bytes_text(&flame.text, ",\"activeProfileIndex\":0,\"shared\":{\"frames\":[\n");
        put_frames(&flame);
        bytes_text(&flame.text, "\n]},\"profiles\":[\n");
        put_profiles(&flame);
        bytes_text(&flame.text, "\n]}\n");
        flush(&flame);
        error = flame.text.failed ? -ENOMEM : 0;
    }
    *left_out = flame.left_out;
    flame_close(&flame);
    return error;
}
