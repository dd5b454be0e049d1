// What the profiler costs and sees: the measured share against its budget, and each source; of a
// trace file, which costs nothing, what is in it.

import { SOURCE_STATES } from "../model/condition.js";
import { bytes, count, decimals, known, number, plural } from "../model/format.js";
import { loss_text } from "../model/losses.js";
import { file_of, session_of } from "../model/store.js";
import { address, questions } from "../net/api.js";
import { $, el, keyed, set_attribute, set_hidden, set_line, set_text } from "../ui/dom.js";
import { panel_menu } from "../ui/menu.js";
import { radio_keys, show_radio } from "../ui/radios.js";
import { is_measured } from "./bar.js";

const BUDGETS = [0.5, 1, 2, 5, 0];

const LABELS = {
  steps: "Steps", phases: "Phases", cpu_ops: "CPU ops", ranges: "User ranges", nvtx: "NVTX", cpu_memory: "CPU memory", device_memory: "GPU memory",
  cupti: "GPU kernels", nvml: "GPU meters", python: "Python", framework: "Framework", stacks: "Stacks of a hang",
};

export function build_cost(actions, state_of) {
  document.querySelector("#cost .head").append(el("span", { class: "dim", id: "cost-note" }), el("span", { class: "grow" }), panel_menu({
    name: "What this profiler costs",
    table: () => ({ columns: ["source", "state", "reason", "ns_per_event", "events_per_s", "pct"], rows: source_rows(state_of()).map((r) => [r.source, r.state, r.reason, r.ns_per_event, r.events_per_s, r.pct]) }),
    question: () => address(...questions.overhead(state_of())),
  }));
  const budgets = el("div", { class: "segments", id: "budgets", role: "radiogroup", "aria-label": "Budget" },
    ...BUDGETS.map((pct) => el("button", { type: "button", role: "radio", dataset: { pct }, onclick: () => actions.set_budget(pct) }, pct === 0 ? "off" : `${pct} %`)));
  radio_keys(budgets, { choose: false }); // every choice is asked of the job
  $("cost-body").append(
    el("div", { class: "budget", id: "budget-row" }, el("span", {}, "Budget"), budgets, el("span", { class: "dim", id: "budget-note" })),
    el("table", { class: "caps", id: "caps" }, el("tbody")),
    el("p", { class: "foot", id: "cost-lost", hidden: true }),
    el("div", { class: "foot window-row" },
      el("button", { type: "button", class: "plain", id: "record-steps", onclick: actions.record_steps }, "Record the next 10 steps in full"),
      el("button", { type: "button", class: "plain", id: "record-window", onclick: actions.ask_window }, "With shapes and stacks"),
      el("span", { class: "dim", id: "window-note" })),
    el("ul", { class: "foot windows", id: "window-list", hidden: true }));
  $("window-list").addEventListener("click", (event) => {
    const trace = event.target.closest("button")?.dataset.trace;
    if (trace) actions.choose_session(trace);
  });
}

/** Sources of the status and their figures of the overhead, one row each. */
export function source_rows(state) {
  const figures = new Map((state.overhead?.sources ?? []).map((s) => [s.source, s]));
  const rows = (session_of(state)?.capabilities ?? []).map((c) => ({ ...c, ...figures.get(c.source), state: c.state, reason: c.reason }));
  const told = new Set(rows.map((row) => row.source));
  for (const source of state.overhead?.sources ?? []) if (!told.has(source.source)) rows.push({ state: "on", reason: null, ...source });
  return rows;
}

export function source_note(row) {
  const parts = [];
  if (row.reason) parts.push(row.reason);
  if (row.detail) parts.push(row.detail);
  if (SOURCE_STATES[row.state] !== "on") return parts.join("; ");
  if (known(row.pct) && row.pct > 0) parts.push(row.pct < 0.01 ? "under 0.01 %" : `${number(row.pct, 2)} %`);
  if (known(row.ns_per_event) && row.ns_per_event > 0) parts.push(`${number(row.ns_per_event, 0)} ns an event`);
  if (known(row.events_per_s) && row.events_per_s > 0) parts.push(`${row.events_per_s < 9.95 ? number(row.events_per_s, decimals(row.events_per_s) - 1) : count(row.events_per_s)} events/s`);
  return parts.join("; ");
}

const MANY_STEPS = 100000;

function steps_left(steps) {
  if (!known(steps)) return "";
  return steps > MANY_STEPS ? ": the steps differ too much from each other to tell soon" : `, about ${plural(steps, "more step")}`;
}

function measured_text(told, session, file) {
  const over = session?.state !== "running";
  if (session?.from_file) return file === null ? "" : `${bytes(file.bytes)}, ${plural(file.events, "event")}`;
  if (!told) return "";
  if (over && !is_measured(told)) return "not measured: the run was too short";
  if (told.reason && !known(told.measured_pct)) return told.reason;
  const [low, high] = told.ci95_pct ?? [null, null];
  const range = known(low) ? ` (${number(Math.max(0, low), 2)} to ${number(high, 2)} %)` : "";
  const figure = `${number(Math.max(0, told.measured_pct), 2)} %${range}`.replaceAll(" ", "\u00a0"); // one figure, on one line
  if (told.state === "nothing_fits") return `${figure}; no operators fit the budget`;
  return is_measured(told) ? figure : `${figure}, measuring${steps_left(told.experiment_steps_needed)}`;
}

/** The budget in percent, 0 for a probe that is off; null where nobody told. */
export const budget_of = (told) => (told?.level === "off" ? 0 : told?.budget_pct ?? null);

/** Why nothing can be changed here; null where it can, or may be tried again. */
function unwritable(state) {
  const control = state.overhead?.control;
  return control?.writable === false ? control.reason ?? "This server may not write to the job's directory." : null;
}

function budget_text(state) {
  const why = state.refused?.level ?? unwritable(state);
  if (why) return why;
  const share = state.overhead?.recorded_share;
  if (!known(share)) return "";
  const pct = share > 1 ? share : 100 * share;
  return `${number(pct, pct < 9.95 && pct > 0 ? 1 : 0)} % of steps recorded in full${phases_text(state.overhead.phases_share)}`;
}

/** Steps that carry a mark alone have no phases; nothing to say where nearly all do. */
function phases_text(share) {
  return known(share) && share < 0.5 ? `, phases known of ${number(100 * share, share < 0.1 ? 1 : 0)} %` : "";
}

const WINDOWS_SHOWN = 4;

/** What became of a window, in a sentence. */
export function window_text(row) {
  const name = known(row.rank) ? `Rank ${row.rank}` : "Window";
  if (row.state === "asked") return `${name}: asked, begins at the next steps`;
  if (row.state === "running") return `${name}: recording ${count(row.asked_steps)} steps from step ${count(row.first_step)} on`;
  if (row.state === "failed") return `${name}: none, ${row.reason}`;
  const early = row.ended_by === "steps" ? "" : `, ended by ${row.ended_by}`;
  const cost = `took ${number(row.start_ms + row.stop_ms, 0)} ms to start and stop`;
  return `${name}: ${count(row.steps)} steps from step ${count(row.first_step)} on${early}, ${bytes(row.bytes)}; ${cost}${row.reason ? `; ${row.reason}` : ""}`;
}

function render_windows(state) {
  const rows = session_of(state)?.from_file ? [] : (state.windows?.windows ?? []).slice(0, WINDOWS_SHOWN);
  set_hidden($("window-list"), rows.length === 0);
  keyed($("window-list"), rows, (row) => `${row.id} ${row.pid}`, () => el("li", {}, el("span"), el("button", { type: "button", class: "plain" }, "Show"), el("a", { class: "plain" }, "Download")), (node, row) => {
    const [text, show, save] = node.children;
    set_text(text, window_text(row));
    set_hidden(show, !row.trace);
    set_hidden(save, !row.trace);
    if (!row.trace) return;
    show.dataset.trace = row.trace;
    set_attribute(save, "href", `api/traces/${encodeURIComponent(row.trace)}`);
    set_attribute(save, "download", "");
  });
}

/** Why torch.profiler cannot record here; null where it can. */
function no_profiler(session) {
  const python = session?.capabilities?.find((one) => one.source === "python");
  return !session?.capabilities || python?.state === "active" ? null : "torch.profiler makes them, and this process runs no Python that was seen";
}

/** Two requests; what cannot be had says why, in the server's words. */
function render_requests(state, session, why) {
  document.querySelector(".window-row").hidden = session?.state !== "running";
  const window = why ?? no_profiler(session);
  $("record-steps").disabled = why !== null;
  $("record-window").disabled = Boolean(window);
  set_attribute($("record-steps"), "title", why);
  set_attribute($("record-window"), "title", window || null);
  const note = state.refused?.window ?? state.refused?.record ?? state.asked?.window ?? state.asked?.record ?? (window && !why ? `Shapes and stacks: ${window}` : "");
  set_text($("window-note"), note);
}

export function render_cost_panel(state) {
  const session = session_of(state), told = state.overhead;
  const alive = session?.state === "running";
  const file = file_of(state);
  set_text($("cost-title"), session?.from_file ? "What this file holds" : "What this profiler costs and sees");
  set_text($("cost-note"), measured_text(told, session, file));
  set_hidden($("budget-row"), !alive);
  const why = unwritable(state);
  const budgets = [...$("budgets").children];
  show_radio($("budgets"), budgets.find((button) => Number(button.dataset.pct) === budget_of(told)) ?? null);
  for (const button of budgets) {
    button.disabled = why !== null;
    set_attribute(button, "title", why);
  }
  set_text($("budget-note"), budget_text(state));
  $("budget-note").classList.toggle("warn", Boolean(state.refused?.level ?? why));
  keyed(document.querySelector("#caps tbody"), source_rows(state), (row) => row.source, () => el("tr", {}, el("td"), el("td"), el("td")), (node, row) => {
    const [name, mode, note] = node.children;
    const shown = SOURCE_STATES[row.state] ?? row.state ?? "";
    set_text(name, session?.from_file && row.source === "cpu_memory" ? "Memory" : LABELS[row.source] ?? row.source);
    set_text(mode, session?.from_file ? (shown === "on" ? "recorded" : "none") : shown);
    mode.className = { on: "on", held: "warn", taken: "warn" }[shown] ?? "off";
    set_text(note, source_note(row));
  });
  set_line($("cost-lost"), loss_text(session, file));
  render_requests(state, session, why);
  render_windows(state);
}
