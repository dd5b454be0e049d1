// What every thread was in when the job died, or is in while no step comes.

import { duration_text, known } from "../model/format.js";
import { session_of, was_cut_short } from "../model/store.js";
import { open_path, open_text } from "../model/threads.js";
import { address, questions } from "../net/api.js";
import { $, el, keyed, set_hidden, set_text } from "../ui/dom.js";
import { panel_menu } from "../ui/menu.js";

/** @param {() => object} state_of */
export function build_threads(state_of) {
  document.querySelector("#threads .head").append(el("span", { class: "grow" }), panel_menu({
    name: "What every thread is in",
    table: () => ({ columns: ["thread", "open", "open_for_ms", "idle_for_ms"], rows: (session_of(state_of())?.threads ?? []).map((thread) => [thread.name, open_path(thread), thread.open?.at(-1)?.open_for_ms ?? null, thread.idle_for_ms ?? null]) }),
    question: () => address(...questions.status(state_of())),
  }));
}

/** Asking a hanging trainer for its Python stacks; the answer, or why not and what to type instead. */
function render_stacks(state, offered, actions) {
  if (!$("stacks")) {
    $("thread-list").after(el("div", { class: "foot", id: "stacks" }, el("button", { type: "button", class: "plain", onclick: actions.ask_stacks }, "What Python is doing"), el("pre", { tabindex: "0" }), el("p", { class: "dim" })));
  }
  const told = state.stacks?.session === state.session ? state.stacks : null;
  const [, text, remedy] = $("stacks").children;
  set_hidden($("stacks"), !offered);
  set_hidden(text, !told || Boolean(told.remedy));
  set_hidden(remedy, !told?.remedy);
  set_text(text, told?.text ?? "");
  if (told?.remedy) set_text(remedy, `${told.text}. By hand: ${told.remedy}`);
}

export function render_threads(state, { stale, when, actions }) {
  const session = session_of(state);
  const dead = session && was_cut_short(session);
  const threads = session?.threads ?? [];
  set_hidden($("threads"), !(dead || stale) || threads.length === 0);
  if ($("threads").hidden) return;
  render_stacks(state, stale && session.capabilities?.some((c) => c.source === "stacks" && c.state === "active"), actions);
  set_text($("threads-title"), dead ? "What every thread was in" : "What every thread is in");
  set_text($("threads-note"), dead ? when : "no step since");
  keyed($("thread-list"), threads.map((thread, i) => ({ ...thread, i })), (thread) => thread.i, () => el("li", {}, el("b"), el("span", { class: "dim" }), el("code")), (node, thread) => {
    const [name, time, path] = node.children;
    const inner = thread.open?.at(-1);
    set_text(name, thread.name || "thread");
    const idle = known(thread.idle_for_ms) ? `idle for ${duration_text(thread.idle_for_ms)}` : "";
    set_text(time, inner ? (known(inner.open_for_ms) ? `in it for ${duration_text(inner.open_for_ms)}` : "") : idle);
    set_text(path, open_text(thread, session.ops_recorded));
  });
}
