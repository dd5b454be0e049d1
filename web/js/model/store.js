// All that the page knows, as one value, and how messages change it. Pure: no DOM, fetch, clock.
// Every reducer returns the next value; `state` itself when nothing is new.

import { first_at } from "./bins.js";
import { DEFAULTS } from "./hash.js";
import { add_gpu, add_memory, add_steps, is_answered, keep_newer, newest, no_series, oldest, set_gpu, set_levels, set_memory, set_steps } from "./series.js";

const STREAM_FINDINGS = 5; // that the stream tells at most
const YOUNG_MS = 10e3; // the least that a live axis shows
export const WINDOW_MS = { "10s": 10e3, "60s": 60e3, "10min": 600e3, run: Infinity };

export const initial = Object.freeze({
  connection: Object.freeze({ state: "connecting", retry_at: null, reason: null }),
  status: null, runs: null,
  session: null, rank: null,
  series: no_series,
  bottlenecks: null, ops: null, ranks: null, critical: null, overhead: null, host: null, hardware: null, traces: null,
  lost: 0, heard_at: null, last_event_age_ms: null,
  view: Object.freeze({ ...DEFAULTS, paused: null, selection: null }),
});

// ------------------------------------------------------------ sessions

/** What is told of one session alone, and the places in it. */
const untold = Object.freeze({
  series: no_series, bottlenecks: null, ops: null, ranks: null, critical: null, overhead: null, host: null, hardware: null, windows: null,
  marked: null, refused: null, asked: null,
});
const unmoved = Object.freeze({ paused: null, selection: null, range: null, steps: null });

const ALIVE = { running: 2, ended: 1, crashed: 1, lost: 0 };

/** The newest session with a step, those that run first, unless the server chose; null without. */
export function default_session({ sessions, session }) {
  if (sessions.some((s) => s.id === session)) return session;
  const rank_of = (s) => [ALIVE[s.state] === 2 ? 1 : 0, (s.steps ?? 0) > 0 ? 1 : 0, s.start_unix_ms ?? 0];
  const order = (a, b) => {
    const left = rank_of(a), right = rank_of(b);
    return right[1] - left[1] || right[0] - left[0] || right[2] - left[2];
  };
  return [...sessions].sort(order)[0]?.id ?? null;
}

/** The chosen session's row of `status`, as seen by the chosen rank; null without one. */
export function session_of(state) {
  return state.status?.sessions?.find((s) => s.id === state.session) ?? null;
}

/** The file that the chosen session was read from; null where there is none, or nobody told yet. */
export const file_of = (state) => state.traces?.traces?.find((file) => file.session !== null && file.session === state.session) ?? null;

/** Ranks of the chosen session, ascending. */
export function ranks_of(state) {
  const trainers = (session_of(state)?.processes ?? []).filter((p) => p.role === "trainer" && typeof p.rank === "number");
  return [...new Set(trainers.map((p) => p.rank))].sort((a, b) => a - b);
}

export function receive_status(state, status, at) {
  const next = { ...state, status: keep_details(status, state.status), heard_at: at };
  const sessions = status.sessions ?? [];
  if (!sessions.some((s) => s.id === state.session)) {
    const wanted = sessions.find((s) => s.id === state.view.session || String(s.pid) === state.view.session);
    next.session = wanted?.id ?? default_session({ ...status, sessions });
    next.rank = null;
    Object.assign(next, untold);
    if (state.session !== null) next.view = { ...state.view, ...unmoved };
  }
  const ranks = ranks_of(next);
  if (next.rank === null || !ranks.includes(next.rank)) {
    next.rank = ranks.includes(state.view.rank) ? state.view.rank : ranks[0] ?? null;
  }
  const mine = session_of(next);
  next.lost = lost_events(mine);
  next.last_event_age_ms = mine?.last_event_age_ms ?? null;
  return next;
}

/** Sessions that are told short keep the details told before. */
function keep_details(status, before) {
  const known = new Map((before?.sessions ?? []).map((s) => [s.id, s]));
  return { ...status, sessions: (status.sessions ?? []).map((s) => (s.full === false ? { ...known.get(s.id), ...s } : s)) };
}

export function lost_events(session) {
  const lost = session?.lost_events;
  if (typeof lost === "number") return lost;
  if (lost === null || typeof lost !== "object") return 0;
  return Object.values(lost).reduce((sum, value) => sum + (typeof value === "number" ? value : 0), 0);
}

export function choose_session(state, session, rank = null) {
  if (session === state.session && rank === state.rank) return state;
  const next = {
    ...state, ...untold, session, rank,
    view: { ...state.view, ...unmoved, session, rank, pins: [], tab: state.view.tab === "cuda" ? null : state.view.tab }, // the new one may have no GPU
  };
  if (rank === null) next.rank = ranks_of(next)[0] ?? null;
  const mine = session_of(next);
  next.lost = lost_events(mine);
  next.last_event_age_ms = mine?.last_event_age_ms ?? null;
  return next;
}

/** When the last event of a session that is over happened, Unix ms; null where it is not known. */
export function died_at(state) {
  const session = session_of(state);
  if (typeof session?.end?.time_unix_ms === "number") return session.end.time_unix_ms;
  if (state.last_event_age_ms === null || state.heard_at === null) return null;
  return state.heard_at - state.last_event_age_ms;
}

// ------------------------------------------------------------ stream

const adders = { steps: add_steps, memory: add_memory, gpu: add_gpu };
const setters = { steps: set_steps, memory: set_memory, gpu: set_gpu };

/** One event of the stream; `at` is the time of its arrival (ms). */
export function receive_event(state, { type, data }, at) {
  if (adders[type]) return { ...state, series: adders[type](state.series, data), heard_at: at };
  if (type === "status") return receive_pulse(state, data, at);
  if (type === "bottlenecks") return receive_numbers(state, data);
  return state;
}

/** The short status of the stream changes the chosen session alone. */
function receive_pulse(state, pulse, at) {
  if (state.status === null) return state;
  const sessions = state.status.sessions.map((s) => (s.id !== state.session ? s : {
    ...s, state: pulse.state ?? s.state, steps: pulse.steps ?? s.steps,
    last_event_age_ms: pulse.last_event_age_ms ?? s.last_event_age_ms, lost_events: pulse.lost_events ?? s.lost_events,
  }));
  const next = { ...state, status: { ...state.status, sessions }, heard_at: at };
  next.last_event_age_ms = pulse.last_event_age_ms ?? state.last_event_age_ms;
  next.lost = lost_events(session_of(next));
  return next;
}

/** Numbers without evidence: what was fetched before keeps its evidence and advice. */
function receive_numbers(state, data) {
  if (state.view.selection || state.view.paused || window_of(state) !== "60s") return state;
  const known = new Map((state.bottlenecks?.findings ?? []).map((f) => [f.id, f]));
  const findings = (data.findings ?? []).map((f) => ({ ...known.get(f.id), ...f }));
  /* Fewer than the stream's most are all that there are. */
  const gone = new Set([...findings, ...(data.fixed ?? [])].map((f) => f.id));
  const rest = findings.length < STREAM_FINDINGS ? [] : (state.bottlenecks?.findings ?? []).filter((f) => !gone.has(f.id)).slice(0, Math.max(0, known.size - findings.length));
  return { ...state, bottlenecks: { ...state.bottlenecks, ...data, findings: [...findings, ...rest] } };
}

/** An answer of REST to the question that the view asks now. */
export function receive_answer(state, name, answer) {
  if (setters[name] && state.view.paused?.moved) {
    const series = setters[name](state.view.paused.series, answer);
    return { ...state, view: { ...state.view, paused: { ...state.view.paused, series } } };
  }
  if (setters[name] && state.view.paused && !is_answered(state.view.paused.series, name)) { // a pasted link pauses before all have answered
    const series = setters[name](state.view.paused.series, answer);
    return { ...state, series: keep_newer(setters[name](state.series, answer), state.series), view: { ...state.view, paused: { ...state.view.paused, series } } };
  }
  if (setters[name]) return { ...state, series: keep_newer(setters[name](state.series, answer), state.series) };
  return { ...state, [name]: answer };
}

/** What the stream of memory does not carry, for what is shown now. */
export function receive_levels(state, answer) {
  const { paused } = state.view;
  if (!paused) return { ...state, series: set_levels(state.series, answer) };
  return { ...state, view: { ...state.view, paused: { ...paused, series: set_levels(paused.series, answer) } } };
}

export function receive_connection(state, connection) {
  const next = { retry_at: null, reason: null, ...connection };
  const old = state.connection;
  if (next.state === old.state && next.retry_at === old.retry_at && next.reason === old.reason) return state;
  return { ...state, connection: next };
}

// ------------------------------------------------------------ view

export const shown_series = (state) => state.view.paused?.series ?? state.series;

export const has_gpu = (state) => shown_series(state).gpus.length > 0;

/** Beside a GPU an op of the CPU has two prices: the other is of what it launched there. */
export const tells_launched = (state, device) => device === "cpu" && has_gpu(state);

/** What an average step of the window did on a device, in ms; null where that is not known. */
export function gpu_uses(state, index) {
  const gpu = shown_series(state).gpus[index];
  if (!gpu || state.hardware === null) return gpu?.per_step_ms ?? null;
  return state.hardware.devices?.find((told) => told.device === gpu.device)?.per_step_ms ?? null;
}

/** The place among the devices of the one that works most per step, as findings choose it;
 *  of those within a tenth of it the first, so that equals take no turns. */
export function main_gpu(state) {
  const busy = shown_series(state).gpus.map((_, at) => {
    const { compute, communication, copy } = gpu_uses(state, at) ?? {};
    return (compute ?? 0) + (communication ?? 0) + (copy ?? 0);
  });
  return Math.max(busy.findIndex((ms) => ms >= 0.9 * Math.max(...busy)), 0);
}

export const is_over = (session) => session !== null && session.state !== "running" && session.state !== undefined;

/** Signals by which somebody ends a job: no crash. */
export const STOPPED = { 1: "Hung up", 2: "Interrupted", 15: "Terminated" };

/** It did not end by itself: the page shows what it was at. */
export const was_cut_short = ({ state, end }) => state === "crashed" || state === "lost" || (state === "ended" && end?.signal in STOPPED);

/** The window that is asked for: as chosen, else what suits the session's state. */
export function window_of(state) {
  if (state.view.window) return state.view.window;
  const session = session_of(state);
  if (session && was_cut_short(session)) return "10min";
  return is_over(session) || session?.from_file ? "run" : "60s";
}

/** After this long without a step a running job is called stale (ms). */
export const stale_after_ms = (median_ms) => Math.max(5000, 5 * (median_ms ?? 0));

/** The newest moment; of a job without steps for long, the last of them: what the lanes end with. */
function end_of(state) {
  const { series } = state, last = newest(series) ?? 0;
  const step = Math.max(series.steps.at(-1)?.t ?? -Infinity, series.validation.at(-1)?.t ?? -Infinity);
  const stale = !is_over(session_of(state)) && step > -Infinity && last - step > stale_after_ms(state.bottlenecks?.step_ms?.p50);
  return stale ? step : last;
}

/**
 * What all lanes show: {from, to} in ms of the session's axis. A young run fills it from the left,
 * until the window is full; one that is over is shown as long as it was.
 */
export function range_of(state) {
  if (state.view.paused) return state.view.paused;
  const length = WINDOW_MS[window_of(state)];
  const first = oldest(state.series) ?? 0, last = end_of(state);
  if (last - first >= length) return { from: last - length, to: last };
  const least = is_over(session_of(state)) ? 1 : Math.min(length, YOUNG_MS);
  return { from: first, to: Math.max(last, first + least) };
}

/** The parameter `window` of every endpoint: a selection, else a still range, else the window. */
export function window_parameter(state) {
  const { selection, paused } = state.view;
  if (selection) return `${selection.first}-${selection.last}`;
  if (paused?.moved) return `${Math.round(paused.from)}..${Math.round(paused.to)}`;
  return window_of(state);
}

export function pause(state, at) {
  if (state.view.paused) return state;
  const { from, to } = range_of(state);
  return { ...state, view: { ...state.view, paused: { at, from, to, series: state.series, moved: false, for_selection: false } } };
}

export function resume(state) {
  if (!state.view.paused && !state.view.selection) return state;
  return { ...state, view: { ...state.view, paused: null, selection: null, range: null, steps: null } };
}

/** Shows [from, to] and stays there. */
export function move_to(state, from, to, at) {
  const length = Math.max(1, to - from);
  const series = shown_series(state);
  const low = Math.min(0, oldest(series) ?? 0), high = Math.max(newest(state.series) ?? to, low + length);
  const start = Math.max(Math.min(low, high - length), Math.min(from, high - length));
  const paused = { ...pause(state, at).view.paused, from: start, to: start + length, moved: true, for_selection: false };
  return { ...state, view: { ...state.view, paused, range: [paused.from, paused.to] } };
}

/** Selects the whole steps that lie in [from, to]; nothing there selects nothing. */
export function select_range(state, from, to, at) {
  const rows = shown_series(state).steps;
  const first = first_at(rows, from);
  let last = first;
  while (last < rows.length && rows[last].start < to) last++;
  const inside = rows.slice(first, last).filter((row) => row.number !== null);
  if (inside.length === 0) return state;
  return select_steps(state, inside[0].number, inside.at(-1).number, at);
}

/** `known` is when steps that are not among the rows were, {from, to}. */
export function select_steps(state, first, last, at, known = null) {
  const rows = shown_series(state).steps;
  const inside = rows.filter((row) => row.number >= first && row.number <= last);
  const from = inside[0]?.start ?? known?.from ?? null, to = inside.at(-1)?.t ?? known?.to ?? null;
  const selection = { first, last, from, to, steps: last - first + 1 };
  const paused = state.view.paused ?? { ...pause(state, at).view.paused, for_selection: true };
  const next = { ...state, view: { ...state.view, paused, selection, steps: [first, last] } };
  if (from === null || (from >= paused.from && to <= paused.to)) return next;
  const length = Math.max(paused.to - paused.from, (to - from) * 1.5), middle = (from + to) / 2;
  const moved = move_to(next, middle - length / 2, middle + length / 2, at);
  return { ...moved, view: { ...moved.view, paused: { ...moved.view.paused, for_selection: paused.for_selection } } };
}

export function clear_selection(state) {
  if (!state.view.selection) return state;
  if (state.view.paused?.for_selection) return resume(state);
  return { ...state, view: { ...state.view, selection: null, steps: null } };
}

export function set_window(state, window) {
  const next = resume(state);
  return { ...next, view: { ...next.view, window } };
}
