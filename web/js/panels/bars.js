// Two small panels of bars in ms per step: why the GPU idles, and the ranks.

import { MISSING, count, gpu_title, known, number, percent } from "../model/format.js";
import { IDLE } from "../model/series.js";
import { gpu_uses, main_gpu, session_of, shown_series, window_parameter } from "../model/store.js";
import { IDLE_LABELS, IDLE_TOKENS } from "../timeline/lanes.js";
import { $, el, keyed, set_hidden, set_line, set_text } from "../ui/dom.js";
import { address, questions } from "../net/api.js";
import { panel_menu } from "../ui/menu.js";
import { communication_sentence, known_sentence, run_scope, run_sentences } from "./meters.js";

/** A bar per row {name, note, ms, token}, in ms per step. */
export function bar_table(host, rows) {
  if (!host.firstElementChild) host.append(el("table", { class: "bars" }, el("tbody")));
  const top = Math.max(...rows.map((row) => row.ms ?? 0), 1e-9);
  const places = top >= 99.5 ? 1 : top >= 0.995 ? 2 : 3;
  keyed(host.querySelector("tbody"), rows, (row) => row.name, () => el("tr", {}, el("td"), el("td", { class: "fill" }, el("i")), el("td", { class: "num" })), (node, row) => {
    const [name, fill, value] = node.children;
    set_text(name, row.name + (row.note ?? ""));
    fill.firstElementChild.style.width = `${(100 * (row.ms ?? 0)) / top}%`;
    fill.firstElementChild.style.background = `var(--${row.token})`;
    set_text(value, known(row.ms) ? `${number(row.ms, places >= 2 && top >= 9.95 ? 1 : places)} ms` : "–");
  });
}

/** Causes of idling, largest first; "unknown" is always listed. */
export function idle_rows(uses) {
  const idle = uses?.idle ?? {};
  const title = (cause) => IDLE_LABELS[cause][0].toUpperCase() + IDLE_LABELS[cause].slice(1);
  const rows = IDLE.filter((cause) => cause === "unknown" || idle[cause] > 0).map((cause) => ({ name: title(cause), ms: idle[cause] ?? null, token: IDLE_TOKENS[cause] }));
  return rows.sort((a, b) => (b.ms ?? -1) - (a.ms ?? -1));
}

export function build_bars(state_of) {
  document.querySelector("#idle .head").append(el("span", { class: "grow" }), panel_menu({
    name: "Why the GPU idles",
    table: () => ({ columns: ["cause", "ms_per_step"], rows: idle_rows(gpu_uses(state_of(), main_gpu(state_of()))).map((row) => [row.name, row.ms]) }),
    question: () => address(...questions.gpu(state_of(), 2, window_parameter(state_of()))),
  }));
  document.querySelector("#ranks .head").append(el("span", { class: "grow" }), panel_menu({
    name: "Ranks",
    table: () => ({ columns: ["rank", "step_ms", "own_ms", "wait_ms", "batch_elements"], rows: (state_of().ranks?.ranks ?? []).map((r) => [r.rank, r.step_ms, r.own_ms, r.wait_ms, r.batch_elements]) }),
    question: () => address(...questions.ranks(state_of())),
  }));
}

export function render_idle(state) {
  const at = main_gpu(state), uses = gpu_uses(state, at);
  set_hidden($("idle"), !uses);
  if (!uses) return;
  const rows = idle_rows(uses), { gpus } = shown_series(state);
  const sum = rows.reduce((total, row) => total + (row.ms ?? 0), 0);
  set_text($("idle-title"), gpus.length > 1 ? `Why ${gpu_title(gpus[at].device)} idles` : "Why the GPU idles");
  const device = state.hardware?.devices?.find((one) => one.device === gpus[at].device);
  set_text($("idle-total"), `${rows.some((row) => known(row.ms)) ? number(sum) : MISSING} ms per step`);
  bar_table(document.querySelector("#idle .body"), rows);
  const run = run_sentences(device?.run).join("; ");
  const told = [known_sentence(device, state.hardware?.steps), run && `${run_scope(device.run, session_of(state)?.from_file)}: ${run}.`, communication_sentence(device)].filter(Boolean).join(" ");
  set_line($("idle-foot"), told);
}

const CAUSE_TOKEN = { data: "data", "data loading": "data", sync: "sync", communication: "communication" };

export function render_ranks(state) {
  const told = state.ranks;
  const rows = told?.ranks ?? [];
  set_hidden($("ranks"), rows.length < 2);
  if (rows.length < 2) return;
  const slowest = told.slowest?.rank;
  bar_table(document.querySelector("#ranks .body"), rows.map((r) => ({
    name: `Rank ${r.rank}`, note: r.rank === slowest ? ", slowest" : "", ms: r.own_ms ?? r.step_ms,
    token: r.rank === slowest ? CAUSE_TOKEN[told.slowest.cause] ?? "data" : "compute",
  })));
  set_text($("ranks-foot"), ranks_sentence(told));
}

export function ranks_sentence({ slowest, comparable, reason }) {
  if (comparable === false) return reason ?? "The ranks cannot be compared.";
  if (!slowest || !known(slowest.rank)) return reason ?? "No rank stands out.";
  const share = known(slowest.share) ? ` in ${percent(slowest.share > 1 ? slowest.share : 100 * slowest.share, 0)} of steps` : "";
  const by = known(slowest.by_ms) ? `, by ${number(slowest.by_ms)} ms` : "";
  return `Rank ${count(slowest.rank)} arrives last${share}${by}.${slowest.cause ? ` Its cause: ${slowest.cause}.` : ""}`;
}
