// The page: one state, changed by the stream, by answers and by the reader, drawn at most ten times
// a second.

import { PANELS, SERIES, make_actions } from "./actions.js";
import { event_age_ms, outcome_of, page_of } from "./model/condition.js";
import { clock, count } from "./model/format.js";
import { parse_hash, print_hash } from "./model/hash.js";
import { MOST_ROWS } from "./model/series.js";
import {
  clear_selection, died_at, initial, is_over, receive_answer, receive_connection, receive_event, receive_levels, receive_status, select_steps, session_of, was_cut_short, window_of, window_parameter,
} from "./model/store.js";
import { absolute, address, chosen, get_json, questions } from "./net/api.js";
import { open_poll } from "./net/poll.js";
import { open_stream } from "./net/stream.js";
import { allocators_row, render_allocators } from "./panels/allocators.js";
import { render_bar, session_name, session_rows } from "./panels/bar.js";
import { build_bars, render_idle, render_ranks } from "./panels/bars.js";
import { build_critical, render_critical } from "./panels/critical.js";
import { build_compare, render_compare } from "./panels/compare.js";
import { build_cost, render_cost_panel } from "./panels/cost.js";
import { build_findings, render_findings } from "./panels/findings.js";
import { build_files } from "./panels/files.js";
import { key_command, open_help } from "./panels/help.js";
import { build_ops, render_ops, tab_of } from "./panels/ops.js";
import { host_row, render_host } from "./panels/host.js";
import { meters_row, render_meters } from "./panels/meters.js";
import { build_slow, render_slow } from "./panels/slow.js";
import { render_start } from "./panels/start.js";
import { render_summary } from "./panels/summary.js";
import { build_threads, render_threads } from "./panels/threads.js";
import { build_uploads, render_uploads } from "./panels/uploads.js";
import { Timeline } from "./timeline/timeline.js";
import { $, el, set_attribute, set_hidden } from "./ui/dom.js";
import { notice } from "./ui/notices.js";

const REDRAW_MS = matchMedia("(prefers-reduced-motion: reduce)").matches ? 1000 : 100;
const TOLD_MS = 500; // numbers that change faster cannot be read
const MEASURE = new URLSearchParams(location.search).has("measure"); // each drawing as a performance entry
const TOPICS = "status,bottlenecks,steps,memory,gpu";

let state = { ...initial, view: { ...initial.view, ...parse_hash(location.hash) } };
let drawn = null, drawn_at = -Infinity, queued = false;
let timeline = null, tab = null, slow_at = Date.now(), condition = {}, wait_told = false;
const known_sessions = new Set();

function set(next) {
  if (next === state) return;
  const before = state;
  state = next;
  if (next.session !== before.session || next.rank !== before.rank) watch();
  else if (is_over(session_of(next)) && session_of(before)?.state === "running" && !next.view.paused) poll.now(...SERIES, ...PANELS, "overhead", "slow");
  if (next.view !== before.view) write_hash();
  queue();
}

/** The stream of what is chosen, and of nothing else: its rows do not say whose they are. */
function watch() {
  stream.watch(state.session === null ? null : absolute(address("api/stream", { ...chosen(state), topics: TOPICS })));
}

function queue() {
  if (queued) return;
  queued = true;
  const wait = Math.max(0, REDRAW_MS - (performance.now() - drawn_at));
  setTimeout(() => requestAnimationFrame(draw), wait);
}

// ------------------------------------------------------------ address

const REST_MS = 200; // browsers refuse an address that changes at every move of the pointer
let late_hash = null, late_timer = 0; // of a range that still moves

function write_late_hash() {
  clearTimeout(late_timer);
  if (late_hash !== null) history.replaceState(null, "", late_hash || "#");
  late_hash = null;
}

function write_hash() {
  if (state.session === null) return;
  const { view } = state;
  const range = view.selection || !view.paused?.moved ? null : [view.paused.from, view.paused.to];
  const shown = { ...view, session: state.session, rank: state.rank, range, steps: view.selection ? [view.selection.first, view.selection.last] : null };
  const hash = print_hash(shown);
  if (hash === (late_hash ?? location.hash)) return;
  const undo = view.selection !== null && !location.hash.includes("steps=");
  if (undo) {
    write_late_hash();
    history.pushState(null, "", hash || "#");
    return;
  }
  late_hash = hash;
  clearTimeout(late_timer);
  if (range === null) write_late_hash();
  else late_timer = setTimeout(write_late_hash, REST_MS);
}

/** Back and pasted links: what the address says now. */
function read_hash() {
  clearTimeout(late_timer);
  late_hash = null;
  const wanted = parse_hash(location.hash);
  const { sort, group, k, query, pins, tab, window } = wanted;
  const there = state.status?.sessions?.some((s) => s.id === wanted.session);
  const other = there && (wanted.session !== state.session || (wanted.rank ?? state.rank) !== state.rank);
  if (other) actions.choose_session(wanted.session, wanted.rank);
  const unselected = wanted.range ? { selection: null, steps: null } : {}; // the address holds one of the two
  state = { ...state, view: { ...state.view, sort, group, k, query, pins, tab, window, ...unselected } };
  if (other) write_hash(); // that of the choice was written
  apply_range(wanted);
  poll.now(...PANELS, ...(still() && !state.view.paused.moved ? [] : SERIES));
  queue();
}

/** A link to steps or to a range opens paused on it. */
function apply_range({ steps, range }) {
  if (steps) set(select_steps(state, steps[0], steps[1], Date.now()));
  else if (range) actions.move_to(range[0], range[1]);
  else set(clear_selection(state));
  if ((steps && state.view.selection?.from === null) || (range && state.series.steps.length > 0 && range[1] < state.series.steps[0].start)) look_back({ steps, range });
}

/** What is older than the rows here may be known to the server. */
async function look_back({ steps, range }) {
  const asked = state, wanted = steps ? steps.join("-") : range.map(Math.round).join("..");
  const answer = await get_json(address(...questions.steps(asked, points(), wanted))).catch((error) => (error.status ? {} : null));
  if (answer === null || asked.session !== state.session || asked.rank !== state.rank) return;
  const rows = (answer.steps ?? []).filter((row) => !steps || (row.number >= steps[0] && row.number <= steps[1]));
  if (rows.length === 0) notice("range", "This range is no longer remembered.");
  if (rows.length === 0 || !steps || state.view.selection !== asked.view.selection) return;
  const last = rows.at(-1);
  set(select_steps(state, steps[0], steps[1], Date.now(), { from: rows[0].start_ms, to: last.start_ms + last.duration_ms }));
  poll.now(...PANELS, ...SERIES);
}

// ------------------------------------------------------------ questions

const points = () => Math.min(10000, 2 * Math.max(300, timeline?.lanes[0]?.chart.width ?? 700));

const series_window = () => (state.view.paused?.moved ? `${Math.round(state.view.paused.from)}..${Math.round(state.view.paused.to)}` : window_of(state));

async function ask_series(name, signal) {
  if (state.session === null) return;
  const asked = state;
  const answer = await get_json(address(...questions[name](state, points(), series_window())), { signal });
  if (asked.session !== state.session || asked.rank !== state.rank) return;
  if (name === "steps") slow_at = Date.now();
  set(receive_answer(state, name, answer));
  if (name === "memory" && state.view.selection) poll.now("levels"); // those came with what is shown
  if (name === "steps" && pending) {
    const wanted = pending;
    pending = null;
    apply_range(wanted);
    poll.now(...PANELS);
  }
}

async function ask_panel(name, signal, parameters) {
  if (state.session === null) return;
  const path = address(...parameters), asked = state;
  try {
    const answer = await get_json(path, { signal });
    if (asked.session === state.session) set(receive_answer(state, name, answer));
  } catch (error) {
    if (error.status) set(receive_answer(state, name, { reason: error.message }));
    throw error;
  }
}

let pending = state.view.steps || state.view.range ? { steps: state.view.steps, range: state.view.range } : null;
let first_status = true;

async function ask_status(signal) {
  const before = state.session, steps_before = session_of(state)?.steps;
  let status;
  try {
    status = await get_json(address(...questions.status(state)), { signal }).catch((error) => {
      if (error.status !== 404) throw error;
      return get_json("api/status", { signal }); // the session is gone: another is chosen
    });
  } catch (error) {
    if (error.name !== "AbortError" && state.status === null) server_is_away(error);
    else if (error.name !== "AbortError" && state.session === null) set(receive_connection(state, { state: "waiting", retry_at: Date.now() + 1000, reason: "The server does not answer." }));
    throw error;
  }
  notice("away", null);
  set(receive_status(state, status, Date.now()));
  tell_of_new_sessions(status);
  if (state.session === null) return set(receive_connection(state, { state: "open" }));
  if (first_status || before !== state.session) poll.now("steps", "memory", "gpu", "bottlenecks", "ops", "overhead", "ranks", "critical", "windows", "host", "hardware", "traces");
  else if (!(steps_before > 0) && session_of(state)?.steps > 0) poll.now("bottlenecks", "ops");
  first_status = false;
  return undefined;
}

function server_is_away(error) {
  if (wait_told) return;
  wait_told = true;
  const text = error.status ? error.message : `Waiting for the server at ${location.host}`;
  setTimeout(() => { if (state.status === null) notice("away", text); }, 2000);
}

/** The newest of the runs that are new is named with a button; the reader is never taken away from what they read. */
function tell_of_new_sessions(status) {
  const fresh = session_rows(status).filter((session) => !known_sessions.has(session.id));
  for (const session of fresh) known_sessions.add(session.id);
  const newest = fresh.find((session) => session.id !== state.session);
  if (!first_status && newest) notice("new", `${session_name(newest)} started`, "Show it", () => actions.choose_session(newest.id));
}

const live = () => state.session !== null && !is_over(session_of(state));
const still = () => state.view.paused !== null;
const every = (live_ms, over_ms = null) => () => (still() ? null : live() ? live_ms : over_ms);
const polling = () => state.connection.state === "polling";
/** What a step did on the GPUs, and what they say of themselves, comes beside the stream; where there is none, nobody asks. */
const has_meters = () => session_of(state)?.capabilities?.some((c) => c.source === "nvml" && c.state === "active") ?? false;
const slow_window = () => (window_of(state) === "run" ? 5000 : window_of(state) === "10min" ? 3000 : 1000);

const poll = open_poll([
  { name: "status", every_ms: () => (state.status === null ? 1000 : state.session === null ? 1000 : live() ? 3000 : 5000), ask: ask_status },
  { name: "steps", every_ms: () => (polling() && !still() && live() ? 5000 : null), ask: (signal) => ask_series("steps", signal) },
  { name: "memory", every_ms: () => (polling() && !still() && live() ? 5000 : null), ask: (signal) => ask_series("memory", signal) },
  { name: "gpu", every_ms: () => (polling() && !still() && live() ? 5000 : null), ask: (signal) => ask_series("gpu", signal) },
  { name: "bottlenecks", every_ms: () => every(polling() ? 5000 : slow_window())(), ask: (signal) => ask_panel("bottlenecks", signal, questions.bottlenecks(state)) },
  { name: "ops", every_ms: () => every(polling() ? 5000 : Math.max(2000, slow_window()))(), ask: (signal) => ask_panel("ops", signal, questions.ops(state, tab_of(state))) },
  { name: "overhead", every_ms: every(5000), ask: (signal) => ask_panel("overhead", signal, questions.overhead(state)) },
  { name: "ranks", every_ms: every(5000), ask: (signal) => ask_panel("ranks", signal, questions.ranks(state)) },
  { name: "critical", every_ms: () => every(state.critical?.step ? 30000 : 5000)(), ask: (signal) => ask_panel("critical", signal, questions.critical(state)) },
  { name: "slow", every_ms: every(5000), ask: ask_slow },
  { name: "levels", every_ms: every(5000), ask: ask_levels },
  { name: "host", every_ms: every(5000), ask: (signal) => ask_panel("host", signal, questions.host(state)) },
  { name: "hardware", every_ms: () => (has_meters() || state.series.gpus.length > 0 ? every(Math.max(2000, slow_window()))() : null), ask: (signal) => ask_panel("hardware", signal, questions.gpu(state, 2, window_parameter(state))) },
  { name: "windows", every_ms: () => (state.windows?.windows?.some((row) => !row.settled) ? 1000 : live() ? 30000 : null), ask: (signal) => ask_panel("windows", signal, questions.windows(state)) },
  { name: "traces", every_ms: () => null, ask: async (signal) => (state.status?.sessions?.some((session) => session.from_file) ? ask_panel("traces", signal, questions.traces()) : undefined) },
  { name: "runs", every_ms: () => (state.status !== null && state.session === null ? 10000 : null), ask: (signal) => get_json("api/runs", { signal }).then((runs) => set({ ...state, runs })) },
]);

/** The list of slow steps ages and grows; the stream carries the points alone. */
async function ask_slow(signal) {
  if (state.session === null) return;
  const { session } = state;
  const answer = await get_json(address(...questions.steps(state, 2, window_of(state))), { signal });
  if (session !== state.session) return;
  slow_at = Date.now();
  set({ ...state, series: { ...state.series, slow: answer.slow ?? [], markers: answer.markers ?? state.series.markers, summary: answer.summary ?? state.series.summary } });
}

/** Peaks and how long the memory lasts; the stream carries the points alone. */
async function ask_levels(signal) {
  if (state.session === null) return;
  const asked = state;
  const answer = await get_json(address(...questions.memory(state, 2, window_parameter(state))), { signal });
  if (asked.session === state.session && asked.rank === state.rank) set(receive_levels(state, answer));
}

// ------------------------------------------------------------ stream

let was_open = false; // what happened between an answer and the stream's beginning is asked for
const stream = open_stream(({ event, connection }) => {
  if (connection) {
    const open = connection.state === "open";
    if (open && !was_open) poll.now("status", ...(still() ? [] : ["steps", "memory", "gpu"]), "bottlenecks");
    was_open = open;
    set(receive_connection(state, connection));
    return;
  }
  if (event.type === "reset") return poll.now("status", "steps", "memory", "gpu", "bottlenecks");
  if (event.type === "status" && event.data.state && event.data.state !== session_of(state)?.state) poll.now("status");
  set(receive_event(state, event, Date.now()));
  if (state.series.overflow && state.series.steps.length > MOST_ROWS && !still()) refill();
  return undefined;
});

let refilled_at = 0, told_at = 0;

/** More rows than are kept: the server has the same time with fewer. */
function refill() {
  if (Date.now() - refilled_at < 5000) return;
  refilled_at = Date.now();
  poll.now("steps");
}

// ------------------------------------------------------------ drawing

const actions = make_actions({
  get: () => state, set, redraw: () => { drawn = null; queue(); }, points, window: series_window,
  ask: (...names) => poll.now(...names),
});

function show_page() {
  const page = page_of(state);
  if (document.body.dataset.page !== page) {
    document.body.dataset.page = page;
    for (const node of document.querySelectorAll("[data-when]")) set_hidden(node, !node.dataset.when.split(" ").includes(page));
  }
  const session = session_of(state), mean = state.bottlenecks?.step_ms?.mean;
  const title = page !== "run" ? "trainglass" : session.state !== "lost" && was_cut_short(session) ? `${outcome_of(session)}, ${session_name(session)}` : typeof mean === "number" ? `${count(mean) === "0" ? mean.toFixed(2) : count(mean)} ms, ${session_name(session)}` : session_name(session);
  if (document.title !== title) document.title = title;
  return page;
}

function draw() {
  queued = false;
  drawn_at = performance.now();
  const now = Date.now();
  const page = show_page();
  condition = render_bar(state, { now, actions, median_ms: actions.median_ms() });
  document.body.dataset.condition = condition.stale ? "stale" : condition.kind;
  if (page === "empty") render_start(state, now);
  if (page === "run") draw_run(now);
  if (page === "run" && tab_of(state) !== tab) {
    tab = tab_of(state);
    poll.now("ops");
  }
  drawn = state;
  if (MEASURE) performance.measure("draw", { start: drawn_at, end: performance.now() });
}

function draw_run(now) {
  const changed = (...fields) => drawn === null || fields.some((field) => drawn[field] !== state[field]);
  const session = session_of(state);
  set_attribute($("report"), "href", address("api/report", { ...chosen(state), window: "run", format: "html" }));
  set_hidden($("open-trace"), was_cut_short(session));
  const asked_anew = changed("view", "session", "rank", "bottlenecks", "hardware", "traces", "marked");
  if (asked_anew || (!still() && changed("series", "status", "lost")) || changed("host")) timeline.render(state);
  if (asked_anew || now - told_at >= TOLD_MS) {
    told_at = now;
    render_summary(state, { actions, now });
    render_slow(state, { actions, received_ms: is_over(session) ? 0 : Math.max(now - slow_at, event_age_ms(state, now) ?? 0) });
    render_idle(state);
    render_allocators(state);
  }
  const ended = died_at(state);
  render_threads(state, { stale: condition.stale === true, when: ended === null ? "" : `at ${clock(ended)}`, actions });
  if (changed("bottlenecks", "view", "session", "status", "refused")) render_findings(state, { actions, now });
  if (changed("ops", "bottlenecks", "view", "session", "marked")) render_ops(state, { actions });
  if (changed("host", "session")) render_host(state);
  if (changed("hardware", "session")) render_meters(state);
  if (changed("ranks", "session")) render_ranks(state);
  if (changed("critical", "session")) render_critical(state);
  if (changed("status", "session")) render_compare(state);
  if (changed("overhead", "status", "session", "refused", "asked", "windows", "traces")) render_cost_panel(state);
  if (changed("session", "traces")) render_uploads(state);
}

/** The session of a file that was opened here: chosen, so not announced as new. */
async function show_file(id) {
  known_sessions.add(id);
  notice("new", null);
  const status = await get_json(address("api/status", { session: id }));
  set(receive_status(state, status, Date.now()));
  actions.choose_session(id);
}

/** Within the page: the address holds the view, and is not for places. */
function follow_link(event) {
  const link = event.target.closest?.('a[href^="#"]');
  if (!link) return;
  event.preventDefault();
  const panel = $(link.getAttribute("href").slice(1));
  panel.scrollIntoView({ block: "start" });
  panel.focus();
}

/** Where the headline has no room for the facts they stand below the timeline. */
function place_facts(narrow) {
  const place = () => (narrow.matches ? $("lanes").after($("facts")) : $("post-actions").before($("facts")));
  narrow.addEventListener("change", place);
  place();
}

function start() {
  timeline = new Timeline($("lanes"), actions, el("div", {}, meters_row(), allocators_row(), host_row((open) => timeline.open_host(open))));
  build_ops(actions, () => state);
  build_bars(() => state);
  build_critical(() => state);
  build_findings(() => state);
  build_slow(() => state);
  build_threads(() => state);
  build_cost(actions, () => state);
  build_uploads(actions, () => state);
  $("finding-list").after(el("p", { class: "foot dim", id: "finding-empty" }, " "));
  $("post-actions").append(
    el("button", { type: "button", class: "primary", onclick: () => actions.open_trace("last") }, "Get trace of the last 10 s ", el("kbd", {}, "t")),
    el("a", { class: "plain", id: "report", href: "api/report", download: "report.html" }, "Download report"));
  $("open-trace").addEventListener("click", () => actions.open_trace());
  $("open-help").addEventListener("click", open_help);
  build_files(show_file);
  build_compare(() => state);
  $("badge").addEventListener("click", () => ({ pause: actions.toggle_pause, resume: actions.resume, now: stream.retry }[$("badge").dataset.action]?.()));
  document.addEventListener("keydown", (event) => {
    const command = key_command(event);
    if (!command) return;
    event.preventDefault();
    actions.command(command);
  });
  addEventListener("popstate", read_hash);
  addEventListener("hashchange", read_hash);
  document.addEventListener("click", follow_link);
  addEventListener("resize", () => actions.redraw());
  place_facts(matchMedia("(max-width: 1199px)"));
  setInterval(queue, 1000);
  queue();
}

start();
