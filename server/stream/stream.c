#include "stream/stream.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "api/context.h"
#include "document/document.h"
#include "document/json.h"
#include "judge/judge.h"
#include "judge/replays.h"
#include "query/bottlenecks_query.h"
#include "query/status_query.h"
#include "stream/stream_json.h"

#define HEARTBEAT_MS 10000
#define STREAM_TYPE  "text/event-stream; charset=utf-8"

/* Asked for at once: more than 5,000 steps a second leave a gap. */
#define STEPS_AT_ONCE 512u
/* Points of a device that are sent: what fits into 4 KB with eight devices. */
#define POINTS_PER_DEVICE 8u

enum {
    TOPIC_STATUS,
    TOPIC_BOTTLENECKS,
    TOPIC_OPS,
    TOPIC_STEPS,
    TOPIC_MEMORY,
    TOPIC_GPU
};

static const char *const topics[] = {"status", "bottlenecks", "ops", "steps",
                                     "memory", "gpu",         NULL};

/* What a channel remembers between two ticks. */
struct news {
    char session[64]; /* that was shown: another one means reset */
    uint64_t rev[sizeof(topics) / sizeof(topics[0])];
    uint64_t steps, memory, gpu; /* cursors */
    int64_t host_ns; /* newest sample of the process's memory that was told */
};

static bool parse_key(const char *key, struct selection *selection)
{
    int used = 0;

    *selection = (struct selection){.rank = SELECT_ANY};
    if (sscanf(key, "%" SCNd32 " %n", &selection->rank, &used) != 1 || used == 0 ||
        strlen(key + used) >= sizeof(selection->session))
        return false;
    memcpy(selection->session, key + used, strlen(key + used) + 1);
    return true;
}

static void print(cJSON *document, struct bytes *out)
{
    char *text = document == NULL ? NULL : cJSON_PrintUnformatted(document);

    if (text != NULL)
        bytes_text(out, text);
    else
        out->failed = true;
    cJSON_free(text);
    cJSON_Delete(document);
}

/* True when the session behind an answer is another than before. */
static bool moved(struct news *news, const struct answer *head)
{
    bool other = news->session[0] != '\0' && strcmp(news->session, head->session) != 0;

    if (other) {
        news->steps = news->memory = news->gpu = 0;
        news->host_ns = 0;
    }
    memcpy(news->session, head->session, sizeof(news->session));
    return other;
}

static bool build_status(struct api *api, const struct selection *selection,
                         struct news *news, struct bytes *out)
{
    struct status_brief brief;
    bool reset = false;
    int error = status_brief_query(api->store, selection, &brief);

    if (error == 0)
        reset = moved(news, &brief.head);
    if (error == 0 || error == -ENOENT) /* a viewer may come before the first run */
        print(stream_status_json(&brief), out);
    answer_free(&brief.head);
    return reset;
}

static void build_bottlenecks(struct api *api, const struct selection *selection,
                              struct news *news, struct bytes *out)
{
    struct bottlenecks_request request = {0};
    struct bottlenecks_answer answer;
    struct judgement judgement;

    if (bottlenecks_query(api->store, selection, &request, &answer) == 0 &&
        answer.head.rev != news->rev[TOPIC_BOTTLENECKS]) {
        news->rev[TOPIC_BOTTLENECKS] = answer.head.rev;
        replays_known(api->replays, selection, &answer);
        judge_findings(api->judge, api->runs, selection, &answer, &judgement);
        print(stream_bottlenecks_json(&answer, &judgement), out);
        judgement_free(&judgement);
    }
    bottlenecks_free(&answer);
}

static void build_ops(struct api *api, const struct selection *selection,
                      struct news *news, struct bytes *out)
{
    struct ops_request request = {.device = OPS_CPU, .k = STREAM_OPS};
    struct selection minute = *selection;
    struct ops_answer cpu, cuda;
    int error;

    minute.window = (struct window){.kind = WINDOW_LAST_NS, .a = INT64_C(60000000000)};
    error = ops_query(api->store, &minute, &request, &cpu);
    request.device = OPS_ACCELERATOR;
    error |= ops_query(api->store, &minute, &request, &cuda);
    if (error == 0 && cpu.head.rev != news->rev[TOPIC_OPS]) {
        news->rev[TOPIC_OPS] = cpu.head.rev;
        print(stream_ops_json(&cpu, &cuda), out);
    }
    answer_free(&cpu.head);
    answer_free(&cuda.head);
}

static bool is_gap(const struct answer *head)
{
    return head->reason != NULL && strcmp(head->reason, "gap") == 0;
}

static bool build_steps(struct api *api, const struct selection *selection,
                        struct news *news, struct bytes *out)
{
    struct steps_answer answer;
    bool gap = false;

    if (steps_since(api->store, selection, &news->steps, STEPS_AT_ONCE, &answer) == 0) {
        gap = is_gap(&answer.head);
        if (answer.row_count > 0)
            print(stream_steps_json(&answer), out);
    }
    answer_free(&answer.head);
    return gap;
}

static bool build_memory(struct api *api, const struct selection *selection,
                         struct news *news, struct bytes *out)
{
    struct memory_answer answer;
    bool gap = false, any;

    if (memory_since(api->store, selection, &news->memory, POINTS_PER_DEVICE,
                     &answer) == 0) {
        struct memory_host *host = &answer.host;
        int64_t newest =
            host->point_count > 0 ? host->points[host->point_count - 1].time_ns : 0;

        if (newest <= news->host_ns)
            host->point_count = 0; /* told */
        else
            news->host_ns = newest;
        any = host->point_count > 0;
        for (uint32_t i = 0; i < answer.device_count; i++)
            any = any || answer.devices[i].point_count > 0;
        gap = is_gap(&answer.head);
        if (any)
            print(memory_points_json(&answer, POINTS_PER_DEVICE), out);
    }
    answer_free(&answer.head);
    return gap;
}

static bool build_gpu(struct api *api, const struct selection *selection,
                      struct news *news, struct bytes *out)
{
    struct gpu_answer answer;
    bool gap = false, any = false;

    if (gpu_since(api->store, selection, &news->gpu, POINTS_PER_DEVICE, &answer) == 0) {
        for (uint32_t i = 0; i < answer.device_count; i++)
            any = any || answer.devices[i].point_count > 0;
        gap = is_gap(&answer.head);
        if (any)
            print(gpu_points_json(&answer), out);
    }
    answer_free(&answer.head);
    return gap;
}

static bool build(void *context, const char *key, unsigned topic, void **memory,
                  struct bytes *out)
{
    struct selection selection;
    struct api *api = context;
    struct news *news;

    if (*memory == NULL)
        *memory = calloc(1, sizeof(struct news));
    news = *memory;
    if (news == NULL || !parse_key(key, &selection))
        return false;
    switch (topic) {
    case TOPIC_STATUS:
        return build_status(api, &selection, news, out);
    case TOPIC_BOTTLENECKS:
        build_bottlenecks(api, &selection, news, out);
        return false;
    case TOPIC_OPS:
        build_ops(api, &selection, news, out);
        return false;
    case TOPIC_STEPS:
        return build_steps(api, &selection, news, out);
    case TOPIC_MEMORY:
        return build_memory(api, &selection, news, out);
    default:
        return build_gpu(api, &selection, news, out);
    }
}

static void forget(void *context, void *memory)
{
    (void)context;
    free(memory);
}

struct hub_source stream_source(struct api *api)
{
    return (struct hub_source){.topics = topics,
                               .slow_topics = 1u << TOPIC_STATUS |
                                              1u << TOPIC_BOTTLENECKS | 1u << TOPIC_OPS,
                               .build = build,
                               .forget = forget,
                               .context = api};
}

/* "steps,memory" to bits; 0 when a name is unknown. */
static uint32_t parse_topics(const char *text)
{
    uint32_t bits = 0;

    while (*text != '\0') {
        size_t size = strcspn(text, ",");
        uint32_t bit = 0;

        for (unsigned i = 0; topics[i] != NULL; i++) {
            if (strlen(topics[i]) == size && strncmp(topics[i], text, size) == 0)
                bit = 1u << i;
        }
        if (bit == 0)
            return 0;
        bits |= bit;
        text += size;
        text += *text == ',';
    }
    return bits;
}

static void stream_loop(struct http_call *call, struct hub_client *client)
{
    static const struct http_answer head = {
        .status = 200,
        .type = STREAM_TYPE,
        .headers = "X-Accel-Buffering: no\r\n"}; /* nginx would hold events back */
    struct bytes out = {0};
    bool alive = http_stream_begin(call, &head);

    hub_lend(client, http_stream_socket(call));
    bytes_text(&out, "retry: 2000\n\n");
    while (alive) {
        int taken;

        alive = !out.failed && http_stream_write(call, out.data, out.size);
        out.size = 0;
        taken = alive ? hub_take(client, HEARTBEAT_MS, &out) : -1;
        if (taken < 0)
            break;
        if (taken == 0)
            bytes_text(&out, ": still here\n\n");
    }
    bytes_close(&out);
}

/* A session that was named must be there; without a name any will do. */
static bool session_exists(struct api *api, const struct selection *selection)
{
    struct status_brief brief;
    int error = status_brief_query(api->store, selection, &brief);

    answer_free(&brief.head);
    return error != -ENOENT || selection->session[0] == '\0';
}

void stream_serve(struct http_call *call, void *context)
{
    struct server_context *parts = context;
    const struct http_request *request = http_request(call);
    struct api_call parameters = {.api = &parts->api, .status = 200};
    struct hub_client *client;
    char key[HUB_KEY_BYTES];
    const char *wanted;
    uint32_t bits;

    query_parse(&parameters.query, request->query);
    wanted = query_text(&parameters.query, "topics");
    bits = wanted == NULL ? 0xff : parse_topics(wanted);
    if (bits == 0)
        query_refuse(&parameters.query, "topics",
                     "expected some of: status,bottlenecks,ops,steps,memory,gpu");
    if (!api_select(&parameters)) {
        http_refuse(call, 400, parameters.query.field, parameters.query.error);
        return;
    }
    if (!session_exists(&parts->api, &parameters.selection)) {
        http_refuse(call, 404, "session", "no such session or rank");
        return;
    }
    (void)snprintf(key, sizeof(key), "%" PRId32 " %s", parameters.selection.rank,
                   parameters.selection.session);
    if (request->method == HTTP_HEAD) {
        http_answer(call, &(struct http_answer){.status = 200, .type = STREAM_TYPE});
        return;
    }
    client = hub_join(parts->hub, key, bits, request->last_event_id);
    if (client == NULL) {
        http_refuse(call, 503, NULL, "as many viewers as this server takes");
        return;
    }
    stream_loop(call, client);
    hub_leave(client);
}
