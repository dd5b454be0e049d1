// What to fix first: each finding with its price, its evidence, one line of advice. They change
// places at most every 5 s, and never under the pointer or the focus.

import { no_findings } from "../model/condition.js";
import { count, decimals, figure, known, number, percent, share_of, time_unit } from "../model/format.js";
import { address, questions } from "../net/api.js";
import { $, announce, el, keyed, set_hidden, set_line, set_text, with_code } from "../ui/dom.js";
import { panel_menu } from "../ui/menu.js";
import { render_verdicts, update_verdict, verdict_form } from "./verdict.js";

const SHOWN = 3, SHOWN_BESIDE_THREADS = 2;
const LEAST_SHARE = 0.01;
const ORDER_MS = 5000;
const COLOURS = new Set(["data", "forward", "backward", "optimizer", "other", "compute", "communication", "copy", "sync", "idle", "allocated", "reserved", "host"]);

let order = [], ordered_at = 0, all = false;
const opened = new Set();

/** As the server has them: dearest first, grave risks where a fifth of a step would stand. Known findings keep their places until `may_move`; new ones go behind. */
export function keep_order(before, findings, may_move) {
  const ids = [...findings].sort((a, b) => (b.pinned === true) - (a.pinned === true)).map((f) => f.id);
  if (may_move || before.length === 0) return ids;
  const kept = before.filter((id) => ids.includes(id));
  return [...kept, ...ids.filter((id) => !kept.includes(id))];
}

const sentence = (finding) => finding.evidence?.sentence ?? finding.evidence?.text ?? finding.evidence?.summary ?? "";

/** "1.5 to 3.0 ms", as sure as the steps make it; "" where too few were seen. */
export function interval_text(finding, places) {
  const { ms_per_step_low: low, ms_per_step_high: high } = finding;
  if (!known(low) || !known(high) || !(finding.ms_per_step > 0)) return "";
  const fit = Math.min(places ?? 3, decimals(high)), from = number(low, fit), to = number(high, fit);
  return from === to ? "" : `${from} to ${to} ms`;
}

/** A risk costs no time yet, or nobody knows how much: it is shown whatever its share. */
const is_risk = (finding) => finding.ms_per_step === 0;
const price_of_risk = (finding) => (finding.open ? ["Open", "not priced"] : ["Risk", "no time yet"]);

function evidence_rows(finding) {
  const skip = new Set(["sentence", "text", "summary", "trace", "worst_step"]);
  return Object.entries(finding.evidence ?? {}).filter(([key, value]) => !skip.has(key) && ["number", "string", "boolean"].includes(typeof value));
}

function more_of(finding) {
  const rows = evidence_rows(finding).map(figure).flatMap(([name, text]) => [el("dt", {}, name), el("dd", {}, text)]);
  const parts = [];
  const interval = interval_text(finding);
  if (interval) parts.push(el("p", {}, el("span", { class: "dim" }, finding.confidence === "estimated" ? "Estimated: " : "Measured: "), interval, el("span", { class: "dim" }, finding.confidence === "estimated" ? ", for part of the price is a guess" : ", with 95 % certainty")));
  if (known(finding.since_step)) parts.push(el("p", {}, el("span", { class: "dim" }, "Seen since step "), count(finding.since_step)));
  if (finding.formula) parts.push(el("p", {}, el("span", { class: "dim" }, "Price: "), el("code", {}, finding.formula)));
  if (rows.length > 0) parts.push(el("dl", { class: "evidence-rows" }, ...rows));
  const advice = (finding.advice ?? []).slice(1);
  if (advice.length > 0) parts.push(el("ul", { class: "advice-list" }, ...advice.map((text) => el("li", {}, ...with_code(text)))));
  if (finding.wrong_if) parts.push(el("p", {}, el("span", { class: "dim" }, "What would make this wrong: "), ...with_code(finding.wrong_if)));
  if (typeof finding.evidence?.trace === "string") parts.push(el("p", {}, el("a", { href: finding.evidence.trace.replace(/^\//, ""), download: "" }, `Trace of step ${count(finding.evidence.worst_step)}, the worst`)));
  if (parts.length === 0) parts.push(el("p", { class: "dim" }, "No more is known about this one."));
  return parts;
}

function toggle(node, id) {
  const open = !opened.has(id);
  if (open) opened.add(id);
  else opened.delete(id);
  node.querySelector("h3 button").setAttribute("aria-expanded", String(open));
  node.querySelector(".details").hidden = !open;
}

function create(finding, actions) {
  const open = opened.has(finding.id);
  const node = el("li", {},
    el("div", { class: "price" }, el("b", {}, el("span"), el("small", {}, " ms")), el("span", { class: "of" }), el("span", { class: "range" }), el("i")),
    el("div", { class: "what" }, el("h3", {}, el("button", { type: "button", "aria-expanded": String(open) })), el("p", { class: "evidence" }),
      el("p", { class: "advice" }, el("span"), el("button", { type: "button", class: "show" }, "Show me")),
      el("div", { class: "details", hidden: !open }, el("div", { class: "told" }))));
  node.querySelector(".details").append(verdict_form(node, actions));
  node.querySelector("h3 button").addEventListener("click", () => toggle(node, finding.id));
  node.querySelector(".show").addEventListener("click", () => actions.show_finding(node.finding));
  return node;
}

const parts_of = (f) => [f.advice, f.evidence, f.formula, f.ms_per_step_low, f.since_step];

function update(node, finding, { step_ms, top, places }) {
  const ms = finding.ms_per_step, share = share_of(finding, step_ms);
  const [price, what] = node.children;
  set_text(price.querySelector("b span"), is_risk(finding) ? price_of_risk(finding)[0] : number(ms, places));
  set_hidden(price.querySelector("small"), is_risk(finding));
  set_text(price.querySelector(".of"), is_risk(finding) ? price_of_risk(finding)[1] : `${percent(100 * share, share < 0.095 ? 1 : 0)} of step`);
  set_text(price.querySelector(".range"), interval_text(finding, places));
  const bar = price.lastElementChild;
  bar.style.width = `${Math.max(6, 72 * Math.min(1, ms / top))}px`;
  bar.style.background = `var(--${COLOURS.has(finding.colour) ? finding.colour : "other"})`;
  set_text(what.querySelector("h3 button"), `${finding.pinned ? "★ " : ""}${finding.title ?? finding.id}`);
  update_verdict(what.querySelector(".verdict"), finding);
  const facts = sentence(finding);
  set_hidden(what.querySelector(".evidence"), facts === "");
  if (node.told !== facts) what.querySelector(".evidence").replaceChildren(...with_code(facts));
  node.told = facts;
  set_hidden(what.querySelector(".show"), !Array.isArray(finding.steps) && !(finding.ops?.length > 0));
  const same = node.finding && JSON.stringify(parts_of(node.finding)) === JSON.stringify(parts_of(finding));
  node.finding = finding;
  if (same) return;
  what.querySelector(".advice span").replaceChildren(...with_code(finding.advice?.[0] ?? ""));
  what.querySelector(".told").replaceChildren(...more_of(finding));
}

/** "With data loading hidden, a step would take 173 to 178 ms."; "" where nothing is known. */
export function what_if_text(told) {
  const { title, step_ms_low: low, step_ms_high: high } = told?.what_if?.[0] ?? {};
  if (!title || !known(low) || !known(high)) return "";
  const { unit, scale } = time_unit(high), places = decimals(high * scale);
  const [from, to] = [low, high].map((ms) => number(ms * scale, places));
  return `${title}, a step would take ${from === to ? to : `${from} to ${to}`} ${unit}.`;
}

function update_empty(node, text) {
  if (node.told !== text) node.replaceChildren(...with_code(text));
  node.told = text;
}

/** "2 smaller findings, 4.6 ms", "1 more risk" */
function rest_text(rest, places) {
  const priced = rest.filter((f) => !is_risk(f)), risks = rest.length - priced.length;
  const sum = priced.reduce((total, f) => total + (f.ms_per_step ?? 0), 0);
  const parts = [];
  if (priced.length > 0) parts.push(`${count(priced.length)} smaller ${priced.length === 1 ? "finding" : "findings"}, ${number(sum, places)} ms`);
  if (risks > 0) parts.push(`${count(risks)} more ${risks === 1 ? "risk" : "risks"}`);
  return parts.join("; ");
}

let heard_of = { session: null, ids: new Set() };

/** A finding that was not there before is said once; those that a session begins with are read anyway. */
function tell_of_new(state, findings) {
  if (state.bottlenecks === null || state.view.selection || state.view.paused) return;
  const begins = heard_of.session !== state.session;
  if (begins) heard_of = { session: state.session, ids: new Set() };
  for (const { id, title } of findings) {
    if (!begins && !heard_of.ids.has(id)) announce(`New finding: ${title ?? id}`);
    heard_of.ids.add(id);
  }
}

const COLUMNS = ["id", "title", "ms_per_step", "ms_per_step_low", "ms_per_step_high", "share", "severity", "confidence", "since_step"];

/** @param {() => object} state_of */
export function build_findings(state_of) {
  document.querySelector("#findings .head").append(el("span", { class: "grow" }), panel_menu({
    name: "What to fix first",
    table: () => ({ columns: COLUMNS, rows: (state_of().bottlenecks?.findings ?? []).map((f) => COLUMNS.map((name) => f[name] ?? null)) }),
    question: () => address(...questions.bottlenecks(state_of())),
  }));
}

export function render_findings(state, { actions, now }) {
  const panel = $("findings"), list = $("finding-list");
  const step_ms = state.bottlenecks?.step_ms?.mean;
  const findings = (state.bottlenecks?.findings ?? []).filter((f) => share_of(f, step_ms) >= LEAST_SHARE || f.pinned || is_risk(f));
  const busy = panel.matches(":hover") || panel.contains(document.activeElement);
  const may_move = !busy && now - ordered_at > ORDER_MS;
  if (may_move) ordered_at = now;
  order = keep_order(order, findings, may_move);
  const sorted = order.map((id) => findings.find((f) => f.id === id));
  const most = $("threads").hidden ? SHOWN : SHOWN_BESIDE_THREADS;
  const shown = all ? sorted : sorted.slice(0, most);
  const top = Math.max(...findings.map((f) => f.ms_per_step ?? 0), 1e-9);
  const places = decimals(top);
  set_hidden($("finding-empty"), shown.length > 0);
  update_empty($("finding-empty"), no_findings(state));
  tell_of_new(state, findings);
  keyed(list, shown, (f) => f.id, (f) => create(f, actions), (node, f) => update(node, f, { step_ms, top, places }));
  set_line($("what-if"), what_if_text(state.bottlenecks));
  render_verdicts(state.bottlenecks, actions, state.refused?.finding);
  const rest = sorted.slice(most);
  const more = $("more-findings");
  set_hidden(more, rest.length === 0);
  set_text(more, all ? "Fewer findings" : rest_text(rest, places));
  more.onclick = () => { all = !all; actions.redraw(); };
}

/** Moves the focus by keys; enter on it opens. */
export function focus_finding(by) {
  const heads = [...document.querySelectorAll("#finding-list h3 button")];
  const at = heads.indexOf(document.activeElement);
  heads[Math.max(0, Math.min(heads.length - 1, at + by))]?.focus();
  return heads.length > 0;
}
