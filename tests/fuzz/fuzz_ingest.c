/* The way from a segment to an answer, with any bytes: as the whole file, or as the
 * events of a file that is otherwise in order. No crash, no endless loop, and the store
 * answers afterwards. */
#include <string.h>
#include <unistd.h>

#include "../unit/fake_segment.h"
#include "findings/findings.h"
#include "fuzz.h"
#include "ingest/guard.h"
#include "ingest/source.h"
#include "query/host_query.h"
#include "query/ranks_query.h"
#include "query/status_query.h"
#include "query/trace_query.h"

#define SEGMENT_BYTES ((uint64_t)WIRE_BYTES_SMALL)
#define RING_EVENTS   256u

static char directory[128];
static struct fake fake;
static unsigned char *pristine; /* of the well-formed segment */

static void ask(struct store *store, const struct window *window)
{
    struct selection whose = {.rank = SELECT_ANY, .window = *window};
    struct steps_answer steps;
    struct bottlenecks_answer summary;
    struct findings findings;
    struct trace_answer trace;
    struct status_answer status;
    struct ranks_answer ranks;
    struct memory_answer memory;

    (void)!steps_query(store, &whose, &(struct steps_request){.points = 50}, &steps);
    answer_free(&steps.head);
    if (bottlenecks_query(store, &whose, &(struct bottlenecks_request){0}, &summary) ==
        0) {
        findings_find(&summary, NULL, &findings);
        findings_free(&findings);
    }
    bottlenecks_free(&summary);
    (void)!trace_query(store, &whose, &(struct trace_request){.all_ranks = true},
                       &trace);
    trace_release(&trace);
    (void)!status_query(store, &whose, &status);
    answer_free(&status.head);
    (void)!ranks_query(store, &whose, &ranks);
    answer_free(&ranks.head);
    (void)!memory_query(store, &whose, &(struct memory_request){0}, &memory);
    answer_free(&memory.head);
}

static void take_in(const char *path)
{
    static struct source source;
    static const struct window windows[] = {
        {.kind = WINDOW_RUN},
        {.kind = WINDOW_LAST_STEPS, .a = 3},
        {.kind = WINDOW_STEPS, .a = 1, .b = 5},
        {.kind = WINDOW_EPOCH, .a = 1},
    };
    struct store *store =
        store_new(&(struct store_limits){.history_bytes = 65536, .digest_bytes = 8192});

    if (source_open(&source, store, path) == 0) {
        source_find_rings(&source, store);
        for (int i = 0; i < 100 && source.state == SOURCE_LIVE; i++)
            if (source_drain(&source, store, 4096) == 0)
                break;
        if (source.state == SOURCE_LIVE)
            source_look(&source, store, 1);
        if (source.state == SOURCE_LIVE)
            source_finish(&source, store);
        source_close(&source);
    }
    for (size_t i = 0; i < sizeof(windows) / sizeof(windows[0]); i++)
        ask(store, &windows[i]);
    store_free(store);
}

static void prepare(void)
{
    if (pristine != NULL)
        return;
    if (!guard_install())
        abort();
    fake_directory(directory, sizeof(directory));
    fake_open(&fake, directory, "fuzz", "fuzz", SEGMENT_BYTES);
    fake_thread(&fake, 0, RING_EVENTS);
    fake_thread(&fake, 1, RING_EVENTS);
    for (char name[] = "a"; name[0] < 'h'; name[0]++)
        (void)fake_name(&fake, name);
    pristine = malloc(SEGMENT_BYTES);
    memcpy(pristine, fake.base, SEGMENT_BYTES);
}

/* Events as they come, in turns on two threads. */
static void write_events(const uint8_t *data, size_t size)
{
    for (size_t at = 0; at + sizeof(struct event) <= size; at += sizeof(struct event)) {
        struct event event;

        memcpy(&event, data + at, sizeof(event));
        ring_push(&fake.rings[(at / sizeof(event)) % 2], event);
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    prepare();
    if (size < 2)
        return 0;
    memcpy(fake.base, pristine, SEGMENT_BYTES);
    for (uint32_t i = 0; i < 2; i++)
        fake.rings[i].pos = 0;
    if (data[0] % 2 == 0)
        write_events(data + 1, size - 1);
    else
        memcpy(fake.base, data + 1,
               size - 1 < SEGMENT_BYTES ? size - 1 : SEGMENT_BYTES);
    take_in(fake.path);
    return 0;
}
