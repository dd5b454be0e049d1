#include "probe/cupti/session.h"

#include <stdio.h>
#include <string.h>
#include <sys/prctl.h>

#include "probe/cupti/arrive.h"
#include "probe/cupti/buffers.h"
#include "probe/cupti/drain.h"
#include "probe/cupti/flushing.h"
#include "probe/cupti/library.h"
#include "probe/cupti/state.h"
#include "probe/cupti/watchdog.h"
#include "probe/cupti/words.h"
#include "probe/probe.h"

#define FLUSH_MS     100u
#define IDLE_MS      1000u
#define TAIL_NS      UINT64_C(5000000000) /* after the last step: stragglers */
#define SILENT_NS    UINT64_C(3000000000) /* steps, but not a buffer: stolen? */
#define UNTRIED_NS   UINT64_C(20000000000) /* and not one since the first of them */
#define SILENT_STEPS 3u
#define UNSURE_STEPS 2u /* ended without a buffer: one of them was a whole step */
#define RETRY_NS     UINT64_C(60000000000) /* a window of another tool is shorter */
#define RETRY_MAX_NS UINT64_C(600000000000)
#define HURRY_MS     5u
#define READING      "a question for what it has dropped" /* all that it is asked then */
/* What runs when CUPTI is given away ends in a moment; waiting in vain makes the next
 * wait a quarter as long, for a buffer that nobody has written to may never come. */
#define STRAGGLER_MS     200u
#define STRAGGLER_MS_MIN 10u
#define STRAGGLER_REST   10u
/* A buffer that is not back so long after we have registered went to another profiler. */
#define RECLAIM_NS UINT64_C(10000000000)

/* CUpti_ActivityAttribute: its buffers are zeroed by us, not in a CUDA call; and each
 * thread has one of its own. */
#define ZEROED_BUFFERS     5u
#define PER_THREAD_BUFFERS 9u

/* CUPTI 12.6: up to 12.5 it may crash where it records graphs as a whole (its release notes
 * of 12.2, 12.4 Update 1 and 12.5 Update 1). */
#define WHOLE_GRAPHS_VERSION 24u
/* CUPTI 13.0 crashes where it is told so after a graph was instantiated without it (an H200).
 * So soon after CUDA came up no job has one: it makes a context first, and warms up. */
#define WHOLE_GRAPHS_NS      UINT64_C(500000000)
#define WHOLE_GRAPHS_LOOK_MS 100u /* a part of it: is CUDA up? */

static _Atomic uint64_t on_since; /* ticks since when all of it is recorded; 0 */

/* Our thread's. */
static struct cupti_library library;
static struct drain drain;
static enum wire_source_state state;
/* It is so, as the page has it but for what hangs or fails. */
static const char *why = "";
static char detail[256];
static enum stamps_clock detail_clock;
static const char *graphs = "", *detail_graphs = ""; /* what the detail says of them */
static bool wants_graphs;                            /* as a whole */
static bool on, graphs_on, suspicious, worked;
/* When the last buffer came, or its kinds were turned on. Up to alive_ticks CUPTI was
 * ours: that is when the flush began which brought it. */
static uint64_t alive_ns, alive_ticks, alive_buffers, alive_steps, flush_ticks;
static uint64_t begun_ns;   /* when a step was first seen to be over; 0 */
static uint64_t on_buffers; /* had come when kinds were turned on */
static uint64_t off_ns, off_ticks, retry_ns, retry_wait_ns;
static uint64_t reclaim_ns;     /* 0: there is nothing to reclaim */
static uint64_t longest_gap_ns; /* without a buffer, though all was well */
static unsigned straggler_ms = STRAGGLER_MS;

/* ---- rests ------------------------------------------------------------------------ */

/* Rests until somebody wishes something that was not seen by `seen`. */
static void rest(uint32_t seen, unsigned ms)
{
    if (!words_leaving())
        words_wait(&cupti_words.wake, seen, ms);
}

static void pause_for(unsigned ms)
{
    static _Atomic uint32_t nobody;

    words_wait(&nobody, 0, ms);
}

static bool pause_for_stragglers(unsigned ms)
{
    if (words_leaving() || words_too_late())
        return false;
    pause_for(ms);
    return true;
}

static uint64_t now_ns(void)
{
    return clock_ns(CLOCK_MONOTONIC);
}

static void become(enum wire_source_state next, const char *reason)
{
    state = next;
    why = reason != NULL ? reason : "";
    state_say(next, reason, detail[0] != '\0' ? detail : NULL);
}

/* ---- calls that may hang ----------------------------------------------------------- */

/* In the step that runs now nobody waited for work while a call hung. */
static void recover(void)
{
    if (atomic_load_explicit(&on_since, memory_order_relaxed) != 0)
        atomic_store_explicit(&on_since, probe_ticks(), memory_order_relaxed);
    state_say(state, why, NULL);
}

static void call_begins(const char *call)
{
    watchdog_begin(call, drain.known_ticks);
}

static void call_ends(void)
{
    if (watchdog_end())
        recover();
}

/* Nobody is let wait for CUPTI because of readers of a ring. */
static bool pause_for_readers(unsigned ms)
{
    if (words_leaving() || words_yielding())
        return false;
    call_ends();
    pause_for(ms);
    call_begins(READING);
    return true;
}

static enum stamps_change take_stamp(void)
{
    call_begins("a question for the time");
    enum stamps_change change = stamps_take(&drain.stamps, library.get_timestamp);

    call_ends();
    return change;
}

/* ---- on and off -------------------------------------------------------------------- */

static const uint32_t kinds[] = {CUPTI_KERNEL, CUPTI_MEMCPY, CUPTI_PEER_COPY,
                                 CUPTI_MEMSET, CUPTI_OVERHEAD};
#define KINDS (sizeof(kinds) / sizeof(kinds[0]))

static void note_alive(uint64_t ticks, uint64_t steps)
{
    alive_ns = now_ns();
    alive_ticks = ticks;
    alive_buffers = buffers_completed();
    alive_steps = steps;
}

/* Nothing has come since it last did: so far that may be a job without GPU work. */
static bool is_silent(void)
{
    return on && (worked || suspicious) && buffers_completed() == alive_buffers;
}

/* Whose the kinds are that are on: perhaps they are another profiler's by now. */
static bool is_unsure(void)
{
    return is_silent() && (suspicious || alive_buffers == on_buffers ||
                           probe_step_number() - alive_steps >= UNSURE_STEPS);
}

static void say_clock(void)
{
    enum stamps_clock clock = stamps_clock(&drain.stamps);

    if (clock == detail_clock && graphs == detail_graphs)
        return;
    detail_clock = clock;
    detail_graphs = graphs;
    state_detail(&library, drain.kinds_known, stamps_clock_name(clock), detail,
                 sizeof(detail));
    (void)snprintf(detail + strlen(detail), sizeof(detail) - strlen(detail), "%s",
                   graphs);
    state_say(state, NULL, detail);
}

/* Another clock is another profiler's, who has begun: true. What came before it says
 * nothing of now. */
static bool look_at_clock(void)
{
    bool changed = take_stamp() == STAMPS_OTHER_CLOCK;

    if (changed) {
        note_alive(buffers_completed() != alive_buffers ? flush_ticks : alive_ticks,
                   probe_step_number());
        suspicious = true;
    }
    say_clock();
    return changed;
}

/* CUDA graphs as a whole, where that is wanted. Those that are instantiated while this is
 * off are not recorded while it is on, nor are their nodes: so it is on from the start, for
 * as long as CUPTI is ours, and never again. */
static void graphs_whole_on(void)
{
    uint64_t down_ns = arrive_down_ns();

    if (!wants_graphs)
        return;
    if (library.version < WHOLE_GRAPHS_VERSION) {
        graphs = ", CUDA graphs by their nodes: this CUPTI may crash on the whole";
    } else if (atomic_load_explicit(&cupti_words.yielded, memory_order_relaxed) != 0) {
        graphs = ", CUDA graphs by their nodes: another profiler was here before";
    } else if (down_ns == 0 || now_ns() - down_ns > WHOLE_GRAPHS_NS) {
        graphs = ", CUDA graphs by their nodes: CUDA may have been in use before";
    } else {
        call_begins("turning recording on");
        graphs_on = library.enable(CUPTI_GRAPH) == CUPTI_OK;
        call_ends();
        graphs = graphs_on ? ", CUDA graphs as a whole: copies, collectives and gaps "
                             "within count as compute"
                           : ", CUDA graphs by their nodes: CUPTI refuses the whole";
    }
    wants_graphs = graphs_on;
}

static void graphs_whole_off(void)
{
    call_begins("turning recording off");
    (void)library.disable(CUPTI_GRAPH);
    call_ends();
    graphs_on = false;
}

/* Also where another profiler has begun: his trace has the nodes. */
static void give_up_graphs_whole(void)
{
    if (!graphs_on)
        return;
    graphs_whole_off();
    wants_graphs = false;
    graphs = ", CUDA graphs by their nodes since another profiler recorded";
}

static void retry_later(void)
{
    retry_ns = now_ns() + retry_wait_ns;
    retry_wait_ns = retry_wait_ns < RETRY_MAX_NS / 2 ? 2 * retry_wait_ns : RETRY_MAX_NS;
}

/* Calls first and last: a kernel without its call's record has no correlation. */
static void all_kinds_off(void)
{
    call_begins("turning recording off");
    for (size_t i = 0; i < KINDS; i++)
        (void)library.disable(kinds[i]);
    (void)calls_enable(&drain.calls, &library, false);
    call_ends();
}

/* As another profiler had them, with all of their calls: nobody knows which he wants. */
static void all_kinds_on_again(void)
{
    call_begins("turning recording on");
    (void)library.enable(CUPTI_RUNTIME);
    (void)library.enable(CUPTI_DRIVER);
    for (size_t i = 0; i < KINDS; i++)
        (void)library.enable(kinds[i]);
    call_ends();
    if (on)
        atomic_store_explicit(&on_since, probe_ticks(), memory_order_relaxed);
}

/* Kinds are everybody's, and CUPTI does not say whose: who begins between a look and the
 * last of our calls has his turned off with ours. But before he turns any on he sets his
 * clock, or has given up waiting for us. So we look once more behind our last call, and
 * what is his by then is on again; false. He misses what was launched in between. */
static bool switch_off(void)
{
    atomic_store_explicit(&on_since, 0, memory_order_relaxed);
    all_kinds_off();
    if (look_at_clock() || words_too_late()) {
        all_kinds_on_again();
        return false;
    }
    on = false;
    off_ns = now_ns();
    off_ticks = probe_ticks();
    return true;
}

static void switch_on(void)
{
    call_begins("turning recording on");
    int error = calls_enable(&drain.calls, &library, true);

    if (error == CUPTI_OK)
        error = library.enable(CUPTI_KERNEL);
    for (size_t i = 1; i < KINDS && error == CUPTI_OK; i++)
        (void)library.enable(kinds[i]); /* without one of them there is still much */
    call_ends();
    if (error != CUPTI_OK) {
        (void)switch_off();
        give_up_graphs_whole();
        become(WIRE_STATE_UNAVAILABLE, state_reason(error));
        retry_later();
        return;
    }
    on = true;
    note_alive(probe_ticks(), probe_step_number());
    on_buffers = alive_buffers;
    atomic_store_explicit(&on_since, probe_ticks(), memory_order_relaxed);
}

/* ---- flush ------------------------------------------------------------------------- */

/* Since the last buffer came, but not while the job only prepares: it may do so for as long
 * as it likes, and nobody is suspected. */
static uint64_t without_life_ns(void)
{
    uint64_t now = now_ns();

    if (begun_ns == 0 && probe_step_number() > 0)
        begun_ns = now;
    return begun_ns == 0 ? 0 : now - (alive_ns > begun_ns ? alive_ns : begun_ns);
}

/* What has come back says that CUPTI was ours when it did, however long it is read. */
static void look_for_life(void)
{
    uint64_t gap_ns = without_life_ns();

    if (buffers_completed() == alive_buffers)
        return;
    if (on && gap_ns > longest_gap_ns && probe_step_number() > alive_steps)
        longest_gap_ns = gap_ns;
    worked = true;
    suspicious = false;
    retry_wait_ns = RETRY_NS;
    note_alive(flush_ticks > alive_ticks ? flush_ticks : alive_ticks,
               buffers_completed_step());
}

static void collect(uint32_t flags)
{
    flush_ticks = probe_ticks();
    call_begins("a flush");
    int error = library.flush(flags);

    if (flushing_ended(error, watchdog_end()))
        recover();
    (void)look_at_clock();
    look_for_life();
}

static void read_collected(void)
{
    call_begins(READING);
    drain_ask(&drain);
    (void)drain_buffers(&drain, pause_for_readers);
    call_ends();
    drain.ours_ticks = !on ? 0 : is_silent() ? alive_ticks : flush_ticks;
    drain_tell(&drain);
}

static void flush(uint32_t flags)
{
    collect(flags);
    read_collected();
}

/* That buffers are zeroed: of all that CUPTI is given, whoever gives them. */
static void promise_zeroes(size_t zeroed)
{
    size_t bytes = sizeof(zeroed);

    if (library.set_attribute == NULL)
        return;
    call_begins("being told of its buffers");
    (void)library.set_attribute(ZEROED_BUFFERS, &bytes, &zeroed);
    call_ends();
}

/* As torch's profiler has it, and every CUPTI before 13: a thread that launches little
 * keeps no buffer for long. Only before anybody was given one. */
static void share_buffers(void)
{
    static bool done;
    uint8_t per_thread = 0;
    size_t bytes = sizeof(per_thread);

    if (!done && library.set_attribute != NULL &&
        atomic_load_explicit(&cupti_words.yielded, memory_order_relaxed) == 0) {
        call_begins("being told of its buffers");
        (void)library.set_attribute(PER_THREAD_BUFFERS, &bytes, &per_thread);
        call_ends();
    }
    done = true;
}

static int register_ours(void)
{
    call_begins("registering for its buffers");
    int error = library.register_callbacks(buffers_request, buffers_complete);

    if (error == CUPTI_OK && library.set_thread_ids != NULL)
        (void)library.set_thread_ids(1);
    call_ends();
    return error;
}

/* A buffer with a kernel that still runs is not given back by a flush: of a device that
 * is always behind each comes when it is full, however long that takes. What it took
 * before the steps, as for the weights, tells nothing of that. */
static uint64_t silent_ns(void)
{
    uint64_t usual = alive_ns < begun_ns ? UNTRIED_NS : SILENT_NS;

    return 4 * longest_gap_ns > usual ? 4 * longest_gap_ns : usual;
}

static void lose_silence(void)
{
    drain_lose(buffers_known(alive_ticks), probe_ticks(), 0);
}

/* What is on may be his, and stays on; of what was done since the last buffer came
 * nothing will come. */
static void keep_off(void)
{
    on = false;
    atomic_store_explicit(&on_since, 0, memory_order_relaxed);
    lose_silence();
    drain_give_up(&drain);
}

/* Steps end and nothing comes: somebody has registered callbacks of his own. */
static void watch(void)
{
    uint64_t gap_ns = without_life_ns();
    uint64_t steps = probe_step_number() - alive_steps;

    if (!is_silent() || steps < SILENT_STEPS ||
        gap_ns < (suspicious ? silent_ns() / 3 : silent_ns()))
        return;
    keep_off(); /* until his window must be over */
    give_up_graphs_whole();
    promise_zeroes(0);
    if (flushing_fails()) { /* why is told, and nobody is to blame */
        state = WIRE_STATE_UNAVAILABLE;
        why = "its flush fails";
        retry_later();
        return;
    }
    become(WIRE_STATE_STOLEN,
           suspicious
               ? "another profiler of this process has taken CUPTI: its clock "
                 "changed and nothing comes any more"
               : "steps end, and no GPU work has come for seconds: another profiler of "
                 "this process may have taken CUPTI or ended it, or the job has "
                 "called cudaProfilerStop");
    retry_later();
}

/* ---- whose turn it is -------------------------------------------------------------- */

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
        become(WIRE_STATE_UNAVAILABLE, state_reason(error));
        retry_later();
        return false;
    }
    promise_zeroes(1);
    graphs_whole_on();
    (void)take_stamp();
    say_clock();
    suspicious = worked = false;
    longest_gap_ns = 0;
    reclaim_ns = buffers_lent() > 0 ? now_ns() + RECLAIM_NS : 0;
    become(WIRE_STATE_ACTIVE, NULL);
    return true;
}

/* What is lent when another profiler registers goes to him, and is lost. */
static void wait_for_stragglers(void)
{
    uint64_t end = now_ns() + UINT64_C(1000000) * straggler_ms;

    flush(0);
    while (buffers_lent() > 0 && now_ns() < end && pause_for_stragglers(STRAGGLER_REST))
        flush(0);
    if (buffers_lent() == 0)
        straggler_ms = STRAGGLER_MS;
    else if (straggler_ms / 4 >= STRAGGLER_MS_MIN)
        straggler_ms /= 4;
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
    bool was_on = on, too_late = words_too_late();

    look_for_life();
    if (!too_late && is_unsure())
        lose_silence();
    if (on && (too_late || !switch_off())) {
        keep_off();
        too_late = true;
    }
    give_up_graphs_whole();
    if (state == WIRE_STATE_ACTIVE)
        promise_zeroes(0);
    if (!too_late && (was_on || (state == WIRE_STATE_ACTIVE && buffers_held() > 0)))
        wait_for_stragglers();
    become(WIRE_STATE_YIELDED, given_to());
    words_let_go();
}

/* Turns kinds on and off with the steps. They stay on where nothing has come from this
 * block: until a buffer says that they are ours, or there is no doubt that they are not. */
static void follow_steps(void)
{
    bool want = atomic_load_explicit(&cupti_words.wanted, memory_order_relaxed) != 0;

    if (words_yielding() || words_too_late())
        return; /* since this turn began */
    if (want && !on) {
        switch_on();
    } else if (!want && on) {
        look_for_life();
        if (!is_unsure())
            (void)look_at_clock();
        if (!is_unsure())
            (void)switch_off();
    }
}

/* One turn of our thread; how long it may rest then, in ms. */
static unsigned turn(void)
{
    bool yielding = words_yielding();

    if (yielding || words_too_late()) {
        if (state != WIRE_STATE_YIELDED)
            give_away();
        else if (why != given_to()) /* one has come for good meanwhile */
            become(WIRE_STATE_YIELDED, given_to());
        atomic_store_explicit(&cupti_words.in_vain, 0, memory_order_relaxed);
    }
    if (yielding)
        return IDLE_MS;
    if (state != WIRE_STATE_ACTIVE &&
        ((state != WIRE_STATE_YIELDED && now_ns() < retry_ns) || !take()))
        return IDLE_MS;
    follow_steps();
    bool ended = buffers_held() == 0 && drain.known_ticks >= off_ticks;
    bool rests = !on && (now_ns() - off_ns > TAIL_NS || ended);

    if (!on && drain.known_ticks >= off_ticks) /* all of what was on is told */
        drain.calls.were_on = false;
    if (rests && !graphs_on)
        return IDLE_MS;
    if (reclaim_ns != 0 && now_ns() >= reclaim_ns) {
        reclaim_ns = 0;
        drain.reclaims = true;
    }
    collect(0);
    /* What has come says whose the kinds are, and reading takes long. */
    if (state == WIRE_STATE_ACTIVE)
        follow_steps();
    read_collected();
    watch();
    if (state == WIRE_STATE_ACTIVE)
        follow_steps();
    return rests && !on ? IDLE_MS : FLUSH_MS;
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
    if (wants_graphs && ms > WHOLE_GRAPHS_LOOK_MS)
        ms = WHOLE_GRAPHS_LOOK_MS;
    return rest_a_while(ms);
}

static void say_unavailable(const char *reason)
{
    become(WIRE_STATE_UNAVAILABLE, reason);
}

static void step_ending(const struct probe_step *step)
{
    uint64_t since = atomic_load_explicit(&on_since, memory_order_relaxed);
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
    bool free = arrive_is_free(&library, ask, arrival);

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
        become(WIRE_STATE_UNAVAILABLE, "the probe has no room for GPU work");
        return false;
    }
    if (!arrive(&library, &arrival))
        return false;
    atomic_store_explicit(&cupti_words.arrived, 1, memory_order_relaxed);
    if (!is_free(&arrival))
        return false;
    if (buffers_open() != 0) {
        become(WIRE_STATE_UNAVAILABLE, "no memory is left for GPU work");
        return false;
    }
    call_begins("a question for its records");
    drain_open(&drain, &library);
    call_ends();
    drain_give_up(&drain); /* who reads knows from the first step on that we tell */
    retry_wait_ns = RETRY_NS;
    (void)take_stamp();
    pause_for(10); /* two pairs make a line */
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

    look_for_life();
    if (on && !is_unsure())
        (void)look_at_clock();
    if (is_unsure())
        flush(suspicious ? 0 : 1); /* perhaps it only has not come */
    if (on && (is_unsure() || words_too_late() || !switch_off())) {
        keep_off();
        is_his = true;
    }
    if (graphs_on)
        graphs_whole_off();
    if (!is_his)
        flush(1);
}

void *session_run(void *whole_graphs)
{
    wants_graphs = whole_graphs != NULL;
    if (begin()) {
        while (!words_leaving()) {
            uint32_t seen =
                atomic_load_explicit(&cupti_words.wake, memory_order_acquire);

            rest(seen, turn());
        }
        if (state == WIRE_STATE_ACTIVE && (on || graphs_on || buffers_held() > 0))
            leave();
    }
    atomic_store_explicit(&cupti_words.owner, 0, memory_order_relaxed);
    words_let_go();
    return NULL;
}
