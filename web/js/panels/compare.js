// The compare view: two runs or trace files side by side, what costs most of the difference first.

import { MISSING, bytes, known, number, percent, plural, shorten } from "../model/format.js";
import { address, get_json } from "../net/api.js";
import { el, set_hidden, set_text } from "../ui/dom.js";
import { session_name } from "./bar.js";

const PHASES = { data: "Data loading", forward: "Forward", backward: "Backward", optimizer: "Optimizer", other: "Other" };
const IDLE = { data: "data loading", sync: "host waits", launch: "launch-bound", copy: "copy", alloc: "allocation", collective: "collective", python: "Python", unknown: "unknown" };
const MOST_OPS = 50;

let dialog = null, sides = [], asked = 0;

/** One side's part of the address of an answer, such as `t-12ab`. Pure. */
export const compare_path = (a, b) => address("api/compare", { a, b });

/** Rows of the table, each {name, kind, base, now, diff, percent, changed, state}, the largest change first within its kind. Pure. */
export function compare_rows(answer) {
  const other = answer.others?.[0] ?? {};
  const row = (kind, name, part, more = {}) => ({ kind, name, base: part?.base_ms ?? null, now: part?.ms ?? null, diff: part?.diff_ms ?? null, percent: part?.diff_pct ?? null, changed: part?.changed === true, state: "same", ...more });
  const by_cost = (rows) => rows.sort((x, y) => Math.abs(y.diff ?? 0) - Math.abs(x.diff ?? 0));
  const known_parts = (rows) => rows.filter((one) => known(one.base) || known(one.now));
  const phases = known_parts(Object.entries(PHASES).map(([key, name]) => row("phase", name, other.phases?.[key])));
  const gpu = (other.gpu ?? []).flatMap((device) => [
    ...["compute", "communication", "copy"].map((use) => row("gpu", `${device.device} ${use}`, device[use])),
    ...Object.entries(IDLE).map(([key, name]) => row("gpu", `${device.device} idle: ${name}`, device.idle?.[key]))]);
  const ops = (other.ops ?? []).map((op) => ({ kind: "op", name: op.name, device: op.device, base: op.base_per_step_ms, now: op.per_step_ms, diff: op.diff_ms, percent: op.diff_pct, changed: op.changed === true, state: op.state }));
  return [row("step", "Step", other.step_ms), ...by_cost(phases), ...by_cost(known_parts(gpu).filter((one) => one.base > 0 || one.now > 0)), ...by_cost(ops).slice(0, MOST_OPS)];
}

const ms = (value) => (known(value) ? number(value) : MISSING);
const signed = (value, text) => `${value > 0 ? "+" : value < 0 ? "−" : ""}${text}`;

/** "+12.3 ms" where it is a change, else the same in words that promise nothing. */
function difference(row) {
  if (row.state === "new") return "new";
  if (row.state === "gone") return "gone";
  if (!known(row.diff)) return MISSING;
  return signed(row.diff, number(Math.abs(row.diff)));
}

function row_node(row) {
  const sure = row.changed || row.state === "new" || row.state === "gone";
  const name = row.kind === "op" ? el("code", { title: row.name }, shorten(row.name, 60)) : row.name;
  const tone = !sure || !known(row.diff) ? "dim" : row.diff > 0 ? "worse" : "better";
  return el("tr", { class: row.kind },
    el("th", { scope: "row" }, name, row.state === "renamed" ? el("span", { class: "dim" }, " renamed") : null),
    el("td", { class: "num" }, ms(row.base)), el("td", { class: "num" }, ms(row.now)),
    el("td", { class: `num ${tone}`, title: sure ? "" : "No larger than the steps' own spread" }, difference(row)),
    el("td", { class: `num ${tone}` }, known(row.percent) ? signed(row.percent, percent(Math.abs(row.percent))) : ""));
}

function memory_text(answer) {
  const parts = (answer.others?.[0]?.memory ?? []).filter((part) => known(part.diff_bytes) && part.diff_bytes !== 0);
  if (parts.length === 0) return "";
  return `Memory peaks: ${parts.map((part) => `${part.device} ${signed(part.diff_bytes, bytes(Math.abs(part.diff_bytes)))}`).join(", ")}.`;
}

function verdict(answer) {
  const step = answer.others?.[0]?.step_ms;
  if (!known(step?.diff_ms)) return "There are no steps on both sides to compare.";
  if (!step.changed) return "A step takes the same, as far as the spread of the steps tells.";
  return `A step takes ${number(Math.abs(step.diff_ms))} ms ${step.diff_ms > 0 ? "more" : "less"} (${percent(Math.abs(step.diff_pct))}).`;
}

async function refresh() {
  const mine = ++asked, [a, b] = sides.map((side) => side.value);
  const status = dialog.querySelector("#compare-verdict"), body = dialog.querySelector("tbody"), foot = dialog.querySelector("#compare-foot");
  set_text(status, "Comparing");
  let answer;
  try {
    answer = await get_json(compare_path(a, b));
  } catch (error) {
    if (mine === asked) {
      set_text(status, error.message);
      body.replaceChildren();
    }
    return;
  }
  if (mine !== asked) return;
  const rows = compare_rows(answer), other = answer.others?.[0] ?? {};
  body.replaceChildren(...rows.map(row_node));
  set_text(status, answer.reason ?? verdict(answer));
  const apart = [known(other.new_ops) && other.new_ops > 0 ? plural(other.new_ops, "new op") : null, known(other.gone_ops) && other.gone_ops > 0 ? `${plural(other.gone_ops, "op")} gone` : null];
  set_text(foot, [...apart.filter(Boolean).map((text) => `${text}.`), memory_text(answer)].filter(Boolean).join(" "));
}

function build() {
  const side = (label) => el("select", { "aria-label": label, onchange: refresh });
  sides = [side("Base"), side("Compared with it")];
  dialog = el("dialog", { id: "compare", class: "wide", "aria-labelledby": "compare-title" },
    el("h2", { id: "compare-title" }, "Compare"),
    el("div", { class: "actions" }, sides[0], el("span", { class: "dim" }, "to"), sides[1],
      el("button", { type: "button", class: "plain", onclick: swap }, "Swap")),
    el("p", { id: "compare-verdict", role: "status" }),
    el("div", { class: "scroll" }, el("table", {},
      el("thead", {}, el("tr", {}, ...["ms per step", "Base", "This", "Difference", "%"].map((name) => el("th", { scope: "col" }, name)))), el("tbody"))),
    el("p", { class: "dim", id: "compare-foot" }),
    el("button", { type: "button", class: "close", "aria-label": "Close", onclick: () => dialog.close() }, "×"));
  dialog.addEventListener("click", (event) => { if (event.target === dialog) dialog.close(); });
  document.body.append(dialog);
}

function swap() {
  [sides[0].value, sides[1].value] = [sides[1].value, sides[0].value];
  refresh();
}

function open_compare(state) {
  if (dialog === null) build();
  const sessions = state.status?.sessions ?? [];
  const ids = [...new Map(sessions.map((one) => [one.id, session_name(one)]))];
  for (const side of sides) side.replaceChildren(...ids.map(([id, name]) => el("option", { value: id }, name)));
  sides[1].value = state.session;
  sides[0].value = (ids.find(([id]) => id !== state.session) ?? ids[0])[0];
  dialog.showModal();
  refresh();
}

/** @param {() => object} state_of */
export function build_compare(state_of) {
  document.getElementById("open-compare").addEventListener("click", () => open_compare(state_of()));
}

/** Two sessions make a comparison. */
export function render_compare(state) {
  const others = new Set((state.status?.sessions ?? []).map((one) => one.id));
  set_hidden(document.getElementById("open-compare"), others.size < 2);
}
