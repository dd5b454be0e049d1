// What a reader can do, as changes of the state and questions to the server.

import { called } from "./model/format.js";
import { DEFAULTS } from "./model/hash.js";
import { choose_session, clear_selection, move_to, pause, range_of, resume, select_range, select_steps, session_of, set_window, shown_series } from "./model/store.js";
import { address, chosen, get_json, post_json, questions, remove } from "./net/api.js";
import { announce, $ } from "./ui/dom.js";
import { focus_finding } from "./panels/findings.js";
import { open_help } from "./panels/help.js";
import { focus_op } from "./panels/ops.js";
import { open_trace } from "./panels/trace.js";

export const PANELS = ["bottlenecks", "ops", "ranks", "critical", "hardware", "levels"];
export const SERIES = ["steps", "memory", "gpu"];
const PHASE_QUERY = { data: "DataLoader", backward: "Backward", optimizer: "Optimizer", copy: "Memcpy", communication: "nccl" };

/**
 * @param {{get: () => object, set: (next: object) => void, ask: (...names: string[]) => void, redraw: () => void, points: () => number}} page
 */
export function make_actions(page) {
  const { get, set, ask } = page;
  let settle = 0;

  /** Panels follow a range that is still moving only when it rests. */
  function ask_later() {
    clearTimeout(settle);
    settle = setTimeout(() => ask(...PANELS, ...(get().view.paused?.moved ? SERIES : [])), 250);
  }

  function selected(next) {
    if (next === get()) return;
    set(next);
    const { selection } = next.view;
    announce(`Selection ${selection.steps} ${selection.steps === 1 ? "step" : "steps"}`);
    ask(...PANELS);
  }

  const actions = {
    redraw: page.redraw,
    choose_session(session, rank = null) {
      const next = choose_session(get(), session, rank);
      if (next === get()) return;
      set(next);
      ask("status", ...SERIES, ...PANELS, "overhead", "windows", "traces");
    },
    set_window(window) {
      set(set_window(get(), window));
      ask(...SERIES, ...PANELS);
    },
    set_view(change) {
      const state = get();
      set({ ...state, view: { ...state.view, ...change }, ops: "tab" in change && change.tab !== state.view.tab ? null : state.ops });
      ask("ops");
    },
    toggle_pin(name) {
      const { pins } = get().view;
      const state = get();
      set({ ...state, view: { ...state.view, pins: pins.includes(name) ? pins.filter((other) => other !== name) : [...pins, name] } });
    },
    toggle_pause() {
      const state = get();
      if (session_of(state)?.state !== "running" && !state.view.paused) return;
      if (state.view.paused) actions.resume();
      else set(pause(state, Date.now()));
    },
    resume() {
      if (!get().view.paused) return;
      set(resume(get()));
      ask(...SERIES, ...PANELS);
    },
    move_to(from, to) {
      set(move_to(get(), from, to, Date.now()));
      ask_later();
    },
    shift(share) {
      const { from, to } = range_of(get());
      actions.move_to(from + share * (to - from), to + share * (to - from));
    },
    select_range: (from, to) => selected(select_range(get(), from, to, Date.now())),
    select_steps(first, last) {
      const next = select_steps(get(), first, last, Date.now());
      selected(next);
      if (next.view.paused?.moved) ask(...SERIES);
    },
    clear_selection() {
      const before = get();
      const next = clear_selection(before);
      if (next === before) return;
      set(next);
      announce("Selection cleared");
      ask(...PANELS, ...(next.view.paused ? [] : SERIES));
    },
    show_finding(finding) {
      const state = get();
      if (finding.ops?.length > 0) set({ ...state, view: { ...state.view, pins: [...new Set([...finding.ops, ...state.view.pins])].slice(0, 20) } });
      if (!Array.isArray(finding.steps)) return actions.reveal("ops");
      actions.select_steps(finding.steps[0], finding.steps[1] ?? finding.steps[0]);
      return actions.reveal("lanes");
    },
    /** Keeps what the reader says of a finding: open, dismissed or pinned. */
    async judge_finding(id, finding_state, reason) {
      try {
        await post_json(address(`api/findings/${id}`, {}), { state: finding_state, reason });
        set({ ...get(), refused: { ...get().refused, finding: null } });
        announce(finding_state === "open" ? "Taken back" : finding_state === "pinned" ? "Pinned" : "Dismissed");
        ask("bottlenecks");
      } catch (error) {
        set({ ...get(), refused: { ...get().refused, finding: error.message } });
      }
    },
    /** Marks the steps that hold the op in the step lane; once more takes the marks away. */
    async mark_op(op) {
      const before = get(), { name } = op, text = called(op);
      if (before.marked?.name === name) return set({ ...before, marked: null });
      set({ ...before, marked: { name, called: text, times: [] } });
      const [path, parameters] = questions.steps(before, 2, page.window());
      const answer = await get_json(address(path, { ...parameters, op: name })).catch(() => null);
      const state = get();
      if (answer === null || state.marked?.name !== name || state.session !== before.session) return undefined;
      const times = (answer.op?.points ?? []).map(([, end]) => end);
      set({ ...state, marked: { name, called: text, times } });
      return announce(`${text}: in ${times.length} recorded steps`);
    },
    filter_phase(key) {
      actions.set_view({ query: PHASE_QUERY[key] ?? DEFAULTS.query, tab: ["copy", "communication", "compute"].includes(key) || key.startsWith("idle") ? "cuda" : "cpu" });
      actions.reveal("ops");
    },
    reveal(id) {
      const box = $(id).getBoundingClientRect();
      if (box.top < 48 || box.top > innerHeight - 120) $(id).scrollIntoView({ block: "start" });
    },
    open_trace: (range) => open_trace(get(), range),
    lane_question(id) {
      const state = get();
      const window = state.view.paused ? `${Math.round(state.view.paused.from)}..${Math.round(state.view.paused.to)}` : page.window();
      if (id.startsWith("host-")) return address(...questions.host(state));
      const kind = id === "memory" ? "memory" : id.startsWith("gpu") ? "gpu" : "steps";
      return address(...questions[kind](state, page.points(), window));
    },
    /** An upload goes; what the server says against it, or null. */
    async remove_trace({ id, name }) {
      try {
        await remove(address(`api/traces/${encodeURIComponent(id)}`, {}));
      } catch (error) {
        if (error.status !== 404) return error.message; // gone is gone
      }
      const state = get();
      set({ ...state, traces: { ...state.traces, traces: state.traces.traces.filter((file) => file.id !== id) } });
      announce(`${name} was removed`);
      ask("status");
      return null;
    },
    async set_budget(pct) {
      try {
        await post_json(address("api/level", chosen(get())), pct === 0 ? { level: "off" } : { level: "auto", budget_pct: pct });
        set({ ...get(), refused: { ...get().refused, level: null } });
        ask("overhead");
      } catch (error) {
        set({ ...get(), refused: { ...get().refused, level: error.message } });
      }
    },
    async record_steps() {
      try {
        await post_json(address("api/level", chosen(get())), { record_steps: 10 });
        set({ ...get(), asked: { ...get().asked, record: "asked: the next 10 steps will be recorded in full" }, refused: { ...get().refused, record: null } });
      } catch (error) {
        set({ ...get(), refused: { ...get().refused, record: error.message } });
      }
    },
    async ask_window() {
      try {
        const told = await post_json(address("api/windows", chosen(get())), { steps: 10, shapes: true, stacks: true });
        set({ ...get(), asked: { ...get().asked, window: `asked: window ${told.id}` }, refused: { ...get().refused, window: null } });
        ask("windows");
      } catch (error) {
        set({ ...get(), refused: { ...get().refused, window: error.message } });
      }
    },
    async ask_stacks() {
      try {
        set({ ...get(), stacks: { session: get().session, text: "…" } });
        const told = await post_json(address("api/stacks", chosen(get())), {});
        set({ ...get(), stacks: { session: get().session, text: told.stacks } });
      } catch (error) {
        set({ ...get(), stacks: { session: get().session, text: error.message, remedy: error.remedy } });
      }
    },
    command({ name, value }) {
      const state = get();
      const running = state.session !== null;
      if (name === "help") open_help();
      else if (!running) return;
      else if (name === "toggle_pause") actions.toggle_pause();
      else if (name === "trace") actions.open_trace();
      else if (name === "search") $("query").focus();
      else if (name === "shift") actions.shift(value);
      else if (name === "window") actions.set_window(value);
      else if (name === "clear") actions.clear_selection();
      else if (name === "next") focus_op(value) || focus_finding(value);
    },
    /** The median that tells when a step is overdue. */
    median_ms: () => get().bottlenecks?.step_ms?.p50 ?? shown_series(get()).steps.at(-1)?.ms ?? null,
  };
  return actions;
}
