// The newest slow steps in the server's list, each with its cause and its trace.

import { age, bytes, count, duration_beside, known, time_unit } from "../model/format.js";
import { is_over, session_of, shown_series, window_of } from "../model/store.js";
import { address, chosen, questions } from "../net/api.js";
import { $, el, keyed, set_hidden, set_text } from "../ui/dom.js";
import { panel_menu } from "../ui/menu.js";

const MOST = 20;

const CAUSES = { data: "data loading", forward: "forward", backward: "backward", optimizer: "optimizer", gc: "Python GC", core: "no free core", other: "other" };

function trace_cell(node, step, state) {
  const link = node.firstElementChild;
  if (!known(step.trace_bytes)) return node.replaceChildren(el("span", { class: "dim", title: "Overwritten by newer events" }, "gone"));
  if (step.recorded === "phases" || step.recorded === "none") return node.replaceChildren(el("span", { class: "dim", title: "This step was not recorded in full: its ops are not known" }, step.recorded === "none" ? "duration only" : "phases only"));
  const href = address("api/trace", { ...chosen(state), step: step.number });
  if (link?.getAttribute("href") === href) return undefined;
  return node.replaceChildren(el("a", { href, download: "", title: `Chrome trace, about ${bytes(step.trace_bytes)}` }, "Trace"));
}

const COLUMNS = ["number", "duration_ms", "cause", "age_ms", "recorded", "trace_bytes"];

/** @param {() => object} state_of */
export function build_slow(state_of) {
  document.querySelector("#slow-steps .head").append(el("span", { class: "grow" }), panel_menu({
    name: "Slow steps",
    table: () => ({ columns: COLUMNS, rows: shown_series(state_of()).slow.map((step) => COLUMNS.map((name) => step[name] ?? null)) }),
    question: () => address(...questions.steps(state_of(), 2, window_of(state_of()))),
  }));
}

/** `received_ms`: how long ago the newest event of the list's time was. */
export function render_slow(state, { actions, received_ms }) {
  const host = $("slow"), series = shown_series(state);
  const rows = series.slow.slice(0, MOST);
  if (host.children.length === 0) {
    const heads = ["Step", "Duration", "Cause", "When", "Trace"].map((name) => el("th", { scope: "col" }, name));
    host.append(el("table", { class: "slow" }, el("thead", { class: "sr" }, el("tr", {}, ...heads)), el("tbody")), el("p", { class: "foot dim none" }));
  }
  const body = host.querySelector("tbody"), none = host.lastElementChild;
  set_hidden(none, rows.length > 0);
  set_hidden(host.firstElementChild, rows.length === 0);
  set_text(none, series.steps.length === 0 ? "After the first steps." : "No step took more than twice the median.");
  const unit = time_unit(Math.max(0, ...rows.map((row) => row.duration_ms)));
  const ago = is_over(session_of(state)) ? "before" : "ago";
  const since = known(received_ms) ? received_ms : 0;
  keyed(body, rows, (row) => row.number, (row) => {
    const select = el("button", { type: "button", onclick: () => actions.select_steps(row.number, row.number), title: "Show this step" });
    return el("tr", {}, el("td", {}, select), el("td", { class: "num" }), el("td"), el("td", { class: "dim" }), el("td"));
  }, (node, row) => {
    const [number_cell, duration, cause, when, trace] = node.children;
    set_text(number_cell.firstElementChild, count(row.number));
    set_text(duration, duration_beside(row.duration_ms, unit).join(" "));
    set_text(cause, CAUSES[row.cause] ?? (row.cause || "unknown"));
    set_text(when, known(row.age_ms) ? `${age(row.age_ms + since)} ${ago}` : "");
    trace_cell(trace, row, state);
  });
}
