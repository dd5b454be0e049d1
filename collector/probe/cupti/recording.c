/* Turns CUPTI's kinds of records on and off, and knows what is. */
#include <stdio.h>
#include <string.h>

#include "probe/cupti/arrive.h"
#include "probe/cupti/buffers.h"
#include "probe/cupti/session_inside.h"
#include "probe/cupti/state.h"
#include "probe/cupti/watchdog.h"
#include "probe/cupti/words.h"
#include "probe/probe.h"

#define UNSURE_STEPS 2u /* ended without a buffer: one of them was a whole step */
#define RETRY_MAX_NS UINT64_C(600000000000)

/* CUpti_ActivityAttribute: its buffers are zeroed by us, not in a CUDA call. */
#define ZEROED_BUFFERS 5u

/* CUPTI 12.6: up to 12.5 it may crash where it records graphs as a whole (its release notes
 * of 12.2, 12.4 Update 1 and 12.5 Update 1). */
#define WHOLE_GRAPHS_VERSION 24u
/* CUPTI 13.0 crashes where it is told so after a graph was instantiated without it (an H200).
 * So soon after CUDA came up no job has one: it makes a context first, and warms up. */
#define WHOLE_GRAPHS_NS UINT64_C(500000000)

struct session session;

uint64_t session_now_ns(void)
{
    return clock_ns(CLOCK_MONOTONIC);
}

void session_pause(unsigned ms)
{
    static _Atomic uint32_t nobody;

    words_wait(&nobody, 0, ms);
}

void session_become(enum wire_source_state next, const char *reason)
{
    session.state = next;
    session.why = reason != NULL ? reason : "";
    state_say(next, reason, session.detail[0] != '\0' ? session.detail : NULL);
}

/* ---- calls that may hang ----------------------------------------------------------- */

void session_recover(void)
{
    if (atomic_load_explicit(&session.on_since, memory_order_relaxed) != 0)
        atomic_store_explicit(&session.on_since, probe_ticks(), memory_order_relaxed);
    state_say(session.state, session.why, NULL);
}

void session_call_begins(const char *call)
{
    watchdog_begin(call, session.drain.known_ticks);
}

void session_call_ends(void)
{
    if (watchdog_end())
        session_recover();
}

enum stamps_change session_take_stamp(void)
{
    session_call_begins("a question for the time");
    enum stamps_change change =
        stamps_take(&session.drain.stamps, session.cupti.get_timestamp);

    session_call_ends();
    return change;
}

/* ---- on and off -------------------------------------------------------------------- */

static const uint32_t kinds[] = {CUPTI_KERNEL, CUPTI_MEMCPY, CUPTI_PEER_COPY,
                                 CUPTI_MEMSET, CUPTI_OVERHEAD};
#define KINDS (sizeof(kinds) / sizeof(kinds[0]))

void session_note_alive(uint64_t ticks, uint64_t steps)
{
    session.alive_ns = session_now_ns();
    session.alive_ticks = ticks;
    session.alive_buffers = buffers_completed();
    session.alive_steps = steps;
}

bool session_is_silent(void)
{
    return session.on && (session.worked || session.suspicious) &&
           buffers_completed() == session.alive_buffers;
}

bool session_is_unsure(void)
{
    return session_is_silent() &&
           (session.suspicious || session.alive_buffers == session.on_buffers ||
            probe_step_number() - session.alive_steps >= UNSURE_STEPS);
}

void session_say_clock(void)
{
    enum stamps_clock clock = stamps_clock(&session.drain.stamps);

    if (clock == session.detail_clock && session.graphs == session.detail_graphs)
        return;
    session.detail_clock = clock;
    session.detail_graphs = session.graphs;
    state_detail(&session.cupti, session.drain.kinds_known, stamps_clock_name(clock),
                 session.detail, sizeof(session.detail));
    (void)snprintf(session.detail + strlen(session.detail),
                   sizeof(session.detail) - strlen(session.detail), "%s",
                   session.graphs);
    state_say(session.state, NULL, session.detail);
}

bool session_look_at_clock(void)
{
    bool changed = session_take_stamp() == STAMPS_OTHER_CLOCK;

    if (changed) {
        session_note_alive(buffers_completed() != session.alive_buffers
                               ? session.flush_ticks
                               : session.alive_ticks,
                           probe_step_number());
        session.suspicious = true;
    }
    session_say_clock();
    return changed;
}

/* CUDA graphs as a whole, where that is wanted. Those that are instantiated while this is
 * off are not recorded while it is on, nor are their nodes: so it is on from the start, for
 * as long as CUPTI is ours, and never again. */
void session_whole_graphs_on(void)
{
    uint64_t down_ns = arrive_down_ns();

    if (!session.wants_graphs)
        return;
    if (session.cupti.version < WHOLE_GRAPHS_VERSION) {
        session.graphs =
            ", CUDA graphs by their nodes: this CUPTI may crash on the whole";
    } else if (atomic_load_explicit(&cupti_words.yielded, memory_order_relaxed) != 0) {
        session.graphs =
            ", CUDA graphs by their nodes: another profiler was here before";
    } else if (down_ns == 0 || session_now_ns() - down_ns > WHOLE_GRAPHS_NS) {
        session.graphs =
            ", CUDA graphs by their nodes: CUDA may have been in use before";
    } else {
        session_call_begins("turning recording on");
        session.graphs_on = session.cupti.enable(CUPTI_GRAPH) == CUPTI_OK;
        session_call_ends();
        session.graphs = session.graphs_on
                             ? ", CUDA graphs as a whole: copies, collectives and gaps "
                               "within count as compute"
                             : ", CUDA graphs by their nodes: CUPTI refuses the whole";
    }
    session.wants_graphs = session.graphs_on;
}

void session_whole_graphs_off(void)
{
    session_call_begins("turning recording off");
    (void)session.cupti.disable(CUPTI_GRAPH);
    session_call_ends();
    session.graphs_on = false;
}

void session_whole_graphs_give_up(void)
{
    if (!session.graphs_on)
        return;
    session_whole_graphs_off();
    session.wants_graphs = false;
    session.graphs = ", CUDA graphs by their nodes since another profiler recorded";
}

void session_retry_later(void)
{
    session.retry_ns = session_now_ns() + session.retry_wait_ns;
    session.retry_wait_ns = session.retry_wait_ns < RETRY_MAX_NS / 2
                                ? 2 * session.retry_wait_ns
                                : RETRY_MAX_NS;
}

/* Calls first and last: a kernel without its call's record has no correlation. */
static void all_kinds_off(void)
{
    session_call_begins("turning recording off");
    for (size_t i = 0; i < KINDS; i++)
        (void)session.cupti.disable(kinds[i]);
    (void)calls_enable(&session.drain.calls, &session.cupti, false);
    session_call_ends();
}

/* As another profiler had them, with all of their calls: nobody knows which he wants. */
static void all_kinds_on_again(void)
{
    session_call_begins("turning recording on");
    (void)session.cupti.enable(CUPTI_RUNTIME);
    (void)session.cupti.enable(CUPTI_DRIVER);
    for (size_t i = 0; i < KINDS; i++)
        (void)session.cupti.enable(kinds[i]);
    session_call_ends();
    if (session.on)
        atomic_store_explicit(&session.on_since, probe_ticks(), memory_order_relaxed);
}

/* Kinds are everybody's, and CUPTI does not say whose: who begins between a look and the
 * last of our calls has his turned off with ours. But before he turns any on he sets his
 * clock, or has given up waiting for us. So we look once more behind our last call, and
 * what is his by then is on again; false. He misses what was launched in between. */
bool session_switch_off(void)
{
    atomic_store_explicit(&session.on_since, 0, memory_order_relaxed);
    all_kinds_off();
    if (session_look_at_clock() || words_too_late()) {
        all_kinds_on_again();
        return false;
    }
    session.on = false;
    session.off_ns = session_now_ns();
    session.off_ticks = probe_ticks();
    return true;
}

void session_switch_on(void)
{
    session_call_begins("turning recording on");
    int error = calls_enable(&session.drain.calls, &session.cupti, true);

    if (error == CUPTI_OK)
        error = session.cupti.enable(CUPTI_KERNEL);
    for (size_t i = 1; i < KINDS && error == CUPTI_OK; i++)
        (void)session.cupti.enable(
            kinds[i]); /* without one of them there is still much */
    session_call_ends();
    if (error != CUPTI_OK) {
        (void)session_switch_off();
        session_whole_graphs_give_up();
        session_become(WIRE_STATE_UNAVAILABLE, state_reason(error));
        session_retry_later();
        return;
    }
    session.on = true;
    session_note_alive(probe_ticks(), probe_step_number());
    session.on_buffers = session.alive_buffers;
    atomic_store_explicit(&session.on_since, probe_ticks(), memory_order_relaxed);
}

void session_promise_zeroes(size_t zeroed)
{
    size_t bytes = sizeof(zeroed);

    if (session.cupti.set_attribute == NULL)
        return;
    session_call_begins("being told of its buffers");
    (void)session.cupti.set_attribute(ZEROED_BUFFERS, &bytes, &zeroed);
    session_call_ends();
}
