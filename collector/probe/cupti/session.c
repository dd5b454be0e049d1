#include "probe/cupti/session.h"

#include <sys/prctl.h>

#include "probe/cupti/arrive.h"
#include "probe/cupti/buffers.h"
#include "probe/cupti/session_inside.h"
#include "probe/cupti/state.h"
#include "probe/cupti/watchdog.h"
#include "probe/cupti/words.h"
#include "probe/probe.h"

#define FLUSH_MS 100u
#define IDLE_MS  1000u
#define TAIL_NS  UINT64_C(5000000000) /* after the last step: stragglers */
#define HURRY_MS 5u
/* What runs when CUPTI is given away ends in a moment; waiting in vain makes the next
 * wait a quarter as long, for a buffer that nobody has written to may never come. */
#define STRAGGLER_MS     200u
#define STRAGGLER_MS_MIN 10u
#define STRAGGLER_REST   10u
/* A buffer that is not back so long after we have registered went to another profiler. */
#define RECLAIM_NS UINT64_C(10000000000)

/* CUpti_ActivityAttribute: each thread has a buffer of its own. */
#define PER_THREAD_BUFFERS 9u

/* A part of the time in which whole graphs may begin: is CUDA up? */
#define WHOLE_GRAPHS_LOOK_MS 100u

/* ---- rests ------------------------------------------------------------------------ */

/* Rests until somebody wishes something that was not seen by `seen`. */
static void rest(uint32_t seen, unsigned ms)
{
    if (!words_leaving())
        words_wait(&cupti_words.wake, seen, ms);
}

static bool pause_for_stragglers(unsigned ms)
{
    if (words_leaving() || words_too_late())
        return false;
    session_pause(ms);
    return true;
}

/* ---- whose turn it is -------------------------------------------------------------- */

/* As torch's profiler has it, and every CUPTI before 13: a thread that launches little
 * keeps no buffer for long. Only before anybody was given one. */
static void share_buffers(void)
{
    static bool done;
    uint8_t per_thread = 0;
    size_t bytes = sizeof(per_thread);

    if (!done && session.cupti.set_attribute != NULL &&
        atomic_load_explicit(&cupti_words.yielded, memory_order_relaxed) == 0) {
        session_call_begins("being told of its buffers");
        (void)session.cupti.set_attribute(PER_THREAD_BUFFERS, &bytes, &per_thread);
        session_call_ends();
    }
    done = true;
}

static int register_ours(void)
{
    session_call_begins("registering for its buffers");
    int error = session.cupti.register_callbacks(buffers_request, buffers_complete);

    if (error == CUPTI_OK && session.cupti.set_thread_ids != NULL)
        (void)session.cupti.set_thread_ids(1);
    session_call_ends();
    return error;
}

static bool take(void)
{
    if (!words_go_in())
        return false;
    share_buffers();
    buffers_registered();
    /* Either we see that he yields, who may have begun since we went in; or he sees that
     * we register, and waits for it. */
    atomic_store(&cupti_words.registering, 1);
    if (atomic_load(&cupti_words.yields) != 0) {
        atomic_store(&cupti_words.registering, 0);
        words_let_go();
        return false;
    }
    int error = register_ours();

    atomic_store(&cupti_words.registering, 0);
    if (words_yielding()) { /* he waits: no promise of ours holds for his buffers */
        words_let_go();
        return false;
    }
    if (error != CUPTI_OK) {
        words_let_go();
        session_become(WIRE_STATE_UNAVAILABLE, state_reason(error));
        session_retry_later();
        return false;
    }
    session_promise_zeroes(1);
    session_whole_graphs_on();
    (void)session_take_stamp();
    session_say_clock();
    session.suspicious = session.worked = false;
    session.longest_gap_ns = 0;
    session.reclaim_ns = buffers_lent() > 0 ? session_now_ns() + RECLAIM_NS : 0;
    session_become(WIRE_STATE_ACTIVE, NULL);
    return true;
}

/* What is lent when another profiler registers goes to him, and is lost. */
static void wait_for_stragglers(void)
{
    uint64_t end = session_now_ns() + UINT64_C(1000000) * session.straggler_ms;

    session_flush(0);
    while (buffers_lent() > 0 && session_now_ns() < end &&
           pause_for_stragglers(STRAGGLER_REST))
        session_flush(0);
    if (buffers_lent() == 0)
        session.straggler_ms = STRAGGLER_MS;
    else if (session.straggler_ms / 4 >= STRAGGLER_MS_MIN)
        session.straggler_ms /= 4;
}

static const char *given_to(void)
{
    return words_for_good()
               ? "given to torch.profiler's second backend (cuspy) until the job ends: "
                 "it keeps CUPTI after its windows, and its traces alone have GPU work"
               : "given to torch.profiler while it records: its trace has "
                 "the GPU work of this time";
}

/* Who comes waits for all of this, but not forever: when he has begun, what is on is his
 * and stays on. Zeroes are promised of his buffers then, until we take it back. */
static void give_away(void)
{
    bool was_on = session.on, too_late = words_too_late();

    session_look_for_life();
    if (!too_late && session_is_unsure())
        session_lose_silence();
    if (session.on && (too_late || !session_switch_off())) {
        session_keep_off();
        too_late = true;
    }
    session_whole_graphs_give_up();
    if (session.state == WIRE_STATE_ACTIVE)
        session_promise_zeroes(0);
    if (!too_late &&
        (was_on || (session.state == WIRE_STATE_ACTIVE && buffers_held() > 0)))
        wait_for_stragglers();
    session_become(WIRE_STATE_YIELDED, given_to());
    words_let_go();
}

/* Turns kinds on and off with the steps. They stay on where nothing has come from this
 * block: until a buffer says that they are ours, or there is no doubt that they are not. */
static void follow_steps(void)
{
    bool want = atomic_load_explicit(&cupti_words.wanted, memory_order_relaxed) != 0;

    if (words_yielding() || words_too_late())
        return; /* since this turn began */
    if (want && !session.on) {
        session_switch_on();
    } else if (!want && session.on) {
        session_look_for_life();
        if (!session_is_unsure())
            (void)session_look_at_clock();
        if (!session_is_unsure())
            (void)session_switch_off();
    }
}

/* One turn of our thread; how long it may rest then, in ms. */
static unsigned turn(void)
{
    bool yielding = words_yielding();

    if (yielding || words_too_late()) {
        if (session.state != WIRE_STATE_YIELDED)
            give_away();
        else if (session.why != given_to()) /* one has come for good meanwhile */
            session_become(WIRE_STATE_YIELDED, given_to());
        atomic_store_explicit(&cupti_words.in_vain, 0, memory_order_relaxed);
    }
    if (yielding)
        return IDLE_MS;
    if (session.state != WIRE_STATE_ACTIVE &&
        ((session.state != WIRE_STATE_YIELDED && session_now_ns() < session.retry_ns) ||
         !take()))
        return IDLE_MS;
    follow_steps();
    bool ended = buffers_held() == 0 && session.drain.known_ticks >= session.off_ticks;
    bool rests = !session.on && (session_now_ns() - session.off_ns > TAIL_NS || ended);

    if (!session.on &&
        session.drain.known_ticks >= session.off_ticks) /* all of what was on is told */
        session.drain.calls.were_on = false;
    if (rests && !session.graphs_on)
        return IDLE_MS;
    if (session.reclaim_ns != 0 && session_now_ns() >= session.reclaim_ns) {
        session.reclaim_ns = 0;
        session.drain.reclaims = true;
    }
    session_collect(0);
    /* What has come says whose the kinds are, and reading takes long. */
    if (session.state == WIRE_STATE_ACTIVE)
        follow_steps();
    session_read_collected();
    session_watch();
    if (session.state == WIRE_STATE_ACTIVE)
        follow_steps();
    return rests && !session.on ? IDLE_MS : FLUSH_MS;
}

/* ---- start ------------------------------------------------------------------------- */

static bool rest_a_while(unsigned ms)
{
    rest(atomic_load_explicit(&cupti_words.wake, memory_order_relaxed), ms);
    return !words_leaving();
}

static bool rest_in_a_hurry(unsigned ms)
{
    uint32_t left = atomic_load_explicit(&cupti_words.hurry, memory_order_relaxed);

    if (left > 0) {
        atomic_store_explicit(&cupti_words.hurry, left - 1, memory_order_relaxed);
        ms = ms < HURRY_MS ? ms : HURRY_MS;
    }
    if (session.wants_graphs && ms > WHOLE_GRAPHS_LOOK_MS)
        ms = WHOLE_GRAPHS_LOOK_MS;
    return rest_a_while(ms);
}

static void say_unavailable(const char *reason)
{
    session_become(WIRE_STATE_UNAVAILABLE, reason);
}

static void step_ending(const struct probe_step *step)
{
    uint64_t since = atomic_load_explicit(&session.on_since, memory_order_relaxed);
    bool hangs = watchdog_hangs(step->end);

    if ((step->recording & EVENT_STEP_KERNELS) != 0 &&
        (hangs || since == 0 || since > step->start))
        probe_step_missed(EVENT_STEP_KERNELS);
}

static void recording_changed(uint32_t recording)
{
    uint32_t want = (recording & EVENT_STEP_KERNELS) != 0;

    if (atomic_exchange_explicit(&cupti_words.wanted, want, memory_order_relaxed) !=
        want)
        words_wish();
}

static const struct probe_hooks hooks = {.step_ending = step_ending,
                                         .recording_changed = recording_changed};

/* Where a profiler of torch's is at work or was, an older one keeps its subscription: it
 * is not asked for. And one that comes now waits, or finds ours there and does without
 * the GPU until the process ends. */
static bool is_free(const struct arrival *arrival)
{
    bool ask = atomic_load_explicit(&cupti_words.yielded, memory_order_relaxed) == 0;

    if (!words_go_in())
        return true;
    bool free = arrive_is_free(&session.cupti, ask, arrival);

    words_let_go();
    return free;
}

static bool begin(void)
{
    static const struct arrival arrival = {rest_a_while, rest_in_a_hurry,
                                           say_unavailable};

    prctl(PR_SET_NAME, "trainglass-gpu");
    (void)watchdog_end();           /* of the process that forked us */
    if (!probe_hooks_add(&hooks)) { /* first: from now on somebody says what hangs */
        session_become(WIRE_STATE_UNAVAILABLE, "the probe has no room for GPU work");
        return false;
    }
    if (!arrive(&session.cupti, &arrival))
        return false;
    atomic_store_explicit(&cupti_words.arrived, 1, memory_order_relaxed);
    if (!is_free(&arrival))
        return false;
    if (buffers_open() != 0) {
        session_become(WIRE_STATE_UNAVAILABLE, "no memory is left for GPU work");
        return false;
    }
    session_call_begins("a question for its records");
    drain_open(&session.drain, &session.cupti);
    session_call_ends();
    drain_give_up(
        &session.drain); /* who reads knows from the first step on that we tell */
    session.retry_wait_ns = RETRY_NS;
    (void)session_take_stamp();
    session_pause(10); /* two pairs make a line */
    atomic_store_explicit(&cupti_words.wanted,
                          (probe_recording() & EVENT_STEP_KERNELS) != 0,
                          memory_order_relaxed);
    return true;
}

/* What has come since the last flush is told. What may be another profiler's stays on;
 * and where his clock says so no flush is forced, which would take the ends of the kernels
 * that run for him. */
static void leave(void)
{
    bool is_his = false;

    session_look_for_life();
    if (session.on && !session_is_unsure())
        (void)session_look_at_clock();
    if (session_is_unsure())
        session_flush(session.suspicious ? 0 : 1); /* perhaps it only has not come */
    if (session.on &&
        (session_is_unsure() || words_too_late() || !session_switch_off())) {
        session_keep_off();
        is_his = true;
    }
    if (session.graphs_on)
        session_whole_graphs_off();
    if (!is_his)
        session_flush(1);
}

void *session_run(void *whole_graphs)
{
    session.why = session.graphs = session.detail_graphs = "";
    session.straggler_ms = STRAGGLER_MS;
    session.wants_graphs = whole_graphs != NULL;
    if (begin()) {
        while (!words_leaving()) {
            uint32_t seen =
                atomic_load_explicit(&cupti_words.wake, memory_order_acquire);

            rest(seen, turn());
        }
        if (session.state == WIRE_STATE_ACTIVE &&
            (session.on || session.graphs_on || buffers_held() > 0))
            leave();
    }
    atomic_store_explicit(&cupti_words.owner, 0, memory_order_relaxed);
    words_let_go();
    return NULL;
}
