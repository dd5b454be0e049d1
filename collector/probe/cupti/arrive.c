#include "probe/cupti/arrive.h"

#include <stdatomic.h>
#include <unistd.h>

#include "probe/cupti/state.h"
#include "probe/cupti/watchdog.h"
#include "probe/cupti/words.h"
#include "probe/probe.h"
#include "wire/clock.h"
#include "wire/facts.h"

#define POLL_MS       100u
#define REST_MS       1000u
#define SEGMENT_TRIES 600u
#define LIBRARY_NS    UINT64_C(60000000000)
#define PLACES_BYTES  512u /* of 36 devices, or the multiprocessors of 12 unlike ones */

static bool wait_for_segment(const struct arrival *arrival)
{
    for (unsigned i = 0; i < SEGMENT_TRIES; i++) {
        if (probe_is_open())
            return true;
        if (!arrival->rest(POLL_MS))
            return false;
    }
    return false;
}

static uint64_t down_ns; /* our thread's: when CUDA was last seen to be down; 0 */

uint64_t arrive_down_ns(void)
{
    if (down_ns != 0 ||
        atomic_load_explicit(&cupti_words.injected, memory_order_acquire) !=
            (uint32_t)getpid())
        return down_ns;
    return atomic_load_explicit(&cupti_words.injected_ns, memory_order_relaxed);
}

static bool wait_for_device(const struct arrival *arrival)
{
    bool said = false;
    unsigned ms = 1;

    for (;;) {
        uint64_t asked_ns = clock_ns(CLOCK_MONOTONIC);
        enum cupti_driver driver = cupti_driver_state();

        if (driver == CUPTI_DRIVER_READY)
            return true;
        down_ns = asked_ns;
        if (driver == CUPTI_DRIVER_NO_GPU) {
            arrival->say("the CUDA driver sees no GPU");
            return false;
        }
        if (ms == REST_MS && !said) {
            said = true;
            arrival->say("the CUDA driver was not initialised: there is no GPU, or it "
                         "failed");
        }
        if (!arrival->hurry(ms))
            return false;
        ms = ms < REST_MS / 2 ? 2 * ms : REST_MS;
    }
}

static int open_library(struct cupti_library *library, const char **reason)
{
    watchdog_begin("being loaded", 0);
    int error = cupti_library_open(library, reason);

    (void)watchdog_end(); /* what comes of it is said */
    return error;
}

static bool wait_for_library(struct cupti_library *library,
                             const struct arrival *arrival)
{
    const char *reason = NULL;
    uint64_t end = clock_ns(CLOCK_MONOTONIC) + LIBRARY_NS;

    while (open_library(library, &reason) != 0) {
        arrival->say(reason);
        if (clock_ns(CLOCK_MONOTONIC) >= end || !arrival->rest(REST_MS))
            return false;
    }
    return true;
}

bool arrive(struct cupti_library *library, const struct arrival *arrival)
{
    char places[PLACES_BYTES];

    if (!wait_for_segment(arrival) || !wait_for_device(arrival))
        return false;
    if (cupti_driver_places(places, sizeof(places)))
        probe_fact_text(FACT_DEVICE_PCI, places);
    if (cupti_driver_multiprocessors(places, sizeof(places)))
        probe_fact_text(FACT_DEVICE_MULTIPROCESSOR, places);
    return wait_for_library(library, arrival);
}

static void never_called(void *user, uint32_t domain, uint32_t call, const void *data)
{
    (void)user, (void)domain, (void)call, (void)data;
}

bool arrive_is_free(const struct cupti_library *library, bool ask,
                    const struct arrival *arrival)
{
    const char *foreign = state_foreign();
    void *subscriber = NULL;

    if (foreign == NULL && ask && library->subscribe != NULL &&
        library->unsubscribe != NULL) {
        watchdog_begin("a subscription", 0);
        int error = library->subscribe(&subscriber, never_called, NULL);

        if (error == CUPTI_OK)
            (void)library->unsubscribe(subscriber);
        (void)watchdog_end();
        if (error != CUPTI_OK)
            foreign = state_reason(error);
    }
    if (foreign != NULL)
        arrival->say(foreign);
    return foreign == NULL;
}
