// The status bar: which session and rank, how it goes, which window, what the profiler costs.

import { badge_of, outcome_of } from "../model/condition.js";
import { age, clock, duration_text, known, number, plural } from "../model/format.js";
import { WINDOWS } from "../model/hash.js";
import { ranks_of, session_of, window_of } from "../model/store.js";
import { $, announce, el, set_attribute, set_hidden, set_text } from "../ui/dom.js";
import { close_list, open_list } from "../ui/menu.js";
import { radio_keys, show_radio } from "../ui/radios.js";

const WINDOW_LABELS = { "10s": "10 s", "60s": "60 s", "10min": "10 min", run: "Run" };
const SIGNS = { live: "●", paused: "‖", stale: "▲", crashed: "■", over: "■", waiting: "○" };

export const session_name = (session) => session.name || `pid ${session.pid}`;

/** Sessions for the picker, newest first. */
export function session_rows(status) {
  return [...(status?.sessions ?? [])].sort((a, b) => (b.start_unix_ms ?? 0) - (a.start_unix_ms ?? 0));
}

function session_option(session, chosen, choose) {
  const parts = session.from_file ? ["trace file"] : [`pid ${session.pid}`, outcome_of(session).toLowerCase()];
  if (known(session.step_ms)) parts.push(`${duration_text(session.step_ms)} a step`);
  else parts.push(plural(session.steps ?? 0, "step"));
  if (known(session.last_event_age_ms)) parts.push(`${age(session.last_event_age_ms)} ago`);
  return option(session_name(session), parts.join(" · "), chosen, choose, session.state);
}

function option(title, detail, chosen, choose, kind = "") {
  return el("button", { type: "button", role: "option", class: `option ${kind}`, "aria-selected": String(chosen), onclick: () => { close_list(); choose(); } },
    el("b", {}, title), el("span", { class: "dim" }, detail));
}

/** A button with a list, or plain text where there is nothing to choose. */
function picker(node, label, title, detail, options) {
  const alone = options === null;
  let button = node.firstElementChild;
  if (!button || (button.tagName === "BUTTON") === alone) {
    button = alone ? el("span", { class: "pick alone" }, el("b"), el("span", { class: "dim" }))
      : el("button", { class: "pick", type: "button", "aria-haspopup": "listbox", "aria-expanded": "false" }, el("b"), el("span", { class: "dim" }));
    node.replaceChildren(button);
  }
  if (!alone) {
    set_attribute(button, "aria-label", `${label}: ${title} ${detail}`);
    button.onclick = () => open_list(button, el("div", { class: "list", role: "listbox", "aria-label": label }, ...options()));
  }
  set_text(button.children[0], title);
  set_text(button.children[1], detail);
}

function render_pickers(state, actions) {
  const session = session_of(state);
  if (!session) return;
  const sessions = session_rows(state.status);
  picker($("session-picker"), "Session", session_name(session), session.name && known(session.pid) && !session.from_file ? `pid ${session.pid}` : "",
    sessions.length < 2 ? null : () => sessions.map((s) => session_option(s, s.id === state.session, () => actions.choose_session(s.id))));
  const ranks = ranks_of(state);
  const world = session.world_size ?? ranks.length;
  set_hidden($("rank-picker"), !(world > 1 || ranks.length > 1));
  const told = new Map((state.ranks?.ranks ?? []).map((r) => [r.rank, r]));
  picker($("rank-picker"), "Rank", `Rank ${state.rank ?? 0}`, `of ${world}`, ranks.length < 2 ? null : () => ranks.map((rank) => {
    const row = told.get(rank);
    const slowest = state.ranks?.slowest?.rank === rank ? ", slowest" : "";
    return option(`Rank ${rank}${slowest}`, row ? `${duration_text(row.step_ms)} a step` : "", rank === state.rank, () => actions.choose_session(state.session, rank));
  }));
}

let last_badge = "";

function render_badge(state, now, median_ms) {
  const badge = badge_of(state, { median_ms, now, clock });
  const node = $("badge"), [sign, title, detail] = node.children;
  const of = `badge ${badge.kind}`;
  if (node.className !== of) node.className = of;
  set_text(sign, SIGNS[badge.kind]);
  set_text(title, badge.title);
  set_text(detail, badge.detail + (badge.action === "now" ? "   Now" : ""));
  set_attribute(node, "title", badge.hint || null);
  set_attribute(node, "aria-pressed", badge.kind === "paused" ? "true" : null);
  node.dataset.action = badge.action;
  document.body.classList.toggle("faded", badge.faded === true);
  if (badge.kind === "crashed" && last_badge !== "crashed") announce(`${badge.title} ${badge.detail}`, true);
  last_badge = badge.kind;
  return badge;
}

function render_windows(state, actions) {
  const host = $("windows");
  if (host.children.length === 0) {
    host.append(...WINDOWS.map((name) => el("button", { type: "button", role: "radio", dataset: { window: name }, onclick: () => actions.set_window(name) }, WINDOW_LABELS[name])));
    radio_keys(host);
  }
  const chosen = state.view.paused?.moved ? null : window_of(state);
  show_radio(host, [...host.children].find((button) => button.dataset.window === chosen) ?? null);
}

/** Measured once the interval is narrower than the budget; until then it is said to be measuring. */
export function is_measured({ ci95_pct, budget_pct, measured_pct, state }) {
  if (!known(measured_pct) || state === "measuring") return false;
  return !Array.isArray(ci95_pct) || ci95_pct[1] - ci95_pct[0] <= (budget_pct ?? Infinity);
}

function render_cost(state) {
  const told = state.overhead;
  const chip = $("cost-chip");
  const [, value, meter, budget] = chip.children;
  if (!told || !(known(told.measured_pct) || told.ci95_pct)) return set_hidden(chip, true);
  const sure = is_measured(told);
  set_hidden(chip, false);
  set_text(value, sure ? `${number(told.measured_pct, 1)} %` : "measuring");
  set_hidden(meter, !sure || !known(told.budget_pct));
  set_text(budget, known(told.budget_pct) ? `${sure ? "of" : "budget"} ${number(told.budget_pct, told.budget_pct % 1 === 0 ? 0 : 1)} %` : "");
  const share = known(told.budget_pct) && told.budget_pct > 0 ? told.measured_pct / told.budget_pct : 0;
  meter.firstElementChild.style.width = `${Math.round(100 * Math.min(1, Math.max(0.03, share)))}%`;
  meter.classList.toggle("over", share > 1);
  const interval = Array.isArray(told.ci95_pct) ? `, between ${number(told.ci95_pct[0], 2)} and ${number(told.ci95_pct[1], 2)} %` : "";
  set_attribute(chip, "title", `Measured in this job: ${number(told.measured_pct, 2)} %${interval}; budget ${number(told.budget_pct, 1)} %`);
}

export function render_bar(state, { now, actions, median_ms }) {
  render_pickers(state, actions);
  render_windows(state, actions);
  if (session_of(state)?.state === "running") render_cost(state);
  else set_hidden($("cost-chip"), true);
  return render_badge(state, now, median_ms);
}
