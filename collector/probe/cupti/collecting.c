/* Takes what CUPTI gives back, and finds out when another profiler gets it instead. */
#include "probe/cupti/buffers.h"
#include "probe/cupti/flushing.h"
#include "probe/cupti/session_inside.h"
#include "probe/cupti/watchdog.h"
#include "probe/cupti/words.h"
#include "probe/probe.h"

#define SILENT_NS    UINT64_C(3000000000)  /* steps, but not a buffer: stolen? */
#define UNTRIED_NS   UINT64_C(20000000000) /* and not one since the first of them */
#define SILENT_STEPS 3u
#define READING      "a question for what it has dropped" /* all that it is asked then */

/* Since the last buffer came, but not while the job only prepares: it may do so for as long
 * as it likes, and nobody is suspected. */
static uint64_t without_life_ns(void)
{
    uint64_t now = session_now_ns();

    if (session.begun_ns == 0 && probe_step_number() > 0)
        session.begun_ns = now;
    return session.begun_ns == 0
               ? 0
               : now - (session.alive_ns > session.begun_ns ? session.alive_ns
                                                            : session.begun_ns);
}

void session_look_for_life(void)
{
    uint64_t gap_ns = without_life_ns();

    if (buffers_completed() == session.alive_buffers)
        return;
    if (session.on && gap_ns > session.longest_gap_ns &&
        probe_step_number() > session.alive_steps)
        session.longest_gap_ns = gap_ns;
    session.worked = true;
    session.suspicious = false;
    session.retry_wait_ns = RETRY_NS;
    session_note_alive(session.flush_ticks > session.alive_ticks ? session.flush_ticks
                                                                 : session.alive_ticks,
                       buffers_completed_step());
}

void session_collect(uint32_t flags)
{
    session.flush_ticks = probe_ticks();
    session_call_begins("a flush");
    int error = session.cupti.flush(flags);

    if (flushing_ended(error, watchdog_end()))
        session_recover();
    (void)session_look_at_clock();
    session_look_for_life();
}

/* Nobody is let wait for CUPTI because of readers of a ring. */
static bool pause_for_readers(unsigned ms)
{
    if (words_leaving() || words_yielding())
        return false;
    session_call_ends();
    session_pause(ms);
    session_call_begins(READING);
    return true;
}

void session_read_collected(void)
{
    session_call_begins(READING);
    drain_ask(&session.drain);
    (void)drain_buffers(&session.drain, pause_for_readers);
    session_call_ends();
    session.drain.ours_ticks = !session.on           ? 0
                               : session_is_silent() ? session.alive_ticks
                                                     : session.flush_ticks;
    drain_tell(&session.drain);
}

void session_flush(uint32_t flags)
{
    session_collect(flags);
    session_read_collected();
}

/* A buffer with a kernel that still runs is not given back by a flush: of a device that
 * is always behind each comes when it is full, however long that takes. What it took
 * before the steps, as for the weights, tells nothing of that. */
static uint64_t silent_ns(void)
{
    uint64_t usual = session.alive_ns < session.begun_ns ? UNTRIED_NS : SILENT_NS;

    return 4 * session.longest_gap_ns > usual ? 4 * session.longest_gap_ns : usual;
}

void session_lose_silence(void)
{
    drain_lose(buffers_known(session.alive_ticks), probe_ticks(), 0);
}

void session_keep_off(void)
{
    session.on = false;
    atomic_store_explicit(&session.on_since, 0, memory_order_relaxed);
    session_lose_silence();
    drain_give_up(&session.drain);
}

void session_watch(void)
{
    uint64_t gap_ns = without_life_ns();
    uint64_t steps = probe_step_number() - session.alive_steps;

    if (!session_is_silent() || steps < SILENT_STEPS ||
        gap_ns < (session.suspicious ? silent_ns() / 3 : silent_ns()))
        return;
    session_keep_off(); /* until his window must be over */
    session_whole_graphs_give_up();
    session_promise_zeroes(0);
    if (flushing_fails()) { /* why is told, and nobody is to blame */
        session.state = WIRE_STATE_UNAVAILABLE;
        session.why = "its flush fails";
        session_retry_later();
        return;
    }
    session_become(
        WIRE_STATE_STOLEN,
        session.suspicious
            ? "another profiler of this process has taken CUPTI: its clock "
              "changed and nothing comes any more"
            : "steps end, and no GPU work has come for seconds: another profiler of "
              "this process may have taken CUPTI or ended it, or the job has "
              "called cudaProfilerStop");
    session_retry_later();
}
