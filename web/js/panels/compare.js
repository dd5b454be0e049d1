// The compare view: two runs, trace files or stretches of one side by side, what costs most of the
// difference first.

import { MISSING, called, known, memory, number, percent, plural, shorten } from "../model/format.js";
import { finding_rows, first_sides, run_before, stretches, verdict_of } from "../model/sides.js";
import { is_over, session_of } from "../model/store.js";
import { address, get_json } from "../net/api.js";
import { $, close_button, el, make_dialog, set_attribute, set_hidden, set_text, with_code } from "../ui/dom.js";
import { IDLE_LABELS } from "../timeline/lanes.js";
import { session_name } from "./bar.js";

const PHASES = { data: "Data loading", forward: "Forward", backward: "Backward", optimizer: "Optimizer", other: "Other" };
const MOST_OPS = 50, MOST_RUNS = 50;

let dialog = null, sides = [], asked = 0, state = null;
let earlier = []; // runs that are in memory no more, as the server kept them

/** A side is {session, stretch}: "t-12ab@run", "41207@epoch:2". Pure. */
export const compare_path = (a, b, rank = null) => address("api/compare", { a: `${a.session}@${a.stretch}`, b: `${b.session}@${b.stretch}`, rank });

/** Rows of the table, each {name, kind, base, now, diff, percent, changed, state}, the largest change first within its kind. Pure. */
export function compare_rows(answer) {
  const other = answer.others?.[0] ?? {};
  const row = (kind, name, part, more = {}) => ({ kind, name, base: part?.base_ms ?? null, now: part?.ms ?? null, diff: part?.diff_ms ?? null, percent: part?.diff_pct ?? null, changed: part?.changed === true, interval: part?.ci95_ms ?? null, state: "same", ...more });
  const by_cost = (rows) => rows.sort((x, y) => Math.abs(y.diff ?? 0) - Math.abs(x.diff ?? 0));
  const known_parts = (rows) => rows.filter((one) => known(one.base) || known(one.now));
  const phases = known_parts(Object.entries(PHASES).map(([key, name]) => row("phase", name, other.phases?.[key])));
  const gpu = (other.gpu ?? []).flatMap((device) => [
    ...["compute", "communication", "copy"].map((use) => row("gpu", `${device.device} ${use}`, device[use])),
    ...Object.entries(IDLE_LABELS).map(([key, name]) => row("gpu", `${device.device} idle: ${name}`, device.idle?.[key]))]);
  const ops = (other.ops ?? []).map((op) => ({ kind: "op", name: op.name, short_name: op.short_name, device: op.device, base: op.base_per_step_ms, now: op.per_step_ms, diff: op.diff_ms, percent: op.diff_pct, changed: op.changed === true, interval: op.ci95_ms ?? null, state: op.state }));
  const findings = finding_rows(other);
  const heads = findings.length === 0 ? [[], []] : ["Bottlenecks that went, came or changed", "Where a step goes"].map((name) => [{ kind: "title", name }]);
  return [row("step", "Step", other.step_ms), ...heads[0], ...findings, ...heads[1], ...by_cost(phases), ...by_cost(known_parts(gpu).filter((one) => one.base > 0 || one.now > 0)), ...by_cost(ops).slice(0, MOST_OPS)];
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

const is_apart = ({ state }) => state === "new" || state === "gone";

/** How sure the difference is, in words. */
function certainty(row, sure) {
  if (!sure && is_apart(row)) return "less than what is told may be on the other side";
  const between = Array.isArray(row.interval) ? `95 %: ${row.interval.map((end) => signed(end, number(Math.abs(end)))).join(" to ")} ms` : null;
  const unsure = between ? "no larger than the steps' own spread" : "how much it varies is not known";
  return [between, sure ? null : unsure].filter(Boolean).join("; ");
}

function row_node(row) {
  if (row.kind === "title") return el("tr", { class: "title" }, el("th", { scope: "rowgroup", colspan: 5 }, row.name));
  const sure = row.changed || (is_apart(row) && (row.kind === "op" || !row.diff || row.interval === null));
  const name = row.kind === "op" ? el("code", { title: row.name }, shorten(called(row), 60)) : row.name;
  const tone = !sure || !known(row.diff) ? "dim" : row.diff > 0 || row.state === "new" ? "worse" : "better";
  return el("tr", { class: row.kind },
    el("th", { scope: "row" }, name, row.state === "renamed" ? el("span", { class: "dim" }, " renamed") : null, row.advice ? el("p", { class: "dim" }, ...with_code(row.advice)) : null),
    el("td", { class: "num" }, ms(row.base)), el("td", { class: "num" }, ms(row.now)),
    el("td", { class: `num ${tone}`, title: certainty(row, sure) }, difference(row)),
    el("td", { class: `num ${tone}` }, known(row.percent) ? signed(row.percent, percent(Math.abs(row.percent))) : ""));
}

function memory_text(answer) {
  const parts = (answer.others?.[0]?.memory ?? []).filter((part) => known(part.diff_bytes) && part.diff_bytes !== 0);
  if (parts.length === 0) return "";
  return `Memory peaks: ${parts.map((part) => `${part.device} ${signed(part.diff_bytes, memory(Math.abs(part.diff_bytes)).join(" "))}`).join(", ")}.`;
}

const findings_text = ({ findings_reason: why }) => (why ? `${why[0].toUpperCase()}${why.slice(1)}.` : "");

const chosen_side = ({ session, stretch }) => ({ session: session.value, stretch: stretch.value });

/** "Base, 280 steps" over the columns: what the numbers are means of. */
function name_columns(answer) {
  const heads = dialog.querySelectorAll("thead th");
  const steps = (side) => (known(side?.steps) && side.steps > 0 ? `, ${plural(side.steps, "step")}` : "");
  set_text(heads[0], answer.others?.[0]?.per === "run" ? "ms in all" : "ms per step");
  set_text(heads[1], `Base${steps(answer.base)}`);
  set_text(heads[2], `This${steps(answer.others?.[0])}`);
}

async function refresh() {
  const mine = ++asked, [a, b] = sides.map(chosen_side);
  const rank = a.session === state.session && b.session === state.session ? state.rank : null;
  const status = dialog.querySelector("#compare-verdict"), body = dialog.querySelector("tbody"), foot = dialog.querySelector("#compare-foot");
  set_text(status, "Comparing");
  let answer;
  try {
    answer = await get_json(compare_path(a, b, rank));
  } catch (error) {
    if (mine === asked) {
      set_text(status, error.message);
      body.replaceChildren();
      set_text(foot, "");
    }
    return;
  }
  if (mine !== asked) return;
  const rows = compare_rows(answer), other = answer.others?.[0] ?? {};
  body.replaceChildren(...rows.map(row_node));
  name_columns(answer);
  set_text(status, answer.reason ?? other.reason ?? verdict_of(answer));
  const apart = [known(other.new_ops) && other.new_ops > 0 ? plural(other.new_ops, "new op") : null, known(other.gone_ops) && other.gone_ops > 0 ? `${plural(other.gone_ops, "op")} gone` : null];
  const lacks = [...(answer.base?.lacks ?? []).map((text) => `Base: ${text}.`), ...(other.lacks ?? []).map((text) => `This: ${text}.`)];
  set_text(foot, [...apart.filter(Boolean).map((text) => `${text}.`), findings_text(other), memory_text(answer), ...lacks].filter(Boolean).join(" "));
}

const day = (unix_ms) => (known(unix_ms) ? new Date(unix_ms).toLocaleString(undefined, { day: "numeric", month: "short", hour: "2-digit", minute: "2-digit" }) : "");

/** Runs that are in memory no more, as [id, name with its day]. Pure. */
export function earlier_names(runs, sessions) {
  const there = new Set(sessions.map((one) => one.id));
  return runs.filter((run) => !there.has(run.session)).slice(0, MOST_RUNS)
    .map((run) => [run.session, [shorten(run.name || run.session, 24), day(run.start_unix_ms)].filter(Boolean).join(", ")]);
}

/** What can be a side, as [label, [[id, name]]]: runs that are there, trace files, runs before. Pure. */
export function groups_of_sides(sessions, runs) {
  const named = (list) => [...new Map(list.map((one) => [one.id, shorten(session_name(one), 34)]))];
  return [["Runs", named(sessions.filter((one) => !one.from_file))], ["Trace files", named(sessions.filter((one) => one.from_file))], ["Earlier runs", earlier_names(runs, sessions)]]
    .filter(([, list]) => list.length > 0);
}

const option = ([key, name]) => el("option", { value: key }, name);

function choose(select, options, value) {
  select.value = options.some(([key]) => key === value) ? value : options[0][0];
}

function fill(select, options, value) {
  select.replaceChildren(...options.map(option));
  choose(select, options, value);
}

function fill_groups(select, groups, value) {
  select.replaceChildren(...groups.map(([label, list]) => el("optgroup", { label }, ...list.map(option))));
  choose(select, groups.flatMap(([, list]) => list), value);
}

function make_side(label, stretch_label) {
  const side = { session: el("select", { "aria-label": label }), stretch: el("select", { "aria-label": stretch_label, onchange: refresh }) };
  side.session.addEventListener("change", () => {
    fill(side.stretch, stretches(state, side.session.value), side.stretch.value);
    refresh();
  });
  return side;
}

function show_side(side, wanted) {
  fill_groups(side.session, groups_of_sides(state.status?.sessions ?? [], earlier), wanted.session);
  fill(side.stretch, stretches(state, side.session.value), wanted.stretch);
}

function build() {
  sides = [make_side("Base", "Stretch of the base"), make_side("Compared with it", "Stretch of the other")];
  dialog = make_dialog({ id: "compare", class: "wide", "aria-labelledby": "compare-title" },
    el("h2", { id: "compare-title" }, "Compare"),
    el("div", { class: "actions" }, el("span", { class: "side" }, sides[0].session, sides[0].stretch), el("span", { class: "dim" }, "to"), el("span", { class: "side" }, sides[1].session, sides[1].stretch),
      el("button", { type: "button", class: "plain", onclick: swap }, "Swap")),
    el("p", { id: "compare-verdict", role: "status" }),
    el("div", { class: "scroll" }, el("table", {},
      el("thead", {}, el("tr", {}, ...["ms per step", "Base", "This", "Difference", "%"].map((name) => el("th", { scope: "col" }, name)))), el("tbody"))),
    el("p", { class: "dim", id: "compare-foot" }),
    close_button());
}

function swap() {
  const [a, b] = sides.map(chosen_side);
  show_side(sides[0], b);
  show_side(sides[1], a);
  refresh();
}

function open_compare(now) {
  if (dialog === null) build();
  state = now;
  first_sides(now).forEach((wanted, i) => show_side(sides[i], wanted));
  dialog.showModal();
  refresh();
  get_json("api/runs").then((answer) => {
    earlier = answer.runs ?? [];
    for (const side of sides) show_side(side, chosen_side(side));
  }).catch(() => { /* what is in memory is enough to compare */ });
}

/** @param {() => object} state_of */
export function build_compare(state_of) {
  $("open-compare").addEventListener("click", () => open_compare(state_of()));
}

/** What came or went while the view is open can be chosen, or cannot; the sides stay. */
function follow(now) {
  const ids = (of) => (of.status?.sessions ?? []).map((one) => one.id).join();
  if (ids(now) === ids(state)) return;
  const shown = sides.map(chosen_side);
  state = now;
  sides.forEach((side, i) => show_side(side, shown[i]));
}

/** A run has stretches to compare; one that is over offers the run before by name. */
export function render_compare(now) {
  const session = session_of(now), button = $("open-compare");
  const before = is_over(session) ? run_before(now) : null;
  if (dialog?.open) follow(now);
  set_hidden(button, !(session?.steps > 0) && !run_before(now));
  button.classList.toggle("icon", before === null);
  button.classList.toggle("plain", before !== null);
  set_text(button.lastElementChild, before === null ? "" : `Compare with ${shorten(session_name(before), 24)}`);
  set_attribute(button, "aria-label", button.textContent || "Compare");
}
