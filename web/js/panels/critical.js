// The critical path: what a step waited for from its beginning to its end, on two lanes over its time.

import { KINDS, kind_rows, launched_sentence, piece_text, pieces_of, what_if_sentences } from "../model/critical.js";
import { count, number, plural, time_unit } from "../model/format.js";
import { address, questions } from "../net/api.js";
import { $, el, modified, set_attribute, set_hidden, set_line, set_text } from "../ui/dom.js";
import { panel_menu } from "../ui/menu.js";
import { bar_table } from "./bars.js";

const LANES = [["host", "Host"], ["device", "GPU"]];

let drawn = null, said = null, pieces = [], chosen = -1; // said: what the findings tell already

function choose(at) {
  const strip = $("critical-strip");
  chosen = Math.max(-1, Math.min(pieces.length - 1, at));
  for (const node of strip.querySelectorAll(".chosen")) node.classList.remove("chosen");
  if (chosen >= 0) strip.querySelector(`[data-at="${chosen}"]`).classList.add("chosen");
  set_attribute($("critical-piece"), "title", pieces[chosen]?.short_name ? pieces[chosen].name : null);
  set_text($("critical-piece"), chosen < 0 ? "Point at a piece, or move by the arrow keys." : piece_text(pieces[chosen], time_unit(drawn.step.duration_ms)));
}

function moved(event) {
  const to = { ArrowRight: chosen + 1, ArrowLeft: Math.max(0, chosen - 1), Home: 0, End: pieces.length - 1 }[event.key];
  if (to === undefined || modified(event)) return;
  event.preventDefault();
  event.stopPropagation();
  choose(to);
}

function draw_strip() {
  const strip = $("critical-strip");
  const lanes = LANES.filter(([lane]) => pieces.some((piece) => piece.lane === lane));
  strip.replaceChildren(...lanes.map(([lane, title]) => el("div", { class: "line" }, el("b", {}, title), el("div", { class: "path" },
    ...pieces.map((piece, at) => ({ piece, at })).filter(({ piece }) => piece.lane === lane).map(({ piece, at }) => el("i", {
      dataset: { at }, style: { left: `${100 * piece.from}%`, width: `${100 * piece.share}%`, background: `var(--${KINDS[piece.kind]?.[1] ?? "rest"})` },
    }))))));
  set_attribute(strip, "aria-label", `Critical path of ${plural(pieces.length, "piece")}: ${kind_rows(drawn).map((row) => `${row.name} ${number(row.ms)} ms`).join(", ")}`);
}

/** @param {() => object} state_of */
export function build_critical(state_of) {
  const strip = el("div", { id: "critical-strip", class: "critical", role: "img", tabindex: "0" });
  strip.addEventListener("keydown", moved);
  strip.addEventListener("pointerover", (event) => { if (event.target.dataset?.at) choose(Number(event.target.dataset.at)); });
  document.querySelector("#critical .body").append(strip, el("p", { id: "critical-piece", class: "foot dim", "aria-live": "polite" }), el("div", { id: "critical-kinds" }));
  document.querySelector("#critical .head").append(el("span", { class: "grow" }), panel_menu({
    name: "Critical path",
    table: () => ({ columns: state_of().critical?.path?.columns ?? [], rows: state_of().critical?.path?.points ?? [] }),
    question: () => address(...questions.critical(state_of())),
  }));
}

export function render_critical(state) {
  const told = state.critical;
  const what_if = state.bottlenecks?.what_if?.[0]?.id;
  set_hidden($("critical"), told === null);
  if (told === null || (told === drawn && what_if === said)) return;
  drawn = told;
  said = what_if;
  pieces = pieces_of(told);
  const empty = pieces.length === 0;
  for (const id of ["critical-strip", "critical-piece", "critical-kinds"]) set_hidden($(id), empty);
  set_hidden($("critical-empty"), !empty);
  set_text($("critical-empty"), told.reason ? `${told.reason[0].toUpperCase()}${told.reason.slice(1)}.`.replace(/\.\.$/, ".") : "No step was recorded in full yet.");
  set_text($("critical-note"), empty ? "" : `step ${count(told.step.number)}, the median of ${plural(told.replayed_steps, "step")} recorded in full`);
  set_line($("critical-foot"), empty ? "" : [...what_if_sentences(told, said), launched_sentence(told)].filter(Boolean).join(" "));
  if (empty) return;
  draw_strip();
  bar_table($("critical-kinds"), kind_rows(told));
  choose(-1);
}
